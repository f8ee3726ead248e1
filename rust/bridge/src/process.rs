//! The few calls about this process that no safe interface offers.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which side of a [`fork_with_stdio`] this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fork {
    /// The one that called. The number is the child's, in the caller's own pid namespace.
    Parent(i32),
    /// The new one.
    Child,
}

/// Copies this process, which must have one thread. The child has the first three descriptors only, whoever opened the
/// others; it must not drop what it thinks to own of them. Starting a program instead would cost the linking of some
/// seventy libraries. Needs Linux 5.9.
///
/// # Errors
/// When there are more threads, or from the kernel.
pub fn fork_with_stdio() -> std::io::Result<Fork> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(std::io::Error::other("a process with several threads cannot be copied"));
    }
    // SAFETY: with one thread, nobody else holds a lock or is in the middle of a change, so the copy is whole.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        0 => {
            let (first, last, flags): (libc::c_uint, libc::c_uint, libc::c_uint) = (3, libc::c_uint::MAX, 0);
            // SAFETY: no memory is touched, and the caller was told that its descriptors are gone.
            let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
            if result == 0 { Ok(Fork::Child) } else { Err(std::io::Error::last_os_error()) }
        }
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Whether the caller of this program ignored SIGPIPE, as systemd does for services.
static PIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Runs before `main`, where the standard library sets SIGPIPE to be ignored and forgets what it was.
extern "C" fn look_at_sigpipe() {
    // SAFETY: nothing is changed; `action` is as large as the kernel's answer, for which zeros are a valid value.
    let handler = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) == 0).then_some(action.sa_sigaction)
    };
    PIPE_WAS_IGNORED.store(handler == Some(libc::SIG_IGN), Ordering::Relaxed);
}

#[used]
// SAFETY: the loader calls what is in this section with C's calling convention, once, before `main`.
#[unsafe(link_section = ".init_array")]
static LOOK_AT_SIGPIPE: extern "C" fn() = look_at_sigpipe;

/// Becomes another program that finds everything as this one did: `argv` with its first word, environment, descriptors,
/// signals. The standard library's `exec` sets SIGPIPE to its default. Comes back only when it fails.
pub fn exec<S: AsRef<OsStr>>(program: &Path, argv: &[S]) -> std::io::Error {
    let text = |s: &OsStr| CString::new(s.as_bytes());
    let words: Result<Vec<CString>, _> = argv.iter().map(|w| text(w.as_ref())).collect();
    let (Ok(path), Ok(words)) = (text(program.as_os_str()), words) else {
        return std::io::ErrorKind::InvalidInput.into();
    };
    let mut pointers: Vec<*const libc::c_char> = words.iter().map(|w| w.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let before = if PIPE_WAS_IGNORED.load(Ordering::Relaxed) { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: neither disposition runs code of ours; every pointer is to a C string that lives until the call is over,
    // and the list ends with a null pointer.
    unsafe {
        libc::signal(libc::SIGPIPE, before);
        libc::execv(path.as_ptr(), pointers.as_ptr());
    }
    let error = std::io::Error::last_os_error();
    // SAFETY: as above. This program goes on, and expects errors instead of the signal.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    error
}
