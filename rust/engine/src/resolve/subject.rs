//! One word of the user → the packages that it means, and near names when it means none.

use super::session::Session;
use anyhow::Result;
use bridge::solv::{Match, Package};
use model::{Code, Failure};
use std::collections::BTreeSet;

/// What a word means.
#[derive(Debug)]
pub(super) enum Meaning {
    /// These packages, installed or not; `glob` asks for each name among them.
    Packages {
        /// Never empty.
        packages: Vec<Package>,
        /// The word has wildcards and matched names.
        glob: bool,
    },
    /// Nothing so far, but it may be a file that only the file lists know.
    NeedsFilelists,
}

fn has_wildcards(word: &str) -> bool {
    word.contains(['*', '?', '['])
}

/// The same file under the names that a merged `/usr` gives it.
fn spellings(path: &str) -> Vec<String> {
    let mut out = vec![path.to_owned()];
    for top in ["/bin/", "/sbin/", "/lib/", "/lib64/"] {
        if path.starts_with(top) {
            out.push(format!("/usr{path}"));
        } else if let Some(rest) = path.strip_prefix("/usr").filter(|p| p.starts_with(top)) {
            out.push(rest.to_owned());
        }
    }
    for (a, b) in [("/usr/sbin/", "/usr/bin/"), ("/usr/bin/", "/usr/sbin/")] {
        let other = out.iter().find_map(|p| p.strip_prefix(a)).map(|rest| format!("{b}{rest}"));
        out.extend(other.filter(|o| !out.contains(o)));
    }
    out
}

/// Finds the packages that a word means.
///
/// # Errors
/// [`Code::NotFound`] with near names; [`Code::Refused`] when only packages for other machines match.
pub(super) fn find(session: &Session<'_>, word: &str) -> Result<Meaning> {
    let pool = &session.pool;
    let glob = has_wildcards(word) && !word.contains('(');
    if word.starts_with('/') || (glob && word.starts_with('*') && word.contains('/')) {
        let mut packages = BTreeSet::new();
        for path in spellings(word) {
            packages.extend(pool.select(&path, Match { glob, files: true, ..Match::default() })?.0);
            packages.extend(pool.select(&path, Match { provides: true, ..Match::default() })?.0);
            if !packages.is_empty() {
                return Ok(Meaning::Packages { packages: packages.into_iter().collect(), glob: false });
            }
        }
        if !session.filelists {
            return Ok(Meaning::NeedsFilelists);
        }
        let message = format!("no package provides the file {word}");
        return Err(Failure::new(Code::NotFound, message).into());
    }
    let (packages, by_name) = pool.select(word, Match { glob, provides: true, ..Match::default() })?;
    if !packages.is_empty() {
        return Ok(Meaning::Packages { packages, glob: glob && by_name });
    }
    let (foreign, _) = pool.select(word, Match { glob, any_arch: true, ..Match::default() })?;
    if let Some(&p) = foreign.first() {
        return Err(cannot_run(session, p).into());
    }
    let failure = Failure::new(Code::NotFound, format!("no package matches \"{word}\""));
    let hidden = session.excluded.iter().any(|name| name == word);
    if hidden {
        let hint = "packages of that name are left out by excludepkgs or includepkgs";
        return Err(failure.hint(hint).into());
    }
    let near = near(word, &session.names());
    Err(if near.is_empty() { failure } else { failure.hint(format!("near names: {}", near.join(", "))) }.into())
}

/// The refusal of a package for another machine.
pub(super) fn cannot_run(session: &Session<'_>, p: Package) -> Failure {
    let nevra = session.pool.nevra(p);
    Failure::new(Code::Refused, format!("{nevra} is for {}, and this host is {}", nevra.arch, session.arch))
}

/// Up to three names at a small edit distance, nearest first.
pub(crate) fn near(word: &str, names: &BTreeSet<String>) -> Vec<String> {
    let limit = (word.chars().count() / 3).clamp(1, 3);
    let mut found: Vec<(usize, &String)> = names
        .iter()
        .filter(|n| n.len().abs_diff(word.len()) <= limit)
        .map(|n| (distance(word, n), n))
        .filter(|(d, _)| *d <= limit)
        .collect();
    found.sort();
    found.into_iter().take(3).map(|(_, n)| n.clone()).collect()
}

/// Insertions, deletions, replacements and swaps of neighbours that make one text from another.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("strace", "strace", 0),
            ("strcae", "strace", 1),
            ("stace", "strace", 1),
            ("a", "", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn near_names_are_few_and_near() {
        let names = ["strace", "ltrace", "trace-cmd", "bash", "strase"].map(str::to_owned).into();
        assert_eq!(near("strcae", &names), ["strace", "ltrace", "strase"]);
        assert!(near("zzz", &names).is_empty());
    }

    #[test]
    fn a_merged_usr_has_several_spellings() {
        assert_eq!(spellings("/bin/x"), ["/bin/x", "/usr/bin/x", "/usr/sbin/x"]);
        assert!(spellings("/usr/sbin/x").contains(&"/usr/bin/x".to_owned()));
        assert_eq!(spellings("/opt/x"), ["/opt/x"]);
    }
}
