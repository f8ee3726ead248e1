//! Declarations: what owners ask for in drop-in files, and the document of `apply`. Reading and parsing the files is the
//! work of `engine::declare`.

use crate::failure::ErrorBody;
use crate::manifest::Manifest;
use crate::plan::Plan;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The owner of what was asked for on the command line. No declaration may use the name.
pub const ADMIN: &str = "admin";

/// How long an object is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// As long as its file is there.
    #[default]
    File,
    /// Only while the container with this full id exists as well.
    Container(String),
}

/// One drop-in file that says something valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declaration {
    /// Where it was read.
    pub file: PathBuf,
    /// Who wants it.
    pub owner: String,
    /// How long.
    pub lifetime: Lifetime,
    /// Packages, as they would be typed after `install`; local files as absolute paths.
    pub packages: Vec<String>,
}

/// All that is declared, as a request carries it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declared {
    /// Each word with its owners. A word that is missing here and has no [`ADMIN`] is asked for no longer.
    pub owners: BTreeMap<String, BTreeSet<String>>,
}

/// What became of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ObjectState {
    /// The host has it (in a dry run: would have it).
    Applied,
    /// It is bad, and the host does not have it; `error` says why.
    Refused,
    /// The container that it belongs to does not exist.
    Expired,
}

/// One drop-in file as `apply` found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DeclaredObject {
    /// The file.
    pub file: PathBuf,
    /// Its owner; none when the file does not even tell that.
    pub owner: Option<String>,
    /// What became of it.
    pub state: ObjectState,
    /// The packages that it names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<String>,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
}

/// The document of `apply --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Application {
    /// Always [`crate::status::API_VERSION`].
    pub api_version: String,
    /// `Application`.
    pub kind: String,
    /// False for `--dry-run` and when the host already was as declared.
    pub changed: bool,
    /// Live generation afterwards.
    pub generation: u64,
    /// Every declaration that is neither masked nor overridden, in the order of their file names.
    pub objects: Vec<DeclaredObject>,
    /// What was (or would be) done.
    pub plan: Plan,
    /// The generation that came out, when one did.
    pub manifest: Option<Manifest>,
}

impl Application {
    /// True when an object was refused.
    pub fn has_refused(&self) -> bool {
        self.objects.iter().any(|o| o.state == ObjectState::Refused)
    }
}
