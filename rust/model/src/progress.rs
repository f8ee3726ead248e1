//! How the engine tells what it is doing. The engine never prints; a front end implements [`Progress`]. [`Line`] is what
//! programs read of it.

use serde::{Deserialize, Serialize};

/// A step of the pipeline, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Reading repositories and solving.
    Resolve,
    /// Downloading packages.
    Fetch,
    /// Checking packages.
    Admit,
    /// The RPM transaction in the sandbox.
    Stage,
    /// Sealing the layer.
    Harvest,
    /// Swapping the overlay.
    Activate,
    /// Effects outside `/usr`.
    Settle,
}

/// Something to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A phase begins.
    Phase(Phase),
    /// Bytes moved; `total` is 0 when it is not known.
    Bytes {
        /// What is moving: a repository id or a package.
        what: String,
        /// Bytes so far.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// Items done.
    Steps {
        /// The current item.
        what: String,
        /// Items so far.
        done: u64,
        /// Items in all.
        total: u64,
    },
    /// A line that a scriptlet printed.
    Scriptlet {
        /// Which package.
        package: String,
        /// The text, without its newline.
        line: String,
    },
    /// Something the user should know, one line.
    Notice(String),
}

/// One line of `--progress-fd`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Line {
    /// Milliseconds since 1970, UTC.
    pub time: u64,
    /// What happened.
    #[serde(flatten)]
    pub kind: LineKind,
}

/// What a line tells. `start` is the first one and `done` the last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", tag = "kind")]
pub enum LineKind {
    /// The command begins.
    Start {
        /// Always [`crate::status::API_VERSION`].
        api_version: String,
        /// As typed, without secrets.
        command: String,
    },
    /// A phase begins.
    Phase {
        /// Which.
        phase: Phase,
    },
    /// Bytes moved; `total` is 0 when it is not known.
    Bytes {
        /// A repository id or a package.
        what: String,
        /// Bytes so far.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// Items done.
    Steps {
        /// The current item.
        what: String,
        /// Items so far.
        done: u64,
        /// Items in all.
        total: u64,
    },
    /// A line that a scriptlet printed.
    Scriptlet {
        /// Which package.
        package: String,
        /// Its text.
        line: String,
    },
    /// Something the user should know.
    Notice {
        /// One line.
        text: String,
    },
    /// The command ends.
    Done {
        /// Its exit status.
        status: u8,
        /// Lines that were left out, because nobody read.
        dropped: u64,
    },
}

/// Receives events. Implementations must be cheap and must not fail.
pub trait Progress: Send + Sync {
    /// Shows or records one event.
    fn event(&self, event: Event);
    /// True once the user asked to stop; long steps look at it and leave while nothing has changed.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Ignores everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn event(&self, _event: Event) {}
}
