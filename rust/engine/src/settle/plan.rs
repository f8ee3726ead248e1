//! From the content of a generation to its effects: facts in, plan out. What the host has for itself is walked around.

use super::live;
use super::units::Units;
use crate::generation::Content;
use crate::harvest::is_our_link;
use crate::host::Host;
use crate::names::printable_path;
use crate::tree::{Entry, Tree};
use anyhow::Result;
use fn_error_context::context;
use model::{AttributedEffect, Cause, Code, Effect, Failure};
use rustix::fs::FileType;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// What the plan is made from.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The host.
    pub host: &'a Host,
    /// The host's `/`.
    pub root: &'a Path,
    /// The new generation's content.
    pub content: &'a Content,
    /// The layer of the generation before.
    pub previous_layer: Option<&'a Path>,
    /// Effects of the generation before, for what is the same and for what no content tells.
    pub previous: &'a [AttributedEffect],
    /// Paths relative to `/` that packages of this run own, and whose they are.
    pub owned: &'a BTreeMap<PathBuf, String>,
    /// Absolute paths, and the scriptlets that made them.
    pub causes: &'a BTreeMap<PathBuf, Cause>,
    /// Directories that came up in `/run`.
    pub run: &'a [Effect],
    /// Units to enable and to start.
    pub units: &'a Units,
    /// Number of the new generation.
    pub generation: u64,
}

/// The effects, in the order in which they are carried out.
///
/// # Errors
/// [`Code::Refused`] when `/opt` has a directory of that name; from the filesystem.
#[context("Planning the changes outside /usr")]
pub fn effects(facts: &Facts<'_>) -> Result<Vec<AttributedEffect>> {
    let mut plan = Plan { facts, paths: vec![] };
    let root = Tree::open(facts.root)?;
    let etc = facts.content.layer.join("etc");
    let mounts = ours(facts.previous);
    for (tree, top) in [(etc.as_path(), "etc"), (&facts.content.var, "var")] {
        if tree.is_dir() {
            let name = std::ffi::CString::new(top)?;
            let host = root.enter_if_dir(&name)?;
            plan.walk(&Tree::open(tree)?, host.as_ref(), Path::new(top), &mounts)?;
        }
    }
    plan.opt()?;
    let mut run: Vec<Effect> = facts.run.to_vec();
    run.extend(facts.previous.iter().map(|e| &e.effect).filter(|e| matches!(e, Effect::RunDirectory { .. })).cloned());
    run.sort();
    run.dedup_by(|a, b| a.path() == b.path());
    for effect in run {
        let known = facts.previous.iter().any(|e| e.effect.path() == effect.path());
        if known || !effect.path().is_some_and(Path::exists) {
            plan.add(effect);
        }
    }
    if facts.content.linker_cache.exists() {
        let source = live::linker_cache(facts.generation);
        let path = PathBuf::from("/etc/ld.so.cache");
        // A cache that is there may be the mount of the generation before.
        let before = facts.previous.iter().find_map(|e| match &e.effect {
            Effect::Mount { path: p, made, .. } if *p == path => Some(*made),
            _ => None,
        });
        let made = before.unwrap_or(!facts.root.join("etc/ld.so.cache").exists());
        plan.add(Effect::Mount { path, source, made });
    }
    let mut all = vec![AttributedEffect::from(Effect::MarkUnlocked { path: marker(facts.host) })];
    if plan.paths.iter().any(|e| super::cleaner::is_persistent(&e.effect)) {
        all.push(Effect::Cleaner { path: super::cleaner::path() }.into());
    }
    all.append(&mut plan.paths);
    all.extend(facts.units.enabled.iter().cloned());
    all.extend(reloads(&facts.content.layer).into_iter().map(AttributedEffect::from));
    all.extend(facts.units.started.iter().cloned());
    Ok(all)
}

/// The mark by which ostree and others know that `/usr` is not the deployment's.
pub fn marker(host: &Host) -> PathBuf {
    format!("/run/ostree/deployment-state/{}.{}/unlocked-transient", host.deployment.checksum, host.deployment.serial)
        .into()
}

/// Services that must read their files again, by what the layer has.
pub fn reloads(layer: &Path) -> Vec<Effect> {
    let has = |dirs: &[&str]| dirs.iter().any(|d| layer.join(d).is_dir());
    let mut effects = Vec::new();
    if has(&["lib/systemd/system", "etc/systemd/system"]) {
        effects.push(Effect::ReloadUnits);
    }
    if has(&["lib/udev/rules.d", "etc/udev/rules.d", "lib/udev/hwdb.d"]) {
        effects.push(Effect::ReloadUdev);
    }
    if has(&["share/dbus-1/system.d", "share/dbus-1/system-services", "etc/dbus-1/system.d"]) {
        effects.push(Effect::ReloadBus);
    }
    effects
}

struct Plan<'a> {
    facts: &'a Facts<'a>,
    paths: Vec<AttributedEffect>,
}

impl Plan<'_> {
    fn add(&mut self, effect: Effect) {
        let cause = effect.path().map(|p| self.cause(p)).unwrap_or_default();
        self.paths.push(AttributedEffect { effect, cause });
    }

    /// Whose a path is: the scriptlet's that made it, else the package's that owns it or something below it, else as it
    /// was in the generation before.
    fn cause(&self, path: &Path) -> Cause {
        if let Some(cause) = self.facts.causes.get(path) {
            return cause.clone();
        }
        let below = path.strip_prefix("/").unwrap_or(path);
        let owner = self.facts.owned.range(below.to_path_buf()..).next().filter(|(p, _)| p.starts_with(below));
        if let Some((_, package)) = owner {
            return Cause { package: Some(package.clone()), slot: None };
        }
        let before = self.facts.previous.iter().find(|e| e.effect.path() == Some(path));
        before.map(|e| e.cause.clone()).unwrap_or_default()
    }

    /// Walks the content of one top-level directory beside the host's.
    fn walk(&mut self, content: &Tree, host: Option<&Tree>, path: &Path, mounts: &BTreeSet<PathBuf>) -> Result<()> {
        for entry in content.list()? {
            let name = OsStr::from_bytes(entry.name.as_bytes());
            let path = path.join(name);
            let on_host: Option<Entry> = match host {
                Some(h) => h.entry(&entry.name)?,
                None => None,
            };
            let absolute = Path::new("/").join(&path);
            let ours = match (host, &on_host) {
                (Some(h), Some(e)) => mounts.contains(&absolute) || is_our_link(h, e)?,
                _ => true,
            };
            if ours {
                let removed = host.is_some() && on_host.is_none() && self.removed(&path);
                if path.to_str().is_some() && !removed {
                    self.show(&path, absolute, content, &entry)?;
                }
            } else if entry.is_dir() && on_host.as_ref().is_some_and(Entry::is_dir) {
                let below = match host {
                    Some(h) => Some(h.enter(&entry.name)?),
                    None => None,
                };
                self.walk(&content.enter(&entry.name)?, below.as_ref(), &path, mounts)?;
            }
        }
        Ok(())
    }

    /// True for what the generation before showed in `/etc` and the administrator has removed: it stays so.
    fn removed(&self, path: &Path) -> bool {
        let (Ok(below), Some(layer)) = (path.strip_prefix("etc"), self.facts.previous_layer) else { return false };
        let is = |path: PathBuf| std::fs::symlink_metadata(path).is_ok();
        is(layer.join("etc").join(below)) && !is(live::etc().join(below))
    }

    /// One path that the host has not: everything below it comes along.
    fn show(&mut self, path: &Path, absolute: PathBuf, content: &Tree, entry: &Entry) -> Result<()> {
        let (below, source, by_mount) = if let Ok(below) = path.strip_prefix("etc") {
            let by_mount =
                needs_mount(below, entry.kind()) || entry.is_dir() && leads_out(&content.enter(&entry.name)?, 0)?;
            (below, live::etc(), by_mount)
        } else if let Ok(below) = path.strip_prefix("var") {
            (below, live::var(), entry.is_dir())
        } else {
            return Ok(());
        };
        let source = source.join(below);
        self.add(if by_mount {
            Effect::Mount { path: absolute, source, made: true }
        } else if let Some(target) = own_target(content, entry)? {
            Effect::Link { path: absolute, target }
        } else {
            Effect::Link { path: absolute, target: source }
        });
        Ok(())
    }

    /// `/opt/NAME` for every directory that the layer has for it.
    fn opt(&mut self) -> Result<()> {
        let layer = self.facts.content.layer.join("lib/opt");
        let Ok(entries) = std::fs::read_dir(&layer) else { return Ok(()) };
        let mut names: Vec<_> = entries.map(|e| Ok(e?.file_name())).collect::<Result<_>>()?;
        names.sort();
        for name in names {
            let (path, target) = (Path::new("/opt").join(&name), Path::new("/usr/lib/opt").join(&name));
            // Where the base has that directory in /usr too, whatever is in /opt is older than the layer.
            let there = self.facts.root.join("opt").join(&name);
            match std::fs::symlink_metadata(&there) {
                Ok(m) if !(m.is_symlink() && std::fs::read_link(&there)? == target) => {
                    let shown = printable_path(&path);
                    let failure = Failure::new(
                        Code::Refused,
                        format!("the packages bring {shown}, and the host has one of its own, which would hide theirs"),
                    );
                    return Err(failure.hint(format!("move {shown} away")).into());
                }
                _ => self.add(Effect::Link { path, target }),
            }
        }
        Ok(())
    }
}

/// Paths that the generation before has on the host and that cannot be told from the host's own by their look: mounts,
/// and links that lead where the package wants them to. One that was replaced since is not among them.
pub fn ours(previous: &[AttributedEffect]) -> BTreeSet<PathBuf> {
    let is_ours = |effect: &Effect| match effect {
        Effect::Mount { .. } => true,
        Effect::Link { path, target } => std::fs::read_link(path).is_ok_and(|t| t == *target),
        _ => false,
    };
    let effects = previous.iter().map(|e| &e.effect).filter(|e| is_ours(e));
    effects.filter_map(Effect::path).map(Path::to_path_buf).collect()
}

/// What a symlink of a package holds. It is made on the host as it is: through a live copy a relative one would lead
/// elsewhere, and update-alternatives takes one that holds something else for the administrator's choice.
fn own_target(content: &Tree, entry: &Entry) -> Result<Option<PathBuf>> {
    if entry.kind() != FileType::Symlink {
        return Ok(None);
    }
    let target = content.readlink(&entry.name)?;
    Ok(target.to_str().ok().map(PathBuf::from))
}

/// True for a directory with a relative symlink that leads out of it: seen through a link, it would lead out of our
/// directory in `/run` instead.
fn leads_out(dir: &Tree, depth: usize) -> Result<bool> {
    for entry in dir.list()? {
        if entry.is_dir() && leads_out(&dir.enter(&entry.name)?, depth + 1)? {
            return Ok(true);
        }
        if let Some(target) = own_target(dir, &entry)?
            && target.components().take_while(|c| *c == Component::ParentDir).count() > depth
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Places in `/etc` whose reader does not take a symlink; docs/outside-usr.md says how each was found.
fn needs_mount(below: &Path, kind: FileType) -> bool {
    match kind {
        // Seen from pods, where no link into /run leads anywhere.
        FileType::Directory => ["cni", "cni/net.d"].iter().any(|p| below == Path::new(p)),
        FileType::RegularFile => {
            below.starts_with("cni/net.d")
                // Opened with O_NOFOLLOW.
                || below.starts_with("audit")
                || below == Path::new("libaudit.conf")
                || is_unit(below)
        }
        _ => false,
    }
}

/// A unit file beside the administrator's own: systemd takes a link to elsewhere for one that `systemctl link` made, and
/// `systemctl disable` removes it.
fn is_unit(below: &Path) -> bool {
    const KINDS: [&str; 11] =
        ["service", "socket", "device", "mount", "automount", "swap", "target", "path", "timer", "slice", "scope"];
    let parent = below.parent();
    let kind = below.extension().and_then(OsStr::to_str);
    ["systemd/system", "systemd/user"].iter().any(|d| parent == Some(Path::new(d)))
        && kind.is_some_and(|k| KINDS.contains(&k))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_that_take_no_link_get_a_mount() {
        let file = FileType::RegularFile;
        for (path, kind, want) in [
            ("cni/net.d", FileType::Directory, true),
            ("cni/net.d/10-x.conf", file, true),
            ("cni/net.d/link", FileType::Symlink, false),
            ("audit/auditd.conf", file, true),
            ("audit", FileType::Directory, false),
            ("systemd/system/x.service", file, true),
            ("systemd/user/x.timer", file, true),
            ("systemd/system/x.service", FileType::Symlink, false),
            ("systemd/system/x.service.d", FileType::Directory, false),
            ("systemd/system/x.service.d/a.conf", file, false),
            ("systemd/system.conf", file, false),
            ("cron.d/x", file, false),
        ] {
            assert_eq!(needs_mount(Path::new(path), kind), want, "{path}");
        }
    }
}
