//! The account files of the sandbox against the host's: lines that the layer can carry, and what it cannot.

use crate::names::printable;
use std::collections::{BTreeMap, BTreeSet};

/// Lines of an account file against the host's.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// Whole lines that the host has not.
    pub(super) new: Vec<String>,
    /// Names whose line differs otherwise, escaped.
    pub(super) changed: Vec<String>,
    /// Names that are no longer there, escaped.
    pub(super) gone: Vec<String>,
}

/// `members`: a line that differs only by more members in its last field counts as new.
pub(super) fn compare(old: &str, new: &str, members: bool) -> Difference {
    let name = |line: &str| line.split(':').next().unwrap_or("").to_owned();
    let before: BTreeMap<String, &str> = old.lines().map(|l| (name(l), l)).collect();
    let after: BTreeSet<String> = new.lines().map(name).collect();
    let mut difference = Difference::default();
    for line in new.lines().filter(|l| !l.is_empty()) {
        let key = name(line);
        match before.get(&key) {
            None => difference.new.push(line.to_owned()),
            Some(same) if *same == line => {}
            Some(was) if members && only_gained_members(was, line) => difference.new.push(line.to_owned()),
            Some(_) => difference.changed.push(printable(key.as_bytes())),
        }
    }
    difference.gone = before.keys().filter(|k| !after.contains(*k)).map(|k| printable(k.as_bytes())).collect();
    difference
}

fn only_gained_members(was: &str, now: &str) -> bool {
    let (Some((head, old)), Some((new_head, new))) = (was.rsplit_once(':'), now.rsplit_once(':')) else {
        return false;
    };
    let new: BTreeSet<&str> = new.split(',').collect();
    head == new_head && old.split(',').all(|m| m.is_empty() || new.contains(m))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_lines_against_the_host() {
        let old = "root:x:0:\nwheel:x:10:ann\nold:x:5:\n";
        let new = "root:x:0:\nwheel:x:10:ann,bob\ngreeter:x:990:\nold:x:6:\n";
        assert_eq!(
            compare(old, new, true),
            Difference {
                new: vec!["wheel:x:10:ann,bob".into(), "greeter:x:990:".into()],
                changed: vec!["old".into()],
                gone: vec![],
            }
        );
        assert_eq!(compare("a:1\nb:1\n", "a:2\n", false).changed, ["a"]);
        assert_eq!(compare("a:1\nb:1\n", "a:2\n", false).gone, ["b"]);
        // Fewer members is a change, which the layer cannot express.
        assert_eq!(compare("w:x:1:a,b\n", "w:x:1:a\n", true).changed, ["w"]);
    }
}
