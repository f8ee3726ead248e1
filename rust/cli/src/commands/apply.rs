//! `apply`: brings the host to what its declarations say.

use crate::args::ApplyArgs;
use crate::output::Output;
use crate::progress::Screen;
use crate::render::{self, Ending};
use crate::settings::apply_options;
use anyhow::{Context as _, Result};
use model::{Application, Code};

pub(super) fn run(args: &ApplyArgs, typed: &str, output: &Output) -> Result<u8> {
    engine::host::require_root()?;
    let screen = Screen::start(output.json())?;
    let application = engine::transaction::apply(&apply_options(args, typed), &screen)?;
    drop(screen);
    let ending = if args.run.dry_run { Ending::DryRun } else { Ending::Run };
    let shown = output.document(&application, |a| render::application(a, ending));
    match application.changed {
        true => shown.context("The change is live, but it could not be told")?,
        false => shown?,
    }
    Ok(exit_status(&application, args.run.unchanged_exit_77))
}

/// A refused object is told before anything else: somebody has to mend it, and the unit is to be seen as failed.
fn exit_status(application: &Application, unchanged_exit_77: bool) -> u8 {
    let unchanged = !application.changed && application.plan.is_empty();
    match (application.has_refused(), unchanged && unchanged_exit_77) {
        (true, _) => Code::Declaration.exit_status(),
        (false, true) => Code::Unchanged.exit_status(),
        (false, false) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DeclaredObject, ObjectState, Plan};

    #[test]
    fn what_must_be_mended_comes_before_77() {
        let application = |changed, state| Application {
            api_version: String::new(),
            kind: String::new(),
            changed,
            generation: 1,
            objects: vec![DeclaredObject { file: "/x.toml".into(), owner: None, state, packages: vec![], error: None }],
            plan: Plan::default(),
            manifest: None,
        };
        assert_eq!(exit_status(&application(false, ObjectState::Applied), true), 77);
        assert_eq!(exit_status(&application(false, ObjectState::Expired), false), 0);
        assert_eq!(exit_status(&application(true, ObjectState::Applied), true), 0);
        assert_eq!(exit_status(&application(false, ObjectState::Refused), true), 90);
        assert_eq!(exit_status(&application(true, ObjectState::Refused), false), 90);
    }
}
