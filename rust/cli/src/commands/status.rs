//! `status`: what is layered. Needs no root.

use super::now;
use crate::args::StatusArgs;
use crate::output::Output;
use crate::render;
use anyhow::Result;

pub(super) fn run(args: &StatusArgs, output: &Output) -> Result<u8> {
    let status = engine::transaction::status()?;
    output.document(&status, |s| render::status(s, args.verbose, now()))?;
    Ok(0)
}

/// The section below rpm-ostree's own status; none when nothing is layered.
pub(crate) fn section() -> Result<Option<String>> {
    Ok(render::section(&engine::transaction::status()?, false, now()))
}
