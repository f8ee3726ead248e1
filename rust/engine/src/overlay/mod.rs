//! The overlay over `/usr`: built detached from lowerdirs only, attached in one step, swapped beneath the old one.
//! A mount is proved to be ours by its source `rpm-ostree-transient:N` before it is touched. [`mountinfo`] reads the
//! mount table, [`swap`] changes it, [`sys`] has the calls; here is what the rest of the engine uses.

pub mod mountinfo;
pub mod swap;
pub(crate) mod sys;
mod views;

use crate::lock::HostLock;
use anyhow::{Context as _, Result};
use fn_error_context::context;
use model::status::SwapMethod;
use model::{Code, Failure};
use mountinfo::{Mount, Table};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, MountFlags};
use std::path::{Path, PathBuf};
pub use views::stale_views;

/// Prefix of the mount source of our overlays; the generation's number follows.
pub const SOURCE_PREFIX: &str = "rpm-ostree-transient:";

/// The directory that is covered.
pub(crate) const USR: &str = "/usr";

/// What is mounted on `/usr`, bottom first, and below it, read from `/proc/PID/mountinfo`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsrMounts {
    /// Generations of our overlays on `/usr`, bottom first: the last one is visible.
    pub ours: Vec<u64>,
    /// Foreign mounts on `/usr`: (source, filesystem type). The deployment's own mount is not one.
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
        Self::of("thread-self")
    }

    /// Reads the mount table of a process (`thread-self`, or a process id).
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn of(process: &str) -> Result<UsrMounts> {
        Ok(Self::from_table(&Table::read(process)?))
    }

    /// Sorts the mounts of a table.
    pub fn from_table(table: &Table) -> UsrMounts {
        let usr = Path::new(USR);
        let mut found = UsrMounts::default();
        for (position, mount) in table.stack(usr).into_iter().enumerate() {
            if let Some(generation) = generation_of(mount) {
                found.ours.push(generation);
            } else if position != 0 || !is_own_bind(table, mount) {
                found.foreign.push((mount.source.clone(), mount.fstype.clone()));
            }
        }
        found.submounts = table.below(usr).into_iter().map(|m| m.point.clone()).collect();
        found
    }

    /// The generation that lookups in `/usr` see; 0 is the bare base.
    pub fn live(&self) -> u64 {
        self.ours.last().copied().unwrap_or(0)
    }

    /// How the visible overlay got in place: `Stacked` when older ones of ours are below it.
    pub fn swap_method(&self) -> SwapMethod {
        if self.ours.len() > 1 { SwapMethod::Stacked } else { SwapMethod::Beneath }
    }

    /// Refuses what an overlay of ours would hide, or would take along when it goes.
    ///
    /// # Errors
    /// [`Code::ForeignMount`], naming the mount and the way out.
    pub fn refuse_foreign(&self) -> Result<()> {
        if let Some((source, fstype)) = self.foreign.last() {
            let message = format!("somebody else's {fstype} mount (source \"{source}\") is on /usr");
            return Err(Failure::new(Code::ForeignMount, message).hint(way_out(source, fstype)).into());
        }
        if self.submounts.is_empty() {
            return Ok(());
        }
        let points: Vec<_> = self.submounts.iter().map(|p| p.display().to_string()).collect();
        let message = format!("mounted below /usr, and would be hidden: {}", points.join(", "));
        Err(Failure::new(Code::ForeignMount, message).hint(format!("umount {}", points.join(" "))).into())
    }
}

/// How the owner of a foreign mount takes it away.
fn way_out(source: &str, fstype: &str) -> &'static str {
    match (fstype, source) {
        ("overlay", "sysext") => "systemd-sysext unmerge",
        ("overlay", _) => {
            "an overlay of \"ostree admin unlock\" or \"rpm-ostree usroverlay\" ends with a reboot; one that was \
             mounted by hand with umount /usr"
        }
        _ => "umount /usr, when nothing needs it",
    }
}

/// The generation of an overlay of ours; none for any other mount.
fn generation_of(mount: &Mount) -> Option<u64> {
    (mount.fstype == "overlay").then(|| mount.source.strip_prefix(SOURCE_PREFIX)?.parse().ok()).flatten()
}

/// True for the bind by which ostree makes `/usr` read-only: the same directory of the same filesystem as seen through `/`.
fn is_own_bind(table: &Table, mount: &Mount) -> bool {
    table.visible(Path::new("/")).is_some_and(|root| root.device == mount.device && mount.root == root.root.join("usr"))
}

/// Flags of the mount that shows `/usr` now; an overlay in its place must not be laxer.
fn usr_options(table: &Table) -> Vec<&str> {
    table.visible(Path::new(USR)).map(|m| m.options.iter().map(String::as_str).collect()).unwrap_or_default()
}

/// Attributes for a new overlay.
fn attributes() -> Result<MountAttrFlags> {
    let table = Table::read("thread-self")?;
    let attribute = |option: &str| match option {
        "nosuid" => MountAttrFlags::MOUNT_ATTR_NOSUID,
        "nodev" => MountAttrFlags::MOUNT_ATTR_NODEV,
        "noexec" => MountAttrFlags::MOUNT_ATTR_NOEXEC,
        _ => MountAttrFlags::empty(),
    };
    Ok(usr_options(&table).into_iter().map(attribute).collect())
}

/// Parks a clone of the pristine `/usr` on `target`, private and read-only. `target` must lie in a private mount: a
/// clone that stays in the peer group of `/usr` would get every overlay that is put there.
///
/// # Errors
/// [`Code::ForeignMount`] when `/usr` is not pristine; from the kernel.
#[context("Parking the base at {}", target.display())]
pub(crate) fn park_base(target: &Path) -> Result<()> {
    let mounts = UsrMounts::read()?;
    mounts.refuse_foreign()?;
    anyhow::ensure!(mounts.ours.is_empty(), "an overlay of ours is on /usr");
    let table = Table::read("thread-self")?;
    let flag = |option: &str| match option {
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "relatime" => MountFlags::RELATIME,
        _ => MountFlags::empty(),
    };
    let keep: MountFlags = usr_options(&table).into_iter().map(flag).collect();
    sys::clone_tree(Path::new(USR))?.attach(target)?;
    sys::make_private(target)?;
    sys::make_readonly(target, keep)
}

/// Checks, before anything changes, that an overlay of ours can be put on `/usr`: no foreign mount on it or below
/// it that would be hidden, and stacking depth left. The trial is a detached mount, which nobody can see. `base` lies in
/// the store, whose `staging/` lends two directories.
///
/// # Errors
/// [`model::Code::ForeignMount`] or [`model::Code::StackingDepth`], naming the mount and the way out.
#[context("Checking that /usr can be overlaid")]
pub fn preflight(base: &Path) -> Result<()> {
    UsrMounts::read()?.refuse_foreign()?;
    let trial = base.parent().context("the base has no parent directory")?.join("staging/trial");
    let (one, two) = (trial.join("1"), trial.join("2"));
    for dir in [&one, &two] {
        std::fs::create_dir_all(dir).with_context(|| format!("Creating {}", dir.display()))?;
    }
    let mount = |lower: &Path| sys::overlay("rpm-ostree-transient-trial", &[&one, lower], MountAttrFlags::empty());
    let result = mount(base).map(drop);
    // The kernel says EINVAL to everything it dislikes, and the reason only to its log. The same mount over a plain
    // directory tells whether it was the base.
    let depth = matches!(&result, Err(e) if e.downcast_ref::<Errno>() == Some(&Errno::INVAL)) && mount(&two).is_ok();
    std::fs::remove_dir_all(&trial).with_context(|| format!("Removing {}", trial.display()))?;
    if depth {
        let message = "the kernel refuses one more overlay over /usr: its limit of stacked filesystems is reached";
        let hint = "Linux 6.12.63, 6.17.13 and 6.18.0-4 count composefs twice; another kernel has no such limit here";
        return Err(Failure::new(Code::StackingDepth, message).hint(hint).into());
    }
    result
}

/// Makes generation `generation` the visible one: builds `lowerdir+ = layers…, base` read-only and swaps it in.
/// Afterwards PID 1's view of `/usr` is checked; on any error the old state is back.
///
/// # Errors
/// [`Code::ForeignMount`]; [`Code::NamespaceUnreachable`] when the host does not see it; from the kernel, with the call
/// that failed.
pub fn activate(lock: &HostLock, generation: u64, layers: &[PathBuf], base: &Path) -> Result<SwapMethod> {
    swap::activate(lock, generation, layers, base, swap::Way::Best)
}

/// Detaches every overlay of ours from `/usr`, the top one first. Nothing else is ever unmounted.
///
/// # Errors
/// [`Code::ForeignMount`] when somebody else's mount lies on ours or below it; from the kernel.
pub fn detach_all(lock: &HostLock) -> Result<()> {
    swap::detach_all(lock)
}

/// Brings a stack that a crash left (attached beneath, old top not yet detached) to one overlay by detaching the top,
/// and returns the live generation. A stack made by the fallback for old kernels is left as it is.
///
/// # Errors
/// From the kernel.
pub fn settle_stack(lock: &HostLock) -> Result<u64> {
    swap::settle_stack(lock)
}
