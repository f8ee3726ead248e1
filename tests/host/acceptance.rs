//! The main job, as an admin sees it: signed packages from an HTTP repository, used, verified, undone.

use crate::scenario::Scenario;

/// Acceptance 1: a name with three dependencies; program, rpm database, read-only `/usr`, ostree's own view.
#[test]
fn install_use_verify_and_nothing_persistent_changes() {
    let s = Scenario::signed();
    let before = s.host.persistent_hash().unwrap();
    let count = |s: &Scenario| s.sh("rpm -qa").lines().count();
    let base = count(&s);
    s.sh("! touch /usr/x 2>/dev/null");

    let text = s.ok(&["install", "hello-transient"]);
    assert!(text.contains("reboot"), "the notice is missing: {text}");
    assert!(s.sh("hello-transient").contains("hello-transient 2.0"));
    assert_eq!(count(&s), base + 4);
    assert_eq!(s.sh("rpm -V hello-transient libgreet greet-data greet-user").trim(), "");
    assert_eq!(s.sh("rpm -q hello-transient").trim(), "hello-transient-2.0-1.noarch");
    s.sh("! touch /usr/x 2>/dev/null");
    s.sh("mount -o remount,rw /usr 2>/dev/null || :; ! touch /usr/x 2>/dev/null");
    // The account of a scriptlet resolves, and the host's own files do not know it.
    assert!(s.sh("getent passwd greeter").starts_with("greeter:"));
    s.sh("! grep -q greeter /etc/passwd /etc/group /etc/shadow /etc/gshadow");
    let status = s.sh("ostree admin status");
    assert!(status.lines().next().unwrap_or("").starts_with('*'), "{status}");
    assert!(status.contains("Unlocked: transient"), "{status}");
    let origin = s.sh("cat /run/rpm-ostree-transient/origin");
    assert!(origin.contains("requested=hello-transient;"), "{origin}");

    s.ok(&["reset"]);
    assert_eq!(count(&s), base);
    assert!(!s.sh("ostree admin status").contains("Unlocked"));
    assert_eq!(s.host.persistent_hash().unwrap(), before);
}

/// Acceptance 3: order, refusal, rollback, reset; the tree is the first one again.
#[test]
fn layers_in_turn_and_back_to_the_first_tree() {
    let s = Scenario::signed();
    let first = s.host.picture().unwrap();
    for name in ["a", "b", "c"] {
        s.ok(&["install", name]);
    }
    let status: serde_json::Value = serde_json::from_str(&s.ok(&["status", "--json"])).unwrap();
    assert_eq!(status["status"]["packages"].as_array().unwrap().len(), 3, "{status}");
    let refusal = s.fails(&["uninstall", "a"], 82);
    assert!(refusal.contains("c-1.0-1"), "{refusal}");
    s.ok(&["rollback"]);
    assert!(s.sh("rpm -q c || :").contains("not installed"));
    s.sh("test -e /usr/share/b && ! test -e /usr/share/c");
    s.ok(&["rollback"]);
    s.sh("test -e /usr/share/c");
    s.ok(&["uninstall", "c"]);
    s.ok(&["uninstall", "a"]);
    s.sh("test -e /usr/share/b && ! test -e /usr/share/a");
    s.ok(&["reset"]);
    assert_eq!(s.host.picture().unwrap(), first);
}

/// Acceptance 4: upgrades, downgrades, what the base has.
#[test]
fn versions_and_the_locked_base() {
    let s = Scenario::signed();
    s.ok(&["install", "hello-transient-1.0"]);
    assert!(s.sh("hello-transient").contains("1.0"));
    s.ok(&["install", "hello-transient"]);
    assert!(s.sh("hello-transient").contains("2.0"));
    s.ok(&["install", "hello-transient-1.0-1"]);
    assert!(s.sh("hello-transient").contains("1.0"));
    assert_eq!(s.sh("rpm -q hello-transient").lines().count(), 1);

    let text = s.fails(&["install", "needs-newer-base"], 72);
    assert!(text.contains("needs-newer-base") && text.contains("bash"), "{text}");
    let text = s.fails(&["install", "obsoletes-base"], 72);
    assert!(text.contains("obsoletes-base") && text.contains("bash"), "{text}");
    let text = s.fails(&["install", "bash"], 79);
    assert!(text.contains("bash-"), "{text}");
    s.ok(&["install", "--allow-inactive", "bash"]);
    s.fails(&["install", "hello-transient-1.0-1"], 79);
    s.ok(&["install", "--idempotent", "hello-transient-1.0-1"]);
    assert_eq!(s.run(&["install", "--idempotent", "--unchanged-exit-77", "hello-transient-1.0-1"]).status, 77);
    assert!(s.sh("hello-transient").contains("1.0"));
}

/// The wrapper hands over what is ours, and the dry run changes nothing.
#[test]
fn wrapper_and_dry_run() {
    let s = Scenario::signed();
    let before = s.sh("cat /proc/self/mountinfo; find /run | sort");
    let text = s.ok(&["install", "--dry-run", "hello-transient"]);
    assert!(text.contains("libgreet"), "{text}");
    s.sh("rpm-ostree install --transient --dry-run hello-transient >/dev/null");
    s.ok(&["install", "--download-only", "hello-transient"]);
    s.sh("! command -v hello-transient");
    s.sh("rpm-ostree install --transient hello-transient >/dev/null && hello-transient >/dev/null");
    let diff = s.ok(&["diff"]);
    assert!(diff.contains("hello-transient"), "{diff}");
    let history = s.ok(&["history"]);
    assert!(history.contains("install"), "{history}");
    s.ok(&["uninstall", "--all"]);
    s.ok(&["reset"]);
    let after = s.sh("cat /proc/self/mountinfo; find /run | grep -v -e '/rpm-ostree-transient$' -e '/rpm-ostree-transient/lock$' -e /run/ostree | sort");
    let before: String = before.lines().filter(|l| !l.starts_with("/run/ostree")).map(|l| format!("{l}\n")).collect();
    assert_eq!(strip_ids(&after), strip_ids(&before));
}

/// Mount ids differ between reads of other namespaces' tables; the rest of a line must not.
fn strip_ids(text: &str) -> Vec<String> {
    let line =
        |l: &str| l.split_whitespace().skip(if l.starts_with('/') { 0 } else { 2 }).collect::<Vec<_>>().join(" ");
    text.lines().filter(|l| !l.contains("rpm-ostree-transient")).map(line).collect()
}

/// A reboot leaves nothing: tree, rpm database, status.
#[test]
fn reboot_leaves_nothing() {
    let mut s = Scenario::signed();
    let first = s.host.picture().unwrap();
    s.ok(&["install", "hello-transient"]);
    s.host.reboot().unwrap();
    assert_eq!(s.host.picture().unwrap(), first);
    s.sh("rpm -q hello-transient && exit 1 || :");
    let status: serde_json::Value = serde_json::from_str(&s.ok(&["status", "--json"])).unwrap();
    assert_eq!(status["status"]["generation"], 0);
    s.ok(&["install", "hello-transient"]);
}
