//! The right to change the host. Only taking the lock gives a [`HostLock`]; every function that changes
//! the host takes one by reference. The lock file is opened, never replaced: a second file under the same name would be
//! a second lock.

use crate::generation::RUN_DIR;
use anyhow::{Context as _, Result};
use fn_error_context::context;
use model::{Code, Failure};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

/// Name of the lock file in [`RUN_DIR`].
pub const LOCK_NAME: &str = "lock";

/// How often a waiting caller asks for the lock.
const POLL: Duration = Duration::from_millis(100);

/// Proof that this process holds `/run/rpm-ostree-transient/lock`. Dropped, it lets the next caller in.
#[derive(Debug)]
pub struct HostLock {
    file: File,
}

impl HostLock {
    /// Takes the lock (flock on a file that is opened, never replaced, and holds pid and command of its owner).
    /// `on_wait` is called with the holder's "pid N (command)" ten times a second while it waits, and ends the wait by
    /// returning false.
    ///
    /// # Errors
    /// [`model::Code::Locked`], naming the holder, when it is held and `wait` is false; [`model::Code::Interrupted`] when
    /// `on_wait` ended the wait.
    #[context("Taking the lock in {RUN_DIR}")]
    pub fn take(wait: bool, command: &str, on_wait: &dyn Fn(&str) -> bool) -> Result<HostLock> {
        make_run_dir()?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            // Whoever can open it can hold it: no other user must.
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
            .open(Path::new(RUN_DIR).join(LOCK_NAME))?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        // Asked again and again instead of blocking, so that a signal ends the wait at once.
        while let Err(errno) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if errno != Errno::WOULDBLOCK {
                return Err(errno.into());
            }
            let holder = holder(&mut file);
            if !wait {
                let message = format!("{holder} holds the lock");
                return Err(Failure::new(Code::Locked, message).hint("try again when it has ended").into());
            }
            if !on_wait(&holder) {
                return Err(Failure::new(Code::Interrupted, "interrupted while waiting for the lock").into());
            }
            std::thread::sleep(POLL);
        }
        // One line, whatever the command holds: readers take the first line.
        let command = command.replace(['\n', '\0'], " ");
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{} {command}", std::process::id())?;
        Ok(HostLock { file })
    }
}

impl Drop for HostLock {
    fn drop(&mut self) {
        // A name that stays would only be shown in a short race; nothing depends on it.
        let _ = self.file.set_len(0);
    }
}

/// "pid N (command)" of the holder, as far as the file tells.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
    let line = text.lines().next().unwrap_or("");
    match (read, line.split_once(' ')) {
        (Ok(_), Some((pid, command))) if !pid.is_empty() => format!("pid {pid} ({command})"),
        _ => "another process".into(),
    }
}

/// Makes our directory, 0755 whatever the umask, and refuses one that somebody else prepared.
fn make_run_dir() -> Result<()> {
    match DirBuilder::new().mode(0o755).create(RUN_DIR) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
        Err(e) => return Err(e).with_context(|| format!("Creating {RUN_DIR}")),
    }
    let found = std::fs::symlink_metadata(RUN_DIR)?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        let message = format!("{RUN_DIR} is not a directory of ours");
        return Err(Failure::new(Code::StateDamaged, message).hint("look at it and remove it").into());
    }
    if found.mode() & 0o7777 != 0o755 {
        std::fs::set_permissions(RUN_DIR, Permissions::from_mode(0o755))?;
    }
    Ok(())
}
