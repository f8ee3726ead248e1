//! The mount calls of the kernel, one function each. A mount is an owned descriptor ([`Detached`]) until one call
//! attaches it; dropped before that, it is gone without a trace. Nothing here decides anything. rustix has every call
//! that is needed, so there is no `unsafe` here.

use anyhow::{Context as _, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags,
};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A mount that is attached nowhere yet.
#[derive(Debug)]
#[must_use = "a mount that is not attached is unmounted when it is dropped"]
pub struct Detached {
    mount: OwnedFd,
}

impl Detached {
    /// Attaches it on top of whatever is on `point`.
    pub fn attach(&self, point: &Path) -> Result<(), Errno> {
        self.attach_with(point, MoveMountFlags::empty())
    }

    /// Attaches it beneath the visible mount on `point` (Linux 6.5; EINVAL on older kernels).
    pub fn attach_beneath(&self, point: &Path) -> Result<(), Errno> {
        self.attach_with(point, MoveMountFlags::MOVE_MOUNT_BENEATH)
    }

    fn attach_with(&self, point: &Path, flags: MoveMountFlags) -> Result<(), Errno> {
        let flags = flags | MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        rustix::mount::move_mount(&self.mount, "", CWD, point, flags)
    }
}

/// A read-only overlay of lower directories only, top first. There is no upper directory, so nobody can make it writable.
pub fn overlay(source: &str, lowerdirs: &[&Path], attributes: MountAttrFlags) -> Result<Detached> {
    match overlay_with(source, lowerdirs, attributes, false) {
        // `lowerdir+` came with Linux 6.8. Before, the whole list is one string.
        Err(Refusal { errno: Errno::INVAL, .. }) => {
            overlay_with(source, lowerdirs, attributes, true).map_err(Refusal::into_error)
        }
        other => other.map_err(Refusal::into_error),
    }
}

/// What the kernel said to one call.
struct Refusal {
    errno: Errno,
    call: String,
    log: String,
}

impl Refusal {
    fn into_error(self) -> anyhow::Error {
        let log = if self.log.is_empty() { String::new() } else { format!(" ({})", self.log) };
        anyhow::Error::new(self.errno).context(format!("Mounting an overlay: {}{log}", self.call))
    }
}

fn overlay_with(
    source: &str,
    lowerdirs: &[&Path],
    attributes: MountAttrFlags,
    one_string: bool,
) -> Result<Detached, Refusal> {
    let plain = |call: &'static str| move |errno| Refusal { errno, call: call.into(), log: String::new() };
    let context = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).map_err(plain("fsopen"))?;
    let refused = |call: String| |errno| Refusal { errno, call, log: kernel_log(&context) };
    let set = |key: &str, value: &std::ffi::OsStr| {
        let call = format!("{key}={}", value.to_string_lossy());
        rustix::mount::fsconfig_set_string(context.as_fd(), key, value).map_err(refused(call))
    };
    set("source", source.as_ref())?;
    if one_string {
        set("lowerdir", &joined(lowerdirs))?;
    } else {
        for dir in lowerdirs {
            set("lowerdir+", dir.as_os_str())?;
        }
    }
    // Layers are flat directories of plain files: nothing in them may redirect, and inode numbers need no index.
    for (key, value) in [("redirect_dir", "nofollow"), ("metacopy", "off"), ("index", "off"), ("xino", "off")] {
        set(key, value.as_ref())?;
    }
    rustix::mount::fsconfig_set_flag(context.as_fd(), "ro").map_err(refused("ro".into()))?;
    rustix::mount::fsconfig_create(context.as_fd()).map_err(refused("create".into()))?;
    let attributes = attributes | MountAttrFlags::MOUNT_ATTR_RDONLY;
    let mount = rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        .map_err(refused("fsmount".into()))?;
    Ok(Detached { mount })
}

/// The list of `lowerdir=`, in which `:` and `\` are special.
fn joined(lowerdirs: &[&Path]) -> std::ffi::OsString {
    let mut out = Vec::new();
    for dir in lowerdirs {
        if !out.is_empty() {
            out.push(b':');
        }
        for &byte in dir.as_os_str().as_bytes() {
            if matches!(byte, b':' | b'\\') {
                out.push(b'\\');
            }
            out.push(byte);
        }
    }
    std::os::unix::ffi::OsStringExt::from_vec(out)
}

/// Messages that the kernel left in the context: one a read, `e TEXT` for errors.
fn kernel_log(context: &OwnedFd) -> String {
    let mut lines = Vec::new();
    let mut buffer = [0u8; 1024];
    while let Ok(n @ 1..) = rustix::io::read(context, &mut buffer) {
        let line = String::from_utf8_lossy(&buffer[..n]);
        lines.push(line.trim_end().trim_start_matches("e ").to_owned());
    }
    lines.join("; ")
}

/// A tmpfs with limits, for root only.
pub fn tmpfs(source: &str, bytes: u64, inodes: u64) -> Result<Detached> {
    let context = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).context("Opening tmpfs")?;
    let (bytes, inodes) = (bytes.to_string(), inodes.to_string());
    for (key, value) in [("source", source), ("mode", "0700"), ("size", bytes.as_str()), ("nr_inodes", inodes.as_str())]
    {
        rustix::mount::fsconfig_set_string(context.as_fd(), key, value)
            .with_context(|| format!("Mounting a tmpfs: {key}={value} {}", kernel_log(&context)))?;
    }
    rustix::mount::fsconfig_create(context.as_fd()).context("Mounting a tmpfs")?;
    // No `nodev`: packages may not bring devices, but overlay whiteouts are character devices 0:0.
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID;
    let mount = rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        .context("Mounting a tmpfs")?;
    Ok(Detached { mount })
}

/// A detached clone of the mount that `path` is seen in, with `path` as its root and without mounts below it.
pub fn clone_tree(path: &Path) -> Result<Detached> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let mount = rustix::mount::open_tree(CWD, path, flags).with_context(|| format!("Cloning {}", path.display()))?;
    Ok(Detached { mount })
}

/// Ends propagation to and from the mount on `point`.
pub fn make_private(point: &Path) -> Result<()> {
    rustix::mount::mount_change(point, MountPropagationFlags::PRIVATE)
        .with_context(|| format!("Making the mount on {} private", point.display()))
}

/// Makes this one mount read-only, whatever the filesystem below it is. `keep` are its other flags, which the call resets.
pub fn make_readonly(point: &Path, keep: MountFlags) -> Result<()> {
    rustix::mount::mount_remount(point, MountFlags::BIND | MountFlags::RDONLY | keep, "")
        .with_context(|| format!("Making the mount on {} read-only", point.display()))
}

/// Detaches the visible mount on `point`; open files in it stay valid.
pub fn detach(point: &Path) -> Result<()> {
    rustix::mount::unmount(point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
        .with_context(|| format!("Detaching the mount on {}", point.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_lowerdirs_with_escapes() {
        assert_eq!(joined(&[Path::new("/a"), Path::new("/b:c\\d")]), "/a:/b\\:c\\\\d");
    }
}
