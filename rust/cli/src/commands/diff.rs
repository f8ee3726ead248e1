//! `diff`: packages and files against the base.

use crate::output::Output;
use crate::render;
use anyhow::Result;

pub(super) fn run(output: &Output) -> Result<u8> {
    output.document(&engine::transaction::diff()?, render::diff)?;
    Ok(0)
}
