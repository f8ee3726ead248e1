//! Removing layered packages: which the words mean, who still needs them, and which dependencies nobody needs any
//! more. This needs no repository and no solver: what goes and what stays follows from the rpmdb alone.

use super::session::Session;
use super::{Input, subject};
use anyhow::Result;
use bridge::solv::{Match, Package};
use model::manifest::Requested;
use model::{Code, Failure, LayeredPackage, PackageArg, Reason, Request};
use std::collections::BTreeSet;

/// The layered packages that a request removes, with dependencies that nothing needs any more.
///
/// # Errors
/// [`Code::NotFound`], [`Code::BaseConflict`], [`Code::Unsolvable`] naming the dependents.
pub(super) fn removals(session: &Session<'_>, input: &Input<'_>) -> Result<BTreeSet<Package>> {
    if input.request.uninstall_all {
        return Ok(session.layered.keys().copied().collect());
    }
    let mut asked = BTreeSet::new();
    for word in &input.request.uninstall {
        asked.extend(meant(session, input, word)?);
    }
    if asked.is_empty() {
        return Ok(asked);
    }
    let requested = |(p, record): (&Package, &&LayeredPackage)| {
        (record.reason == Reason::Requested && !asked.contains(p)).then_some(*p)
    };
    let kept = needed(session, session.layered.iter().filter_map(requested).collect(), &asked);
    let dependents = dependents(session, &kept, &asked);
    if !dependents.is_empty() {
        let message = dependents.join("; ");
        return Err(Failure::new(Code::Unsolvable, message).hint("uninstall the packages that need it as well").into());
    }
    Ok(session.layered.keys().copied().filter(|p| !kept.contains(p)).collect())
}

/// True when declarations asked for this word, and no longer do.
pub(super) fn is_released(request: &Request, r: &Requested) -> bool {
    let declared = request.declared.as_ref();
    declared.is_some_and(|d| !r.by_hand() && !d.owners.contains_key(&r.word))
}

/// The word that an argument is recorded by: of a file, its name.
pub(crate) fn word_of(arg: &PackageArg) -> String {
    match arg {
        PackageArg::LocalFile(path) => path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned()),
        other => other.to_string(),
    }
}

/// The layered packages that one word means.
fn meant(session: &Session<'_>, input: &Input<'_>, word: &str) -> Result<Vec<Package>> {
    let glob = word.contains(['*', '?', '[']);
    let (found, _) = session.pool.select(word, Match { glob, ..Match::default() })?;
    let mut layered: Vec<Package> = found.iter().copied().filter(|p| session.layered.contains_key(p)).collect();
    if layered.is_empty() {
        // The word that it was asked for with: a provide, a path, a file name.
        let names: Vec<&str> = input.requested.iter().filter(|r| r.word == word).map(|r| r.name.as_str()).collect();
        layered = session.layered.keys().copied().filter(|p| names.contains(&session.pool.name(*p).as_str())).collect();
    }
    if !layered.is_empty() {
        return Ok(layered);
    }
    if let Some(&base) = found.iter().find(|p| session.is_base(**p)) {
        let message = format!("{} is part of the base, which cannot be changed", session.pool.nevra(base));
        return Err(Failure::new(Code::BaseConflict, message).into());
    }
    if input.options.idempotent {
        return Ok(Vec::new());
    }
    let names = session.layered.keys().map(|p| session.pool.name(*p)).collect();
    let near = subject::near(word, &names);
    let failure = Failure::new(Code::NotFound, format!("\"{word}\" is not layered"));
    Err(if near.is_empty() { failure } else { failure.hint(format!("layered are: {}", near.join(", "))) }.into())
}

/// The layered packages that nobody asks for any more and nothing needs. `removed` goes anyway, `roots` are what the
/// request brings or names.
pub(super) fn orphans(
    session: &Session<'_>,
    input: &Input<'_>,
    removed: &BTreeSet<Package>,
    roots: &BTreeSet<Package>,
) -> BTreeSet<Package> {
    let (released, staying): (Vec<&Requested>, Vec<&Requested>) =
        input.requested.iter().partition(|r| is_released(input.request, r));
    if released.is_empty() {
        return BTreeSet::new();
    }
    let staying: BTreeSet<&str> = staying.iter().map(|r| r.name.as_str()).collect();
    let asked = session.layered.keys().filter(|p| staying.contains(session.pool.name(**p).as_str()));
    let kept = needed(session, asked.chain(roots).copied().filter(|p| !removed.contains(p)).collect(), removed);
    session.layered.keys().copied().filter(|p| !kept.contains(p) && !removed.contains(p)).collect()
}

/// True when the request takes back what declarations asked for.
pub(super) fn releases(input: &Input<'_>) -> bool {
    input.requested.iter().any(|r| is_released(input.request, r))
}

/// The packages that must stay: these, and all layered ones that they need.
fn needed(session: &Session<'_>, roots: BTreeSet<Package>, asked: &BTreeSet<Package>) -> BTreeSet<Package> {
    let mut kept = roots;
    let mut open: Vec<Package> = kept.iter().copied().collect();
    while let Some(p) = open.pop() {
        let mut wanted = session.pool.requires(p);
        // What came along as a recommendation stays along.
        wanted.extend(session.pool.recommends(p));
        for capability in wanted {
            for provider in session.pool.providers(capability) {
                if session.layered.contains_key(&provider) && !asked.contains(&provider) && kept.insert(provider) {
                    open.push(provider);
                }
            }
        }
    }
    kept
}

/// One sentence for each kept package that would lose what it requires.
fn dependents(session: &Session<'_>, kept: &BTreeSet<Package>, asked: &BTreeSet<Package>) -> Vec<String> {
    let mut out = Vec::new();
    for &p in kept {
        for capability in session.pool.requires(p) {
            let providers = session.pool.providers(capability);
            let lost = providers.iter().find(|q| asked.contains(q));
            let stays = providers.iter().any(|q| session.is_base(*q) || kept.contains(q));
            if let (Some(&lost), false) = (lost, stays) {
                let sentence = format!("{} is needed by {}", session.pool.nevra(lost), session.pool.nevra(p));
                if !out.contains(&sentence) {
                    out.push(sentence);
                }
            }
        }
    }
    out
}
