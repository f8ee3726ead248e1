//! Directory trees by descriptor: every step is one name below an open directory and never follows a symlink, because
//! what lies in an upper directory was chosen by packages and scriptlets. Attributes travel with the entries; overlay
//! marks (`trusted.overlay.*`, and forged `user.overlay.*`) never do.

use crate::names::{printable, printable_path};
use anyhow::{Context as _, Result};
use model::{Code, Failure};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Deeper trees are refused: each level costs open descriptors, and no package has even half of it.
const MAX_DEPTH: usize = 128;

/// An open directory and its path for messages.
#[derive(Debug)]
pub struct Tree {
    fd: OwnedFd,
    /// Relative to the root that was opened.
    pub path: PathBuf,
}

/// One name in a directory.
#[derive(Debug, Clone)]
pub struct Entry {
    /// A single component.
    pub name: CString,
    /// Of the name itself, not of what it may point to.
    pub stat: Stat,
}

impl Entry {
    /// The kind of file.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }
    /// True for a directory.
    pub fn is_dir(&self) -> bool {
        self.kind() == FileType::Directory
    }
    /// Overlayfs's mark for "gone": a character device 0:0.
    pub fn is_whiteout(&self) -> bool {
        self.kind() == FileType::CharacterDevice && self.stat.st_rdev == 0
    }
}

/// Owner, mode, times and extended attributes, without overlay marks.
#[derive(Debug, Clone)]
pub struct Attributes {
    /// As `stat` gives it.
    pub stat: Stat,
    /// Name to value.
    pub xattrs: BTreeMap<CString, Vec<u8>>,
}

impl Attributes {
    /// Same kind, mode, owner and extended attributes; times may differ.
    pub fn same_but_times(&self, other: &Attributes) -> bool {
        let key = |s: &Stat| (s.st_mode, s.st_uid, s.st_gid);
        key(&self.stat) == key(&other.stat) && self.xattrs == other.xattrs
    }
}

fn is_overlay_mark(name: &[u8]) -> bool {
    name.starts_with(b"trusted.overlay.") || name.starts_with(b"user.overlay.")
}

impl Tree {
    /// Opens the top of a tree.
    pub fn open(root: &Path) -> Result<Tree> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::open(root, flags, Mode::empty())
            .with_context(|| format!("Opening {}", printable_path(root)))?;
        Ok(Tree { fd, path: PathBuf::new() })
    }

    /// The path of a name in this directory, relative to the root.
    pub fn join(&self, name: &CString) -> PathBuf {
        self.path.join(OsStr::from_bytes(name.as_bytes()))
    }

    fn fail(&self, doing: &str, name: &CString) -> String {
        format!("{doing} {}", printable_path(&self.join(name)))
    }

    /// Opens a directory in this one. [`Code::Refused`] when the tree is too deep.
    pub fn enter(&self, name: &CString) -> Result<Tree> {
        let path = self.join(name);
        if path.components().count() > MAX_DEPTH {
            let shown = printable_path(&path);
            return Err(Failure::new(
                Code::Refused,
                format!("{shown} is more than {MAX_DEPTH} directories deep, which a layer does not hold"),
            )
            .into());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd =
            rustix::fs::openat(&self.fd, name, flags, Mode::empty()).with_context(|| self.fail("Opening", name))?;
        Ok(Tree { fd, path })
    }

    /// Looks one name up.
    pub fn entry(&self, name: &CString) -> Result<Option<Entry>> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Entry { name: name.clone(), stat })),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(e) => Err(e).with_context(|| self.fail("Looking at", name)),
        }
    }

    /// Opens the directory of that name, when it is one.
    pub fn enter_if_dir(&self, name: &CString) -> Result<Option<Tree>> {
        match self.entry(name)? {
            Some(e) if e.is_dir() => Ok(Some(self.enter(name)?)),
            _ => Ok(None),
        }
    }

    /// Every name, in byte order.
    pub fn list(&self) -> Result<Vec<Entry>> {
        let reading = || format!("Reading directory {}", printable_path(&self.path));
        let mut entries = Vec::new();
        for item in rustix::fs::Dir::read_from(&self.fd).with_context(reading)? {
            let item = item.with_context(reading)?;
            let name = item.file_name().to_owned();
            if !matches!(name.as_bytes(), b"." | b"..") {
                entries.extend(self.entry(&name)?);
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// The directory's own `stat`.
    pub fn stat(&self) -> Result<Stat> {
        rustix::fs::fstat(&self.fd).with_context(|| format!("Looking at {}", printable_path(&self.path)))
    }

    // Extended attributes of a name, symlinks included: there is no *at call for them before Linux 6.13.
    fn proc_path(&self, name: Option<&CString>) -> CString {
        let mut path = format!("/proc/self/fd/{}/", self.fd.as_raw_fd()).into_bytes();
        path.extend(name.map_or(&b"."[..], |n| n.as_bytes()));
        CString::new(path).unwrap_or_default()
    }

    fn xattr_names(&self, name: Option<&CString>) -> Result<Vec<CString>> {
        let path = self.proc_path(name);
        let mut buffer = vec![0u8; 65536];
        let length = match rustix::fs::llistxattr(&path, &mut buffer) {
            Ok(n) => n,
            Err(Errno::NOTSUP) => 0,
            Err(e) => return Err(e).with_context(|| self.reading_xattrs(name)),
        };
        Ok(buffer[..length].split(|b| *b == 0).filter(|n| !n.is_empty()).filter_map(|n| CString::new(n).ok()).collect())
    }

    fn reading_xattrs(&self, name: Option<&CString>) -> String {
        let path = name.map_or_else(|| self.path.clone(), |n| self.join(n));
        format!("Reading extended attributes of {}", printable_path(&path))
    }

    fn xattr(&self, name: Option<&CString>, key: &CString) -> Result<Option<Vec<u8>>> {
        let mut buffer = vec![0u8; 65536];
        match rustix::fs::lgetxattr(self.proc_path(name), key, &mut buffer) {
            Ok(n) => {
                buffer.truncate(n);
                Ok(Some(buffer))
            }
            Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
            Err(e) => Err(e).with_context(|| self.reading_xattrs(name)),
        }
    }

    /// Attributes of a name, or of this directory.
    pub fn attributes(&self, name: Option<&CString>) -> Result<Attributes> {
        let stat = match name {
            Some(n) => rustix::fs::statat(&self.fd, n, AtFlags::SYMLINK_NOFOLLOW)
                .with_context(|| self.fail("Looking at", n))?,
            None => self.stat()?,
        };
        let mut xattrs = BTreeMap::new();
        for key in self.xattr_names(name)? {
            if !is_overlay_mark(key.as_bytes())
                && let Some(value) = self.xattr(name, &key)?
            {
                xattrs.insert(key, value);
            }
        }
        Ok(Attributes { stat, xattrs })
    }

    /// An overlay mark (`opaque`, `metacopy`, …) of a name, or of this directory.
    pub fn overlay_mark(&self, name: Option<&CString>, mark: &str) -> Result<Option<Vec<u8>>> {
        self.xattr(name, &CString::new(format!("trusted.overlay.{mark}"))?)
    }

    /// Removes every overlay mark of a name.
    pub fn strip_marks(&self, name: &CString) -> Result<()> {
        for key in self.xattr_names(Some(name))?.iter().filter(|k| is_overlay_mark(k.as_bytes())) {
            rustix::fs::lremovexattr(self.proc_path(Some(name)), key)
                .with_context(|| self.fail("Removing overlay marks of", name))?;
        }
        Ok(())
    }

    /// Gives a name, or this directory, these attributes: exactly, whatever it had.
    pub fn set_attributes(&self, name: Option<&CString>, wanted: &Attributes) -> Result<()> {
        let path = self.proc_path(name);
        let set = || -> Result<()> {
            // The owner first: changing it clears setuid bits and file capabilities.
            let (uid, gid) = (Uid::from_raw(wanted.stat.st_uid), Gid::from_raw(wanted.stat.st_gid));
            rustix::fs::chownat(rustix::fs::CWD, &path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(wanted.stat.st_mode) != FileType::Symlink {
                rustix::fs::chmodat(
                    rustix::fs::CWD,
                    &path,
                    Mode::from_raw_mode(wanted.stat.st_mode),
                    AtFlags::empty(),
                )?;
            }
            for key in self.xattr_names(name)? {
                // A label cannot be taken away under SELinux, and there every file has one.
                if !wanted.xattrs.contains_key(&key) && key.as_bytes() != b"security.selinux" {
                    rustix::fs::lremovexattr(&path, &key)?;
                }
            }
            for (key, value) in &wanted.xattrs {
                if self.xattr(name, key)?.as_ref() != Some(value) {
                    rustix::fs::lsetxattr(&path, key, value, XattrFlags::empty())
                        .with_context(|| format!("attribute {}", printable(key.as_bytes())))?;
                }
            }
            let time = |sec, nsec| Timespec { tv_sec: sec, tv_nsec: nsec as _ };
            let s = &wanted.stat;
            let times = Timestamps {
                last_access: time(s.st_atime as _, s.st_atime_nsec),
                last_modification: time(s.st_mtime as _, s.st_mtime_nsec),
            };
            rustix::fs::utimensat(rustix::fs::CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok(())
        };
        let path = name.map_or_else(|| self.path.clone(), |n| self.join(n));
        set().with_context(|| format!("Setting attributes of {}", printable_path(&path)))
    }

    /// Sets one extended attribute of a name, or of this directory, when it has another value.
    pub fn set_xattr(&self, name: Option<&CString>, key: &CString, value: &[u8]) -> Result<()> {
        if self.xattr(name, key)?.as_deref() == Some(value) {
            return Ok(());
        }
        rustix::fs::lsetxattr(self.proc_path(name), key, value, XattrFlags::empty()).with_context(|| {
            let path = name.map_or_else(|| self.path.clone(), |n| self.join(n));
            format!("Setting {} of {}", printable(key.as_bytes()), printable_path(&path))
        })
    }

    /// Makes a directory (0700 until its attributes are set) and opens it.
    pub fn make_dir(&self, name: &CString) -> Result<Tree> {
        rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(0o700)).with_context(|| self.fail("Making", name))?;
        self.enter(name)
    }

    /// Removes a directory when it is empty; true when it went.
    pub fn remove_if_empty(&self, name: &CString) -> Result<bool> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR) {
            Ok(()) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT) => Ok(false),
            Err(e) => Err(e).with_context(|| self.fail("Removing", name)),
        }
    }

    /// Removes a name with everything below it; one that is not there is fine.
    pub fn remove_all(&self, name: &CString) -> Result<()> {
        let Some(entry) = self.entry(name)? else { return Ok(()) };
        let flags = if entry.is_dir() {
            let dir = self.enter(name)?;
            for child in dir.list()? {
                dir.remove_all(&child.name)?;
            }
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        rustix::fs::unlinkat(&self.fd, name, flags).with_context(|| self.fail("Removing", name))
    }

    /// A hard link of this directory's `name` in `to`.
    pub fn link(&self, name: &CString, to: &Tree) -> Result<()> {
        rustix::fs::linkat(&self.fd, name, &to.fd, name, AtFlags::empty()).with_context(|| to.fail("Linking", name))
    }

    /// Moves `name` to the directory `to`, replacing a file there.
    pub fn rename(&self, name: &CString, to: &Tree) -> Result<()> {
        rustix::fs::renameat(&self.fd, name, &to.fd, name).with_context(|| to.fail("Moving", name))
    }

    /// As [`Tree::rename`], with another name there.
    pub fn rename_as(&self, name: &CString, to: &Tree, new_name: &CString) -> Result<()> {
        rustix::fs::renameat(&self.fd, name, &to.fd, new_name).with_context(|| to.fail("Moving", new_name))
    }

    /// Opens a regular file for reading.
    pub fn file(&self, name: &CString) -> Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd =
            rustix::fs::openat(&self.fd, name, flags, Mode::empty()).with_context(|| self.fail("Opening", name))?;
        Ok(File::from(fd))
    }

    /// A new regular file, empty and private until its attributes are set.
    pub fn create(&self, name: &CString) -> Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::from_raw_mode(0o600))
            .with_context(|| self.fail("Creating", name))?;
        Ok(File::from(fd))
    }

    /// Copies `name` (a regular file) with its attributes to `to`.
    pub fn copy(&self, name: &CString, to: &Tree) -> Result<()> {
        self.copy_as(name, to, name)
    }

    /// As [`Tree::copy`], with another name there; symlinks too.
    pub fn copy_as(&self, name: &CString, to: &Tree, new_name: &CString) -> Result<()> {
        let wanted = self.attributes(Some(name))?;
        if FileType::from_raw_mode(wanted.stat.st_mode) == FileType::Symlink {
            to.make_symlink(new_name, &self.readlink(name)?)?;
        } else {
            let (mut from, mut into) = (self.file(name)?, to.create(new_name)?);
            std::io::copy(&mut from, &mut into).with_context(|| to.fail("Copying", new_name))?;
        }
        to.set_attributes(Some(new_name), &wanted)
    }

    /// A new symlink.
    pub fn make_symlink(&self, name: &CString, target: &CString) -> Result<()> {
        rustix::fs::symlinkat(target, &self.fd, name).with_context(|| self.fail("Linking", name))
    }

    /// Where a symlink points.
    pub fn readlink(&self, name: &CString) -> Result<CString> {
        rustix::fs::readlinkat(&self.fd, name, Vec::new()).with_context(|| self.fail("Reading symlink", name))
    }

    /// True when both trees have the same thing under `name`: kind, content, mode, owner, extended attributes.
    pub fn same(&self, name: &CString, other: &Tree) -> Result<bool> {
        self.same_as(name, other, name)
    }

    /// As [`Tree::same`], with another name in the other tree.
    pub fn same_as(&self, name: &CString, other: &Tree, other_name: &CString) -> Result<bool> {
        let (mine, theirs) = (self.attributes(Some(name))?, other.attributes(Some(other_name))?);
        if !mine.same_but_times(&theirs) {
            return Ok(false);
        }
        match FileType::from_raw_mode(mine.stat.st_mode) {
            FileType::Symlink => Ok(self.readlink(name)? == other.readlink(other_name)?),
            FileType::RegularFile if mine.stat.st_size == theirs.stat.st_size => {
                same_content(self.file(name)?, other.file(other_name)?).with_context(|| self.fail("Comparing", name))
            }
            FileType::RegularFile => Ok(false),
            _ => Ok(mine.stat.st_rdev == theirs.stat.st_rdev),
        }
    }
}

/// A special kind of file in words.
pub fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "named pipe",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device node",
        _ => "file of an unknown kind",
    }
}

impl AsFd for Tree {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn same_content(mut a: File, mut b: File) -> Result<bool> {
    let (mut one, mut two) = (vec![0u8; 65536], vec![0u8; 65536]);
    loop {
        let n = a.read(&mut one)?;
        if n == 0 {
            return Ok(b.read(&mut two)? == 0);
        }
        match b.read_exact(&mut two[..n]) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(e) => return Err(e.into()),
        }
        if one[..n] != two[..n] {
            return Ok(false);
        }
    }
}
