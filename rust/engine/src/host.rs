//! Facts about the running host: is it ostree-booted, which deployment, which boot, which architecture.
//! Reads only. Nothing here changes the host.

use anyhow::Result;
use model::status::Deployment;

/// What the other steps need to know of the host.
#[derive(Debug, Clone)]
pub struct Host {
    /// The booted deployment.
    pub deployment: Deployment,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// Device and inode of `/`, which change with a soft reboot.
    pub root_id: (u64, u64),
    /// RPM's name of the machine's architecture (`x86_64`).
    pub arch: String,
}

impl Host {
    /// Looks at the host that this process runs on.
    ///
    /// # Errors
    /// [`model::Code::NotOstreeHost`] when `/run/ostree-booted` or a booted deployment is missing.
    pub fn detect() -> Result<Host> {
        anyhow::bail!("not built yet")
    }
}

/// Refuses callers without root, in one line.
///
/// # Errors
/// [`model::Code::NotRoot`].
pub fn require_root() -> Result<()> {
    anyhow::bail!("not built yet")
}

/// Refuses when this process does not share PID 1's mount namespace: what we mount would not be seen.
///
/// # Errors
/// [`model::Code::NamespaceUnreachable`].
pub fn require_host_namespace() -> Result<()> {
    anyhow::bail!("not built yet")
}

/// RPM architectures that can run on `arch`, best first.
pub fn compatible_arches(_arch: &str) -> Vec<String> {
    vec![]
}
