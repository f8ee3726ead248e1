//! The sysusers.d(5) snippets of a package. librpm reads them itself from 4.19 on; before, a package that only has such a
//! snippet would be unpacked with root as the owner of its files.

use super::header::PackageFile;
use anyhow::{Context as _, Result, ensure};
use std::io::Read as _;
use std::path::Path;

const DIRECTORY: &[u8] = b"/usr/lib/sysusers.d/";
/// No snippet is near this size.
const LONGEST: u64 = 64 * 1024;

/// Appends the snippets to `lines`. The package must be admitted: its payload is read without doubt.
pub(super) fn lines(file: &PackageFile, path: &Path, lines: &mut String) -> Result<()> {
    let is_snippet = |p: &[u8]| p.starts_with(DIRECTORY) && p.ends_with(b".conf");
    let mut left = file.files.iter().filter(|f| is_snippet(&f.path) && !f.ghost).count();
    if left == 0 {
        return Ok(());
    }
    let mut reader = rpm::PackageReader::open(path)?;
    while left > 0 {
        let Some(mut file) = reader.next_file()? else { break };
        if !is_snippet(file.metadata.path().as_os_str().as_encoded_bytes()) {
            file.finish()?;
            continue;
        }
        left -= 1;
        let mut text = String::new();
        (&mut file).take(LONGEST + 1).read_to_string(&mut text).context("a snippet is no text")?;
        ensure!(text.len() as u64 <= LONGEST, "a snippet is longer than {LONGEST} bytes");
        file.finish()?;
        lines.push_str(text.trim_end());
        lines.push('\n');
    }
    Ok(())
}
