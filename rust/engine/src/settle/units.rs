//! Which units a layer enables, and which of them are to be started. Links that scriptlets made say what was asked for;
//! systemd.preset(5) files of the host, the base and the layer decide. What they do not decide in favour of, and whatever
//! a scriptlet did to a unit of the base, is told and not done.

use crate::generation::{Content, RUN_DIR};
use crate::glob::glob_matches;
use crate::names::printable;

use anyhow::{Context as _, Result};
use fn_error_context::context;
use model::{AttributedEffect, Cause, Effect, NotApplied};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Where links go: systemd reads it like `/etc/systemd/system`, and it ends with the boot.
const RUNTIME: &str = "/run/systemd/system";

/// What the choice is made from.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The host's `/`.
    pub root: &'a Path,
    /// The pristine `/usr`.
    pub base: &'a Path,
    /// The new generation's content.
    pub content: &'a Content,
    /// Links that scriptlets and packages made, relative to `/`, with what they hold.
    pub links: &'a [(PathBuf, PathBuf)],
    /// Effects of the generation before.
    pub previous: &'a [AttributedEffect],
    /// Absolute paths, and the scriptlets that made them.
    pub causes: &'a BTreeMap<PathBuf, Cause>,
    /// Paths relative to `/` that packages of this run own, and whose they are.
    pub owned: &'a BTreeMap<PathBuf, String>,
    /// `--now`: what is enabled in this run is to be started.
    pub now: bool,
    /// Whether systemd runs on the host.
    pub systemd: bool,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Units {
    /// Links to be made before the swap.
    pub enabled: Vec<AttributedEffect>,
    /// Units to be started after it.
    pub started: Vec<AttributedEffect>,
    /// What was asked for in vain.
    pub not_applied: Vec<NotApplied>,
}

/// Chooses.
///
/// # Errors
/// When a preset file cannot be read.
#[context("Choosing the units that the layer enables")]
pub fn choose(facts: &Facts<'_>) -> Result<Units> {
    let mut units = Units::default();
    let stays = |unit: &str| unit_file(facts, unit).is_some();
    for effect in facts.previous {
        match &effect.effect {
            Effect::EnableUnit { target, .. } if target.file_name().and_then(OsStr::to_str).is_some_and(stays) => {
                units.enabled.push(effect.clone());
            }
            Effect::StartUnit { unit } if stays(unit) => units.started.push(effect.clone()),
            _ => {}
        }
    }
    if facts.links.is_empty() {
        return Ok(units);
    }
    let presets = Presets::read(&directories(facts))?;
    for (path, target) in facts.links {
        one(facts, &presets, path, target, &mut units);
    }
    Ok(units)
}

/// One link.
fn one(facts: &Facts<'_>, presets: &Presets, path: &Path, target: &Path, units: &mut Units) {
    let cause = cause(facts, path);
    let name = |path: &Path| path.file_name().map_or(String::new(), |n| n.to_string_lossy().into_owned());
    let (link, aim) = (name(path), name(target));
    // `a.wants/x.service` enables x; `y.service` beside the units is another name for what it points to.
    let is_alias = path.parent() == Some(Path::new("etc/systemd/system"));
    let unit = if is_alias || unit_file(facts, &link).is_none() { &aim } else { &link };
    let mut tell = |what: String| {
        let Cause { package, slot } = cause.clone();
        units.not_applied.push(NotApplied { package, slot, what: printable(what.as_bytes()) });
    };
    if target == Path::new("/dev/null") || target.as_os_str().is_empty() {
        return tell(format!("mask {link}"));
    }
    let Some(file) = unit_file(facts, unit) else {
        return tell(match (is_alias, facts.base.join("lib/systemd/system").join(template(unit)).exists()) {
            (true, _) => format!("name {} as {link}: it is not the layer's", target.display()),
            (false, true) => format!("enable {unit}: it is the base's"),
            (false, false) => format!("enable {unit}: there is no such unit"),
        });
    };
    if !presets.enable(unit) {
        return tell(format!("enable {unit}: no preset enables it"));
    }
    if !facts.systemd {
        return tell(format!("enable {unit}: systemd does not run here"));
    }
    let (Ok(below), Some(_)) = (path.strip_prefix("etc/systemd/system"), path.to_str()) else { return };
    let effect = Effect::EnableUnit { path: Path::new(RUNTIME).join(below), target: file };
    units.enabled.retain(|e| e.effect.path() != effect.path());
    units.enabled.push(AttributedEffect { effect, cause: cause.clone() });
    let start = Effect::StartUnit { unit: unit.clone() };
    // A template alone is nothing that runs.
    let runs = !is_alias && !unit.contains("@.");
    if facts.now && runs && !units.started.iter().any(|e| e.effect == start) {
        units.started.push(AttributedEffect { effect: start, cause });
    }
}

/// The absolute path of a unit's file on the host, when the layer has it.
fn unit_file(facts: &Facts<'_>, unit: &str) -> Option<PathBuf> {
    let names = [unit.to_owned(), template(unit)];
    names.iter().filter(|n| !n.is_empty() && !n.contains('/')).find_map(|name| {
        [("lib/systemd/system", "/usr/lib/systemd/system"), ("etc/systemd/system", "/etc/systemd/system")]
            .into_iter()
            .find(|(dir, _)| fs::symlink_metadata(facts.content.layer.join(dir).join(name)).is_ok())
            .map(|(_, shown)| Path::new(shown).join(name))
    })
}

fn cause(facts: &Facts<'_>, path: &Path) -> Cause {
    let owner = || facts.owned.get(path).map(|p| Cause { package: Some(p.clone()), slot: None });
    facts.causes.get(&Path::new("/").join(path)).cloned().or_else(owner).unwrap_or_default()
}

/// `a@b.service` → `a@.service`; other names as they are.
fn template(unit: &str) -> String {
    match (unit.find('@'), unit.rfind('.')) {
        (Some(at), Some(dot)) if at < dot => format!("{}{}", &unit[..=at], &unit[dot..]),
        _ => unit.to_owned(),
    }
}

/// Directories of preset files; of two files with the same name the one in the earlier directory counts.
fn directories(facts: &Facts<'_>) -> Vec<PathBuf> {
    let Facts { root, base, content, .. } = *facts;
    vec![
        root.join("etc/systemd/system-preset"),
        content.layer.join("etc/systemd/system-preset"),
        root.join("run/systemd/system-preset"),
        root.join("usr/local/lib/systemd/system-preset"),
        content.layer.join("lib/systemd/system-preset"),
        base.join("lib/systemd/system-preset"),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Enable,
    Disable,
    /// systemd 254: leave it as it is, which for a new unit is disabled.
    Ignore,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    action: Action,
    pattern: String,
    instances: Vec<String>,
}

/// The rules of systemd.preset(5), first match first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Presets {
    rules: Vec<Rule>,
}

impl Presets {
    /// Reads the files of these directories in the order of their names.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn read(directories: &[PathBuf]) -> Result<Presets> {
        let mut files: BTreeMap<OsString, PathBuf> = BTreeMap::new();
        for dir in directories {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                let (name, path) = (entry.file_name(), entry.path());
                // A link of ours shows what the generation before had; the new one's is in its own layer.
                let ours = fs::read_link(&path).is_ok_and(|t| t.starts_with(RUN_DIR));
                if name.as_bytes().ends_with(b".preset") && !ours {
                    files.entry(name).or_insert(path);
                }
            }
        }
        let mut presets = Presets::default();
        for path in files.values() {
            match fs::read(path) {
                Ok(text) => presets.parse(&String::from_utf8_lossy(&text)),
                // A symlink to nowhere hides what is in later directories, as one to /dev/null does.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(e).with_context(|| format!("Reading {}", path.display())),
            }
        }
        Ok(presets)
    }

    /// Adds the rules of one file; lines that are none are left out, as systemd does.
    fn parse(&mut self, text: &str) {
        for line in text.lines().map(str::trim).filter(|l| !l.starts_with(['#', ';'])) {
            let mut words = line.split_whitespace();
            let action = match words.next() {
                Some("enable") => Action::Enable,
                Some("disable") => Action::Disable,
                Some("ignore") => Action::Ignore,
                _ => continue,
            };
            let Some(pattern) = words.next().map(str::to_owned) else { continue };
            let instances = if action == Action::Enable { words.map(str::to_owned).collect() } else { vec![] };
            self.rules.push(Rule { action, pattern, instances });
        }
    }

    /// Whether a unit is to be enabled. Without a rule for it, it is.
    pub fn enable(&self, unit: &str) -> bool {
        let matches = |rule: &&Rule| {
            if rule.instances.is_empty() {
                return glob_matches(&rule.pattern, unit);
            }
            // With instances the pattern is the name of a template.
            let instance = || {
                let name = unit.strip_suffix(&unit[unit.rfind('.')?..])?;
                name.split_once('@').map(|(_, i)| i)
            };
            template(unit) == rule.pattern
                && (unit == rule.pattern || instance().is_some_and(|i| rule.instances.iter().any(|r| r == i)))
        };
        self.rules.iter().find(matches).is_none_or(|r| r.action == Action::Enable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presets(text: &str) -> Presets {
        let mut presets = Presets::default();
        presets.parse(text);
        presets
    }

    #[test]
    fn the_first_rule_counts_and_none_means_yes() {
        let p =
            presets("# enable c.service\n; x\nenable a.service\ndisable *.service\nenable b.service\nfrob x\nenable\n");
        for (unit, expected) in
            [("a.service", true), ("b.service", false), ("c.service", false), ("a.socket", true), ("a@.socket", true)]
        {
            assert_eq!(p.enable(unit), expected, "{unit}");
        }
        assert!(Presets::default().enable("x.service"));
        assert!(!presets("ignore x.*\nenable *").enable("x.service"));
        assert!(presets("enable x[0-9].service\ndisable *").enable("x1.service"));
    }

    #[test]
    fn instances_stand_after_the_name_of_the_template() {
        let p = presets("enable getty@.service tty1 tty2\nenable other@*.service\ndisable *\n");
        for (unit, expected) in [
            ("getty@.service", true),
            ("getty@tty1.service", true),
            ("getty@tty3.service", false),
            ("getty@tty1.socket", false),
            ("other@x.service", true),
        ] {
            assert_eq!(p.enable(unit), expected, "{unit}");
        }
        assert!(!presets("disable a@.service\n").enable("a@.service"));
        assert!(presets("disable a@.service\n").enable("a@b.service"));
        for (unit, expected) in
            [("a@b.service", "a@.service"), ("a.service", "a.service"), ("a", "a"), ("a.b@c", "a.b@c")]
        {
            assert_eq!(template(unit), expected);
        }
    }

    /// A host, a base and a layer below one temporary directory.
    struct Rig(tempfile::TempDir);

    impl Rig {
        fn new(files: &[(&str, &str)]) -> Rig {
            let rig = Rig(tempfile::tempdir().unwrap());
            for (path, text) in files {
                let path = rig.0.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                match text.strip_prefix("-> ") {
                    Some(target) => std::os::unix::fs::symlink(target, path).unwrap(),
                    None => fs::write(path, text).unwrap(),
                }
            }
            rig
        }
        fn choose(&self, links: &[(&str, &str)], previous: &[AttributedEffect], now: bool) -> Units {
            let links: Vec<_> = links.iter().map(|(a, b)| (PathBuf::from(a), PathBuf::from(b))).collect();
            let dir = |name: &str| self.0.path().join(name);
            let by_post = Cause { package: Some("p-1-1.noarch".into()), slot: Some("post".into()) };
            let causes = links.iter().map(|(path, _)| (Path::new("/").join(path), by_post.clone())).collect();
            choose(&Facts {
                root: &dir("root"),
                base: &dir("base"),
                content: &Content { layer: dir("layer"), var: dir("var"), linker_cache: dir("cache") },
                links: &links,
                previous,
                causes: &causes,
                owned: &BTreeMap::new(),
                now,
                systemd: true,
            })
            .unwrap()
        }
    }

    fn told(units: &Units) -> Vec<&str> {
        units.not_applied.iter().map(|n| n.what.as_str()).collect()
    }

    #[test]
    fn directories_hide_one_another_by_name() {
        let rig = Rig::new(&[
            ("base/lib/systemd/system-preset/90-default.preset", "enable a.service\nenable m.service"),
            ("base/lib/systemd/system-preset/99-default-disable.preset", "disable *"),
            ("layer/lib/systemd/system-preset/50-l.preset", "enable l.service"),
            ("layer/lib/systemd/system-preset/90-default.preset", "enable a.service\nenable b.service"),
            ("root/etc/systemd/system-preset/10-local.preset", "disable b.service"),
            ("root/etc/systemd/system-preset/20-ours.preset", "-> /run/rpm-ostree-transient/etc/x"),
            ("root/etc/systemd/system-preset/50-l.preset", "-> /dev/null"),
            ("layer/etc/systemd/system-preset/20-ours.preset", "enable ours.service"),
            ("layer/etc/systemd/system-preset/20-ours.conf", "enable *"),
        ]);
        let dirs: Vec<PathBuf> = ["root/etc/systemd", "layer/etc/systemd", "layer/lib/systemd", "base/lib/systemd"]
            .iter()
            .map(|d| rig.0.path().join(d).join("system-preset"))
            .collect();
        let presets = Presets::read(&dirs).unwrap();
        for (unit, expected) in [("a", true), ("b", false), ("m", false), ("l", false), ("ours", true)] {
            assert_eq!(presets.enable(&format!("{unit}.service")), expected, "{unit}");
        }
    }

    #[test]
    fn presets_decide_and_the_rest_is_told() {
        let unit = |name: &str| (format!("layer/lib/systemd/system/{name}"), "");
        let units: Vec<(String, &str)> = ["good.service", "bad.service", "t@.service", "alias.socket"].map(unit).into();
        let mut files: Vec<(&str, &str)> = units.iter().map(|(p, t)| (p.as_str(), *t)).collect();
        files.push(("base/lib/systemd/system/sshd.service", ""));
        files.push(("base/lib/systemd/system-preset/1.preset", "disable bad.service"));
        let rig = Rig::new(&files);
        let wants = "etc/systemd/system/multi-user.target.wants";
        let link = |name: &str| format!("{wants}/{name}");
        let links = [
            (link("good.service"), "/lib/systemd/system/good.service"),
            (link("bad.service"), "/usr/lib/systemd/system/bad.service"),
            (link("t@x.service"), "/usr/lib/systemd/system/t@.service"),
            (link("sshd.service"), "/usr/lib/systemd/system/sshd.service"),
            ("etc/systemd/system/name.socket".into(), "/usr/lib/systemd/system/alias.socket"),
            ("etc/systemd/system/sshd.service".into(), "/dev/null"),
            (link("none.service"), "../none.service"),
        ];
        let links: Vec<(&str, &str)> = links.iter().map(|(a, b)| (a.as_str(), *b)).collect();
        let first = rig.choose(&links, &[], true);
        let enabled: Vec<String> = first.enabled.iter().map(|e| format!("{:?}", e.effect)).collect();
        let expected = |path: &str, file: &str| {
            let (path, target) = (format!("/run/systemd/system/{path}"), format!("/usr/lib/systemd/system/{file}"));
            format!("{:?}", Effect::EnableUnit { path: path.into(), target: target.into() })
        };
        assert_eq!(
            enabled,
            [
                expected("multi-user.target.wants/good.service", "good.service"),
                expected("multi-user.target.wants/t@x.service", "t@.service"),
                expected("name.socket", "alias.socket"),
            ]
        );
        assert_eq!(first.enabled[0].cause.slot.as_deref(), Some("post"));
        let started: Vec<String> = first.started.iter().map(|e| format!("{:?}", e.effect)).collect();
        assert_eq!(started, [r#"StartUnit { unit: "good.service" }"#, r#"StartUnit { unit: "t@x.service" }"#]);
        assert_eq!(
            told(&first),
            [
                "enable bad.service: no preset enables it",
                "enable sshd.service: it is the base's",
                "mask sshd.service",
                "enable none.service: there is no such unit"
            ]
        );
        assert_eq!(rig.choose(&links, &[], false).started, []);

        // A later generation without the unit file.
        fs::remove_file(rig.0.path().join("layer/lib/systemd/system/t@.service")).unwrap();
        let previous: Vec<AttributedEffect> = [first.enabled, first.started].concat();
        let second = rig.choose(&[], &previous, false);
        assert_eq!(second.enabled.len(), 2);
        assert_eq!(second.started.len(), 1);
        assert_eq!(told(&second), Vec::<&str>::new());
    }
}
