//! Promise 4: origins and refs of ostree are recorded when a generation becomes live, and compared later. An update of
//! the system changes them as well; then the finding names what it was, and the next change of ours records anew.

use super::{Mismatch, Report};
use crate::files;
use crate::generation::Store;
use crate::host::Host;
use crate::lock::HostLock;
use anyhow::{Context as _, Result};
use fn_error_context::context;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Path below `/ostree`, and what it says.
type State = BTreeMap<PathBuf, String>;

fn record_path(store: &Store, generation: u64) -> PathBuf {
    store.layer(generation).with_file_name("persistent.json")
}

/// Records the state for a generation that is about to become live.
///
/// # Errors
/// From the filesystem.
#[context("Recording the refs and origins of ostree")]
pub(crate) fn record(_lock: &HostLock, host: &Host, store: &Store, generation: u64) -> Result<()> {
    if generation == 0 {
        return Ok(());
    }
    files::write(&record_path(store, generation), &serde_json::to_vec_pretty(&read(host)?)?, 0o600)
}

pub(super) fn check(host: &Host, store: &Store, generation: u64, report: &mut Report) -> Result<()> {
    let path = record_path(store, generation);
    let Ok(text) = std::fs::read(&path) else { return Ok(()) };
    let then: State = serde_json::from_slice(&text).with_context(|| format!("Reading {}", path.display()))?;
    let now = read(host)?;
    let paths: BTreeSet<&PathBuf> = then.keys().chain(now.keys()).collect();
    for path in paths.into_iter().filter(|p| then.get(*p) != now.get(*p)) {
        let show = |value: Option<&String>| value.map_or("nothing".into(), |v| v.trim().to_owned());
        report.find(Mismatch {
            promise: 4,
            what: "the persistent side is not as it was when the generation became live",
            place: &Path::new("/ostree").join(path),
            expected: show(then.get(path)),
            found: show(now.get(path)),
            way_out: "an update of the system explains it; the next change of the layer records it anew",
        });
    }
    Ok(())
}

/// The origin of the booted deployment by its digest, and every ref. Nothing where the host has no `/ostree`.
fn read(host: &Host) -> Result<State> {
    let mut state = State::new();
    let top = Path::new("/ostree");
    let d = &host.deployment;
    let origin = format!("deploy/{}/deploy/{}.{}.origin", d.stateroot, d.checksum, d.serial);
    if let Ok(bytes) = std::fs::read(top.join(&origin)) {
        let digest = Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect::<String>();
        state.insert(origin.into(), format!("sha256 {digest}"));
    }
    walk(top, Path::new("repo/refs"), &mut state)?;
    Ok(state)
}

fn walk(top: &Path, dir: &Path, state: &mut State) -> Result<()> {
    let full = top.join(dir);
    let entries = match std::fs::read_dir(&full) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        other => other.with_context(|| format!("Reading {}", full.display()))?,
    };
    for entry in entries {
        let entry = entry?;
        let path = dir.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(top, &path, state)?;
        } else if kind.is_symlink() {
            state.insert(path, std::fs::read_link(entry.path())?.display().to_string());
        } else {
            // A ref that goes while this looks belongs to an update.
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            state.insert(path, text);
        }
    }
    Ok(())
}
