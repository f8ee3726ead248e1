//! The journal of the running change and the history of this boot. Both are whole files, replaced by rename.

use super::{Store, read_json, write_json};
use crate::files;
use crate::lock::HostLock;
use anyhow::{Context as _, Result};
use model::status::HistoryEntry;
use std::path::PathBuf;

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
    pub entry: HistoryEntry,
}

impl Store {
    fn journal_path(&self) -> PathBuf {
        self.path.join("journal.json")
    }

    fn history_path(&self) -> PathBuf {
        self.path.join("history.json")
    }

    fn next_history_path(&self) -> PathBuf {
        self.path.join("history.next.json")
    }

    /// Writes the journal (temporary file, rename).
    ///
    /// # Errors
    /// From the filesystem.
    pub fn write_journal(&self, _lock: &HostLock, journal: &Journal) -> Result<()> {
        write_json(&self.journal_path(), journal)
    }

    /// The journal of an unfinished run.
    ///
    /// # Errors
    /// [`model::Code::StateDamaged`] when it is damaged.
    pub fn journal(&self) -> Result<Option<Journal>> {
        read_json(&self.journal_path())
    }

    /// Removes the journal: the change is done or undone.
    ///
    /// # Errors
    /// From the filesystem.
    pub fn clear_journal(&self, _lock: &HostLock) -> Result<()> {
        files::remove(&self.next_history_path())?;
        files::remove(&self.journal_path())
    }

    /// Writes the history with this entry beside the present one, while failing is still possible: the store may be full
    /// after the swap.
    ///
    /// # Errors
    /// From the filesystem; [`model::Code::StateDamaged`] when what is there is damaged.
    pub fn prepare_history(&self, _lock: &HostLock, entry: &HistoryEntry) -> Result<()> {
        let mut history = self.history()?;
        history.push(entry.clone());
        write_json(&self.next_history_path(), &history)
    }

    /// Puts the prepared history in its place, which needs no memory. Done twice is done once.
    ///
    /// # Errors
    /// From the filesystem.
    pub fn take_history(&self, _lock: &HostLock) -> Result<()> {
        match std::fs::rename(self.next_history_path(), self.history_path()) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e).context("Keeping the history"),
            _ => Ok(()),
        }
    }

    /// Reads `history.json`, oldest first.
    ///
    /// # Errors
    /// [`model::Code::StateDamaged`] when it is damaged.
    pub fn history(&self) -> Result<Vec<HistoryEntry>> {
        Ok(read_json(&self.history_path())?.unwrap_or_default())
    }
}
