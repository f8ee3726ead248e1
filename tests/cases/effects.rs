//! What the status says of the host outside `/usr`, held against what is really another there: neither may have more
//! than the other.

use crate::view::{View, by_path};
use serde_json::Value;
use std::collections::BTreeSet;

/// One effect of the status.
#[derive(Debug)]
struct Told {
    kind: String,
    path: String,
}

/// Effects and skipped paths as `status --json` lists them.
#[derive(Debug)]
pub struct Listed {
    effects: Vec<Told>,
    skipped: BTreeSet<String>,
    /// Where the host's `/opt` really is.
    opt: String,
}

impl Listed {
    /// Reads the document.
    pub fn of(status: &Value, opt: &str) -> Listed {
        let list = |name: &str| status["status"][name].as_array().cloned().unwrap_or_default();
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let effects = list("effects").iter().map(|e| Told { kind: text(&e["kind"]), path: text(&e["path"]) }).collect();
        let skipped = list("skipped").iter().map(|s| text(&s["path"])).collect();
        Listed { effects, skipped, opt: opt.to_owned() }
    }

    /// Paths of these kinds as the host has them.
    fn paths(&self, kinds: &[&str]) -> BTreeSet<String> {
        let told = self.effects.iter().filter(|e| kinds.contains(&e.kind.as_str()));
        told.map(|e| match e.path.strip_prefix("/opt/") {
            Some(below) => format!("{}/{below}", self.opt),
            None => e.path.clone(),
        })
        .collect()
    }

    /// True for a path at which rpm finds something else than the package has, with the status saying so.
    pub fn excuses(&self, path: &str) -> bool {
        self.effects.iter().any(|e| e.kind == "link" && e.path == path) || self.skipped.contains(path)
    }

    /// What is another on the host and not told, and what is told and not so.
    pub fn compare(&self, before: &View, layered: &View, problems: &mut Vec<String>) {
        let mounts = self.paths(&["mount"]);
        let mut told = self.paths(&["link", "mount", "cleaner"]);
        for unit in self.paths(&["cleaner"]) {
            // The unit is enabled by a link; its directory is made where the host has none.
            if let Some((directory, name)) = unit.rsplit_once('/') {
                let wants = format!("{directory}/sysinit.target.wants");
                told.insert(format!("{wants}/{name}"));
                if !by_path(&before.outside).contains_key(wants.as_str()) {
                    told.insert(wants);
                }
            }
        }
        let below_a_mount = |path: &str| mounts.iter().any(|m| path.starts_with(&format!("{m}/")));
        let changed: BTreeSet<String> =
            changed(&before.outside, &layered.outside).into_iter().filter(|p| !below_a_mount(p)).collect();
        report("/etc or /var", &changed, &told, problems);

        let told = self.paths(&["run-directory", "enable-unit"]);
        let units = self.paths(&["enable-unit"]);
        // Directories on the way to an enabled unit come with it.
        let is_parent = |path: &str| units.iter().any(|u| u.starts_with(&format!("{path}/")));
        let changed: BTreeSet<String> = lines(&before.volatile, &layered.volatile)
            .into_iter()
            .filter_map(|l| l.split_once(' ').map(|(_, path)| path.to_owned()))
            .filter(|p| !is_parent(p))
            .collect();
        report("/run, /tmp or /boot", &changed, &told, problems);

        let points = |view: &View| -> Vec<String> {
            view.mounts.lines().filter_map(|l| l.split(' ').nth(2)).map(str::to_owned).collect()
        };
        let mut new = points(layered);
        for point in points(before) {
            if let Some(n) = new.iter().position(|p| *p == point) {
                new.swap_remove(n);
            }
        }
        new.retain(|p| p != "/usr" && !p.starts_with("/run/rpm-ostree-transient/store"));
        let found: BTreeSet<String> = new.iter().cloned().collect();
        if found.len() != new.len() {
            problems.push(format!("mounts upon mounts: {new:?}"));
        }
        report("mounts", &found, &mounts, problems);
    }
}

/// Paths whose line is in one listing only, or differs.
fn changed(before: &str, after: &str) -> BTreeSet<String> {
    let (old, new) = (by_path(before), by_path(after));
    let paths: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    paths.into_iter().filter(|p| old.get(p) != new.get(p)).map(str::to_owned).collect()
}

/// Lines that only one side has.
fn lines<'a>(before: &'a str, after: &'a str) -> BTreeSet<&'a str> {
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (before.lines().collect(), after.lines().collect());
    old.symmetric_difference(&new).copied().collect()
}

fn report(what: &str, changed: &BTreeSet<String>, told: &BTreeSet<String>, problems: &mut Vec<String>) {
    let mut say = |kind: &str, paths: Vec<&String>| {
        if !paths.is_empty() {
            let first: Vec<&str> = paths.iter().take(8).map(|p| p.as_str()).collect();
            problems.push(format!("{what}: {} {kind}: {}", paths.len(), first.join(", ")));
        }
    };
    say("changed, and the status does not say so", changed.difference(told).collect());
    say("told by the status, and not so", told.difference(changed).collect());
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn view(outside: &[&str], volatile: &[&str], mounts: &[&str]) -> View {
        let outside = outside.iter().map(|p| format!("{p}\tl\t1\n")).collect();
        let volatile = volatile.iter().map(|p| format!("d {p}\n")).collect();
        let mounts = mounts.iter().map(|p| format!("0:1 / {p} rw - tmpfs run rw\n")).collect();
        View { usr: String::new(), outside, volatile, mounts }
    }

    #[test]
    fn neither_side_may_have_more() {
        let status = json!({"status": {"effects": [
            {"kind": "cleaner", "path": "/etc/systemd/system/c.service"},
            {"kind": "link", "path": "/opt/x"},
            {"kind": "mount", "path": "/var/lib/y"},
            {"kind": "run-directory", "path": "/run/z"},
            {"kind": "enable-unit", "path": "/run/systemd/system/m.wants/u.service"},
            {"kind": "reload-units"},
        ], "skipped": [{"path": "/etc/kept"}]}});
        let listed = Listed::of(&status, "/var/opt");
        let before = view(&["/etc/a"], &[], &["/usr"]);
        let outside = [
            "/etc/a",
            "/etc/systemd/system/c.service",
            "/etc/systemd/system/sysinit.target.wants",
            "/etc/systemd/system/sysinit.target.wants/c.service",
            "/var/opt/x",
            "/var/lib/y",
            "/var/lib/y/inside",
        ];
        let units = ["/run/systemd", "/run/systemd/system", "/run/systemd/system/m.wants"];
        let volatile = [&units[..], &["/run/systemd/system/m.wants/u.service", "/run/z"]].concat();
        let mounts = ["/usr", "/usr", "/run/rpm-ostree-transient/store", "/var/lib/y"];
        let count = |layered: &View| {
            let mut problems = Vec::new();
            listed.compare(&before, layered, &mut problems);
            problems.len()
        };
        assert_eq!(count(&view(&outside, &volatile, &mounts)), 0);
        assert_eq!(count(&view(&outside[1..], &volatile, &mounts)), 1);
        assert_eq!(count(&view(&outside[..5], &volatile, &mounts)), 1);
        assert_eq!(count(&view(&[&outside[..], &["/etc/more"]].concat(), &volatile, &mounts)), 1);
        assert_eq!(count(&view(&outside, &volatile[..4], &mounts)), 1);
        assert_eq!(count(&view(&outside, &[&volatile[..], &["/run/more"]].concat(), &mounts)), 1);
        assert_eq!(count(&view(&outside, &volatile, &mounts[..3])), 1);
        assert_eq!(count(&view(&outside, &volatile, &[&mounts[..], &["/var/lib/y"]].concat())), 1);
        assert!(listed.excuses("/opt/x") && listed.excuses("/etc/kept") && !listed.excuses("/etc/a"));
    }
}
