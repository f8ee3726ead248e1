//! File names are bytes: packages and scriptlets choose them, so they are printed escaped, never as they are.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The bytes as one line of plain text: what is not printable UTF-8 becomes `\n`, `\u{1b}` or `\xff`.
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\'' => text.push(c),
                _ => text.extend(c.escape_debug()),
            }
        }
        for b in chunk.invalid() {
            text.push_str(&format!("\\x{b:02x}"));
        }
    }
    text
}

/// [`printable`] of a path.
pub fn printable_path(path: &Path) -> String {
    printable(path.as_os_str().as_bytes())
}

/// An escaped path that fits into JSON documents, which hold no other bytes than UTF-8.
pub fn document_path(path: &Path) -> PathBuf {
    PathBuf::from(printable_path(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_what_a_terminal_would_obey() {
        for (raw, want) in [
            (&b"/usr/bin/a b'c\""[..], "/usr/bin/a b'c\""),
            (b"a\nb\x1b[31m", "a\\nb\\u{1b}[31m"),
            (b"\xff\xc3\xa9", "\\xffé"),
            ("x\u{202e}y".as_bytes(), "x\\u{202e}y"),
            (b"\\", "\\\\"),
        ] {
            assert_eq!(printable(raw), want);
        }
    }
}
