//! `clean-boot`: removes what an earlier boot left.

use crate::output::Output;
use crate::progress::Screen;
use crate::render;
use anyhow::Result;
use engine::transaction::Options;

pub(super) fn run(typed: &str, output: &Output) -> Result<u8> {
    engine::host::require_root()?;
    let screen = Screen::start(output.json())?;
    let options = Options { wait: true, command: typed.into(), ..Options::default() };
    let cleanup = engine::transaction::clean_boot(&options, &screen)?;
    drop(screen);
    output.document(&cleanup, render::cleanup)?;
    Ok(0)
}
