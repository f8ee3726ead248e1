//! The previous layer and the upper directory of `/usr` become one new flat layer. Files are hard-linked from the
//! previous layer and *moved* from the upper directory (both are in our tmpfs), so nothing is in memory twice; the
//! rpmdb alone is copied, since librpm may write it in place. A layer only ever adds: it holds no whiteout and no
//! opaque directory, so what the base has can be changed, never hidden.

use crate::names::{document_path, printable_path};
use crate::tree::{Entry, Tree, kind_name};
use anyhow::{Context as _, Result};
use fn_error_context::context;
use model::{Cause, Code, Failure, SkippedPath};
use rustix::fs::FileType;
use std::collections::{BTreeSet, HashSet};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Directories of rpm databases, relative to `/usr`.
const RPMDB: [&str; 2] = ["share/rpm", "lib/sysimage/rpm"];

pub(super) fn in_rpmdb(path: &Path) -> bool {
    RPMDB.iter().any(|d| path.starts_with(d))
}

/// Makes the layer in `target`, which must be empty or absent; returns what could not be kept.
#[context("Building the layer")]
pub(super) fn build(
    upper: &Path,
    previous: Option<&Path>,
    base: &Path,
    target: &Path,
    released: Option<&BTreeSet<PathBuf>>,
) -> Result<Vec<SkippedPath>> {
    match std::fs::create_dir(target) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(e).context("Making the new layer"),
        _ => {}
    }
    let (upper, base, new) = (Tree::open(upper)?, Tree::open(base)?, Tree::open(target)?);
    anyhow::ensure!(new.list()?.is_empty(), "{} is not empty", printable_path(target));
    if let Some(previous) = previous {
        clone(&Tree::open(previous)?, &new, Some(&upper))?;
    }
    let mut build = Build { skipped: vec![] };
    build.apply(&upper, &new, Some(&base))?;
    if let Some(released) = released {
        release(&new, &base, released)?;
    }
    // The root of the layer is the root of the merged /usr: it must look like the base's.
    new.set_attributes(None, &base.attributes(None)?)?;
    Ok(build.skipped)
}

/// Links every file of `from` into `to`, and makes its directories. What lies in an rpmdb is copied, unless the upper
/// directory has it anew.
fn clone(from: &Tree, to: &Tree, upper: Option<&Tree>) -> Result<()> {
    for entry in from.list()? {
        let name = &entry.name;
        if entry.is_dir() {
            let upper = match upper {
                Some(u) => u.enter_if_dir(name)?,
                None => None,
            };
            clone(&from.enter(name)?, &to.make_dir(name)?, upper.as_ref())?;
        } else if !in_rpmdb(&from.path) {
            from.link(name, to)?;
        } else if upper.map_or(Ok(None), |u| u.entry(name))?.is_none() {
            from.copy(name, to)?;
        }
    }
    to.set_attributes(None, &from.attributes(None)?)
}

/// Opens a directory of the layer, made when it is missing.
pub(super) fn enter(layer: &Path, name: &str) -> Result<Tree> {
    let (layer, name) = (Tree::open(layer)?, CString::new(name)?);
    let mut tree = match layer.entry(&name)? {
        Some(e) if e.is_dir() => layer.enter(&name)?,
        _ => {
            layer.remove_all(&name)?;
            layer.make_dir(&name)?
        }
    };
    tree.path = PathBuf::new();
    Ok(tree)
}

/// Finishes a directory that [`enter`] opened: without content it goes, else it looks like the base's.
pub(super) fn leave(layer: &Path, name: &str, base: &Path) -> Result<()> {
    let (layer, base, name) = (Tree::open(layer)?, Tree::open(base)?, CString::new(name)?);
    let wanted = match base.entry(&name)? {
        Some(e) if e.is_dir() => base.attributes(Some(&name))?,
        _ => base.attributes(None)?,
    };
    layer.set_attributes(Some(&name), &wanted)?;
    layer.remove_if_empty(&name)?;
    // Entries that came and went changed its times.
    layer.set_attributes(None, &base.attributes(None)?)
}

/// A copy of a tree, or an empty directory.
pub(super) fn copy_or_make(from: Option<&Path>, to: &Path) -> Result<Tree> {
    match std::fs::create_dir(to) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(e).context("Making a tree"),
        _ => {}
    }
    let to = Tree::open(to)?;
    if let Some(from) = from.filter(|f| f.is_dir()) {
        clone(&Tree::open(from)?, &to, None)?;
    }
    Ok(to)
}

/// Collects what a layer does not hold.
struct Build {
    skipped: Vec<SkippedPath>,
}

impl Build {
    fn skip(&mut self, path: &Path, reason: &str) {
        let path = Path::new("/usr").join(document_path(path));
        self.skipped.push(SkippedPath { path, reason: reason.into(), cause: Cause::default() });
    }

    /// Applies one upper directory on `to`. `base` is the base's directory at this path, when it has one.
    fn apply(&mut self, upper: &Tree, to: &Tree, base: Option<&Tree>) -> Result<()> {
        for entry in upper.list()? {
            let name = &entry.name;
            let path = upper.join(name);
            let in_base = base.map_or(Ok(None), |b| b.entry(name))?;
            match entry.kind() {
                _ if entry.is_whiteout() => self.remove(&path, name, to, base, in_base.as_ref())?,
                FileType::Directory => self.directory(upper, to, base, name, in_base.as_ref())?,
                FileType::RegularFile | FileType::Symlink => self.file(upper, to, base, name, in_base.as_ref())?,
                kind => return Err(refused(&path, &format!("is a {}, which a layer does not hold", kind_name(kind)))),
            }
        }
        Ok(())
    }

    fn remove(
        &mut self,
        path: &Path,
        name: &CString,
        to: &Tree,
        base: Option<&Tree>,
        in_base: Option<&Entry>,
    ) -> Result<()> {
        to.remove_all(name)?;
        let (Some(base), Some(entry)) = (base, in_base) else { return Ok(()) };
        if in_rpmdb(path) && is_sqlite_side_file(name) {
            // The base's write-ahead log must not be played over the layer's database: an empty one stands in.
            if entry.stat.st_size > 0 {
                to.create(name)?;
                to.set_attributes(Some(name), &base.attributes(Some(name))?)?;
            }
            return Ok(());
        }
        if !in_rpmdb(path) {
            self.skip(path, "was removed, but is part of the base, which stays as it is");
        }
        Ok(())
    }

    fn directory(
        &mut self,
        upper: &Tree,
        to: &Tree,
        base: Option<&Tree>,
        name: &CString,
        in_base: Option<&Entry>,
    ) -> Result<()> {
        let from = upper.enter(name)?;
        for mark in ["redirect", "metacopy"] {
            anyhow::ensure!(
                from.overlay_mark(None, mark)?.is_none(),
                "{} has an overlay {mark} mark, which the sandbox's mounts rule out",
                printable_path(&from.path)
            );
        }
        let base = match (base, in_base) {
            (Some(b), Some(e)) if e.is_dir() => Some(b.enter(name)?),
            _ => None,
        };
        let opaque = from.overlay_mark(None, "opaque")?.is_some_and(|v| v == b"y");
        let there = to.entry(name)?;
        if there.as_ref().is_some_and(|t| opaque || !t.is_dir()) {
            to.remove_all(name)?;
        }
        if opaque && let Some(b) = &base {
            for e in b.list()? {
                if from.entry(&e.name)?.is_none() {
                    self.skip(&b.join(&e.name), "was removed, but is part of the base, which stays as it is");
                }
            }
        }
        let into = match to.entry(name)? {
            Some(_) => to.enter(name)?,
            None => to.make_dir(name)?,
        };
        // Read before and set after: entries that come and go change the times of both directories.
        let wanted = from.attributes(None)?;
        self.apply(&from, &into, base.as_ref())?;
        if let Some(b) = &base {
            let kept = b.attributes(None)?;
            let key = |s: &rustix::fs::Stat| (s.st_mode, s.st_uid, s.st_gid);
            if key(&kept.stat) != key(&wanted.stat) {
                self.skip(&from.path, "mode or owner was changed, but the directory is the base's and keeps its own");
            }
            into.set_attributes(None, &kept)?;
            to.remove_if_empty(name)?;
        } else {
            into.set_attributes(None, &wanted)?;
        }
        Ok(())
    }

    fn file(
        &mut self,
        upper: &Tree,
        to: &Tree,
        base: Option<&Tree>,
        name: &CString,
        in_base: Option<&Entry>,
    ) -> Result<()> {
        let path = upper.join(name);
        if in_base.is_some_and(Entry::is_dir) {
            return Err(refused(&path, "would take the place of a directory of the base"));
        }
        anyhow::ensure!(
            upper.overlay_mark(Some(name), "metacopy")?.is_none(),
            "{} is without its content, which the sandbox's mounts rule out",
            printable_path(&path)
        );
        upper.strip_marks(name)?;
        if to.entry(name)?.is_some_and(|e| e.is_dir()) {
            to.remove_all(name)?;
        }
        if let (Some(b), Some(_)) = (base, in_base)
            && !in_rpmdb(&path)
            && upper.same(name, b)?
        {
            to.remove_all(name)?;
            return upper.remove_all(name);
        }
        upper.rename(name, to)
    }
}

/// Drops files of the layer that no layered package owns any more and that the base has: its bytes come back.
fn release(new: &Tree, base: &Tree, released: &BTreeSet<PathBuf>) -> Result<()> {
    for path in released {
        let names: Vec<&OsStr> = path.iter().collect();
        let Some((last, parents)) = names.split_last() else { continue };
        drop_path(new, base, parents, last)?;
    }
    Ok(())
}

fn drop_path(new: &Tree, base: &Tree, parents: &[&OsStr], last: &OsStr) -> Result<()> {
    let Some((first, rest)) = parents.split_first() else {
        let name = CString::new(last.as_bytes())?;
        let is_file = |e: Option<Entry>| e.is_some_and(|e| !e.is_dir());
        if is_file(new.entry(&name)?) && is_file(base.entry(&name)?) && !in_rpmdb(&new.path) {
            new.remove_all(&name)?;
        }
        return Ok(());
    };
    let name = CString::new(first.as_bytes())?;
    if let (Some(below), Some(base_below)) = (new.enter_if_dir(&name)?, base.enter_if_dir(&name)?) {
        drop_path(&below, &base_below, rest, last)?;
        below.set_attributes(None, &base_below.attributes(None)?)?;
        new.remove_if_empty(&name)?;
    }
    Ok(())
}

/// Files and bytes of a layer; a file with several names has its bytes counted once.
pub(super) fn count(layer: &Path) -> Result<(u64, u64)> {
    fn walk(dir: &Tree, seen: &mut HashSet<u64>, sum: &mut (u64, u64)) -> Result<()> {
        for entry in dir.list()? {
            if entry.is_dir() {
                walk(&dir.enter(&entry.name)?, seen, sum)?;
                continue;
            }
            sum.0 += 1;
            if entry.kind() == FileType::RegularFile && seen.insert(entry.stat.st_ino) {
                sum.1 += u64::try_from(entry.stat.st_size).unwrap_or(0);
            }
        }
        Ok(())
    }
    let mut sum = (0, 0);
    walk(&Tree::open(layer)?, &mut HashSet::new(), &mut sum)?;
    Ok(sum)
}

fn is_sqlite_side_file(name: &CString) -> bool {
    ["-wal", "-shm", "-journal"].iter().any(|s| name.as_bytes().ends_with(s.as_bytes()))
}

fn refused(path: &Path, why: &str) -> anyhow::Error {
    Failure::new(Code::Refused, format!("/usr/{} {why}", printable_path(path))).into()
}
