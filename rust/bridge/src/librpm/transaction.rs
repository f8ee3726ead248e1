//! The transaction over `/`. What may be in it was decided before; here it is carried out, and what librpm says on
//! the way is handed on as values.

use super::{Library, captured, ffi, one_line};
use anyhow::{Context as _, Result};
use fn_error_context::context;
use model::Nevra;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

/// Something that happens while a transaction runs. `slot` is the scriptlet's name in a spec file without `%`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Bytes of a package's payload.
    Unpack {
        /// NEVRA.
        package: String,
        /// Bytes so far.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// The files of a package go.
    Erase {
        /// NEVRA.
        package: String,
    },
    /// A scriptlet or trigger begins.
    ScriptletStart {
        /// NEVRA of the package that it belongs to.
        package: String,
        /// `pre`, `post`, `posttrans`, `filetriggerin`, …
        slot: String,
    },
    /// It has ended, well or not.
    ScriptletStop {
        /// NEVRA.
        package: String,
        /// Its slot.
        slot: String,
    },
    /// It ended badly; comes after `ScriptletStop`.
    ScriptletFailed {
        /// NEVRA.
        package: String,
        /// Its slot.
        slot: String,
        /// True when the package cannot be installed or removed for that reason.
        fatal: bool,
        /// `exit status 1`, `signal 9`, as librpm says it.
        status: String,
    },
    /// The payload could not be unpacked.
    UnpackFailed {
        /// NEVRA.
        package: String,
        /// librpm's words.
        reason: String,
    },
    /// librpm warns, and goes on.
    Warning {
        /// Its words.
        text: String,
    },
}

/// What kind of problem keeps a transaction from running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// Anything else.
    Other,
    /// Two packages own one path with different content.
    FileConflict,
    /// Not enough bytes or inodes.
    Space,
    /// Requires, conflicts or obsoletes.
    Dependency,
    /// The header or payload has another digest than the package says.
    Digest,
}

/// One reason why a transaction does not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What kind.
    pub kind: ProblemKind,
    /// librpm's words, which name the packages and paths.
    pub text: String,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is done. Scriptlets that may fail may have failed; each was a [`Step`].
    Done,
    /// Nothing was done.
    Problems(Vec<Problem>),
    /// Some of it was done.
    Failed(String),
}

/// A transaction on `/` with the rpmdb that the macros name.
#[derive(Debug)]
pub struct Transaction {
    raw: NonNull<ffi::RawTransaction>,
    /// The C side borrows them.
    paths: Vec<CString>,
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // Freeing closes the rpmdb, which needs the library.
        let _library = Library::enter();
        // SAFETY: from transient_transaction_new, freed once.
        let ((), _log) = captured(false, || unsafe { ffi::transient_transaction_free(self.raw.as_ptr()) });
    }
}

struct Watch<'a> {
    log: Vec<String>,
    problems: Vec<Problem>,
    on_step: &'a mut dyn FnMut(Step),
}

unsafe extern "C" fn on_problem(data: *mut c_void, kind: c_int, text: *const c_char) {
    // SAFETY: `data` is the `Watch` of the running call, used by this thread only; `text` is a C string.
    unsafe {
        let watch = &mut *data.cast::<Watch<'_>>();
        let kind = match kind {
            1 => ProblemKind::FileConflict,
            2 => ProblemKind::Space,
            3 => ProblemKind::Dependency,
            _ => ProblemKind::Other,
        };
        watch.problems.push(Problem { kind, text: CStr::from_ptr(text).to_string_lossy().trim().to_owned() });
    }
}

unsafe extern "C" fn on_message(data: *mut c_void, priority: c_int, text: *const c_char) {
    // As in syslog: 4 is a warning, and what is greater is chatter.
    if priority > 4 {
        return;
    }
    // SAFETY: as for `on_problem`; librpm does not log from within a notification.
    let (watch, text) = unsafe {
        let watch = &mut *data.cast::<Watch<'_>>();
        (watch, CStr::from_ptr(text).to_string_lossy().trim().to_owned())
    };
    watch.log.push(text.clone());
    if priority == 4 {
        (watch.on_step)(Step::Warning { text });
    }
}

unsafe extern "C" fn on_notify(
    data: *mut c_void,
    step: c_int,
    package: *const c_char,
    slot: *const c_char,
    done: u64,
    total: u64,
) {
    // SAFETY: as for `on_problem`; `slot` is NULL or a C string.
    let (watch, package, slot) = unsafe {
        let watch = &mut *data.cast::<Watch<'_>>();
        let package = CStr::from_ptr(package).to_string_lossy().into_owned();
        let tag = if slot.is_null() { "".into() } else { CStr::from_ptr(slot).to_string_lossy() };
        (watch, package, slot_name(&tag))
    };
    let step = match step {
        0 => Step::Unpack { package, done, total },
        1 => Step::Erase { package },
        2 => Step::ScriptletStart { package, slot },
        3 => Step::ScriptletStop { package, slot },
        4 | 5 => {
            let status = exit_status(watch.log.last().map_or("", String::as_str));
            Step::ScriptletFailed { package, slot, fatal: step == 5, status }
        }
        _ => Step::UnpackFailed { package, reason: watch.log.last().cloned().unwrap_or_default() },
    };
    (watch.on_step)(step);
}

/// `Prein` → `pre`, `Posttrans` → `posttrans`: the words of spec files.
fn slot_name(tag: &str) -> String {
    match tag.to_lowercase().as_str() {
        "prein" => "pre".into(),
        "postin" => "post".into(),
        other => other.to_owned(),
    }
}

/// The end of `%prein(a-1-1.noarch) scriptlet failed, exit status 3`.
fn exit_status(line: &str) -> String {
    line.rsplit_once("failed, ").map_or(line, |(_, status)| status).to_owned()
}

impl Transaction {
    /// Opens the rpmdb for writing.
    ///
    /// # Errors
    /// When it cannot be opened.
    #[context("Opening the rpmdb")]
    pub fn new() -> Result<Self> {
        let _library = Library::enter()?;
        // SAFETY: this thread alone is in the library.
        let (raw, log) = captured(false, || unsafe { ffi::transient_transaction_new() });
        let raw = NonNull::new(raw).with_context(|| one_line(&log))?;
        Ok(Transaction { raw, paths: Vec::new() })
    }

    /// Adds a package file. An installed package of that name is upgraded, downgraded or replaced.
    ///
    /// # Errors
    /// When the file is not a package with right header digests.
    #[context("Adding {}", path.display())]
    pub fn install(&mut self, path: &Path) -> Result<()> {
        let _library = Library::enter()?;
        let path = CString::new(path.as_os_str().as_bytes())?;
        // The text of a CString stays where it is when the CString is moved into the Vec.
        let text = path.as_ptr();
        self.paths.push(path);
        // SAFETY: the transaction lives, and the path as long as it.
        let call = || unsafe { ffi::transient_transaction_install(self.raw.as_ptr(), text) };
        let (result, log) = captured(false, call);
        anyhow::ensure!(result == 0, "{}", one_line(&log));
        Ok(())
    }

    /// Adds a removal.
    ///
    /// # Errors
    /// When the package is not installed.
    #[context("Removing {nevra}")]
    pub fn erase(&mut self, nevra: &Nevra) -> Result<()> {
        let _library = Library::enter()?;
        let name = CString::new(nevra.name.as_str())?;
        let version = CString::new(nevra.version.as_str())?;
        let release = CString::new(nevra.release.as_str())?;
        let arch = CString::new(nevra.arch.as_str())?;
        // SAFETY: the transaction and the strings live during the call.
        let (result, log) = captured(false, || unsafe {
            let (n, v, r, a) = (name.as_ptr(), version.as_ptr(), release.as_ptr(), arch.as_ptr());
            ffi::transient_transaction_erase(self.raw.as_ptr(), n, nevra.epoch, v, r, a)
        });
        anyhow::ensure!(result != 1, "it is not installed");
        anyhow::ensure!(result == 0, "{}", one_line(&log));
        Ok(())
    }

    /// Checks dependencies. An empty list means that all is well.
    ///
    /// # Errors
    /// When librpm cannot tell.
    #[context("Checking dependencies")]
    pub fn check(&mut self) -> Result<Vec<Problem>> {
        let _library = Library::enter()?;
        let mut nobody = |_: Step| {};
        let mut watch = Watch { log: Vec::new(), problems: Vec::new(), on_step: &mut nobody };
        let data: *mut c_void = (&raw mut watch).cast();
        // SAFETY: the transaction and the watch live during the call.
        let result = watched(data, || unsafe { ffi::transient_transaction_check(self.raw.as_ptr(), on_problem, data) });
        anyhow::ensure!(result == 0 || !watch.problems.is_empty(), "{}", one_line(&watch.log));
        Ok(watch.problems)
    }

    /// Runs it. `scripts` receives what scriptlets print; with `replace_files` a file may replace that of another
    /// package.
    ///
    /// # Errors
    /// When the library cannot be entered; how the run itself ended is the [`Outcome`].
    pub fn run(
        &mut self,
        replace_files: bool,
        scripts: Option<BorrowedFd<'_>>,
        on_step: &mut dyn FnMut(Step),
    ) -> Result<Outcome> {
        let _library = Library::enter()?;
        let scripts = scripts.map_or(-1, |s| s.as_raw_fd());
        let mut watch = Watch { log: Vec::new(), problems: Vec::new(), on_step };
        let data: *mut c_void = (&raw mut watch).cast();
        let replace = c_int::from(replace_files);
        // SAFETY: transaction, descriptor and watch live during the call.
        let result = watched(data, || unsafe {
            ffi::transient_transaction_run(self.raw.as_ptr(), replace, scripts, on_notify, on_problem, data)
        });
        Ok(match result {
            0 => Outcome::Done,
            _ if !watch.problems.is_empty() => Outcome::Problems(watch.problems),
            _ => Outcome::Failed(one_line(&watch.log)),
        })
    }
}

/// Runs `call` with the log going to the [`Watch`] at `data`.
fn watched(data: *mut c_void, call: impl FnOnce() -> c_int) -> c_int {
    // Verbose, because librpm else sends to /dev/null what scriptlets print.
    // SAFETY: `data` outlives the registration, which ends below; the caller is alone in the library.
    unsafe { ffi::transient_rpm_log(Some(on_message), data, 1) };
    let result = call();
    // SAFETY: as above.
    unsafe { ffi::transient_rpm_log(None, std::ptr::null_mut(), 0) };
    result
}

#[cfg(test)]
mod tests {
    use super::{exit_status, slot_name};

    #[test]
    fn words_of_spec_files() {
        assert_eq!(
            (slot_name("Prein").as_str(), slot_name("Transfiletriggerin").as_str()),
            ("pre", "transfiletriggerin")
        );
        assert_eq!(exit_status("%prein(a-1-1.noarch) scriptlet failed, exit status 3"), "exit status 3");
    }
}
