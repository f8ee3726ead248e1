//! What a power cut keeps us from removing is removed at the next boot by a unit of systemd's that needs none of our
//! programs: find, rm and rmdir, and then it removes itself. It is on disk before anything that it would have to remove.
//! A second unit, in `/run`, does the same at an orderly shutdown, before ostree carries `/etc` into the next deployment.

use super::reload;
use crate::files;
use crate::generation::RUN_DIR;
use crate::lock::HostLock;
use anyhow::{Context as _, Result};
use fn_error_context::context;
use model::Effect;
use std::fs;
use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NAME: &str = "rpm-ostree-transient-clean.service";
const DIRECTORY: &str = "/etc/systemd/system";
/// Early, but with `/etc` and `/var` writable; services find what is theirs.
const TARGET: &str = "sysinit.target.wants";
const SHUTDOWN: &str = "rpm-ostree-transient-shutdown.service";

/// The unit file on disk.
pub fn path() -> PathBuf {
    Path::new(DIRECTORY).join(NAME)
}

/// True for what would outlive a power cut.
pub fn is_persistent(effect: &Effect) -> bool {
    match effect {
        Effect::Link { .. } | Effect::Mount { made: true, .. } => true,
        Effect::MarkUnlocked { .. }
        | Effect::Cleaner { .. }
        | Effect::Mount { made: false, .. }
        | Effect::RunDirectory { .. }
        | Effect::EnableUnit { .. }
        | Effect::ReloadUnits
        | Effect::ReloadUdev
        | Effect::ReloadBus
        | Effect::StartUnit { .. } => false,
    }
}

/// Has both units cover these effects, and no others; without any, removes them.
///
/// # Errors
/// From the filesystem.
#[context("Writing {NAME}")]
pub fn cover<'a>(_lock: &HostLock, effects: impl Iterator<Item = &'a Effect>) -> Result<()> {
    let effects: Vec<&Effect> = effects.filter(|e| is_persistent(e)).collect();
    if effects.is_empty() {
        return remove();
    }
    let old = fs::read_to_string(path()).ok();
    // Directories that were made for the unit go with it, also when it is written again.
    let mut made: Vec<PathBuf> = Vec::new();
    for dir in [PathBuf::from(DIRECTORY), Path::new(DIRECTORY).join(TARGET)] {
        let marked = old.as_ref().is_some_and(|t| is_marked(t, &dir));
        if !dir.is_dir() {
            fs::create_dir_all(&dir)?;
            made.push(dir);
        } else if marked {
            made.push(dir);
        }
    }
    let commands = commands(&effects, &made);
    let text = boot_unit(&commands);
    if old.as_deref() != Some(&text) {
        files::write(&path(), text.as_bytes(), 0o644)?;
    }
    let link = Path::new(DIRECTORY).join(TARGET).join(NAME);
    if fs::symlink_metadata(&link).is_err() {
        symlink(Path::new("..").join(NAME), &link)?;
    }
    for synced in [path(), PathBuf::from(DIRECTORY), Path::new(DIRECTORY).join(TARGET)] {
        File::open(&synced)?.sync_all().with_context(|| format!("Syncing {}", synced.display()))?;
    }
    shutdown(&effects, &commands)
}

/// Whether the unit on disk is what [`cover`] writes for these effects: a place, what should be there, what is.
///
/// # Errors
/// From the filesystem.
pub fn differs<'a>(effects: impl Iterator<Item = &'a Effect>) -> Result<Option<(PathBuf, String, String)>> {
    let effects: Vec<&Effect> = effects.filter(|e| is_persistent(e)).collect();
    let found = match fs::read_to_string(path()) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        other => Some(other.with_context(|| format!("Reading {}", path().display()))?),
    };
    let (expected, found) = match (effects.is_empty(), found) {
        (true, None) => return Ok(None),
        (true, Some(_)) => ("no unit", "a unit"),
        (false, None) => ("a unit", "no unit"),
        (false, Some(text)) => {
            let dirs = [PathBuf::from(DIRECTORY), Path::new(DIRECTORY).join(TARGET)];
            let made: Vec<PathBuf> = dirs.into_iter().filter(|d| is_marked(&text, d)).collect();
            let link = Path::new(DIRECTORY).join(TARGET).join(NAME);
            if fs::symlink_metadata(&link).is_err() {
                return Ok(Some((link, "a link".into(), "nothing".into())));
            }
            if text == boot_unit(&commands(&effects, &made)) {
                return Ok(None);
            }
            ("a unit for these effects", "another unit")
        }
    };
    Ok(Some((path(), expected.into(), found.into())))
}

/// True when the unit says that this directory was made for it.
fn is_marked(text: &str, dir: &Path) -> bool {
    text.contains(&format!("-- {}\n", quote(dir)))
}

/// Removes both units.
///
/// # Errors
/// From the filesystem.
pub fn remove() -> Result<()> {
    let Ok(text) = fs::read_to_string(path()) else { return Ok(()) };
    let dirs = [Path::new(DIRECTORY).join(TARGET), PathBuf::from(DIRECTORY)];
    files::remove(&dirs[0].join(NAME))?;
    let made: Vec<_> = dirs.iter().filter(|d| is_marked(&text, d)).collect();
    files::remove(&path())?;
    for dir in made {
        // Somebody else may have put something into it since.
        let _ = fs::remove_dir(dir);
    }
    let unit = runtime_unit();
    if unit.exists() {
        files::remove(&unit)?;
        reload(&Effect::ReloadUnits)?;
    }
    Ok(())
}

/// Does what the unit does, where this program is at hand: removes what its text lists as far as that is still ours, and
/// the unit itself. Returns what was removed. A text that is not ours is left alone.
///
/// # Errors
/// From the filesystem.
pub fn clean(_lock: &HostLock) -> Result<Vec<PathBuf>> {
    let mut gone = Vec::new();
    let Ok(text) = fs::read_to_string(path()) else { return Ok(gone) };
    for line in text.lines() {
        let Some(words) = line.strip_prefix("ExecStart=-find ").and_then(words) else { continue };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let path = match words.as_slice() {
            [path, "-maxdepth", "0", "-type", "l", "-lname", pattern, "-delete"] => {
                let link = fs::read_link(path).ok();
                if link.is_none_or(|l| escape_glob(&l.to_string_lossy()) != *pattern) {
                    continue;
                }
                files::remove(Path::new(path))?;
                path
            }
            [path, "-maxdepth", "0", "-empty", "-delete"] => {
                let removed = match fs::symlink_metadata(path) {
                    Ok(m) if m.is_dir() => fs::remove_dir(path).is_ok(),
                    Ok(m) if m.is_file() && m.len() == 0 => fs::remove_file(path).is_ok(),
                    _ => false,
                };
                if !removed {
                    continue;
                }
                path
            }
            _ => continue,
        };
        gone.push(PathBuf::from(path));
    }
    remove()?;
    gone.push(path());
    Ok(gone)
}

/// Command lines, in the order in which effects are undone.
fn commands(effects: &[&Effect], made: &[PathBuf]) -> Vec<String> {
    let mut lines = Vec::new();
    for effect in effects.iter().rev() {
        match effect {
            Effect::Link { path, target } => {
                // Only while it is ours: find tests the link's text before it removes it.
                lines.push(format!(
                    "-find {} -maxdepth 0 -type l -lname {} -delete",
                    quote(path),
                    quote(Path::new(&escape_glob(&target.to_string_lossy())))
                ));
            }
            Effect::Mount { path, made: true, .. } => {
                lines.push(format!("-find {} -maxdepth 0 -empty -delete", quote(path)));
            }
            _ => {}
        }
    }
    lines.push(format!("-rm -f -- {}", quote(&Path::new(DIRECTORY).join(TARGET).join(NAME))));
    lines.push(format!("-rm -f -- {}", quote(&path())));
    lines.extend(made.iter().rev().map(|d| format!("-rmdir --ignore-fail-on-non-empty -- {}", quote(d))));
    lines
}

fn boot_unit(commands: &[String]) -> String {
    let mut text = format!(
        "# Written by rpm-ostree-transient, and removed with the layer. After a power cut it cleans up at the next boot,\n\
         # and then removes itself.\n\
         [Unit]\n\
         Description=Remove what a transient layer left\n\
         DefaultDependencies=no\n\
         RequiresMountsFor=/etc /var\n\
         After=local-fs.target\n\
         Before=sysinit.target systemd-tmpfiles-setup.service shutdown.target\n\
         Conflicts=shutdown.target\n\
         ConditionPathExists=!{RUN_DIR}/store\n\
         \n\
         [Service]\n\
         Type=oneshot\n"
    );
    text.extend(commands.iter().map(|c| format!("ExecStart={c}\n")));
    text
}

fn runtime_unit() -> PathBuf {
    Path::new("/run/systemd/system").join(SHUTDOWN)
}

/// The unit that is stopped, and thereby cleans, before ostree finalizes a staged deployment.
fn shutdown(effects: &[&Effect], commands: &[String]) -> Result<()> {
    if !Path::new("/run/systemd/system").is_dir() {
        return Ok(());
    }
    let mut text = String::from(
        "[Unit]\n\
         Description=Remove a transient layer's links before the system goes down\n\
         DefaultDependencies=no\n\
         # Stopped after the services that use the links, and before ostree merges /etc.\n\
         After=ostree-finalize-staged.service ostree-finalize-staged-hold.service local-fs.target\n\
         Before=sysinit.target shutdown.target\n\
         Conflicts=shutdown.target\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         ExecStart=true\n",
    );
    // What is mounted cannot be removed. At boot, where the other unit runs, nothing is.
    let mounts = effects.iter().rev().filter(|e| matches!(e, Effect::Mount { .. })).filter_map(|e| e.path());
    text.extend(mounts.map(|p| format!("ExecStop=-umount --lazy --no-canonicalize -- {}\n", quote(p))));
    text.extend(commands.iter().map(|c| format!("ExecStop={c}\n")));
    let unit = runtime_unit();
    files::write(&unit, text.as_bytes(), 0o644)?;
    reload(&Effect::ReloadUnits)?;
    // The file says nothing about the unit: /run is kept over a soft reboot, which stops every unit.
    let out = Command::new("systemctl").args(["start", SHUTDOWN]).stdin(Stdio::null()).output();
    let out = out.context("Running systemctl")?;
    anyhow::ensure!(
        out.status.success(),
        "systemctl start {SHUTDOWN} failed ({}): {}",
        out.status,
        String::from_utf8_lossy(&out.stderr).trim()
    );
    Ok(())
}

/// find(1) takes the text of `-lname` for a pattern.
fn escape_glob(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A word of a command line as systemd.service(5) reads it.
fn quote(path: &Path) -> String {
    let mut out = String::from("\"");
    for c in path.to_string_lossy().chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '%' | '$' => out.extend([c, c]),
            c if c.is_control() => c.to_string().bytes().for_each(|b| out.push_str(&format!("\\x{b:02x}"))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The words of such a command line: the inverse of [`quote`]; none when it is not one of ours.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut rest) = (Vec::new(), line.trim_start());
    while !rest.is_empty() {
        let Some(quoted) = rest.strip_prefix('"') else {
            let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
            words.push(word.to_owned());
            rest = after.trim_start();
            continue;
        };
        let (mut word, mut chars) = (Vec::new(), quoted.chars());
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => match chars.next()? {
                    'x' => {
                        let digits: String = chars.by_ref().take(2).collect();
                        word.push(u8::from_str_radix(&digits, 16).ok()?);
                    }
                    c => word.extend(c.to_string().bytes()),
                },
                c @ ('%' | '$') => {
                    chars.next().filter(|next| *next == c)?;
                    word.extend(c.to_string().bytes());
                }
                c => word.extend(c.to_string().bytes()),
            }
        }
        words.push(String::from_utf8(word).ok()?);
        rest = chars.as_str().trim_start();
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_as_systemd_reads() {
        for (path, want) in
            [("/etc/a b", r#""/etc/a b""#), ("/x\"\\", r#""/x\"\\""#), ("/5%$", r#""/5%%$$""#), ("/n\n", r#""/n\x0a""#)]
        {
            assert_eq!(quote(Path::new(path)), want);
            assert_eq!(words(&format!("{want} -x {want}")), Some(vec![path.into(), "-x".into(), path.into()]));
        }
    }

    #[test]
    fn words_that_are_not_ours_are_none() {
        for line in ["\"/etc/a", "\"%i\"", "\"\\xzz\"", "\"a\\"] {
            assert_eq!(words(line), None, "{line}");
        }
    }

    #[test]
    fn commands_undo_in_reverse_and_the_unit_last() {
        let link = Effect::Link { path: "/etc/a".into(), target: "/run/rpm-ostree-transient/etc/a[1]".into() };
        let mount = Effect::Mount { path: "/var/lib/x".into(), source: "/run/x".into(), made: true };
        let lines = commands(&[&link, &mount], &[PathBuf::from("/etc/systemd/system/sysinit.target.wants")]);
        assert_eq!(lines[0], r#"-find "/var/lib/x" -maxdepth 0 -empty -delete"#);
        assert_eq!(
            lines[1],
            r#"-find "/etc/a" -maxdepth 0 -type l -lname "/run/rpm-ostree-transient/etc/a\\[1\\]" -delete"#
        );
        assert!(lines[3].ends_with("\"/etc/systemd/system/rpm-ostree-transient-clean.service\""));
        assert!(lines[4].starts_with("-rmdir"));
    }
}
