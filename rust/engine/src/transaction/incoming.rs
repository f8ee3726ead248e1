//! Package files that the user named: local files and downloaded URLs. A local file may belong to somebody who can
//! change it at any moment, so it is copied to where only root can write before anything looks at it; what is checked is
//! then what is installed. The copies go with this value, or with the next run.

use super::CACHE_DIR;
use crate::names::document_path;
use crate::{fetch, resolve};
use anyhow::{Context as _, Result};
use fn_error_context::context;
use model::{Checksum, Code, Failure, PackageArg, PackageSource, PlannedPackage, Progress, Request};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// One file of the request.
#[derive(Debug)]
struct Copy {
    path: PathBuf,
    /// As the user named it.
    original: PathBuf,
    checksum: Checksum,
}

/// The files of one request.
#[derive(Debug)]
pub(super) struct Incoming {
    directory: Option<PathBuf>,
    copies: Vec<Copy>,
}

impl Incoming {
    /// Downloads and copies what `request` names, and returns it with these files in their place. The file name, by which
    /// a request is known later on, stays.
    ///
    /// # Errors
    /// [`Code::NotFound`] for a file that cannot be read; [`Code::Repository`]; [`Code::Interrupted`].
    pub fn take(request: &Request, cache_only: bool, progress: &dyn Progress) -> Result<(Request, Incoming)> {
        let cache = Path::new(CACHE_DIR);
        let mut request = request.clone();
        let mut incoming = Incoming { directory: None, copies: Vec::new() };
        for arg in &mut request.install {
            let original = match arg {
                PackageArg::Subject(_) => continue,
                PackageArg::LocalFile(path) => path.clone(),
                PackageArg::Url(url) => fetch::fetch_url(url, cache, cache_only, progress)?,
            };
            // Only now: a request without files, to remove something above all, needs no cache.
            let directory = match &incoming.directory {
                Some(directory) => directory.clone(),
                None => resolve::access::unfinished(cache)?.join(format!("local.{}", std::process::id())),
            };
            incoming.directory = Some(directory.clone());
            let copy = incoming.copy(&directory, &original, progress)?;
            // Named twice is meant once; the solver would take them for two packages.
            if let Some(same) = incoming.copies.iter().find(|c| c.checksum == copy.checksum) {
                *arg = PackageArg::LocalFile(same.path.clone());
                continue;
            }
            *arg = PackageArg::LocalFile(copy.path.clone());
            incoming.copies.push(copy);
        }
        Ok((request, incoming))
    }

    #[context("Copying {}", original.display())]
    fn copy(&self, directory: &Path, original: &Path, progress: &dyn Progress) -> Result<Copy> {
        let unreadable =
            |why: &dyn std::fmt::Display| Failure::new(Code::NotFound, format!("{}: {why}", original.display()));
        // Not blocking, for a named pipe.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let mut from = OpenOptions::new().read(true).custom_flags(flags).open(original).map_err(|e| unreadable(&e))?;
        if !from.metadata()?.is_file() {
            return Err(unreadable(&"not a regular file").into());
        }
        let name = original.file_name().context("no file name")?;
        let directory = directory.join(self.copies.len().to_string());
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let path = directory.join(name);
        // A file that was named twice was copied here and not used.
        crate::files::remove(&path)?;
        let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let checksum = copy(&mut from, &mut to, progress)?;
        Ok(Copy { path, original: original.to_path_buf(), checksum })
    }

    /// Says of each package of the request which file it is to the user, and what that file was.
    pub fn describe<'a>(&self, packages: impl Iterator<Item = &'a mut PlannedPackage>) {
        for package in packages {
            let PackageSource::File { path } = &mut package.source else { continue };
            if let Some(copy) = self.copies.iter().find(|c| c.path == *path) {
                // Records are JSON, which holds UTF-8 only.
                *path = document_path(&copy.original);
                package.checksum = Some(copy.checksum.clone());
            }
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // What stays goes with the next run.
        if let Some(directory) = &self.directory {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

fn copy(from: &mut File, to: &mut File, progress: &dyn Progress) -> Result<Checksum> {
    let mut sha = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        if progress.cancelled() {
            return Err(resolve::access::interrupted().into());
        }
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e.into()),
        };
        sha.update(&buffer[..count]);
        to.write_all(&buffer[..count])?;
    }
    let hex = sha.finalize().iter().fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    });
    Ok(Checksum { algorithm: "sha256".into(), hex })
}
