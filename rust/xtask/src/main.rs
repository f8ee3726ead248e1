//! `cargo run -p xtask -- man DIR`, `… schemas DIR` and `… completions PREFIX`.

use anyhow::{Result, bail};
use std::path::Path;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["man", dir] => xtask::man::write(Path::new(dir)),
        ["schemas", dir] => xtask::schemas::write(Path::new(dir)),
        ["completions", prefix] => xtask::completions(Path::new(prefix)),
        _ => bail!("usage: xtask man DIR | xtask schemas DIR | xtask completions PREFIX"),
    }
}
