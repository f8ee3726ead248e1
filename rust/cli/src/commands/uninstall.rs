//! `uninstall PACKAGE…` and `uninstall --all`: removes layered packages.

use super::install;
use crate::args::UninstallArgs;
use crate::output::Output;
use crate::settings::Change;
use anyhow::Result;

pub(super) fn run(args: &UninstallArgs, typed: &str, output: &Output) -> Result<u8> {
    install::change(&Change::uninstall(args, &install::cwd()?, typed)?, &args.change, output)
}
