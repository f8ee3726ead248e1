//! The record of one generation, written before it is activated and never changed afterwards.

use crate::effect::{AttributedEffect, NotApplied, SkippedPath};
use crate::nevra::Nevra;
use serde::{Deserialize, Serialize};

/// Why a package is layered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The user asked for it.
    Requested,
    /// Something requested needs it.
    Dependency,
}

/// What is known of a package's signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Signature {
    /// Verified with this key.
    Good {
        /// Key id in lower-case hexadecimal, when the library says it.
        key: Option<String>,
    },
    /// Accepted unsigned or unchecked, because policy does not ask.
    NotChecked,
}

/// One word of the user and the package that answered it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Requested {
    /// As typed: a name, a provide, a path, or the file name of a local RPM.
    pub word: String,
    /// The name of the package that fulfils it.
    pub name: String,
    /// True when it was a local file or URL (`requested-local` in the origin).
    pub local: bool,
    /// Who asks for it: owners of declarations, and `admin` for the command line. Empty for the command line alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<String>,
}

impl Requested {
    /// True when the command line asked for it.
    pub fn by_hand(&self) -> bool {
        self.owners.is_empty() || self.owners.iter().any(|o| o == crate::declaration::ADMIN)
    }
}

/// A package of the layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LayeredPackage {
    /// Its full name.
    pub nevra: Nevra,
    /// Why it is here.
    pub reason: Reason,
    /// Repository id, or `@commandline`.
    pub repository: String,
    /// What was verified.
    pub signature: Signature,
    /// Installed bytes by its header.
    pub installed_bytes: u64,
    /// Of the package file, when it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<crate::plan::Checksum>,
}

/// A generation: base + one flat package layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Manifest {
    /// Format of this file; 1.
    pub format: u32,
    /// The number in the mount source `rpm-ostree-transient:N`.
    pub generation: u64,
    /// The generation that was live when this one was made; none for the first.
    pub parent: Option<u64>,
    /// Seconds since 1970, UTC.
    pub created: u64,
    /// The command that made it, as typed.
    pub command: String,
    /// What the user asked for, all in all.
    pub requested: Vec<Requested>,
    /// Every layered package.
    pub packages: Vec<LayeredPackage>,
    /// Files in the layer.
    pub files: u64,
    /// Bytes of file content in the layer.
    pub bytes: u64,
    /// Changes outside the layer that belong to it.
    pub effects: Vec<AttributedEffect>,
    /// Paths that were changed in the sandbox and not on the host.
    pub skipped: Vec<SkippedPath>,
    /// What scriptlets tried in vain.
    pub not_applied: Vec<NotApplied>,
}
