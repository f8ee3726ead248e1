//! What is live, for people and programs: the status documents below `/run`, history and diff. Readers need no lock:
//! the mount table says which generation is live, and a document for it was published before it became so.

use super::Session;
use crate::files;
use crate::generation::{RUN_DIR, Store, stamp_is_current};
use crate::host::{self, Host};
use crate::lock::HostLock;
use crate::overlay::{UsrMounts, stale_views};
use anyhow::{Context as _, Result};
use fn_error_context::context;
use model::manifest::LayeredPackage;
use model::status::{API_VERSION, Deployment, Diff, History, Layer, STATUS_PATH, Spec, Status};
use model::{DeclaredObject, Manifest};
use std::path::{Path, PathBuf};

/// The document of one generation, readable by everybody.
fn document(generation: u64) -> PathBuf {
    Path::new(RUN_DIR).join(format!("status-{generation}.json"))
}

/// Writes the document of a generation before it becomes live.
pub(super) fn publish(session: &Session<'_>, store: &Store, manifest: Option<&Manifest>, from: u64) -> Result<()> {
    write(session, store, manifest, Some(from))
}

/// Points `status.json` at the live generation.
#[context("Recording the status")]
pub(super) fn write_current(session: &Session<'_>, store: &Store, generation: u64) -> Result<()> {
    let manifest = if generation == 0 { None } else { Some(store.manifest(generation)?) };
    write(session, store, manifest.as_ref(), rollback_target(store, generation)?)?;
    let text = std::fs::read(document(generation))?;
    files::write(Path::new(STATUS_PATH), &text, 0o644)
}

fn write(session: &Session<'_>, store: &Store, manifest: Option<&Manifest>, rollback: Option<u64>) -> Result<()> {
    let space = store.space()?;
    let mut status = empty(&session.host);
    status.status.rollback = rollback;
    status.status.memory_bytes = space.used_bytes;
    status.status.memory_limit_bytes = space.total_bytes;
    if let Some(m) = manifest {
        status.spec.requested.clone_from(&m.requested);
        let layer = &mut status.status;
        layer.generation = m.generation;
        layer.since = Some(m.created);
        layer.command = Some(m.command.clone());
        layer.packages.clone_from(&m.packages);
        layer.files = m.files;
        layer.effects.clone_from(&m.effects);
        layer.skipped.clone_from(&m.skipped);
        layer.not_applied.clone_from(&m.not_applied);
    }
    let mut text = serde_json::to_vec_pretty(&status)?;
    text.push(b'\n');
    files::write(&document(status.status.generation), &text, 0o644)
}

fn empty(host: &Host) -> Status {
    Status {
        api_version: API_VERSION.into(),
        kind: "Status".into(),
        boot_id: host.boot_id.clone(),
        deployment: host.deployment.clone(),
        spec: Spec::default(),
        status: Layer {
            generation: 0,
            rollback: None,
            left_over: None,
            since: None,
            command: None,
            packages: vec![],
            files: 0,
            memory_bytes: 0,
            memory_limit_bytes: 0,
            swap: None,
            stale_views: vec![],
            effects: vec![],
            skipped: vec![],
            not_applied: vec![],
        },
    }
}

fn declarations() -> PathBuf {
    Path::new(RUN_DIR).join("declarations.json")
}

/// Writes what `apply` found, for `status`.
pub(super) fn write_declarations(_lock: &HostLock, objects: &[DeclaredObject]) -> Result<()> {
    if objects.is_empty() {
        return files::remove(&declarations());
    }
    let mut text = serde_json::to_vec_pretty(objects)?;
    text.push(b'\n');
    files::write(&declarations(), &text, 0o644)
}

/// Removes every status document.
pub(super) fn remove(_lock: &HostLock) -> Result<()> {
    files::remove(Path::new(STATUS_PATH))?;
    files::remove(&declarations())?;
    each_document(|_, path| files::remove(path))
}

/// Keeps the live generation and the one that `rollback` would bring back; everything else is freed.
pub(super) fn keep_only(session: &Session<'_>, store: &Store, live: u64) -> Result<()> {
    let mut keep = vec![live];
    keep.extend(rollback_target(store, live)?);
    store.keep_only(&session.lock, &keep)?;
    each_document(|n, path| if keep.contains(&n) { Ok(()) } else { files::remove(path) })
}

fn each_document(mut f: impl FnMut(u64, &Path) -> Result<()>) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(RUN_DIR) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
        if let Some(n) = name.strip_prefix("status-").and_then(|n| n.strip_suffix(".json")).and_then(|n| n.parse().ok())
        {
            f(n, &path)?;
        }
    }
    Ok(())
}

/// The generation that was live before the last change; 0 is the base. None when it is gone or never was.
pub(super) fn rollback_target(store: &Store, live: u64) -> Result<Option<u64>> {
    let history = store.history()?;
    let last = history.iter().rev().find(|e| e.from != e.to);
    Ok(last.filter(|e| e.to == live).map(|e| e.from).filter(|&n| n == 0 || store.manifest(n).is_ok()))
}

/// What is layered. Needs neither root nor the lock.
///
/// # Errors
/// [`model::Code::NotOstreeHost`].
pub fn status() -> Result<Status> {
    let host = Host::detect()?;
    let read = |path: &Path| -> Option<Status> { serde_json::from_slice(&std::fs::read(path).ok()?).ok() };
    let of = |d: &Deployment| (d.checksum.clone(), d.serial);
    let ours = |s: &Status| s.boot_id == host.boot_id && of(&s.deployment) == of(&host.deployment);
    let mut mounts = UsrMounts::read()?;
    let mut status = loop {
        let live = mounts.live();
        let found = read(&document(live)).or_else(|| read(Path::new(STATUS_PATH))).filter(ours);
        if let Some(status) = found.filter(|s| s.status.generation == live) {
            break status;
        }
        // A change may have come between the two looks, and have taken the document along.
        mounts = UsrMounts::read()?;
        if mounts.live() == live {
            // The mount is the truth: with no document for it, the number is all that is known.
            let mut status = empty(&host);
            status.status.generation = live;
            break status;
        }
    };
    let live = mounts.live();
    if live == 0 {
        status.status.left_over = read(Path::new(STATUS_PATH)).map(|s| s.status.generation).filter(|&n| n != 0);
        // Only root can look at the stamp.
        let stale = |store: Store| stamp_is_current(&store, &host).is_ok_and(|current| !current);
        if status.status.left_over.is_some() || Store::open_existing().ok().flatten().is_some_and(stale) {
            status.status.rollback = None;
        }
    }
    if let Ok(Some(space)) = crate::generation::space_of_store() {
        status.status.memory_bytes = space.used_bytes;
        status.status.memory_limit_bytes = space.total_bytes;
    }
    status.status.stale_views = stale_views();
    let objects = std::fs::read(declarations()).ok().and_then(|text| serde_json::from_slice(&text).ok());
    status.spec.declarations = objects.filter(|_| status.status.left_over.is_none()).unwrap_or_default();
    status.status.swap = (live != 0).then_some(mounts.swap_method());
    Ok(status)
}

/// The changes of this boot, oldest first. Needs root, as commands may hold names that are nobody's business.
///
/// # Errors
/// [`model::Code::NotRoot`].
pub fn history() -> Result<History> {
    host::require_root()?;
    let entries = match Store::open_existing()? {
        Some(store) => store.history()?,
        None => vec![],
    };
    Ok(History { api_version: API_VERSION.into(), kind: "History".into(), entries })
}

/// Packages and paths of the live layer against the base.
///
/// # Errors
/// [`model::Code::NotRoot`]; from the filesystem.
pub fn diff() -> Result<Diff> {
    host::require_root()?;
    Host::detect()?;
    let live = UsrMounts::read()?.live();
    let mut packages: Vec<LayeredPackage> = vec![];
    let mut paths = vec![];
    if live != 0 {
        let store = Store::open_existing()?.context("the store is gone")?;
        packages = store.manifest(live)?.packages;
        paths = crate::harvest::compare_with_base(&store.layer(live), &store.base())?;
    }
    Ok(Diff { api_version: API_VERSION.into(), kind: "Diff".into(), packages, paths })
}
