//! `install PACKAGE…`: layers packages over the running `/usr`.

use super::finish;
use crate::args::{ChangeArgs, InstallArgs};
use crate::output::Output;
use crate::progress::Screen;
use crate::render::Ending;
use crate::settings::Change;
use anyhow::{Context as _, Result};
use std::path::PathBuf;

pub(super) fn run(args: &InstallArgs, typed: &str, output: &Output) -> Result<u8> {
    change(&Change::install(args, &cwd()?, typed)?, &args.change, output)
}

/// Carries out a change; `uninstall` is the same with another request.
pub(super) fn change(change: &Change, args: &ChangeArgs, output: &Output) -> Result<u8> {
    engine::host::require_root()?;
    let screen = Screen::start(output.json())?;
    let outcome = engine::transaction::change(&change.request, &change.options, &screen)?;
    drop(screen);
    let ending = match (args.run.dry_run, args.download_only) {
        (true, _) => Ending::DryRun,
        (false, true) => Ending::DownloadOnly,
        (false, false) => Ending::Run,
    };
    finish(&outcome, &args.run, ending, output)
}

/// Where relative file names start.
pub(super) fn cwd() -> Result<PathBuf> {
    std::env::current_dir().context("Reading the current directory")
}
