//! Words and local files → jobs → solution → [`Plan`]. The rules of rpm-ostree decide what is an error: what the base
//! has, what is layered already, what would change the base.

use super::session::Session;
use super::subject::{self, Meaning};
use super::{Input, problems, uninstall};
use anyhow::Result;
use bridge::solv::{Job, Package, Rules, evr_compare};
use fn_error_context::context;
use model::manifest::Requested;
use model::{Action, Code, Failure, Nevra, PackageArg, PackageSource, Plan, PlannedPackage, Reason};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd as _;
use std::path::Path;

/// What planning came to.
#[derive(Debug)]
pub(super) enum Answer {
    /// The plan.
    Plan(Plan),
    /// Only file lists can tell.
    NeedsFilelists,
}

/// What the solver is asked, and what each word stands for.
#[derive(Default)]
struct Question {
    jobs: Vec<Job>,
    /// (word, local, the packages that may answer it).
    wishes: Vec<(String, bool, Vec<Package>)>,
    already: Vec<(String, Nevra)>,
    downgrade: bool,
}

/// Plans a request.
pub(super) fn plan(session: &mut Session<'_>, input: &Input<'_>) -> Result<Answer> {
    let removed = uninstall::removals(session, input)?;
    match attempt(session, input, &removed) {
        // What is taken back may be in the way of what comes. It goes first only then, as what comes may need it.
        Err(error) if uninstall::releases(input) => {
            let mut all = uninstall::orphans(session, input, &removed, &BTreeSet::new());
            all.extend(&removed);
            attempt(session, input, &all).map_err(|_| error)
        }
        other => other,
    }
}

fn attempt(session: &mut Session<'_>, input: &Input<'_>, removed: &BTreeSet<Package>) -> Result<Answer> {
    let mut question = Question::default();
    for arg in &input.request.install {
        match arg {
            PackageArg::Subject(word) => match subject::find(session, word)? {
                Meaning::NeedsFilelists => return Ok(Answer::NeedsFilelists),
                Meaning::Packages { packages, glob } => {
                    ask(session, input, &mut question, word, packages, glob, removed)?;
                }
            },
            PackageArg::LocalFile(path) => {
                let word = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
                let local = session.local.iter().find(|(known, _)| known == path).map(|(_, p)| *p);
                let p = local.ok_or_else(|| anyhow::anyhow!("{} was not loaded", path.display()))?;
                ask_local(session, input, &mut question, (&word, path), p, removed)?;
            }
            PackageArg::Url(url) => anyhow::bail!("{} was not downloaded before resolving", super::redact(url)),
        }
    }
    let mut steps: Vec<Package> = if question.jobs.is_empty() {
        removed.iter().copied().collect()
    } else {
        match solve(session, input, &question, removed)? {
            Some(steps) => steps,
            None => return Ok(Answer::NeedsFilelists),
        }
    };
    let come = steps.iter().filter(|p| session.is_new(**p));
    let named = question.wishes.iter().flat_map(|w| &w.2).filter(|p| session.layered.contains_key(p));
    let roots = come.chain(named.filter(|p| !steps.contains(p))).copied().collect();
    let orphans = uninstall::orphans(session, input, removed, &roots);
    steps.extend(orphans.into_iter().filter(|p| !steps.contains(p)).collect::<Vec<_>>());
    let plan = assemble(session, input, question, &steps)?;
    Ok(Answer::Plan(plan))
}

/// True when the user should hear that there is nothing to do.
fn nothing_to_do(input: &Input<'_>, question: &mut Question, word: &str, has: Nevra, base: bool) -> Result<()> {
    let accepted =
        if base { input.options.allow_inactive || input.options.idempotent } else { input.options.idempotent };
    if accepted {
        question.already.push((word.into(), has));
        return Ok(());
    }
    let failure = if base {
        let message = format!("\"{word}\" is already provided by {has} of the base");
        Failure::new(Code::AlreadyProvided, message).hint("--allow-inactive accepts that")
    } else {
        let message = format!("\"{word}\" is already layered as {has}");
        Failure::new(Code::AlreadyProvided, message).hint("--idempotent accepts that")
    };
    Err(failure.into())
}

/// Turns one word into jobs.
fn ask(
    session: &Session<'_>,
    input: &Input<'_>,
    question: &mut Question,
    word: &str,
    packages: Vec<Package>,
    glob: bool,
    removed: &BTreeSet<Package>,
) -> Result<()> {
    // A pattern asks for every name that it matches; the names that the base has are no news then.
    let mut groups: BTreeMap<String, Vec<Package>> = BTreeMap::new();
    for p in packages {
        groups.entry(if glob { session.pool.name(p) } else { String::new() }).or_default().push(p);
    }
    let in_base = |group: &Vec<Package>| group.iter().copied().find(|p| session.is_base(*p));
    let all_base = groups.values().all(|g| in_base(g).is_some());
    for group in groups.into_values() {
        if let Some(base) = in_base(&group) {
            if !glob || all_base {
                nothing_to_do(input, question, word, session.pool.nevra(base), true)?;
            }
            continue;
        }
        let layered = group.iter().copied().find(|p| session.layered.contains_key(p) && !removed.contains(p));
        let new: Vec<Package> = group.iter().copied().filter(|p| session.is_new(*p)).collect();
        let Some(layered) = layered else {
            wish(session, question, word, false, new);
            continue;
        };
        let name = session.pool.name(layered);
        let evr = session.pool.evr(layered);
        let newer: Vec<Package> = new
            .into_iter()
            .filter(|p| session.pool.name(*p) == name && evr_compare(&session.pool.evr(*p), &evr) == Ordering::Greater)
            .collect();
        if newer.is_empty() {
            known(session, input, question, word, layered)?;
        } else {
            question.jobs.push(Job::Update(vec![layered]));
            let answers = newer.into_iter().chain([layered]).collect();
            question.wishes.push((word.into(), false, answers));
        }
    }
    Ok(())
}

/// A word for a package that is layered as it is. For a mere dependency that is a change: it is requested from now on.
fn known(session: &Session<'_>, input: &Input<'_>, question: &mut Question, word: &str, p: Package) -> Result<()> {
    let nevra = session.pool.nevra(p);
    if session.layered.get(&p).is_some_and(|l| l.reason == Reason::Dependency) {
        question.already.push((word.into(), nevra));
    } else {
        nothing_to_do(input, question, word, nevra, false)?;
    }
    question.wishes.push((word.into(), false, vec![p]));
    Ok(())
}

/// Asks for one of these packages, none of which is installed.
fn wish(session: &Session<'_>, question: &mut Question, word: &str, local: bool, new: Vec<Package>) {
    let older = |p: &Package| {
        let (name, evr) = (session.pool.name(*p), session.pool.evr(*p));
        session
            .layered
            .keys()
            .any(|l| session.pool.name(*l) == name && evr_compare(&session.pool.evr(*l), &evr) == Ordering::Greater)
    };
    question.downgrade |= new.iter().any(older);
    question.jobs.push(Job::Install(new.clone()));
    question.wishes.push((word.into(), local, new));
}

/// Asks for a local file.
fn ask_local(
    session: &Session<'_>,
    input: &Input<'_>,
    question: &mut Question,
    (word, path): (&str, &Path),
    p: Package,
    removed: &BTreeSet<Package>,
) -> Result<()> {
    let nevra = session.pool.nevra(p);
    if session.base.iter().any(|b| session.pool.nevra(*b) == nevra) {
        return nothing_to_do(input, question, word, nevra, true);
    }
    let same = session.layered.keys().copied().find(|l| !removed.contains(l) && session.pool.nevra(*l) == nevra);
    match same {
        Some(layered) if is_file_of(session, layered, path)? => known(session, input, question, word, layered),
        _ => {
            wish(session, question, word, true, vec![p]);
            Ok(())
        }
    }
}

/// True when the layered package came from a file with this content: the same name alone says nothing of a file that
/// somebody built again.
#[context("Comparing {} with what is layered", path.display())]
fn is_file_of(session: &Session<'_>, layered: Package, path: &Path) -> Result<bool> {
    let checksum = session.layered.get(&layered).and_then(|l| l.checksum.as_ref());
    let Some(checksum) = checksum else { return Ok(false) };
    bridge::librepo::checksum_matches(std::fs::File::open(path)?.as_fd(), checksum)
}

/// Asks libsolv: the changed packages, or none when file lists are needed.
fn solve(
    session: &mut Session<'_>,
    input: &Input<'_>,
    question: &Question,
    removed: &BTreeSet<Package>,
) -> Result<Option<Vec<Package>>> {
    let base: Vec<Package> = session.base.iter().copied().collect();
    let steps = if input.options.no_deps {
        without_dependencies(session, question, removed)
    } else {
        let mut jobs = vec![Job::Lock(base)];
        jobs.extend(question.jobs.iter().cloned());
        if !removed.is_empty() {
            jobs.push(Job::Erase(removed.iter().copied().collect()));
        }
        let weak_deps = session.main.install_weak_deps;
        match session.pool.solve(&jobs, Rules { weak_deps, downgrade: question.downgrade, uninstall: false }) {
            Ok(steps) => steps,
            Err(found) if !session.filelists && problems::wants_file(&found) => return Ok(None),
            Err(found) => return Err(problems::explain(session, &found).into()),
        }
    };
    // The lock makes this impossible; a solver that thinks otherwise must not get its way.
    if let Some(base) = steps.iter().find(|p| session.is_base(**p)) {
        let other = steps.iter().find(|p| session.is_new(**p)).map(|p| session.pool.nevra(*p).to_string());
        let message = format!(
            "base package {} would have to go for {}",
            session.pool.nevra(*base),
            other.unwrap_or_else(|| "the request".into())
        );
        return Err(Failure::new(Code::BaseConflict, message).into());
    }
    Ok(Some(steps))
}

/// Test only: the newest package for each wish, and nothing else.
fn without_dependencies(session: &Session<'_>, question: &Question, removed: &BTreeSet<Package>) -> Vec<Package> {
    let mut steps: BTreeSet<Package> = removed.clone();
    for (_, _, answers) in &question.wishes {
        let best = answers.iter().copied().max_by(|a, b| evr_compare(&session.pool.evr(*a), &session.pool.evr(*b)));
        let Some(best) = best.filter(|b| session.is_new(*b)) else { continue };
        let (name, arch) = (session.pool.name(best), session.pool.arch(best));
        let same = |p: &Package| session.pool.name(*p) == name && session.pool.arch(*p) == arch;
        steps.extend(session.base.iter().chain(session.layered.keys()).copied().filter(same));
        steps.insert(best);
    }
    steps.into_iter().collect()
}

/// The plan of a solution.
fn assemble(session: &Session<'_>, input: &Input<'_>, question: Question, steps: &[Package]) -> Result<Plan> {
    let pool = &session.pool;
    let (gone, come): (Vec<Package>, Vec<Package>) = steps.iter().copied().partition(|p| !session.is_new(*p));
    let chosen: BTreeSet<Package> =
        question.wishes.iter().flat_map(|w| &w.2).copied().filter(|p| come.contains(p)).collect();
    let mut replaced: BTreeSet<Package> = BTreeSet::new();
    let mut plan = Plan { already_provided: question.already, ..Plan::default() };
    for &p in &come {
        let nevra = pool.nevra(p);
        // Of two architectures of one name, the same one is replaced.
        let same_name = |q: &&Package| pool.name(**q) == nevra.name && !replaced.contains(*q);
        let old = gone.iter().filter(same_name).find(|q| pool.arch(**q) == nevra.arch);
        let old = old.or_else(|| gone.iter().find(same_name)).copied();
        replaced.extend(old);
        let action = match old.map(|q| (pool.nevra(q), evr_compare(&pool.evr(q), &pool.evr(p)))) {
            None => Action::Install,
            Some((from, Ordering::Less)) => Action::Upgrade(from),
            Some((from, Ordering::Greater)) => Action::Downgrade(from),
            Some((_, Ordering::Equal)) => Action::Reinstall,
        };
        let before = old.and_then(|q| session.layered.get(&q)).map(|l| l.reason);
        let reason = if chosen.contains(&p) { Reason::Requested } else { before.unwrap_or(Reason::Dependency) };
        plan.install.push(planned(session, p, nevra, action, reason)?);
    }
    plan.install.sort_by(|a, b| a.nevra.cmp(&b.nevra));
    plan.remove = gone.iter().filter(|p| !replaced.contains(p)).map(|p| pool.nevra(*p)).collect();
    plan.remove.sort();
    plan.requested = requested(session, input, &question.wishes, &gone, &come);
    Ok(plan)
}

/// The full set of requests after the plan.
fn requested(
    session: &Session<'_>,
    input: &Input<'_>,
    wishes: &[(String, bool, Vec<Package>)],
    gone: &[Package],
    come: &[Package],
) -> Vec<Requested> {
    let stays = session.layered.keys().filter(|p| !gone.contains(p));
    let after: BTreeSet<Package> = stays.chain(come).copied().collect();
    let names: BTreeSet<String> = after.iter().map(|p| session.pool.name(*p)).collect();
    let stays = |r: &&Requested| names.contains(&r.name) && !uninstall::is_released(input.request, r);
    let mut out: Vec<Requested> = input.requested.iter().filter(stays).cloned().collect();
    for (word, local, answers) in wishes {
        for p in answers.iter().filter(|p| after.contains(p)) {
            let name = session.pool.name(*p);
            // A name or a file that takes the place of an earlier request for the same package replaces it.
            out.retain(|r| r.name != name || (r.word != *word && !local && !r.local));
            out.push(Requested { word: word.clone(), name, local: *local, owners: vec![] });
        }
    }
    for r in &mut out {
        let before = input.requested.iter().find(|o| o.word == r.word && o.name == r.name);
        r.owners = owners(before, input.request, r);
    }
    out
}

/// Who asks for this word after the request: declarations say it for their owners, the command line for itself.
fn owners(before: Option<&Requested>, request: &model::Request, r: &Requested) -> Vec<String> {
    let admin = model::declaration::ADMIN.to_owned();
    let mut owners: BTreeSet<String> = match &request.declared {
        Some(declared) => declared.owners.get(&r.word).cloned().unwrap_or_default(),
        None => before.iter().flat_map(|b| &b.owners).cloned().collect(),
    };
    let asked = request.declared.is_none() && request.install.iter().any(|a| uninstall::word_of(a) == r.word);
    if before.is_some_and(Requested::by_hand) || asked || before.is_none() && request.declared.is_none() {
        owners.insert(admin.clone());
    }
    // The administrator alone is the usual case, and needs no words.
    if owners.len() == 1 && owners.contains(&admin) { Vec::new() } else { owners.into_iter().collect() }
}

fn planned(session: &Session<'_>, p: Package, nevra: Nevra, action: Action, reason: Reason) -> Result<PlannedPackage> {
    let pool = &session.pool;
    let local = session.local.iter().find(|(_, q)| *q == p);
    let source = match local {
        Some((path, _)) => PackageSource::File { path: path.clone() },
        None => {
            let repo = pool.repo(p);
            let id = session.repositories.iter().find(|(r, _)| *r == repo).map(|(_, c)| c.id.clone());
            PackageSource::Repository {
                id: id.ok_or_else(|| anyhow::anyhow!("{nevra} is in no repository"))?,
                location: pool.location(p).ok_or_else(|| anyhow::anyhow!("metadata gives no location for {nevra}"))?,
                base: pool.base(p),
            }
        }
    };
    Ok(PlannedPackage {
        action,
        reason,
        download_bytes: if local.is_some() { 0 } else { pool.download_bytes(p) },
        installed_bytes: pool.installed_bytes(p),
        checksum: if local.is_some() { None } else { pool.checksum(p) },
        source,
        nevra,
    })
}
