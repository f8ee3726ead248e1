//! The worker's side. The outer process enters new namespaces and copies itself, as init of the new pid namespace; that
//! one builds the sandbox, gives up its privileges and runs librpm. When the parent dies, the kernel kills the outer
//! process, then init, and with init everything that a scriptlet may have left running.

use super::parent::last_lines;
use super::trace::Trace;
use super::wrappers::{self, Calls};
use super::{Findings, Layout, Message, Order, Spec, finish, rpmdb, sandbox};
use anyhow::{Context as _, Result, bail};
use bridge::librpm::{Outcome, Problem, ProblemKind, Step, Transaction};
use bridge::process::Fork;
use model::{Cause, Code, Failure, NotApplied};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// The worker: reads its order from stdin, writes [`Message`]s to stdout. Returns the exit status. The process must
/// have one thread.
pub fn worker_main() -> u8 {
    match outer() {
        Ok(status) => status,
        Err(error) => {
            let message = match error.downcast::<Failure>() {
                Ok(failure) => Message::Failed { failure },
                Err(error) => Message::Broken { error: format!("{error:#}") },
            };
            // A parent that is gone has no use for it.
            let _ = send(&mut std::io::stdout(), &message);
            1
        }
    }
}

fn send(to: &mut impl Write, message: &Message) -> Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()?;
    Ok(())
}

/// Reads the order, having asked to die with whoever gave it.
fn order() -> Result<Order> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut line = Vec::new();
    BufReader::new(std::io::stdin()).read_until(b'\n', &mut line)?;
    serde_json::from_slice(&line).context("Reading the order")
}

fn outer() -> Result<u8> {
    let order = order()?;
    let parent = rustix::process::getppid().map(|p| p.as_raw_nonzero().get().unsigned_abs());
    anyhow::ensure!(parent == Some(order.parent), "the parent is gone");
    use rustix::thread::UnshareFlags as Flags;
    let flags = Flags::NEWNS | Flags::NEWPID | Flags::NEWIPC | Flags::NEWUTS | Flags::NEWNET;
    #[expect(
        deprecated,
        reason = "its successor is unsafe for the sake of UnshareFlags::FILES, which is not among these"
    )]
    rustix::thread::unshare(flags).context("Entering new namespaces")?;
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::stdio::dup2_stdin(read)?;
    // Descriptors that a caller of ours left open lead out of the sandbox: init has none of them.
    let pid = match bridge::process::fork_with_stdio().context("Starting the sandbox's init")? {
        Fork::Parent(pid) => pid,
        Fork::Child => {
            std::mem::forget(write);
            return init(&order.spec);
        }
    };
    send(&mut std::io::stdout(), &Message::Init { pid })?;
    let mut pipe = File::from(write);
    pipe.write_all(b"\n")?;
    let status = waitpid(Pid::from_raw(pid), WaitOptions::empty())?;
    // Kept open to the end: its end tells init that this process is gone.
    drop(pipe);
    let status = status.and_then(|(_, s)| s.exit_status());
    Ok(status.and_then(|s| u8::try_from(s).ok()).unwrap_or(1))
}

fn init(spec: &Spec) -> Result<u8> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let stdin = std::io::stdin();
    // Nothing is said before the parent knows whom to kill.
    anyhow::ensure!(rustix::io::read(&stdin, &mut [0; 1])? == 1, "the parent is gone");
    // The outer process may have died before the kernel knew that we want to die with it.
    let mut fds = [PollFd::new(&stdin, PollFlags::empty())];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    anyhow::ensure!(!fds[0].revents().contains(PollFlags::HUP), "the parent is gone");
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    // Without a controlling terminal, /dev/tty is not that of the user, where a scriptlet could type.
    rustix::process::setsid()?;

    let layout = Layout::new(&spec.work);
    // Our end of the pipe moves to a descriptor that no scriptlet inherits.
    let mut messages = File::from(rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 3)?);
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    let result = transaction(spec, &layout, &mut messages).map_err(name_lack_of_space);
    let (message, status) = match result {
        Ok(findings) => (Message::Done { findings }, 0),
        Err(error) => match error.downcast::<Failure>() {
            Ok(failure) => (Message::Failed { failure }, 1),
            Err(error) => (Message::Broken { error: format!("{error:#}") }, 1),
        },
    };
    send(&mut messages, &message)?;
    Ok(status)
}

/// A package file, opened before the host's file system goes out of sight.
fn open_package(path: &PathBuf) -> Result<(OwnedFd, PathBuf)> {
    let file = OwnedFd::from(File::open(path).with_context(|| format!("Opening {}", path.display()))?);
    let name = Path::new("/proc/self/fd").join(file.as_raw_fd().to_string());
    Ok((file, name))
}

fn transaction(spec: &Spec, layout: &Layout, messages: &mut File) -> Result<Findings> {
    let packages: Vec<(OwnedFd, PathBuf)> = spec.install.iter().map(open_package).collect::<Result<_>>()?;
    let log = OpenOptions::new().create(true).append(true).read(true).open(layout.scriptlet_log())?;
    // Lua scriptlets run in this process.
    rustix::stdio::dup2_stdout(&log)?;
    let root = sandbox::enter(spec)?;
    sandbox::confine(spec.timeout)?;
    let mut not_applied: Vec<NotApplied> = finish::sysusers(&spec.sysusers)?.into_iter().collect();

    wrappers::search_path()?;
    // This plugin wants mounts of its own for each scriptlet, which a sandbox without CAP_SYS_ADMIN refuses: every scriptlet
    // would end with 126. What it is for, no network and private directories, the sandbox gives.
    bridge::librpm::define_macro("__transaction_unshare %{nil}")?;
    let database = rpmdb::Before::look()?;

    let mut run = Run {
        messages,
        log: &log,
        read: 0,
        lines: String::new(),
        failed: None,
        unpack: None,
        warnings: Vec::new(),
        trace: Trace::new(&["etc", "var"]),
        calls: Calls::default(),
        sent: 0,
    };
    {
        let mut transaction = Transaction::new()?;
        for ((_, path), shown) in packages.iter().zip(&spec.install) {
            // librpm only knows the descriptor's name.
            transaction.install(path).map_err(|e| {
                anyhow::anyhow!("{}", format!("{e:#}").replace(&*path.to_string_lossy(), &shown.to_string_lossy()))
            })?;
        }
        for nevra in &spec.remove {
            transaction.erase(nevra)?;
        }
        if !spec.no_deps {
            refuse(&transaction.check()?)?;
        }
        let outcome = transaction.run(spec.replace_files, Some(log.as_fd()), &mut |step| run.step(step))?;
        if let Some(failure) = run.failed.take() {
            return Err(failure.into());
        }
        match outcome {
            Outcome::Done => {}
            Outcome::Problems(problems) => refuse(&problems)?,
            Outcome::Failed(reason) => return Err(run.unpack.take().unwrap_or_else(|| failed(&reason)).into()),
        }
    }
    database.settle()?;
    run.trace.look(None);
    run.called(None, None);
    not_applied.append(&mut run.warnings);
    not_applied.extend(finish::tmpfiles()?);
    not_applied.extend(finish::linker_cache(spec.linker_cache)?);
    not_applied.extend(finish::modules()?);
    // Only when nothing was packaged for /opt.
    let _ = std::fs::remove_dir("/usr/lib/opt");
    let (run_directories, other) = finish::run_directories()?;
    not_applied.extend(other);
    for path in root.lost()? {
        not_applied.push(NotApplied { package: None, slot: None, what: format!("created {}", path.display()) });
    }
    Ok(Findings { not_applied, causes: run.trace.causes(), run: run_directories })
}

/// Not every part of librpm says why it could not write; the file system knows. In the sandbox, `/usr` tells about the
/// upper directory.
fn name_lack_of_space(error: anyhow::Error) -> anyhow::Error {
    const SCARCE: u64 = 256 * 1024;
    let named = error.downcast_ref::<Failure>().is_some_and(|f| f.code != Code::Failed);
    match rustix::fs::statvfs("/usr") {
        Ok(s)
            if !named && s.f_blocks > 0 && (s.f_bavail * s.f_frsize < SCARCE || (s.f_files > 0 && s.f_ffree == 0)) =>
        {
            let message = format!("the sandbox's memory is full: {error:#}");
            Failure::new(Code::NoSpace, message).into()
        }
        _ => error,
    }
}

/// A run that ended in the middle.
fn failed(reason: &str) -> Failure {
    let code = match reason {
        _ if reason.contains("No space left on device") => Code::NoSpace,
        // librpm's words for a file whose digest is another than the header says.
        _ if reason.contains("Digest mismatch") => Code::Checksum,
        _ => Code::Failed,
    };
    Failure::new(code, format!("the RPM transaction failed: {reason}"))
}

/// librpm writes `NAME;01234567` before it renames that to `NAME`, which is the one that people know.
fn final_names(reason: &str) -> String {
    let mut pieces = reason.split(';');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.split_at_checked(8) {
            Some((number, rest)) if number.chars().all(|c| c.is_ascii_hexdigit()) => text.push_str(rest),
            _ => text.extend([";", piece]),
        }
    }
    text
}

/// Fails when there are problems. The gravest kind gives the code.
fn refuse(problems: &[Problem]) -> Result<()> {
    const SHOWN: usize = 5;
    let order = [
        (ProblemKind::Digest, Code::Checksum),
        (ProblemKind::Space, Code::NoSpace),
        (ProblemKind::FileConflict, Code::FileConflict),
        (ProblemKind::Dependency, Code::Unsolvable),
        (ProblemKind::Other, Code::Failed),
    ];
    for (kind, code) in order {
        let texts: Vec<&str> = problems.iter().filter(|p| p.kind == kind).map(|p| p.text.as_str()).collect();
        if texts.is_empty() {
            continue;
        }
        let mut message = texts[..texts.len().min(SHOWN)].join("; ");
        if texts.len() > SHOWN {
            message.push_str(&format!("; and {} more", texts.len() - SHOWN));
        }
        let failure = Failure::new(code, message);
        bail!(match code {
            Code::FileConflict => failure.hint("--force-replacefiles lets the new file win"),
            _ => failure,
        });
    }
    Ok(())
}

/// What is seen and kept while librpm runs.
struct Run<'a> {
    messages: &'a mut File,
    log: &'a File,
    /// How much of the log was sent.
    read: u64,
    /// What the last scriptlet printed.
    lines: String,
    /// The first scriptlet that kept its package out.
    failed: Option<Failure>,
    /// The first package that could not be unpacked.
    unpack: Option<Failure>,
    warnings: Vec<NotApplied>,
    trace: Trace,
    calls: Calls,
    /// Bytes of the running package at the last message.
    sent: u64,
}

impl Run<'_> {
    fn step(&mut self, step: Step) {
        match step {
            Step::Unpack { package, done, total } => {
                // librpm calls for each piece of a file; sixty-four messages a package are plenty.
                if done < self.sent || done == total || done - self.sent >= total / 64 {
                    self.sent = done;
                    self.tell(&Message::Bytes { what: package, done, total });
                }
            }
            Step::Erase { .. } => {}
            // Failed scriptlets, which librpm warns of as well, have a step of their own.
            Step::Warning { text } => {
                let what = text.strip_prefix("warning: ").unwrap_or(&text).to_owned();
                let known = self.warnings.iter().any(|w| w.what == what);
                if what.contains("does not exist - using root") && !known {
                    self.warnings.push(NotApplied { package: None, slot: None, what });
                }
            }
            Step::ScriptletStart { package, slot } => {
                self.lines.clear();
                self.trace.look(None);
                let log_at = self.log.metadata().map_or(self.read, |m| m.len());
                self.tell(&Message::Scriptlet { package, slot, log_at });
            }
            Step::ScriptletStop { package, slot } => {
                self.tell(&Message::ScriptletEnd);
                self.trace.look(Some(&Cause { package: Some(package.clone()), slot: Some(slot.clone()) }));
                self.called(Some(&package), Some(&slot));
                self.lines = self.printed();
                for line in self.lines.clone().lines() {
                    self.tell(&Message::Line { package: package.clone(), line: line.to_owned() });
                }
            }
            Step::ScriptletFailed { package, slot, fatal, status } => {
                let last = last_lines(&self.lines);
                if fatal {
                    let text = format!("scriptlet %{slot} of {package} failed with {status}{last}");
                    self.failed.get_or_insert(Failure::new(Code::Scriptlet, text));
                } else {
                    let what = format!("scriptlet failed with {status}{last}");
                    self.warnings.push(NotApplied { package: Some(package), slot: Some(slot), what });
                }
            }
            Step::UnpackFailed { package, reason } => {
                let reason = final_names(&reason);
                let mut failure = failed(&reason);
                failure.message = format!("{package} cannot be unpacked: {reason}");
                self.unpack.get_or_insert(failure);
            }
        }
    }

    /// Keeps the commands for the running host that were called since the last time.
    fn called(&mut self, package: Option<&str>, slot: Option<&str>) {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        for what in self.calls.new_ones() {
            self.warnings.push(NotApplied { package: owned(package), slot: owned(slot), what });
        }
    }

    fn tell(&mut self, message: &Message) {
        // A parent that is gone takes us along; there is nobody to tell about a closed pipe.
        let _ = send(self.messages, message);
    }

    /// What was printed since the last call. Only the end of very long output is kept.
    fn printed(&mut self) -> String {
        const MOST: u64 = 256 * 1024;
        let end = self.log.metadata().map_or(self.read, |m| m.len());
        let start = self.read.max(end.saturating_sub(MOST));
        self.read = end;
        let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(0)];
        match self.log.read_exact_at(&mut bytes, start) {
            Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(_) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_messages_are_the_final_ones() {
        for (said, shown) in [
            (
                "failed on file /usr/bin/x;6b0de4f7: cpio: Digest mismatch",
                "failed on file /usr/bin/x: cpio: Digest mismatch",
            ),
            ("on /usr/a;b;0123abcd", "on /usr/a;b"),
            ("one; two;", "one; two;"),
            ("", ""),
        ] {
            assert_eq!(final_names(said), shown);
        }
    }

    #[test]
    fn a_failed_run_has_the_code_of_its_reason() {
        assert_eq!(failed("cpio: Digest mismatch").code, Code::Checksum);
        assert_eq!(failed("cpio: write failed - No space left on device").code, Code::NoSpace);
        assert_eq!(failed("cpio: Bad magic").code, Code::Failed);
    }
}
