//! The right to change the host. Only taking the lock gives a [`HostLock`]; every function that changes
//! the host takes one by reference.

use anyhow::Result;

/// Proof that this process holds `/run/rpm-ostree-transient/lock`. Dropped, it lets the next caller in.
#[derive(Debug)]
pub struct HostLock {
    _file: std::fs::File,
}

impl HostLock {
    /// Takes the lock (flock on a file that is opened, never replaced, and holds pid and command of its owner).
    /// `on_wait` is called once with the holder's "pid N (command)" before waiting.
    ///
    /// # Errors
    /// [`model::Code::Locked`], naming the holder, when it is held and `wait` is false.
    pub fn take(_wait: bool, _command: &str, _on_wait: &dyn Fn(&str)) -> Result<HostLock> {
        anyhow::bail!("not built yet")
    }
}
