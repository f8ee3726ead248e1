//! The real librpm transaction, in a sandbox of throw-away overlays. The parent process starts a worker (this
//! program again, single-threaded) that enters new mount, pid, ipc, uts and network namespaces.

use anyhow::Result;
use model::{Nevra, Progress};
use std::path::PathBuf;

/// What to run, over what. Sent to the worker as JSON.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Spec {
    /// Layers over the base, top first.
    pub layers: Vec<PathBuf>,
    /// The parked base.
    pub base: PathBuf,
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
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct Staged {
    /// Upper directory of `/usr`.
    pub usr: PathBuf,
    /// Upper directory of `/etc`.
    pub etc: PathBuf,
    /// Upper directory of `/var`.
    pub var: PathBuf,
    /// Non-fatal scriptlet failures and refused commands.
    pub not_applied: Vec<model::NotApplied>,
}

/// Runs the transaction in the sandbox.
///
/// # Errors
/// [`model::Code`]: `Scriptlet` (package, slot, exit status, last lines), `FileConflict`, `NoSpace`, `Interrupted`.
pub fn stage(_spec: &Spec, _progress: &dyn Progress) -> Result<Staged> {
    anyhow::bail!("not built yet")
}

/// Name of the hidden subcommand that `main` hands to [`worker_main`].
pub const WORKER_COMMAND: &str = "stage-worker";

/// The worker: reads a [`Spec`] from stdin, writes events and the result to stdout. Returns the exit status.
pub fn worker_main() -> u8 {
    1
}
