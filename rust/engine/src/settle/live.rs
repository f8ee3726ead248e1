//! The live copies: what the host sees of a generation's `/etc` and `/var`. `/run/rpm-ostree-transient/etc` is a symlink
//! to `etc-N`; a new generation's tree is built beside it and taken by one rename. Files that did not change between two
//! generations are the same inodes in both trees, so that an administrator's edits stay. `var` is one tree: it holds data,
//! which no package replaces once it is there.

use crate::files;
use crate::generation::{Content, RUN_DIR};
use crate::lock::HostLock;
use crate::names::printable_path;
use crate::tree::{Attributes, Entry, Tree};
use anyhow::{Context as _, Result};
use fn_error_context::context;
use rustix::fs::FileType;
use std::ffi::{CString, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The symlink to the live tree of `/etc`.
pub fn etc() -> PathBuf {
    Path::new(RUN_DIR).join("etc")
}

/// The live tree of `/var`.
pub fn var() -> PathBuf {
    Path::new(RUN_DIR).join("var")
}

/// The linker cache of a generation.
pub fn linker_cache(generation: u64) -> PathBuf {
    Path::new(RUN_DIR).join("cache").join(format!("ld.so.cache-{generation}"))
}

fn etc_of(generation: u64) -> PathBuf {
    Path::new(RUN_DIR).join(format!("etc-{generation}"))
}

/// The generation whose tree is seen; 0 for none.
pub fn current() -> u64 {
    let target = fs::read_link(etc()).ok();
    target.and_then(|t| t.to_str()?.strip_prefix("etc-")?.parse().ok()).unwrap_or(0)
}

/// Builds what generation `to` needs, without anything of it being seen yet. Runs again after a crash.
///
/// # Errors
/// From the filesystem.
#[context("Preparing the live copies of generation {}", to.0)]
pub fn prepare(_lock: &HostLock, from: Option<&Content>, to: (u64, &Content)) -> Result<()> {
    let (number, content) = to;
    if current() != number {
        let dir = etc_of(number);
        remove_tree(&dir)?;
        fs::create_dir(&dir).with_context(|| format!("Making {}", dir.display()))?;
        let new = Tree::open(&dir)?;
        let open = |path: PathBuf| if path.is_dir() { Tree::open(&path).map(Some) } else { Ok(None) };
        let old = from.map(|f| f.layer.join("etc")).map_or(Ok(None), open)?;
        let live = open(etc_of(current()))?;
        if let Some(pristine) = open(content.layer.join("etc"))? {
            build(&pristine, old.as_ref(), live.as_ref(), &new)?;
        }
        new.set_attributes(None, &Tree::open(Path::new("/etc"))?.attributes(None)?)?;
    }
    if content.linker_cache.exists() {
        let cache = linker_cache(number);
        make_dir(cache.parent().unwrap_or(Path::new(RUN_DIR)))?;
        copy_file(&content.linker_cache, &cache)?;
    }
    if content.var.is_dir() && !Tree::open(&content.var)?.list()?.is_empty() {
        make_dir(&var())?;
        let seen = Tree::open(Path::new("/var"))?.attributes(None)?;
        Tree::open(&var())?.set_attributes(None, &seen)?;
        add(&Tree::open(&content.var)?, &Tree::open(&var())?)?;
    }
    Ok(())
}

/// A copy with all attributes, whole or not there. One that is there stays, as it may be mounted.
fn copy_file(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        return Ok(());
    }
    let parts = |path: &Path| -> Result<(Tree, CString)> {
        let name = path.file_name().context("no name")?;
        Ok((Tree::open(path.parent().context("no parent")?)?, CString::new(name.as_bytes())?))
    };
    let ((from, name), (to, new)) = (parts(from)?, parts(to)?);
    let temporary = c".new".to_owned();
    to.remove_all(&temporary)?;
    from.copy_as(&name, &to, &temporary)?;
    to.rename_as(&temporary, &to, &new)
}

/// One directory of the new tree: see the module's text for what is taken from where.
fn build(pristine: &Tree, old: Option<&Tree>, live: Option<&Tree>, new: &Tree) -> Result<()> {
    for entry in pristine.list()? {
        let name = &entry.name;
        let was = old.map_or(Ok(None), |o| o.entry(name))?;
        let is = live.map_or(Ok(None), |l| l.entry(name))?;
        if was.is_some() && live.is_some() && is.is_none() {
            // The administrator removed it.
            continue;
        }
        if entry.is_dir() {
            let dir = new.make_dir(name)?;
            let (below, old_below) = (pristine.enter(name)?, enter(old, name)?);
            let live_below = enter(live, name)?;
            build(&below, old_below.as_ref(), live_below.as_ref(), &dir)?;
            let wanted = match (&live_below, &was) {
                (Some(l), Some(_)) => l.attributes(None)?,
                _ => below.attributes(None)?,
            };
            dir.set_attributes(None, &wanted)?;
            continue;
        }
        match (old, live, &is) {
            (Some(o), Some(l), Some(is)) if was.is_some() && !is.is_dir() && pristine.same(name, o)? => {
                l.link(name, new)?
            }
            _ => pristine.copy(name, new)?,
        }
    }
    let Some(live) = live else { return Ok(()) };
    for entry in live.list()? {
        let known = |t: Option<&Tree>| t.map_or(Ok(None), |t| t.entry(&entry.name)).map(|e| e.is_some());
        if !known(old)? && new.entry(&entry.name)?.is_none() {
            // The administrator added it.
            carry(live, &entry, new)?;
        }
    }
    Ok(())
}

fn enter(tree: Option<&Tree>, name: &CString) -> Result<Option<Tree>> {
    tree.map_or(Ok(None), |t| t.enter_if_dir(name))
}

/// The same files in another tree of the same filesystem.
fn carry(from: &Tree, entry: &Entry, to: &Tree) -> Result<()> {
    if !entry.is_dir() {
        return from.link(&entry.name, to);
    }
    let (below, dir) = (from.enter(&entry.name)?, to.make_dir(&entry.name)?);
    for child in below.list()? {
        carry(&below, &child, &dir)?;
    }
    dir.set_attributes(None, &below.attributes(None)?)
}

/// Copies what is not there yet.
fn add(from: &Tree, to: &Tree) -> Result<()> {
    for entry in from.list()? {
        let name = &entry.name;
        match to.entry(name)? {
            Some(there) if there.is_dir() && entry.is_dir() => add(&from.enter(name)?, &to.enter(name)?)?,
            Some(_) => {}
            None if entry.is_dir() => {
                let (below, dir) = (from.enter(name)?, to.make_dir(name)?);
                add(&below, &dir)?;
                dir.set_attributes(None, &below.attributes(None)?)?;
            }
            None => from.copy(name, to)?,
        }
    }
    Ok(())
}

/// Shows the tree of a generation, or none.
///
/// # Errors
/// From the filesystem.
#[context("Switching the live copies to generation {generation}")]
pub fn show(_lock: &HostLock, generation: u64) -> Result<()> {
    if current() == generation {
        return Ok(());
    }
    if generation == 0 {
        return files::remove(&etc());
    }
    let new = Path::new(RUN_DIR).join("etc.new");
    files::remove(&new)?;
    symlink(format!("etc-{generation}"), &new)?;
    fs::rename(&new, etc())?;
    Ok(())
}

/// Removes the trees and caches of other generations than `keep`.
///
/// # Errors
/// From the filesystem.
pub fn keep_only(_lock: &HostLock, keep: u64) -> Result<()> {
    for (dir, prefix) in [(PathBuf::from(RUN_DIR), "etc-"), (Path::new(RUN_DIR).join("cache"), "ld.so.cache-")] {
        for entry in fs::read_dir(dir).into_iter().flatten() {
            let path = entry?.path();
            let number =
                path.file_name().and_then(OsStr::to_str).and_then(|n| n.strip_prefix(prefix)?.parse::<u64>().ok());
            if number.is_some_and(|n| n != keep) {
                if path.is_dir() { remove_tree(&path)? } else { files::remove(&path)? }
            }
        }
    }
    Ok(())
}

/// Edits of generation `from` that its successor has not: saved as real files in `/etc`. Returns the saved paths. Comes
/// after the links of `from` are gone, and runs again after a crash.
///
/// # Errors
/// From the filesystem.
#[context("Keeping the administrator's edits")]
pub fn save_edits(_lock: &HostLock, from: (u64, &Content), to: u64) -> Result<Vec<PathBuf>> {
    let (live, pristine) = (etc_of(from.0), from.1.layer.join("etc"));
    let mut saved = Vec::new();
    if from.0 == to || !live.is_dir() {
        return Ok(saved);
    }
    let open = |path: &Path| if path.is_dir() { Tree::open(path).map(Some) } else { Ok(None) };
    let (pristine, new) = (open(&pristine)?, open(&etc_of(to))?);
    save(&Tree::open(&live)?, pristine.as_ref(), new.as_ref(), Path::new("/etc"), &mut saved)?;
    Ok(saved)
}

fn save(live: &Tree, pristine: Option<&Tree>, new: Option<&Tree>, to: &Path, saved: &mut Vec<PathBuf>) -> Result<()> {
    for entry in live.list()? {
        let name = &entry.name;
        let was = pristine.map_or(Ok(None), |p| p.entry(name))?;
        if entry.is_dir() {
            let target = to.join(OsStr::from_bytes(name.as_bytes()));
            let below = live.enter(name)?;
            save(&below, enter(pristine, name)?.as_ref(), enter(new, name)?.as_ref(), &target, saved)?;
            continue;
        }
        let edited = match (pristine, &was) {
            (Some(p), Some(_)) => !p.same(name, live)?,
            _ => true,
        };
        if edited && !has_content(new, name, live)? {
            saved.push(save_one(live, name, to, was.is_none())?);
        }
    }
    Ok(())
}

/// True when the new tree has this very content.
fn has_content(new: Option<&Tree>, name: &CString, live: &Tree) -> Result<bool> {
    match new {
        Some(new) if new.entry(name)?.is_some() => live.same(name, new),
        _ => Ok(false),
    }
}

/// Writes one file beside where it was seen: an added file under its own name when that is free, else with `.save`.
fn save_one(live: &Tree, name: &CString, to: &Path, added: bool) -> Result<PathBuf> {
    let directory = directory(to, &live.attributes(None)?)?;
    for n in 0..1000 {
        let mut new = name.as_bytes().to_vec();
        match n {
            0 if added => {}
            0 => continue,
            1 => new.extend(b".save"),
            _ => new.extend(format!(".save.{n}").bytes()),
        }
        let new = CString::new(new)?;
        let shown = to.join(OsStr::from_bytes(new.as_bytes()));
        match directory.entry(&new)? {
            None => {
                live.copy_as(name, &directory, &new)?;
                return Ok(shown);
            }
            // Saved by a run that was killed afterwards.
            Some(e) if e.kind() == FileType::RegularFile && live.same_as(name, &directory, &new)? => return Ok(shown),
            Some(_) => {}
        }
    }
    anyhow::bail!("{} has too many saved copies", printable_path(&to.join(OsStr::from_bytes(name.as_bytes()))))
}

/// Opens a directory of the host, made like the live one when it is missing.
fn directory(path: &Path, wanted: &Attributes) -> Result<Tree> {
    if !path.is_dir() {
        let parent = path.parent().context("no parent")?;
        if !parent.is_dir() {
            directory(parent, wanted)?;
        }
        fs::create_dir(path).with_context(|| format!("Making {}", printable_path(path)))?;
        Tree::open(path)?.set_attributes(None, wanted)?;
    }
    // Through a link of ours, when the directory goes on.
    Tree::open(&fs::canonicalize(path).with_context(|| format!("Looking at {}", printable_path(path)))?)
}

/// Takes out of the live tree what the administrator has replaced on the host, so that the next transaction sees that.
///
/// # Errors
/// From the filesystem.
pub fn forget(_lock: &HostLock, path: &Path) -> Result<()> {
    let Ok(below) = path.strip_prefix("/etc") else { return Ok(()) };
    let path = etc_of(current()).join(below);
    match path.symlink_metadata() {
        Ok(m) if m.is_dir() => remove_tree(&path),
        Ok(_) => files::remove(&path),
        Err(_) => Ok(()),
    }
}

fn make_dir(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::create_dir_all(path).with_context(|| format!("Making {}", path.display()))?;
    // Not by the caller's umask.
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).with_context(|| format!("Making {}", path.display()))
}

fn remove_tree(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("Removing {}", path.display()))
        }
        _ => Ok(()),
    }
}
