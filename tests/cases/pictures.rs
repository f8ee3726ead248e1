//! Packages that do much outside `/usr`: whatever way their layer ends, every path of the host is as it was before.

use crate::ONE_HOST;
use crate::corpus::{corpus, files};
use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;
use testkit::host::{Output, TestHost};

/// Beginnings of their names, and the failpoint at which an install of each is killed.
const PACKAGES: [(&str, &str); 12] = [
    ("distro/freeradius-server-", "effect"),
    ("distro/dovecot-", "before-swap"),
    ("distro/cyrus-imapd-", "swapped"),
    ("distro/ngircd-", "covered"),
    ("distro/crypto-policies-", "recorded"),
    ("distro/python39-evtx-", "effect"),
    ("distro/abrt-", "effect"),
    ("thirdparty/postfix-", "before-swap"),
    ("thirdparty/openssh-server-", "covered"),
    ("zfs-el9/Packages/zfs-2", "swapped"),
    ("distro/libcgroup-tools-", "before-swap"),
    ("thirdparty/nodejs010-runtime-", "recorded"),
];
/// Where a file lies inside; gone after a reboot.
const INSIDE: &str = "/tmp/package.rpm";
/// Requires are unchecked, as single files are tried.
const NODEPS: (&str, &str) = ("RPM_OSTREE_TRANSIENT_TEST_NODEPS", "1");
const INSTALL: [&str; 4] = ["rpm-ostree-transient", "install", "--nogpgcheck", INSIDE];
/// A failpoint's sleep. Nothing else in the program sleeps for nearly as long.
const FOREVER: Duration = Duration::from_secs(600);

fn place(host: &TestHost, package: &Path) {
    std::fs::copy(package, host.root().join(&INSIDE[1..])).unwrap();
}

fn ok(output: &Output) {
    assert_eq!(output.status, 0, "{output:?}");
}

/// Starts an install, and kills it where it is held.
fn kill_at(host: &TestHost, step: &str) {
    let held = format!("{step}=sleep({})", FOREVER.as_millis());
    let mut run = host.spawn(&[NODEPS, ("FAILPOINTS", &held)], &INSTALL).unwrap();
    if !run.wait_for_sleep(FOREVER / 2).unwrap() {
        panic!("the install ended without being at {step}: {:?}", run.finish());
    }
    assert_eq!(run.kill().unwrap().status, 128 + 9, "{step}");
}

/// Reset, a reboot without one, and a reboot after a kill.
#[test]
fn nothing_is_left_of_what_packages_do_outside_usr() {
    let Some(corpus) = corpus() else { return };
    let _alone = ONE_HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let files = files(&corpus);
    let mut host = TestHost::start().unwrap();
    let first = host.picture().unwrap();
    let persistent = host.persistent_hash().unwrap();
    for (name, step) in PACKAGES {
        let (name, path) = files.range(name.to_owned()..).next().filter(|(n, _)| n.starts_with(name)).unwrap();
        place(&host, path);
        ok(&host.run_env(&[NODEPS], &INSTALL));
        assert!(host.picture().unwrap() != first, "{name} is not there at all");
        ok(&host.run(&["rpm-ostree-transient", "reset"]));
        assert_eq!(host.picture().unwrap(), first, "{name}: after reset");

        ok(&host.run_env(&[NODEPS], &INSTALL));
        host.reboot().unwrap();
        assert_eq!(host.picture().unwrap(), first, "{name}: after a reboot");

        place(&host, path);
        kill_at(&host, step);
        host.reboot().unwrap();
        assert_eq!(host.picture().unwrap(), first, "{name}: after a kill at {step} and a reboot");
        println!("ok    {name}: as before after reset, reboot, kill at {step} and reboot");
    }
    assert_eq!(host.persistent_hash().unwrap(), persistent);
}
