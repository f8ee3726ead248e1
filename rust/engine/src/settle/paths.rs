//! Effects that are a path: symlinks, bind mounts, directories in `/run`. Each is done once however often it is asked
//! for, never takes the place of something that is not ours, and its undo removes only what is still as we made it.

use super::live;
use crate::files;
use crate::generation::RUN_DIR;
use crate::overlay::mountinfo::Table;
use crate::overlay::sys;
use crate::tree::Tree;
use anyhow::{Context as _, Result};
use rustix::fs::{AtFlags, CWD, Mode, Timespec, Timestamps, UTIME_NOW};
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

/// What became of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// It is in place, or gone.
    Yes,
    /// Something that is not ours is there, and stays.
    Foreign,
}

pub(super) fn link(path: &Path, target: &Path) -> Result<Done> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            symlink(target, path).with_context(|| format!("Linking {}", path.display()))?;
            Ok(Done::Yes)
        }
        Err(e) => Err(e).with_context(|| format!("Looking at {}", path.display())),
        Ok(m) if m.is_symlink() && fs::read_link(path)? == target => {
            // What it leads to may be another file by now, and who watches the directory (cronie does) sees only this.
            let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            let times = Timestamps { last_access: now, last_modification: now };
            rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
                .with_context(|| format!("Touching {}", path.display()))?;
            Ok(Done::Yes)
        }
        Ok(_) => Ok(Done::Foreign),
    }
}

pub(super) fn unlink(path: &Path, target: &Path) -> Result<Done> {
    match fs::read_link(path) {
        Ok(found) if found == target => files::remove(path)?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        // Another link, or a real file: the administrator's.
        _ => return Ok(Done::Foreign),
    }
    forget_data(target)?;
    // Of a symlink of a package that the host has as it is.
    if let Ok(below) = path.strip_prefix("/var") {
        forget_data(&live::var().join(below))?;
    }
    Ok(Done::Yes)
}

/// Data of `/var` goes with the effect that showed it; copies of `/etc` go with their generation.
fn forget_data(source: &Path) -> Result<()> {
    if !source.starts_with(live::var()) || source == live::var() {
        return Ok(());
    }
    match fs::symlink_metadata(source) {
        Ok(m) if m.is_dir() => fs::remove_dir_all(source).with_context(|| format!("Removing {}", source.display())),
        Ok(_) => files::remove(source),
        Err(_) => Ok(()),
    }
}

/// True when the same file is seen at both paths.
pub(super) fn same(path: &Path, source: &Path) -> bool {
    match (fs::metadata(path), fs::metadata(source)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

/// True when the visible mount at `path` shows something below our directory in `/run`.
pub(super) fn is_ours(table: &Table, path: &Path) -> bool {
    let (Some(top), Some(run)) = (table.stack(path).last().copied(), table.visible(Path::new("/run"))) else {
        return false;
    };
    let below = Path::new(RUN_DIR).strip_prefix("/run").unwrap_or(Path::new(""));
    top.device == run.device && top.root.starts_with(run.root.join(below))
}

pub(super) fn mount(path: &Path, source: &Path, made: bool) -> Result<Done> {
    if same(path, source) {
        return Ok(Done::Yes);
    }
    let is_dir = fs::metadata(source).with_context(|| format!("Looking at {}", source.display()))?.is_dir();
    let covered = is_ours(&Table::read("thread-self")?, path);
    if !covered && made {
        match fs::symlink_metadata(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => make(path, source, is_dir)?,
            Err(e) => return Err(e).with_context(|| format!("Looking at {}", path.display())),
            // Left by a run that was killed, when it is empty.
            Ok(m) if m.is_dir() && is_dir && fs::read_dir(path)?.next().is_none() => {}
            Ok(m) if m.is_file() && !is_dir && m.len() == 0 => {}
            Ok(_) => return Ok(Done::Foreign),
        }
    }
    let clone = sys::clone_tree(source)?;
    if !covered {
        clone.attach(path).with_context(|| format!("Mounting {}", path.display()))?;
    } else if clone.attach_beneath(path).is_ok() {
        // Nobody sees the path without one of the two.
        sys::detach(path)?;
    } else {
        sys::detach(path)?;
        clone.attach(path).with_context(|| format!("Mounting {}", path.display()))?;
    }
    Ok(Done::Yes)
}

/// Makes a mount point that looks like what will be seen there, in case that it is seen itself: mode, owner, label.
fn make(path: &Path, source: &Path, is_dir: bool) -> Result<()> {
    let made = || format!("Making {}", path.display());
    let (from, name) = open_parent(source)?;
    let wanted = from.attributes(Some(&name))?;
    let (parent, name) = open_parent(path)?;
    if is_dir { parent.make_dir(&name).map(drop) } else { parent.create(&name).map(drop) }.with_context(made)?;
    parent.set_attributes(Some(&name), &wanted).with_context(made)
}

fn open_parent(path: &Path) -> Result<(Tree, CString)> {
    let (parent, name) = (path.parent().context("no parent")?, path.file_name().context("no name")?);
    let parent = fs::canonicalize(parent).with_context(|| format!("Looking at {}", parent.display()))?;
    Ok((Tree::open(&parent)?, CString::new(name.as_bytes())?))
}

pub(super) fn unmount(path: &Path, source: &Path, made: bool) -> Result<Done> {
    // The source may be another by now: a mount of ours that is not this one belongs to the generation that follows.
    let stays = is_ours(&Table::read("thread-self")?, path) && source.exists() && !same(path, source);
    if stays {
        return Ok(Done::Yes);
    }
    while is_ours(&Table::read("thread-self")?, path) {
        sys::detach(path)?;
    }
    forget_data(source)?;
    if !made {
        return Ok(Done::Yes);
    }
    let gone = match fs::symlink_metadata(path) {
        Ok(m) if m.is_dir() => fs::remove_dir(path).is_ok(),
        Ok(m) if m.is_file() && m.len() == 0 => fs::remove_file(path).is_ok(),
        Ok(_) => false,
        Err(_) => true,
    };
    Ok(if gone { Done::Yes } else { Done::Foreign })
}

pub(super) fn run_directory(path: &Path, mode: u32, uid: u32, gid: u32) -> Result<Done> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(0o700)) {
        Ok(()) => {
            std::os::unix::fs::chown(path, Some(uid), Some(gid))
                .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
                .with_context(|| format!("Making {}", path.display()))?;
            Ok(Done::Yes)
        }
        // A service of the host, or an earlier generation, has made it.
        Err(rustix::io::Errno::EXIST) => Ok(Done::Yes),
        Err(e) => Err(e).with_context(|| format!("Making {}", path.display())),
    }
}

pub(super) fn remove_run_directory(path: &Path) -> Done {
    // With something in it, it is in use, and goes at reboot.
    let _ = fs::remove_dir(path);
    Done::Yes
}

/// Detaches every mount that shows something of ours, but for the store.
pub(super) fn sweep_mounts() -> Result<()> {
    for point in super::mounts_of_ours(&Table::read("thread-self")?) {
        while is_ours(&Table::read("thread-self")?, &point) {
            sys::detach(&point)?;
        }
    }
    Ok(())
}
