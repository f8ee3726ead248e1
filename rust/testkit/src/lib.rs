//! What tests need around the product: throw-away ostree hosts ([`host`]) and comparable views of them ([`picture`]),
//! packages ([`packages`]) in signed repositories ([`repository`]) on a loopback server with faults ([`server`]).
//! Development only; nothing of the product depends on it. Everything is made on the spot from this machine's own files.

pub mod host;
pub mod packages;
pub mod picture;
pub mod repository;
pub mod server;

use anyhow::{Context as _, Result, bail};
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The project's directory.
pub fn project() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Where things are kept that take long to make: `$TRANSIENT_TEST_CACHE`, or `test-cache` in the build directory.
///
/// # Errors
/// When it cannot be made.
pub fn cache_dir() -> Result<PathBuf> {
    let dir = match std::env::var_os("TRANSIENT_TEST_CACHE") {
        Some(dir) => PathBuf::from(dir),
        None => build_dir()?.parent().context("The build directory has no parent")?.join("test-cache"),
    };
    std::fs::create_dir_all(&dir).with_context(|| format!("Making {}", dir.display()))?;
    Ok(dir.canonicalize()?)
}

/// The profile's directory (`target/debug`), from the place of the running test.
fn build_dir() -> Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let dir = exe.parent().context("A program without a directory")?;
    Ok(if dir.ends_with("deps") || dir.ends_with("examples") { dir.parent().unwrap_or(dir) } else { dir }.to_owned())
}

/// Makes `cache/KIND-KEY` with `make` unless it is there, once for all processes; `make` fills the empty directory it
/// is given. What has another key goes stale and stays until the cache is deleted.
///
/// # Errors
/// Those of `make`; nothing is left in the cache then.
pub fn cached(kind: &str, key: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let cache = cache_dir()?;
    let lock = File::create(cache.join(format!("{kind}.lock")))?;
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)?;
    let path = cache.join(format!("{kind}-{key}"));
    if !path.exists() {
        let work = tempfile::Builder::new().prefix("work.").tempdir_in(&cache)?;
        make(work.path()).with_context(|| format!("Making {}", path.display()))?;
        std::fs::rename(work.keep(), &path)?;
    }
    Ok(path)
}

/// First 16 hexadecimal digits of the SHA-256 over the parts.
pub fn key_of<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        let part = part.as_ref();
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())[..16].to_owned()
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Runs a program of this machine to its end; its stdout.
///
/// # Errors
/// When it does not exit with 0; with all that it said.
pub fn tool(command: &mut Command) -> Result<String> {
    let out = command.output().with_context(|| format!("Running {command:?}"))?;
    if !out.status.success() {
        let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        bail!("{command:?} ended with {}:\n{stdout}{stderr}", out.status);
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
