//! The plan: ordered, printable data. `--dry-run` shows it; the driver in `engine::transaction` carries it out.

use crate::effect::AttributedEffect;
use crate::manifest::Reason;
use crate::nevra::Nevra;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What happens to one package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "kind", content = "from")]
pub enum Action {
    /// New.
    Install,
    /// Replaces an older layered package.
    Upgrade(Nevra),
    /// Replaces a newer layered package.
    Downgrade(Nevra),
    /// The same NEVRA again (a local file that differs).
    Reinstall,
}

/// A checksum as repository metadata gives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Checksum {
    /// `sha256`, `sha512`, …
    pub algorithm: String,
    /// Lower-case hexadecimal.
    pub hex: String,
}

/// Where a package file comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum PackageSource {
    /// A configured repository; `location` is relative to its base address.
    Repository {
        /// The section name in the `.repo` file.
        id: String,
        /// `href` of the package in primary metadata.
        location: String,
        /// `xml:base` of the package, when metadata gives one.
        base: Option<String>,
    },
    /// A file that is already here (a local argument, or a downloaded URL).
    File {
        /// Absolute path.
        path: PathBuf,
    },
}

impl PackageSource {
    /// The repository id, or `@commandline` as dnf calls it.
    pub fn label(&self) -> &str {
        match self {
            PackageSource::Repository { id, .. } => id,
            PackageSource::File { .. } => "@commandline",
        }
    }
}

/// One package of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlannedPackage {
    /// Its full name.
    pub nevra: Nevra,
    /// What happens to it.
    pub action: Action,
    /// Why it is in the plan.
    pub reason: Reason,
    /// Where it comes from.
    pub source: PackageSource,
    /// Bytes to download; 0 for local files.
    pub download_bytes: u64,
    /// Bytes when installed, by its header or metadata.
    pub installed_bytes: u64,
    /// Of the package file.
    pub checksum: Option<Checksum>,
}

/// The steps from the active generation to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// Packages that come in.
    pub install: Vec<PlannedPackage>,
    /// Layered packages that go (not those that are replaced).
    pub remove: Vec<Nevra>,
    /// Requests that the base or the layer already fulfils: (request, the package that does).
    pub already_provided: Vec<(String, Nevra)>,
    /// The requested packages after the plan, with the word that asked for each.
    pub requested: Vec<crate::manifest::Requested>,
    /// Changes of the host outside `/usr`.
    pub effects: Vec<AttributedEffect>,
}

impl Plan {
    /// True when nothing would change.
    pub fn is_empty(&self) -> bool {
        self.install.is_empty() && self.remove.is_empty()
    }
    /// Bytes to download.
    pub fn download_bytes(&self) -> u64 {
        self.install.iter().fold(0, |n, p| n.saturating_add(p.download_bytes))
    }
    /// Bytes that will be unpacked, by metadata.
    pub fn installed_bytes(&self) -> u64 {
        self.install.iter().fold(0, |n, p| n.saturating_add(p.installed_bytes))
    }
}
