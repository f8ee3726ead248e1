//! Upper directories → a sealed layer, and a list of what came up outside `/usr`. What the sandbox did is read back
//! here; what the host gets of it is `settle`'s business.

mod layer;
mod outside;
mod owners;
#[cfg(test)]
mod tests;

use crate::names::printable;
use crate::stage::Staged;
use crate::tree::Tree;
pub use owners::released;

use anyhow::Result;
use fn_error_context::context;
use model::status::{PathChange, PathDiff};
use model::{NotApplied, SkippedPath};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
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

/// Builds the new layer in `target` from the previous one and the upper directories, which are used up.
///
/// # Errors
/// [`model::Code::Refused`] when something came up that a layer cannot hold; from the filesystem.
pub fn harvest(staged: &Staged, previous: Option<&Path>, base: &Path, target: &Path) -> Result<Harvest> {
    harvest_released(staged, previous, base, target, None)
}

/// [`harvest`] after packages were removed or replaced: `released` (see [`released`]) are the paths below `/usr` that
/// those owned and no layered package owns now. Where the base has such a path, the layer's file goes and the base's bytes come back.
/// librpm leaves a file in place when a base package owns its path too, so the upper directory does not tell.
///
/// # Errors
/// As [`harvest`].
#[context("Harvesting")]
pub fn harvest_released(
    staged: &Staged,
    previous: Option<&Path>,
    base: &Path,
    target: &Path,
    released: Option<&BTreeSet<PathBuf>>,
) -> Result<Harvest> {
    let (accounts, outside) = outside::read(&staged.etc, &staged.var, Path::new("/"))?;
    let mut skipped = layer::build(&staged.usr, previous, base, target, released)?;
    skipped.extend(outside);
    let (files, bytes) = layer::count(target)?;
    Ok(Harvest {
        layer: target.to_path_buf(),
        files,
        bytes,
        accounts,
        skipped,
        not_applied: staged.not_applied.clone(),
    })
}

/// Every path of a layer that the base has not, or has otherwise.
///
/// # Errors
/// From the filesystem.
#[context("Comparing the layer with the base")]
pub fn compare_with_base(layer: &Path, base: &Path) -> Result<Vec<PathDiff>> {
    fn walk(layer: &Tree, base: Option<&Tree>, found: &mut Vec<PathDiff>) -> Result<()> {
        for entry in layer.list()? {
            let name = &entry.name;
            let in_base = base.map_or(Ok(None), |b| b.entry(name))?;
            let change = match (base, &in_base) {
                (Some(_), Some(there)) if entry.is_dir() && there.is_dir() => None,
                (Some(b), Some(_)) => (!layer.same(name, b)?).then_some(PathChange::Changed),
                _ => Some(PathChange::Added),
            };
            if let Some(change) = change {
                let path = Path::new("/usr").join(layer.join(name));
                found.push(PathDiff { path: printable(path.as_os_str().as_bytes()), change });
            }
            if entry.is_dir() {
                let below = match base {
                    Some(b) => b.enter_if_dir(name)?,
                    None => None,
                };
                walk(&layer.enter(name)?, below.as_ref(), found)?;
            }
        }
        Ok(())
    }
    let mut found = Vec::new();
    walk(&Tree::open(layer)?, Some(&Tree::open(base)?), &mut found)?;
    Ok(found)
}
