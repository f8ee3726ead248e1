//! One line a verb; each verb has a file. A verb returns the exit status, or an error for [`crate::exit`].

mod apply;
mod clean_boot;
mod diff;
mod history;
mod install;
mod reset;
mod rollback;
mod status;
mod uninstall;
mod verify;

pub(crate) use status::section;

use crate::args::{Cli, RunArgs, Verb};
use crate::output::Output;
use crate::render::{self, Ending};
use anyhow::{Context as _, Result};
use model::Code;
use model::status::Outcome;

/// Runs the verb. `typed` is the command line for the history.
///
/// # Errors
/// Whatever the engine says.
pub fn run(cli: Cli, typed: &str, output: &Output) -> Result<u8> {
    match cli.verb {
        Verb::Install(args) => install::run(&args, typed, output),
        Verb::Uninstall(args) => uninstall::run(&args, typed, output),
        Verb::Status(args) => status::run(&args, output),
        Verb::Rollback(args) => rollback::run(&args, typed, output),
        Verb::Reset(args) => reset::run(&args, typed, output),
        Verb::Apply(args) => apply::run(&args, typed, output),
        Verb::History(_) => history::run(output),
        Verb::Diff(_) => diff::run(output),
        Verb::CleanBoot(_) => clean_boot::run(typed, output),
        Verb::Verify(_) => verify::run(typed, output),
    }
}

/// Shows what a change did and turns it into the exit status.
fn finish(outcome: &Outcome, args: &RunArgs, ending: Ending, output: &Output) -> Result<u8> {
    let shown = output.document(outcome, |o| render::outcome(o, ending));
    match outcome.changed {
        true => shown.context("The change is live, but it could not be told")?,
        false => shown?,
    }
    Ok(exit_status(outcome, args))
}

/// 77 is for callers who must act when something changed (or, in a dry run, would change).
fn exit_status(outcome: &Outcome, args: &RunArgs) -> u8 {
    let unchanged = !outcome.changed && outcome.plan.is_empty();
    if unchanged && args.unchanged_exit_77 { Code::Unchanged.exit_status() } else { 0 }
}

/// Seconds since 1970, UTC.
fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Plan;

    #[test]
    fn exit_77_only_when_asked_and_unchanged() {
        let outcome = |changed, remove: &[&str]| Outcome {
            api_version: String::new(),
            kind: String::new(),
            changed,
            generation: 1,
            plan: Plan { remove: remove.iter().map(|n| n.parse().unwrap()).collect(), ..Plan::default() },
            manifest: None,
        };
        let asked = RunArgs { unchanged_exit_77: true, ..RunArgs::default() };
        assert_eq!(exit_status(&outcome(false, &[]), &asked), 77);
        assert_eq!(exit_status(&outcome(false, &[]), &RunArgs::default()), 0);
        assert_eq!(exit_status(&outcome(true, &[]), &asked), 0);
        assert_eq!(exit_status(&outcome(false, &["a-1-1.noarch"]), &asked), 0, "a dry run that would change");
    }
}
