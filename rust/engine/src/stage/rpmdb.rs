//! Leaves the rpmdb as it must be on a read-only `/usr`. librpm keeps its sqlite file in WAL mode and lets `-wal` and
//! `-shm` stay when it closes: with both there, and the first one empty, anybody can read the database where nothing
//! can be written. Runs in the sandbox.

use anyhow::{Context as _, Result, ensure};
use bridge::librpm::{Transaction, expand};
use fn_error_context::context;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// librpm's lock; only of use to writers, who cannot be where `/usr` is read-only.
const LOCK: &str = ".rpm.lock";

/// The directory of the rpmdb as it was before the transaction.
#[derive(Debug)]
pub(super) struct Before {
    directory: PathBuf,
    names: BTreeSet<OsString>,
}

impl Before {
    #[context("Looking at the rpmdb")]
    pub(super) fn look() -> Result<Self> {
        let directory = PathBuf::from(expand("%{_dbpath}")?);
        ensure!(
            fs::canonicalize(&directory).unwrap_or_else(|_| directory.clone()).starts_with("/usr"),
            "the rpmdb is in {}, which is not below /usr",
            directory.display()
        );
        let names = match fs::read_dir(&directory) {
            Ok(entries) => entries.map(|e| Ok(e?.file_name())).collect::<Result<_>>()?,
            Err(_) => BTreeSet::new(),
        };
        Ok(Before { directory, names })
    }

    /// Makes sure that the database is whole in its main file.
    #[context("Closing the rpmdb in {}", self.directory.display())]
    pub(super) fn settle(&self) -> Result<()> {
        if !self.names.contains(Path::new(LOCK).as_os_str()) {
            match fs::remove_file(self.directory.join(LOCK)) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.into()),
                _ => {}
            }
        }
        if let Some(journal) = self.journal()? {
            // Whoever closes last writes the journal back: do it once more.
            drop(Transaction::new()?);
            let left = self.journal()?;
            ensure!(left.is_none(), "{} was not written back", journal.display());
        }
        Ok(())
    }

    /// A journal that still has something in it.
    fn journal(&self) -> Result<Option<PathBuf>> {
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name.as_encoded_bytes().ends_with(b"-wal") && entry.metadata().context("Its journal")?.len() > 0 {
                return Ok(Some(entry.path()));
            }
        }
        Ok(None)
    }
}
