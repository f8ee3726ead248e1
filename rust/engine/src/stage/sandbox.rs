//! The file system that scriptlets see, and what they may do in it. Everything is below a tmpfs that exists in the
//! worker's mount namespace only; `/usr`, `/etc` and `/var` are overlays over the host's own with upper directories
//! that outlive the namespace.

use super::{Layout, Spec, wrappers};
use anyhow::{Context as _, Result};
use fn_error_context::context;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::collections::BTreeSet;
use std::ffi::{CString, OsString};
use std::fs;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// Upper limit of `/tmp` and of `/run` each.
const SCRATCH: &str = "mode=0755,size=512m,nr_inodes=100k";
const QUIET: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);
const INERT: MountFlags = QUIET.union(MountFlags::NOEXEC);
/// Device nodes without which common programs do not start; none of them reaches hardware or the host's state.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];
/// Parts of `/proc` that are not bound to a namespace, and that uid 0 may write without any capability.
const HOST_PROC: &[&str] = &["sys", "sysrq-trigger", "irq", "bus", "fs", "acpi"];

/// The capabilities that stay. Not among them, on purpose: `DAC_READ_SEARCH` (it opens files of the host by handle;
/// `DAC_OVERRIDE` suffices for reading), `MKNOD`, `SYS_ADMIN`, `SYS_PTRACE`, `SETPCAP` and everything about network,
/// modules, time and hardware.
const KEPT: &[CapabilitySet] = &[
    CapabilitySet::CHOWN,        // files belong to the users that the package names
    CapabilitySet::DAC_OVERRIDE, // as root: write below directories of those users
    CapabilitySet::FOWNER,       // chmod, utimes and setxattr on their files
    CapabilitySet::FSETID,       // setgid bits survive chown
    CapabilitySet::SETGID,       // scriptlets run parts as another user
    CapabilitySet::SETUID,       // the same
    CapabilitySet::SETFCAP,      // packages carry file capabilities
    CapabilitySet::SYS_CHROOT,   // tools that take --root
    CapabilitySet::KILL,         // a scriptlet ends what it started as another user; the pid namespace bounds it
];

/// Entries of `/` that are not the sandbox's own.
pub(super) struct Root {
    kept: BTreeSet<OsString>,
}

/// Builds the sandbox and makes it this process's root. The process must be alone in new namespaces.
#[context("Building the sandbox")]
pub(super) fn enter(spec: &Spec) -> Result<Root> {
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).context("Leaving the host's mount propagation")?;
    let layout = Layout::new(&spec.work);
    let root = layout.root();
    fs::create_dir_all(&root)?;
    mount("tmpfs", &root, QUIET, "mode=0755,size=64m,nr_inodes=20k")?;

    let real = wrappers::lower(spec);
    let mut usr = vec![wrappers::build(&layout, &real)?];
    usr.extend(real.iter().cloned());
    overlay(&layout, "usr", &usr)?;
    let over = |own: &Option<PathBuf>, host: &str| own.iter().cloned().chain([host.into()]).collect::<Vec<_>>();
    overlay(&layout, "etc", &over(&spec.etc, "/etc"))?;
    overlay(&layout, "var", &over(&spec.var, "/var"))?;
    for name in ["proc", "sys", "dev", "run", "boot", "sysroot"] {
        fs::create_dir(root.join(name))?;
    }
    fs::create_dir(root.join("tmp"))?;
    mount("tmpfs", &root.join("tmp"), QUIET, &SCRATCH.replace("0755", "1777"))?;
    mount("tmpfs", &root.join("run"), QUIET, SCRATCH)?;
    proc_and_sys(&root)?;
    devices(&root.join("dev"))?;
    wrappers::log(&root.join("dev"))?;
    real_commands(&root, &real)?;
    let kept = top_level(&root)?;
    opt(&root)?;
    uppers(&layout)?;

    rustix::process::chdir(&root)?;
    rustix::process::pivot_root(".", ".").context("pivot_root")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).context("Detaching the host")?;
    rustix::process::chdir("/")?;
    Ok(Root { kept })
}

fn mount(kind: &str, target: &Path, flags: MountFlags, data: &str) -> Result<()> {
    let data = CString::new(data)?;
    rustix::mount::mount(kind, target, kind, flags, data.as_c_str())
        .with_context(|| format!("Mounting {kind} on {}", target.display()))
}

/// One writable overlay, named as the hierarchy it stands for. Paths go in as descriptors: names may hold the
/// characters that separate options, and the list of options has a limit.
fn overlay(layout: &Layout, hierarchy: &str, lower: &[PathBuf]) -> Result<()> {
    let target = layout.root().join(hierarchy);
    let (upper, work) = (layout.upper(hierarchy), layout.overlay_work(hierarchy));
    for dir in [&target, &upper, &work] {
        fs::create_dir_all(dir)?;
    }
    // The root of an overlay shows the upper directory's mode and owner.
    let model = fs::metadata(lower.last().context("an overlay needs a lower directory")?)?;
    std::os::unix::fs::chown(&upper, Some(model.uid()), Some(model.gid()))?;
    fs::set_permissions(&upper, fs::Permissions::from_mode(model.mode() & 0o7777))?;

    let lower: Vec<OwnedFd> = lower.iter().map(|p| open(p)).collect::<Result<_>>()?;
    let (upper, work) = (open(&upper)?, open(&work)?);
    let lower: Vec<String> = lower.iter().map(name).collect();
    // With these off the upper directory holds whole files only, which is what harvesting reads.
    let data = format!(
        "lowerdir={},upperdir={},workdir={},redirect_dir=off,metacopy=off,index=off,xino=off",
        lower.join(":"),
        name(&upper),
        name(&work)
    );
    mount("overlay", &target, MountFlags::NODEV, &data)
}

fn open(path: &Path) -> Result<OwnedFd> {
    rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .with_context(|| path.display().to_string())
}

fn name(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// `/usr` as it was, read-only, for the scripts that stand where commands are.
fn real_commands(root: &Path, lower: &[PathBuf]) -> Result<()> {
    let target = root.join(wrappers::REAL.trim_start_matches('/'));
    fs::create_dir(&target)?;
    if let [one] = lower {
        rustix::mount::mount_bind(one, &target).with_context(|| format!("Mounting {}", target.display()))?;
        return Ok(rustix::mount::mount_remount(&target, MountFlags::BIND | MountFlags::RDONLY | QUIET, "")?);
    }
    let lower: Vec<OwnedFd> = lower.iter().map(|p| open(p)).collect::<Result<_>>()?;
    let names: Vec<String> = lower.iter().map(name).collect();
    let data = format!("lowerdir={},redirect_dir=nofollow,metacopy=off,index=off,xino=off", names.join(":"));
    mount("overlay", &target, QUIET | MountFlags::RDONLY, &data)
}

fn proc_and_sys(root: &Path) -> Result<()> {
    let proc = root.join("proc");
    mount("proc", &proc, INERT, "")?;
    for name in HOST_PROC {
        let path = proc.join(name);
        match rustix::mount::mount_bind(&path, &path) {
            Err(Errno::NOENT) => continue,
            other => other.with_context(|| path.display().to_string())?,
        }
        let flags = MountFlags::BIND | MountFlags::RDONLY | INERT;
        rustix::mount::mount_remount(&path, flags, "").with_context(|| path.display().to_string())?;
    }
    // A fresh sysfs has no selinuxfs and no cgroups mounted below it, and is that of the new network namespace.
    mount("sysfs", &root.join("sys"), INERT | MountFlags::RDONLY, "")
}

fn devices(dev: &Path) -> Result<()> {
    mount("tmpfs", dev, MountFlags::NOSUID | MountFlags::NOEXEC, "mode=0755,size=1m,nr_inodes=1k")?;
    for name in DEVICES {
        let (host, target) = (Path::new("/dev").join(name), dev.join(name));
        fs::File::create(&target)?;
        rustix::mount::mount_bind(&host, &target).with_context(|| host.display().to_string())?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlink(target, dev.join(name))?;
    }
    let shm = dev.join("shm");
    fs::create_dir(&shm)?;
    fs::set_permissions(&shm, fs::Permissions::from_mode(0o1777))?;
    Ok(())
}

/// Where the upper directory of a hierarchy can be read in the sandbox. A descriptor instead would lead out of it: Lua
/// scriptlets run in this process.
pub(super) fn upper(hierarchy: &str) -> PathBuf {
    Path::new("/dev/.upper").join(hierarchy)
}

fn uppers(layout: &Layout) -> Result<()> {
    for hierarchy in ["usr", "etc", "var"] {
        let point = upper(hierarchy);
        let target = layout.root().join(point.strip_prefix("/").unwrap_or(&point));
        fs::create_dir_all(&target)?;
        rustix::mount::mount_bind(layout.upper(hierarchy), &target)?;
        rustix::mount::mount_remount(&target, MountFlags::BIND | MountFlags::RDONLY | INERT, "")?;
    }
    Ok(())
}

/// What is packaged for `/opt` goes to the layer's `/usr/lib/opt`, which is therefore mounted there.
fn opt(root: &Path) -> Result<()> {
    let opt = match fs::read_link(root.join("opt")) {
        Ok(target) => root.join(target.strip_prefix("/").unwrap_or(&target)),
        Err(_) => root.join("opt"),
    };
    let source = root.join("usr/lib/opt");
    for dir in [&source, &opt] {
        if !dir.is_dir() {
            fs::create_dir_all(dir)?;
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
        }
    }
    rustix::mount::mount_bind(&source, &opt).with_context(|| format!("Mounting {}", opt.display()))
}

/// The host's symlinks in `/` as they are; its other directories empty.
fn top_level(root: &Path) -> Result<BTreeSet<OsString>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir("/")? {
        let entry = entry?;
        let target = root.join(entry.file_name());
        let meta = entry.metadata()?;
        if target.symlink_metadata().is_ok() {
            continue;
        }
        if meta.is_symlink() {
            symlink(fs::read_link(entry.path())?, target)?;
        } else if meta.is_dir() {
            fs::create_dir(&target)?;
            std::os::unix::fs::chown(&target, Some(meta.uid()), Some(meta.gid()))?;
            fs::set_permissions(&target, fs::Permissions::from_mode(meta.mode() & 0o7777))?;
        }
    }
    for entry in fs::read_dir(root)? {
        names.insert(entry?.file_name());
    }
    Ok(names)
}

impl Root {
    /// What was written to places that vanish with the sandbox, one level deep. Call it after the transaction.
    pub(super) fn lost(&self) -> Result<Vec<PathBuf>> {
        let mut lost = Vec::new();
        for entry in fs::read_dir("/")? {
            let entry = entry?;
            let name = entry.file_name();
            if !self.kept.contains(&name) {
                lost.push(entry.path());
                continue;
            }
            let scratch = ["usr", "etc", "var", "opt", "proc", "sys", "dev", "run", "tmp"];
            if scratch.iter().any(|s| name == *s) || !entry.file_type()?.is_dir() {
                continue;
            }
            for inner in fs::read_dir(entry.path())? {
                lost.push(inner?.path());
            }
        }
        lost.sort();
        Ok(lost)
    }
}

/// Gives up for good what a transaction does not need. Comes after the last mount.
#[context("Dropping privileges")]
pub(super) fn confine(timeout: u64) -> Result<()> {
    // Scriptlets are the first to go when memory is short, before any service of the host.
    fs::write("/proc/self/oom_score_adj", "500")?;
    let limit = |n: u64| Rlimit { current: Some(n), maximum: Some(n) };
    rustix::process::setrlimit(Resource::Core, limit(0))?;
    // librpm closes every possible descriptor before each scriptlet: a small number saves time.
    rustix::process::setrlimit(Resource::Nofile, limit(4096))?;
    rustix::process::setrlimit(Resource::Cpu, limit(timeout.max(1)))?;

    let kept = KEPT.iter().copied().fold(CapabilitySet::empty(), CapabilitySet::union);
    for bit in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        if kept.contains(one) {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(one) {
            // Past the last capability that this kernel knows.
            Err(Errno::INVAL) => break,
            other => other?,
        }
    }
    rustix::thread::clear_ambient_capability_set()?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)?;
    rustix::thread::set_no_new_privs(true)?;
    // Else a scriptlet could write to our pipe through /proc/1/fd.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}
