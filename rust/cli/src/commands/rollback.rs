//! `rollback`: returns to the generation before the last change.

use super::finish;
use crate::args::ReturnArgs;
use crate::output::Output;
use crate::progress::Screen;
use crate::render::Ending;
use crate::settings::run_options;
use anyhow::Result;

pub(super) fn run(args: &ReturnArgs, typed: &str, output: &Output) -> Result<u8> {
    engine::host::require_root()?;
    let screen = Screen::start(output.json())?;
    let outcome = engine::transaction::rollback(&run_options(&args.run, typed), &screen)?;
    drop(screen);
    finish(&outcome, &args.run, if args.run.dry_run { Ending::DryRun } else { Ending::Run }, output)
}
