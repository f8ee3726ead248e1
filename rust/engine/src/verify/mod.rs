//! Looks at the live host and says which of the first five promises hold: mounts ([`mounts`]), effects and residue
//! ([`outside`]), packages and documents ([`content`]), ostree's own state ([`persistent`]). Changes nothing. What only
//! somebody else can have changed, and may, is a note and no finding.

mod content;
mod mounts;
mod outside;
pub(crate) mod persistent;

use crate::generation::{RUN_DIR, Store, stamp_is_current};
use crate::host::{self, Host};
use crate::overlay::UsrMounts;
use crate::overlay::mountinfo::Table;
use crate::transaction::{Options, take_lock};
use anyhow::Result;
use model::status::API_VERSION;
use model::{Finding, Manifest, Progress, Verification};
use std::path::{Path, PathBuf};

/// Findings and notes as they come up.
#[derive(Debug, Default)]
struct Report {
    findings: Vec<Finding>,
    notes: Vec<Finding>,
}

/// Both sides of a mismatch, and the way out.
struct Mismatch<'a> {
    promise: u8,
    what: &'a str,
    place: &'a Path,
    expected: String,
    found: String,
    way_out: &'a str,
}

impl Mismatch<'_> {
    fn finding(self) -> Finding {
        Finding {
            promise: self.promise,
            what: self.what.into(),
            place: self.place.into(),
            expected: self.expected,
            found: self.found,
            way_out: self.way_out.into(),
        }
    }
}

impl Report {
    fn find(&mut self, mismatch: Mismatch<'_>) {
        self.findings.push(mismatch.finding());
    }

    fn note(&mut self, mismatch: Mismatch<'_>) {
        self.notes.push(mismatch.finding());
    }
}

/// The way out that always works.
const RESET: &str = "rpm-ostree-transient reset";

/// Looks at everything. Waits for a running change, as its steps are not to be taken for faults.
///
/// # Errors
/// [`model::Code::NotRoot`], [`model::Code::NotOstreeHost`], [`model::Code::NamespaceUnreachable`]; when something cannot
/// be read at all. What does not hold is no error here.
pub fn verify(options: &Options, progress: &dyn Progress) -> Result<Verification> {
    host::require_root()?;
    host::require_host_namespace()?;
    let host = Host::detect()?;
    // Taking the lock would make our directory where there was none.
    let _lock = if Path::new(RUN_DIR).exists() { Some(take_lock(options, progress)?) } else { None };
    let mut report = Report::default();
    let table = Table::read("thread-self")?;
    let generation = UsrMounts::from_table(&table).live();
    let store = Store::open_existing()?;
    let current = match &store {
        Some(store) => stamp_is_current(store, &host)?,
        None => true,
    };
    let manifest: Option<Manifest> = match (&store, generation) {
        (Some(store), 1..) => Some(store.manifest(generation)?),
        _ => None,
    };
    if let Some(store) = &store {
        unfinished(store, current, generation, &mut report)?;
    } else if generation != 0 {
        let (expected, found) =
            ("the store of generation".to_owned() + " " + &generation.to_string(), "nothing".into());
        let place = Path::new(RUN_DIR).join("store");
        let what = "a generation is on /usr, but its store is gone";
        report.find(Mismatch { promise: 5, what, place: &place, expected, found, way_out: RESET });
    }
    let live = store.as_ref().zip(manifest.as_ref());
    mounts::check(&table, store.as_ref().filter(|_| current), generation, &mut report)?;
    outside::check(&table, &host, manifest.as_ref(), &mut report)?;
    content::check(&host, live, &mut report)?;
    if let Some((store, manifest)) = live {
        persistent::check(&host, store, manifest.generation, &mut report)?;
    }
    let Report { findings, notes } = report;
    Ok(Verification {
        api_version: API_VERSION.into(),
        kind: "Verification".into(),
        generation,
        holds: findings.is_empty(),
        findings,
        notes,
    })
}

/// A run that was killed, or state that belongs to another boot or deployment: the next change repairs both.
fn unfinished(store: &Store, current: bool, generation: u64, report: &mut Report) -> Result<()> {
    const WAY_OUT: &str = "the next change repairs it; rpm-ostree-transient reset does so at once";
    if !current {
        report.find(Mismatch {
            promise: 3,
            what: "what was layered in another boot or deployment is still there",
            place: &store.path,
            expected: "nothing".into(),
            found: "a store".into(),
            way_out: WAY_OUT,
        });
    } else if let Some(journal) = store.journal()? {
        report.find(Mismatch {
            promise: 2,
            what: "an earlier run did not end",
            place: &store.path.join("journal.json"),
            expected: "no journal".into(),
            found: format!("\"{}\", from generation {} to {}", journal.entry.command, journal.from, journal.to),
            way_out: WAY_OUT,
        });
    } else if let Some(last) = store.history()?.last().filter(|e| e.to != generation) {
        report.find(Mismatch {
            promise: 5,
            what: "somebody else has changed which generation is on /usr",
            place: &PathBuf::from("/usr"),
            expected: format!("generation {}", last.to),
            found: format!("generation {generation}"),
            way_out: WAY_OUT,
        });
    }
    Ok(())
}
