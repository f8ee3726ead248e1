//! The solver's problems as a person would say them. A base package that stands in the way is always named first:
//! it is the one thing that a transient layer can not change.

use super::session::Session;
use bridge::solv::{Package, Problem, Rule, RuleKind};
use model::{Code, Failure};

/// The file that some package requires and primary metadata does not know, when that is among the problems.
pub(super) fn wants_file(problems: &[Problem]) -> bool {
    let is_file = |r: &Rule| {
        r.kind == RuleKind::NothingProvides
            && r.capability.as_deref().is_some_and(|c| c.starts_with('/') || c.contains(" /"))
    };
    problems.iter().flatten().any(is_file)
}

/// One failure for all problems.
pub(super) fn explain(session: &Session<'_>, problems: &[Problem]) -> Failure {
    if let Some(message) = problems.iter().find_map(|p| base_conflict(session, p)) {
        return Failure::new(Code::BaseConflict, message)
            .hint("the base changes only with the deployment: upgrade it, or ask for a version that fits it");
    }
    let mut lines: Vec<String> = Vec::new();
    for problem in problems {
        for line in sentences(session, problem) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    let more = lines.len().saturating_sub(4);
    lines.truncate(4);
    let mut message = lines.join("; ");
    if more > 0 {
        message += &format!("; and {more} more");
    }
    Failure::new(Code::Unsolvable, message)
}

fn name(session: &Session<'_>, p: Option<Package>) -> String {
    p.map_or_else(|| "the request".into(), |p| session.pool.nevra(p).to_string())
}

/// The sentence about a base package that would have to change, when the problem has one.
fn base_conflict(session: &Session<'_>, problem: &Problem) -> Option<String> {
    let is_base = |p: Option<Package>| p.is_some_and(|p| session.is_base(p));
    let rule = problem.iter().find(|r| {
        matches!(r.kind, RuleKind::Conflicts | RuleKind::Obsoletes | RuleKind::SameName)
            && (is_base(r.source) != is_base(r.target))
    })?;
    let (base, other) = if is_base(rule.source) { (rule.source, rule.target) } else { (rule.target, rule.source) };
    let (base_name, other_name) = (name(session, base), name(session, other));
    let sentence = match rule.kind {
        RuleKind::Conflicts => format!("{other_name} conflicts with base package {base_name}"),
        RuleKind::Obsoletes if is_base(rule.target) && !same_name(session, base, other) => {
            format!("{other_name} obsoletes base package {base_name}")
        }
        RuleKind::Obsoletes if !same_name(session, base, other) => {
            format!("base package {base_name} obsoletes {other_name}")
        }
        _ => format!("{other_name} would replace base package {base_name}"),
    };
    // Who wanted it, when that was not the user.
    let other_id = session.pool.name(other?);
    let wanted = problem.iter().find(|r| {
        let capability = r.capability.as_deref().unwrap_or_default();
        r.kind == RuleKind::Requires && !is_base(r.source) && capability.split_whitespace().next() == Some(&other_id)
    });
    let wanted = wanted
        .or_else(|| problem.iter().find(|r| r.kind == RuleKind::Requires && !is_base(r.source) && r.source != other));
    Some(match wanted {
        Some(r) => {
            format!("{} requires {}, but {sentence}", name(session, r.source), r.capability.as_deref().unwrap_or("it"))
        }
        None => sentence,
    })
}

fn same_name(session: &Session<'_>, a: Option<Package>, b: Option<Package>) -> bool {
    matches!((a, b), (Some(a), Some(b)) if session.pool.name(a) == session.pool.name(b))
}

/// The sentences of a problem that say something to a person.
fn sentences(session: &Session<'_>, problem: &Problem) -> Vec<String> {
    let telling: Vec<&Rule> =
        problem.iter().filter(|r| !matches!(r.kind, RuleKind::Requires | RuleKind::Job | RuleKind::Other)).collect();
    let chosen: Vec<&Rule> = if telling.is_empty() { problem.iter().collect() } else { telling };
    chosen.into_iter().map(|r| sentence(session, r)).filter(|s| !s.is_empty()).collect()
}

fn sentence(session: &Session<'_>, rule: &Rule) -> String {
    let capability = rule.capability.as_deref().unwrap_or("it");
    let (source, target) = (name(session, rule.source), name(session, rule.target));
    match rule.kind {
        RuleKind::NothingProvides => {
            let base = capability.split_whitespace().next().and_then(|n| session.base_named(n));
            let has = base.map(|p| format!(" (the base has {})", session.pool.nevra(p))).unwrap_or_default();
            format!("nothing provides {capability} needed by {source}{has}")
        }
        RuleKind::Conflicts => format!("{source} conflicts with {target}"),
        RuleKind::Obsoletes => format!("{source} obsoletes {target}"),
        RuleKind::SameName => format!("{source} and {target} cannot both be installed"),
        RuleKind::NotInstallable => format!("{source} cannot be installed on this host"),
        RuleKind::Requires => format!("{source} requires {capability}"),
        RuleKind::Job | RuleKind::Other => rule.text.clone(),
    }
}
