//! What a change did, or would do: the plan in groups, then one sentence.

use super::status::DISCARDED;
use super::{count, effects, escape, row, size};
use model::status::Outcome;
use model::{Action, Plan, PlannedPackage, Reason};

/// How the run ended, beside what the document says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// A change was asked for.
    Run,
    /// `--dry-run`.
    DryRun,
    /// `--download-only`.
    DownloadOnly,
}

/// The text for `install`, `uninstall`, `rollback` and `reset`.
pub fn outcome(document: &Outcome, ending: Ending) -> String {
    let plan = &document.plan;
    let mut out = String::new();
    for (word, by) in &plan.already_provided {
        let (word, by) = (escape(word), escape(&by.to_string()));
        out.push_str(&format!("{word}: already provided by {by}\n"));
    }
    if plan.is_empty() && !document.changed {
        return out + "Nothing to do.\n";
    }
    out.push_str(&self::plan(plan));
    if ending == Ending::DryRun {
        out.push_str(&outside(document));
    }
    if ending == Ending::Run && document.changed {
        out.push_str(&not_applied(document));
    }
    out.push_str(&match (ending, document.changed) {
        (Ending::DryRun, _) => "Dry run: nothing was changed.\n".to_owned(),
        (Ending::DownloadOnly, false) => "Downloaded and verified; nothing was changed.\n".to_owned(),
        (_, false) => "Nothing was changed.\n".to_owned(),
        (_, true) if document.generation == 0 => "Done: /usr is the bare base again.\n".to_owned(),
        (_, true) => format!("Done: generation {} is live. {DISCARDED}\n", document.generation),
    });
    out
}

/// Lines of what was not applied that are shown after a run.
const SHORT: usize = 8;

/// What this run could not do for the packages that came with it.
fn not_applied(document: &Outcome) -> String {
    let Some(manifest) = &document.manifest else { return String::new() };
    let came: Vec<String> = document.plan.install.iter().map(|p| p.nevra.to_string()).collect();
    let of_this_run = manifest.not_applied.iter().filter(|n| n.package.as_ref().is_none_or(|p| came.contains(p)));
    let lines: Vec<String> = of_this_run.map(effects::not_applied).collect();
    if came.is_empty() || lines.is_empty() {
        return String::new();
    }
    let mut out = String::from("Not applied:\n");
    lines.iter().take(SHORT).for_each(|l| out.push_str(&format!("  {l}\n")));
    if lines.len() > SHORT {
        out.push_str(&format!("  and {} more; status -v lists them\n", lines.len() - SHORT));
    }
    out
}

/// What a dry run found out about the rest of the host.
fn outside(document: &Outcome) -> String {
    let mut out = String::new();
    let mut group = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            out.push_str(&format!("{title}:\n"));
            lines.iter().for_each(|l| out.push_str(&format!("  {l}\n")));
        }
    };
    group("Outside /usr", document.plan.effects.iter().map(effects::line).collect());
    if let Some(m) = &document.manifest {
        let path = |p: &std::path::Path| escape(&p.to_string_lossy());
        group("Skipped", m.skipped.iter().map(|s| format!("{}: {}", path(&s.path), escape(&s.reason))).collect());
        group("Not applied", m.not_applied.iter().map(effects::not_applied).collect());
    }
    out
}

/// Packages in groups, as dnf shows a transaction.
fn plan(plan: &Plan) -> String {
    type Choice = fn(&PlannedPackage) -> bool;
    let groups: [(&str, Choice); 5] = [
        ("Installing", |p| p.action == Action::Install && p.reason == Reason::Requested),
        ("Installing dependencies", |p| p.action == Action::Install && p.reason == Reason::Dependency),
        ("Upgrading", |p| matches!(p.action, Action::Upgrade(_))),
        ("Downgrading", |p| matches!(p.action, Action::Downgrade(_))),
        ("Reinstalling", |p| p.action == Action::Reinstall),
    ];
    let mut out = String::new();
    for (title, choice) in groups {
        let members: Vec<_> = plan.install.iter().filter(|p| choice(p)).collect();
        let width = members.iter().map(|p| escape(&p.nevra.to_string()).chars().count()).max().unwrap_or(0);
        if !members.is_empty() {
            out.push_str(&format!("{title}:\n"));
        }
        for p in members {
            let mut rest = format!("{}  {}", escape(p.source.label()), size(p.installed_bytes));
            if let Action::Upgrade(old) | Action::Downgrade(old) = &p.action {
                rest.push_str(&format!("  from {}", escape(&old.evr())));
            }
            out.push_str(&row("  ", &escape(&p.nevra.to_string()), width, &rest));
        }
    }
    if !plan.remove.is_empty() {
        out.push_str("Removing:\n");
        for n in &plan.remove {
            out.push_str(&format!("  {}\n", escape(&n.to_string())));
        }
    }
    if !plan.install.is_empty() {
        let (down, unpacked) = (plan.download_bytes(), plan.installed_bytes());
        let down = if down == 0 { String::new() } else { format!("{} to download, ", size(down)) };
        out.push_str(&format!("{}: {down}{} unpacked\n", count(plan.install.len(), "package"), size(unpacked)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::PackageSource;

    fn planned(nevra: &str, action: Action, reason: Reason) -> PlannedPackage {
        PlannedPackage {
            nevra: nevra.parse().unwrap(),
            action,
            reason,
            source: PackageSource::Repository { id: "updates".into(), location: "x.rpm".into(), base: None },
            download_bytes: 500_000,
            installed_bytes: 1_234_567,
            checksum: None,
        }
    }

    fn document() -> Outcome {
        Outcome {
            api_version: model::status::API_VERSION.into(),
            kind: "Outcome".into(),
            changed: true,
            generation: 4,
            plan: Plan {
                install: vec![
                    planned("strace-6.1-1.fc41.x86_64", Action::Install, Reason::Requested),
                    planned("libx-1-1.x86_64", Action::Install, Reason::Dependency),
                    planned("up-2-1.noarch", Action::Upgrade("up-1:1-1.noarch".parse().unwrap()), Reason::Requested),
                ],
                remove: vec!["old-1-1.noarch".parse().unwrap()],
                already_provided: vec![("/bin/sh".into(), "bash-5-1.x86_64".parse().unwrap())],
                ..Plan::default()
            },
            manifest: None,
        }
    }

    #[test]
    fn a_change() {
        let text = outcome(&document(), Ending::Run);
        assert_eq!(
            text,
            "\
/bin/sh: already provided by bash-5-1.x86_64
Installing:
  strace-6.1-1.fc41.x86_64  updates  1.2 MB
Installing dependencies:
  libx-1-1.x86_64  updates  1.2 MB
Upgrading:
  up-2-1.noarch  updates  1.2 MB  from 1:1-1
Removing:
  old-1-1.noarch
3 packages: 1.5 MB to download, 3.7 MB unpacked
Done: generation 4 is live. The layer is discarded at the next reboot.
"
        );
        assert_eq!(text.matches(DISCARDED).count(), 1);
    }

    #[test]
    fn endings() {
        let mut d = document();
        d.changed = false;
        assert!(outcome(&d, Ending::DryRun).ends_with("Dry run: nothing was changed.\n"));
        assert!(outcome(&d, Ending::DownloadOnly).ends_with("Downloaded and verified; nothing was changed.\n"));
        d.plan.install.clear();
        d.plan.remove.clear();
        assert_eq!(outcome(&d, Ending::Run), "/bin/sh: already provided by bash-5-1.x86_64\nNothing to do.\n");
        d.plan.already_provided.clear();
        (d.changed, d.generation) = (true, 0);
        assert_eq!(outcome(&d, Ending::Run), "Done: /usr is the bare base again.\n");
    }
}
