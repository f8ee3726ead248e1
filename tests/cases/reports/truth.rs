//! Database, tree and status, at every moment.

use crate::Rig;
use std::collections::BTreeSet;
use testkit::packages::{Content, Package};

/// What the database has besides the base.
fn layered(r: &Rig, base: &BTreeSet<String>) -> BTreeSet<String> {
    all(r).difference(base).cloned().collect()
}

fn all(r: &Rig) -> BTreeSet<String> {
    r.sh("rpm -qa --qf '%{nevra}\\n'").lines().map(str::to_owned).collect()
}

/// ComplianceAsCode/content#6776, coreos/rpm-ostree#1791, systemd/systemd#32007: database and tree agree while packages
/// come and go; afterwards neither knows of them, and a new deployment does not either.
#[test]
fn case_51_database_and_tree() {
    let mut r = Rig::new();
    let first = r.picture();
    let hash = r.host.persistent_hash().unwrap();
    let base = all(&r);
    let package = |name: &str| {
        Package::new(name, "1")
            .file(&format!("/usr/share/{name}/data"), "data\n")
            .program(&format!("/usr/bin/{name}"), "#!/bin/sh\n")
            .config(&format!("/etc/{name}.conf"), "key=value\n")
            .file(&format!("/var/lib/{name}/state"), "state\n")
            .any_file(&format!("/var/log/{name}.log"), Content::Text(String::new()), 0o644, "%ghost")
    };
    let packages = ["one", "two", "three"].map(package);
    let agree = |r: &Rig, names: &[&str]| {
        let wanted: BTreeSet<String> = names.iter().map(|n| format!("{n}-1-1.noarch")).collect();
        assert_eq!(layered(r, &base), wanted);
        assert_eq!(r.listed("packages", "nevra").into_iter().collect::<BTreeSet<_>>(), wanted);
        for name in names {
            // Ghosts and configuration aside.
            assert_eq!(r.sh(&format!("rpm -V {name} | grep -v -e '  c /' -e '  g /' || :")), "");
            r.sh(&format!("rpm -ql {name} | grep -v '[.]log$' | while read -r f; do test -e $f || exit 1; done"));
            let owner = format!("rpm -qf /usr/bin/{name} /etc/{name}.conf /var/lib/{name}/state | sort -u");
            assert_eq!(r.sh(&owner).trim(), format!("{name}-1-1.noarch"));
        }
        // Files of the layer that nobody owns: the database itself aside, there are none.
        let diff = r.ok(&["diff", "--json"]);
        let diff: serde_json::Value = serde_json::from_str(&diff).unwrap();
        for path in diff["paths"].as_array().unwrap().iter().map(|p| p["path"].as_str().unwrap()) {
            if !path.starts_with("/usr/share/rpm/") {
                let owned = format!(
                    "test -d {path} -a ! -L {path} || rpm -qf {path} || rpm -qf {}",
                    path.replacen("/usr/etc", "/etc", 1)
                );
                r.sh(&owned);
            }
        }
    };
    let files = r.build(&[&packages[0], &packages[1], &packages[2]]);
    agree(&r, &[]);
    r.install(&files[..1]);
    agree(&r, &["one"]);
    r.install(&files[1..]);
    agree(&r, &["one", "two", "three"]);
    r.ok(&["uninstall", "two"]);
    agree(&r, &["one", "three"]);
    r.ok(&["rollback"]);
    agree(&r, &["one", "two", "three"]);
    // The persistent side has none of it.
    assert_eq!(r.host.persistent_hash().unwrap(), hash);
    r.host.reboot().unwrap();
    agree(&r, &[]);
    assert_eq!(r.picture(), first);
    // Nothing comes back by itself.
    r.ok(&["status"]);
    r.host.reboot().unwrap();
    agree(&r, &[]);
}
