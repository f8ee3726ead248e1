//! Services, alternatives and the linker: what must learn of the layer does, and unlearns it.

use crate::Rig;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use testkit::packages::{Content, Package};

/// Notes how it was called.
pub(crate) const NOTES: &str = "#!/bin/sh\necho \"${0##*/} $*\" >> /run/called\n";

/// A host that seems to run systemd, udev and a bus, whose control programs only note that they were called.
fn with_services() -> (Rig, UnixListener) {
    let r = Rig::new();
    for name in ["systemctl", "udevadm", "busctl"] {
        r.base_program(name, NOTES.as_bytes());
    }
    r.sh("mkdir -p /run/systemd/system /run/udev /run/dbus && touch /run/udev/control");
    // What connects there is not spoken to: the control program is another.
    let bus = UnixListener::bind(r.host.root().join("run/dbus/system_bus_socket")).unwrap();
    (r, bus)
}

/// What was called since the last time.
fn called(r: &Rig) -> Vec<String> {
    r.sh("cat /run/called 2>/dev/null; rm -f /run/called").lines().map(str::to_owned).collect()
}

/// coreos/rpm-ostree#1614, fedora-silverblue/issue-tracker#430: with update-alternatives the commands work and nothing
/// of it outlives the layer; without it each link that leads nowhere is told.
#[test]
fn case_31_alternatives() {
    let Some((mut r, corpus)) = Rig::with_corpus() else { return };
    let links = "rpm -ql python39-evtx | grep '^/usr/bin/.*py$'";
    let file = r.place(&corpus, "distro/python39-evtx");
    r.install(std::slice::from_ref(&file));
    let told = r.status().to_string();
    for link in r.sh(links).lines() {
        let shown = r.sh(&format!("test -e {link} && echo works || :"));
        assert!(shown.contains("works") || told.contains(link), "{link} dangles: {told}");
    }
    r.ok(&["reset"]);
    let Ok(program) = std::fs::read("/usr/bin/update-alternatives") else {
        println!("skipped in part, because update-alternatives is not here");
        return;
    };
    r.base_program("update-alternatives", &program);
    r.sh("mkdir -p /var/lib/dpkg");
    let first = r.picture();
    r.install(&[file]);
    assert_eq!(r.sh(links).lines().count(), 9);
    r.sh(&format!("for f in $({links}); do head -1 $f | grep -q python || exit 1; done"));
    let kinds = r.listed("effects", "path");
    assert!(kinds.iter().any(|p| p.starts_with("/etc/alternatives/evtx")), "{kinds:?}");
    r.host.reboot().unwrap();
    assert_eq!(r.picture(), first);
}

/// coreos/rpm-ostree#550, #1148: units are known, and none is enabled for good or started.
#[test]
fn case_37_units() {
    let Some((_, corpus)) = Rig::with_corpus() else { return };
    let (r, _bus) = with_services();
    let enabled = || {
        r.sh("find /etc/systemd/system /usr/lib/systemd/system -name '*.wants' | xargs -I{} find {} -type l | LC_ALL=C sort")
    };
    let first = enabled();
    r.install(&[r.place(&corpus, "distro/ngircd-"), r.place(&corpus, "zfs-el9/Packages/zfs-2")]);
    r.sh("test -e /usr/lib/systemd/system/ngircd.service && test -e /usr/lib/systemd/system/zfs-import-cache.service");
    assert!(r.listed("effects", "kind").contains(&"reload-units".to_owned()));
    let calls = called(&r);
    assert!(calls.contains(&"systemctl daemon-reload".to_owned()), "{calls:?}");
    let started = |calls: &[String]| -> Vec<String> {
        let words =
            |c: &&String| ["start", "restart", "enable", "preset"].iter().any(|w| c.split(' ').any(|x| x == *w));
        calls.iter().filter(words).filter(|c| !c.contains("rpm-ostree-transient-")).cloned().collect()
    };
    assert_eq!(started(&calls), Vec::<String>::new());
    // The layer itself enables nothing: the one link that is new enables what cleans up after a power cut.
    let now = enabled();
    let new: Vec<&str> = now.lines().filter(|l| !first.lines().any(|f| f == *l)).collect();
    assert_eq!(new, ["/etc/systemd/system/sysinit.target.wants/rpm-ostree-transient-clean.service"]);
    // What %post asked of services is told, and not done.
    let starts = Package::new("starts", "1")
        .file("/usr/lib/systemd/system/starts.service", "[Service]\nExecStart=/usr/bin/true\n")
        .scriptlet("post", "systemctl start starts.service");
    r.install(&r.build(&[&starts]));
    assert_eq!(started(&called(&r)), Vec::<String>::new());
    let told = r.listed("notApplied", "what");
    assert!(told.iter().any(|w| w.contains("systemctl start starts.service")), "{told:?}");
    // Known no longer.
    r.ok(&["reset"]);
    assert!(called(&r).contains(&"systemctl daemon-reload".to_owned()));
    assert_eq!(enabled(), first);
}

/// systemd/systemd#41662: bus policy and udev rules are read again, wherever a package has them, and once more when they
/// go.
#[test]
fn case_38_bus_and_udev() {
    let (r, _bus) = with_services();
    let check = |files: &[String], kind: &str, word: &str| {
        r.install(files);
        assert!(r.listed("effects", "kind").contains(&kind.to_owned()), "{files:?}");
        let calls = called(&r);
        assert_eq!(calls.iter().filter(|c| c.contains(word)).count(), 1, "{files:?}: {calls:?}");
        r.ok(&["reset"]);
        let calls = called(&r);
        assert_eq!(calls.iter().filter(|c| c.contains(word)).count(), 1, "{files:?}, reset: {calls:?}");
    };
    let policy = Package::new("policy", "1").file("/usr/share/dbus-1/system.d/x.conf", "<busconfig/>\n");
    check(&r.build(&[&policy]), "reload-bus", "ReloadConfig");
    let rules = Package::new("rules", "1").config("/etc/udev/rules.d/99-x.rules", "# none\n");
    check(&r.build(&[&rules]), "reload-udev", "--reload");
    let Some(corpus) = crate::corpus::corpus() else { return };
    check(&[r.place(&corpus, "distro/abrt-")], "reload-bus", "ReloadConfig");
    check(&[r.place(&corpus, "maccel-fc43/maccel-")], "reload-udev", "--reload");
}

/// Compiles C; the bytes.
pub(crate) fn compile(text: &str, args: &[&str]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("x.c"), dir.path().join("x"));
    std::fs::write(&source, text).unwrap();
    testkit::tool(Command::new("cc").arg("-o").arg(&out).arg(&source).args(args)).unwrap();
    std::fs::read(out).unwrap()
}

/// projectbluefin/dakota#516: a library in a directory that only `ld.so.conf.d` names is found while it is layered, and
/// no cache names it afterwards.
#[test]
fn case_39_linker_cache() {
    let mut r = Rig::new();
    let library = compile("int answer(void) { return 42; }", &["-shared", "-Wl,-soname,libanswer.so.1"]);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("libanswer.so"), &library).unwrap();
    let link = format!("-L{}", dir.path().display());
    let program =
        compile("int answer(void); int main(void) { return answer() != 42; }", &[&link, "-lanswer", "-Wl,--as-needed"]);
    let package = Package::new("answers", "1")
        .native()
        .tag("AutoReqProv", "no")
        .any_file("/usr/lib/answers/libanswer.so.1", Content::Bytes(library), 0o755, "")
        .any_file("/usr/bin/answers", Content::Bytes(program), 0o755, "")
        .file("/etc/ld.so.conf.d/answers.conf", "/usr/lib/answers\n");
    let first = r.picture();
    let cache = |r: &Rig| r.sh("ldconfig -p");
    let before = cache(&r);
    for reboot in [false, true] {
        r.install(&r.build(&[&package]));
        r.sh("answers");
        assert!(cache(&r).contains("/usr/lib/answers/libanswer.so.1"));
        assert!(r.listed("effects", "path").contains(&"/etc/ld.so.cache".to_owned()));
        if reboot {
            r.host.reboot().unwrap();
        } else {
            r.ok(&["uninstall", "answers"]);
        }
        assert_eq!(cache(&r), before);
        assert_eq!(r.picture(), first);
        r.sh("ldconfig -p | sed -n 's/.*=> //p' | while read -r f; do test -e $f || exit 1; done");
    }
    assert!(!Path::new("/usr/lib/answers").exists());
}
