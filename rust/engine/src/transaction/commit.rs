//! The commit: journal, effects before the swap, the swap, effects after it, records. On an error everything that was
//! done is undone in reverse order; after a kill `recover` finds the journal and the mount and does the rest.

use super::{Session, outcome, report};
use crate::generation::{Journal, Store};
use crate::names::printable_path;
use crate::overlay;
use crate::settle::{self, When};
use anyhow::{Context as _, Result};
use fail::fail_point;
use model::status::{HistoryEntry, Outcome, SwapMethod};
use model::{AttributedEffect, Effect, Event, Manifest, Phase, Plan, Progress};
use std::path::PathBuf;

/// Makes `manifest` (or the base, when it is `None`) live.
///
/// # Errors
/// With the host as it was; when undoing failed too, that is said as well.
pub(super) fn switch(
    session: &Session<'_>,
    store: &Store,
    old_effects: &[AttributedEffect],
    manifest: Option<Manifest>,
    entry: HistoryEntry,
    plan: Plan,
) -> Result<Outcome> {
    let plain = |effects: &[AttributedEffect]| effects.iter().map(|e| e.effect.clone()).collect();
    let effects = manifest.as_ref().map(|m| plain(&m.effects)).unwrap_or_default();
    let journal = Journal { from: entry.from, to: entry.to, effects, old_effects: plain(old_effects), entry };
    if let Err(error) = forward(session, store, &journal, manifest.as_ref()) {
        return match backward(session, store, &journal) {
            Ok(()) => Err(error),
            Err(undo) => Err(error.context(format!("and undoing it failed: {undo:#}"))),
        };
    }
    // From here on the change is live, and nothing makes it a failure: what is not recorded is so by the next run.
    if let Err(error) = finish(session, store, &journal, manifest.as_ref()) {
        let text = format!("The change is live, but not wholly recorded; the next command does that ({error:#})");
        session.progress.event(Event::Notice(text));
    }
    Ok(outcome(true, journal.to, plan, manifest))
}

/// The steps that may fail, in order. The journal is one of them: half written, it is removed like the rest.
fn forward(session: &Session<'_>, store: &Store, journal: &Journal, manifest: Option<&Manifest>) -> Result<()> {
    report::publish(session, store, manifest, journal.from)?;
    crate::verify::persistent::record(&session.lock, &session.host, store, journal.to)?;
    store.write_journal(&session.lock, journal)?;
    store.prepare_history(&session.lock, &journal.entry)?;
    fail_point!("journaled", |_| anyhow::bail!("failpoint"));
    // On disk before anything that it would have to remove.
    settle::cleaner::cover(&session.lock, journal.old_effects.iter().chain(&journal.effects))?;
    fail_point!("covered", |_| anyhow::bail!("failpoint"));
    if journal.to != 0 {
        let from = (journal.from != 0).then(|| store.content(journal.from));
        settle::live::prepare(&session.lock, from.as_ref(), (journal.to, &store.content(journal.to)))?;
        settle::live::show(&session.lock, journal.to)?;
    }
    for effect in journal.effects.iter().filter(|e| settle::when(e) == When::BeforeSwap) {
        settle::make_way(&session.lock, effect, &journal.old_effects)?;
        settle::apply(&session.lock, effect, session.progress)?;
        fail_point!("effect", |_| anyhow::bail!("failpoint"));
    }
    fail_point!("before-swap", |_| anyhow::bail!("failpoint"));
    // While their files are still to be seen, which may be needed for stopping them.
    for unit in stopped_before_swap(&journal.old_effects, &journal.effects) {
        let stopped = settle::undo(&session.lock, unit, session.progress);
        tolerate(session, stopped, true)?;
    }
    fail_point!("stopped", |_| anyhow::bail!("failpoint"));
    swap(session, store, journal.to)?;
    fail_point!("swapped", |_| anyhow::bail!("failpoint"));
    session.progress.event(Event::Phase(Phase::Settle));
    for effect in after_swap(journal) {
        let applied = settle::apply(&session.lock, effect, session.progress);
        tolerate(session, applied, journal.entry.installed.is_empty())?;
    }
    fail_point!("settled", |_| anyhow::bail!("failpoint"));
    Ok(())
}

/// A service that cannot be reloaded keeps a package from coming, and nothing from going.
pub(super) fn tolerate(session: &Session<'_>, applied: Result<()>, going: bool) -> Result<()> {
    match applied {
        Err(error) if going => {
            session.progress.event(Event::Notice(format!("{error:#}")));
            Ok(())
        }
        other => other,
    }
}

/// Where the administrator finds what was edited and is no longer part of the layer.
pub(super) fn tell_saved(progress: &dyn Progress, saved: &[PathBuf]) {
    for path in saved {
        progress.event(Event::Notice(format!("Your changes are kept in {}", printable_path(path))));
    }
}

/// Effects that follow the swap. A reload that only the old generation needed is done as well: its files are gone now.
/// Units are started last.
fn after_swap(journal: &Journal) -> Vec<&Effect> {
    let is_start = |e: &&Effect| matches!(e, Effect::StartUnit { .. });
    let mut all = reloads(journal);
    all.extend(journal.effects.iter().filter(is_start));
    all
}

/// What both generations together need read again.
fn reloads(journal: &Journal) -> Vec<&Effect> {
    let mut all: Vec<&Effect> = Vec::new();
    for effect in journal.effects.iter().chain(&journal.old_effects) {
        let is_start = matches!(effect, Effect::StartUnit { .. });
        if settle::when(effect) == When::AfterSwap && !is_start && !all.contains(&effect) {
            all.push(effect);
        }
    }
    all
}

/// Units that we started and that `to` does not have running, last started first.
pub(super) fn stopped_before_swap<'a>(from: &'a [Effect], to: &[Effect]) -> Vec<&'a Effect> {
    let goes = |e: &&Effect| matches!(e, Effect::StartUnit { .. }) && !to.contains(e);
    from.iter().rev().filter(goes).collect()
}

fn swap(session: &Session<'_>, store: &Store, to: u64) -> Result<Option<SwapMethod>> {
    if to == 0 {
        overlay::detach_all(&session.lock).map(|()| None)
    } else {
        overlay::activate(&session.lock, to, &[store.layer(to)], &store.base()).map(Some)
    }
}

/// Brings the old generation back after a failed `forward`, and forgets the new one.
pub(super) fn backward(session: &Session<'_>, store: &Store, journal: &Journal) -> Result<()> {
    let live = overlay::UsrMounts::read()?.live();
    // A service that fails here already failed on the way forward; the files are what counts.
    if live != journal.from {
        for unit in stopped_before_swap(&journal.effects, &journal.old_effects) {
            let _ = settle::undo(&session.lock, unit, session.progress);
        }
        swap(session, store, journal.from).context("Bringing the old generation back")?;
    }
    let before_swap = |e: &&Effect| settle::when(e) == When::BeforeSwap;
    for effect in journal.effects.iter().rev().filter(before_swap).filter(|e| !journal.old_effects.contains(e)) {
        match settle::other_link(effect, &journal.old_effects) {
            Some(old) => settle::make_way(&session.lock, old, std::slice::from_ref(effect))?,
            None => settle::undo(&session.lock, effect, session.progress)?,
        }
    }
    settle::live::show(&session.lock, journal.from)?;
    // A mount of the old generation that one of the new had taken the place of; also where both have the same effect, as
    // it shows another file by now.
    let taken = |e: &&Effect| matches!(e, Effect::Mount { .. }) || !journal.effects.contains(e);
    for effect in journal.old_effects.iter().filter(before_swap).filter(taken) {
        settle::apply(&session.lock, effect, session.progress)?;
    }
    settle::cleaner::cover(&session.lock, journal.old_effects.iter())?;
    let enables = journal.effects.iter().any(|e| matches!(e, Effect::EnableUnit { .. }));
    if live != journal.from || enables {
        for effect in reloads(journal) {
            let _ = settle::undo(&session.lock, effect, session.progress);
        }
    }
    for unit in stopped_before_swap(&journal.old_effects, &journal.effects).into_iter().rev() {
        let _ = settle::apply(&session.lock, unit, session.progress);
    }
    settle::live::keep_only(&session.lock, journal.from)?;
    report::write_current(session, store, journal.from)?;
    store.clear_journal(&session.lock)?;
    report::keep_only(session, store, journal.from)
}

/// Records what is now live. Runs again after a crash, so every step is idempotent.
pub(super) fn finish(
    session: &Session<'_>,
    store: &Store,
    journal: &Journal,
    manifest: Option<&Manifest>,
) -> Result<()> {
    let mut disabled = false;
    for effect in journal.old_effects.iter().rev().filter(|e| !journal.effects.contains(e)) {
        if settle::when(effect) == When::BeforeSwap && settle::other_link(effect, &journal.effects).is_none() {
            settle::undo(&session.lock, effect, session.progress)?;
            disabled |= matches!(effect, Effect::EnableUnit { .. });
        }
    }
    if disabled {
        let reloaded = settle::apply(&session.lock, &Effect::ReloadUnits, session.progress);
        tolerate(session, reloaded, true)?;
    }
    if journal.from != 0 {
        let edits = settle::live::save_edits(&session.lock, (journal.from, &store.content(journal.from)), journal.to)?;
        tell_saved(session.progress, &edits);
    }
    settle::live::show(&session.lock, journal.to)?;
    settle::cleaner::cover(&session.lock, journal.effects.iter())?;
    settle::live::keep_only(&session.lock, journal.to)?;
    match manifest {
        Some(m) => crate::origin::write(&session.lock, &session.host, m)?,
        None => crate::origin::remove(&session.lock)?,
    }
    store.take_history(&session.lock)?;
    report::write_current(session, store, journal.to)?;
    fail_point!("recorded", |_| anyhow::bail!("failpoint"));
    store.clear_journal(&session.lock)?;
    report::keep_only(session, store, journal.to)
}
