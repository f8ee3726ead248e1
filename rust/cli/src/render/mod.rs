//! Text for people: pure functions from the contract's documents to lines of at most 80 columns (a single long word
//! excepted). Every name that came from a package or a file is escaped, so that it cannot move the cursor.

mod declarations;
mod diff;
mod effects;
mod history;
mod outcome;
mod status;
mod verification;

pub use declarations::application;
pub use diff::diff;
pub use history::history;
pub use outcome::{Ending, outcome};
pub use status::{section, status};
pub use verification::{cleanup, verification};

/// Columns of a line.
const WIDTH: usize = 80;

/// Makes control characters and bidirectional marks visible. Backslashes stay: the engine has escaped file names already,
/// and a name that is shown escaped twice is no name.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if c.is_control() || invisible(c) => out.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

/// Characters that reorder or hide what stands beside them.
fn invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Bytes in decimal units, as GLib and rpm-ostree show them.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return if bytes == 1 { "1 byte".into() } else { format!("{bytes} bytes") };
    }
    // Tenths, so that no float is needed: 999,950 and more already round to the next unit.
    let mut unit = 0;
    let mut divisor: u128 = 1000;
    let tenths = |d: u128| (u128::from(bytes) * 10 + d / 2) / d;
    while tenths(divisor) >= 10_000 && unit + 1 < UNITS.len() {
        divisor *= 1000;
        unit += 1;
    }
    let t = tenths(divisor);
    format!("{}.{} {}", t / 10, t % 10, UNITS[unit])
}

/// A time as `2026-11-30 17:03:16 UTC`; the offset of the machine is not asked, as a history is read elsewhere too.
pub fn time(seconds: u64) -> String {
    let (mut days, rest) = (seconds / 86_400, seconds % 86_400);
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    // Whole eras first, so that a damaged number does not make this slow.
    let mut year = 1970 + days / 146_097 * 400;
    days %= 146_097;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{:02} {hour:02}:{minute:02}:{second:02} UTC", days + 1)
}

/// How long ago, in one unit.
pub fn ago(then: u64, now: u64) -> String {
    match now.saturating_sub(then) {
        s if s < 60 => "just now".into(),
        s if s < 3600 => format!("{} min ago", s / 60),
        s if s < 2 * 86_400 => format!("{} h ago", s / 3600),
        s => format!("{} days ago", s / 86_400),
    }
}

/// `1 package`, `2 packages`.
pub fn count(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Rows of `key: value` with the keys right-aligned; values are wrapped at spaces and hang under each other.
pub(crate) fn fields(rows: &[(&str, String)]) -> String {
    let key_width = rows.iter().map(|(k, _)| k.chars().count()).max().unwrap_or(0) + 2;
    let mut out = String::new();
    for (key, value) in rows {
        for (i, line) in wrap(value, WIDTH.saturating_sub(key_width + 2)).iter().enumerate() {
            let label = if i == 0 { format!("{key}:") } else { String::new() };
            out.push_str(&format!("{label:>key_width$} {line}\n"));
        }
    }
    out
}

/// Splits at spaces into lines of at most `width` columns; a longer word has a line of its own. Newlines stay.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![];
    for part in text.split('\n') {
        let mut line = String::new();
        for word in part.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::take(&mut line));
            } else if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}

/// A name and what is to be said of it, in two columns where they fit and on two lines where not.
pub(crate) fn row(indent: &str, name: &str, name_width: usize, rest: &str) -> String {
    let padded = format!("{indent}{name:<name_width$}  {rest}");
    let short = format!("{indent}{name}  {rest}");
    let width = |s: &str| s.trim_end().chars().count();
    let line = match (width(&padded), width(&short)) {
        (w, _) if w <= WIDTH => padded,
        (_, w) if w <= WIDTH => short,
        _ => format!("{indent}{name}\n{indent}    {rest}"),
    };
    line.trim_end().to_owned() + "\n"
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use model::{LayeredPackage, Nevra, Reason, Signature};

    /// A layered package for the snapshots.
    pub fn package(nevra: &str, reason: Reason) -> LayeredPackage {
        let nevra: Nevra = nevra.parse().unwrap();
        let signature = Signature::Good { key: Some("a1b2c3d4".into()) };
        LayeredPackage {
            nevra,
            reason,
            repository: "updates".into(),
            signature,
            installed_bytes: 1_234_567,
            checksum: None,
        }
    }

    #[test]
    fn sizes() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (999, "999 bytes"),
            (1000, "1.0 kB"),
            (1949, "1.9 kB"),
            (999_949, "999.9 kB"),
            (999_950, "1.0 MB"),
            (289_000_000, "289.0 MB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(size(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn times() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_767_225_599, "2025-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
            (13_569_465_600, "2400-01-01 00:00:00 UTC"),
        ] {
            assert_eq!(time(seconds), text);
        }
        assert!(time(u64::MAX).ends_with("UTC"));
        assert_eq!(ago(100, 90), "just now");
        assert_eq!(ago(0, 3599), "59 min ago");
        assert_eq!(ago(0, 7200), "2 h ago");
        assert_eq!(ago(0, 300_000), "3 days ago");
    }

    #[test]
    fn names_cannot_move_the_cursor() {
        assert_eq!(escape("a\x1b[2J\nb\u{202e}c\u{85}é\\"), "a\\x1b[2J\\nb\\u{202e}c\\u{85}é\\");
    }

    #[test]
    fn text_is_wrapped() {
        assert_eq!(wrap("aa bb ccccccc d", 5), ["aa bb", "ccccccc", "d"]);
        assert_eq!(row("  ", "short", 8, "x"), "  short     x\n");
        let long = "n".repeat(76);
        assert_eq!(row("  ", &long, 8, "xxxx"), format!("  {long}\n      xxxx\n"));
    }
}
