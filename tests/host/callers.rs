//! Callers that go away, signals, and requests that are easily taken for done: what is told is what happened.

use crate::scenario::Scenario;
use testkit::packages::Package;

/// Builds a package into the host's `/root/DIR`; its path there.
fn local(s: &Scenario, dir: &str, package: &Package) -> String {
    let out = s.host.root().join("root").join(dir);
    std::fs::create_dir_all(&out).unwrap();
    package.build(&out).unwrap();
    format!("/root/{dir}/{}", package.file_name())
}

/// Who may open the lock may hold it, and then nobody could change anything.
#[test]
fn no_other_user_holds_the_lock() {
    let s = Scenario::signed();
    s.ok(&["install", "a"]);
    s.sh("setpriv --reuid 65534 --regid 65534 --clear-groups flock -n /run/rpm-ostree-transient/lock true && exit 1 || :");
    s.sh("chmod 644 /run/rpm-ostree-transient/lock");
    s.ok(&["install", "b"]);
    assert_eq!(s.sh("stat -c %a /run/rpm-ostree-transient/lock"), "600\n");
}

/// A file that somebody built again has its old name and other content: it is installed, not taken for the old one.
#[test]
fn the_same_name_with_other_content() {
    let s = Scenario::signed();
    let old = local(&s, "old", &Package::new("x", "1").file("/usr/share/x", "old\n").file("/usr/share/x-gone", "\n"));
    let new = local(&s, "new", &Package::new("x", "1").file("/usr/share/x", "new\n").file("/usr/share/x-new", "\n"));
    s.ok(&["install", &old]);
    s.fails(&["install", &old], 79);
    s.ok(&["install", "--idempotent", &old]);
    let text = s.ok(&["install", "--idempotent", &new]);
    assert!(text.contains("x-1-1.noarch"), "{text}");
    assert_eq!(
        s.sh("cat /usr/share/x; test -e /usr/share/x-new && test ! -e /usr/share/x-gone; rpm -V x; rpm -qa x"),
        "new\nx-1-1.noarch\n"
    );
    s.fails(&["install", &new], 79);
    s.ok(&["rollback"]);
    assert_eq!(s.sh("cat /usr/share/x; rpm -V x"), "old\n");
    // Named twice is meant once; and any directory will do.
    s.ok(&["uninstall", "x"]);
    s.sh(&format!(
        "mkdir $'/root/\\xff' && cd $'/root/\\xff' && cp {new} . && rpm-ostree-transient install ./x-1-1.noarch.rpm {new} >&2 && rpm -V x"
    ));
    // From the repository and as a file of the same content.
    s.ok(&["install", "a"]);
    let url = format!("{}{}", s.server.url(), s.package_path("a-1.0"));
    s.fails(&["install", &url], 79);
}

/// What was forced over another package's file leaves a database that says so, before and after.
#[test]
fn forced_files_and_the_database() {
    let s = Scenario::signed();
    let path = "rpm -ql bash | grep '^/usr/share/.*/' | while read f; do test -f $f && echo $f && break; done";
    let path = s.sh(path).trim().to_owned();
    let one = local(&s, "p", &Package::new("one", "1").file(&path, "one\n").file("/usr/share/shared", "one\n"));
    let two = local(&s, "p", &Package::new("two", "1").file("/usr/share/shared", "two\n"));
    s.ok(&["install", "a"]);
    s.ok(&["install", "--force-replacefiles", &one]);
    assert_eq!(s.sh("rpm -Va"), format!(".........    {path} (replaced)\n"));
    assert_eq!(s.sh("rpm -V one"), "");
    s.ok(&["install", "--force-replacefiles", &two]);
    assert_eq!(s.sh("cat /usr/share/shared; rpm -V two"), "two\n");
    // As rpm itself does it, a file that two packages had goes with the one that came last.
    s.ok(&["uninstall", "two"]);
    s.sh("test ! -e /usr/share/shared");
    s.ok(&["uninstall", "one"]);
    // The base's bytes are back, and its record is right; the mark of the forced change stays while there is a layer.
    assert_eq!(s.sh("rpm -Va | grep -v '(replaced)$' || :"), "");
    s.sh("rpm -Va");
    s.ok(&["uninstall", "--all"]);
    assert_eq!(s.sh("rpm -Va"), "");
}

/// A reader that goes away, a full disk behind stdout, a terminal that is closed: the change is whole, and told as it is.
#[test]
fn readers_that_go_away() {
    let s = Scenario::signed();
    s.sh("rpm-ostree-transient install a | true; test ${PIPESTATUS[0]} = 0; rpm -q a");
    s.sh("rpm-ostree-transient install b >&- 2>&-; test $? = 0; rpm -q b");
    s.sh("rpm-ostree-transient install c 2>&1 >/dev/null | true; rpm -q c");
    let text = s.sh("rpm-ostree-transient uninstall c 2>&1 >/dev/full; test $? = 1");
    assert!(text.contains("is live"), "{text}");
    s.sh("! rpm -q c && rpm-ostree-transient history | grep -q 'uninstall c'");
    s.sh("test ! -e /run/rpm-ostree-transient/store/journal.json");
}

/// A hangup ends a run as ^C does: before the change it changes nothing, after it the run goes on to its end.
#[test]
fn hangups() {
    let s = Scenario::signed();
    s.ok(&["install", "a"]);
    s.ok(&["install", "--download-only", "b"]);
    for (step, visible, code) in [("harvested", false, 130), ("swapped", true, 0)] {
        let env = [("FAILPOINTS", format!("{step}=sleep(3000)"))];
        let env = [(env[0].0, env[0].1.as_str())];
        // The caller of the tests may itself ignore hangups.
        let argv = ["env", "--default-signal=HUP", "rpm-ostree-transient", "install", "-C", "b"];
        let mut run = s.host.spawn(&env, &argv).unwrap();
        assert!(run.wait_for_sleep(std::time::Duration::from_secs(2)).unwrap());
        // Impatient ones too.
        for _ in 0..2 {
            s.sh("kill -HUP $(pgrep -x rpm-ostree-tran)");
            if !visible {
                break;
            }
        }
        let out = run.finish().unwrap();
        assert_eq!(out.status, code, "{step}: {out:?}");
        s.sh(if visible { "rpm -q b" } else { "! rpm -q b" });
        s.sh("test ! -e /run/rpm-ostree-transient/store/journal.json");
    }
    // Who ignores hangups (nohup) goes on ignoring them.
    s.ok(&["uninstall", "b"]);
    let env = [("FAILPOINTS", "harvested=sleep(3000)")];
    let mut run = s.host.spawn(&env, &["nohup", "rpm-ostree-transient", "install", "-C", "b"]).unwrap();
    assert!(run.wait_for_sleep(std::time::Duration::from_secs(2)).unwrap());
    s.sh("kill -HUP $(pgrep -x rpm-ostree-tran)");
    assert_eq!(run.finish().unwrap().status, 0);
    s.sh("rpm -q b");
}

/// A service that cannot be reloaded keeps nothing from going; and what is live and not recorded is told as live.
#[test]
fn nothing_fails_after_the_change() {
    let s = Scenario::signed();
    s.ok(&["install", "a"]);
    let unit =
        Package::new("unit", "1.0").file("/usr/lib/systemd/system/u.service", "[Service]\nExecStart=/bin/true\n");
    let path = local(&s, "p", &unit);
    s.ok(&["install", &path]);
    s.sh("mkdir -p /run/systemd/system");
    s.ok(&["uninstall", "unit"]);
    s.sh("! rpm -q unit");
    // A package that needs the reload does not come without it.
    s.fails(&["install", &path], 1);
    s.sh("! rpm -q unit; rmdir /run/systemd/system");
    let out = s.run_env(&[("FAILPOINTS", "recorded=return")], &["install", "b"]);
    assert!(out.status == 0 && out.stderr.contains("live"), "{out:?}");
    s.sh("rpm -q b && test -e /run/rpm-ostree-transient/store/journal.json");
    s.ok(&["install", "c"]);
    assert_eq!(s.sh("rpm-ostree-transient history --json | grep -c '\"command\"'"), "5\n");
}
