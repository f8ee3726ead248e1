//! Runs a test as PID 1 of its own mount and pid namespace with a small root of its own. The test program starts itself
//! again below unshare(1); what is loaded stays loaded after the root was changed, so nothing of the machine is needed.

#![allow(dead_code, reason = "each test program uses a part")]

use engine::overlay::mountinfo::Table;
use model::{Code, Failure};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_change,
    mount_remount,
};
use rustix::thread::UnshareFlags;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const INSIDE: &str = "TRANSIENT_TEST_INSIDE";

/// Propagation of `/` in a namespace.
#[derive(Debug, Clone, Copy)]
pub enum Propagation {
    /// As systemd makes it.
    Shared,
    /// Receives only.
    Slave,
    /// Neither sends nor receives.
    Private,
}

impl Propagation {
    fn set(self) {
        let kind = match self {
            Propagation::Shared => MountPropagationFlags::SHARED,
            Propagation::Slave => MountPropagationFlags::DOWNSTREAM,
            Propagation::Private => MountPropagationFlags::PRIVATE,
        };
        mount_change("/", kind | MountPropagationFlags::REC).unwrap();
    }
}

/// Runs `body` inside a small root; `name` is the name of the calling test.
pub fn in_namespace(name: &str, propagation: Propagation, body: impl FnOnce()) {
    run(name, propagation, make_root, body);
}

/// Runs `body` with a real ostree deployment as its root.
pub fn in_deployment(name: &str, propagation: Propagation, body: impl FnOnce()) {
    run(name, propagation, make_deployment, body);
}

#[expect(clippy::print_stderr, reason = "a skipped test says why")]
fn run(name: &str, propagation: Propagation, make: fn() -> PathBuf, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        enter(&make());
        propagation.set();
        return body();
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped, because mounting needs root");
        return;
    }
    let output = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--mount-proc", "--propagation", "private", "--"])
        .arg(std::env::current_exe().unwrap())
        // One thread: the test then runs in the main thread, whose namespaces are those of the process.
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .output()
        .expect("unshare(1) of util-linux");
    let text = [output.stdout, output.stderr].map(|t| String::from_utf8_lossy(&t).into_owned()).join("\n");
    assert!(output.status.success() && text.contains("1 passed"), "{name} failed inside:\n{text}");
}

/// Makes a small root in a tmpfs.
fn make_root() -> PathBuf {
    let root = PathBuf::from("/mnt");
    mount("root", &root, "tmpfs", MountFlags::empty(), c"mode=0755").unwrap();
    for dir in ["usr/bin", "usr/lib/locale", "usr/share", "proc", "run", "tmp"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    fs::write(root.join("usr/share/base"), "base\n").unwrap();
    root
}

/// Commits and deploys a small tree with the ostree command. The deployment is a mount with its sysroot inside, as the
/// initramfs leaves it.
fn make_deployment() -> PathBuf {
    let top = Path::new("/mnt");
    mount("sysroot", top, "tmpfs", MountFlags::empty(), c"mode=0755").unwrap();
    let (tree, sysroot) = (top.join("tree"), top.join("sysroot"));
    for dir in ["usr/etc", "usr/lib/modules/6.1", "usr/bin", "proc", "run", "sysroot", "boot", "var", "tmp"] {
        fs::create_dir_all(tree.join(dir)).unwrap();
    }
    fs::write(tree.join("usr/lib/modules/6.1/vmlinuz"), "kernel").unwrap();
    fs::write(tree.join("usr/lib/modules/6.1/initramfs.img"), "initramfs").unwrap();
    fs::write(tree.join("usr/lib/os-release"), "ID=testos\nVERSION_ID=41\n").unwrap();
    std::os::unix::fs::symlink("../usr/lib/os-release", tree.join("usr/etc/os-release")).unwrap();
    std::os::unix::fs::symlink("sysroot/ostree", tree.join("ostree")).unwrap();
    fs::create_dir(&sysroot).unwrap();
    let ostree = |words: &str, more: &[&Path]| {
        let mut command = Command::new("ostree");
        let output = command.args(words.split(' ')).args(more).output().expect("the ostree command");
        assert!(output.status.success(), "ostree {words}: {}", String::from_utf8_lossy(&output.stderr));
    };
    ostree("admin init-fs --modern", &[&sysroot]);
    ostree("admin os-init testos --sysroot", &[&sysroot]);
    let repo = sysroot.join("ostree/repo");
    ostree("commit --branch testos/base --add-metadata-string version=41.7 --repo", &[&repo, &tree]);
    ostree("admin deploy --os testos testos/base --sysroot", &[&sysroot]);
    let deployments = fs::read_dir(sysroot.join("ostree/deploy/testos/deploy")).unwrap();
    let root = deployments.map(|e| e.unwrap().path()).find(|p| p.is_dir()).expect("a deployment");
    mount_bind(&root, &root).unwrap();
    mount_bind(&sysroot, root.join("sysroot")).unwrap();
    mount_bind(sysroot.join("boot"), root.join("boot")).unwrap();
    root
}

/// Completes a root as on an ostree host, `/usr` bound over itself and read-only, and moves there.
fn enter(root: &Path) {
    mount_bind_recursive("/proc", root.join("proc")).unwrap();
    mount("run", root.join("run"), "tmpfs", MountFlags::empty(), c"mode=0755").unwrap();
    mount_bind(root.join("usr"), root.join("usr")).unwrap();
    mount_remount(root.join("usr"), MountFlags::BIND | MountFlags::RDONLY, "").unwrap();
    std::env::set_current_dir(root).unwrap();
    rustix::process::pivot_root(".", ".").unwrap();
    rustix::mount::unmount(".", UnmountFlags::DETACH).unwrap();
    std::env::set_current_dir("/").unwrap();
}

/// Gives the calling thread a mount namespace of its own.
pub fn unshare_as(propagation: Propagation) {
    // With its own working directory and root, as the kernel demands; file descriptors stay shared.
    #[expect(deprecated, reason = "the newer call is unsafe only for UnshareFlags::FILES, which is not used")]
    rustix::thread::unshare(UnshareFlags::NEWNS | UnshareFlags::FS).unwrap();
    propagation.set();
}

/// Runs `body` in a thread with a mount namespace of its own whose `/` is private.
pub fn own_namespace(body: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            unshare_as(Propagation::Private);
            body();
        });
        inside.join().expect("the thread in its own namespace");
    });
}

/// The code of a failure.
pub fn code(error: &anyhow::Error) -> Option<Code> {
    error.downcast_ref::<Failure>().map(|f| f.code)
}

/// How many mounts are stacked on a point.
pub fn mounts(point: &str) -> usize {
    Table::read("thread-self").unwrap().stack(Path::new(point)).len()
}

/// Mounts a writable tmpfs.
pub fn mount_tmpfs(point: &str) {
    mount("foreign", point, "tmpfs", MountFlags::empty(), c"").unwrap();
}

/// Binds a directory.
pub fn bind(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    mount_bind(from.as_ref(), to.as_ref()).unwrap();
}

/// Unmounts the visible mount.
pub fn unmount(point: impl AsRef<Path>) {
    rustix::mount::unmount(point.as_ref(), UnmountFlags::DETACH).unwrap();
}
