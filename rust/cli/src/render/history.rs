//! `history`: the changes of this boot, newest first as rpm-ostree lists them.

use super::{escape, time, wrap};
use model::status::{History, HistoryEntry};
use model::{Action, AttributedEffect};

/// The text.
pub fn history(document: &History) -> String {
    if document.entries.is_empty() {
        return "No changes since boot.\n".into();
    }
    document.entries.iter().rev().map(entry).collect::<Vec<_>>().join("\n")
}

fn entry(e: &HistoryEntry) -> String {
    let name = |n: u64| if n == 0 { "base".to_owned() } else { n.to_string() };
    let mut out = format!("{}  {} -> {}\n", time(e.time), name(e.from), name(e.to));
    for line in wrap(&escape(&e.command), super::WIDTH - 2) {
        out.push_str(&format!("  {line}\n"));
    }
    for p in &e.installed {
        let nevra = escape(&p.nevra.to_string());
        match &p.action {
            Action::Upgrade(old) | Action::Downgrade(old) => {
                out.push_str(&super::row("  ! ", &nevra, 0, &format!("from {}", escape(&old.evr()))));
            }
            Action::Install | Action::Reinstall => out.push_str(&format!("  + {nevra}\n")),
        }
    }
    for n in &e.removed {
        out.push_str(&format!("  - {}\n", escape(&n.to_string())));
    }
    let paths = |all: &[AttributedEffect]| all.iter().filter(|e| e.effect.path().is_some()).count();
    for (sign, effects) in [("+", &e.done), ("-", &e.undone)] {
        match paths(effects) {
            0 => {}
            n => out.push_str(&format!("  {sign} {} outside /usr\n", super::count(n, "path"))),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{PackageSource, PlannedPackage, Reason};

    #[test]
    fn newest_first() {
        let planned = |nevra: &str, action| PlannedPackage {
            nevra: nevra.parse().unwrap(),
            action,
            reason: Reason::Requested,
            source: PackageSource::File { path: "/x.rpm".into() },
            download_bytes: 0,
            installed_bytes: 0,
            checksum: None,
        };
        let old = "a-1-1.noarch".parse().unwrap();
        let document = History {
            api_version: model::status::API_VERSION.into(),
            kind: "History".into(),
            entries: vec![
                HistoryEntry {
                    time: 0,
                    command: "rpm-ostree install --transient a".into(),
                    from: 0,
                    to: 1,
                    installed: vec![planned("a-1-1.noarch", Action::Install)],
                    removed: vec![],
                    done: vec![
                        model::Effect::RunDirectory { path: "/run/a".into(), mode: 0o755, uid: 0, gid: 0 }.into(),
                    ],
                    undone: vec![],
                },
                HistoryEntry {
                    time: 60,
                    command: "rpm-ostree install --transient a --uninstall b".into(),
                    from: 1,
                    to: 2,
                    installed: vec![planned("a-2-1.noarch", Action::Upgrade(old))],
                    removed: vec!["b-1-1.noarch".parse().unwrap()],
                    done: vec![],
                    undone: vec![],
                },
            ],
        };
        assert_eq!(
            history(&document),
            "\
1970-01-01 00:01:00 UTC  1 -> 2
  rpm-ostree install --transient a --uninstall b
  ! a-2-1.noarch  from 1-1
  - b-1-1.noarch

1970-01-01 00:00:00 UTC  base -> 1
  rpm-ostree install --transient a
  + a-1-1.noarch
  + 1 path outside /usr
"
        );
        assert_eq!(history(&History { entries: vec![], ..document }), "No changes since boot.\n");
    }
}
