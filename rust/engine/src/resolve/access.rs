//! How a repository is reached: librepo's settings from a [`RepoConfig`], its failures in our words, and its keys.
//! Shared by metadata and `fetch`.

use super::config::{RepoConfig, Secret, redact};
use anyhow::{Context as _, Result};
use bridge::librepo::{Error, Handle, Kind, OnProgress, Settings};
use fn_error_context::context;
use model::{Code, Failure, Progress};
use std::io::{Read, Seek};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Settings for one repository.
pub(crate) fn settings(config: &RepoConfig) -> Settings {
    let limit = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let text = |s: &Option<Secret>| s.as_ref().map(|s| s.expose().to_owned());
    Settings {
        urls: config.baseurl.clone(),
        mirrorlist: config.mirrorlist.clone(),
        metalink: config.metalink.clone(),
        userpwd: text(&config.userpwd),
        proxy: text(&config.proxy),
        proxy_userpwd: text(&config.proxy_userpwd),
        sslcacert: config.sslcacert.clone(),
        sslclientcert: config.sslclientcert.clone(),
        sslclientkey: config.sslclientkey.clone(),
        sslverify: config.sslverify,
        timeout: limit(config.timeout),
        minrate: limit(config.minrate),
        maxspeed: limit(config.throttle),
        parallel: limit(config.parallel),
        ..Settings::default()
    }
}

/// A callback that shows bytes of `what` and stops when the user asked to.
pub(crate) fn shown<'a>(what: String, progress: &'a dyn Progress) -> OnProgress<'a> {
    Box::new(move |total, done| {
        if total > 0 {
            progress.event(model::Event::Bytes { what: what.clone(), done, total });
        }
        !progress.cancelled()
    })
}

/// Where everything lies that is not whole yet: one place, so that what a killed run left is found without a search.
///
/// # Errors
/// From the filesystem.
pub(crate) fn unfinished(cache: &Path) -> Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt as _;
    let path = cache.join(UNFINISHED);
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o755).create(&path);
    made.with_context(|| format!("Preparing cache directory {}", path.display()))?;
    Ok(path)
}

/// Removes what killed runs left in the cache. Only for who holds the lock: the work of a running one is there too.
///
/// # Errors
/// From the filesystem.
pub(crate) fn remove_unfinished(cache: &Path) -> Result<()> {
    let path = cache.join(UNFINISHED);
    match std::fs::remove_dir_all(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("Removing {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Name of the directory of [`unfinished`].
const UNFINISHED: &str = "unfinished";

/// The failure that a user stopped.
pub(crate) fn interrupted() -> Failure {
    Failure::new(Code::Interrupted, "interrupted; nothing has changed")
}

/// librepo's failure in our words; `what` names what was wanted, without credentials.
pub(crate) fn failure(what: &str, error: &Error, progress: &dyn Progress) -> Failure {
    if error.kind == Kind::Interrupted || progress.cancelled() {
        return interrupted();
    }
    let code = match error.kind {
        Kind::Checksum => Code::Checksum,
        Kind::Signature => Code::Untrusted,
        _ => code_of(&error.message),
    };
    with_way_out(Failure::new(code, format!("{what}: {}", redact(&error.message))))
}

/// The hint that a full cache needs, whatever was being downloaded.
pub(crate) fn with_way_out(failure: Failure) -> Failure {
    match failure.code {
        Code::NoSpace => failure.hint("the cache could not be written: make room there; it is safe to delete"),
        _ => failure,
    }
}

/// The case that a message without a kind is about: librepo gives only a text for one of several downloads, and for
/// the last of several mirrors.
pub(crate) fn code_of(message: &str) -> Code {
    let message = message.to_lowercase();
    if message.contains("checksum") && (message.contains("match") || message.contains("bad")) {
        Code::Checksum
    } else if message.contains("curl error (23)") {
        // CURLE_WRITE_ERROR: it is not the repository that failed.
        Code::NoSpace
    } else {
        Code::Repository
    }
}

/// Fetches the public keys of a repository (`gpgkey=`). A `file://` key is looked for below `root`.
///
/// # Errors
/// [`Code::Untrusted`] when a key cannot be read, [`Code::Repository`] when it cannot be downloaded.
#[context("Reading the keys of repository {}", config.id)]
pub(crate) fn keys(
    config: &RepoConfig,
    root: &Path,
    cache_only: bool,
    progress: &dyn Progress,
) -> Result<Vec<Vec<u8>>> {
    config.gpgkey.iter().map(|address| key(config, address, root, cache_only, progress)).collect()
}

fn key(config: &RepoConfig, address: &str, root: &Path, cache_only: bool, progress: &dyn Progress) -> Result<Vec<u8>> {
    let local = address.strip_prefix("file://").or(address.starts_with('/').then_some(address));
    if let Some(path) = local {
        let path = root.join(path.trim_start_matches('/'));
        return std::fs::read(&path).map_err(|e| {
            let message = format!("repository {}: key {}: {e}", config.id, path.display());
            Failure::new(Code::Untrusted, message).hint("correct gpgkey= in the .repo file").into()
        });
    }
    let what = format!("repository {}: key {}", config.id, redact(address));
    if cache_only {
        return Err(
            Failure::new(Code::Repository, format!("{what} is not in the cache, and -C forbids a download")).into()
        );
    }
    let mut file = temporary()?;
    let settings = Settings { urls: vec![], mirrorlist: None, metalink: None, ..settings(config) };
    let handle = Handle::new(&settings, None).map_err(|e| failure(&what, &e, progress))?;
    handle.url(address, file.as_fd()).map_err(|e| failure(&what, &e, progress))?;
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file without a name.
fn temporary() -> Result<std::fs::File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    Ok(memfd_create("key", MemfdFlags::CLOEXEC)?.into())
}
