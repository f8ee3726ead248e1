//! The overlay over `/usr`: built detached from lowerdirs only, attached in one step, swapped beneath the old one.
//! A mount is proved to be ours by its source `rpm-ostree-transient:N` before it is touched.

use crate::lock::HostLock;
use anyhow::Result;
use model::status::SwapMethod;
use std::path::{Path, PathBuf};

/// Prefix of the mount source of our overlays; the generation's number follows.
pub const SOURCE_PREFIX: &str = "rpm-ostree-transient:";

/// What is mounted on `/usr`, bottom first, and below it, read from `/proc/self/mountinfo`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsrMounts {
    /// Generations of our overlays on `/usr`, bottom first: the last one is visible.
    pub ours: Vec<u64>,
    /// Foreign overlays on `/usr`: (source, filesystem type). The deployment's own mount is not one.
    pub foreign: Vec<(String, String)>,
    /// Mount points below `/usr`.
    pub submounts: Vec<PathBuf>,
}

impl UsrMounts {
    /// Reads the mount table of this process.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn read() -> Result<UsrMounts> {
        anyhow::bail!("not built yet")
    }

    /// The generation that lookups in `/usr` see; 0 is the bare base.
    pub fn live(&self) -> u64 {
        self.ours.last().copied().unwrap_or(0)
    }
}

/// Checks, before anything changes, that an overlay of ours can be put on `/usr`: no foreign mount on it or below
/// it that would be hidden, and stacking depth left (a trial mount in a private namespace decides).
///
/// # Errors
/// [`model::Code::ForeignMount`] or [`model::Code::StackingDepth`], naming the mount and the way out.
pub fn preflight(_base: &Path) -> Result<()> {
    anyhow::bail!("not built yet")
}

/// Makes generation `generation` the visible one: builds `lowerdir+ = layers…, base` read-only and swaps it in.
/// Afterwards PID 1's view of `/usr` is checked; on any error the old state is back.
///
/// # Errors
/// From the kernel, with the call that failed.
pub fn activate(_lock: &HostLock, _generation: u64, _layers: &[PathBuf], _base: &Path) -> Result<SwapMethod> {
    anyhow::bail!("not built yet")
}

/// Detaches every overlay of ours from `/usr`, the top one first. Nothing else is ever unmounted.
///
/// # Errors
/// From the kernel.
pub fn detach_all(_lock: &HostLock) -> Result<()> {
    anyhow::bail!("not built yet")
}

impl UsrMounts {
    /// How the visible overlay got in place: `Stacked` when older ones of ours are below it.
    pub fn swap_method(&self) -> SwapMethod {
        if self.ours.len() > 1 { SwapMethod::Stacked } else { SwapMethod::Beneath }
    }
}

/// Brings a stack that a crash left (attached beneath, old top not yet detached) to one overlay by detaching the top,
/// and returns the live generation. A stack made by the fallback for old kernels is left as it is.
///
/// # Errors
/// From the kernel.
pub fn settle_stack(_lock: &HostLock) -> Result<u64> {
    anyhow::bail!("not built yet")
}
