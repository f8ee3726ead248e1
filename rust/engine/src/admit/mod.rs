//! Reads every package before librpm does, and refuses what must not come in: header first, then space, then the whole
//! payload. librpm is no judge of hostile files (it installs through `..`), and nothing of a package has run yet here.
//! Digests of header and payload are checked on the way, so that damage has its name; those of single files, which librpm
//! compares while it writes them, and signatures are not judged here.

mod denied;
mod elsewhere;
mod header;
pub(crate) mod paths;
mod payload;
mod sysusers;
#[cfg(test)]
mod tests;

use crate::fetch::FetchedPackage;
use crate::generation::Space;
use crate::names::{printable, printable_path};
use crate::tree::kind_name;
use anyhow::{Context as _, Result, ensure};
use header::PackageFile;
use model::{Code, Failure, Nevra, NotApplied};
use rustix::fs::FileType;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What admission is allowed to let through.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// `--force-unsafe=NAME`: packages that may replace what is denied by default.
    pub force_unsafe: BTreeSet<String>,
    /// RPM architectures that can run here, best first.
    pub arches: Vec<String>,
}

/// A digest is another than the package promises.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Mismatch(String);

/// Checks packages against each other, the base (the pristine `/usr`) and the space; changes nothing.
///
/// # Errors
/// [`model::Code::Refused`] with path and package, [`model::Code::FileConflict`] where the base has another kind of file,
/// [`model::Code::NoSpace`] with needed and free figures, [`model::Code::Checksum`] for a damaged package.
pub fn admit(packages: &[FetchedPackage], policy: &Policy, space: Space, base: &Path) -> Result<()> {
    let files: Vec<_> = packages.iter().map(|p| (p.path.as_path(), Some(&p.planned.nevra))).collect();
    admit_files(&files, policy, space, base, Path::new("/"))
}

/// Every path that a package file owns, as its header has it.
///
/// # Errors
/// When it is no package.
pub fn owned_paths(package: &Path) -> Result<Vec<Vec<u8>>> {
    let file = header::open(package).with_context(|| format!("Reading {}", file_name(package)))?;
    Ok(file.files.into_iter().map(|f| f.path).collect())
}

/// Refuses a file that another reader, who said `why`, could not read: in the words of admission, if that finds the fault
/// as well.
pub fn no_package(package: &Path, why: &anyhow::Error) -> anyhow::Error {
    match header::open(package) {
        Err(e) => unreadable(package, &e),
        Ok(_) => unreadable(package, why),
    }
}

/// What the file lists of packages that come in say about paths outside the layer.
#[derive(Debug, Clone, Default)]
pub struct Owned {
    /// Paths relative to `/`, symlinks of base and host followed, and the package that owns each.
    pub paths: BTreeMap<PathBuf, String>,
    /// sysusers.d(5) lines of the packages.
    pub sysusers: String,
    /// Files for parts of the system that no layer reaches.
    pub not_applied: Vec<NotApplied>,
}

/// Reads the file lists of admitted packages.
///
/// # Errors
/// When one is no package.
pub fn owned(packages: &[FetchedPackage], base: &Path) -> Result<Owned> {
    let mut tree = paths::Base::new(base, Path::new("/"));
    let mut owned = Owned::default();
    for package in packages {
        let name = package.planned.nevra.to_string();
        let file = header::open(&package.path).with_context(|| format!("Reading {name}"))?;
        for f in &file.files {
            let Ok(place) = tree.place(&f.path, f.is_dir()) else { continue };
            owned.not_applied.extend(elsewhere::told(&place, &name));
            if !place.starts_with("usr") {
                owned.paths.insert(place, name.clone());
            }
        }
        sysusers::lines(&file, &package.path, &mut owned.sysusers)
            .with_context(|| format!("Reading the accounts of {name}"))?;
    }
    Ok(owned)
}

/// [`admit`] for files, each with the name that its source gave it.
fn admit_files(
    files: &[(&Path, Option<&Nevra>)],
    policy: &Policy,
    space: Space,
    base: &Path,
    root: &Path,
) -> Result<()> {
    let mut packages = Vec::with_capacity(files.len());
    for (path, expected) in files {
        packages.push(Package::read(path, *expected, policy)?);
    }
    let mut base_tree = paths::Base::new(base, root);
    let mut places = paths::Places::default();
    for package in &mut packages {
        package.place(&mut base_tree, policy).map_err(|e| package.refused(&e))?;
        let files: Vec<_> = package.placed().collect();
        places.add(&files).map_err(|e| package.refused(&e))?;
    }
    for package in &packages {
        package.placed().try_for_each(|(place, file)| places.check(&place, file)).map_err(|e| package.refused(&e))?;
    }
    check_space(&packages, space, base)?;
    check_payloads(&packages)
}

/// A package whose header was read.
struct Package {
    nevra: Nevra,
    file: PackageFile,
    /// For each file, where it lands, relative to `/`; `None` for `%ghost`.
    places: Vec<Option<PathBuf>>,
}

impl Package {
    fn read(path: &Path, expected: Option<&Nevra>, policy: &Policy) -> Result<Package> {
        let file = header::open(path).map_err(|e| unreadable(path, &e))?;
        let nevra = nevra(&file.metadata).map_err(|e| unreadable(path, &e))?;
        let package = Package { nevra, file, places: vec![] };
        package.check_identity(expected, policy).map_err(|e| package.refused(&e))?;
        Ok(package)
    }

    fn refused(&self, why: &anyhow::Error) -> anyhow::Error {
        if let Some(failure) = why.downcast_ref::<Failure>() {
            return failure.clone().into();
        }
        if why.is::<Mismatch>() {
            return mismatch(&self.nevra.to_string(), why);
        }
        refuse(&self.nevra.to_string(), &format!("{why:#}"))
    }

    /// What can be said without its files.
    fn check_identity(&self, expected: Option<&Nevra>, policy: &Policy) -> Result<()> {
        ensure!(!self.file.metadata.is_source_package(), "it is a source package");
        if let Some(expected) = expected {
            ensure!(*expected == self.nevra, "it is not {expected}, as its source said");
        }
        let arch = &self.nevra.arch;
        ensure!(
            arch == "noarch" || policy.arches.contains(arch),
            "it is built for {arch}, and this host is {}",
            policy.arches.first().map_or("unknown", String::as_str)
        );
        if !policy.force_unsafe.contains(&self.nevra.name)
            && let Some(what) = denied::by_name(&self.nevra.name)
        {
            return Err(self.denied(&format!("it is {what}")));
        }
        Ok(())
    }

    fn denied(&self, why: &str) -> anyhow::Error {
        let name = &self.nevra.name;
        Failure::new(
            Code::Refused,
            format!("{} is refused: {why}, which a transient layer must not replace", self.nevra),
        )
        .hint(format!("--force-unsafe={name} lets it through"))
        .into()
    }

    /// A path that nobody can make both of; forcing the replacement of files does not help here.
    fn conflict(&self, why: &str) -> anyhow::Error {
        Failure::new(Code::FileConflict, format!("{} is refused: {why}", self.nevra)).into()
    }

    /// Judges the path and kind of every file.
    fn place(&mut self, base: &mut paths::Base<'_>, policy: &Policy) -> Result<()> {
        let forced = policy.force_unsafe.contains(&self.nevra.name);
        let mut places = Vec::with_capacity(self.file.files.len());
        for file in &self.file.files {
            let shown = printable(&file.path);
            if file.ghost {
                paths::parts(&file.path)?;
                places.push(None);
                continue;
            }
            let kind = file.kind();
            ensure!(
                matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Symlink),
                "{shown} is a {}",
                kind_name(kind)
            );
            let place = base.place(&file.path, file.is_dir())?;
            if !forced && let Some(what) = denied::by_path(&paths::below_usr(&place)) {
                return Err(self.denied(&format!("{shown} is part of {what}")));
            }
            match base.kind(&place) {
                Some(there) if there.is_dir() && !file.is_dir() => {
                    let what = if kind == FileType::Symlink { "symlink" } else { "file" };
                    return Err(self.conflict(&format!("{shown} is a {what}, and the base has a directory there")));
                }
                Some(there) if !there.is_dir() && file.is_dir() && !base.leads_to_dir(&place) => {
                    return Err(
                        self.conflict(&format!("{shown} is a directory, and the base has something else there"))
                    );
                }
                _ => places.push(Some(place)),
            }
        }
        self.places = places;
        Ok(())
    }

    fn placed(&self) -> impl Iterator<Item = (PathBuf, &header::HeaderFile)> {
        self.places.iter().zip(&self.file.files).filter_map(|(p, f)| Some((p.clone()?, f)))
    }
}

/// The file is all that is known of it.
fn unreadable(path: &Path, why: &anyhow::Error) -> anyhow::Error {
    let name = file_name(path);
    if why.is::<Mismatch>() {
        return mismatch(&name, why);
    }
    refuse(&name, &format!("it is no readable package: {why:#}"))
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|n| printable_path(Path::new(n))).unwrap_or_default()
}

fn refuse(package: &str, why: &str) -> anyhow::Error {
    Failure::new(Code::Refused, format!("{package} is refused: {why}")).into()
}

fn mismatch(package: &str, why: &anyhow::Error) -> anyhow::Error {
    Failure::new(Code::Checksum, format!("{package} is damaged: {why:#}")).into()
}

/// The name in the header; a name that does not print and parse back is none.
fn nevra(metadata: &rpm::PackageMetadata) -> Result<Nevra> {
    let nevra = Nevra {
        name: metadata.get_name()?.to_owned(),
        epoch: metadata.get_epoch().unwrap_or(0),
        version: metadata.get_version()?.to_owned(),
        release: metadata.get_release()?.to_owned(),
        arch: metadata.get_arch()?.to_owned(),
    };
    let text = nevra.to_string();
    let plain = text.chars().all(|c| c.is_ascii_graphic());
    ensure!(plain && text.parse().is_ok_and(|n: Nevra| n == nevra), "\"{}\" is no name", printable(text.as_bytes()));
    Ok(nevra)
}

/// Installed size against the store, before anything is unpacked. The rpmdb counts too: it is copied up whole.
fn check_space(packages: &[Package], space: Space, base: &Path) -> Result<()> {
    let rpmdb = |dir: &str| -> u64 {
        let entries = std::fs::read_dir(base.join(dir)).into_iter().flatten().flatten();
        entries.filter_map(|e| e.metadata().ok()).filter(|m| m.is_file()).map(|m| m.len()).sum()
    };
    let (mut bytes, mut inodes) = (rpmdb("share/rpm").saturating_add(rpmdb("lib/sysimage/rpm")), 0u64);
    for package in packages {
        let (b, i) = header::footprint(&package.file.files);
        (bytes, inodes) = (bytes.saturating_add(b), inodes.saturating_add(i));
    }
    let whose = match packages {
        [one] => format!("{} needs", one.nevra),
        // With many, the largest is what a user can leave out.
        _ => match packages.iter().max_by_key(|p| header::footprint(&p.file.files)) {
            Some(largest) => format!("the {} packages, {} the largest of them, need", packages.len(), largest.nevra),
            None => "the packages need".into(),
        },
    };
    let needs = |what: String, free: String| {
        let failure = Failure::new(Code::NoSpace, format!("{whose} {what}, and the store has {free} left"));
        Err(failure.hint("uninstall something, or reset").into())
    };
    if bytes > space.free_bytes {
        return needs(human(bytes), human(space.free_bytes));
    }
    if inodes > space.free_inodes {
        return needs(format!("{inodes} inodes"), space.free_inodes.to_string());
    }
    Ok(())
}

/// Bytes in binary units, as people read them.
fn human(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = (bytes.max(1).ilog2() / 10) as usize;
    if unit == 0 {
        return format!("{bytes} B");
    }
    format!("{:.1} {}", bytes as f64 / 1024f64.powi(unit as i32), UNITS[unit])
}

/// Decompresses and checks every payload, several at a time. The first package in order that fails is reported.
fn check_payloads(packages: &[Package]) -> Result<()> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(packages.len());
    let work = || -> Vec<(usize, anyhow::Error)> {
        let mut failed = Vec::new();
        while let Some((n, package)) = {
            let n = next.fetch_add(1, Ordering::Relaxed);
            packages.get(n).map(|p| (n, p))
        } {
            let file = &package.file;
            let digest = file.payload_sha256.as_deref();
            let check = || payload::check(file.payload()?, digest, &file.compressor, &file.format, &file.files);
            if let Err(e) = check() {
                failed.push((n, package.refused(&e)));
            }
        }
        failed
    };
    let failed = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join = |w: std::thread::ScopedJoinHandle<'_, _>| match w.join() {
            Ok(failed) => failed,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        workers.into_iter().flat_map(join).min_by_key(|(n, _)| *n)
    });
    failed.map_or(Ok(()), |(_, error)| Err(error))
}
