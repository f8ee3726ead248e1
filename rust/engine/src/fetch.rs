//! Plan → verified files. librepo downloads into a cache keyed by checksum; librpm checks signatures.

use crate::resolve::{Options, Resolution};
use anyhow::Result;
use model::{PlannedPackage, Progress, Signature};
use std::path::{Path, PathBuf};

/// A package file whose checksum and signature were checked as policy asks.
#[derive(Debug, Clone)]
pub struct FetchedPackage {
    /// What it is in the plan.
    pub planned: PlannedPackage,
    /// The file.
    pub path: PathBuf,
    /// What was verified.
    pub signature: Signature,
}

/// Downloads and verifies every package of the plan.
///
/// # Errors
/// [`model::Code`]: `Repository` (with path and HTTP status), `Checksum`, `Untrusted`, `Interrupted`.
pub fn fetch(
    _resolution: &Resolution,
    _root: &Path,
    _cache: &Path,
    _options: &Options,
    _progress: &dyn Progress,
) -> Result<Vec<FetchedPackage>> {
    anyhow::bail!("not built yet")
}

/// Downloads one RPM file named by a URL argument.
///
/// # Errors
/// [`model::Code::Repository`].
pub fn fetch_url(_url: &str, _cache: &Path, _progress: &dyn Progress) -> Result<PathBuf> {
    anyhow::bail!("not built yet")
}
