//! Plan → verified files. librepo downloads into a cache keyed by checksum; librpm checks signatures as policy asks.
//! A file gets its final name only when its checksum is right, so a killed run leaves nothing that looks whole.

mod trust;

use crate::resolve::{Options, RepoConfig, Resolution, access, expire_metadata, main_settings, redact};
use anyhow::{Context, Result};
use bridge::librepo::{Handle, Settings, Target, checksum_matches, packages};
use fn_error_context::context;
use model::{Checksum, Code, Event, Failure, PackageSource, PlannedPackage, Progress, Signature};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// A package file whose checksum and signature were checked as policy asks.
#[derive(Debug, Clone)]
pub struct FetchedPackage {
    /// What it is in the plan.
    pub planned: PlannedPackage,
    /// The file.
    pub path: PathBuf,
    /// What was verified.
    pub signature: Signature,
}

/// A package that has to be downloaded.
struct Wanted<'a> {
    package: &'a PlannedPackage,
    config: usize,
    location: &'a str,
    base: Option<&'a str>,
    checksum: &'a Checksum,
    /// Where it ends.
    path: PathBuf,
    /// Where it is until it is whole.
    partial: PathBuf,
}

/// Downloads and verifies every package of the plan.
///
/// # Errors
/// [`model::Code`]: `Repository` (with path and HTTP status), `Checksum`, `Untrusted`, `Interrupted`.
pub fn fetch(
    resolution: &Resolution,
    root: &Path,
    cache: &Path,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Vec<FetchedPackage>> {
    let mut paths = Vec::new();
    let mut wanted = Vec::new();
    for package in &resolution.plan.install {
        match &package.source {
            PackageSource::File { path } => paths.push(path.clone()),
            PackageSource::Repository { id, location, base } => {
                let want = want(resolution, cache, package, id, location, base.as_deref())?;
                paths.push(want.path.clone());
                if !whole(&want.path, want.checksum)? {
                    wanted.push(want);
                }
            }
        }
    }
    if let (Some(first), true) = (wanted.first(), options.cache_only) {
        let message = format!("{} is not in the cache, and -C forbids a download", first.package.nevra);
        return Err(Failure::new(Code::Repository, message).hint("run without -C").into());
    }
    if !wanted.is_empty() {
        let result = download(&resolution.repositories, &wanted, cache, progress);
        for want in &wanted {
            let _ = fs::remove_file(&want.partial);
        }
        result?;
    }
    let mut trust = trust::Trust::new(resolution, root, options, progress);
    let total = paths.len() as u64;
    let mut out = Vec::new();
    for (planned, path) in resolution.plan.install.iter().zip(paths) {
        if progress.cancelled() {
            return Err(access::interrupted().into());
        }
        let signature = trust.check(planned, &path)?;
        let done = out.len() as u64 + 1;
        progress.event(Event::Steps { what: planned.nevra.to_string(), done, total });
        out.push(FetchedPackage { planned: planned.clone(), path, signature });
    }
    Ok(out)
}

fn want<'a>(
    resolution: &Resolution,
    cache: &Path,
    package: &'a PlannedPackage,
    id: &str,
    location: &'a str,
    base: Option<&'a str>,
) -> Result<Wanted<'a>> {
    let config = resolution.repositories.iter().position(|r| r.id == id);
    let config =
        config.ok_or_else(|| anyhow::anyhow!("{} is of repository {id}, which is not known", package.nevra))?;
    let refused = |what: &str| Failure::new(Code::Repository, format!("repository {id}: {what} of {}", package.nevra));
    let checksum = package.checksum.as_ref().ok_or_else(|| refused("metadata gives no checksum"))?;
    // Both come from metadata and become part of a path.
    let plain = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric());
    if !plain(&checksum.algorithm) || !plain(&checksum.hex) {
        return Err(refused("metadata gives a malformed checksum").into());
    }
    let name = Path::new(location)
        .file_name()
        .and_then(|n| n.to_str())
        .ok_or_else(|| refused("metadata gives a malformed location"))?;
    let directory = cache.join("packages").join(format!("{}-{}", checksum.algorithm, checksum.hex));
    let partial = access::unfinished(cache)?.join(format!("{}.{}", checksum.hex, std::process::id()));
    Ok(Wanted { package, config, location, base, checksum, path: directory.join(name), partial })
}

/// True when a file of the cache is there and is what it should be; one that is not is removed.
#[context("Checking {} in the cache", path.display())]
fn whole(path: &Path, checksum: &Checksum) -> Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e.into()),
    };
    if checksum_matches(file.as_fd(), checksum)? {
        return Ok(true);
    }
    fs::remove_file(path)?;
    Ok(false)
}

fn download(configs: &[RepoConfig], wanted: &[Wanted<'_>], cache: &Path, progress: &dyn Progress) -> Result<()> {
    let mut handles = Vec::new();
    let mut handle_of = vec![None; configs.len()];
    let mut targets = Vec::new();
    for want in wanted {
        let config = &configs[want.config];
        let handle = match handle_of[want.config] {
            Some(handle) => handle,
            None => {
                let what = format!("repository {}", config.id);
                let handle = Handle::new(&access::settings(config), None);
                handles.push(handle.map_err(|e| access::failure(&what, &e, progress))?);
                *handle_of[want.config].insert(handles.len() - 1)
            }
        };
        let directory = want.path.parent().unwrap_or(cache);
        fs::create_dir_all(directory).with_context(|| format!("Preparing cache directory {}", directory.display()))?;
        targets.push(Target {
            handle,
            location: want.location.into(),
            base: want.base.map(str::to_owned),
            dest: want.partial.clone(),
            checksum: Some(want.checksum.clone()),
            size: want.package.download_bytes,
            progress: access::shown(want.package.nevra.to_string(), progress),
        });
    }
    let results = packages(&handles, targets).map_err(|e| access::failure("downloading", &e, progress))?;
    if progress.cancelled() {
        return Err(access::interrupted().into());
    }
    let mut first = None;
    for (want, result) in wanted.iter().zip(results) {
        match result {
            // What did arrive is kept: the next run continues from there.
            None => {
                fs::rename(&want.partial, &want.path).with_context(|| format!("Keeping {}", want.path.display()))?
            }
            Some(message) => first = first.or(Some((want, message))),
        }
    }
    let Some((want, message)) = first else { return Ok(()) };
    let config = &configs[want.config];
    let text = redact(&message);
    let code = access::code_of(&text);
    let failure = Failure::new(code, format!("repository {}: {}: {text}", config.id, want.package.nevra));
    if code == Code::NoSpace {
        return Err(access::with_way_out(failure).into());
    }
    expire_metadata(cache, config);
    Err(failure.hint("if the repository has just changed, the next run reads its metadata afresh").into())
}

/// Downloads one RPM file named by a URL argument. It is fetched again each time: an address says nothing of content.
/// With `cache_only` the last download is used.
///
/// # Errors
/// [`model::Code::Repository`].
pub fn fetch_url(url: &str, cache: &Path, cache_only: bool, progress: &dyn Progress) -> Result<PathBuf> {
    if let Some(path) = url.strip_prefix("file://") {
        let path = PathBuf::from(path);
        fs::metadata(&path).map_err(|e| Failure::new(Code::NotFound, format!("{}: {e}", path.display())))?;
        return Ok(path);
    }
    let shown = redact(url);
    let address = url.split(['?', '#']).next().unwrap_or(url);
    let name = address.rsplit('/').next().filter(|n| n.ends_with(".rpm") && !n.starts_with('.'));
    let hash: String = Sha256::digest(url.as_bytes()).iter().take(8).map(|b| format!("{b:02x}")).collect();
    let directory = cache.join("urls").join(hash);
    let path = directory.join(name.unwrap_or("package.rpm"));
    if cache_only {
        let message = format!("{shown} is not in the cache, and -C forbids a download");
        let missing = || Failure::new(Code::Repository, message).hint("run without -C").into();
        return if path.exists() { Ok(path) } else { Err(missing()) };
    }
    fs::create_dir_all(&directory).with_context(|| format!("Preparing cache directory {}", directory.display()))?;
    let partial = access::unfinished(cache)?.join(format!("url.{}", std::process::id()));
    let result = fetch_one(url, &shown, &partial, progress)
        .and_then(|()| fs::rename(&partial, &path).with_context(|| format!("Keeping {}", path.display())));
    let _ = fs::remove_file(&partial);
    result.map(|()| path)
}

fn fetch_one(url: &str, shown: &str, partial: &Path, progress: &dyn Progress) -> Result<()> {
    // librepo wants to read as well.
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(partial)
        .with_context(|| format!("Creating {}", partial.display()))?;
    let settings: Settings = access::settings(&main_settings(Path::new("/"))?);
    let failed = |e| access::failure(shown, &e, progress);
    let handle = Handle::new(&settings, Some(access::shown(shown.to_owned(), progress))).map_err(failed)?;
    handle.url(url, file.as_fd()).map_err(failed)?;
    Ok(())
}
