//! librpm: what a package file is worth ([`verify`]), what is installed ([`installed`]), and the transaction itself
//! ([`Transaction`]). librpm keeps configuration and log per process, so every entry takes one lock.

mod database;
mod ffi;
mod transaction;
mod trust;

pub use database::{AlteredFile, InstalledPackage, altered, installed};
pub use transaction::{Outcome, Problem, ProblemKind, Step, Transaction};
pub use trust::{Verdict, verify};

use anyhow::Result;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The right to call librpm. The value says whether configuration has been read.
static LIBRARY: Mutex<bool> = Mutex::new(false);

/// Holds librpm for this thread, with its configuration read.
struct Library<'a> {
    _guard: MutexGuard<'a, bool>,
}

impl Library<'_> {
    fn enter() -> Result<Self> {
        let mut guard = LIBRARY.lock().unwrap_or_else(PoisonError::into_inner);
        if !*guard {
            // SAFETY: nobody else is in the library.
            let (result, log) = captured(false, || unsafe { ffi::transient_rpm_configure() });
            anyhow::ensure!(result == 0, "cannot read the rpm configuration: {}", one_line(&log));
            *guard = true;
        }
        Ok(Library { _guard: guard })
    }
}

/// Appends to the `Vec` of lines behind `data`.
unsafe extern "C" fn on_message(data: *mut c_void, _priority: c_int, text: *const c_char) {
    if !text.is_null() {
        // SAFETY: `data` is the Vec of `captured`, used by this thread only; `text` is a C string.
        unsafe {
            let lines = &mut *data.cast::<Vec<String>>();
            lines.push(CStr::from_ptr(text).to_string_lossy().trim_end().to_owned());
        }
    }
}

/// Runs `call`, and returns what it logged as well. The caller holds [`LIBRARY`].
fn captured<T>(verbose: bool, call: impl FnOnce() -> T) -> (T, Vec<String>) {
    let mut lines: Vec<String> = Vec::new();
    // SAFETY: `lines` outlives its registration, which ends below; the caller is alone in the library.
    unsafe { ffi::transient_rpm_log(Some(on_message), (&raw mut lines).cast(), c_int::from(verbose)) };
    let value = call();
    // SAFETY: as above.
    unsafe { ffi::transient_rpm_log(None, std::ptr::null_mut(), 0) };
    (value, lines)
}

/// The library's messages as one line.
fn one_line(log: &[String]) -> String {
    let parts: Vec<&str> = log.iter().map(|l| l.trim()).filter(|l| !l.is_empty()).collect();
    if parts.is_empty() { "librpm gives no reason".into() } else { parts.join("; ") }
}

/// Defines a macro (`NAME BODY`) for the rest of this process.
///
/// # Errors
/// When the configuration cannot be read or the definition is not valid.
pub fn define_macro(definition: &str) -> Result<()> {
    let _library = Library::enter()?;
    let text = CString::new(definition)?;
    // SAFETY: the string lives during the call.
    let (result, log) = captured(false, || unsafe { ffi::transient_rpm_define(text.as_ptr()) });
    anyhow::ensure!(result == 0, "macro \"{definition}\": {}", one_line(&log));
    Ok(())
}

/// Expands macros, for example `%{_dbpath}`.
///
/// # Errors
/// When the configuration cannot be read.
pub fn expand(text: &str) -> Result<String> {
    let _library = Library::enter()?;
    let text = CString::new(text)?;
    // SAFETY: the argument lives during the call; the result is ours and freed after the copy.
    let (expanded, log) = captured(false, || unsafe {
        let raw = ffi::transient_rpm_expand(text.as_ptr());
        let copy = (!raw.is_null()).then(|| CStr::from_ptr(raw).to_string_lossy().into_owned());
        ffi::transient_rpm_string_free(raw);
        copy
    });
    expanded.ok_or_else(|| anyhow::anyhow!("{}", one_line(&log)))
}
