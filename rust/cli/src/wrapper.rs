//! The door named `rpm-ostree`: calls with `--transient` are ours, every other call goes to the real program with the
//! same argv, environment, descriptors and exit status. People's `status` gets a section below it when something is layered.

use crate::exit::Report;
use crate::output::Output;
use model::{Code, Failure};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;

/// Verbs that `--transient` makes ours.
const VERBS: [&str; 9] = ["install", "uninstall", "remove", "status", "rollback", "reset", "history", "diff", "verify"];
/// The word that makes a call ours.
const WORD: &str = "--transient";
/// Where a package of this program keeps the real one when it took its place.
const SET_ASIDE: &str = "/usr/libexec/rpm-ostree-transient/rpm-ostree";
/// As a shell says "command not found".
const NOT_FOUND: u8 = 127;

/// What to do with a call. Without `argv[0]` and without the word itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// One of our verbs with `--transient`.
    Ours(Vec<OsString>),
    /// `status` as people call it: the real one, then our section.
    Status(Vec<OsString>),
    /// Everything else.
    PassThrough,
}

/// What is left to do for the caller of [`run`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Run our own program with these words.
    Ours(Vec<OsString>),
    /// Done.
    Exit(u8),
}

/// Decides by the words alone.
pub fn decide(argv: &[OsString]) -> Decision {
    let words = argv.get(1..).unwrap_or_default();
    let end = words.iter().position(|w| w == "--").unwrap_or(words.len());
    let (options, rest) = words.split_at(end);
    let verb = options.iter().find(|w| !w.as_encoded_bytes().starts_with(b"-")).and_then(|w| w.to_str());
    let Some(verb) = verb.filter(|v| VERBS.contains(v)) else { return Decision::PassThrough };
    if options.iter().any(|w| w == WORD) {
        return Decision::Ours(options.iter().filter(|w| *w != WORD).chain(rest).cloned().collect());
    }
    // Machine-readable output stays exactly as it is, and so does a look at another system root or at the help text.
    let for_programs = |w: &OsString| {
        let w = w.to_string_lossy();
        let name = w.split('=').next().unwrap_or_default();
        let bundled = name.starts_with('-') && !name.starts_with("--");
        matches!(name, "--json" | "--jsonpath" | "--sysroot" | "--help" | "--version")
            || bundled && name.contains(['J', 'h', '?'])
    };
    if verb == "status" && !options.iter().any(for_programs) {
        return Decision::Status(words.to_vec());
    }
    Decision::PassThrough
}

/// Carries out [`decide`]. Returns only when there is something left to do or to report.
pub fn run(argv: &[OsString]) -> Outcome {
    match decide(argv) {
        Decision::Ours(words) => Outcome::Ours(words),
        Decision::Status(words) => match real() {
            None => Outcome::Ours(words),
            // Without a section it is a call like any other.
            Some(program) => match section() {
                Ok(None) => Outcome::Exit(exec(&program, argv)),
                section => Outcome::Exit(status(&program, argv, section)),
            },
        },
        Decision::PassThrough => match real() {
            Some(program) => Outcome::Exit(exec(&program, argv)),
            None => Outcome::Exit(missing(argv)),
        },
    }
}

/// What is shown below the real status. Where this program never ran it does not even look.
fn section() -> anyhow::Result<Option<String>> {
    if Path::new(engine::generation::RUN_DIR).exists() { crate::commands::section() } else { Ok(None) }
}

/// The same call of another program as a child, `argv[0]` included.
fn command(program: &Path, argv: &[OsString]) -> Command {
    let mut command = Command::new(program);
    if let Some(name) = argv.first() {
        command.arg0(name);
    }
    command.args(argv.iter().skip(1));
    command
}

/// Becomes the real program. Comes back only when that fails.
fn exec(program: &Path, argv: &[OsString]) -> u8 {
    let error = bridge::process::exec(program, argv);
    let error = anyhow::Error::from(error).context(format!("Running {}", program.display()));
    Output::new(false).failure(&Report::from_error(&error));
    NOT_FOUND - 1
}

/// The real status, then our section. The exit status, or the signal, is that of the real one.
fn status(program: &Path, argv: &[OsString], section: anyhow::Result<Option<String>>) -> u8 {
    let output = Output::new(false);
    // ^C goes to both; the real one decides what it means. Not ignored, as that would be handed down.
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGQUIT] {
        let _ = signal_hook::flag::register(signal, Arc::default());
    }
    let real = match forwarding(&mut command(program, argv)) {
        Ok(status) => status,
        Err(error) => {
            let error = anyhow::Error::from(error).context(format!("Running {}", program.display()));
            output.failure(&Report::from_error(&error));
            return NOT_FOUND - 1;
        }
    };
    if real.success() {
        match section {
            Ok(Some(text)) => {
                let _ = output.stdout(&format!("\n{text}"));
            }
            Ok(None) => {}
            Err(error) => output.warning(&format!("transient layer: {}", Report::from_error(&error).message)),
        }
    }
    if let Some(signal) = real.signal() {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    let killed = || real.signal().and_then(|s| u8::try_from(128 + s).ok()).unwrap_or(1);
    real.code().and_then(|c| u8::try_from(c).ok()).unwrap_or_else(killed)
}

/// Runs a child to its end; SIGTERM, which a supervisor sends to this process alone, goes to the child.
fn forwarding(command: &mut Command) -> std::io::Result<ExitStatus> {
    // Before the child is there: a signal in between waits in the pipe.
    let (mut heard, told) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(signal_hook::consts::SIGTERM, told)?;
    let mut child = command.spawn()?;
    // A descriptor of the child cannot come to mean another process when it has ended.
    let of_child = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    let of_child = of_child.and_then(|p| rustix::process::pidfd_open(p, rustix::process::PidfdFlags::empty()).ok());
    if let Some(pidfd) = of_child {
        std::thread::spawn(move || {
            while heard.read(&mut [0]).is_ok_and(|n| n > 0) {
                let _ = rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::TERM);
            }
        });
    }
    child.wait()
}

fn missing(argv: &[OsString]) -> u8 {
    let verb = argv.get(1).map(|w| w.to_string_lossy().into_owned()).unwrap_or_default();
    let mut failure = Failure::new(Code::Failed, "there is no rpm-ostree on this host to hand this call to");
    if VERBS.contains(&verb.as_str()) {
        failure = failure.hint(format!("rpm-ostree {verb} {WORD} works without it"));
    }
    Output::new(false).failure(&Report::from_error(&failure.into()));
    NOT_FOUND
}

/// The first `rpm-ostree` of `PATH`, then of the places that do not depend on it, that is not this program.
fn real() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::current_exe().ok()?;
    find(&path, &[Path::new(SET_ASIDE), Path::new("/usr/bin/rpm-ostree")], &own)
}

fn find(path: &OsStr, others: &[&Path], own: &Path) -> Option<PathBuf> {
    let in_path = std::env::split_paths(path).filter(|d| d.is_absolute()).map(|d| d.join("rpm-ostree"));
    in_path.chain(others.iter().map(|p| p.to_path_buf())).find(|p| executable(p) && !same_program(p, own))
}

fn executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.mode() & 0o111 != 0)
}

/// By device and inode, and by content: two copies of this program would call each other for ever.
fn same_program(a: &Path, b: &Path) -> bool {
    let (Ok(ma), Ok(mb)) = (std::fs::metadata(a), std::fs::metadata(b)) else { return false };
    if (ma.dev(), ma.ino()) == (mb.dev(), mb.ino()) {
        return true;
    }
    ma.len() == mb.len() && same_content(a, b).unwrap_or(false)
}

fn same_content(a: &Path, b: &Path) -> std::io::Result<bool> {
    let (mut a, mut b) = (File::open(a)?, File::open(b)?);
    let (mut left, mut right) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        let n = a.read(&mut left)?;
        if n == 0 {
            return Ok(true);
        }
        b.read_exact(&mut right[..n])?;
        if left[..n] != right[..n] {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn calls_with_the_word_are_ours() {
        for (line, ours) in [
            ("rpm-ostree install --transient -y a b --idempotent", "install -y a b --idempotent"),
            ("rpm-ostree install a --transient", "install a"),
            ("rpm-ostree --transient install a", "install a"),
            ("rpm-ostree install --transient -- --transient", "install -- --transient"),
            ("rpm-ostree status --transient --json", "status --json"),
            ("rpm-ostree rollback --transient", "rollback"),
            ("rpm-ostree reset --transient --help", "reset --help"),
            ("rpm-ostree remove --transient a", "remove a"),
            ("rpm-ostree history --transient", "history"),
            ("rpm-ostree diff --transient", "diff"),
            ("rpm-ostree verify --transient", "verify"),
        ] {
            assert_eq!(decide(&words(line)), Decision::Ours(words(ours)), "{line}");
        }
    }

    #[test]
    fn every_other_call_is_passed_through() {
        for line in [
            "rpm-ostree",
            "rpm-ostree --version",
            "rpm-ostree install a",
            "rpm-ostree install a -- --transient",
            "rpm-ostree upgrade --transient",
            "rpm-ostree usroverlay --transient",
            "rpm-ostree override replace --transient x.rpm",
            "rpm-ostree db diff",
            "rpm-ostree rollback",
            "rpm-ostree reset",
            "rpm-ostree status --json",
            "rpm-ostree status -v --jsonpath=$.deployments",
            "rpm-ostree status -J $.deployments",
            "rpm-ostree status -vJ $.deployments",
            "rpm-ostree status --sysroot=/mnt",
            "rpm-ostree status --help",
        ] {
            assert_eq!(decide(&words(line)), Decision::PassThrough, "{line}");
        }
    }

    #[test]
    fn status_of_people_gets_a_section() {
        for line in ["rpm-ostree status", "rpm-ostree status -v -b", "rpm-ostree status --pending-exit-77"] {
            assert_eq!(decide(&words(line)), Decision::Status(words(line)[1..].to_vec()), "{line}");
        }
    }

    #[test]
    fn the_real_one_is_never_this_program() {
        let dir = tempfile::tempdir().unwrap();
        let program = |name: &str, content: &str| {
            let path = dir.path().join(name).join("rpm-ostree");
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let own = program("own", "wrapper");
        let copy = program("copy", "wrapper");
        let other = program("other", "genuine");
        let link = dir.path().join("link/rpm-ostree");
        std::fs::create_dir(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        let search = |programs: &[&Path]| std::env::join_paths(programs.iter().map(|p| p.parent().unwrap())).unwrap();
        let path = search(&[&own, &link, &copy, &other]);
        assert_eq!(find(&path, &[], &own), Some(other.clone()));
        assert_eq!(find(&search(&[&own, &link, &copy]), &[], &own), None);
        assert_eq!(find(OsStr::new(""), &[&own, &other], &own), Some(other.clone()));
        std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(find(&path, &[], &own), None, "not executable");
    }
}
