//! `verify`: silent about what holds, and names whatever does not.

use crate::outside::{everything, install};
use crate::scenario::Scenario;
use testkit::packages::Package;

fn verify(s: &Scenario) -> (i32, String) {
    let out = s.run(&["verify"]);
    (out.status, out.stdout + &out.stderr)
}

#[track_caller]
fn holds(s: &Scenario) -> String {
    let (status, text) = verify(s);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("Everything holds"), "{text}");
    text
}

/// Each fault is made by hand, must be named with its place, and is gone when it is taken back.
#[test]
fn names_each_fault() {
    let s = Scenario::unsigned();
    s.sh("test ! -e /run/rpm-ostree-transient");
    assert!(holds(&s).contains("nothing is layered"));
    s.sh("test ! -e /run/rpm-ostree-transient");
    install(&s, &[&everything("1")]);
    assert_eq!(holds(&s), "Everything holds (generation 1).\n");
    let store = "/run/rpm-ostree-transient/store";
    let file = format!("{store}/generations/1/packages/share/every");
    let unit = "/etc/systemd/system/rpm-ostree-transient-clean.service";
    let wants = "/etc/systemd/system/sysinit.target.wants/rpm-ostree-transient-clean.service";
    let mark = "/run/ostree/deployment-state/*/unlocked-transient";
    for (promise, what, make, unmake) in [
        (
            1,
            "somebody else's mount is on /usr",
            "mount --bind /sysroot/ostree/deploy/testos/deploy/*.0/usr /usr".into(),
            "umount -l /usr".into(),
        ),
        (
            1,
            "the parked base is gone",
            format!("umount {store}/base"),
            format!(
                "mount --bind -o ro /sysroot/ostree/deploy/testos/deploy/*.0/usr {store}/base && mount --make-private {store}/base"
            ),
        ),
        (3, "/etc/every.conf", "mv /etc/every.conf /tmp/link".into(), "mv /tmp/link /etc/every.conf".into()),
        (3, "/var/lib/left", "ln -s /run/rpm-ostree-transient/x /var/lib/left".into(), "rm /var/lib/left".into()),
        (3, "/mnt", "mount --bind /run/rpm-ostree-transient/var /mnt".into(), "umount /mnt".into()),
        (
            3,
            "/var/lib/every",
            "umount /var/lib/every".into(),
            "mount --bind /run/rpm-ostree-transient/var/lib/every /var/lib/every".into(),
        ),
        (
            3,
            "unlocked-transient",
            format!("mv {mark} /tmp/mark"),
            "mv /tmp/mark $(echo /run/ostree/deployment-state/*)/unlocked-transient".into(),
        ),
        (3, unit, format!("cp {unit} /tmp/unit; echo '# other' >> {unit}"), format!("cp /tmp/unit {unit}")),
        (3, "sysinit.target.wants", format!("mv {wants} /tmp/wants"), format!("mv /tmp/wants {wants}")),
        (
            5,
            "/usr/share/every: a file of the layer",
            format!("cp -a {file} /tmp/file; echo other > {file}"),
            format!("cp -a /tmp/file {file}"),
        ),
        (
            5,
            "transient origin",
            "cp /run/rpm-ostree-transient/origin /tmp/o; : > /run/rpm-ostree-transient/origin".into(),
            "cp /tmp/o /run/rpm-ostree-transient/origin".into(),
        ),
        (
            5,
            "status.json",
            "sed -i.old s/everything-1-1/nothing-1-1/ /run/rpm-ostree-transient/status-1.json".into(),
            "mv /run/rpm-ostree-transient/status-1.json.old /run/rpm-ostree-transient/status-1.json".into(),
        ),
    ] {
        s.sh(&make);
        let (status, text) = verify(&s);
        assert_eq!(status, 84, "{make}: {text}");
        assert!(text.contains(&format!("promise {promise}: ")) && text.contains(what), "{make}: {text}");
        s.sh(&unmake);
        holds(&s);
    }
    // A package that is not what it says.
    let loses = Package::new("loses", "1").file("/usr/share/loses", "x").scriptlet("post", "rm /usr/share/loses");
    install(&s, &[&loses]);
    let (status, text) = verify(&s);
    assert!(status == 84 && text.contains("expected the file of loses-1-1.noarch, found nothing"), "{text}");
    s.ok(&["uninstall", "loses"]);
    holds(&s);
    // Another's program changes refs: named, with what explains it.
    let head = s.host.sysroot().join("ostree/repo/refs/heads/other");
    std::fs::write(&head, "0123\n").unwrap();
    let (status, text) = verify(&s);
    assert!(status == 84 && text.contains("promise 4: /ostree/repo/refs/heads/other"), "{text}");
    install(&s, &[&everything("2")]);
    holds(&s);
    std::fs::remove_file(&head).unwrap();
    install(&s, &[&everything("1")]);

    // What an administrator may do is told, and no fault.
    s.sh("rm /etc/every.conf; echo real > /etc/every.conf; rmdir /run/every; echo more >> /etc/every.d/one.conf");
    let text = holds(&s);
    assert!(text.contains("note: /etc/every.conf") && text.contains("note: /run/every"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&s.run(&["verify", "--json"]).stdout).unwrap();
    assert_eq!((json["kind"].as_str(), json["holds"].as_bool()), (Some("Verification"), Some(true)), "{json}");
    assert_eq!(json["notes"].as_array().unwrap().len(), 2);
    s.ok(&["reset"]);
    holds(&s);
    s.sh("ln -s /run/rpm-ostree-transient/x /etc/left");
    let (status, text) = verify(&s);
    assert!(status == 84 && text.contains("/etc/left"), "{text}");
}

/// A killed run is told as what it is, and needs root to be looked at.
#[test]
fn unfinished_and_not_root() {
    let s = Scenario::unsigned();
    install(&s, &[&everything("1")]);
    s.kill_at("before-swap", &["rollback"]);
    let (status, text) = verify(&s);
    assert!(status == 84 && text.contains("promise 2: ") && text.contains("rollback"), "{text}");
    s.ok(&["install", "--nogpgcheck", "a"]);
    holds(&s);
    let out = s.sh("setpriv --reuid 65534 --clear-groups rpm-ostree-transient verify 2>&1; test $? = 65");
    assert!(out.contains("needs root"), "{out}");
}
