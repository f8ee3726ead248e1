//! The wrapper against a recording stand-in for the real rpm-ostree: argv, environment, stdin and exit status arrive
//! unchanged, and what is ours never reaches it.

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Records its call below `$RECORD`, copies stdin to stdout and exits with `$STATUS`.
const STAND_IN: &str = r#"#!/bin/bash
for a in "$@"; do printf '%s\0' "$a"; done > "$RECORD/argv"
tr '\0' '\n' < /proc/$$/environ | sort > "$RECORD/environ"
grep '^Sig[IB]' /proc/$$/status > "$RECORD/signals"
cat
exit "${STATUS:-0}"
"#;

struct Door {
    dir: tempfile::TempDir,
}

impl Door {
    fn new(with_real: bool) -> Door {
        let dir = tempfile::tempdir().unwrap();
        for d in ["wrapper", "real", "record"] {
            std::fs::create_dir(dir.path().join(d)).unwrap();
        }
        symlink(env!("CARGO_BIN_EXE_rpm-ostree-transient"), dir.path().join("wrapper/rpm-ostree")).unwrap();
        if with_real {
            let real = dir.path().join("real/rpm-ostree");
            std::fs::write(&real, STAND_IN).unwrap();
            std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        Door { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn call(&self, args: &[&str], status: u8, stdin: &str) -> Output {
        let search = format!("{}:{}:/usr/bin:/bin", self.path("wrapper").display(), self.path("real").display());
        let mut child = Command::new(self.path("wrapper/rpm-ostree"))
            .args(args)
            .env_clear()
            .env("PATH", search)
            .env("RECORD", self.path("record"))
            .env("STATUS", status.to_string())
            .env("ODD", "a b=\u{e9}")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The program may not read it at all.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        child.wait_with_output().unwrap()
    }

    fn recorded(&self) -> Option<Vec<String>> {
        let text = std::fs::read_to_string(self.path("record/argv")).ok()?;
        Some(text.split_terminator('\0').map(str::to_owned).collect())
    }
}

/// Tests of an absent real program mean nothing where the machine has one.
fn machine_has_rpm_ostree() -> bool {
    ["/usr/bin/rpm-ostree", "/usr/libexec/rpm-ostree-transient/rpm-ostree"].iter().any(|p| Path::new(p).exists())
}

#[test]
fn a_call_without_the_word_arrives_unchanged() {
    let door = Door::new(true);
    let args = ["install", "-A", "a b", "", "it's", "--", "--transient"];
    let out = door.call(&args, 42, "from stdin\n");
    assert_eq!(out.status.code(), Some(42));
    assert_eq!(String::from_utf8_lossy(&out.stdout), "from stdin\n");
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
    assert_eq!(door.recorded().unwrap(), args);
    let environ = std::fs::read_to_string(door.path("record/environ")).unwrap();
    let names: Vec<&str> = environ.lines().filter_map(|l| l.split('=').next()).collect();
    assert_eq!(names, ["ODD", "PATH", "RECORD", "STATUS"]);
    assert!(environ.contains("ODD=a b=\u{e9}\n"));
}

/// Services of systemd ignore SIGPIPE, shells do not; the standard library would give both the same.
#[test]
fn signals_arrive_as_they_are() {
    let door = Door::new(true);
    let signals = |program: &Path, trap: &str| {
        let script = format!("trap '' {trap}; exec {} upgrade", program.display());
        let search = format!("{}:/usr/bin:/bin", door.path("real").display());
        let mut command = Command::new("/bin/bash");
        command.args(["-c", &script]).env("PATH", search).env("RECORD", door.path("record")).stdin(Stdio::null());
        assert!(command.status().unwrap().success());
        std::fs::read_to_string(door.path("record/signals")).unwrap()
    };
    let (wrapper, real) = (door.path("wrapper/rpm-ostree"), door.path("real/rpm-ostree"));
    let direct = signals(&real, "PIPE USR1");
    assert_ne!(direct, signals(&real, "USR1"));
    for trap in ["USR1", "PIPE USR1", "HUP INT TERM"] {
        assert_eq!(signals(&wrapper, trap), signals(&real, trap), "{trap}");
    }
}

#[test]
fn status_keeps_output_and_exit_status() {
    let door = Door::new(true);
    for args in [&["status", "--json"][..], &["status"], &["status", "-v", "--pending-exit-77"]] {
        let out = door.call(args, 77, "State: idle\n");
        assert_eq!(out.status.code(), Some(77), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&out.stdout), "State: idle\n", "{args:?}");
        assert_eq!(door.recorded().unwrap(), args);
    }
}

#[test]
fn a_call_with_the_word_never_reaches_the_real_one() {
    let door = Door::new(true);
    for args in [&["install", "--transient", "--help"][..], &["--transient", "install", "--help"]] {
        let out = door.call(args, 42, "");
        assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(text.contains("Usage: rpm-ostree --transient install [OPTIONS]"), "{text}");
    }
    let out = door.call(&["install", "--transient", "--json", "--no-such-option", "x"], 42, "");
    assert_eq!(out.status.code(), Some(2));
    let document: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(document["error"]["code"], "usage");
    assert!(document["error"]["message"].as_str().unwrap().contains("--no-such-option"));
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
    let out = door.call(&["install", "--transient", "@group"], 42, "");
    assert_eq!(out.status.code(), Some(2), "looked at before anything else");
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(
        text.starts_with("error: \"@group\": package groups are not supported") && text.lines().count() == 1,
        "{text}"
    );
    assert_eq!(door.recorded(), None);
}

#[test]
fn without_a_real_one_the_message_says_so() {
    if machine_has_rpm_ostree() {
        writeln!(std::io::stderr(), "skipped, because this machine has an rpm-ostree").unwrap();
        return;
    }
    let door = Door::new(false);
    let out = door.call(&["install", "x"], 0, "");
    assert_eq!(out.status.code(), Some(127));
    assert_eq!(
        String::from_utf8_lossy(&out.stderr),
        "error: there is no rpm-ostree on this host to hand this call to\n\
         hint: rpm-ostree install --transient works without it\n"
    );
    assert_eq!(door.call(&["upgrade"], 0, "").status.code(), Some(127));
}
