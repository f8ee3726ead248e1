//! What the administrator does while a layer lives: it survives the layer, or is saved and named.

use crate::outside::{everything, install};
use crate::scenario::Scenario;
use testkit::packages::Package;

fn other(version: &str) -> Package {
    Package::new("other", version).config("/etc/other.conf", "other\n")
}

/// Modes are edits too; a saved copy is never written over; an edit goes through upgrade and rollback.
#[test]
fn copies_through_every_change() {
    let s = Scenario::unsigned();
    let first = s.host.picture().unwrap();
    install(&s, &[&everything("1")]);
    s.sh("echo edited >> /etc/every.conf");
    install(&s, &[&everything("2")]);
    s.ok(&["rollback"]);
    s.sh("grep -q edited /etc/every.conf && chmod 600 /etc/every.d/one.conf");
    install(&s, &[&other("1")]);
    s.sh("test $(stat -L -c %a /etc/every.d/one.conf) = 600");
    s.ok(&["verify"]);
    let text = s.ok(&["uninstall", "everything"]);
    assert!(text.contains("/etc/every.conf.save") && text.contains("/etc/every.d/one.conf.save"), "{text}");
    s.sh("grep -q edited /etc/every.conf.save && test $(stat -c %a /etc/every.d/one.conf.save) = 600");
    install(&s, &[&everything("1")]);
    s.sh("! grep -q edited /etc/every.conf && echo again >> /etc/every.conf");
    s.ok(&["verify"]);
    let text = s.ok(&["reset"]);
    assert!(text.contains("/etc/every.conf.save.2"), "{text}");
    s.sh("grep -q edited /etc/every.conf.save && grep -q again /etc/every.conf.save.2");
    s.sh("rm -r /etc/every.conf.save /etc/every.conf.save.2 /etc/every.d");
    assert_eq!(s.host.picture().unwrap(), first);
}

/// What was removed stays removed over later installs, and a directory that took the place of a link is not touched.
#[test]
fn removed_and_replaced_links() {
    let s = Scenario::unsigned();
    let first = s.host.picture().unwrap();
    install(&s, &[&everything("1")]);
    s.sh("rm /etc/every.conf; cp -rL /etc/every.d /tmp/d; rm /etc/every.d; mv /tmp/d /etc/every.d; echo mine > /etc/every.d/mine");
    for version in ["1", "2"] {
        install(&s, &[&other(version)]);
        s.sh("test ! -L /etc/every.conf -a ! -e /etc/every.conf && test ! -L /etc/every.d");
        s.ok(&["verify"]);
    }
    install(&s, &[&everything("2")]);
    s.sh("grep -q mine /etc/every.d/mine && grep -q one=1 /etc/every.d/one.conf");
    s.ok(&["reset"]);
    s.sh("grep -q mine /etc/every.d/mine && grep -q one=1 /etc/every.d/one.conf && rm -r /etc/every.d; rm -f /etc/every.conf.save");
    assert_eq!(s.host.picture().unwrap(), first);
}

/// Accounts of the administrator and of the layer do not meet, and the host's files are the administrator's alone.
#[test]
fn accounts_beside_those_of_the_layer() {
    let s = Scenario::unsigned();
    let accounts = "cat /etc/passwd /etc/group /etc/shadow /etc/gshadow | sha256sum";
    let untouched = s.sh(accounts);
    s.ok(&["install", "--nogpgcheck", "greet-user"]);
    assert_eq!(s.sh(accounts), untouched);
    let layered = s.sh("id -u greeter");
    s.sh("useradd -r -M -d /nonexistent admin && usermod -c Edited daemon");
    let (own, edited) = (s.sh("id -u admin"), s.sh(accounts));
    assert_ne!(own, layered);
    let second = Package::new("second", "1").file("/usr/share/second", "x").scriptlet("pre", "useradd -r -M second");
    install(&s, &[&second]);
    let ids = s.sh("id -u admin; id -u greeter; id -u second");
    let unique: std::collections::BTreeSet<&str> = ids.lines().collect();
    assert!(unique.len() == 3 && ids.starts_with(&own), "{ids}");
    s.ok(&["reset"]);
    assert_eq!(s.sh(accounts), edited);
    s.sh("grep -q Edited /etc/passwd && ! getent passwd greeter && ! getent passwd second");
    s.ok(&["install", "--nogpgcheck", "greet-user"]);
    assert_ne!(s.sh("id -u greeter"), own);
    assert_eq!(s.sh("id -u admin"), own);
    s.ok(&["verify"]);
}
