//! Typed changes of the host outside `/usr`, and what was left undone. Every effect has its undo in
//! `engine::settle`, and is journaled before it happens.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// One change outside the layer. What persists on disk is a symlink into `/run` or `/usr`, an empty directory or file
/// below a mount, or the cleaner that removes those at the next boot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Effect {
    /// `/run/ostree/deployment-state/CSUM.SERIAL/unlocked-transient`, while a generation is live.
    MarkUnlocked {
        /// Absolute path of the marker.
        path: PathBuf,
    },
    /// A unit that removes, at the next boot, whatever a power cut kept from being removed in order.
    Cleaner {
        /// The unit file.
        path: PathBuf,
    },
    /// A symlink in `/etc`, `/var` or `/opt` to a live copy or to a directory of the layer.
    Link {
        /// Where the symlink is.
        path: PathBuf,
        /// What it holds.
        target: PathBuf,
    },
    /// A bind mount over an empty directory or file that was made for it, or over a file of the host.
    Mount {
        /// The mount point.
        path: PathBuf,
        /// What is seen there.
        source: PathBuf,
        /// True when the mount point is ours: made before, removed afterwards if still empty.
        made: bool,
    },
    /// A directory below `/run`.
    RunDirectory {
        /// Its path.
        path: PathBuf,
        /// Permission bits.
        mode: u32,
        /// Numerical owner.
        uid: u32,
        /// Numerical group.
        gid: u32,
    },
    /// A link below `/run/systemd/system` that enables a unit until reboot.
    EnableUnit {
        /// Where the link is.
        path: PathBuf,
        /// The unit file it points to.
        target: PathBuf,
    },
    /// One `systemctl daemon-reload`, because the layer has units.
    ReloadUnits,
    /// `udevadm control --reload`, because the layer has udev rules.
    ReloadUdev,
    /// D-Bus `ReloadConfig`, because the layer has bus policy or services.
    ReloadBus,
    /// A unit that was started (`--now`, or our own shutdown unit); stopped when the effect is undone.
    StartUnit {
        /// Its name.
        unit: String,
    },
}

impl Effect {
    /// The path that changes on the host; none for messages to services.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Effect::MarkUnlocked { path }
            | Effect::Cleaner { path }
            | Effect::Link { path, .. }
            | Effect::Mount { path, .. }
            | Effect::RunDirectory { path, .. }
            | Effect::EnableUnit { path, .. } => Some(path),
            Effect::ReloadUnits | Effect::ReloadUdev | Effect::ReloadBus | Effect::StartUnit { .. } => None,
        }
    }
}

/// An effect with whoever caused it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AttributedEffect {
    /// What changes.
    #[serde(flatten)]
    pub effect: Effect,
    /// Its cause, when there is one.
    #[serde(flatten)]
    pub cause: Cause,
}

impl From<Effect> for AttributedEffect {
    fn from(effect: Effect) -> Self {
        AttributedEffect { effect, cause: Cause::default() }
    }
}

/// The package, and the scriptlet when it was one, that brought something.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cause {
    /// `NAME-VERSION-RELEASE.ARCH`, when it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// The scriptlet slot (`post`, `posttrans`, …); none for the package's own files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
}

/// Something a scriptlet tried, or a package ships, that the live host did not get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotApplied {
    /// The package, when it is known.
    pub package: Option<String>,
    /// The scriptlet slot (`post`, `posttrans`, …), when it is known.
    pub slot: Option<String>,
    /// What was tried: a path or a command.
    pub what: String,
}

/// A path outside `/usr` that the sandbox changed and the host did not get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SkippedPath {
    /// Absolute path on the host.
    pub path: PathBuf,
    /// Why it was skipped.
    pub reason: String,
    /// Who changed it, when it is known.
    #[serde(flatten)]
    pub cause: Cause,
}
