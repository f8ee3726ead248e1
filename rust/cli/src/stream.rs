//! `--progress-fd N`: the engine's events for programs, one JSON line each, from `start` to `done`. A reader that does not
//! read must not hold up a change of the host: what does not fit into the pipe is left out (`bytes` and `steps` at once, other
//! lines after a second), and `done` says how many lines were.

use anyhow::Result;
use model::progress::{Line, LineKind};
use model::{Code, Event, Failure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A line of this length is written to a pipe whole or not at all (`PIPE_BUF` of pipe(7)).
const LONGEST: usize = 4096;
/// How much of a text that somebody else wrote is passed on, in characters.
const TEXT: usize = 1000;
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

static STREAM: OnceLock<Stream> = OnceLock::new();

#[derive(Debug)]
struct Stream {
    file: Mutex<File>,
    dropped: AtomicU64,
}

/// Opens the descriptor and writes the first line.
///
/// # Errors
/// [`Code::Usage`] when the descriptor cannot be written to.
pub fn start(fd: u32, command: &str) -> Result<()> {
    // A new open file: O_NONBLOCK is then ours alone, and not that of whoever has the other end of a shared one.
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::CLOEXEC).bits()).unwrap_or(0);
    let opened = OpenOptions::new().append(true).custom_flags(flags).open(format!("/proc/self/fd/{fd}"));
    let file = opened.map_err(|e| Failure::new(Code::Usage, format!("--progress-fd {fd}: {e}")))?;
    let _ = STREAM.set(Stream { file: Mutex::new(file), dropped: AtomicU64::new(0) });
    send(LineKind::Start { api_version: model::status::API_VERSION.into(), command: short(command) });
    Ok(())
}

/// Passes one event on, when there is a stream.
pub fn event(event: &Event) {
    if STREAM.get().is_none() {
        return;
    }
    send(match event.clone() {
        Event::Phase(phase) => LineKind::Phase { phase },
        Event::Bytes { what, done, total } => LineKind::Bytes { what: short(&what), done, total },
        Event::Steps { what, done, total } => LineKind::Steps { what: short(&what), done, total },
        Event::Scriptlet { package, line } => LineKind::Scriptlet { package: short(&package), line: short(&line) },
        Event::Notice(text) => LineKind::Notice { text: short(&text) },
    });
}

/// Writes the last line.
pub fn done(status: u8) {
    if let Some(stream) = STREAM.get() {
        send(LineKind::Done { status, dropped: stream.dropped.load(Ordering::Relaxed) });
    }
}

fn short(text: &str) -> String {
    text.chars().take(TEXT).collect()
}

fn send(kind: LineKind) {
    let Some(stream) = STREAM.get() else { return };
    let patient = !matches!(kind, LineKind::Bytes { .. } | LineKind::Steps { .. });
    let line = Line { time: std::time::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_millis() as u64), kind };
    let mut text = serde_json::to_vec(&line).unwrap_or_default();
    text.push(b'\n');
    if text.len() > LONGEST || !stream.write(&text, patient) {
        stream.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

impl Stream {
    fn write(&self, text: &[u8], patient: bool) -> bool {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match file.write(text) {
                Ok(n) => return n == text.len(),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock && patient => {
                    let mut fds = [PollFd::new(&*file, PollFlags::OUT)];
                    if !matches!(poll(&mut fds, Some(&PATIENCE)), Ok(1..)) {
                        return false;
                    }
                }
                Err(_) => return false,
            }
        }
    }
}
