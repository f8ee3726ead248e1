//! What came up in the sandbox's `/etc` and `/var`: new accounts, which the layer can carry, and paths that the host
//! does not get. Nothing is written through to the host from here.

use super::Account;
use crate::names::{document_path, printable};
use crate::tree::{Tree, kind_name};
use anyhow::{Context as _, Result};
use fn_error_context::context;
use model::SkippedPath;
use rustix::fs::FileType;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::path::Path;

/// What librpm and the account tools leave behind in every transaction, relative to `/`.
const NOISE: [&str; 12] = [
    "etc/passwd-",
    "etc/group-",
    "etc/shadow",
    "etc/gshadow",
    "etc/subuid",
    "etc/subgid",
    "etc/shadow-",
    "etc/gshadow-",
    "etc/subuid-",
    "etc/subgid-",
    "etc/.pwd.lock",
    "var/log",
];
const NOISE_BELOW: [&str; 3] = ["var/cache/ldconfig", "var/lib/rpm", "var/tmp"];

/// Accounts and skipped paths of the two upper directories, relative to the host whose root is `root`.
#[context("Reading what came up in /etc and /var")]
pub(super) fn read(etc: &Path, var: &Path, root: &Path) -> Result<(Vec<Account>, Vec<SkippedPath>)> {
    let mut found = Outside { root: Tree::open(root)?, accounts: vec![], skipped: vec![] };
    for (upper, top) in [(etc, c"etc"), (var, c"var")] {
        let top = top.to_owned();
        let host = found.root.enter_if_dir(&top)?;
        let mut tree = Tree::open(upper)?;
        tree.path = Path::new(top.to_str()?).to_path_buf();
        found.walk(&tree, host.as_ref())?;
    }
    Ok((found.accounts, found.skipped))
}

struct Outside {
    root: Tree,
    accounts: Vec<Account>,
    skipped: Vec<SkippedPath>,
}

fn is_noise(path: &Path) -> bool {
    NOISE.iter().any(|n| path == Path::new(n))
        || NOISE_BELOW.iter().any(|n| path.starts_with(n))
        || path.starts_with("var/log")
}

impl Outside {
    fn skip(&mut self, path: &Path, reason: impl Into<String>) {
        let path = Path::new("/").join(document_path(path));
        self.skipped.push(SkippedPath { path, reason: reason.into() });
    }

    /// Walks one upper directory; `host` is the host's directory at this path, when it has one.
    fn walk(&mut self, upper: &Tree, host: Option<&Tree>) -> Result<()> {
        for entry in upper.list()? {
            let name = &entry.name;
            let path = upper.join(name);
            if is_noise(&path) {
                continue;
            }
            let on_host = host.map_or(Ok(None), |h| h.entry(name))?;
            match entry.kind() {
                _ if entry.is_whiteout() => self.skip(&path, "was removed in the sandbox; the host keeps it"),
                FileType::Directory => {
                    let below = match host {
                        Some(h) => h.enter_if_dir(name)?,
                        None => None,
                    };
                    let before = self.skipped.len();
                    let dir = upper.enter(name)?;
                    self.walk(&dir, below.as_ref())?;
                    if below.is_none() && self.skipped.len() == before {
                        self.skip(&path, "new directories outside /usr are not supported yet");
                    }
                }
                _ if path == Path::new("etc/ld.so.cache") => {
                    self.skip(&path, "the live linker cache is not regenerated yet");
                }
                FileType::RegularFile if path == Path::new("etc/passwd") || path == Path::new("etc/group") => {
                    self.account_file(upper, host, name, &path)?;
                }
                FileType::RegularFile | FileType::Symlink => match (host, on_host) {
                    (Some(h), Some(_)) if upper.same(name, h)? => {}
                    (_, Some(_)) => self.skip(&path, "exists on the host, which keeps its own"),
                    _ => self.skip(&path, "new files outside /usr are not supported yet"),
                },
                kind => self.skip(&path, format!("is a {}", kind_name(kind))),
            }
        }
        Ok(())
    }

    fn account_file(&mut self, upper: &Tree, host: Option<&Tree>, name: &CString, path: &Path) -> Result<()> {
        let read = |tree: &Tree| -> Result<String> {
            std::io::read_to_string(tree.file(name)?).with_context(|| format!("Reading {}", path.display()))
        };
        let old = match host {
            Some(h) if h.entry(name)?.is_some() => read(h)?,
            _ => String::new(),
        };
        let is_user = path == Path::new("etc/passwd");
        let difference = compare(&old, &read(upper)?, !is_user);
        let make = if is_user { Account::User } else { Account::Group };
        self.accounts.extend(difference.new.into_iter().map(make));
        let what = if is_user { "user" } else { "group" };
        for name in difference.changed {
            self.skip(path, format!("{what} {name} was changed in the sandbox; the host keeps its own"));
        }
        for name in difference.gone {
            self.skip(path, format!("{what} {name} was removed in the sandbox; the host keeps it"));
        }
        Ok(())
    }
}

/// Lines of an account file against the host's.
#[derive(Debug, Default, PartialEq, Eq)]
struct Difference {
    /// Whole lines that the host has not.
    new: Vec<String>,
    /// Names whose line differs otherwise, escaped.
    changed: Vec<String>,
    /// Names that are no longer there, escaped.
    gone: Vec<String>,
}

/// `members`: a line that differs only by more members in its last field counts as new.
fn compare(old: &str, new: &str, members: bool) -> Difference {
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
    use std::os::unix::fs::symlink;

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

    #[test]
    fn lists_what_the_host_does_not_get_and_no_noise() {
        let tmp = tempfile::tempdir().unwrap();
        let (root, etc, var) = (tmp.path().join("root"), tmp.path().join("etc"), tmp.path().join("var"));
        for d in ["root/etc/old", "root/var", "etc/old", "etc/new/sub", "var/log", "var/lib/x", "var/tmp"] {
            std::fs::create_dir_all(tmp.path().join(d)).unwrap();
        }
        std::fs::write(root.join("etc/passwd"), "root:x:0:0::/:/bin/sh\n").unwrap();
        std::fs::write(root.join("etc/same"), "s").unwrap();
        std::fs::write(root.join("etc/mine"), "host").unwrap();
        for (name, text) in [
            ("passwd", "root:x:0:0::/:/bin/sh\ngreeter:x:997:996::/:/sbin/nologin\n"),
            ("passwd-", ""),
            ("shadow", ""),
            (".pwd.lock", ""),
            ("same", "s"),
            ("mine", "package"),
            ("ld.so.cache", ""),
            ("new/sub/file", ""),
            ("esc\x1b", ""),
        ] {
            std::fs::write(etc.join(name), text).unwrap();
        }
        symlink("/dev/null", etc.join("old/link")).unwrap();
        std::fs::write(var.join("log/x.log"), "").unwrap();
        let (accounts, skipped) = read(&etc, &var, &root).unwrap();
        assert_eq!(accounts, [Account::User("greeter:x:997:996::/:/sbin/nologin".into())]);
        let paths: Vec<&str> = skipped.iter().map(|s| s.path.to_str().unwrap()).collect();
        assert_eq!(
            paths,
            ["/etc/esc\\u{1b}", "/etc/ld.so.cache", "/etc/mine", "/etc/new/sub/file", "/etc/old/link", "/var/lib/x"]
        );
        assert_eq!(skipped[2].reason, "exists on the host, which keeps its own");
    }
}
