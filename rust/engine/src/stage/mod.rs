//! The real librpm transaction, in a sandbox of throw-away overlays. The parent process starts a worker (this
//! program again, single-threaded) that enters new mount, pid, ipc, uts and network namespaces ([`worker`]) and there
//! builds the file system that scriptlets see ([`sandbox`]). Parent and worker speak JSON lines ([`Message`]).

mod finish;
mod parent;
mod rpmdb;
mod sandbox;
mod trace;
mod worker;
mod wrappers;

use anyhow::Result;
use model::{Cause, Effect, Failure, Nevra, NotApplied, Progress};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use worker::worker_main;

/// What to run, over what. Sent to the worker as JSON.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Spec {
    /// Layers over the base, top first.
    pub layers: Vec<PathBuf>,
    /// The parked base.
    pub base: PathBuf,
    /// Live copies that stand for symlinks of ours in `/etc`.
    pub etc: Option<PathBuf>,
    /// Live content below mount points of ours in `/var`.
    pub var: Option<PathBuf>,
    /// sysusers.d(5) lines of the packages, for librpm before 4.19, which does not read them.
    pub sysusers: String,
    /// The previous layer has a linker cache of its own.
    pub linker_cache: bool,
    /// Empty directory in our tmpfs for upper and work directories.
    pub work: PathBuf,
    /// Package files to install (or upgrade, downgrade, reinstall).
    pub install: Vec<PathBuf>,
    /// Packages to remove.
    pub remove: Vec<Nevra>,
    /// `--force-replacefiles`.
    pub replace_files: bool,
    /// Test only, see `resolve::Options`.
    pub no_deps: bool,
    /// Wall-clock limit in seconds.
    pub timeout: u64,
}

/// What the transaction left, to be harvested.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Staged {
    /// Upper directory of `/usr`.
    pub usr: PathBuf,
    /// Upper directory of `/etc`.
    pub etc: PathBuf,
    /// Upper directory of `/var`.
    pub var: PathBuf,
    /// Non-fatal scriptlet failures, commands for the running host, and what was written where no layer reaches.
    pub not_applied: Vec<NotApplied>,
    /// Absolute path outside `/usr` to the scriptlet that changed it.
    pub causes: BTreeMap<PathBuf, Cause>,
    /// Directories that came up in `/run`.
    pub run: Vec<Effect>,
}

/// What the worker itself can tell at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Findings {
    not_applied: Vec<NotApplied>,
    causes: BTreeMap<PathBuf, Cause>,
    run: Vec<Effect>,
}

/// Runs the transaction in the sandbox.
///
/// # Errors
/// [`model::Code`]: `Scriptlet` (package, slot, exit status, last lines; also when time is up), `FileConflict`,
/// `NoSpace`, `Unsolvable` (librpm's own dependency check), `Interrupted`.
pub fn stage(spec: &Spec, progress: &dyn Progress) -> Result<Staged> {
    stage_with(Path::new("/proc/self/exe"), spec, progress)
}

/// As [`stage`], with another program in the place of this one; its `main` must call [`worker_main`].
///
/// # Errors
/// As [`stage`].
pub fn stage_with(program: &Path, spec: &Spec, progress: &dyn Progress) -> Result<Staged> {
    parent::run(program, spec, progress)
}

/// Name of the hidden subcommand that `main` hands to [`worker_main`].
pub const WORKER_COMMAND: &str = "stage-worker";

/// The first line on the worker's stdin.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Order {
    /// Who must be alive for the worker to go on.
    parent: u32,
    spec: Spec,
}

/// One line on the worker's stdout.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
enum Message {
    /// Process id of the sandbox's init, in the parent's own numbering. When it ends, everything in the sandbox ends.
    Init { pid: i32 },
    /// Bytes of a package unpacked.
    Bytes { what: String, done: u64, total: u64 },
    /// A scriptlet begins; what it prints is in the log from `log_at` on.
    Scriptlet { package: String, slot: String, log_at: u64 },
    /// It has ended.
    ScriptletEnd,
    /// A line that it printed.
    Line { package: String, line: String },
    /// The transaction is done.
    Done { findings: Findings },
    /// The transaction failed, for a reason that has a name.
    Failed { failure: Failure },
    /// Anything else went wrong.
    Broken { error: String },
}

/// Where things are below [`Spec::work`].
#[derive(Debug, Clone)]
struct Layout {
    work: PathBuf,
}

impl Layout {
    fn new(work: &Path) -> Self {
        Layout { work: work.to_owned() }
    }
    fn upper(&self, hierarchy: &str) -> PathBuf {
        self.work.join(hierarchy).join("upper")
    }
    fn overlay_work(&self, hierarchy: &str) -> PathBuf {
        self.work.join(hierarchy).join("work")
    }
    /// Mount point of the sandbox's root.
    fn root(&self) -> PathBuf {
        self.work.join("root")
    }
    /// Scripts in the place of commands.
    fn wrappers(&self) -> PathBuf {
        self.work.join("wrappers")
    }
    /// What scriptlets print.
    fn scriptlet_log(&self) -> PathBuf {
        self.work.join("scriptlets.log")
    }
    /// What the worker itself prints, which is nothing unless it is broken.
    fn worker_log(&self) -> PathBuf {
        self.work.join("worker.log")
    }
}
