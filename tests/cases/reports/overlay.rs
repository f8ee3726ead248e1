//! What the overlay shows of base and layer.

use crate::Rig;
use testkit::packages::{Content, Package};

/// A text file of the base that a package owns, and the package.
const BASE_FILE: &str = "rpm -ql bash | grep '^/usr/share/.*/' | while read f; do test -f $f && echo $f && break; done";

/// ostreedev/ostree#762, systemd/systemd#34387: the root of the overlay and every directory that the layer only passes
/// through look as in the base, whatever the caller's umask is.
#[test]
fn case_06_labels_and_modes_of_base_directories() {
    let r = Rig::new();
    let usr = r.base_usr();
    for (dir, label) in [("", "usr_t"), ("bin", "bin_t"), ("lib", "lib_t"), ("share", "usr_t"), ("share/doc", "doc_t")]
    {
        // Directories are the host's own, where files are shared with others.
        let path = usr.join(dir);
        let label = format!("system_u:object_r:{label}:s0");
        testkit::tool(std::process::Command::new("setfattr").args(["-n", "security.selinux", "-v", &label]).arg(&path))
            .unwrap();
    }
    let directories = || {
        let list = r.sh("find /usr -xdev -type d -printf '%m %U %G %p\\0' | LC_ALL=C sort -z | tr '\\0' '\\n'");
        list + &r.sh("getfattr -hd -m security.selinux /usr /usr/bin /usr/lib /usr/share /usr/share/doc 2>&1")
    };
    let before = directories();
    assert!(before.contains("bin_t"), "{before}");
    let package = Package::new("passes", "1")
        .program("/usr/bin/passes", "#!/bin/sh\n")
        .file("/usr/lib/passes/x", "x")
        .file("/usr/share/doc/passes/x", "x");
    let files = r.build(&[&package]);
    r.sh(&format!("umask 077; rpm-ostree-transient install --disablerepo='*' --nogpgcheck {}", files[0]));
    let after = directories();
    let new = ["/usr/lib/passes", "/usr/share/doc/passes"];
    let rest: Vec<&str> = after.lines().filter(|l| !new.iter().any(|n| l.ends_with(n))).collect();
    assert_eq!(rest, before.lines().collect::<Vec<_>>());
    assert_eq!(r.sh("stat -c '%a %U' /usr/lib/passes /usr/bin/passes").trim(), "755 root\n755 root");
}

/// coreos/fedora-coreos-tracker#1744: coming and going again and again changes nothing of the base.
#[test]
fn case_10_three_times_in_and_out() {
    let r = Rig::new();
    let first = r.picture();
    let package = Package::new("again", "1").program("/usr/bin/again", "#!/bin/sh\n").file("/usr/share/doc/again", "x");
    let files = r.build(&[&package]);
    for round in 1..=3 {
        r.install(&files);
        let layered = r.picture();
        let rpmdb = |p: &std::path::Path| p.starts_with("usr/share/rpm");
        let differs: Vec<_> = first.differing(&layered).into_iter().filter(|p| !rpmdb(p)).collect();
        let new = ["usr/bin/again", "usr/share/doc/again"].map(std::path::Path::new);
        assert_eq!(differs, new, "round {round}");
        r.ok(&["uninstall", "again"]);
        assert_eq!(r.picture(), first, "round {round}");
    }
}

/// ostreedev/ostree#2568, opencontainers/umoci#572: nothing in a package deletes a base file, by device, attribute or
/// name; a file that covers one of the base uncovers it when it goes.
#[test]
fn case_16_whiteouts() {
    let Some((r, corpus)) = Rig::with_corpus() else { return };
    let text = r.refused(&[r.place(&corpus, "made/evil-whiteout")], 78);
    assert!(text.contains("/usr/bin/bash") && text.contains("device"), "{text}");
    let before = r.sh("find /usr -xdev | LC_ALL=C sort");
    let names = r.place(&corpus, "made/evil-wh-names");
    r.install(std::slice::from_ref(&names));
    let after = r.sh("find /usr -xdev | LC_ALL=C sort");
    let gone: Vec<&str> = before.lines().filter(|l| !after.lines().any(|a| a == *l)).collect();
    assert_eq!(gone, Vec::<&str>::new());
    // The names are there as what they are.
    let list = "rpm -qp --nosignature --qf '[%{FILENAMES}\\n]'";
    assert!(r.sh(&format!("{list} {names} | grep -c '/\\.wh\\.'")).trim() != "0");
    r.sh(&format!("{list} {names} | grep '/\\.wh\\.' | while IFS= read -r f; do test -e \"$f\" || exit 1; done"));

    let path = r.sh(BASE_FILE).trim().to_owned();
    let base = r.sh(&format!("sha256sum {path}; stat -c '%a %Y' {path}"));
    let covers = r.build(&[&Package::new("covers", "1").file(&path, "layered\n")]);
    r.ok(&["install", "--disablerepo=*", "--nogpgcheck", "--force-replacefiles", &covers[0]]);
    assert_eq!(r.sh(&format!("cat {path}")), "layered\n");
    r.ok(&["uninstall", "covers"]);
    assert_eq!(r.sh(&format!("sha256sum {path}; stat -c '%a %Y' {path}")), base);
}

/// ublue-os/bluefin#4048, coreos/rpm-ostree#1047: a path that the base has already.
#[test]
fn case_28_paths_of_the_base() {
    let r = Rig::new();
    let path = r.sh(BASE_FILE).trim().to_owned();
    let content = std::fs::read_to_string(r.host.root().join(&path[1..])).unwrap();
    let mode = u32::from_str_radix(r.sh(&format!("stat -c %a {path}")).trim(), 8).unwrap();
    let equal = Package::new("equal", "1").any_file(&path, Content::Text(content), mode, "");
    let other = Package::new("other", "1").file(&path, "other\n");
    let (equal, other) = (r.build(&[&equal]), r.build(&[&other]));
    let base = r.sh(&format!("sha256sum {path}"));
    r.install(&equal);
    assert_eq!(r.sh(&format!("sha256sum {path}")), base);
    let text = r.refused(&other, 81);
    assert!(text.contains(&path) && text.contains("bash") && text.contains("--force-replacefiles"), "{text}");
    r.ok(&["reset"]);
    r.ok(&["install", "--disablerepo=*", "--nogpgcheck", "--force-replacefiles", &other[0]]);
    assert_eq!(r.sh(&format!("cat {path}")), "other\n");
    r.ok(&["uninstall", "other"]);
    assert_eq!(r.sh(&format!("sha256sum {path}")), base);
}

/// coreos/rpm-ostree#365: two requested packages with one path.
#[test]
fn case_29_one_path_of_two_packages() {
    let r = Rig::new();
    let package = |name: &str, text: &str| Package::new(name, "1").file("/usr/app/conflict", text);
    let text = r.refused(&r.build(&[&package("first", "one\n"), &package("second", "two\n")]), 81);
    assert!(["/usr/app/conflict", "first-1-1", "second-1-1"].iter().all(|w| text.contains(w)), "{text}");
    r.install(&r.build(&[&package("third", "same\n"), &package("fourth", "same\n")]));
    assert_eq!(r.sh("cat /usr/app/conflict; rpm -V third fourth"), "same\n");
}
