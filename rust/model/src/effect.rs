//! Typed changes of the host outside `/usr`, and what was left undone. Every effect has its undo in
//! `engine::settle`, and is journaled before it happens.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One change outside the layer. All of them live below `/run`, or are a message to a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Effect {
    /// `/run/ostree/deployment-state/CSUM.SERIAL/unlocked-transient`, while a generation is live.
    MarkUnlocked {
        /// Absolute path of the marker.
        path: PathBuf,
    },
    /// One `systemctl daemon-reload`, because the layer has units.
    ReloadUnits,
    /// `udevadm control --reload`, because the layer has udev rules.
    ReloadUdev,
    /// D-Bus `ReloadConfig`, because the layer has bus policy or services.
    ReloadBus,
}

/// Something a scriptlet tried, or a package ships, that the live host did not get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
pub struct SkippedPath {
    /// Absolute path on the host.
    pub path: PathBuf,
    /// Why it was skipped.
    pub reason: String,
}
