//! Where the files of a package would land. Paths are judged twice: as the header has them, and after the symlinks of
//! base and host (`/lib` → `usr/lib`, `/var/run` → `../run`) are followed, since librpm follows those as well.

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

/// Follows the symlinks of base and host, with what was found kept for the next file of the same directory.
#[derive(Debug)]
pub struct Base<'a> {
    usr: &'a Path,
    root: &'a Path,
    known: BTreeMap<PathBuf, PathBuf>,
}

/// Directories of `/` whose content is the administrator's or the system's, never a package's.
const NOT_OURS: [&str; 9] = ["home", "root", "srv", "mnt", "media", "tmp", "sysroot", "ostree", "efi"];

impl<'a> Base<'a> {
    /// `usr` is the pristine `/usr`, `root` the host's `/` for everything else.
    pub fn new(usr: &'a Path, root: &'a Path) -> Self {
        Base { usr, root, known: BTreeMap::new() }
    }

    /// The path relative to `/` at which a file with this path in the header lands: below `usr`, `etc`, `var` or, for
    /// directories only, anything that is there already or is made in `/run`. What is packaged below `/opt` lands in
    /// `usr/lib/opt`.
    ///
    /// # Errors
    /// When nothing can be layered there, by itself or through a symlink.
    pub fn place(&mut self, path: &[u8], is_dir: bool) -> Result<PathBuf> {
        let shown = printable(path);
        let parts = parts(path)?;
        let Some((name, parents)) = parts.split_last() else { return Ok(PathBuf::new()) };
        ensure!(parts[0] != "boot", "{shown} is below /boot, which a transient layer never changes");
        let local = parts.len() > 2 && parts[0] == "usr" && parts[1] == "local";
        ensure!(
            !local || is_dir && self.exists(path),
            "{shown} is below /usr/local, which is the administrator's; only files elsewhere below /usr can be layered"
        );
        let parent: PathBuf = parents.iter().collect();
        let real = match self.known.get(&parent) {
            Some(known) => known.clone(),
            None => {
                let real = self.follow(&parent).with_context(|| format!("{shown} cannot be placed"))?;
                self.known.insert(parent.clone(), real.clone());
                real
            }
        };
        let place = relocate(&real.join(name));
        let top = place.iter().next().unwrap_or_default();
        if top == "usr" {
            ensure!(!place.starts_with(USR_ETC), "{shown} is below /usr/etc, which holds the defaults of /etc");
            return Ok(place);
        }
        if top == "etc" && place.components().count() > 1 || top == "var" && !self.not_ours(&place, parts[0]) {
            return Ok(place);
        }
        // Packages such as `filesystem` own directories that every host has.
        ensure!(
            is_dir && (top == "run" || self.exists(path)),
            "{shown} is outside /usr, /etc, /var and /opt; nothing can be layered there"
        );
        Ok(place)
    }

    fn not_ours(&self, place: &Path, first: &OsStr) -> bool {
        NOT_OURS.iter().any(|d| first == *d)
            || ["var/usrlocal", "var/home", "var/roothome", "var/tmp"].iter().any(|d| place.starts_with(d))
    }

    fn exists(&self, path: &[u8]) -> bool {
        let path: PathBuf = OsStr::from_bytes(path.trim_ascii_start().strip_prefix(b"/").unwrap_or(path)).into();
        self.follow(&path).is_ok_and(|real| self.look(&real).is_some_and(|m| m.is_dir()))
    }

    /// What is at a place that [`Base::place`] gave.
    pub fn kind(&self, place: &Path) -> Option<std::fs::FileType> {
        self.look(place).map(|m| m.file_type())
    }

    /// True when there is a directory at a place, or a symlink to one, or nothing.
    pub fn leads_to_dir(&self, place: &Path) -> bool {
        self.follow(place).is_ok_and(|p| self.kind(&p).is_none_or(|k| k.is_dir()))
    }

    /// Looks at a path relative to `/`, the last part not followed.
    fn look(&self, path: &Path) -> Option<std::fs::Metadata> {
        match path.strip_prefix("usr") {
            Ok(below) => self.usr.join(below),
            Err(_) => self.root.join(path),
        }
        .symlink_metadata()
        .ok()
    }

    fn target(&self, path: &Path) -> std::io::Result<PathBuf> {
        match path.strip_prefix("usr") {
            Ok(below) => std::fs::read_link(self.usr.join(below)),
            Err(_) => std::fs::read_link(self.root.join(path)),
        }
    }

    /// Where a directory really is; one that is not there yet is where its name says.
    fn follow(&self, path: &Path) -> Result<PathBuf> {
        let mut left: VecDeque<OsString> = path.iter().map(OsStr::to_os_string).collect();
        let mut real = PathBuf::new();
        let mut links = 0;
        while let Some(part) = left.pop_front() {
            let here = real.join(&part);
            let Some(found) = self.look(&here) else {
                real = here;
                continue;
            };
            if !found.is_symlink() {
                ensure!(found.is_dir(), "/{} is not a directory", printable_path(&here));
                real = here;
                continue;
            }
            links += 1;
            ensure!(links <= MAX_LINKS, "/{} is in a loop of symlinks", printable_path(&here));
            // As an absolute path on the host, then once more from the top.
            let clean = normalize(&Path::new("/").join(&real).join(self.target(&here)?));
            if clean.starts_with(crate::generation::RUN_DIR) {
                // A link of ours stands for the directory that the layer has there.
                real = here;
                continue;
            }
            for part in clean.iter().skip(1).collect::<Vec<_>>().into_iter().rev() {
                left.push_front(part.to_os_string());
            }
            real = PathBuf::new();
        }
        Ok(real)
    }
}

/// Where the layer keeps what is packaged below `/opt`.
pub const OPT: &str = "usr/lib/opt";
const USR_ETC: &str = "usr/etc";

/// `/opt/NAME` is `/usr/lib/opt/NAME`, however the host's `/opt` is reached.
fn relocate(place: &Path) -> PathBuf {
    let below = place.strip_prefix("opt").or_else(|_| place.strip_prefix("var/opt"));
    match below {
        Ok(below) if below.components().next().is_some() => Path::new(OPT).join(below),
        _ => place.to_path_buf(),
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

/// A place below `usr`, relative to it, as bytes for rules; empty for any other place.
pub fn below_usr(place: &Path) -> Vec<u8> {
    place.strip_prefix("usr").map(|p| p.as_os_str().to_os_string().into_vec()).unwrap_or_default()
}
