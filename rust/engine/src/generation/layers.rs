//! Generations in the store: their numbers, manifests and flat layers. A generation exists from the moment at which its
//! manifest has its name; everything before that is unfinished and may be removed.

use super::{Content, RUN_DIR, Store, damaged, make_dir, read_json, remove_tree, write_json};
use crate::files;
use crate::lock::HostLock;
use anyhow::{Context as _, Result};
use fn_error_context::context;
use model::Manifest;
use std::path::{Path, PathBuf};

/// Name of the file in [`RUN_DIR`] that holds the last number given away.
pub(super) const COUNTER_NAME: &str = "counter";

fn counter_path() -> PathBuf {
    Path::new(RUN_DIR).join(COUNTER_NAME)
}

/// Brings a damaged counter in order, so that `reset` is a way out of that too. `live` was the last generation on `/usr`.
///
/// # Errors
/// From the filesystem.
#[context("Mending {}", counter_path().display())]
pub fn mend_counter(_lock: &HostLock, store: Option<&Store>, live: u64) -> Result<()> {
    if read_json::<u64>(&counter_path()).is_ok() {
        return Ok(());
    }
    let present = store.and_then(|s| s.numbers().ok()?.into_iter().max()).unwrap_or(0);
    // What is there may be anything, a directory too.
    remove_tree(&counter_path()).or_else(|_| files::remove(&counter_path()))?;
    files::write(&counter_path(), format!("{}\n", present.max(live)).as_bytes(), 0o644)
}

impl Store {
    /// A number no generation of this boot has had. It is used up by [`Store::seal`].
    ///
    /// # Errors
    /// When the store cannot be read; [`model::Code::StateDamaged`] when the counter is damaged.
    #[context("Choosing the number of a generation")]
    pub fn next_number(&self) -> Result<u64> {
        let counted = read_json::<u64>(&counter_path())?.unwrap_or(0);
        let present = self.numbers()?.into_iter().max().unwrap_or(0);
        counted.max(present).checked_add(1).context("no number is left")
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// [`model::Code::StateDamaged`] when it is missing or damaged.
    pub fn manifest(&self, generation: u64) -> Result<Manifest> {
        let path = self.manifest_path(generation);
        let manifest: Manifest = read_json(&path)?.ok_or_else(|| damaged(format!("{} is missing", path.display())))?;
        if manifest.generation != generation {
            let found = manifest.generation;
            return Err(damaged(format!("{} describes generation {found}, not {generation}", path.display())));
        }
        Ok(manifest)
    }

    /// The manifests that can be read, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn manifests(&self) -> Result<Vec<Manifest>> {
        let mut numbers = self.numbers()?;
        numbers.sort_unstable();
        Ok(numbers.into_iter().filter_map(|n| self.manifest(n).ok()).collect())
    }

    /// Renames finished content into its place and writes the manifest last. `content` lies in the store's tmpfs.
    ///
    /// # Errors
    /// From the filesystem; nothing is left half done.
    #[context("Sealing generation {}", manifest.generation)]
    pub fn seal(&self, _lock: &HostLock, content: &Content, manifest: &Manifest) -> Result<()> {
        let number = manifest.generation;
        let dir = self.generation(number);
        anyhow::ensure!(number != 0, "0 is the base");
        anyhow::ensure!(!self.manifest_path(number).exists(), "generation {number} exists already");
        // First the number, so that a crash can waste one but never give one twice.
        let counted = read_json::<u64>(&counter_path())?.unwrap_or(0);
        files::write(&counter_path(), format!("{}\n", counted.max(number)).as_bytes(), 0o644)?;
        remove_tree(&dir)?;
        let seal = || -> Result<()> {
            make_dir(&dir)?;
            let to = self.content(number);
            for (from, to) in
                [(&content.layer, &to.layer), (&content.var, &to.var), (&content.linker_cache, &to.linker_cache)]
            {
                if from == &content.layer || from.exists() {
                    std::fs::rename(from, to).with_context(|| format!("Moving {}", from.display()))?;
                }
            }
            write_json(&self.manifest_path(number), manifest)
        };
        seal().inspect_err(|_| {
            // The first error counts; what stays has no manifest and goes with the next `keep_only`.
            let _ = remove_tree(&dir);
        })
    }

    /// Removes every generation but those named, and whatever is unfinished.
    ///
    /// # Errors
    /// From the filesystem.
    #[context("Removing old generations")]
    pub fn keep_only(&self, _lock: &HostLock, generations: &[u64]) -> Result<()> {
        for number in self.numbers()? {
            if !generations.contains(&number) || !self.manifest_path(number).exists() {
                // Without its manifest it is unfinished from the first moment on, also for a run that is killed here.
                files::remove(&self.manifest_path(number))?;
                remove_tree(&self.generation(number))?;
            }
        }
        Ok(())
    }

    fn manifest_path(&self, generation: u64) -> PathBuf {
        self.generation(generation).join("manifest.json")
    }

    /// Numbers of the directories that are there, finished or not.
    fn numbers(&self) -> Result<Vec<u64>> {
        let path = self.generations();
        let entries = std::fs::read_dir(&path).with_context(|| format!("Reading {}", path.display()))?;
        let mut numbers = Vec::new();
        for entry in entries {
            numbers.extend(entry?.file_name().to_str().and_then(|n| n.parse::<u64>().ok()));
        }
        Ok(numbers)
    }
}
