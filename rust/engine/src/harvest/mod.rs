//! Upper directories → a sealed layer, and a list of what came up outside `/usr`. What the sandbox did is read back
//! here; what the host gets of it is `settle`'s business.

mod account_files;
mod alternatives;
mod label;
mod layer;
mod outside;
mod owners;
#[cfg(test)]
mod tests;

use crate::generation::Content;
use crate::names::printable;
use crate::stage::Staged;
use crate::tree::Tree;
pub use label::label;
pub(crate) use outside::is_our_link;
pub use owners::released;

use anyhow::{Context as _, Result};
use fn_error_context::context;
use model::status::{PathChange, PathDiff};
use model::{NotApplied, SkippedPath};
use std::collections::{BTreeMap, BTreeSet};
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

/// What harvesting reads, and where its result goes.
#[derive(Debug, Clone, Copy)]
pub struct Work<'a> {
    /// What the sandbox left; its upper directories are used up.
    pub staged: &'a Staged,
    /// The previous generation.
    pub previous: Option<&'a Content>,
    /// The pristine `/usr`.
    pub base: &'a Path,
    /// The host's `/`.
    pub root: &'a Path,
    /// Empty or absent directories for the result, on the file system of the upper directories.
    pub target: &'a Content,
    /// After packages were removed or replaced (see [`released`]): the paths below `/usr` that those owned and no layered
    /// package owns now. Where the base has such a path, the layer's file goes and the base's bytes come back. librpm
    /// leaves a file in place when a base package owns its path too, so the upper directory does not tell.
    pub released: Option<&'a BTreeSet<PathBuf>>,
    /// Paths relative to `/` that packages of this run own, and whose they are.
    pub owned: &'a BTreeMap<PathBuf, String>,
    /// Mount points and links of ours, absolute.
    pub mounts: &'a BTreeSet<PathBuf>,
}

/// What harvesting gives.
#[derive(Debug, Clone)]
pub struct Harvest {
    /// Files in the layer.
    pub files: u64,
    /// Bytes of content in it.
    pub bytes: u64,
    /// New accounts.
    pub accounts: Vec<Account>,
    /// Links that enable units or give them names, relative to `/`, with what they hold.
    pub enablements: Vec<(PathBuf, PathBuf)>,
    /// Paths outside `/usr` (and base paths in it) that the host does not get.
    pub skipped: Vec<SkippedPath>,
    /// What scriptlets tried in vain.
    pub not_applied: Vec<NotApplied>,
}

/// Builds the content of a new generation from the previous one and the upper directories.
///
/// # Errors
/// [`model::Code::Refused`] when something came up that a layer cannot hold; from the filesystem.
#[context("Harvesting")]
pub fn harvest(work: &Work<'_>) -> Result<Harvest> {
    let Work { staged, previous, base, target, .. } = *work;
    let layer = previous.map(|p| p.layer.as_path());
    let mut skipped = layer::build(&staged.usr, layer, base, &target.layer, work.released)?;
    let (to_etc, to_var) =
        (layer::enter(&target.layer, "etc")?, layer::copy_or_make(previous.map(|p| &*p.var), &target.var)?);
    let sources =
        outside::Sources { root: work.root, base, owned: work.owned, causes: &staged.causes, mounts: work.mounts };
    let found = outside::read(&staged.etc, &staged.var, &to_etc, &to_var, sources)?;
    layer::leave(&target.layer, "etc", base)?;
    skipped.extend(found.skipped);
    linker_cache(work, found.linker_cache)?;
    let (files, bytes) = layer::count(&target.layer)?;
    let mut not_applied = staged.not_applied.clone();
    not_applied.extend(alternatives::dangling(&target.layer, work.root)?);
    Ok(Harvest { files, bytes, accounts: found.accounts, enablements: found.enablements, skipped, not_applied })
}

/// Keeps a linker cache that differs from the host's: the new one, or that of the previous generation.
fn linker_cache(work: &Work<'_>, regenerated: bool) -> Result<()> {
    let host = work.root.join("etc/ld.so.cache");
    let ours = work.previous.map(|p| p.linker_cache.as_path()).filter(|p| p.exists());
    let source = if regenerated { Some(work.staged.etc.join("ld.so.cache")) } else { ours.map(Path::to_path_buf) };
    let Some(source) = source else { return Ok(()) };
    let content = std::fs::read(&source).with_context(|| format!("Reading {}", source.display()))?;
    // With a cache of ours on it, the host's own is not seen; then ours stays until the layer goes.
    if ours.is_some() || std::fs::read(&host).ok().as_ref() != Some(&content) {
        crate::files::write(&work.target.linker_cache, &content, 0o644)?;
    }
    Ok(())
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
