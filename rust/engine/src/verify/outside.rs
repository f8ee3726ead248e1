//! Promise 3 while the layer lives: every effect of the manifest is in place, and nothing of ours is anywhere else. An
//! administrator may replace a link by a file, or clear a directory in `/run`: those are notes.

use super::{Mismatch, Report};
use crate::host::Host;
use crate::overlay::mountinfo::Table;
use crate::settle::{self, State};
use anyhow::Result;
use model::{Effect, Manifest};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The way out for what is missing: both directions end in a known state.
const REDO: &str = "uninstall the package or rpm-ostree-transient reset, and install it again";

pub(super) fn check(table: &Table, host: &Host, manifest: Option<&Manifest>, report: &mut Report) -> Result<()> {
    let effects: Vec<&Effect> = manifest.iter().flat_map(|m| &m.effects).map(|e| &e.effect).collect();
    for effect in &effects {
        in_place(effect, report)?;
    }
    settle::cleaner::differs(effects.iter().copied())?.into_iter().for_each(|(place, expected, found)| {
        let what = "the cleaner for a power cut does not cover the effects";
        let way_out = "any change writes it again; rpm-ostree-transient reset removes it";
        report.find(Mismatch { promise: 3, what, place: &place, expected, found, way_out });
    });
    let mark = settle::plan::marker(host);
    if manifest.is_none() && settle::is_our_mark(&mark) {
        residue("ostree is told of a layer that is not there", &mark, "a mark", "rpm-ostree-transient reset", report);
    }
    left_over(table, &effects, report)
}

fn in_place(effect: &Effect, report: &mut Report) -> Result<()> {
    let Some(place) = effect.path() else { return Ok(()) };
    let (expected, what) = match effect {
        Effect::Link { target, .. } | Effect::EnableUnit { target, .. } => {
            (format!("a link to {}", target.display()), "a link of the layer")
        }
        Effect::Mount { source, .. } => (format!("a mount of {}", source.display()), "a mount of the layer"),
        Effect::MarkUnlocked { .. } => ("our mark".into(), "the mark that tells ostree of the layer"),
        Effect::RunDirectory { .. } => ("a directory".into(), "a directory of the layer"),
        // Looked at as a whole, with what it covers.
        Effect::Cleaner { .. } => return Ok(()),
        Effect::ReloadUnits | Effect::ReloadUdev | Effect::ReloadBus | Effect::StartUnit { .. } => return Ok(()),
    };
    let mismatch = |what: &str, found: &str, report: &mut Report, fault: bool| {
        let way_out = if fault { REDO } else { "none is needed: it stays as it is" };
        let (expected, found) = (expected.clone(), found.to_owned());
        let mismatch = Mismatch { promise: 3, what, place, expected, found, way_out };
        if fault { report.find(mismatch) } else { report.note(mismatch) }
    };
    match settle::state(effect)? {
        State::InPlace => {}
        State::Missing => {
            // Services clear their directories in /run themselves.
            let fault = !matches!(effect, Effect::RunDirectory { .. });
            mismatch(&format!("{what} is not there"), "nothing", report, fault);
        }
        State::Replaced => mismatch(&format!("{what} was replaced"), "something of the administrator's", report, false),
    }
    Ok(())
}

fn residue(what: &str, place: &Path, found: &str, way_out: &str, report: &mut Report) {
    let (expected, found) = ("nothing".into(), found.to_owned());
    report.find(Mismatch { promise: 3, what, place, expected, found, way_out });
}

/// Links into our directory and mounts from it that no effect has.
fn left_over(table: &Table, effects: &[&Effect], report: &mut Report) -> Result<()> {
    // /opt and others may be links: a path is compared by where it really is.
    let real = |path: &Path| -> PathBuf {
        let parent = path.parent().and_then(|p| std::fs::canonicalize(p).ok());
        parent.zip(path.file_name()).map_or(path.to_path_buf(), |(p, n)| p.join(n))
    };
    let known: BTreeSet<PathBuf> = effects.iter().filter_map(|e| e.path()).map(real).collect();
    for link in settle::links_of_ours()? {
        if !known.contains(&real(&link)) {
            let found = std::fs::read_link(&link).map(|t| format!("a link to {}", t.display())).unwrap_or_default();
            residue("a link of ours was left behind", &link, &found, "rpm-ostree-transient clean-boot", report);
        }
    }
    for point in settle::mounts_of_ours(table) {
        if !known.contains(&real(&point)) {
            let way_out = format!("umount {}", point.display());
            residue("a mount of ours was left behind", &point, "a mount", &way_out, report);
        }
    }
    Ok(())
}
