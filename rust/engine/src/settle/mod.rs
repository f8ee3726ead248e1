//! Effects outside the layer: which ones a layer needs, how each is done, and how it is undone. Both directions may
//! be run again after a crash: doing twice is doing once, and undoing touches only what is ours.

pub mod accounts;
pub mod cleaner;
pub mod live;
mod look;
mod paths;
pub mod plan;
pub mod units;

use crate::files;
use crate::lock::HostLock;
use crate::names::printable_path;
use anyhow::{Context as _, Result, bail};
use fn_error_context::context;
pub use look::{State, is_our_mark, links_of_ours, mounts_of_ours, state};
use model::{Effect, Event, Progress};
use paths::Done;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// What our marker file holds, so that a marker of another tool is never removed.
const MARKER_TEXT: &str = "rpm-ostree-transient\n";

/// Whether an effect must be in place before the new generation is seen, or follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before the swap.
    BeforeSwap,
    /// After the swap.
    AfterSwap,
}

/// The side of the swap on which an effect is carried out.
pub fn when(effect: &Effect) -> When {
    match effect {
        Effect::MarkUnlocked { .. }
        | Effect::Cleaner { .. }
        | Effect::Link { .. }
        | Effect::Mount { .. }
        | Effect::RunDirectory { .. }
        | Effect::EnableUnit { .. } => When::BeforeSwap,
        Effect::ReloadUnits | Effect::ReloadUdev | Effect::ReloadBus | Effect::StartUnit { .. } => When::AfterSwap,
    }
}

/// The effect among `others` that is a link at the same path and leads elsewhere, as the links of alternatives do from
/// one generation to the next.
pub fn other_link<'a>(effect: &Effect, others: &'a [Effect]) -> Option<&'a Effect> {
    let Effect::Link { path, target } = effect else { return None };
    others.iter().find(|o| matches!(o, Effect::Link { path: p, target: t } if p == path && t != target))
}

/// Removes such a link, so that the effect can be carried out. What is not as one of `others` made it stays.
///
/// # Errors
/// From the filesystem.
pub fn make_way(_lock: &HostLock, effect: &Effect, others: &[Effect]) -> Result<()> {
    match other_link(effect, others) {
        Some(Effect::Link { path, target }) if std::fs::read_link(path).is_ok_and(|t| t == *target) => {
            files::remove(path)
        }
        _ => Ok(()),
    }
}

/// Carries out one effect.
///
/// # Errors
/// When the host refuses; the caller then undoes what was done before it.
#[context("Carrying out {effect:?}")]
pub fn apply(_lock: &HostLock, effect: &Effect, progress: &dyn Progress) -> Result<()> {
    let done = match effect {
        Effect::MarkUnlocked { path } => match std::fs::read_to_string(path) {
            Ok(text) if text != MARKER_TEXT => Done::Foreign,
            Ok(_) => Done::Yes,
            Err(_) => {
                std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
                files::write(path, MARKER_TEXT.as_bytes(), 0o644)?;
                Done::Yes
            }
        },
        // Written before the first effect, and for all of them: see `cleaner::cover`.
        Effect::Cleaner { .. } => Done::Yes,
        Effect::Link { path, target } => paths::link(path, target)?,
        Effect::Mount { path, source, made } => paths::mount(path, source, *made)?,
        Effect::RunDirectory { path, mode, uid, gid } => paths::run_directory(path, *mode, *uid, *gid)?,
        Effect::EnableUnit { path, target } => {
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
            paths::link(path, target)?
        }
        Effect::ReloadUnits | Effect::ReloadUdev | Effect::ReloadBus => {
            reload(effect)?;
            Done::Yes
        }
        Effect::StartUnit { unit } => {
            systemctl(&["start", "--", unit])?;
            Done::Yes
        }
    };
    if let (Done::Foreign, Some(path)) = (done, effect.path()) {
        let shown = printable_path(path);
        progress.event(Event::Notice(format!("{shown} is not ours and is left alone")));
    }
    Ok(())
}

/// Undoes one effect.
///
/// # Errors
/// When the host refuses.
#[context("Undoing {effect:?}")]
pub fn undo(_lock: &HostLock, effect: &Effect, progress: &dyn Progress) -> Result<()> {
    let done = match effect {
        Effect::MarkUnlocked { path } => {
            if std::fs::read_to_string(path).is_ok_and(|text| text == MARKER_TEXT) {
                files::remove(path)?;
                if let Some(dir) = path.parent() {
                    // Only when nothing else is in it: libostree keeps other marks there.
                    let _ = std::fs::remove_dir(dir);
                }
            }
            Done::Yes
        }
        Effect::Cleaner { .. } => Done::Yes,
        Effect::Link { path, target } => paths::unlink(path, target)?,
        Effect::Mount { path, source, made } => paths::unmount(path, source, *made)?,
        Effect::RunDirectory { path, .. } => paths::remove_run_directory(path),
        Effect::EnableUnit { path, target } => {
            let done = paths::unlink(path, target)?;
            if let Some(dir) = path.parent().filter(|d| *d != Path::new("/run/systemd/system")) {
                // Other units may be enabled there.
                let _ = std::fs::remove_dir(dir);
            }
            done
        }
        Effect::ReloadUnits | Effect::ReloadUdev | Effect::ReloadBus => {
            reload(effect)?;
            Done::Yes
        }
        Effect::StartUnit { unit } => {
            systemctl(&["stop", "--", unit])?;
            Done::Yes
        }
    };
    if let (Done::Foreign, Some(path)) = (done, effect.path()) {
        let shown = printable_path(path);
        progress.event(Event::Notice(format!("{shown} is no longer as the layer made it, and is kept")));
    }
    Ok(())
}

/// Removes what is recognizably ours wherever it is: symlinks in `/etc`, `/var` and `/opt`, and mounts that show
/// something below our directory. For states whose records cannot be read.
///
/// # Errors
/// From the kernel or the filesystem.
pub fn sweep(_lock: &HostLock) -> Result<()> {
    for link in links_of_ours()? {
        files::remove(&link)?;
    }
    paths::sweep_mounts()
}

/// True when systemd runs here; see sd_booted(3).
pub fn has_systemd() -> bool {
    Path::new("/run/systemd/system").exists()
}

/// Asks systemd for something, when it runs at all.
fn systemctl(words: &[&str]) -> Result<()> {
    if !has_systemd() {
        return Ok(());
    }
    run(&[&["systemctl"], words].concat())
}

/// Tells a service to read its files again, when it runs at all. The paths are those of sd_booted(3), udev's control
/// socket and the system bus.
fn reload(effect: &Effect) -> Result<()> {
    let (runs, argv): (&str, &[&str]) = match effect {
        Effect::ReloadUnits => ("/run/systemd/system", &["systemctl", "daemon-reload"]),
        Effect::ReloadUdev => ("/run/udev/control", &["udevadm", "control", "--reload"]),
        Effect::ReloadBus => (
            "/run/dbus/system_bus_socket",
            &[
                "busctl",
                "call",
                "org.freedesktop.DBus",
                "/org/freedesktop/DBus",
                "org.freedesktop.DBus",
                "ReloadConfig",
            ],
        ),
        _ => return Ok(()),
    };
    // A bus that has ended leaves its socket.
    let ended = matches!(effect, Effect::ReloadBus) && UnixStream::connect(runs).is_err();
    if ended || !Path::new(runs).exists() {
        return Ok(());
    }
    run(argv)
}

fn run(argv: &[&str]) -> Result<()> {
    let output = Command::new(argv[0])
        .args(&argv[1..])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("Running {}", argv.join(" ")))?;
    if !output.status.success() {
        bail!("{} failed ({}): {}", argv.join(" "), output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
