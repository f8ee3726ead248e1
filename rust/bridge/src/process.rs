//! The one call about descriptors that no safe interface offers.

/// Marks every descriptor but the first three to be closed by the next `exec`, whoever opened it. Needs Linux 5.11.
///
/// # Errors
/// From the kernel.
pub fn close_others_on_exec() -> std::io::Result<()> {
    let (first, last, flags): (libc::c_uint, libc::c_uint, libc::c_uint) = (3, libc::c_uint::MAX, 1 << 2);
    // SAFETY: a flag of descriptors changes; none is closed and no memory is touched.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
