//! The store below `/run/rpm-ostree-transient`: its tmpfs, the parked base, generations with their flat layers and
//! manifests, the journal. Knows files, not mounts over `/usr`.
//!
//! ```text
//! /run/rpm-ostree-transient/            0755
//!   lock                                see `lock`; outlives the store
//!   counter                             the last number given to a generation in this boot; outlives the store
//!   store/                              0700, own private tmpfs with a size and an inode limit
//!     stamp.json                        boot and deployment it belongs to; written last when the store is made
//!     base/                             bind: parked clone of the pristine /usr
//!     generations/N/manifest.json       written last; a directory without it is unfinished
//!     generations/N/persistent.json  refs and origins of ostree when it became live, for `verify`
//!     generations/N/packages/           the flat layer: content relative to /usr
//!     generations/N/var/                what is new in /var, as packaged
//!     generations/N/ld.so.cache         the linker cache, when the layer needs one
//!     staging/                          work of the running transaction; emptied at start
//!     journal.json                      the running change: intent, from, to; absent when none runs
//!     history.json
//! ```

mod journal;
mod layers;
mod stamp;
mod store;

pub use journal::Journal;
pub use layers::mend_counter;
pub use stamp::stamp_is_current;
pub use store::{Limits, space_of_store};

use crate::files;
use anyhow::{Context as _, Result};
use model::{Code, Failure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// Where everything of ours lives.
pub const RUN_DIR: &str = "/run/rpm-ostree-transient";

/// The opened store. Only a lock opens it for change.
#[derive(Debug)]
pub struct Store {
    /// `/run/rpm-ostree-transient/store`.
    pub path: PathBuf,
}

/// Where the content of a generation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The flat layer, relative to `/usr`. Its `etc` has the defaults of what is new in `/etc`.
    pub layer: PathBuf,
    /// What is new in `/var`, as packaged.
    pub var: PathBuf,
    /// The linker cache, when the layer needs one.
    pub linker_cache: PathBuf,
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

impl Store {
    /// The parked clone of the pristine `/usr`.
    pub fn base(&self) -> PathBuf {
        self.path.join("base")
    }

    /// The flat layer of a generation.
    pub fn layer(&self, generation: u64) -> PathBuf {
        self.generation(generation).join("packages")
    }

    /// Everything that a generation consists of.
    pub fn content(&self, generation: u64) -> Content {
        let dir = self.generation(generation);
        Content { layer: self.layer(generation), var: dir.join("var"), linker_cache: dir.join("ld.so.cache") }
    }

    /// Where the content of the generation that is being made is put.
    pub fn staged_content(&self) -> Content {
        let dir = self.staging();
        Content { layer: dir.join("layer"), var: dir.join("var"), linker_cache: dir.join("ld.so.cache") }
    }

    /// The empty staging directory of this run.
    pub fn staging(&self) -> PathBuf {
        self.path.join("staging")
    }

    fn generations(&self) -> PathBuf {
        self.path.join("generations")
    }

    fn generation(&self, number: u64) -> PathBuf {
        self.generations().join(number.to_string())
    }
}

/// What is there is not what we wrote. There is always the same way out.
fn damaged(message: String) -> anyhow::Error {
    Failure::new(Code::StateDamaged, message).hint("rpm-ostree-transient reset returns to the base").into()
}

/// Reads a state file; none when it does not exist.
///
/// # Errors
/// [`Code::StateDamaged`], naming the file, when it is not what we wrote.
fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e).with_context(|| format!("Reading {}", path.display())),
    };
    serde_json::from_slice(&text).map(Some).map_err(|e| damaged(format!("{} is damaged: {e}", path.display())))
}

/// Writes a state file, whole or not at all.
fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(value).with_context(|| format!("Writing {}", path.display()))?;
    text.push(b'\n');
    files::write(path, &text, 0o600)
}

/// Removes a directory with its content; one that is not there is fine.
fn remove_tree(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("Removing {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Makes a directory for root only; one that is there is fine.
fn make_dir(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("Creating {}", path.display()))
}
