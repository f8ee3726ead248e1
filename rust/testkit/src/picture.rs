//! A directory tree as a value that can be compared: what every path is, by what a user could notice. Time stamps and
//! link counts are left out, as a bind mount, a hard link or an overlay may change them without anybody caring.

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Everything below a directory.
#[derive(Clone)]
pub struct Picture {
    paths: BTreeMap<PathBuf, Entry>,
}

/// One path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// One letter as `find -type` has it.
    pub kind: char,
    /// Permission bits.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// Names and values of extended attributes.
    pub xattrs: BTreeMap<String, String>,
    /// Bytes of a file; 0 for the others.
    pub size: u64,
    /// SHA-256 of a file, target of a link, number of a device.
    pub content: String,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entry { kind, mode, owner, xattrs, size, content } = self;
        write!(f, "{kind} {mode:04o} {}:{} {size} {content}", owner.0, owner.1)?;
        xattrs.iter().try_for_each(|(k, v)| write!(f, " {k}={v}"))
    }
}

impl Picture {
    /// Takes it, without what is below the `left_out` paths (they themselves are in).
    ///
    /// # Errors
    /// When a path cannot be read; the tree is supposed to be still.
    pub fn of(root: &Path, left_out: &[&str]) -> Result<Picture> {
        let mut paths = BTreeMap::new();
        let mut open = vec![PathBuf::new()];
        while let Some(path) = open.pop() {
            let full = root.join(&path);
            let entry =
                entry(&full, path.as_os_str().is_empty()).with_context(|| format!("Reading /{}", path.display()))?;
            if entry.kind == 'd' && !left_out.iter().any(|l| path == Path::new(l)) {
                for child in fs::read_dir(&full)? {
                    open.push(path.join(child?.file_name()));
                }
            }
            paths.insert(path, entry);
        }
        Ok(Picture { paths })
    }

    /// Number of paths.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// True when there is no path at all.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The entry at a path relative to the root.
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.paths.get(Path::new(path))
    }

    /// One line a path.
    pub fn text(&self) -> String {
        self.paths.iter().map(|(p, e)| format!("/{} {e}\n", p.display())).collect()
    }

    /// Paths that differ, in order.
    pub fn differing<'a>(&'a self, other: &'a Picture) -> Vec<&'a Path> {
        let paths: std::collections::BTreeSet<&Path> =
            self.paths.keys().chain(other.paths.keys()).map(PathBuf::as_path).collect();
        paths.into_iter().filter(|p| self.paths.get(*p) != other.paths.get(*p)).collect()
    }

    /// Lines with `-` and `+`, from this one to the other.
    pub fn differences(&self, other: &Picture) -> Vec<String> {
        let mut lines = Vec::new();
        for (sign, left, right) in [('-', self, other), ('+', other, self)] {
            let changed = left.paths.iter().filter(|(p, e)| right.paths.get(*p) != Some(*e));
            lines.extend(changed.map(|(p, e)| (p.clone(), format!("{sign} /{} {e}", p.display()))));
        }
        lines.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        lines.into_iter().map(|(_, line)| line).collect()
    }
}

thread_local! {
    /// What the last comparison found. `assert_eq!` shows both sides whole, which nobody can read at thousands of
    /// paths: `Debug` shows this instead.
    static FOUND: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

impl PartialEq for Picture {
    fn eq(&self, other: &Picture) -> bool {
        let equal = self.paths == other.paths;
        FOUND.set(if equal { Vec::new() } else { self.differences(other) });
        equal
    }
}

impl fmt::Debug for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} paths", self.len())?;
        FOUND.with_borrow(|found| {
            if !found.is_empty() {
                write!(f, "; {} lines differ in the last comparison (left -, right +):", found.len())?;
            }
            found.iter().take(100).try_for_each(|line| write!(f, "\n{line}"))
        })
    }
}

fn entry(path: &Path, is_root: bool) -> Result<Entry> {
    // The root is named by a link of /proc.
    let meta = if is_root { fs::metadata(path)? } else { fs::symlink_metadata(path)? };
    let kind = meta.file_type();
    let (kind, content) = match kind {
        k if k.is_dir() => ('d', String::new()),
        k if k.is_file() => ('f', content_hash(path)?),
        k if k.is_symlink() => ('l', fs::read_link(path)?.to_string_lossy().into_owned()),
        k if k.is_char_device() => ('c', format!("{:x}", meta.rdev())),
        k if k.is_block_device() => ('b', format!("{:x}", meta.rdev())),
        k if k.is_fifo() => ('p', String::new()),
        _ => ('s', String::new()),
    };
    let size = if kind == 'f' { meta.len() } else { 0 };
    let xattrs = xattrs(path, is_root)?;
    Ok(Entry { kind, mode: meta.mode() & 0o7777, owner: (meta.uid(), meta.gid()), xattrs, size, content })
}

fn content_hash(path: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    std::io::copy(&mut fs::File::open(path)?, &mut hash)?;
    Ok(crate::hex(&hash.finalize()))
}

fn xattrs(path: &Path, follow: bool) -> Result<BTreeMap<String, String>> {
    use rustix::fs::{getxattr, lgetxattr, listxattr, llistxattr};
    // The kernel's limits for one list and one value.
    let mut names = vec![0u8; 65536];
    let listed = if follow { listxattr(path, &mut names[..]) } else { llistxattr(path, &mut names[..]) };
    let len = match listed {
        Err(rustix::io::Errno::NOTSUP) => 0,
        other => other?,
    };
    let mut found = BTreeMap::new();
    for name in names[..len].split(|b| *b == 0).filter(|n| !n.is_empty()) {
        let mut value = vec![0u8; 65536];
        let os = std::ffi::OsStr::from_bytes(name);
        let len = if follow { getxattr(path, os, &mut value[..]) } else { lgetxattr(path, os, &mut value[..]) }?;
        found.insert(String::from_utf8_lossy(name).into_owned(), crate::hex(&value[..len]));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn sees_what_a_user_sees() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("d/skipped")).unwrap();
        fs::write(path("d/skipped/x"), "x").unwrap();
        fs::write(path("file"), "one").unwrap();
        fs::hard_link(path("file"), path("twin")).unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        let picture = || Picture::of(dir.path(), &["d/skipped"]).unwrap();
        let first = picture();
        assert_eq!(first.len(), 6);
        assert_eq!((first.get("link").unwrap().kind, first.get("link").unwrap().content.as_str()), ('l', "file"));
        assert!(first.get("d/skipped").is_some() && first.get("d/skipped/x").is_none());

        // Neither time stamps nor link counts nor what is left out.
        fs::remove_file(path("twin")).unwrap();
        fs::copy(path("file"), path("twin")).unwrap();
        fs::write(path("d/skipped/y"), "y").unwrap();
        assert_eq!(picture(), first);

        let changes: [&dyn Fn(); 5] = [
            &|| fs::set_permissions(path("file"), fs::Permissions::from_mode(0o600)).unwrap(),
            &|| fs::write(path("file"), "two").unwrap(),
            &|| fs::remove_file(path("link")).unwrap(),
            &|| std::os::unix::fs::symlink("twin", path("link")).unwrap(),
            &|| rustix::fs::setxattr(path("file"), "user.x", b"1", rustix::fs::XattrFlags::empty()).unwrap(),
        ];
        for (n, change) in changes.into_iter().enumerate() {
            let before = picture();
            change();
            assert_ne!(picture(), before, "change {n}");
        }
        assert!(first != picture());
        let text = format!("{first:?}");
        assert!(text.contains("- /link l 0777") && text.contains("+ /file f 0600"), "{text}");
    }
}
