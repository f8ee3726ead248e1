//! Where text goes: results to stdout, failures and notices to stderr, and with `--json` one document on stdout
//! whatever happens. The only module of the program that writes to the standard streams, beside [`crate::progress`].

use crate::exit::Report;
use anyhow::Result;
use serde::Serialize;
use std::io::{ErrorKind, IsTerminal as _, Write as _};

/// The standard streams of one command.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    json: bool,
}

impl Output {
    /// `json` is true when stdout carries JSON only.
    pub fn new(json: bool) -> Output {
        Output { json }
    }

    /// True when stdout carries JSON only.
    pub fn json(&self) -> bool {
        self.json
    }

    /// Writes the document, or the text that `text` makes of it.
    ///
    /// # Errors
    /// When stdout cannot be written (a full disk); a reader that went away is no error.
    pub fn document<T: Serialize>(&self, document: &T, text: impl FnOnce(&T) -> String) -> Result<()> {
        if self.json {
            self.stdout(&(serde_json::to_string_pretty(document)? + "\n"))
        } else {
            self.stdout(&text(document))
        }
    }

    /// Writes to stdout as it is.
    ///
    /// # Errors
    /// As [`Output::document`].
    pub fn stdout(&self, text: &str) -> Result<()> {
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(e) if e.kind() != ErrorKind::BrokenPipe => {
                Err(anyhow::Error::from(e).context("Writing to standard output"))
            }
            _ => Ok(()),
        }
    }

    /// Shows a failure in its place. There is nowhere to tell that this failed in turn.
    pub fn failure(&self, report: &Report) {
        if self.json {
            let text = serde_json::to_string_pretty(&report.json()).unwrap_or_default();
            let _ = self.stdout(&(text + "\n"));
        } else {
            let _ = std::io::stderr().write_all(report.text(stderr_colour()).as_bytes());
        }
    }

    /// One line on stderr that is no failure.
    pub fn warning(&self, line: &str) {
        let _ = writeln!(std::io::stderr(), "warning: {line}");
    }
}

/// Colour only for people, and only for those who want it (no-color.org).
fn stderr_colour() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}
