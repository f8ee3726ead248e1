//! Changes outside `/usr`, one line each, with whoever caused them.

use super::escape;
use model::{AttributedEffect, Cause, Effect, NotApplied};
use std::path::Path;

/// Lines that a short status shows.
const SHORT: usize = 8;

/// What changes, in words.
pub fn line(effect: &AttributedEffect) -> String {
    let shown = |p: &Path| escape(&p.to_string_lossy());
    let what = match &effect.effect {
        Effect::MarkUnlocked { path } => format!("{}: tells ostree of the layer", shown(path)),
        Effect::Cleaner { path } => format!("{}: cleans up after a power cut", shown(path)),
        Effect::Link { path, target } => format!("{} -> {}", shown(path), shown(target)),
        Effect::Mount { path, .. } => format!("{}: mounted from memory", shown(path)),
        Effect::RunDirectory { path, .. } => format!("{}: directory", shown(path)),
        Effect::EnableUnit { path, target } => format!("{} -> {}", shown(path), shown(target)),
        Effect::ReloadUnits => "systemd reads its units again".into(),
        Effect::ReloadUdev => "udev reads its rules again".into(),
        Effect::ReloadBus => "D-Bus reads its configuration again".into(),
        Effect::StartUnit { unit } => format!("{} is started", escape(unit)),
    };
    match who(&effect.cause) {
        Some(who) => format!("{what} ({who})"),
        None => what,
    }
}

/// `PACKAGE` or `PACKAGE.SLOT`.
pub fn who(cause: &Cause) -> Option<String> {
    let package = cause.package.as_ref()?;
    let slot = cause.slot.as_ref().map(|s| format!(".{s}")).unwrap_or_default();
    Some(escape(&format!("{package}{slot}")))
}

/// Something that was left undone.
pub fn not_applied(n: &NotApplied) -> String {
    let cause = Cause { package: n.package.clone(), slot: n.slot.clone() };
    who(&cause).map(|w| format!("{w}: ")).unwrap_or_default() + &escape(&n.what)
}

/// Effects for a status: those that are paths, and all of them when asked.
pub fn lines(effects: &[AttributedEffect], verbose: bool) -> Vec<String> {
    let ours = |e: &&AttributedEffect| verbose || e.cause.package.is_some() && e.effect.path().is_some();
    let mut lines: Vec<String> = effects.iter().filter(ours).map(line).collect();
    if !verbose && lines.len() > SHORT {
        let more = lines.len() - SHORT;
        lines.truncate(SHORT);
        lines.push(format!("and {more} more; status -v lists them"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_and_without_a_cause() {
        let link = Effect::Link { path: "/etc/a\n".into(), target: "/run/a".into() };
        let cause = Cause { package: Some("p-1-1.noarch".into()), slot: Some("post".into()) };
        let effect = AttributedEffect { effect: link, cause };
        assert_eq!(line(&effect), "/etc/a\\n -> /run/a (p-1-1.noarch.post)");
        assert_eq!(line(&Effect::ReloadUnits.into()), "systemd reads its units again");
        let many = vec![effect; 10];
        assert_eq!(lines(&many, false).len(), 9);
        assert_eq!(lines(&many, false)[8], "and 2 more; status -v lists them");
        assert_eq!(lines(&[Effect::ReloadUnits.into()], false).len(), 0);
        assert_eq!(lines(&[Effect::ReloadUnits.into()], true).len(), 1);
    }
}
