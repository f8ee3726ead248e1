//! `status`: what is layered, for the verb itself and as the section below rpm-ostree's own status.

use super::{ago, count, declarations, effects, escape, fields, size, time};
use model::status::{StaleView, Status, SwapMethod};
use model::{LayeredPackage, Reason, Signature};

/// What everybody must know before relying on a layer.
pub const DISCARDED: &str = "The layer is discarded at the next reboot.";

/// The whole answer. `now` is in seconds since 1970.
pub fn status(document: &Status, verbose: bool, now: u64) -> String {
    let d = &document.deployment;
    let short: String = d.checksum.chars().take(12).collect();
    let mut name = d.origin.as_deref().map_or_else(|| escape(&d.stateroot), escape);
    if let Some(version) = &d.version {
        name.push_str(&format!(" {}", escape(version)));
    }
    let mut out = format!("Deployment: {name} ({short}.{})\n", d.serial);
    match section(document, verbose, now) {
        Some(text) => out.push_str(&text),
        None => {
            out.push_str("No packages are layered until reboot.\n");
            for line in declarations::lines(&document.spec.declarations) {
                out.push_str(&(line + "\n"));
            }
            if let Some(n) = document.status.left_over {
                out.push_str(&format!(
                    "Generation {n} is live no more; what it made outside /usr goes with the next change,\n\
                     or with reset.\n"
                ));
            }
            for view in &document.status.stale_views {
                out.push_str(&format!("{}.\n", stale_view(view)));
            }
            if let Some(n) = document.status.rollback.filter(|&n| n != 0) {
                out.push_str(&format!("rollback would bring back generation {n}.\n"));
            }
        }
    }
    out
}

/// The layer alone; none when nothing is layered.
pub fn section(document: &Status, verbose: bool, now: u64) -> Option<String> {
    let layer = &document.status;
    if layer.generation == 0 {
        return None;
    }
    let requested = document.spec.requested.iter().map(|r| {
        let owners = match r.owners.as_slice() {
            [] => String::new(),
            owners => format!(" for {}", owners.iter().map(|o| escape(o)).collect::<Vec<_>>().join(" and ")),
        };
        match &r.word {
            word if *word == r.name => escape(word) + &owners,
            word => format!("{} ({}){owners}", escape(word), escape(&r.name)),
        }
    });
    let mut rows = vec![("Generation", layer.generation.to_string())];
    match layer.rollback {
        Some(0) => rows.push(("Rollback", "to the base".into())),
        Some(n) => rows.push(("Rollback", format!("to generation {n}"))),
        None => {}
    }
    if let Some(since) = layer.since {
        rows.push(("Since", format!("{} ({})", time(since), ago(since, now))));
    }
    if let Some(command) = &layer.command {
        rows.push(("Command", escape(command)));
    }
    rows.push(("Requested", requested.collect::<Vec<_>>().join(", ")));
    rows.extend(several("Declared", declarations::lines(&document.spec.declarations)));
    rows.push(("Packages", packages(&layer.packages, verbose)));
    rows.push(("Files", layer.files.to_string()));
    let limit = layer.memory_limit_bytes;
    rows.push(("Memory", format!("{} of at most {}", size(layer.memory_bytes), size(limit))));
    if layer.swap == Some(SwapMethod::Stacked) {
        rows.push(("Mounts", "stacked until reset, as this kernel cannot swap them".into()));
    }
    rows.extend(several("NotSeenBy", layer.stale_views.iter().map(stale_view)));
    rows.extend(several("Outside", effects::lines(&layer.effects, verbose).into_iter()));
    let skipped = layer.skipped.iter().map(|s| {
        let who = effects::who(&s.cause).map(|w| format!(" ({w})")).unwrap_or_default();
        format!("{}: {}{who}", escape(&s.path.to_string_lossy()), escape(&s.reason))
    });
    rows.extend(several("Skipped", skipped));
    rows.extend(several("NotApplied", layer.not_applied.iter().map(effects::not_applied)));
    rows.retain(|(_, value)| !value.is_empty());
    Some(format!("Transient layer: {}\n{}{DISCARDED}\n", count(layer.packages.len(), "package"), fields(&rows)))
}

/// Who sees what, and until when.
fn stale_view(view: &StaleView) -> String {
    let sees = match view.generation {
        0 => "the base".into(),
        n => format!("generation {n}"),
    };
    let command = escape(&view.command);
    match &view.unit {
        Some(unit) => format!("{} sees {sees} until it is restarted ({command}, process {})", escape(unit), view.pid),
        None => format!("{command}, process {}, sees {sees} until it is started anew", view.pid),
    }
}

fn several(key: &'static str, lines: impl Iterator<Item = String>) -> Option<(&'static str, String)> {
    let text = lines.collect::<Vec<_>>().join("\n");
    (!text.is_empty()).then_some((key, text))
}

/// One line each, what was asked for first.
fn packages(packages: &[LayeredPackage], verbose: bool) -> String {
    let mut sorted: Vec<_> = packages.iter().collect();
    sorted.sort_by_key(|p| (p.reason != Reason::Requested, &p.nevra));
    let line = |p: &&LayeredPackage| {
        let mut notes = vec![escape(&p.repository)];
        if p.reason == Reason::Dependency {
            notes.push("dependency".into());
        }
        match &p.signature {
            Signature::NotChecked => notes.push("signature not checked".into()),
            Signature::Good { key: Some(key) } if verbose => notes.push(format!("signed by {}", escape(key))),
            Signature::Good { .. } if verbose => notes.push("signed".into()),
            Signature::Good { .. } => {}
        }
        format!("{} ({})", escape(&p.nevra.to_string()), notes.join(", "))
    };
    sorted.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::tests::package;
    use super::*;
    use model::manifest::Requested;
    use model::status::{Deployment, Layer, Spec};
    use model::{AttributedEffect, Cause, Effect, NotApplied, SkippedPath};

    fn layered() -> Status {
        let mut unsigned = package("local-1-1.noarch", Reason::Requested);
        unsigned.signature = Signature::NotChecked;
        unsigned.repository = "@commandline".into();
        let request =
            |word: &str, name: &str| Requested { word: word.into(), name: name.into(), local: false, owners: vec![] };
        Status {
            api_version: model::status::API_VERSION.into(),
            kind: "Status".into(),
            boot_id: "b".into(),
            deployment: Deployment {
                stateroot: "fedora-coreos".into(),
                checksum: "0123456789abcdef".into(),
                serial: 0,
                version: Some("41.1".into()),
                origin: Some("fedora:stable".into()),
            },
            spec: Spec {
                requested: vec![request("/usr/bin/strace", "strace"), request("local", "local")],
                declarations: vec![],
            },
            status: Layer {
                generation: 3,
                rollback: Some(2),
                left_over: None,
                since: Some(0),
                command: Some("rpm-ostree install --transient /usr/bin/strace".into()),
                packages: vec![
                    package("a-1:2-1.x86_64", Reason::Dependency),
                    package("strace-6.1-1.fc41.x86_64", Reason::Requested),
                    unsigned,
                ],
                files: 241,
                memory_bytes: 12_300_000,
                memory_limit_bytes: 512_000_000,
                swap: Some(SwapMethod::Beneath),
                stale_views: vec![],
                effects: vec![AttributedEffect {
                    effect: Effect::Mount { path: "/var/lib/zfs".into(), source: "/run/z".into(), made: true },
                    cause: Cause { package: Some("zfs-1-1.noarch".into()), slot: None },
                }],
                skipped: vec![SkippedPath {
                    path: "/etc/a\nb".into(),
                    reason: "exists already".into(),
                    cause: Cause::default(),
                }],
                not_applied: vec![NotApplied {
                    package: Some("a".into()),
                    slot: Some("post".into()),
                    what: "modprobe zfs".into(),
                }],
            },
        }
    }

    #[test]
    fn a_layer() {
        let text = status(&layered(), false, 180);
        assert_eq!(
            text,
            "\
Deployment: fedora:stable 41.1 (0123456789ab.0)
Transient layer: 3 packages
 Generation: 3
   Rollback: to generation 2
      Since: 1970-01-01 00:00:00 UTC (3 min ago)
    Command: rpm-ostree install --transient /usr/bin/strace
  Requested: /usr/bin/strace (strace), local
   Packages: local-1-1.noarch (@commandline, signature not checked)
             strace-6.1-1.fc41.x86_64 (updates)
             a-1:2-1.x86_64 (updates, dependency)
      Files: 241
     Memory: 12.3 MB of at most 512.0 MB
    Outside: /var/lib/zfs: mounted from memory (zfs-1-1.noarch)
    Skipped: /etc/a\\nb: exists already
 NotApplied: a.post: modprobe zfs
The layer is discarded at the next reboot.
"
        );
        assert!(text.lines().all(|l| l.chars().count() <= 80));
        assert!(status(&layered(), true, 0).contains("(updates, signed by a1b2c3d4)"));
    }

    #[test]
    fn the_bare_base() {
        let mut s = layered();
        s.status.generation = 0;
        s.status.rollback = None;
        s.deployment.origin = None;
        assert_eq!(section(&s, false, 0), None);
        assert_eq!(
            status(&s, false, 0),
            "Deployment: fedora-coreos 41.1 (0123456789ab.0)\nNo packages are layered until reboot.\n"
        );
        s.status.rollback = Some(4);
        assert!(status(&s, false, 0).ends_with("rollback would bring back generation 4.\n"));
    }

    #[test]
    fn those_who_do_not_see_it_are_named() {
        let mut s = layered();
        let view = |unit: Option<&str>, generation| StaleView {
            unit: unit.map(str::to_owned),
            pid: 7,
            command: "x".into(),
            generation,
        };
        s.status.stale_views = vec![view(Some("a.service"), 0), view(None, 2)];
        let text = section(&s, false, 0).unwrap();
        assert!(text.contains("  NotSeenBy: a.service sees the base until it is restarted (x, process 7)\n"), "{text}");
        assert!(text.contains("\n             x, process 7, sees generation 2 until it is started anew\n"), "{text}");
        s.status.generation = 0;
        assert!(status(&s, false, 0).contains("\nx, process 7, sees generation 2 until it is started anew.\n"));
    }

    #[test]
    fn stacked_mounts_are_said() {
        let mut s = layered();
        s.status.swap = Some(SwapMethod::Stacked);
        assert!(section(&s, false, 0).unwrap().contains("     Mounts: stacked until reset"));
    }
}
