//! The errors a caller can choose on: each has a code, an exit status and a hint apart from the message.
//! Everything else is an ordinary error and exits with 1.

use serde::{Deserialize, Serialize};

/// A named case with an exit status of its own. The numbers are part of the contract: never reuse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Code {
    /// Anything without a name of its own.
    Failed = 1,
    /// The command line or a configuration file is wrong.
    Usage = 2,
    /// The host was not booted from an ostree deployment.
    NotOstreeHost = 64,
    /// The caller is not root.
    NotRoot = 65,
    /// The host's mount namespace cannot be reached, or would not see the result.
    NamespaceUnreachable = 66,
    /// The kernel's overlay stacking limit would be exceeded.
    StackingDepth = 67,
    /// Somebody else's mount is on `/usr`, or below it.
    ForeignMount = 68,
    /// A signature is missing, bad or by an unknown key.
    Untrusted = 69,
    /// A file of the layer is in use.
    InUse = 70,
    /// Not enough memory or inodes in the store.
    NoSpace = 71,
    /// A base package would have to change.
    BaseConflict = 72,
    /// Another transaction holds the lock.
    Locked = 73,
    /// No package matches the request.
    NotFound = 74,
    /// A repository or a download failed.
    Repository = 75,
    /// A file does not have the checksum that its source promises.
    Checksum = 76,
    /// Nothing changed, and `--unchanged-exit-77` was given.
    Unchanged = 77,
    /// Admission refused a package.
    Refused = 78,
    /// The base already has what was asked for.
    AlreadyProvided = 79,
    /// A scriptlet failed.
    Scriptlet = 80,
    /// Two packages, or a package and the base, own one path with different content.
    FileConflict = 81,
    /// The request has no solution.
    Unsolvable = 82,
    /// State under `/run/rpm-ostree-transient` is damaged or foreign.
    StateDamaged = 83,
    /// `verify` found something that does not hold.
    NotAsPromised = 84,
    /// `apply` refused a declaration; all others are applied.
    Declaration = 90,
    /// Interrupted by a signal before anything changed.
    Interrupted = 130,
}

impl Code {
    /// The process exit status for this case.
    pub fn exit_status(self) -> u8 {
        self as u8
    }
}

/// The document on stdout when a command with `--json` fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorDocument {
    /// What failed.
    pub error: ErrorBody,
}

/// A failure for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorBody {
    /// The named case.
    pub code: Code,
    /// One line.
    pub message: String,
    /// What led to it, outermost first.
    pub causes: Vec<String>,
    /// The way out.
    pub hint: Option<String>,
}

/// One line that says what failed, where, and both sides of a mismatch; the way out is in `hint`.
#[derive(Debug, Clone, thiserror::Error, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[error("{message}")]
pub struct Failure {
    /// The named case.
    pub code: Code,
    /// One line without a full stop.
    pub message: String,
    /// The next thing to do, when there is one.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Failure { code, message: message.into(), hint: None }
    }

    /// The same failure with the way out.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
