//! Where the files of a package would land. Paths are judged twice: as the header has them, and after the symlinks of
//! the base (`/lib` → `usr/lib`, `/usr/tmp` → `../var/tmp`) are followed, since librpm follows those as well.

use super::header::HeaderFile;
use crate::names::{printable, printable_path};
use anyhow::{Context as _, Result, bail, ensure};
use rustix::fs::FileType;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// `PATH_MAX` and `NAME_MAX`.
const LONGEST: (usize, usize) = (4096, 255);
/// As the kernel has it.
const MAX_LINKS: usize = 40;

/// Splits a path of a header into its parts; anything but a plain absolute path is refused.
pub fn parts(path: &[u8]) -> Result<Vec<&OsStr>> {
    let shown = printable(path);
    let rest = path.strip_prefix(b"/").with_context(|| format!("the path \"{shown}\" is not absolute"))?;
    ensure!(path.len() <= LONGEST.0, "a path of {} bytes is too long", path.len());
    if rest.is_empty() {
        return Ok(vec![]);
    }
    let parts: Vec<&[u8]> = rest.split(|b| *b == b'/').collect();
    ensure!(!parts.contains(&&b".."[..]), "the path \"{shown}\" goes upwards with \"..\"");
    ensure!(parts.iter().all(|p| !p.is_empty() && *p != b"."), "the path \"{shown}\" has an empty part");
    ensure!(parts.iter().all(|p| p.len() <= LONGEST.1), "a name in \"{shown}\" is too long");
    Ok(parts.into_iter().map(OsStr::from_bytes).collect())
}

/// The part below `/usr`, by the merged directories of `/`; `None` when it is elsewhere.
fn below_usr<'a>(parts: &[&'a OsStr]) -> Option<Vec<&'a OsStr>> {
    let first = parts.first()?.as_bytes();
    match first {
        b"usr" => Some(parts[1..].to_vec()),
        b"bin" | b"sbin" | b"lib" | b"lib32" | b"lib64" | b"libx32" => Some(parts.to_vec()),
        _ => None,
    }
}

/// Follows the base's symlinks, with what was found kept for the next file of the same directory.
#[derive(Debug)]
pub struct Base<'a> {
    root: &'a Path,
    known: BTreeMap<PathBuf, PathBuf>,
}

impl<'a> Base<'a> {
    /// `root` is the pristine `/usr`.
    pub fn new(root: &'a Path) -> Self {
        Base { root, known: BTreeMap::new() }
    }

    /// The path below `/usr` at which a file with this path in the header lands.
    ///
    /// # Errors
    /// When it is outside `/usr`, by itself or through a symlink of the base.
    pub fn place(&mut self, path: &[u8]) -> Result<PathBuf> {
        let shown = printable(path);
        let parts = parts(path)?;
        let Some(below) = below_usr(&parts) else { bail!("{}", outside(&parts, &shown)) };
        let Some((name, parents)) = below.split_last() else { return Ok(PathBuf::new()) };
        ensure!(
            below[0] != "local",
            "{shown} is below /usr/local, which points into /var; only files below /usr can be layered"
        );
        let parent: PathBuf = parents.iter().collect();
        let real = match self.known.get(&parent) {
            Some(known) => known.clone(),
            None => {
                let real = self.follow(&parent).with_context(|| format!("{shown} cannot be placed"))?;
                self.known.insert(parent, real.clone());
                real
            }
        };
        Ok(real.join(name))
    }

    /// What the base has at a place that [`Base::place`] gave.
    pub fn kind(&self, place: &Path) -> Option<std::fs::FileType> {
        self.root.join(place).symlink_metadata().ok().map(|m| m.file_type())
    }

    /// True when the base has a directory there, or a symlink to one.
    pub fn leads_to_dir(&self, place: &Path) -> bool {
        self.follow(place).is_ok_and(|p| self.kind(&p).is_none_or(|k| k.is_dir()))
    }

    /// Where a directory really is below `/usr`; one that is not there yet is where its name says.
    fn follow(&self, path: &Path) -> Result<PathBuf> {
        let mut left: VecDeque<OsString> = path.iter().map(OsStr::to_os_string).collect();
        let mut real = PathBuf::new();
        let mut links = 0;
        while let Some(part) = left.pop_front() {
            let here = real.join(&part);
            let Ok(found) = self.root.join(&here).symlink_metadata() else {
                real = here;
                continue;
            };
            if !found.is_symlink() {
                ensure!(found.is_dir(), "/usr/{} is not a directory", printable_path(&here));
                real = here;
                continue;
            }
            links += 1;
            ensure!(links <= MAX_LINKS, "/usr/{} is in a loop of symlinks", printable_path(&here));
            let target = std::fs::read_link(self.root.join(&here))?;
            // As an absolute path on the host, then once more from the top.
            let whole = Path::new("/usr").join(&real).join(target);
            let clean = normalize(&whole);
            let parts: Vec<&OsStr> = clean.iter().skip(1).collect();
            let below = below_usr(&parts).with_context(|| {
                format!("/usr/{} is a symlink to {}", printable_path(&here), printable_path(&clean))
            })?;
            for part in below.into_iter().rev() {
                left.push_front(part.to_os_string());
            }
            real = PathBuf::new();
        }
        Ok(real)
    }
}

/// Resolves `..` by name. The parents of a target are real directories here, because they were followed before.
fn normalize(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(clean.pop()),
            std::path::Component::Normal(n) => clean.push(n),
            _ => {}
        }
    }
    clean
}

/// Why a file outside `/usr` does not come in.
fn outside(parts: &[&OsStr], shown: &str) -> String {
    match parts.first().map(|p| p.as_bytes()) {
        Some(b"boot") => format!("{shown} is below /boot, which a transient layer never changes"),
        Some(top @ (b"etc" | b"var" | b"opt")) => {
            format!("{shown}: files below /{} are not supported yet", printable(top))
        }
        _ => format!("{shown} is outside /usr; only files below /usr can be layered"),
    }
}

/// Every place that a transaction fills: directories, and everything else.
#[derive(Debug, Default)]
pub struct Places {
    /// The kind, and the path as the header has it.
    filled: BTreeMap<PathBuf, (FileType, Vec<u8>)>,
}

impl Places {
    /// Notes the files of one package, with their places.
    ///
    /// # Errors
    /// When a place is filled twice by the package.
    pub fn add(&mut self, files: &[(PathBuf, &HeaderFile)]) -> Result<()> {
        let mut own: BTreeMap<&Path, &HeaderFile> = BTreeMap::new();
        for (place, file) in files {
            if let Some(other) = own.insert(place, file) {
                let shown = printable(&file.path);
                ensure!(other.path != file.path, "{shown} is in its file list twice");
                ensure!(
                    other.is_dir() && file.is_dir(),
                    "{} and {shown} are the same path on this host",
                    printable(&other.path)
                );
            }
        }
        // A symlink or file of one package stays known when another has a directory there.
        for (place, file) in files {
            let entry = self.filled.entry(place.clone()).or_insert((file.kind(), file.path.clone()));
            if !file.is_dir() {
                *entry = (file.kind(), file.path.clone());
            }
        }
        Ok(())
    }

    /// Refuses a file that lies below something which the transaction makes a symlink or file.
    ///
    /// # Errors
    /// Naming both.
    pub fn check(&self, place: &Path, file: &HeaderFile) -> Result<()> {
        for above in place.ancestors().skip(1) {
            if let Some((kind, path)) = self.filled.get(above)
                && *kind != FileType::Directory
            {
                let what = if *kind == FileType::Symlink { "symlink" } else { "file" };
                bail!(
                    "{} goes through {}, which is itself packaged as a {what}",
                    printable(&file.path),
                    printable(path)
                );
            }
        }
        Ok(())
    }
}

/// A path below `/usr` as bytes, for rules.
pub fn bytes(place: &Path) -> Vec<u8> {
    place.as_os_str().to_os_string().into_vec()
}
