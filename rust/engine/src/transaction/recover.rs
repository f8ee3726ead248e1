//! What a killed run left is resolved before anything else is done: the mount says which generation is live, the
//! journal says what was meant. Whatever was half done is finished when the swap happened, and undone when it did not.

use super::{Session, commit};
use crate::generation::{Store, stamp_is_current};
use crate::{overlay, settle};
use anyhow::Result;
use fn_error_context::context;
use model::Event;

/// Repairs the state of an unfinished run, when there was one.
///
/// # Errors
/// From the kernel or the filesystem; a later run tries again.
#[context("Repairing what an unfinished run left")]
pub(super) fn recover(session: &Session<'_>) -> Result<()> {
    let Some(store) = Store::open_existing()? else { return Ok(()) };
    if !stamp_is_current(&store, &session.host)? {
        return remove_stale(session, store, "What was layered in another boot or deployment is being removed");
    }
    let live = overlay::settle_stack(&session.lock)?;
    let Some(journal) = store.journal()? else {
        if live == 0 && store.history()?.last().is_some_and(|e| e.to != 0) {
            // By umount, or by a reset that was killed: there is nothing to go back to, and marks that say otherwise.
            let text = "The layer was taken off /usr, but not to the end; what is left of it is being removed";
            return remove_stale(session, store, text);
        }
        // Killed before the journal was written: at most a store, staging work or a sealed layer that nobody refers to.
        return if live == 0 && store.history()?.is_empty() {
            store.destroy(&session.lock)
        } else {
            super::report::keep_only(session, &store, live)
        };
    };
    if live != journal.from && live != journal.to {
        let text = "The layer was taken off /usr during a run that did not end; what is left of it is being removed";
        return remove_stale(session, store, text);
    }
    session.progress.event(Event::Notice(format!(
        "An earlier run (\"{}\") did not end; {}",
        journal.entry.command,
        if live == journal.to { "its change is live and is being recorded" } else { "what it left is being removed" }
    )));
    if live == journal.to {
        for effect in &journal.effects {
            let applied = settle::apply(&session.lock, effect, session.progress);
            commit::tolerate(session, applied, settle::when(effect) == settle::When::AfterSwap)?;
        }
        let manifest = if journal.to == 0 { None } else { Some(store.manifest(journal.to)?) };
        commit::finish(session, &store, &journal, manifest.as_ref())
    } else {
        commit::backward(session, &store, &journal)
    }
}

/// Removes the state of another boot or deployment, as a soft reboot leaves it: `/run` is the same, the host is not. Also
/// that of a run that was killed before its store was complete, and of a layer that somebody unmounted.
pub(super) fn remove_stale(session: &Session<'_>, store: Store, text: &str) -> Result<()> {
    if !store.manifests()?.is_empty() {
        session.progress.event(Event::Notice(text.into()));
    }
    overlay::detach_all(&session.lock)?;
    super::back::undo_everything(&session.lock, &session.host, Some(&store), session.progress)?;
    crate::origin::remove(&session.lock)?;
    super::report::remove(&session.lock)?;
    store.destroy(&session.lock)
}
