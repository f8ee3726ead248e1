//! The store below `/run/rpm-ostree-transient`: its tmpfs, the parked base, generations with their flat layers and
//! manifests, the journal. Knows files, not mounts over `/usr`.
//!
//! ```text
//! /run/rpm-ostree-transient/            0755
//!   store/                              0700, own private tmpfs with a size and an inode limit
//!     base/                             bind: parked clone of the pristine /usr
//!     generations/N/manifest.json       written last; a directory without it is unfinished
//!     generations/N/packages/           the flat layer: content relative to /usr
//!     staging/                          work of the running transaction; emptied at start
//!     journal.json                      the running change: intent, from, to; absent when none runs
//!     history.json
//! ```

use crate::host::Host;
use crate::lock::HostLock;
use anyhow::Result;
use model::Manifest;
use std::path::PathBuf;

/// Where everything of ours lives.
pub const RUN_DIR: &str = "/run/rpm-ostree-transient";

/// The opened store. Only a lock opens it for change.
#[derive(Debug)]
pub struct Store {
    /// `/run/rpm-ostree-transient/store`.
    pub path: PathBuf,
}

/// Space of the store's tmpfs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes that can still be written.
    pub free_bytes: u64,
    /// Inodes that can still be made.
    pub free_inodes: u64,
    /// Bytes used.
    pub used_bytes: u64,
    /// Size limit.
    pub total_bytes: u64,
}

/// A change that began and was not finished: read at the start of the next run.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Journal {
    /// Live generation before.
    pub from: u64,
    /// Generation to become live; 0 for the base.
    pub to: u64,
    /// Effects to undo when the swap did not happen, or to finish when it did.
    pub effects: Vec<model::Effect>,
    /// Effects of `from`, which go when the swap happened.
    pub old_effects: Vec<model::Effect>,
    /// The history line to be written when it is done.
    pub entry: model::status::HistoryEntry,
}

impl Store {
    /// Opens the store, making tmpfs, parked base and directories when they are missing, and empties `staging/`.
    /// State of another boot or deployment (see `stamp`) is cleaned first.
    ///
    /// # Errors
    /// [`model::Code::StateDamaged`] when what is there is not ours.
    pub fn open(_lock: &HostLock, _host: &Host) -> Result<Store> {
        anyhow::bail!("not built yet")
    }
    /// The store when it exists; for readers. Needs root.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn open_existing() -> Result<Option<Store>> {
        anyhow::bail!("not built yet")
    }
    /// The parked clone of the pristine `/usr`.
    pub fn base(&self) -> PathBuf {
        self.path.join("base")
    }
    /// The flat layer of a generation.
    pub fn layer(&self, generation: u64) -> PathBuf {
        self.path.join("generations").join(generation.to_string()).join("packages")
    }
    /// The empty staging directory of this run.
    pub fn staging(&self) -> PathBuf {
        self.path.join("staging")
    }
    /// A number no generation of this boot has had.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn next_number(&self) -> Result<u64> {
        anyhow::bail!("not built yet")
    }
    /// Reads a manifest.
    ///
    /// # Errors
    /// When it is missing or damaged.
    pub fn manifest(&self, _generation: u64) -> Result<Manifest> {
        anyhow::bail!("not built yet")
    }
    /// Renames a finished layer into its place and writes the manifest last.
    ///
    /// # Errors
    /// From the filesystem; nothing is left half done.
    pub fn seal(&self, _lock: &HostLock, _layer: &std::path::Path, _manifest: &Manifest) -> Result<()> {
        anyhow::bail!("not built yet")
    }
    /// Removes every generation but those named.
    ///
    /// # Errors
    /// From the filesystem.
    pub fn keep_only(&self, _lock: &HostLock, _generations: &[u64]) -> Result<()> {
        anyhow::bail!("not built yet")
    }
    /// Free and used space.
    ///
    /// # Errors
    /// From statfs.
    pub fn space(&self) -> Result<Space> {
        anyhow::bail!("not built yet")
    }
    /// Writes the journal (temporary file, rename).
    ///
    /// # Errors
    /// From the filesystem.
    pub fn write_journal(&self, _lock: &HostLock, _journal: &Journal) -> Result<()> {
        anyhow::bail!("not built yet")
    }
    /// The journal of an unfinished run.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn journal(&self) -> Result<Option<Journal>> {
        anyhow::bail!("not built yet")
    }
    /// Removes the journal: the change is done or undone.
    ///
    /// # Errors
    /// From the filesystem.
    pub fn clear_journal(&self, _lock: &HostLock) -> Result<()> {
        anyhow::bail!("not built yet")
    }
    /// Appends to, and reads, `history.json`.
    ///
    /// # Errors
    /// From the filesystem.
    pub fn append_history(&self, _lock: &HostLock, _entry: &model::status::HistoryEntry) -> Result<()> {
        anyhow::bail!("not built yet")
    }
    /// Reads `history.json`, oldest first.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn history(&self) -> Result<Vec<model::status::HistoryEntry>> {
        anyhow::bail!("not built yet")
    }
    /// Unmounts the parked base and the store's tmpfs and removes `RUN_DIR` but for the lock file. Only with no overlay of ours live.
    ///
    /// # Errors
    /// From the kernel.
    pub fn destroy(self, _lock: &HostLock) -> Result<()> {
        anyhow::bail!("not built yet")
    }
}

impl Store {
    /// Empties `staging/` after a failed run.
    ///
    /// # Errors
    /// From the filesystem.
    pub fn empty_staging(&self, _lock: &HostLock) -> Result<()> {
        anyhow::bail!("not built yet")
    }
}

/// False when the store was made in another boot or for another deployment (soft reboot).
///
/// # Errors
/// When the stamp is damaged.
pub fn stamp_is_current(_store: &Store, _host: &Host) -> Result<bool> {
    anyhow::bail!("not built yet")
}

/// Space of the store's tmpfs for readers without root; none when there is no store.
///
/// # Errors
/// From statvfs.
pub fn space_of_store() -> Result<Option<Space>> {
    anyhow::bail!("not built yet")
}
