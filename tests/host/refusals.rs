//! Acceptance 7 and 8: one line each, an exit code of its own, mounts and tree unchanged.

use crate::scenario::Scenario;

/// Runs a command that must fail with `code`, print one `error:` line that holds every word, and change nothing.
fn refused(s: &Scenario, args: &[&str], code: i32, words: &[&str]) {
    let state = |s: &Scenario| s.sh("cut -d' ' -f3- /proc/self/mountinfo; find /usr -xdev | LC_ALL=C sort | sha256sum");
    let before = state(s);
    let text = s.fails(args, code);
    let errors: Vec<&str> = text.lines().filter(|l| l.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{args:?}: {text}");
    for word in words {
        assert!(text.contains(word), "{args:?}: \"{word}\" is not in: {text}");
    }
    assert_eq!(state(s), before, "{args:?} changed mounts or tree");
}

#[test]
fn requests_that_cannot_be() {
    let s = Scenario::signed();
    refused(&s, &["install", "hello-transien"], 74, &["hello-transien", "hello-transient"]);
    refused(&s, &["install", "@core"], 2, &["group"]);
    refused(&s, &["uninstall", "hello-transient"], 74, &["hello-transient"]);
    refused(&s, &["rollback"], 74, &["previous"]);
    refused(&s, &["install", "prein-fails"], 80, &["prein-fails", "3"]);
}

#[test]
fn repositories_that_fail() {
    let s = Scenario::signed();
    let package = s.package_path("hello-transient-2.0");
    s.server.fault_not_found(&package);
    refused(&s, &["install", "hello-transient"], 75, &["404"]);
    s.server.clear_faults();
    s.server.fault_wrong_bytes(&package);
    refused(&s, &["install", "hello-transient"], 76, &["checksum"]);
    s.server.clear_faults();
    s.ok(&["install", "hello-transient"]);
    s.ok(&["reset"]);
    s.sh("printf '[dead]\\nname=dead\\nbaseurl=http://127.0.0.1:9/\\nskip_if_unavailable=0\\n' > /etc/yum.repos.d/dead.repo");
    refused(&s, &["install", "a"], 75, &["dead", "127.0.0.1:9"]);
    s.ok(&["install", "--disablerepo", "dead", "a"]);
}

#[test]
fn signatures_that_fail() {
    let s = Scenario::unsigned();
    refused(&s, &["install", "a"], 69, &["a-1.0-1"]);
    s.ok(&["install", "--nogpgcheck", "a"]);
    let s = Scenario::signed_by_another_key();
    refused(&s, &["install", "a"], 69, &["a-1.0-1", "key"]);
}

#[test]
fn hosts_that_are_not_fit() {
    let s = Scenario::signed();
    // Not root.
    let text =
        s.sh("setpriv --reuid 65534 --regid 65534 --clear-groups rpm-ostree-transient install a 2>&1; test $? = 65");
    assert!(text.contains("root"), "{text}");
    s.sh("setpriv --reuid 65534 --regid 65534 --clear-groups rpm-ostree-transient status >/dev/null");
    // Somebody else's overlay on /usr.
    s.sh("mkdir -p /run/foreign && echo x > /run/foreign/file && mount -t overlay someone -o lowerdir=/run/foreign:/usr /usr");
    refused(&s, &["install", "a"], 68, &["someone"]);
    s.sh("umount -l /usr && mount -t tmpfs under /usr/share/doc");
    refused(&s, &["install", "a"], 68, &["/usr/share/doc"]);
    s.sh("umount /usr/share/doc");
    // Another mount namespace than PID 1's.
    let text = s.sh("unshare --mount rpm-ostree-transient install a 2>&1; test $? = 66");
    assert!(text.contains("namespace"), "{text}");
    // Not booted by ostree.
    s.sh("mv /run/ostree-booted /run/ostree-booted.away");
    refused(&s, &["install", "a"], 64, &["ostree"]);
    s.sh("mv /run/ostree-booted.away /run/ostree-booted");
    s.ok(&["install", "a"]);
}

#[test]
fn memory_that_does_not_suffice() {
    let s = Scenario::signed();
    s.ok(&["install", "a"]);
    s.sh("mount -o remount,size=24M /run/rpm-ostree-transient/store");
    refused(&s, &["install", "big"], 71, &["MiB", "left"]);
    // Found out late.
    let env = [("FAILPOINTS", "harvested=sleep(3000)")];
    let mut run = s.host.spawn(&env, &["rpm-ostree-transient", "install", "b"]).unwrap();
    assert!(run.wait_for_sleep(std::time::Duration::from_secs(2)).unwrap());
    s.sh("head -c 100M /dev/zero > /run/rpm-ostree-transient/store/fill 2>/dev/null || :");
    let out = run.finish().unwrap();
    assert!(out.status == 71 && out.stderr.contains("/run/rpm-ostree-transient/store"), "{out:?}");
    s.sh("rm /run/rpm-ostree-transient/store/fill; ! rpm -q b; test -e /usr/share/a");
}

#[test]
fn two_callers() {
    let s = Scenario::signed();
    s.ok(&["install", "a"]);
    for name in ["b", "c", "hello-transient"] {
        s.ok(&["install", "--download-only", name]);
    }
    let mut holder = s.start_at("staged", &["install", "-C", "b"]);
    let text = s.fails(&["install", "--no-wait", "-C", "c"], 73);
    assert!(text.contains("install -C b"), "the holder is not named: {text}");
    holder.kill();
    s.ok(&["install", "-C", "c"]);
    s.sh("rpm-ostree-transient install -C b >/dev/null & rpm-ostree-transient install -C hello-transient >/dev/null; wait $! && rpm -q b hello-transient >/dev/null");
}
