//! `history`: the changes of this boot.

use crate::output::Output;
use crate::render;
use anyhow::Result;

pub(super) fn run(output: &Output) -> Result<u8> {
    output.document(&engine::transaction::history()?, render::history)?;
    Ok(0)
}
