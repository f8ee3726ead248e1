//! Cases from public bug reports about live package layering, each run as reported and held against the answer that is
//! right for a careful user. A test is named after its number in the list and what it is about; the comment on it names
//! a thread. Others of the list are in `tests/host` and in the table of the corpus.
//!
//! | cases | where |
//! |---|---|
//! | 6, 10, 16, 28, 29 | `overlay`; 6 also `labels` of `tests/host`, 16 the corpus' `evil-` files |
//! | 22, 24, 26, 32, 40, 42 | `policy`; 42 also `edits` and `etc_readers` of `tests/host`, and the corpus' `pictures` |
//! | 31, 37, 38, 39 | `services`; 31 and 39 also `caches`, 37 also `units` of `tests/host` |
//! | 33, 34, 35 | `accounts` |
//! | 51 | `truth`; also `soak` and `verify` of `tests/host` |
#![expect(clippy::print_stdout, reason = "a skipped case is told")]

#[path = "../corpus.rs"]
mod corpus;

mod accounts;
mod overlay;
mod policy;
mod rows;
mod services;
mod truth;

use serde_json::Value;
use std::path::PathBuf;
use testkit::host::{Output, TestHost};
use testkit::packages::Package;
use testkit::picture::Picture;

/// Where packages lie inside; gone after a reboot.
const INSIDE: &str = "/tmp/packages";
/// Requires of single files of the corpus are not here.
const NODEPS: [(&str, &str); 1] = [("RPM_OSTREE_TRANSIENT_TEST_NODEPS", "1")];

/// A host, with calls that fail a test loudly.
struct Rig {
    host: TestHost,
}

impl Rig {
    fn new() -> Rig {
        Rig { host: TestHost::start().unwrap() }
    }

    /// With the corpus, when it is here.
    fn with_corpus() -> Option<(Rig, PathBuf)> {
        corpus::corpus().map(|dir| (Rig::new(), dir))
    }

    fn run(&self, args: &[&str]) -> Output {
        self.host.run_env(&NODEPS, &[&["rpm-ostree-transient"], args].concat())
    }

    /// Must exit with 0; stdout and stderr.
    #[track_caller]
    fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert_eq!(out.status, 0, "{args:?}: {out:?}");
        out.stdout + &out.stderr
    }

    /// A bash script inside, which must end with 0; its stdout.
    #[track_caller]
    fn sh(&self, script: &str) -> String {
        let out = self.host.sh(script);
        assert_eq!(out.status, 0, "{script}: {out:?}");
        out.stdout
    }

    /// Builds packages into the host; their paths there.
    fn build(&self, packages: &[&Package]) -> Vec<String> {
        let dir = self.host.root().join(&INSIDE[1..]);
        std::fs::create_dir_all(&dir).unwrap();
        let path = |p: &&Package| {
            p.build(&dir).unwrap();
            format!("{INSIDE}/{}", p.file_name())
        };
        packages.iter().map(path).collect()
    }

    /// Copies a file of the corpus, whose name begins so, into the host.
    #[track_caller]
    fn place(&self, corpus: &std::path::Path, name: &str) -> String {
        let files = corpus::files(corpus);
        let found = files.range(name.to_owned()..).next().filter(|(n, _)| n.starts_with(name));
        let (_, path) = found.unwrap_or_else(|| panic!("{name} is not in the corpus"));
        let dir = self.host.root().join(&INSIDE[1..]);
        std::fs::create_dir_all(&dir).unwrap();
        let file = path.file_name().unwrap().to_str().unwrap();
        let file = if file.ends_with(".rpm") { file.to_owned() } else { format!("{file}.rpm") };
        std::fs::copy(path, dir.join(&file)).unwrap();
        format!("{INSIDE}/{file}")
    }

    /// Installs local files; what was said.
    #[track_caller]
    fn install(&self, files: &[String]) -> String {
        self.ok(&install(files))
    }

    /// An install that must be refused with `code`; what was said. Nothing of the host may change.
    #[track_caller]
    fn refused(&self, files: &[String], code: i32) -> String {
        let mounts = || self.sh("cut -d' ' -f3- /proc/self/mountinfo");
        let (before, table) = (self.picture(), mounts());
        let out = self.run(&install(files));
        assert_eq!(out.status, code, "{out:?}");
        assert_eq!(self.picture(), before);
        assert_eq!(mounts(), table);
        out.stdout + &out.stderr
    }

    fn picture(&self) -> Picture {
        self.host.picture().unwrap()
    }

    /// The status part of the status document.
    #[track_caller]
    fn status(&self) -> Value {
        let document: Value = serde_json::from_str(&self.ok(&["status", "--json"])).unwrap();
        document["status"].clone()
    }

    /// Values of one key of the entries of a list in the status.
    #[track_caller]
    fn listed(&self, list: &str, key: &str) -> Vec<String> {
        let status = self.status();
        let entries = status[list].as_array().unwrap_or_else(|| panic!("no {list} in {status}"));
        entries.iter().filter_map(|e| e[key].as_str()).map(str::to_owned).collect()
    }

    /// The base's `/usr`, from outside. Its files are shared between hosts: they are replaced, never written.
    fn base_usr(&self) -> PathBuf {
        let dir = self.host.sysroot().join("ostree/deploy/testos/deploy");
        let mut paths = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
        paths.find(|p| p.is_dir()).unwrap().join("usr")
    }

    /// A program of the base, put there or replaced.
    fn base_program(&self, name: &str, text: &[u8]) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.base_usr().join("bin").join(name);
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn install(files: &[String]) -> Vec<&str> {
    let words = ["install", "--disablerepo=*", "--nogpgcheck"];
    words.into_iter().chain(files.iter().map(String::as_str)).collect()
}
