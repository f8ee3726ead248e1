//! What a layer holds, and what of the base comes back.

use crate::scenario::Scenario;
use testkit::packages::{Content, Package};

/// Local packages, built into the host's `/var/packages`.
fn build(s: &Scenario, packages: &[Package]) {
    let dir = s.host.root().join("var/packages");
    std::fs::create_dir_all(&dir).unwrap();
    for package in packages {
        package.build(&dir).unwrap();
    }
}

fn file(package: &Package) -> String {
    format!("/var/packages/{}", package.file_name())
}

/// A base file that two layered packages replaced keeps their bytes until the last of them goes.
#[test]
fn replaced_base_files_come_back_with_their_last_owner() {
    let s = Scenario::unsigned();
    let path = s.sh("rpm -ql bash | grep '^/usr/share' | while read f; do test -f $f && echo $f && break; done");
    let path = path.trim();
    let base = s.sh(&format!("sha256sum {path}"));
    let package = |name: &str| Package::new(name, "1").file(path, "layered\n");
    let (one, two) = (package("one"), package("two"));
    build(&s, &[one.clone(), two.clone()]);
    let (one, two) = (file(&one), file(&two));
    let text = s.fails(&["install", "--nogpgcheck", &one], 81);
    assert!(text.contains(path) && text.contains("bash"), "{text}");
    s.ok(&["install", "--nogpgcheck", "--force-replacefiles", &one, &two]);
    assert_eq!(s.sh(&format!("cat {path}")), "layered\n");
    s.ok(&["uninstall", "one"]);
    assert_eq!(s.sh(&format!("cat {path}")), "layered\n");
    // Another package stays, so that there is still a layer.
    s.ok(&["install", "--nogpgcheck", "a"]);
    s.ok(&["uninstall", "two"]);
    assert_eq!(s.sh(&format!("sha256sum {path}")), base);
}

/// Modes, capabilities and links arrive; what a scriptlet removes of the base stays, and status says so.
#[test]
fn attributes_arrive_and_the_base_stays() {
    let s = Scenario::unsigned();
    let package = Package::new("odd", "1")
        .any_file("/usr/bin/odd-suid", Content::Text("#!/bin/sh\n".into()), 0o4711, "%attr(4711,root,daemon)")
        .scriptlet(
            "post",
            "rm -f /usr/bin/bashbug /usr/share/bash-gone; ln /usr/bin/odd-suid /usr/bin/odd-link\n\
             setcap cap_net_raw=ep /usr/bin/odd-cap 2>/dev/null || :; rm -rf /usr/share/doc/bash",
        );
    build(&s, &[package.clone()]);
    let before = s.sh("find /usr/share/doc/bash | sort");
    s.ok(&["install", "--nogpgcheck", &file(&package)]);
    assert_eq!(s.sh("stat -c '%a %U:%G %h' /usr/bin/odd-suid"), "4711 root:daemon 2\n");
    assert_eq!(s.sh("find /usr/share/doc/bash | sort"), before);
    assert!(s.ok(&["status"]).contains("/usr/share/doc/bash"));
}
