//! What a hostile package, an untidy caller or a spoilt state must not lead to.

use crate::scenario::Scenario;
use testkit::packages::{Content, Package};

/// Builds a package and puts it into the host's `/root`; its path there.
fn local(s: &Scenario, package: &Package) -> String {
    let out = tempfile::tempdir().unwrap();
    let built = package.build(out.path()).unwrap();
    let path = format!("/root/{}", built.file_name().unwrap().to_str().unwrap());
    std::fs::copy(&built, s.host.root().join(path.trim_start_matches('/'))).unwrap();
    path
}

/// A scriptlet that puts a symlink where accounts are recorded leads nobody out of the layer.
#[test]
fn accounts_stay_in_the_layer() {
    let s = Scenario::signed();
    for (nsswitch, link) in [
        ("passwd: files systemd", "rm -rf /usr/lib/userdb; ln -s /etc/escape /usr/lib/userdb"),
        ("passwd: files altfiles", "rm -rf /usr/lib/passwd; ln -s /etc/shadow /usr/lib/passwd"),
    ] {
        s.sh(&format!("echo '{nsswitch}' > /etc/nsswitch.conf; mkdir -p /etc/escape; echo secret:x: > /etc/shadow"));
        let body = format!("echo 'evil:x:990:990:e:/:/bin/sh' >> /etc/passwd\n{link}");
        let path = local(&s, &Package::new("evil", "1.0").file("/usr/share/evil", "x\n").scriptlet("post", &body));
        let text = s.fails(&["install", &path], 78);
        assert!(text.contains("symlink"), "{text}");
        s.sh("test -z \"$(ls -A /etc/escape)\"; ! grep -rq secret /usr/lib/passwd");
        s.sh("test \"$(cat /etc/shadow)\" = secret:x:");
    }
}

/// Commands are kept for `status`, `history` and whoever waits for the lock: without their secrets.
#[test]
fn secrets_of_the_command_line_are_not_kept() {
    let s = Scenario::signed();
    let url = format!("{}{}", s.server.url().replace("://", "://joe:hunter2@"), s.package_path("a-1.0"));
    s.ok(&["install", "--setopt=test.password=hunter3", "--setopt", "proxy_password=hunter4", &url]);
    let text = s.sh(
        "cat /run/rpm-ostree-transient/{lock,origin,*.json} /run/rpm-ostree-transient/store/*.json; rpm-ostree-transient status -v; \
         rpm-ostree-transient history; cat /run/rpm-ostree-transient/store/generations/*/manifest.json",
    );
    assert!(!text.contains("hunter"), "{text}");
    assert!(text.contains("install"), "{text}");
}

/// A local file may belong to somebody else: what was checked is what is installed.
#[test]
fn a_local_file_that_is_replaced_after_its_check() {
    let s = Scenario::signed();
    let good = local(&s, &Package::new("good", "1.0").file("/usr/share/good", "good\n"));
    let evil = local(&s, &Package::new("evil", "1.0").file("/usr/share/evil", "evil\n").scriptlet("post", ":"));
    for step in ["fetched", "admitted"] {
        s.sh(&format!("cp {good} /tmp/x.rpm"));
        let env = format!("{step}=sleep(5000)");
        let words = ["rpm-ostree-transient", "install", "/tmp/x.rpm"];
        let mut run = s.host.spawn(&[("FAILPOINTS", &env)], &words).unwrap();
        assert!(run.wait_for_sleep(std::time::Duration::from_secs(3)).unwrap());
        s.sh(&format!("cp {evil} /tmp/x.rpm"));
        let out = run.finish().unwrap();
        assert_eq!(out.status, 0, "{step}: {out:?}");
        s.sh("cmp /tmp/x.rpm /root/evil-1.0-1.noarch.rpm && rpm -q good && test -e /usr/share/good && test ! -e /usr/share/evil && ! rpm -q evil");
        s.ok(&["reset"]);
    }
}

/// `--download-only` and `-C` mean what they say with every request.
#[test]
fn options_that_forbid() {
    let s = Scenario::signed();
    s.ok(&["install", "a"]);
    s.ok(&["uninstall", "--all", "--download-only"]);
    s.sh("test -e /usr/share/a");
    let url = format!("{}{}", s.server.url(), s.package_path("b-1.0"));
    s.server.take_log();
    s.fails(&["install", "-C", &url], 75);
    assert!(s.server.take_log().is_empty());
    s.ok(&["install", "--download-only", &url]);
    s.server.take_log();
    s.ok(&["install", "-C", &url]);
    assert!(s.server.take_log().is_empty());
}

/// The caller's umask decides nothing.
#[test]
fn umask_of_the_caller() {
    let s = Scenario::signed();
    for umask in ["000", "077"] {
        s.sh(&format!("umask {umask}; rpm-ostree-transient install a && rpm-ostree-transient install b"));
        let loose = s.sh(
            "find /run/rpm-ostree-transient /var/cache/rpm-ostree-transient /run/ostree -xdev -perm /022 ! -type l",
        );
        assert_eq!(loose, "", "umask {umask}");
        s.sh("setpriv --reuid 65534 --regid 65534 --clear-groups bash -c 'test -e /usr/share/a && ls /run/ostree/deployment-state/*/unlocked-transient && rpm -q a'");
        s.ok(&["reset"]);
        s.sh("rm -r /var/cache/rpm-ostree-transient");
    }
}

/// The way out that every such message names is one.
#[test]
fn reset_mends_damaged_state() {
    let s = Scenario::signed();
    for file in
        ["counter", "store/stamp.json", "store/history.json", "store/journal.json", "store/generations/*/manifest.json"]
    {
        s.ok(&["install", "a"]);
        s.sh(&format!("for f in /run/rpm-ostree-transient/{file}; do echo '{{' > $f; done"));
        let text = s.fails(&["install", "b"], 83);
        assert!(text.contains("reset"), "{text}");
        s.ok(&["status"]);
        s.ok(&["reset"]);
        s.ok(&["install", "a"]);
        s.ok(&["reset"]);
    }
}

/// A service that cannot be reloaded does not keep the host from its base.
#[test]
fn reset_goes_through_when_a_reload_fails() {
    let s = Scenario::signed();
    s.ok(&["install", "a"]);
    let path = local(
        &s,
        &Package::new("unit", "1.0").file("/usr/lib/systemd/system/u.service", "[Service]\nExecStart=/bin/true\n"),
    );
    s.ok(&["install", &path]);
    s.sh("mkdir -p /run/systemd/system");
    s.sh("systemctl daemon-reload && exit 1 || :");
    s.ok(&["reset"]);
    s.sh("test ! -e /run/rpm-ostree-transient/store && test ! -e /run/rpm-ostree-transient/status.json");
}

/// Metadata that was taken without asking for a signature is not good enough once one is asked for.
#[test]
fn repo_gpgcheck_switched_on_later() {
    let s = Scenario::signed();
    s.ok(&["install", "a"]);
    s.ok(&["reset"]);
    s.sh("sed -i s/repo_gpgcheck=0/repo_gpgcheck=1/ /etc/yum.repos.d/test.repo");
    s.fails(&["install", "a"], 69);
}

/// What a killed download left in the cache goes with the next run.
#[test]
fn killed_downloads_leave_nothing() {
    let s = Scenario::signed();
    s.ok(&["install", "a"]);
    s.server.fault_stall(&s.package_path("hello-transient-2.0"));
    s.sh("timeout -s KILL 3 rpm-ostree-transient install hello-transient; test $? = 137");
    let left = "find /var/cache/rpm-ostree-transient/unfinished -mindepth 1 2>/dev/null || :";
    assert_ne!(s.sh(left), "");
    s.server.clear_faults();
    s.ok(&["install", "b"]);
    assert_eq!(s.sh(left), "");
}

/// The records of a change that is live fit, even when the store fills up meanwhile.
#[test]
fn store_that_fills_up_at_the_swap() {
    let s = Scenario::signed();
    s.ok(&["install", "a"]);
    s.sh("mount -o remount,size=64M /run/rpm-ostree-transient/store");
    let env = [("FAILPOINTS", "before-swap=sleep(8000)")];
    let mut run = s.host.spawn(&env, &["rpm-ostree-transient", "install", "b"]).unwrap();
    assert!(run.wait_for_sleep(std::time::Duration::from_secs(5)).unwrap());
    s.sh("head -c 100M /dev/zero > /run/rpm-ostree-transient/store/fill 2>/dev/null || :");
    let out = run.finish().unwrap();
    assert_eq!(out.status, 0, "{out:?}");
    s.sh("rm /run/rpm-ostree-transient/store/fill; rpm -q b && rpm-ostree-transient history | grep -q 'install b'");
}

/// What removes needs no cache, and a file that is no package is named as the user named it.
#[test]
fn a_cache_that_cannot_be_written() {
    let s = Scenario::signed();
    s.ok(&["install", "a", "b"]);
    s.sh("mkdir -p /var/cache/rpm-ostree-transient/unfinished && mount -t tmpfs -o ro none /var/cache");
    s.ok(&["uninstall", "a"]);
    s.ok(&["rollback"]);
    s.sh("umount /var/cache; echo junk > /root/junk.rpm");
    let text = s.fails(&["install", "/root/junk.rpm"], 78);
    assert!(text.contains("error: junk.rpm is refused") && !text.contains("/var/"), "{text}");
    s.ok(&["reset"]);
}

/// A soft reboot keeps /run and the boot id and changes the rest: what it left is found, told and removed.
#[test]
fn state_of_another_deployment() {
    let s = Scenario::signed();
    s.ok(&["install", "a"]);
    let old = "/run/ostree/deployment-state/0000.0/unlocked-transient";
    s.sh(&format!(
        "cd /run/rpm-ostree-transient/store; sed -i 's/\\(\"deployment\": \"\\).*\"/\\10000.0\"/' stamp.json; \
         mkdir -p $(dirname {old}); cp /run/ostree/deployment-state/*/unlocked-transient {old}; \
         sed -i 's|\"path\": \".*\"|\"path\": \"{old}\"|' generations/1/manifest.json; grep -q 0000.0 stamp.json"
    ));
    let out = s.run(&["install", "b"]);
    assert!(out.status == 0 && out.stderr.contains("another boot or deployment"), "{out:?}");
    s.sh(&format!("test ! -e {old}; rpm -q b; ! rpm -q a; test ! -e /usr/share/a"));
    let status = s.ok(&["status", "--json"]);
    assert!(status.contains("\"b-1.0-1.noarch\"") && !status.contains("\"a-1.0-1.noarch\""), "{status}");
}

/// A full disk below the cache is not the repository's fault.
#[test]
fn a_cache_that_is_full() {
    let s = Scenario::signed();
    let cache = "/var/cache/rpm-ostree-transient";
    s.sh(&format!("mkdir -p {cache}; mount -t tmpfs -o size=64k none {cache}"));
    let url = format!("{}{}", s.server.url(), s.package_path("big"));
    let path = local(&s, &Package::new("large", "1").any_file("/usr/share/l", Content::Noise(1 << 20), 0o644, ""));
    for word in ["big", &url, &path] {
        let text = s.fails(&["install", word], 71);
        assert!(text.contains("hint: ") && !text.contains("reading the metadata again"), "{text}");
        assert_eq!(s.sh(&format!("find {cache}/unfinished -type f")), "");
    }
}

/// Somebody who unmounts the layer by hand has the base, and the next command makes the rest say so.
#[test]
fn a_layer_that_was_unmounted() {
    let s = Scenario::signed();
    s.ok(&["install", "a"]);
    s.sh("umount -l /usr; test ! -e /usr/share/a");
    let status = s.ok(&["status"]);
    assert!(status.contains("No packages are layered"), "{status}");
    let out = s.run(&["install", "--dry-run", "b"]);
    assert!(out.status == 0 && out.stderr.contains("taken off /usr"), "{out:?}");
    s.sh("test ! -e /run/rpm-ostree-transient/origin -a ! -e /run/rpm-ostree-transient/status.json");
    s.sh("! ls /run/ostree/deployment-state/*/unlocked-transient 2>/dev/null");
    s.ok(&["install", "b"]);
    s.sh("rpm -q b && ! rpm -q a && rpm-ostree-transient uninstall b");
}
