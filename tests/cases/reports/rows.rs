//! One package for each thing that packages do outside `/usr`, and nothing else in it: what the status lists is what is
//! another on the host, neither more nor less, and whatever way the layer ends, every path is as it was before.

use crate::services::{NOTES, compile};
use crate::{NODEPS, Rig, install};
use std::collections::BTreeSet;
use std::time::Duration;
use testkit::packages::{Content, Package};
use testkit::picture::Picture;

/// A failpoint's sleep. Nothing else in the program sleeps for nearly as long.
const FOREVER: Duration = Duration::from_secs(600);
const PATH: (&str, &str) = ("PATH", "/run/stand-in:/usr/sbin:/usr/bin");
const PRESET: &str = "/usr/lib/systemd/system-preset/80-row.preset";
const UNIT: &str = "[Service]\nExecStart=/usr/bin/true\n[Install]\nWantedBy=multi-user.target\n";

/// A package, what shows that it is there, and a word that the status has because of it.
struct Row(Package, &'static str, &'static str);

fn rows() -> Vec<Row> {
    let package = |name: &str| Package::new(&format!("row-{name}"), "1");
    let library = compile("int row(void) { return 1; }", &["-shared", "-Wl,-soname,librow.so.1"]);
    vec![
        Row(package("file").config("/etc/row.conf", "new\n"), "grep -q new /etc/row.conf", "/etc/row.conf"),
        Row(package("directory").config("/etc/row.d/x", "new\n"), "grep -q new /etc/row.d/x", "/etc/row.d"),
        Row(
            package("existing").config("/etc/row-mine", "new\n").scriptlet("post", "echo new >> /etc/row-mine"),
            "grep -qx mine /etc/row-mine && ! grep -q new /etc/row-mine",
            "/etc/row-mine",
        ),
        Row(
            package("account").file("/usr/lib/sysusers.d/row.conf", "u rowuser - \"Row\" /\n"),
            "getent passwd rowuser && getent group rowuser",
            "row-account",
        ),
        Row(
            package("unit")
                .file("/usr/lib/systemd/system/row.service", UNIT)
                .file(PRESET, "enable row.service\n")
                .scriptlet("post", "systemctl preset row.service"),
            "test -L /run/systemd/system/multi-user.target.wants/row.service",
            "enable-unit",
        ),
        Row(
            package("library")
                .native()
                .tag("AutoReqProv", "no")
                .any_file("/usr/lib/row/librow.so.1", Content::Bytes(library), 0o755, "")
                .file("/etc/ld.so.conf.d/row.conf", "/usr/lib/row\n"),
            "ldconfig -p | grep -q librow.so.1",
            "/etc/ld.so.cache",
        ),
        Row(
            package("alternative")
                .program("/usr/bin/row-one", "#!/bin/sh\n")
                .scriptlet("post", "update-alternatives --install /usr/bin/row-any row-any /usr/bin/row-one 10"),
            "row-any",
            "/etc/alternatives/row-any",
        ),
        Row(package("var").file("/var/lib/row/x", "new\n"), "grep -q new /var/lib/row/x", "/var/lib/row"),
        Row(package("opt").file("/opt/row/x", "new\n"), "grep -q new /opt/row/x", "/opt/row"),
        Row(
            package("tmpfiles").file("/usr/lib/tmpfiles.d/row.conf", "d /var/lib/row-tmp 0750 root root -\n"),
            "test \"$(stat -Lc %a /var/lib/row-tmp)\" = 750",
            "/var/lib/row-tmp",
        ),
        Row(
            package("reload").file("/usr/lib/systemd/system/row.service", UNIT),
            "grep -q 'systemctl daemon-reload' /run/called",
            "reload-units",
        ),
        Row(
            package("refused")
                .file("/usr/share/row", "x")
                .scriptlet("post", "sysctl -w kernel.row=1; modprobe row || :"),
            "test -e /usr/share/row",
            "kernel.row=1",
        ),
    ]
}

fn ok(r: &Rig, args: &[&str]) {
    let out = r.host.run_env(&[NODEPS[0], PATH], &[&["rpm-ostree-transient"], args].concat());
    assert_eq!(out.status, 0, "{args:?}: {out:?}");
}

/// Paths outside `/usr` that are another on the host now.
fn changed(first: &Picture, now: &Picture, mounts: &BTreeSet<String>) -> BTreeSet<String> {
    let all = first.differing(now).into_iter().map(|p| format!("/{}", p.display()));
    all.filter(|p| !p.starts_with("/usr/") && !mounts.iter().any(|m| p.starts_with(&format!("{m}/")))).collect()
}

/// Those that the status lists, and which of them are mounts.
fn told(r: &Rig, first: &Picture) -> (BTreeSet<String>, BTreeSet<String>) {
    let status = r.status();
    let (mut paths, mut mounts) = (BTreeSet::new(), BTreeSet::new());
    for effect in status["effects"].as_array().unwrap() {
        let Some(path) = effect["path"].as_str().filter(|p| !p.starts_with("/run/")) else { continue };
        let path = path.replacen("/opt/", "/var/opt/", usize::from(path.starts_with("/opt/")));
        match effect["kind"].as_str().unwrap() {
            "mount" => {
                mounts.insert(path.clone());
            }
            "cleaner" => {
                // The unit is enabled by a link; its directory is made where the host has none.
                let (directory, name) = path.rsplit_once('/').unwrap();
                let wants = format!("{directory}/sysinit.target.wants");
                paths.insert(format!("{wants}/{name}"));
                if first.get(&wants[1..]).is_none() {
                    paths.insert(wants);
                }
            }
            _ => {}
        }
        paths.insert(path);
    }
    (paths, mounts)
}

#[test]
fn each_row_alone() {
    let mut r = Rig::new();
    for name in ["sysctl", "modprobe"] {
        r.base_program(name, NOTES.as_bytes());
    }
    r.sh("echo mine > /etc/row-mine");
    let alternatives = r.host.sh("command -v update-alternatives").status == 0;
    if alternatives {
        r.sh("mkdir -p /var/lib/dpkg/alternatives");
    }
    let first = r.picture();
    for Row(package, shows, word) in rows() {
        let name = package.file_name();
        if name.contains("alternative") && !alternatives {
            println!("{name}: skipped, because this host has no update-alternatives");
            continue;
        }
        let come = |r: &Rig| {
            // The base's systemctl is for scriptlets; the one that the program calls for the host only notes it.
            r.sh("mkdir -p /run/systemd/system /run/stand-in");
            std::fs::write(r.host.root().join("run/stand-in/systemctl"), NOTES).unwrap();
            r.sh("chmod 755 /run/stand-in/systemctl");
            r.build(&[&package])
        };
        let files = come(&r);
        ok(&r, &install(&files));
        r.sh(shows);
        let status = r.status();
        assert!(status.to_string().contains(word), "{name}: {word} is not in {status:#}");
        let (paths, mounts) = told(&r, &first);
        assert_eq!(changed(&first, &r.picture(), &mounts), paths, "{name}: what is another, and what the status lists");
        ok(&r, &["reset"]);
        assert_eq!(r.picture(), first, "{name}: after reset");

        ok(&r, &install(&files));
        r.host.reboot().unwrap();
        assert_eq!(r.picture(), first, "{name}: after a reboot");

        let files = come(&r);
        let args = [&["rpm-ostree-transient"][..], &install(&files)].concat();
        let held = format!("swapped=sleep({})", FOREVER.as_millis());
        let mut run = r.host.spawn(&[NODEPS[0], PATH, ("FAILPOINTS", &held)], &args).unwrap();
        if !run.wait_for_sleep(FOREVER / 2).unwrap() {
            panic!("{name}: the install ended by itself: {:?}", run.finish());
        }
        assert_eq!(run.kill().unwrap().status, 128 + 9, "{name}");
        r.host.reboot().unwrap();
        assert_eq!(r.picture(), first, "{name}: after a kill and a reboot");
    }
}
