//! State that outlives its root: `/run` is the same after a soft reboot, the deployment or its mounts are not. And what
//! another boot left on disk.

use crate::outside::{everything, install};
use crate::scenario::Scenario;
use testkit::picture::Picture;

fn status(s: &Scenario) -> serde_json::Value {
    serde_json::from_str(&s.ok(&["status", "--json"])).unwrap()
}

/// Without `/boot`, in which a new deployment has its entries.
fn differences(first: &Picture, now: &Picture) -> Vec<String> {
    let mut lines = now.differences(first);
    lines.retain(|l| !l[2..].starts_with("/boot"));
    lines
}

/// Into a new deployment, whose `/etc` has our links by the merge, and into the same one: nothing is layered, status says
/// so and what is left over, and the next change, a reset or the boot unit takes it away.
#[test]
fn left_over_state_is_told_and_removed() {
    for new in [true, false] {
        for verb in ["install", "reset", "clean-boot"] {
            let mut s = Scenario::unsigned();
            let first = s.host.picture().unwrap();
            install(&s, &[&everything("1")]);
            s.sh("echo edited >> /etc/every.conf");
            s.host.soft_reboot(new).unwrap();
            let case = format!("new deployment {new}, {verb}");
            s.sh("test -L /etc/every.conf && ! rpm -q everything && test ! -e /usr/share/every");
            let left = status(&s);
            assert_eq!(left["status"]["generation"], 0, "{case}");
            assert_eq!(left["status"]["leftOver"], 1, "{case}: {left}");
            assert_eq!(left["status"]["rollback"], serde_json::Value::Null, "{case}");
            assert!(s.ok(&["status"]).contains("Generation 1 is live no more"), "{case}");
            let text = s.fails(&["verify"], 84);
            assert!(text.contains("another boot or deployment") && text.contains("/etc/every.conf"), "{case}: {text}");
            let text = match verb {
                "install" => s.ok(&["install", "--nogpgcheck", "a"]),
                verb => s.ok(&[verb]),
            };
            assert!(text.contains("/etc/every.conf.save"), "{case}: {text}");
            s.ok(&["verify"]);
            assert_eq!(status(&s)["status"]["leftOver"], serde_json::Value::Null, "{case}");
            if verb == "install" {
                s.sh("rpm -q a");
                s.ok(&["reset"]);
            }
            s.sh("grep -q edited /etc/every.conf.save && rm /etc/every.conf.save");
            s.sh("test ! -e /run/rpm-ostree-transient/store && ! ls /run/ostree/deployment-state/*/unlocked-transient 2>/dev/null");
            assert_eq!(differences(&first, &s.host.picture().unwrap()), Vec::<String>::new(), "{case}");
        }
    }
}

/// Rolled back to the base before the soft reboot, there is nothing to roll back to afterwards; and a run that was killed
/// does not bring its generation into the new root.
#[test]
fn generations_do_not_come_along() {
    let mut s = Scenario::unsigned();
    install(&s, &[&everything("1")]);
    s.ok(&["rollback"]);
    assert_eq!(status(&s)["status"]["rollback"], 1);
    s.host.soft_reboot(false).unwrap();
    assert_eq!(status(&s)["status"]["rollback"], serde_json::Value::Null);
    s.fails(&["rollback"], 74);
    s.ok(&["verify"]);

    let first = s.host.picture().unwrap();
    install(&s, &[&everything("1")]);
    s.kill_at("before-swap", &["install", "--nogpgcheck", "b"]);
    s.host.soft_reboot(false).unwrap();
    s.fails(&["rollback"], 74);
    s.ok(&["verify"]);
    assert_eq!(s.host.picture().unwrap(), first);
}

/// The boot unit's program does what the cleaner would, also where a merge carried links and no cleaner, and leaves alone
/// what is not ours.
#[test]
fn clean_boot_sweeps() {
    let mut s = Scenario::unsigned();
    let first = s.host.picture().unwrap();
    assert_eq!(s.ok(&["clean-boot"]), "");
    install(&s, &[&everything("1")]);
    s.ok(&["clean-boot"]);
    s.ok(&["verify"]);
    let unit = "/etc/systemd/system/rpm-ostree-transient-clean.service";
    // The cleaner's own run at boot is kept from happening.
    s.sh(&format!("mv {unit} {unit}.kept"));
    s.host.reboot().unwrap();
    s.sh(&format!("mv {unit}.kept {unit}; test -L /etc/every.conf -a -d /var/lib/every -a -L /opt/every"));
    s.sh("rm /etc/every.conf; echo mine > /etc/every.conf; echo mine > /var/lib/made/mine");
    s.sh("ln -s /run/rpm-ostree-transient/etc/x /etc/merged; ln -s /run/other /etc/other");
    let text = s.ok(&["clean-boot"]);
    assert!(text.contains("Removed /etc/merged") && text.contains("Removed /var/lib/every\n"), "{text}");
    assert!(!text.contains("/etc/every.conf") && !text.contains("/var/lib/made"), "{text}");
    assert_eq!(s.ok(&["clean-boot"]), "");
    s.sh("grep -q mine /etc/every.conf && grep -q mine /var/lib/made/mine && test -L /etc/other");
    s.sh("rm /etc/every.conf /etc/other; rm -r /var/lib/made");
    s.ok(&["verify"]);
    assert_eq!(s.host.picture().unwrap(), first);
}
