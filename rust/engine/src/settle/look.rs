//! Looking without changing: whether an effect is in place, and what of ours is where. What the administrator has put in
//! the place of something of ours is told apart from what is simply not there.

use super::{MARKER_TEXT, paths};
use crate::generation::RUN_DIR;
use crate::overlay::mountinfo::Table;
use anyhow::{Context as _, Result};
use model::Effect;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Trees that hold the file systems of containers: millions of files, and none of the host's.
const CONTAINERS: [&str; 4] = ["/var/lib/containers", "/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet"];

/// How an effect is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// As it was made.
    InPlace,
    /// Not there.
    Missing,
    /// Something else is there.
    Replaced,
}

/// Looks at one effect. Messages to services leave nothing to look at.
///
/// # Errors
/// From the filesystem.
pub fn state(effect: &Effect) -> Result<State> {
    let Some(path) = effect.path() else { return Ok(State::InPlace) };
    let found = match fs::symlink_metadata(path) {
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(State::Missing),
        other => other.with_context(|| format!("Looking at {}", path.display()))?,
    };
    let is = |right: bool, otherwise: State| if right { State::InPlace } else { otherwise };
    Ok(match effect {
        Effect::Link { target, .. } | Effect::EnableUnit { target, .. } => {
            is(found.is_symlink() && fs::read_link(path)? == *target, State::Replaced)
        }
        // A mount point without its mount is what an unmounted one leaves.
        Effect::Mount { source, .. } => is(paths::same(path, source), State::Missing),
        Effect::MarkUnlocked { .. } => is(is_our_mark(path), State::Replaced),
        Effect::RunDirectory { .. } => is(found.is_dir(), State::Replaced),
        _ => State::InPlace,
    })
}

/// True when the mark at this path is the one that we make.
pub fn is_our_mark(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text == MARKER_TEXT)
}

/// Every symlink in `/etc`, `/var` and `/opt` that leads into our directory. What is mounted there is not entered.
///
/// # Errors
/// From the filesystem.
pub fn links_of_ours() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for top in ["/etc", "/var", "/opt"] {
        // /opt may be a link into /var, which has been looked through then.
        let top = Path::new(top);
        if fs::symlink_metadata(top).is_ok_and(|m| m.is_dir()) {
            walk(top, &mut found)?;
        }
    }
    Ok(found)
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let reading = || format!("Reading {}", dir.display());
    let device = fs::symlink_metadata(dir).with_context(reading)?.dev();
    let entries = match fs::read_dir(dir) {
        // Services make and remove directories while this looks.
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        other => other.with_context(reading)?,
    };
    for entry in entries {
        let path = entry.with_context(reading)?.path();
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if meta.is_symlink() {
            if fs::read_link(&path).is_ok_and(|t| t.starts_with(RUN_DIR)) {
                found.push(path);
            }
        } else if meta.is_dir() && meta.dev() == device && !CONTAINERS.iter().any(|c| path == Path::new(c)) {
            walk(&path, found)?;
        }
    }
    Ok(())
}

/// Every mount point outside our directory that shows something below it.
pub fn mounts_of_ours(table: &Table) -> Vec<PathBuf> {
    table.points().into_iter().filter(|p| !p.starts_with(RUN_DIR) && paths::is_ours(table, p)).collect()
}
