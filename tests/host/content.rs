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

/// A file of the base, below `/usr/share`, that a package owns.
fn base_file(s: &Scenario) -> String {
    let first = "rpm -ql bash | grep '^/usr/share/.*/' | while read f; do test -f $f && echo $f && break; done";
    s.sh(first).trim().to_owned()
}

/// A base file that two layered packages replaced keeps their bytes until the last of them goes.
#[test]
fn replaced_base_files_come_back_with_their_last_owner() {
    let s = Scenario::unsigned();
    let path = base_file(&s);
    let base = s.sh(&format!("sha256sum {path}"));
    let package = |name: &str| Package::new(name, "1").file(&path, "layered\n");
    let (one, two) = (package("one"), package("two"));
    build(&s, &[one.clone(), two.clone()]);
    let (one, two) = (file(&one), file(&two));
    let text = s.fails(&["install", "--nogpgcheck", &one], 81);
    assert!(text.contains(&path) && text.contains("bash"), "{text}");
    s.ok(&["install", "--nogpgcheck", "--force-replacefiles", &one, &two]);
    assert_eq!(s.sh(&format!("cat {path}")), "layered\n");
    s.ok(&["uninstall", "one"]);
    assert_eq!(s.sh(&format!("cat {path}")), "layered\n");
    // Another package stays, so that there is still a layer.
    s.ok(&["install", "--nogpgcheck", "a"]);
    s.ok(&["uninstall", "two"]);
    assert_eq!(s.sh(&format!("sha256sum {path}")), base);
}

/// librpm leaves a file alone that a base package owns too. Its layered bytes must not outlive their package.
#[test]
fn a_shared_file_goes_with_its_layered_owner() {
    let s = Scenario::unsigned();
    let path = base_file(&s);
    let base = s.sh(&format!("sha256sum {path}"));
    let ghost = Package::new("ghost", "1")
        .any_file(&path, Content::Text("layered\n".into()), 0o644, "%ghost")
        .scriptlet("post", &format!("echo written > {path}"));
    build(&s, std::slice::from_ref(&ghost));
    s.ok(&["install", "--nogpgcheck", "a"]);
    s.ok(&["install", "--nogpgcheck", &file(&ghost)]);
    assert_eq!(s.sh(&format!("cat {path}")), "written\n");
    s.ok(&["uninstall", "ghost"]);
    assert_eq!(s.sh(&format!("sha256sum {path}")), base);
}

/// Modes, owners and links arrive; what a scriptlet removes of the base stays, and status says so.
#[test]
fn attributes_arrive_and_the_base_stays() {
    let s = Scenario::unsigned();
    let path = base_file(&s);
    let directory = path.rsplit_once('/').unwrap().0;
    let script = format!(
        "ln /usr/bin/odd-suid /usr/bin/odd-link; chgrp daemon /usr/bin/odd-suid; chmod 4711 /usr/bin/odd-suid\n\
         rm -rf {directory}; rm -f /usr/lib/os-release; test ! -e {path}"
    );
    let package = Package::new("odd", "1").program("/usr/bin/odd-suid", "#!/bin/sh\n").scriptlet("post", &script);
    build(&s, std::slice::from_ref(&package));
    let listing = format!("find {directory} -printf '%p %m %T@\\n' | sort; stat -c '%a %Y' /usr/lib/os-release");
    let before = s.sh(&listing);
    s.ok(&["install", "--nogpgcheck", &file(&package)]);
    assert_eq!(s.sh("stat -c '%a %U:%G %h' /usr/bin/odd-link"), "4711 root:daemon 2\n");
    assert_eq!(s.sh(&listing), before);
    let status = s.ok(&["status", "--json"]);
    assert!(status.contains(&format!("\"{directory}\"")) && status.contains("\"/usr/lib/os-release\""), "{status}");
}
