//! Upper directories → a sealed layer, and a list of what came up outside `/usr`.

use crate::stage::Staged;
use anyhow::Result;
use model::{NotApplied, SkippedPath};
use std::path::{Path, PathBuf};

/// A user or group that scriptlets made in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Account {
    /// A line of `passwd`.
    User(String),
    /// A line of `group`.
    Group(String),
}

/// What harvesting gives.
#[derive(Debug, Clone)]
pub struct Harvest {
    /// The new flat layer (previous layer hard-linked, upper applied), still in staging.
    pub layer: PathBuf,
    /// Files in it.
    pub files: u64,
    /// Bytes of content in it.
    pub bytes: u64,
    /// New accounts.
    pub accounts: Vec<Account>,
    /// Paths outside `/usr` (and base paths in it) that the host does not get.
    pub skipped: Vec<SkippedPath>,
    /// What scriptlets tried in vain.
    pub not_applied: Vec<NotApplied>,
}

/// Builds the new layer in `target` from the previous one and the upper directories.
///
/// # Errors
/// [`model::Code::Refused`] when something came up that a layer cannot hold; from the filesystem.
pub fn harvest(_staged: &Staged, _previous: Option<&Path>, _base: &Path, _target: &Path) -> Result<Harvest> {
    anyhow::bail!("not built yet")
}

/// Every path of a layer that the base has not, or has otherwise.
///
/// # Errors
/// From the filesystem.
pub fn compare_with_base(_layer: &Path, _base: &Path) -> Result<Vec<model::status::PathDiff>> {
    anyhow::bail!("not built yet")
}
