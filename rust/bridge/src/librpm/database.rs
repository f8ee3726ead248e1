//! What is installed, and which paths it owns.

use super::{Library, captured, ffi, one_line};
use anyhow::Result;
use fn_error_context::context;
use model::Nevra;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::null;

/// One package of an rpmdb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledPackage {
    /// Its full name.
    pub nevra: Nevra,
    /// Every path that it owns, ghosts included, as it is in the header (`/bin/x` is not resolved to `/usr/bin/x`).
    pub files: Vec<PathBuf>,
}

unsafe extern "C" fn on_installed(data: *mut c_void, nevra: *const c_char, files: *const *const c_char, count: usize) {
    // SAFETY: `data` is the Vec of `installed`, used by this thread only; the strings are valid during the call, and
    // there are `count` of them.
    unsafe {
        let list = &mut *data.cast::<Vec<InstalledPackage>>();
        // Public keys are in the rpmdb as packages without an architecture, which is no NEVRA.
        let Ok(nevra) = CStr::from_ptr(nevra).to_string_lossy().parse() else { return };
        let paths = (0..count).map(|i| *files.add(i)).filter(|p| !p.is_null());
        let files = paths.map(|p| PathBuf::from(OsStr::from_bytes(CStr::from_ptr(p).to_bytes()))).collect();
        list.push(InstalledPackage { nevra, files });
    }
}

/// Every installed package, from the rpmdb that the macros name or from the one in directory `dbpath`.
///
/// # Errors
/// When the rpmdb cannot be opened.
#[context("Reading the rpmdb")]
pub fn installed(dbpath: Option<&Path>) -> Result<Vec<InstalledPackage>> {
    let _library = Library::enter()?;
    let dbpath = dbpath.map(|p| CString::new(p.as_os_str().as_bytes())).transpose()?;
    let mut list: Vec<InstalledPackage> = Vec::new();
    let (result, log) = captured(false, || {
        let path = dbpath.as_ref().map_or(null(), |p| p.as_ptr());
        // SAFETY: path and list live during the call, and this thread alone is in the library.
        unsafe { ffi::transient_rpmdb_each(path, on_installed, (&raw mut list).cast()) }
    });
    anyhow::ensure!(result == 0, "{}", one_line(&log));
    Ok(list)
}

/// A file that is not as the record of its package says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlteredFile {
    /// Whose it is.
    pub package: Nevra,
    /// Absolute path.
    pub path: PathBuf,
    /// True when it is not there at all; else its content differs.
    pub missing: bool,
}

/// What the callbacks of [`altered`] share.
struct Search<'a> {
    packages: &'a BTreeSet<Nevra>,
    found: Vec<AlteredFile>,
}

/// [`ffi`]'s number for a file that is not there.
const MISSING: c_int = 1;

unsafe extern "C" fn wants(data: *mut c_void, nevra: *const c_char) -> c_int {
    // SAFETY: `data` is the Search of `altered`, used by this thread only; the string is valid during the call.
    unsafe {
        let search = &*data.cast::<Search<'_>>();
        let wanted = CStr::from_ptr(nevra).to_string_lossy().parse().is_ok_and(|n| search.packages.contains(&n));
        c_int::from(wanted)
    }
}

unsafe extern "C" fn on_altered(data: *mut c_void, nevra: *const c_char, path: *const c_char, alteration: c_int) {
    // SAFETY: as in `wants`; both strings are valid during the call.
    unsafe {
        let search = &mut *data.cast::<Search<'_>>();
        let Ok(package) = CStr::from_ptr(nevra).to_string_lossy().parse() else { return };
        let path = PathBuf::from(OsStr::from_bytes(CStr::from_ptr(path).to_bytes()));
        search.found.push(AlteredFile { package, path, missing: alteration == MISSING });
    }
}

/// Files of these installed packages whose content is not what the rpmdb says. Configuration files and ghosts are not
/// looked at, nor are modes and owners, which scriptlets may set.
///
/// # Errors
/// When the rpmdb cannot be opened.
#[context("Comparing files with the rpmdb")]
pub fn altered(packages: &BTreeSet<Nevra>) -> Result<Vec<AlteredFile>> {
    let _library = Library::enter()?;
    let mut search = Search { packages, found: vec![] };
    let (result, log) = captured(false, || {
        // SAFETY: the search lives during the call, and this thread alone is in the library.
        unsafe { ffi::transient_rpmdb_altered(wants, on_altered, (&raw mut search).cast()) }
    });
    anyhow::ensure!(result == 0, "{}", one_line(&log));
    Ok(search.found)
}
