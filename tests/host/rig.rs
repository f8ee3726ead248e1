//! The test host itself: if these fail, no other failure of this tier means anything.

use crate::scenario::Scenario;
use std::path::Path;
use testkit::host::TestHost;

#[test]
fn looks_like_an_ostree_host() {
    let host = TestHost::start_with(None).unwrap();
    let sh = |script: &str| {
        let out = host.sh(script);
        assert_eq!(out.status, 0, "{script}: {out:?}");
        out.stdout
    };
    assert!(sh("ostree admin status").starts_with("* testos "));
    assert!(sh("! touch /usr/x 2>&1").contains("Read-only"));
    sh("touch /etc/x /var/x /run/x /tmp/x && rm /etc/x /var/x /run/x /tmp/x");
    assert!(sh("rpm -qa").lines().count() > 50);
    // Every file of every base package is as its record says.
    assert_eq!(sh("rpm -Va"), "");
    assert_eq!(sh("rpm -q --whatprovides 'libc.so.6()(64bit)' /bin/sh system-release").lines().count(), 3);
    assert_eq!(sh("getent passwd root"), "root:x:0:0:root:/root:/bin/bash\n");
    assert!(sh("cat /proc/self/mountinfo").lines().any(|l| l.contains(" /usr ro,") && l.contains("shared:")));
    // Orphans are reaped.
    sh("(sleep 0.1 &) ; sleep 0.5; test -z \"$(ps -eo stat= | grep Z)\"");
}

#[test]
fn reboot_keeps_etc_and_var_only() {
    let mut host = TestHost::start_with(None).unwrap();
    let first = host.picture().unwrap();
    let hash = host.persistent_hash().unwrap();
    assert_eq!(host.sh("echo x > /etc/x; echo x > /var/x; echo x > /run/x; echo x > /tmp/x").status, 0);
    let changed = host.picture().unwrap();
    assert_eq!(changed.differences(&first).len(), 2, "{:?}", changed.differences(&first));
    host.reboot().unwrap();
    assert_eq!(host.sh("test -e /etc/x -a -e /var/x -a ! -e /run/x -a ! -e /tmp/x").status, 0);
    // A cleaner runs at boot and takes itself away.
    let unit = "printf '[Service]\\nExecStart=-/usr/bin/rm -f /etc/x /var/x\\nExecStart=/usr/bin/rm -f \
                /etc/systemd/system/rpm-ostree-transient-clean.service\\n' \
                > /etc/systemd/system/rpm-ostree-transient-clean.service";
    assert_eq!(host.sh(unit).status, 0);
    host.reboot().unwrap();
    assert_eq!(host.picture().unwrap(), first);
    assert_eq!(host.persistent_hash().unwrap(), hash);
    // The hash sees what it is for.
    std::fs::write(host.sysroot().join("boot/loader/entries/x.conf"), "x").unwrap();
    assert_ne!(host.persistent_hash().unwrap(), hash);
}

/// Two at once do not see each other, and a panic leaves neither processes nor files.
#[test]
fn hosts_end_with_their_values() {
    let other = TestHost::start_with(None).unwrap();
    let seen = std::sync::Mutex::new((0, std::path::PathBuf::new()));
    let panicked = std::panic::catch_unwind(|| {
        let host = TestHost::start_with(None).unwrap();
        *seen.lock().unwrap() = (host.init(), host.sysroot());
        let _sleeper = host.spawn(&[], &["sleep", "1000"]).unwrap();
        host.sh("setsid sleep 1000 >/dev/null 2>&1 & touch /etc/x");
        panic!("as a failing test does");
    });
    assert!(panicked.is_err());
    let (init, sysroot) = seen.into_inner().unwrap();
    assert!(init != 0 && !Path::new(&format!("/proc/{init}")).exists());
    assert!(!sysroot.parent().unwrap().exists());
    assert_eq!(other.sh("test ! -e /etc/x && ! pgrep -f '^sleep 1000$'").status, 0);
}

/// The repository is there, its packages are what they should be, and faults are seen.
#[test]
fn repository_and_faults() {
    let s = Scenario::signed();
    let path = s.package_path("hello-transient-2.0");
    let get = |path: &str| {
        use std::io::{Read as _, Write as _};
        let url = s.server.url();
        let mut stream = std::net::TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
        (String::from_utf8(answer[9..12].to_vec()).unwrap(), answer[end + 4..].to_vec())
    };
    let (status, right) = get(&path);
    assert_eq!(status, "200");
    s.server.fault_wrong_bytes(&path);
    let (status, wrong) = get(&path);
    assert!(status == "200" && wrong.len() == right.len() && wrong != right);
    s.server.fault_not_found(&path);
    assert_eq!(get(&path).0, "404");
    s.server.clear_faults();
    assert_eq!(get(&path).1, right);
    assert_eq!(get("/signed/repodata/repomd.xml").0, "200");
    assert_eq!(get("/../key.asc").0, "404");
    let statuses: Vec<u16> = s.server.take_log().iter().map(|r| r.status).collect();
    assert_eq!(statuses, [200, 200, 404, 200, 200, 404]);

    // In the host: the key that it has is the one of the signature.
    std::fs::write(s.host.root().join("tmp/hello.rpm"), &right).unwrap();
    let check = "rpmkeys --dbpath /tmp/keys --import /etc/pki/rpm-gpg/RPM-GPG-KEY-test && rpmkeys --dbpath /tmp/keys -Kv /tmp/hello.rpm";
    let text = s.sh(check);
    assert!(text.contains("Signature") && text.contains(": OK") && !text.contains("NOKEY"), "{text}");
    assert_eq!(s.sh("rpm -qp --nosignature --requires /tmp/hello.rpm | grep greet").lines().count(), 3);
    let other = Scenario::signed_by_another_key();
    std::fs::write(other.host.root().join("tmp/hello.rpm"), &right).unwrap();
    assert_ne!(other.host.sh(check).status, 0);
}

/// A run is held where it was told to be, and only there; the kill reaches the program itself.
#[test]
fn runs_are_held_and_killed() {
    use std::time::Duration;
    let s = Scenario::signed();
    let mut short = s.host.spawn(&[], &["sleep", "0.5"]).unwrap();
    assert!(!short.wait_for_sleep(Duration::from_secs(300)).unwrap());
    let mut long = s.host.spawn(&[("GREETING", "moin")], &["bash", "-c", "echo $GREETING; exec sleep 600"]).unwrap();
    assert!(long.wait_for_sleep(Duration::from_secs(300)).unwrap());
    let out = long.kill().unwrap();
    assert_eq!((out.status, out.stdout.as_str()), (137, "moin\n"));

    let mut held = s.start_at("resolved", &["install", "a"]);
    s.sh("pgrep -x rpm-ostree-tran");
    held.kill();
    s.sh("! pgrep -x rpm-ostree-tran");
}
