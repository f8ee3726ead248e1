//! `verify`: which promises hold on this host now.

use crate::output::Output;
use crate::progress::Screen;
use crate::render;
use anyhow::Result;
use engine::transaction::Options;
use model::Code;

pub(super) fn run(typed: &str, output: &Output) -> Result<u8> {
    engine::host::require_root()?;
    let screen = Screen::start(output.json())?;
    let options = Options { wait: true, command: typed.into(), ..Options::default() };
    let verification = engine::verify::verify(&options, &screen)?;
    drop(screen);
    output.document(&verification, render::verification)?;
    Ok(if verification.holds { 0 } else { Code::NotAsPromised.exit_status() })
}
