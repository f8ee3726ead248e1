//! The ways back: to the generation before, and to the base. They need no package and no network, and `reset` works with
//! whatever it finds.

use super::{Live, Options, Session, commit, history_entry, outcome, report, take_lock};
use crate::generation::{self, Store};
use crate::host::{self, Host};
use crate::lock::HostLock;
use crate::overlay::{self, UsrMounts};
use crate::settle;
use anyhow::Result;
use fail::fail_point;
use model::status::Outcome;
use model::{Code, Effect, Event, Failure, Manifest, Nevra, Phase, Plan, Progress};
use std::collections::BTreeSet;

/// Returns to the generation that was live before the last change.
///
/// # Errors
/// [`Code::NotFound`] when there is none.
pub fn rollback(options: &Options, progress: &dyn Progress) -> Result<Outcome> {
    let session = Session::begin(options, progress)?;
    let none = || Failure::new(Code::NotFound, "there is no previous generation to return to");
    let store = Store::open_existing()?.ok_or_else(none)?;
    let live = Live::read(Some(&store))?;
    let target = report::rollback_target(&store, live.generation)?.ok_or_else(none)?;
    let manifest = if target == 0 { None } else { Some(store.manifest(target)?) };
    let plan = difference(&live, manifest.as_ref());
    if options.dry_run {
        return Ok(outcome(false, live.generation, plan, manifest));
    }
    session.phase(Phase::Activate)?;
    let entry = history_entry(options, live.generation, target, &plan, &live.effects);
    commit::switch(&session, &store, &live.effects, manifest, entry, plan)
}

/// Returns to the bare base and forgets every generation.
///
/// # Errors
/// From the kernel; what could not be undone is named.
pub fn reset(options: &Options, progress: &dyn Progress) -> Result<Outcome> {
    host::require_root()?;
    host::require_host_namespace()?;
    let host = Host::detect()?;
    let lock = take_lock(options, progress)?;
    let store = Store::open_existing()?;
    let live = UsrMounts::read()?.live();
    let state = store.as_ref().and_then(|_| Live::read(store.as_ref()).ok()).unwrap_or_default();
    let plan = difference(&state, None);
    if options.dry_run {
        return Ok(outcome(false, live, plan, None));
    }
    progress.event(Event::Phase(Phase::Activate));
    let started: Vec<Effect> = state.effects.iter().map(|e| e.effect.clone()).collect();
    for unit in commit::stopped_before_swap(&started, &[]) {
        if let Err(e) = settle::undo(&lock, unit, progress) {
            progress.event(Event::Notice(format!("{e:#}")));
        }
    }
    overlay::detach_all(&lock)?;
    fail_point!("reset-detached", |_| anyhow::bail!("failpoint"));
    if live != 0 || store.is_some() {
        undo_everything(&lock, &host, store.as_ref(), progress)?;
    }
    crate::origin::remove(&lock)?;
    report::remove(&lock)?;
    generation::mend_counter(&lock, store.as_ref(), live)?;
    let changed = live != 0 || store.is_some();
    if let Some(store) = store {
        store.destroy(&lock)?;
    }
    Ok(outcome(changed, 0, plan, None))
}

/// Undoes the effects of every generation that is known, with whatever can be read of the state.
pub(super) fn undo_everything(
    lock: &HostLock,
    host: &Host,
    store: Option<&Store>,
    progress: &dyn Progress,
) -> Result<()> {
    // With a damaged manifest the effects are not known: the mark, which every layer has, is undone, and links and mounts
    // are recognized by where they lead.
    let mut effects = vec![Effect::MarkUnlocked { path: settle::plan::marker(host) }];
    if let Some(store) = store {
        let (manifests, journal) = (store.manifests()?, store.journal().ok().flatten());
        let known = manifests.into_iter().flat_map(|m| m.effects).map(|e| e.effect);
        for effect in known.chain(journal.into_iter().flat_map(|j| [j.old_effects, j.effects].concat())) {
            if !effects.contains(&effect) {
                effects.push(effect);
            }
        }
    }
    // Units were stopped while their files were to be seen. Services read again when everything else is gone.
    effects.retain(|e| !matches!(e, Effect::StartUnit { .. }));
    effects.sort_by_key(|e| settle::when(e) == settle::When::BeforeSwap);
    for effect in effects.iter().rev() {
        // The base is back, which is what was asked for: a service that cannot be reloaded does not stop the rest.
        match (settle::undo(lock, effect, progress), settle::when(effect)) {
            (Err(e), settle::When::AfterSwap) => progress.event(Event::Notice(format!("{e:#}"))),
            (other, _) => other?,
        }
    }
    settle::sweep(lock)?;
    if let (Some(store), shown @ 1..) = (store, settle::live::current()) {
        let saved = settle::live::save_edits(lock, (shown, &store.content(shown)), 0)?;
        commit::tell_saved(progress, &saved);
    }
    settle::live::show(lock, 0)?;
    settle::cleaner::remove()
}

/// The plan that leads from what is live to another manifest, for `rollback` and `reset`.
fn difference(live: &Live, to: Option<&Manifest>) -> Plan {
    let then: BTreeSet<&Nevra> = to.iter().flat_map(|m| &m.packages).map(|p| &p.nevra).collect();
    let now: BTreeSet<&Nevra> = live.packages.iter().map(|p| &p.nevra).collect();
    let back = to.iter().flat_map(|m| &m.packages).filter(|p| !now.contains(&p.nevra));
    Plan {
        install: back
            .map(|p| model::PlannedPackage {
                nevra: p.nevra.clone(),
                action: model::Action::Install,
                reason: p.reason,
                source: model::PackageSource::Repository {
                    id: p.repository.clone(),
                    location: String::new(),
                    base: None,
                },
                download_bytes: 0,
                installed_bytes: p.installed_bytes,
                checksum: None,
            })
            .collect(),
        remove: now.difference(&then).map(|n| (*n).clone()).collect(),
        already_provided: vec![],
        requested: to.map(|m| m.requested.clone()).unwrap_or_default(),
        effects: to.map(|m| m.effects.clone()).unwrap_or_default(),
    }
}
