//! Acceptance 6: a run killed at any step leaves exactly the old or exactly the new state, and the next run works.

use crate::scenario::Scenario;

/// Every failpoint of the pipeline in its order, and whether the change is visible once it is reached.
const STEPS: &[(&str, bool)] = &[
    ("resolved", false),
    ("fetched", false),
    ("admitted", false),
    ("staged", false),
    ("harvested", false),
    ("sealed", false),
    ("journaled", false),
    ("before-swap", false),
    ("swapped", true),
    ("settled", true),
    ("recorded", true),
];

/// The listing that tells old from new: every path of `/usr` that the packages bring.
fn usr(s: &Scenario) -> String {
    s.sh("cd /usr && find . -xdev -printf '%p %y %m %U %G %s %l\\n' | grep -v -e rpmdb | LC_ALL=C sort")
}

fn generation(s: &Scenario) -> u64 {
    let status: serde_json::Value = serde_json::from_str(&s.ok(&["status", "--json"])).unwrap();
    status["status"]["generation"].as_u64().unwrap()
}

/// Kills a second install (with one live already) and a first one at every step.
#[test]
fn killed_at_every_step() {
    for first in [false, true] {
        let s = Scenario::signed();
        if !first {
            s.ok(&["install", "a"]);
        }
        let old = usr(&s);
        s.ok(&["install", "b"]);
        let new = usr(&s);
        s.ok(&["uninstall", "b"]);
        if first {
            s.ok(&["reset"]);
        }
        assert_eq!(usr(&s), old);
        for (step, visible) in STEPS {
            let from = generation(&s);
            s.kill_at(step, &["install", "-C", "b"]);
            let now = usr(&s);
            assert_eq!(&now, if *visible { &new } else { &old }, "killed at {step}");
            assert_eq!(generation(&s) != from, *visible, "status after a kill at {step}");
            s.sh(&format!("rpm -q b {}", if *visible { "" } else { "&& exit 1 || :" }));
            assert_eq!(s.sh("pgrep -f stage-worker || :").trim(), "", "processes after a kill at {step}");
            // The next run works without help.
            s.ok(&["install", "-C", "--idempotent", "b"]);
            assert_eq!(usr(&s), new, "the run after a kill at {step}");
            s.sh("test ! -e /run/rpm-ostree-transient/store/journal.json");
            assert_eq!(s.sh("grep -c ' - overlay rpm-ostree-transient:' /proc/self/mountinfo").trim(), "1");
            if first {
                s.ok(&["reset"])
            } else {
                s.ok(&["uninstall", "b"])
            };
            assert_eq!(usr(&s), old, "undone after a kill at {step}");
        }
    }
}

/// What is layered, as the database has it and as status tells it.
fn layered(s: &Scenario, base: &str) -> (String, String) {
    let found = s.sh("rpm -qa --qf '%{nevra}\n' | LC_ALL=C sort");
    let found: Vec<&str> = found.lines().filter(|l| !base.lines().any(|b| b == *l)).collect();
    let status: serde_json::Value = serde_json::from_str(&s.ok(&["status", "--json"])).unwrap();
    let packages = status["status"]["packages"].as_array().unwrap();
    let mut told: Vec<&str> = packages.iter().map(|p| p["nevra"].as_str().unwrap()).collect();
    told.sort_unstable();
    (found.join(" "), told.join(" "))
}

/// Status, database and tree say the same after each kill, and the way back leads to where it leads without one.
#[test]
fn told_truly_after_every_kill() {
    let s = Scenario::signed();
    let base = s.sh("rpm -qa --qf '%{nevra}\n'");
    s.ok(&["install", "a"]);
    s.ok(&["install", "--download-only", "b"]);
    for (step, visible) in STEPS {
        for (verb, args) in [("install", &["install", "-C", "b"][..]), ("rollback", &["rollback"])] {
            if verb == "rollback" {
                if ["resolved", "fetched", "admitted", "staged", "harvested", "sealed"].contains(step) {
                    continue;
                }
                s.ok(&["install", "-C", "b"]);
            }
            s.kill_at(step, args);
            let (found, told) = layered(&s, &base);
            assert_eq!(found, told, "{verb} killed at {step}");
            assert_eq!(found.contains("b-1.0"), *visible == (verb == "install"), "{verb} killed at {step}: {found}");
            if found.contains("b-1.0") {
                s.ok(&["rollback"]);
            } else {
                // Repairs, so that the next run is not held while it does so.
                s.ok(&["install", "-C", "--idempotent", "a"]);
            }
            assert_eq!(layered(&s, &base), ("a-1.0-1.noarch".into(), "a-1.0-1.noarch".into()));
        }
    }
}

/// An error instead of a kill: undone at once.
#[test]
fn failing_at_every_step() {
    let s = Scenario::signed();
    s.ok(&["install", "a"]);
    s.ok(&["install", "--download-only", "b"]);
    let old = usr(&s);
    let mounts = s.sh("cat /proc/self/mountinfo | wc -l");
    for (step, _) in STEPS.iter().filter(|(step, _)| *step != "recorded") {
        let out = s.run_env(&[("FAILPOINTS", &format!("{step}=return"))], &["install", "-C", "b"]);
        assert_eq!(out.status, 1, "{step}: {out:?}");
        assert_eq!(usr(&s), old, "failed at {step}");
        assert_eq!(s.sh("cat /proc/self/mountinfo | wc -l"), mounts, "mounts after failing at {step}");
        assert_eq!(
            s.sh("ls /run/rpm-ostree-transient/store | grep journal || :"),
            "",
            "journal after failing at {step}"
        );
        assert_eq!(s.sh("ls /run/rpm-ostree-transient/store/staging"), "", "left in staging after failing at {step}");
    }
    s.ok(&["install", "-C", "b"]);
}

/// A kill in the middle of a reset: the next command repairs.
#[test]
fn killed_reset() {
    let s = Scenario::signed();
    let first = usr(&s);
    s.ok(&["install", "a"]);
    s.kill_at("reset-detached", &["reset"]);
    assert_eq!(usr(&s), first);
    assert_eq!(generation(&s), 0);
    s.ok(&["reset"]);
    assert_eq!(usr(&s), first);
    s.sh("test ! -e /run/rpm-ostree-transient/store && ! ls /run/ostree/deployment-state/*/unlocked-transient 2>/dev/null");
}
