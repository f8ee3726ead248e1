//! librepo: downloads from mirrors, with retries and checksums. Which address, which credentials and what a failure
//! means is decided in `engine`.

use anyhow::Result;
use std::ffi::{CStr, CString, OsStr, c_char, c_double, c_int, c_long, c_longlong, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null};

/// How to reach a repository. `Debug` is not derived, because there are passwords inside.
#[derive(Clone, Default)]
#[allow(missing_debug_implementations)]
pub struct Settings {
    /// Base addresses.
    pub urls: Vec<String>,
    /// Address of a list of base addresses.
    pub mirrorlist: Option<String>,
    /// Address of a metalink document.
    pub metalink: Option<String>,
    /// Where metadata goes.
    pub destdir: Option<PathBuf>,
    /// `USER:PASSWORD`.
    pub userpwd: Option<String>,
    /// Address of the proxy.
    pub proxy: Option<String>,
    /// `USER:PASSWORD` for the proxy.
    pub proxy_userpwd: Option<String>,
    /// Certificates to trust.
    pub sslcacert: Option<String>,
    /// Our certificate.
    pub sslclientcert: Option<String>,
    /// Its key.
    pub sslclientkey: Option<String>,
    /// Verify the server's certificate and name.
    pub sslverify: bool,
    /// Keyring directory: `repomd.xml` must be signed by a key in it.
    pub gnupghome: Option<PathBuf>,
    /// Seconds.
    pub timeout: i64,
    /// Least bytes a second.
    pub minrate: i64,
    /// Most bytes a second; 0 is no limit.
    pub maxspeed: i64,
    /// Downloads at a time.
    pub parallel: i64,
}

/// Why a download failed, where a caller chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Anything else.
    Other,
    /// The server answered with an error status.
    Status,
    /// The file is not what was promised.
    Checksum,
    /// The signature of metadata is missing or bad.
    Signature,
    /// A progress callback asked to stop.
    Interrupted,
}

/// librepo's message and what kind of failure it is.
#[derive(Debug, Clone)]
pub struct Error {
    /// What kind.
    pub kind: Kind,
    /// The library's message.
    pub message: String,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<std::ffi::NulError> for Error {
    fn from(_: std::ffi::NulError) -> Self {
        Error { kind: Kind::Other, message: "a setting contains a NUL byte".into() }
    }
}

/// Told the bytes in all (0 when unknown) and the bytes so far; `false` stops the download.
pub type OnProgress<'a> = Box<dyn FnMut(u64, u64) -> bool + 'a>;

#[repr(C)]
struct RawSettings {
    urls: *const *const c_char,
    mirrorlist: *const c_char,
    metalink: *const c_char,
    destdir: *const c_char,
    userpwd: *const c_char,
    proxy: *const c_char,
    proxy_userpwd: *const c_char,
    sslcacert: *const c_char,
    sslclientcert: *const c_char,
    sslclientkey: *const c_char,
    gnupghome: *const c_char,
    useragent: *const c_char,
    sslverify: c_long,
    timeout: c_long,
    minrate: c_long,
    maxspeed: c_longlong,
    parallel: c_long,
    progress: Option<RawProgress>,
    mirror_failure: Option<RawMirrorFailure>,
    progress_data: *mut c_void,
}

type RawMirrorFailure = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, *const c_char) -> c_int;
type RawTargetMirrorFailure = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> c_int;
type RawProgress = unsafe extern "C" fn(*mut c_void, c_double, c_double) -> c_int;

#[repr(C)]
struct RawError {
    kind: c_int,
    message: *mut c_char,
}

#[repr(C)]
struct RawTarget {
    handle: *mut RawHandle,
    location: *const c_char,
    base: *const c_char,
    dest: *const c_char,
    algorithm: *const c_char,
    checksum: *const c_char,
    size: c_longlong,
    progress: Option<RawProgress>,
    mirror_failure: Option<RawTargetMirrorFailure>,
    progress_data: *mut c_void,
    error: *mut c_char,
}

#[repr(C)]
struct RawHandle {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn transient_librepo_error_clear(error: *mut RawError);
    fn transient_handle_new(settings: *const RawSettings, error: *mut RawError) -> *mut RawHandle;
    fn transient_handle_free(handle: *mut RawHandle);
    fn transient_handle_metadata(handle: *mut RawHandle, types: *const *const c_char, error: *mut RawError) -> c_int;
    fn transient_handle_url(handle: *mut RawHandle, url: *const c_char, fd: c_int, error: *mut RawError) -> c_int;
    fn transient_packages(targets: *mut RawTarget, count: c_int, error: *mut RawError) -> c_int;
    fn transient_librepo_string_free(text: *mut c_char);
    fn transient_checksum_matches(fd: c_int, algorithm: *const c_char, hex: *const c_char) -> c_int;
    fn transient_gpg_import(key: *const c_char, home: *const c_char, error: *mut RawError) -> c_int;
}

/// Runs a C function that fills an error, and takes the error over.
fn run<T>(call: impl FnOnce(*mut RawError) -> Option<T>) -> std::result::Result<T, Error> {
    let mut raw = RawError { kind: 0, message: std::ptr::null_mut() };
    if let Some(value) = call(&mut raw) {
        return Ok(value);
    }
    // SAFETY: on failure the C side filled in a message, which is freed after the copy.
    let message = unsafe {
        let text = (!raw.message.is_null()).then(|| CStr::from_ptr(raw.message).to_string_lossy().into_owned());
        transient_librepo_error_clear(&mut raw);
        text.unwrap_or_default()
    };
    let kind = match raw.kind {
        1 => Kind::Status,
        2 => Kind::Checksum,
        3 => Kind::Signature,
        4 => Kind::Interrupted,
        _ => Kind::Other,
    };
    Err(Error { kind, message })
}

/// Calls the boxed closure behind `data`.
unsafe extern "C" fn on_progress(data: *mut c_void, total: c_double, now: c_double) -> c_int {
    // SAFETY: `data` is the `OnProgress` that was given along, alive and used by this thread only.
    let callback = unsafe { &mut *data.cast::<OnProgress<'_>>() };
    // librepo counts in doubles; negative or not-a-number becomes 0 by the cast's rules.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    let go_on = callback(total as u64, now as u64);
    c_int::from(!go_on)
}

/// What a handle's callbacks need: librepo's own message only says that all mirrors were tried, not what they said.
struct Watch<'a> {
    progress: OnProgress<'a>,
    mirror_failure: Option<String>,
}

/// As [`on_progress`], for metadata.
unsafe extern "C" fn on_metadata(data: *mut c_void, total: c_double, now: c_double) -> c_int {
    // SAFETY: `data` is the `Watch` of the handle, alive and used by this thread only.
    let watch = unsafe { &mut *data.cast::<Watch<'_>>() };
    // SAFETY: the pointer is to a live callback.
    unsafe { on_progress((&raw mut watch.progress).cast(), total, now) }
}

unsafe extern "C" fn on_mirror_failure(
    data: *mut c_void,
    message: *const c_char,
    _url: *const c_char,
    _metadata: *const c_char,
) -> c_int {
    if !message.is_null() {
        // SAFETY: `data` is the `Watch` of the handle, alive and used by this thread only; `message` is a C string.
        unsafe {
            let watch = &mut *data.cast::<Watch<'_>>();
            watch.mirror_failure = Some(CStr::from_ptr(message).to_string_lossy().into_owned());
        }
    }
    0
}

/// As [`on_mirror_failure`], for one of several files.
unsafe extern "C" fn on_target_mirror_failure(data: *mut c_void, message: *const c_char, url: *const c_char) -> c_int {
    // SAFETY: as promised for `on_mirror_failure`.
    unsafe { on_mirror_failure(data, message, url, null()) }
}

/// C strings that live as long as one call.
#[derive(Default)]
struct Texts(Vec<CString>);

impl Texts {
    fn add(&mut self, text: &OsStr) -> std::result::Result<*const c_char, Error> {
        let text = CString::new(text.as_bytes())?;
        let pointer = text.as_ptr();
        self.0.push(text);
        Ok(pointer)
    }
    fn optional(&mut self, text: Option<impl AsRef<OsStr>>) -> std::result::Result<*const c_char, Error> {
        text.map_or(Ok(null()), |t| self.add(t.as_ref()))
    }
}

/// A configured connection. The callback lives as long as it.
#[allow(missing_debug_implementations)]
pub struct Handle<'a> {
    raw: NonNull<RawHandle>,
    watch: *mut Watch<'a>,
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        // SAFETY: `raw` came from transient_handle_new and is freed once.
        unsafe { transient_handle_free(self.raw.as_ptr()) }
        if !self.watch.is_null() {
            // SAFETY: `watch` came from Box::into_raw, and librepo no longer has it.
            drop(unsafe { Box::from_raw(self.watch) });
        }
    }
}

impl<'a> Handle<'a> {
    /// A handle with these settings; `progress` is told about metadata.
    ///
    /// # Errors
    /// When librepo does not accept a setting.
    pub fn new(settings: &Settings, progress: Option<OnProgress<'a>>) -> std::result::Result<Self, Error> {
        let mut texts = Texts::default();
        let mut urls = Vec::new();
        for url in &settings.urls {
            urls.push(texts.add(OsStr::new(url))?);
        }
        urls.push(null());
        let mut raw = RawSettings {
            urls: if settings.urls.is_empty() { null() } else { urls.as_ptr() },
            mirrorlist: texts.optional(settings.mirrorlist.as_ref())?,
            metalink: texts.optional(settings.metalink.as_ref())?,
            destdir: texts.optional(settings.destdir.as_ref())?,
            userpwd: texts.optional(settings.userpwd.as_ref())?,
            proxy: texts.optional(settings.proxy.as_ref())?,
            proxy_userpwd: texts.optional(settings.proxy_userpwd.as_ref())?,
            sslcacert: texts.optional(settings.sslcacert.as_ref())?,
            sslclientcert: texts.optional(settings.sslclientcert.as_ref())?,
            sslclientkey: texts.optional(settings.sslclientkey.as_ref())?,
            gnupghome: texts.optional(settings.gnupghome.as_ref())?,
            useragent: texts.add(OsStr::new(concat!("rpm-ostree-transient/", env!("CARGO_PKG_VERSION"))))?,
            sslverify: c_long::from(settings.sslverify),
            timeout: settings.timeout as c_long,
            minrate: settings.minrate as c_long,
            maxspeed: settings.maxspeed,
            parallel: settings.parallel.clamp(1, 20) as c_long,
            progress: progress.as_ref().map(|_| on_metadata as RawProgress),
            mirror_failure: progress.as_ref().map(|_| on_mirror_failure as RawMirrorFailure),
            progress_data: std::ptr::null_mut(),
        };
        let watch = match progress {
            Some(progress) => Box::into_raw(Box::new(Watch { progress, mirror_failure: None })),
            None => std::ptr::null_mut(),
        };
        raw.progress_data = watch.cast();
        // SAFETY: every pointer lives during the call, which copies; the callback lives as long as the handle.
        match run(|error| NonNull::new(unsafe { transient_handle_new(&raw, error) })) {
            Ok(handle) => Ok(Handle { raw: handle, watch }),
            Err(error) => {
                if !watch.is_null() {
                    // SAFETY: from Box::into_raw above; there is no handle that has it.
                    drop(unsafe { Box::from_raw(watch) });
                }
                Err(error)
            }
        }
    }

    /// Fetches `repomd.xml` and metadata of these types into `destdir/repodata`.
    ///
    /// # Errors
    /// When it cannot be had, or is not what was promised.
    pub fn metadata(&self, types: &[&str]) -> std::result::Result<(), Error> {
        let mut texts = Texts::default();
        let mut list = Vec::new();
        for name in types {
            list.push(texts.add(OsStr::new(name))?);
        }
        list.push(null());
        // SAFETY: the handle lives, and so do the strings during the call.
        let result = run(|error| {
            // SAFETY: the handle and its arguments live during the call.
            (unsafe { transient_handle_metadata(self.raw.as_ptr(), list.as_ptr(), error) } != 0).then_some(())
        });
        result.map_err(|mut error| {
            // SAFETY: NULL or the live `Watch`; librepo is not at work now.
            let last = unsafe { self.watch.as_mut() }.and_then(|w| w.mirror_failure.take());
            if let Some(last) = last.filter(|l| !error.message.contains(l.as_str())) {
                error.message = format!("{}: {last}", error.message);
            }
            error
        })
    }

    /// Fetches one address into an open file.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn url(&self, url: &str, file: BorrowedFd<'_>) -> std::result::Result<(), Error> {
        let url = CString::new(url)?;
        // SAFETY: the handle, the string and the file live during the call.
        run(|e| {
            // SAFETY: the handle and its arguments live during the call.
            (unsafe { transient_handle_url(self.raw.as_ptr(), url.as_ptr(), file.as_raw_fd(), e) } != 0).then_some(())
        })
    }
}

/// One file to fetch.
#[allow(missing_debug_implementations)]
pub struct Target<'a> {
    /// Which of the handles.
    pub handle: usize,
    /// Relative to the handle's addresses, or to `base`.
    pub location: String,
    /// Another base address.
    pub base: Option<String>,
    /// File to write.
    pub dest: PathBuf,
    /// What it must be.
    pub checksum: Option<model::Checksum>,
    /// Bytes, when known.
    pub size: u64,
    /// Told about this file.
    pub progress: OnProgress<'a>,
}

/// Fetches files, several at a time. Returns one entry per target: none when it is there, else why it is not.
///
/// # Errors
/// When none could be tried, or the download was interrupted.
pub fn packages(handles: &[Handle<'_>], targets: Vec<Target<'_>>) -> std::result::Result<Vec<Option<String>>, Error> {
    let mut texts = Texts::default();
    let mut raw = Vec::new();
    // Filled before pointers into it are taken, and not moved afterwards.
    let (mut watches, mut rest) = (Vec::new(), Vec::new());
    for Target { handle, location, base, dest, checksum, size, progress } in targets {
        watches.push(Watch { progress, mirror_failure: None });
        rest.push((handle, location, base, dest, checksum, size));
    }
    let first = watches.as_mut_ptr();
    for (i, (handle, location, base, dest, checksum, size)) in rest.iter().enumerate() {
        raw.push(RawTarget {
            handle: handles[*handle].raw.as_ptr(),
            location: texts.add(OsStr::new(location))?,
            base: texts.optional(base.as_ref())?,
            dest: texts.add(dest.as_os_str())?,
            algorithm: texts.optional(checksum.as_ref().map(|c| &c.algorithm))?,
            checksum: texts.optional(checksum.as_ref().map(|c| &c.hex))?,
            size: c_longlong::try_from(*size).unwrap_or(0),
            progress: Some(on_metadata),
            mirror_failure: Some(on_target_mirror_failure),
            // SAFETY: `watches` has as many elements as `rest`.
            progress_data: unsafe { first.add(i) }.cast(),
            error: std::ptr::null_mut(),
        });
    }
    let count = c_int::try_from(raw.len()).expect("fewer files than fit into an int");
    // SAFETY: handles, strings and watches live during the call.
    let result = run(|error| (unsafe { transient_packages(raw.as_mut_ptr(), count, error) } != 0).then_some(()));
    let mut errors = Vec::new();
    for (target, watch) in raw.iter().zip(&mut watches) {
        // SAFETY: NULL or a string that the C side allocated; freed after the copy.
        let text = unsafe {
            let text = (!target.error.is_null()).then(|| CStr::from_ptr(target.error).to_string_lossy().into_owned());
            transient_librepo_string_free(target.error);
            text
        };
        errors.push(text.map(|text| match watch.mirror_failure.take() {
            Some(last) if !text.contains(&last) => format!("{text}: {last}"),
            _ => text,
        }));
    }
    result.map(|()| errors)
}

/// True when an open file has this checksum.
///
/// # Errors
/// When the file cannot be read or the algorithm is unknown.
pub fn checksum_matches(file: BorrowedFd<'_>, checksum: &model::Checksum) -> Result<bool> {
    let (algorithm, hex) = (CString::new(checksum.algorithm.as_str())?, CString::new(checksum.hex.as_str())?);
    // SAFETY: the file and both strings live during the call.
    match unsafe { transient_checksum_matches(file.as_raw_fd(), algorithm.as_ptr(), hex.as_ptr()) } {
        1 => Ok(true),
        0 => Ok(false),
        _ => anyhow::bail!("cannot compute the {} checksum", checksum.algorithm),
    }
}

/// Adds a key file to the keyring in directory `home`.
///
/// # Errors
/// When it is not a key.
pub fn gpg_import(key: &Path, home: &Path) -> std::result::Result<(), Error> {
    let (key, home) = (CString::new(key.as_os_str().as_bytes())?, CString::new(home.as_os_str().as_bytes())?);
    // SAFETY: both strings live during the call.
    run(|error| (unsafe { transient_gpg_import(key.as_ptr(), home.as_ptr(), error) } != 0).then_some(()))
}
