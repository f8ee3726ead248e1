//! Effects outside the layer: which ones a layer needs, how each is done, and how it is undone. Both directions may
//! be run again after a crash: doing twice is doing once, and undoing touches only what is ours.

pub mod accounts;

use crate::files;
use crate::host::Host;
use crate::lock::HostLock;
use anyhow::{Context as _, Result, bail};
use fn_error_context::context;
use model::{Effect, Progress};
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
        Effect::MarkUnlocked { .. } => When::BeforeSwap,
        Effect::ReloadUnits | Effect::ReloadUdev | Effect::ReloadBus => When::AfterSwap,
    }
}

/// The effects that a layer needs on this host.
pub fn effects_of(host: &Host, layer: &Path) -> Vec<Effect> {
    let has = |dir: &str| layer.join(dir).is_dir();
    let marker = format!(
        "/run/ostree/deployment-state/{}.{}/unlocked-transient",
        host.deployment.checksum, host.deployment.serial
    );
    let mut effects = vec![Effect::MarkUnlocked { path: marker.into() }];
    if has("lib/systemd/system") {
        effects.push(Effect::ReloadUnits);
    }
    if has("lib/udev/rules.d") {
        effects.push(Effect::ReloadUdev);
    }
    if has("share/dbus-1/system.d") || has("share/dbus-1/system-services") {
        effects.push(Effect::ReloadBus);
    }
    effects
}

/// Carries out one effect.
///
/// # Errors
/// When the host refuses; the caller then undoes what was done before it.
#[context("Carrying out {effect:?}")]
pub fn apply(_lock: &HostLock, effect: &Effect, progress: &dyn Progress) -> Result<()> {
    match effect {
        Effect::MarkUnlocked { path } => match std::fs::read_to_string(path) {
            Ok(text) if text != MARKER_TEXT => {
                progress.event(model::Event::Notice(format!("{} was there already and is left alone", path.display())));
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(_) => {
                std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
                files::write(path, MARKER_TEXT.as_bytes(), 0o644)
            }
        },
        Effect::ReloadUnits | Effect::ReloadUdev | Effect::ReloadBus => reload(effect),
    }
}

/// Undoes one effect.
///
/// # Errors
/// When the host refuses.
#[context("Undoing {effect:?}")]
pub fn undo(_lock: &HostLock, effect: &Effect) -> Result<()> {
    match effect {
        Effect::MarkUnlocked { path } => {
            if std::fs::read_to_string(path).is_ok_and(|text| text == MARKER_TEXT) {
                files::remove(path)?;
                if let Some(dir) = path.parent() {
                    // Only when nothing else is in it: libostree keeps other marks there.
                    let _ = std::fs::remove_dir(dir);
                }
            }
            Ok(())
        }
        Effect::ReloadUnits | Effect::ReloadUdev | Effect::ReloadBus => reload(effect),
    }
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
        Effect::MarkUnlocked { .. } => return Ok(()),
    };
    if !Path::new(runs).exists() {
        return Ok(());
    }
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
