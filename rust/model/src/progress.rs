//! How the engine tells what it is doing. The engine never prints; a front end implements [`Progress`].

/// A step of the pipeline, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
