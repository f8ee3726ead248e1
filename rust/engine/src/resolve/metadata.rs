//! Metadata of one repository → packages in the pool. What was parsed is kept in libsolv's binary form, named after
//! the checksum of `repomd.xml`:
//!
//! `<cache>/<repoid>-<hash of its address>/{repomd.xml, SHA.solv, SHA.solvx}`; the time of `repomd.xml` is that of
//! the last look at the repository. A run that is killed leaves only files that a later one replaces.

use super::access;
use super::config::RepoConfig;
use anyhow::{Context, Result};
use bridge::librepo::{Handle, Settings, gpg_import};
use bridge::solv::{Part, Pool, Repo};
use fn_error_context::context;
use model::{Code, Event, Failure, Progress};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What is the same for all repositories of a run.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    /// Root of the configuration, for keys.
    pub root: &'a Path,
    /// Cache directory.
    pub cache: &'a Path,
    /// `-C`.
    pub cache_only: bool,
    /// Look at the repository even if its metadata is fresh.
    pub refresh: bool,
    /// File lists as well.
    pub filelists: bool,
    /// Shows bytes, and knows whether to stop.
    pub progress: &'a dyn Progress,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}

/// Directory of one repository: another address is another directory, and what nobody had to sign is not found where a
/// signature is asked for.
fn directory(cache: &Path, config: &RepoConfig) -> PathBuf {
    let mut sha = Sha256::new();
    for address in config.baseurl.iter().chain(&config.mirrorlist).chain(&config.metalink) {
        sha.update(address.as_bytes());
        sha.update([0]);
    }
    if config.repo_gpgcheck {
        sha.update(b"signed");
    }
    let id: String = config.id.chars().map(|c| if c == '/' { '_' } else { c }).collect();
    cache.join(format!("{id}-{}", &hex(&sha.finalize())[..16]))
}

/// The binary files that belong to one `repomd.xml`.
struct Cached {
    primary: PathBuf,
    filelists: PathBuf,
}

impl Cached {
    fn of(directory: &Path, repomd: &Path) -> Result<Cached> {
        let sha = hex(&Sha256::digest(fs::read(repomd).with_context(|| format!("Reading {}", repomd.display()))?));
        let file = |extension| directory.join(format!("{sha}.{extension}"));
        Ok(Cached { primary: file("solv"), filelists: file("solvx") })
    }

    fn complete(&self, filelists: bool) -> bool {
        self.primary.exists() && (!filelists || self.filelists.exists())
    }
}

/// Loads a repository. None when it cannot be had and `skip_if_unavailable` is set.
///
/// # Errors
/// [`Code::Repository`], [`Code::Checksum`], [`Code::Untrusted`], [`Code::Interrupted`].
pub(super) fn load(pool: &mut Pool, config: &RepoConfig, source: Source<'_>) -> Result<Option<Repo>> {
    // libsolv prefers the larger number, dnf the smaller.
    let repo = pool.add_repo(&config.id, config.priority.saturating_neg(), config.cost.saturating_neg())?;
    match fill(pool, repo, config, source) {
        Ok(()) => Ok(Some(repo)),
        Err(error) => {
            let code = error.downcast_ref::<Failure>().map(|f| f.code);
            if config.skip_if_unavailable && code == Some(Code::Repository) {
                source.progress.event(Event::Notice(format!("skipping {error}")));
                return Ok(None);
            }
            Err(error)
        }
    }
}

fn fill(pool: &mut Pool, repo: Repo, config: &RepoConfig, source: Source<'_>) -> Result<()> {
    let directory = directory(source.cache, config);
    let repomd = directory.join("repomd.xml");
    let known = repomd.exists().then(|| Cached::of(&directory, &repomd)).transpose()?;
    if let Some(known) = &known {
        let usable = source.cache_only || (!source.refresh && fresh(&repomd, config.metadata_expire));
        if usable && known.complete(source.filelists) && from_cache(pool, repo, known, source.filelists).is_ok() {
            return Ok(());
        }
    }
    if source.cache_only {
        let part = if known.is_some_and(|k| k.primary.exists()) { "file lists" } else { "metadata" };
        let message = format!("repository {}: no {part} in the cache, and -C forbids a download", config.id);
        return Err(Failure::new(Code::Repository, message).hint("run once without -C").into());
    }
    download(pool, repo, config, source, &directory)
}

fn fresh(repomd: &Path, expire: Option<u64>) -> bool {
    let time = fs::metadata(repomd).and_then(|m| m.modified()).ok();
    // Marked by `expire`.
    if time == Some(SystemTime::UNIX_EPOCH) {
        return false;
    }
    match (time.and_then(|t| t.elapsed().ok()), expire) {
        (Some(age), Some(limit)) => age.as_secs() < limit,
        (age, None) => age.is_some(),
        // A time in the future is a clock that was wrong.
        (None, Some(_)) => false,
    }
}

/// Makes the next run look at the repository, whatever `metadata_expire` says; `-C` can still use what is there.
pub(super) fn expire(cache: &Path, config: &RepoConfig) -> std::io::Result<()> {
    let repomd = fs::File::options().write(true).open(directory(cache, config).join("repomd.xml"))?;
    repomd.set_modified(SystemTime::UNIX_EPOCH)
}

fn from_cache(pool: &mut Pool, repo: Repo, cached: &Cached, filelists: bool) -> Result<()> {
    pool.add_solv(repo, &cached.primary, Part::Primary)?;
    if filelists {
        pool.add_solv(repo, &cached.filelists, Part::Filelists)?;
    }
    Ok(())
}

/// Removes its directory when it goes out of use.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[context("Preparing cache directory {}", directory.display())]
fn scratch(cache: &Path, directory: &Path) -> Result<Scratch> {
    fs::create_dir_all(directory)?;
    let name = directory.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let scratch = Scratch(access::unfinished(cache)?.join(format!("{name}.{}", std::process::id())));
    let _ = fs::remove_dir_all(&scratch.0);
    fs::create_dir(&scratch.0)?;
    Ok(scratch)
}

fn download(pool: &mut Pool, repo: Repo, config: &RepoConfig, source: Source<'_>, directory: &Path) -> Result<()> {
    let scratch = scratch(source.cache, directory)?;
    let settings = Settings {
        destdir: Some(scratch.0.clone()),
        gnupghome: if config.repo_gpgcheck { Some(keyring(config, source, &scratch.0)?) } else { None },
        ..access::settings(config)
    };
    let what = format!("repository {} ({})", config.id, config.address());
    let fetched = scratch.0.join("repodata");
    let fetch = |types: &[&str]| -> Result<()> {
        // librepo wants to make the directory itself.
        let _ = fs::remove_dir_all(&fetched);
        let handle = Handle::new(&settings, Some(access::shown(config.id.clone(), source.progress)));
        handle.and_then(|h| h.metadata(types)).map_err(|e| {
            let failure = access::failure(&what, &e, source.progress);
            match failure.code {
                Code::NoSpace => failure.into(),
                _ => failure.hint(format!("leave it out with --disablerepo={}", config.id)).into(),
            }
        })
    };
    fetch(&[])?;
    let mut cached = Cached::of(directory, &fetched.join("repomd.xml"))?;
    if !cached.complete(source.filelists) {
        // The mirror may change between two looks: the second look is the one that counts.
        fetch(if source.filelists { &["primary", "filelists"] } else { &["primary"] })?;
        cached = Cached::of(directory, &fetched.join("repomd.xml"))?;
        convert(pool, repo, &cached.primary, &fetched, Part::Primary)?;
        if source.filelists {
            convert(pool, repo, &cached.filelists, &fetched, Part::Filelists)?;
        }
    } else {
        from_cache(pool, repo, &cached, source.filelists)?;
    }
    fs::rename(fetched.join("repomd.xml"), directory.join("repomd.xml")).context("Keeping repomd.xml")?;
    forget_others(directory, &cached);
    Ok(())
}

/// Parses one XML file into the pool and keeps it in binary form.
fn convert(pool: &mut Pool, repo: Repo, kept: &Path, fetched: &Path, part: Part) -> Result<()> {
    let name = if part == Part::Primary { "primary.xml" } else { "filelists.xml" };
    let xml = fs::read_dir(fetched)?
        .flatten()
        .map(|e| e.path())
        .find(|p| p.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.contains(name)))
        .ok_or_else(|| Failure::new(Code::Repository, format!("metadata has no {name}")))?;
    pool.add_rpmmd(repo, &xml, part)?;
    let partial = fetched.join("partial");
    pool.write_solv(repo, &partial, part)?;
    fs::rename(&partial, kept).with_context(|| format!("Keeping {}", kept.display()))
}

/// Removes binary files of older metadata. Failing costs only space.
fn forget_others(directory: &Path, keep: &Cached) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let ours = path.extension().is_some_and(|e| e == "solv" || e == "solvx");
        if ours && path != keep.primary && path != keep.filelists {
            let _ = fs::remove_file(path);
        }
    }
}

/// A private keyring with exactly the keys of this repository.
#[context("Preparing the keyring of repository {}", config.id)]
fn keyring(config: &RepoConfig, source: Source<'_>, scratch: &Path) -> Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    let home = scratch.join("keyring");
    fs::DirBuilder::new().mode(0o700).create(&home)?;
    for key in access::keys(config, source.root, source.cache_only, source.progress)? {
        let file = scratch.join("key");
        fs::write(&file, key)?;
        gpg_import(&file, &home).map_err(|e| {
            Failure::new(Code::Untrusted, format!("repository {}: a gpgkey is not usable: {e}", config.id))
        })?;
    }
    Ok(home)
}
