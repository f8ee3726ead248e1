//! The versioned JSON contract. Fields are only ever added; a released document must parse for ever.

use crate::effect::{AttributedEffect, NotApplied, SkippedPath};
use crate::manifest::{LayeredPackage, Manifest, Requested};
use crate::plan::Plan;
use serde::{Deserialize, Serialize};

/// Value of `apiVersion` in every document.
pub const API_VERSION: &str = "rpm-ostree-transient/v1";
/// Filesystem path of the status document.
pub const STATUS_PATH: &str = "/run/rpm-ostree-transient/status.json";

/// The booted deployment as the layer sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Deployment {
    /// The ostree OS name.
    pub stateroot: String,
    /// Commit checksum.
    pub checksum: String,
    /// Deployment serial.
    pub serial: i32,
    /// `version` of the commit, when it has one.
    pub version: Option<String>,
    /// Refspec or container reference of the persistent origin.
    pub origin: Option<String>,
}

/// How the live overlay got in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SwapMethod {
    /// Attached beneath the old one, which was then detached (Linux 6.5 or newer).
    Beneath,
    /// Attached on top; older ones stay below it until reset.
    Stacked,
}

/// What was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Requests and the packages that answer them.
    pub requested: Vec<Requested>,
    /// The declarations as the last `apply` of this boot found them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declarations: Vec<crate::declaration::DeclaredObject>,
}

/// A process that sees another `/usr` than the host: it has a mount namespace of its own, made before the last change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StaleView {
    /// The systemd service that it belongs to, by the name of its cgroup; none when it is of no service.
    pub unit: Option<String>,
    /// Process id; of a service, that of one of its processes.
    pub pid: u32,
    /// Name of the program, as in `/proc/PID/comm`.
    pub command: String,
    /// The generation that it sees; 0 is the bare base.
    pub generation: u64,
}

/// What is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Layer {
    /// Live generation; 0 when nothing is layered.
    pub generation: u64,
    /// A generation that `rollback` would bring back; 0 is the bare base.
    pub rollback: Option<u64>,
    /// A generation that is live no more (soft reboot, unmounted by hand) and whose changes outside `/usr` are still there;
    /// the next change removes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_over: Option<u64>,
    /// Seconds since 1970, UTC, at which the live generation was made.
    pub since: Option<u64>,
    /// The command that made it.
    pub command: Option<String>,
    /// Packages of the layer.
    pub packages: Vec<LayeredPackage>,
    /// Files in the layer.
    pub files: u64,
    /// Bytes of memory used by the store, all generations.
    pub memory_bytes: u64,
    /// Largest size of the store in bytes.
    pub memory_limit_bytes: u64,
    /// How the overlay was swapped in.
    pub swap: Option<SwapMethod>,
    /// Who sees another generation until restarted. Looked up at the moment of asking, as root; empty for others and in
    /// the file below `/run`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stale_views: Vec<StaleView>,
    /// Changes of the host outside `/usr`, each undone with the layer.
    pub effects: Vec<AttributedEffect>,
    /// Paths that were changed in the sandbox and not on the host.
    pub skipped: Vec<SkippedPath>,
    /// What scriptlets tried in vain.
    pub not_applied: Vec<NotApplied>,
}

/// The document of `status --json`, and the file `status.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// `Status`.
    pub kind: String,
    /// Boot that this state belongs to.
    pub boot_id: String,
    /// Deployment that this state belongs to.
    pub deployment: Deployment,
    /// What was asked.
    pub spec: Spec,
    /// What is.
    pub status: Layer,
}

/// The document of `install --json` and of `--dry-run --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// `Outcome`.
    pub kind: String,
    /// False for `--dry-run`, `--download-only` and when nothing changed.
    pub changed: bool,
    /// Live generation afterwards.
    pub generation: u64,
    /// What was (or would be) done.
    pub plan: Plan,
    /// The generation that came out, when one did.
    pub manifest: Option<Manifest>,
}

/// One line of the history of this boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// Seconds since 1970, UTC.
    pub time: u64,
    /// As typed.
    pub command: String,
    /// Live generation before.
    pub from: u64,
    /// Live generation after.
    pub to: u64,
    /// Packages that came in, with what each replaced.
    pub installed: Vec<crate::plan::PlannedPackage>,
    /// Packages that went.
    pub removed: Vec<crate::nevra::Nevra>,
    /// Changes outside `/usr` that were made.
    #[serde(default)]
    pub done: Vec<AttributedEffect>,
    /// Changes outside `/usr` that were undone.
    #[serde(default)]
    pub undone: Vec<AttributedEffect>,
}

/// The document of `history --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// `History`.
    pub kind: String,
    /// Oldest first.
    pub entries: Vec<HistoryEntry>,
}

/// How one path of the layer differs from the base.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum PathChange {
    /// Not in the base.
    Added,
    /// In the base with other content or metadata.
    Changed,
}

/// One path of `diff`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PathDiff {
    /// Absolute path on the host, lossily as UTF-8.
    pub path: String,
    /// How it differs.
    pub change: PathChange,
}

/// The document of `diff --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Diff {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// `Diff`.
    pub kind: String,
    /// Packages that the base has not.
    pub packages: Vec<LayeredPackage>,
    /// Paths below `/usr`.
    pub paths: Vec<PathDiff>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Reason, Signature};
    use crate::plan::{Action, Checksum, PackageSource, PlannedPackage};
    use serde_json::Value;

    fn keys(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| {
                found.push(key.clone());
                keys(value, found);
            }),
            Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
            _ => {}
        }
    }

    /// Programs meet one spelling in every document.
    #[test]
    fn keys_are_in_camel_case() {
        let nevra: crate::Nevra = "a-1-1.noarch".parse().unwrap();
        let checksum = Some(Checksum { algorithm: "sha256".into(), hex: "00".into() });
        let package = LayeredPackage {
            nevra: nevra.clone(),
            reason: Reason::Requested,
            repository: "r".into(),
            signature: Signature::NotChecked,
            installed_bytes: 1,
            checksum: checksum.clone(),
        };
        let planned = PlannedPackage {
            nevra,
            action: Action::Install,
            reason: Reason::Requested,
            source: PackageSource::File { path: "/a.rpm".into() },
            download_bytes: 1,
            installed_bytes: 1,
            checksum,
        };
        let manifest = Manifest {
            format: 1,
            generation: 1,
            parent: None,
            created: 0,
            command: String::new(),
            requested: vec![],
            packages: vec![package],
            files: 0,
            bytes: 0,
            effects: vec![],
            skipped: vec![],
            not_applied: vec![],
        };
        let outcome = Outcome {
            api_version: API_VERSION.into(),
            kind: "Outcome".into(),
            changed: true,
            generation: 1,
            plan: Plan { install: vec![planned], ..Plan::default() },
            manifest: Some(manifest),
        };
        let mut found = Vec::new();
        keys(&serde_json::to_value(&outcome).unwrap(), &mut found);
        assert!(found.contains(&"installedBytes".to_owned()) && found.contains(&"alreadyProvided".to_owned()));
        assert!(found.iter().all(|k| !k.contains(['_', '-'])), "{found:?}");
        let text = serde_json::to_string(&outcome).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
    }
}
