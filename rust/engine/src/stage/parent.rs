//! The parent's side: starts the worker, follows its messages, and ends it when time is up or the user asks.

use super::{Findings, Layout, Message, Order, Spec, Staged, WORKER_COMMAND, wrappers};
use anyhow::{Context as _, Result, bail};
use fn_error_context::context;
use model::{Code, Event, Failure, Progress};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How often the clock and [`Progress::cancelled`] are looked at while the worker says nothing.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// No message is longer, in bytes.
const LONGEST: usize = 4 << 20;
/// How many of a scriptlet's last lines an error shows.
const LAST_LINES: usize = 5;

/// What scriptlets find in their environment.
const ENVIRONMENT: &[(&str, &str)] = &[
    // First, commands that the host has not: see `wrappers`.
    ("PATH", "/usr/lib/rpm-ostree-transient/commands:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("HOME", "/root"),
    ("LANG", "C.UTF-8"),
    ("SHELL", "/bin/sh"),
    // systemctl then only changes files.
    ("SYSTEMD_OFFLINE", "1"),
];

#[context("Running the RPM transaction")]
pub(super) fn run(program: &Path, spec: &Spec, progress: &dyn Progress) -> Result<Staged> {
    let layout = Layout::new(&spec.work);
    fs::create_dir_all(&spec.work)?;
    let stderr = File::create(layout.worker_log())?;
    let mut child = Command::new(program)
        .arg(WORKER_COMMAND)
        .env_clear()
        .envs(ENVIRONMENT.iter().copied())
        .current_dir("/")
        // A ^C on the terminal is for us to decide on.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .with_context(|| format!("Starting {}", program.display()))?;
    let mut worker = Worker {
        stdout: child.stdout.take().context("no pipe")?,
        child,
        init: None,
        running: None,
        buffer: Vec::new(),
        deadline: Instant::now() + Duration::from_secs(spec.timeout),
    };
    let result = worker.order(spec).and_then(|()| worker.follow(&layout, spec, progress));
    if result.is_err() {
        worker.end();
    }
    let status = worker.child.wait()?;
    match result? {
        Some(Findings { not_applied, causes, run }) => {
            wrappers::forget_copies(&layout)?;
            Ok(Staged {
                usr: layout.upper("usr"),
                etc: layout.upper("etc"),
                var: layout.upper("var"),
                not_applied,
                causes,
                run,
            })
        }
        None => {
            let log = fs::read_to_string(layout.worker_log()).unwrap_or_default();
            bail!("the worker ended without a result ({status}): {}", log.trim())
        }
    }
}

/// A scriptlet that has begun and not ended.
struct Running {
    package: String,
    slot: String,
    /// Where its output begins in the log.
    log_at: u64,
}

/// The running worker. Dropped while it runs, it is killed.
struct Worker {
    child: Child,
    stdout: ChildStdout,
    /// Init of the sandbox.
    init: Option<Pid>,
    /// The running scriptlet.
    running: Option<Running>,
    /// Bytes that are not a whole line yet.
    buffer: Vec<u8>,
    deadline: Instant,
}

impl Worker {
    fn order(&mut self, spec: &Spec) -> Result<()> {
        let order = Order { parent: std::process::id(), spec: spec.clone() };
        let mut text = serde_json::to_vec(&order)?;
        text.push(b'\n');
        let mut stdin = self.child.stdin.take().context("no pipe")?;
        match stdin.write_all(&text) {
            // A worker that ended at once says why in its log, which is worth more than this error.
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => Ok(other?),
        }
    }

    /// Reads messages to the end of the pipe. Returns the result, if there was one.
    fn follow(&mut self, layout: &Layout, spec: &Spec, progress: &dyn Progress) -> Result<Option<Findings>> {
        let mut done = None;
        loop {
            if progress.cancelled() {
                return Err(Failure::new(Code::Interrupted, "interrupted; nothing was changed").into());
            }
            if Instant::now() >= self.deadline {
                return Err(self.late(layout, spec).into());
            }
            let mut fds = [PollFd::new(&self.stdout, PollFlags::IN)];
            match poll(&mut fds, Some(&TICK)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            let mut chunk = [0; 16384];
            let count = match self.stdout.read(&mut chunk) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if count == 0 {
                return Ok(done);
            }
            self.buffer.extend_from_slice(&chunk[..count]);
            anyhow::ensure!(self.buffer.len() <= LONGEST, "the worker's message is too long");
            while let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let message = serde_json::from_slice(&line).context("The worker's message")?;
                if let Some(result) = self.receive(message, progress)? {
                    done = Some(result);
                }
            }
        }
    }

    /// Takes one message. Lua scriptlets run in the worker's own process, so none of this is to be trusted: it is text
    /// to show, or ends the run.
    fn receive(&mut self, message: Message, progress: &dyn Progress) -> Result<Option<Findings>> {
        match message {
            // Only the first, which comes before anything of a package is looked at: it is killed later on.
            Message::Init { pid } if self.init.is_none() => self.init = Pid::from_raw(pid),
            Message::Init { .. } => bail!("the worker named its init twice"),
            Message::Bytes { what, done, total } => progress.event(Event::Bytes { what: plain(&what), done, total }),
            Message::Scriptlet { package, slot, log_at } => {
                self.running = Some(Running { package: plain(&package), slot: plain(&slot), log_at });
            }
            Message::ScriptletEnd => self.running = None,
            Message::Line { package, line } => {
                progress.event(Event::Scriptlet { package: plain(&package), line: plain(&line) });
            }
            Message::Done { mut findings } => {
                for one in &mut findings.not_applied {
                    one.what = plain(&one.what);
                }
                return Ok(Some(findings));
            }
            Message::Failed { mut failure } => {
                failure.message = plain(&failure.message);
                return Err(failure.into());
            }
            Message::Broken { error } => bail!("{}", plain(&error)),
        }
        Ok(None)
    }

    fn late(&self, layout: &Layout, spec: &Spec) -> Failure {
        let (what, last) = match &self.running {
            Some(Running { package, slot, log_at }) => {
                let log = tail(&layout.scriptlet_log(), *log_at).unwrap_or_default();
                (format!("scriptlet %{slot} of {package}"), plain(&last_lines(&log)))
            }
            None => ("the transaction".into(), String::new()),
        };
        Failure::new(Code::Scriptlet, format!("{what} was not done after {} seconds{last}", spec.timeout))
    }

    /// Kills everything in the sandbox, and waits until it is gone.
    fn end(&mut self) {
        // The pid is that of the worker's child, which stays a zombie, hence ours to name, until the worker reaps it.
        if let (Some(init), Ok(None)) = (self.init, self.child.try_wait()) {
            // Gone already is as good as killed.
            let _ = kill_process(init, Signal::KILL);
        } else {
            let _ = self.child.kill();
        }
        let patience = Instant::now() + Duration::from_secs(5);
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= patience {
                let _ = self.child.kill();
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The end of a file, from `start` on where that is not too much.
fn tail(path: &Path, start: u64) -> Result<String> {
    const MOST: u64 = 64 * 1024;
    let mut file = File::open(path)?;
    let start = start.max(file.metadata()?.len().saturating_sub(MOST));
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Text without control characters, which could rewrite a terminal.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || *c == '\t').collect()
}

/// `: LINE | LINE`, or nothing where nothing was printed.
pub(super) fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    if last.is_empty() { String::new() } else { format!(": {}", last.join(" | ")) }
}

#[cfg(test)]
mod tests {
    use super::{last_lines, plain};

    #[test]
    fn scriptlets_do_not_drive_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\tc\r\u{9b}1m"), "a[2Jb\tc1m");
    }

    #[test]
    fn only_the_last_lines_are_shown() {
        assert_eq!(last_lines(""), "");
        assert_eq!(last_lines("a\n\nb\n"), ": a | b");
        assert_eq!(last_lines("1\n2\n3\n4\n5\n6\n"), ": 2 | 3 | 4 | 5 | 6");
    }
}
