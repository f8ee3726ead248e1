//! What came up in the sandbox's `/etc` and `/var`, sorted: new accounts, which the layer carries as such; new content,
//! which goes into trees beside the layer for `settle` to show on the host; and what the host does not get, because it
//! has its own. Nothing is written to the host from here.

use super::{Account, account_files};
use crate::generation::RUN_DIR;
use crate::names::document_path;
use crate::tree::{Entry, Tree, kind_name};
use anyhow::{Context as _, Result};
use fn_error_context::context;
use model::{Cause, SkippedPath};
use rustix::fs::FileType;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// What librpm, the account tools and other caches leave behind in every transaction, relative to `/`.
const NOISE: [&str; 21] = [
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
    "etc/.updated",
    "var/.updated",
    "etc/mtab",
    "var/log/lastlog",
    "var/log/faillog",
    "var/log/tallylog",
    "var/cache/ldconfig",
    "var/lib/rpm",
    "var/tmp",
    "var/opt",
];

/// `/usr/local`, where it is a link into `/var`. Scriptlets may write there; packages are refused before.
const USR_LOCAL: &str = "var/usrlocal";

/// Where things are, and who brought what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sources<'a> {
    /// The host's `/`.
    pub(super) root: &'a Path,
    /// The pristine `/usr`, whose `etc` has the base's defaults.
    pub(super) base: &'a Path,
    /// Paths relative to `/` that packages of this run own, and whose they are.
    pub(super) owned: &'a BTreeMap<PathBuf, String>,
    /// Scriptlets' paths, absolute.
    pub(super) causes: &'a BTreeMap<PathBuf, Cause>,
    /// Mount points of ours in `/var`, absolute.
    pub(super) mounts: &'a BTreeSet<PathBuf>,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) accounts: Vec<Account>,
    pub(super) skipped: Vec<SkippedPath>,
    /// Links that enable units or give them names, relative to `/`, with what they hold.
    pub(super) enablements: Vec<(PathBuf, PathBuf)>,
    /// The regenerated linker cache is in the upper directory.
    pub(super) linker_cache: bool,
}

/// Moves new content of the upper directories into `to_etc` and `to_var`, which hold that of the previous generation.
#[context("Reading what came up in /etc and /var")]
pub(super) fn read(etc: &Path, var: &Path, to_etc: &Tree, to_var: &Tree, sources: Sources<'_>) -> Result<Found> {
    let mut walk = Walk { sources, found: Found::default() };
    let root = Tree::open(sources.root)?;
    for (upper, to, top) in [(etc, to_etc, c"etc"), (var, to_var, c"var")] {
        let top = top.to_owned();
        let host = root.enter_if_dir(&top)?;
        let mut tree = Tree::open(upper)?;
        tree.path = Path::new(top.to_str()?).to_path_buf();
        walk.apply(&tree, host.as_ref(), to)?;
    }
    Ok(walk.found)
}

/// True for a symlink of ours.
pub(crate) fn is_our_link(dir: &Tree, entry: &Entry) -> Result<bool> {
    Ok(entry.kind() == FileType::Symlink
        && Path::new(OsStr::from_bytes(dir.readlink(&entry.name)?.as_bytes())).starts_with(RUN_DIR))
}

struct Walk<'a> {
    sources: Sources<'a>,
    found: Found,
}

impl Walk<'_> {
    fn skip(&mut self, path: &Path, reason: impl Into<String>) {
        let shown = Path::new("/").join(document_path(path));
        let owner = || self.sources.owned.get(path).map(|p| Cause { package: Some(p.clone()), slot: None });
        let cause = self.sources.causes.get(&shown).cloned().or_else(owner).unwrap_or_default();
        self.found.skipped.push(SkippedPath { path: shown, reason: reason.into(), cause });
    }

    /// One directory. `host` is the host's real directory at this path; none when everything here is new.
    fn apply(&mut self, upper: &Tree, host: Option<&Tree>, to: &Tree) -> Result<()> {
        for entry in upper.list()? {
            let name = &entry.name;
            let path = upper.join(name);
            if NOISE.iter().any(|n| path == Path::new(n)) {
                continue;
            }
            let on_host = self.on_host(host, name, &path)?;
            match entry.kind() {
                _ if entry.is_whiteout() => {
                    to.remove_all(name)?;
                    if on_host.is_some() {
                        self.skip(&path, "was removed in the sandbox; the host keeps it");
                    }
                }
                kind if path.starts_with(USR_LOCAL)
                    && !(kind == FileType::Directory && on_host.as_ref().is_some_and(Entry::is_dir)) =>
                {
                    self.skip(&path, "is below /usr/local, which is the administrator's");
                }
                FileType::Directory => self.directory(upper, host, to, name, on_host.as_ref())?,
                FileType::RegularFile if path == Path::new("etc/passwd") || path == Path::new("etc/group") => {
                    self.account_file(upper, host, name, &path)?;
                }
                FileType::RegularFile if path == Path::new("etc/ld.so.cache") => self.found.linker_cache = true,
                FileType::Symlink if is_enablement(&path) => {
                    if let (Some(host), Some(_)) = (host, &on_host) {
                        if !upper.same(name, host)? {
                            self.skip(&path, "exists on the host, which keeps its own");
                        }
                        continue;
                    }
                    let target = upper.readlink(name)?;
                    self.found.enablements.push((path, OsStr::from_bytes(target.as_bytes()).into()));
                }
                FileType::RegularFile | FileType::Symlink => match (host, on_host) {
                    (Some(host), Some(_)) => self.existing(upper, host, to, name, &path)?,
                    _ => self.new_file(upper, host, to, name, &path)?,
                },
                kind => self.skip(&path, format!("is a {}", kind_name(kind))),
            }
        }
        Ok(())
    }

    /// What the host itself has; nothing of ours counts.
    fn on_host(&self, host: Option<&Tree>, name: &CString, path: &Path) -> Result<Option<Entry>> {
        let Some(host) = host else { return Ok(None) };
        let Some(entry) = host.entry(name)? else { return Ok(None) };
        let ours = self.sources.mounts.contains(&Path::new("/").join(path)) || is_our_link(host, &entry)?;
        Ok((!ours).then_some(entry))
    }

    fn directory(
        &mut self,
        upper: &Tree,
        host: Option<&Tree>,
        to: &Tree,
        name: &CString,
        on_host: Option<&Entry>,
    ) -> Result<()> {
        let from = upper.enter(name)?;
        let path = from.path.clone();
        let (host, kept) = match (host, on_host) {
            (Some(h), Some(e)) if e.is_dir() => {
                let host = h.enter(name)?;
                let kept = self.base_directory(&path)?.unwrap_or(host.attributes(None)?);
                (Some(host), Some(kept))
            }
            (Some(_), Some(_)) => {
                self.skip(&path, "is no directory on the host, which keeps its own");
                return Ok(());
            }
            _ => (None, None),
        };
        let opaque = from.overlay_mark(None, "opaque")?.is_some_and(|v| v == b"y");
        if opaque && let Some(host) = &host {
            // Removed and made again: what the host has in it has no whiteouts.
            for entry in host.list()? {
                let below = from.join(&entry.name);
                if from.entry(&entry.name)?.is_none() && self.on_host(Some(host), &entry.name, &below)?.is_some() {
                    self.skip(&below, "was removed in the sandbox; the host keeps it");
                }
            }
        }
        if opaque || to.entry(name)?.is_some_and(|e| !e.is_dir()) {
            to.remove_all(name)?;
        }
        let had_entries = !from.list()?.is_empty();
        let wanted = from.attributes(None)?;
        let into = match to.entry(name)? {
            Some(_) => to.enter(name)?,
            None => to.make_dir(name)?,
        };
        self.apply(&from, host.as_ref(), &into)?;
        into.set_attributes(None, kept.as_ref().unwrap_or(&wanted))?;
        // A directory of the host, or one of which everything has gone elsewhere, is not to be shown.
        if host.is_some() || had_entries {
            to.remove_if_empty(name)?;
        }
        Ok(())
    }

    /// The base's default for a directory of `/etc`; the layer's must look the same.
    fn base_directory(&self, path: &Path) -> Result<Option<crate::tree::Attributes>> {
        if !path.starts_with("etc") || !self.sources.base.join(path).is_dir() {
            return Ok(None);
        }
        Tree::open(&self.sources.base.join(path))?.attributes(None).map(Some)
    }

    /// A path that the host has for itself: it keeps that. A package's own file is kept as the default.
    fn existing(&mut self, upper: &Tree, host: &Tree, to: &Tree, name: &CString, path: &Path) -> Result<()> {
        if upper.same(name, host)? {
            return Ok(());
        }
        if path.starts_with("etc") && self.sources.owned.contains_key(path) {
            self.skip(
                path,
                format!(
                    "exists on the host, which keeps its own; the package's default is in /usr/{}",
                    document_path(path).display()
                ),
            );
            return put(upper, to, name, name);
        }
        self.skip(path, "exists on the host, which keeps its own");
        Ok(())
    }

    fn new_file(&mut self, upper: &Tree, host: Option<&Tree>, to: &Tree, name: &CString, path: &Path) -> Result<()> {
        // librpm's own names for the loser of a configuration file. Where the host's file stays, the package's is the
        // default; a copy of the host's file is of no use.
        let bytes = name.as_bytes();
        let of = |suffix: &[u8]| bytes.strip_suffix(suffix).and_then(|n| CString::new(n).ok());
        // An edit of one of our copies is kept on disk when the copy goes; here it would go with the layer.
        if path.starts_with("etc")
            && (of(b".rpmsave").is_some() || of(b".rpmorig").is_some())
            && !self.sources.owned.contains_key(path)
        {
            return Ok(());
        }
        if let Some(host) = host {
            if let Some(config) = of(b".rpmnew")
                && let config_path = upper.join(&config)
                && self.on_host(Some(host), &config, &config_path)?.is_some()
            {
                self.skip(
                    &config_path,
                    format!(
                        "exists on the host, which keeps its own; the package's default is in /usr/{}",
                        document_path(&config_path).display()
                    ),
                );
                return put(upper, to, name, &config);
            }
            if let Some(config) = of(b".rpmsave").or_else(|| of(b".rpmorig"))
                && self.on_host(Some(host), &config, &upper.join(&config))?.is_some()
            {
                return Ok(());
            }
        }
        if path.to_str().is_none() {
            self.skip(path, "has a name that is not UTF-8");
            return Ok(());
        }
        put(upper, to, name, name)
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
        let difference = account_files::compare(&old, &read(upper)?, !is_user);
        let make = if is_user { Account::User } else { Account::Group };
        self.found.accounts.extend(difference.new.into_iter().map(make));
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

/// A link that `systemctl enable` makes: below `.wants` or `.requires`, or an alias beside the units.
fn is_enablement(path: &Path) -> bool {
    let Ok(below) = path.strip_prefix("etc/systemd/system") else { return false };
    let Some(parent) = below.parent() else { return false };
    let parent = parent.as_os_str().as_bytes();
    parent.is_empty() || parent.ends_with(b".wants") || parent.ends_with(b".requires")
}

/// Moves a file from one tree to the other, under another name when asked.
fn put(upper: &Tree, to: &Tree, name: &CString, new_name: &CString) -> Result<()> {
    upper.strip_marks(name)?;
    to.remove_all(new_name)?;
    upper.rename_as(name, to, new_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Directories `root`, `base`, `upper-etc`, … below one temporary directory, and what came of them.
    struct Rig(tempfile::TempDir);

    impl Rig {
        fn new(files: &[(&str, &str)]) -> Rig {
            let rig = Rig(tempfile::tempdir().unwrap());
            for dir in ["root/etc", "root/var", "base", "upper/etc", "upper/var", "to/etc", "to/var"] {
                std::fs::create_dir_all(rig.path(dir)).unwrap();
            }
            for (path, text) in files {
                std::fs::create_dir_all(rig.path(path).parent().unwrap()).unwrap();
                std::fs::write(rig.path(path), text).unwrap();
            }
            rig
        }
        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }
        fn read(&self, owned: &[&str]) -> Found {
            let owned = owned.iter().map(|p| (PathBuf::from(p), "p-1-1.noarch".to_owned())).collect();
            let (root, base) = (self.path("root"), self.path("base"));
            let sources = Sources {
                root: &root,
                base: &base,
                owned: &owned,
                causes: &BTreeMap::new(),
                mounts: &BTreeSet::from(["/var/lib/ours".into()]),
            };
            let (etc, var) = (Tree::open(&self.path("to/etc")).unwrap(), Tree::open(&self.path("to/var")).unwrap());
            read(&self.path("upper/etc"), &self.path("upper/var"), &etc, &var, sources).unwrap()
        }
        fn to(&self) -> Vec<String> {
            fn walk(dir: &Path, top: &Path, all: &mut Vec<String>) {
                for e in std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()) {
                    all.push(e.strip_prefix(top).unwrap().display().to_string());
                    if e.is_dir() && !e.is_symlink() {
                        walk(&e, top, all);
                    }
                }
            }
            let mut all = vec![];
            walk(&self.path("to"), &self.path("to"), &mut all);
            all.sort();
            all
        }
    }

    #[test]
    fn new_content_comes_along_and_the_host_keeps_its_own() {
        let rig = Rig::new(&[
            ("root/etc/passwd", "root:x:0:0::/:/bin/sh\n"),
            ("root/etc/same", "s"),
            ("root/etc/mine", "host"),
            ("root/etc/conf.d/old", "host"),
            ("root/etc/kept.conf", "host"),
            ("root/var/lib/ours/x", ""),
            ("upper/etc/passwd", "root:x:0:0::/:/bin/sh\ngreeter:x:997:996::/:/sbin/nologin\n"),
            ("upper/etc/passwd-", ""),
            ("upper/etc/same", "s"),
            ("upper/etc/mine", "package"),
            ("upper/etc/conf.d/new", "n"),
            ("upper/etc/raddb/radiusd.conf", "r"),
            ("upper/etc/kept.conf", "package"),
            ("upper/etc/kept.conf.rpmorig", "host"),
            ("upper/etc/ld.so.cache", "c"),
            ("upper/var/lib/ours/y", "y"),
            ("upper/var/log/x.log", "l"),
            ("upper/var/tmp/x", ""),
            ("root/var/usrlocal/bin/mine", ""),
            ("upper/var/usrlocal/bin/x", ""),
            ("upper/var/usrlocal/lib/y", ""),
        ]);
        symlink("/usr/lib/systemd/system/x.service", rig.path("upper/etc/link")).unwrap();
        std::fs::create_dir_all(rig.path("upper/etc/systemd/system/multi-user.target.wants")).unwrap();
        symlink(
            "/usr/lib/systemd/system/x.service",
            rig.path("upper/etc/systemd/system/multi-user.target.wants/x.service"),
        )
        .unwrap();
        let found = rig.read(&["etc/kept.conf"]);
        assert_eq!(found.accounts, [Account::User("greeter:x:997:996::/:/sbin/nologin".into())]);
        assert!(found.linker_cache);
        assert_eq!(found.enablements.len(), 1);
        let skipped: Vec<_> =
            found.skipped.iter().map(|s| (s.path.to_str().unwrap(), s.cause.package.as_deref())).collect();
        assert_eq!(
            skipped,
            [
                ("/etc/kept.conf", Some("p-1-1.noarch")),
                ("/etc/mine", None),
                ("/var/usrlocal/bin/x", None),
                ("/var/usrlocal/lib", None)
            ]
        );
        assert_eq!(
            rig.to(),
            [
                "etc",
                "etc/conf.d",
                "etc/conf.d/new",
                "etc/kept.conf",
                "etc/link",
                "etc/raddb",
                "etc/raddb/radiusd.conf",
                "var",
                "var/lib",
                "var/lib/ours",
                "var/lib/ours/y",
                "var/log",
                "var/log/x.log"
            ]
        );
    }

    #[test]
    fn defaults_and_leftovers_of_configuration_files() {
        let rig = Rig::new(&[
            ("root/etc/a.conf", "host"),
            ("upper/etc/a.conf.rpmnew", "package"),
            ("upper/etc/b.conf", "b"),
            ("upper/etc/b.conf.rpmnew", "b2"),
            ("upper/etc/b.conf.rpmsave", "edited"),
            ("to/etc/b.conf", "b1"),
        ]);
        symlink("/run/rpm-ostree-transient/etc/b.conf", rig.path("root/etc/b.conf")).unwrap();
        let found = rig.read(&[]);
        assert_eq!(found.skipped.len(), 1);
        assert!(found.skipped[0].reason.contains("/usr/etc/a.conf"), "{:?}", found.skipped);
        assert_eq!(rig.to(), ["etc", "etc/a.conf", "etc/b.conf", "etc/b.conf.rpmnew", "var"]);
        assert_eq!(std::fs::read_to_string(rig.path("to/etc/b.conf")).unwrap(), "b");
        assert_eq!(std::fs::read_to_string(rig.path("to/etc/a.conf")).unwrap(), "package");
    }
}
