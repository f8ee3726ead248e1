//! Putting overlays of ours on `/usr` and taking them off. Each step is one call, and between any two of them `/usr`
//! shows one whole generation. The order of the calls is what keeps promises 1 and 2; see DESIGN.md section 4.

use super::{SOURCE_PREFIX, USR, UsrMounts, sys};
use crate::files;
use crate::generation::RUN_DIR;
use crate::lock::HostLock;
use anyhow::{Context as _, Result};
use fn_error_context::context;
use model::status::SwapMethod;
use model::{Code, Failure};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Which way a new overlay may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Way {
    /// Beneath the old one where the kernel can, else on top.
    #[default]
    Best,
    /// On top always, as on kernels before 6.5. For tests.
    Stack,
}

/// Says that older overlays of ours below the visible one are meant to be there, and not what a crash left.
fn stacked_marker() -> PathBuf {
    Path::new(RUN_DIR).join("stacked")
}

/// See [`super::activate`].
///
/// # Errors
/// From the kernel, with the call that failed; the old state is back then.
#[context("Activating generation {generation}")]
pub fn activate(_lock: &HostLock, generation: u64, layers: &[PathBuf], base: &Path, way: Way) -> Result<SwapMethod> {
    let usr = Path::new(USR);
    let before = UsrMounts::read()?;
    before.refuse_foreign()?;
    let lowerdirs: Vec<&Path> = layers.iter().map(PathBuf::as_path).chain([base]).collect();
    let new = sys::overlay(&format!("{SOURCE_PREFIX}{generation}"), &lowerdirs, super::attributes()?)?;
    if let (Some(&old), Way::Best) = (before.ours.last(), way) {
        // Kept for the way back: once the old top is detached nothing else holds its overlay.
        let way_back = sys::clone_tree(usr)?;
        match new.attach_beneath(usr) {
            Ok(()) => {
                detach_ours(old)?;
                if let Err(error) = check_from_outside(generation) {
                    way_back.attach_beneath(usr).context("Bringing the old generation back")?;
                    detach_ours(generation)?;
                    return Err(error);
                }
                return Ok(UsrMounts::read()?.swap_method());
            }
            Err(Errno::INVAL | Errno::NOSYS) => {}
            Err(errno) => return Err(errno).context("Attaching beneath the visible overlay"),
        }
    }
    if !before.ours.is_empty() {
        files::write(&stacked_marker(), b"", 0o644)?;
    }
    new.attach(usr).context("Attaching on /usr")?;
    if let Err(error) = check_from_outside(generation) {
        detach_ours(generation)?;
        return Err(error);
    }
    Ok(UsrMounts::read()?.swap_method())
}

/// Success is what the host sees, not what this process sees: PID 1 must have the new overlay.
fn check_from_outside(generation: u64) -> Result<()> {
    let seen = UsrMounts::of("1")?.live();
    if seen == generation {
        return Ok(());
    }
    let message = format!(
        "generation {generation} was mounted on /usr, but PID 1 still sees {}: the mount does not propagate to the \
         host, because this process is in a mount namespace whose / is private",
        if seen == 0 { "the base".to_owned() } else { format!("generation {seen}") }
    );
    Err(Failure::new(Code::NamespaceUnreachable, message)
        .hint("run it in the host's own namespace: nsenter -t 1 -m; in a container with --pid=host")
        .into())
}

/// Detaches the visible overlay, after proving that it is ours and which one.
fn detach_ours(generation: u64) -> Result<()> {
    let now = UsrMounts::read()?;
    now.refuse_foreign()?;
    anyhow::ensure!(
        now.live() == generation,
        "generation {} is on /usr, where generation {generation} was expected; nothing was detached",
        now.live()
    );
    sys::detach(Path::new(USR))
}

/// See [`super::detach_all`].
///
/// # Errors
/// [`Code::ForeignMount`] when somebody else's mount lies on ours; from the kernel.
#[context("Detaching our overlays from /usr")]
pub fn detach_all(_lock: &HostLock) -> Result<()> {
    peel_to(0)?;
    files::remove(&stacked_marker())
}

/// See [`super::settle_stack`].
///
/// # Errors
/// As [`detach_all`].
#[context("Settling the overlays on /usr")]
pub fn settle_stack(_lock: &HostLock) -> Result<u64> {
    if !stacked_marker().exists() {
        peel_to(1)?;
    }
    Ok(UsrMounts::read()?.live())
}

/// Detaches overlays of ours from the top until `keep` are left.
fn peel_to(keep: usize) -> Result<()> {
    let mut before = UsrMounts::read()?;
    while before.ours.len() > keep {
        detach_ours(before.live())?;
        let after = UsrMounts::read()?;
        anyhow::ensure!(after.ours.len() < before.ours.len(), "the overlay on /usr did not go away");
        before = after;
    }
    Ok(())
}
