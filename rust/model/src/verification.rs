//! The answer of `verify`: which of the promises that can be looked at hold on this host now, and what does not; and that
//! of `clean-boot`.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Something that was looked at and is not as it should be, or is worth knowing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Number of the promise: 1 read-only, 2 whole or not at all, 3 nothing left behind, 4 the persistent side is as it
    /// was, 5 rpmdb, status and tree agree.
    pub promise: u8,
    /// What is wrong, in a few words.
    pub what: String,
    /// Where: a path.
    pub place: PathBuf,
    /// How it should be.
    pub expected: String,
    /// How it is.
    pub found: String,
    /// What to do about it.
    pub way_out: String,
}

/// The document of `verify --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// Always [`crate::status::API_VERSION`].
    pub api_version: String,
    /// `Verification`.
    pub kind: String,
    /// The live generation; 0 when nothing is layered.
    pub generation: u64,
    /// True when there are no findings.
    pub holds: bool,
    /// What does not hold.
    pub findings: Vec<Finding>,
    /// What somebody else may change and has changed, such as a link that an administrator replaced by a file.
    pub notes: Vec<Finding>,
}

/// The document of `clean-boot --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Cleanup {
    /// Always [`crate::status::API_VERSION`].
    pub api_version: String,
    /// `Cleanup`.
    pub kind: String,
    /// What an earlier boot left and was removed.
    pub removed: Vec<PathBuf>,
}
