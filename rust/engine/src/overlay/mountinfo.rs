//! `/proc/PID/mountinfo` as data: takes text, gives mounts and answers which of them is visible where.
//! Format: proc_pid_mountinfo(5). The order of lines says nothing about stacking; parent ids do.

use anyhow::{Context as _, Result};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Mount id.
    pub id: u64,
    /// Id of the mount that this one is attached to.
    pub parent: u64,
    /// `major:minor` of the filesystem.
    pub device: String,
    /// Directory of the filesystem that is the root of this mount.
    pub root: PathBuf,
    /// Mount point, relative to the reader's root.
    pub point: PathBuf,
    /// Options of this mount (`ro`, `nodev`, …).
    pub options: Vec<String>,
    /// Optional fields: `shared:N`, `master:N`, …; none for a private mount.
    pub propagation: Vec<String>,
    /// Filesystem type.
    pub fstype: String,
    /// Mount source.
    pub source: String,
    /// Options of the filesystem (`ro`, `lowerdir=…`), as the kernel escapes them but for white space.
    pub super_options: Vec<String>,
}

/// A whole table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Every mount, in the order of the lines.
    pub mounts: Vec<Mount>,
}

impl Table {
    /// Reads the table that a process sees (`thread-self`, `1`). A thread may have its own mount namespace, so `self` would not do.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn read(process: &str) -> Result<Table> {
        let path = format!("/proc/{process}/mountinfo");
        // One read(2) of a growing table may mix two states; the kernel restarts it line by line, so every line is whole.
        let text = std::fs::read(&path).with_context(|| format!("Reading {path}"))?;
        Table::parse(&text).with_context(|| format!("Reading {path}"))
    }

    /// Parses the text of a table.
    ///
    /// # Errors
    /// Naming the line that is not of the format.
    pub fn parse(text: &[u8]) -> Result<Table> {
        let lines = text.split(|&b| b == b'\n').filter(|l| !l.is_empty());
        let mounts = lines.map(|line| {
            parse_line(line).with_context(|| format!("not a mountinfo line: {:?}", String::from_utf8_lossy(line)))
        });
        Ok(Table { mounts: mounts.collect::<Result<_>>()? })
    }

    /// Every mount point once, in no order.
    pub fn points(&self) -> BTreeSet<PathBuf> {
        self.mounts.iter().map(|m| m.point.clone()).collect()
    }

    /// The mounts stacked on exactly `point`, bottom first, as lookups would cross them; empty when it is no mount point.
    pub fn stack(&self, point: &Path) -> Vec<&Mount> {
        let below = match point.parent() {
            Some(parent) => self.visible(parent).map(|m| m.id),
            None => self.outermost(),
        };
        // With no entry for `/` (a root that is no mount point) the lowest one hangs on a mount that is not listed.
        let below = below.or_else(|| {
            let known = |id| self.mounts.iter().any(|m| m.id == id);
            self.mounts.iter().find(|m| m.point == point && !known(m.parent)).map(|m| m.parent)
        });
        below.map(|id| self.chain(id, point)).unwrap_or_default()
    }

    /// The mount that a lookup of `path` ends in; none when not even `/` is listed.
    pub fn visible(&self, path: &Path) -> Option<&Mount> {
        let mut ancestors: Vec<&Path> = path.ancestors().collect();
        ancestors.reverse();
        let mut current: Option<&Mount> = None;
        for point in ancestors {
            let id = match current {
                Some(mount) => Some(mount.id),
                None if point == Path::new("/") => self.outermost(),
                None => None,
            };
            current = id.and_then(|id| self.chain(id, point).last().copied()).or(current);
        }
        current
    }

    /// Mounts below `point` that a lookup can reach, in the order of the lines.
    pub fn below(&self, point: &Path) -> Vec<&Mount> {
        let inside = |m: &&Mount| m.point != point && m.point.starts_with(point);
        let reachable = |m: &&Mount| self.stack(&m.point).iter().any(|s| s.id == m.id);
        self.mounts.iter().filter(inside).filter(reachable).collect()
    }

    /// Parent id of the lowest mount on `/`.
    fn outermost(&self) -> Option<u64> {
        let on_root = |m: &&Mount| m.point == Path::new("/");
        let is_root = |id| self.mounts.iter().filter(on_root).any(|m| m.id == id);
        // The initial root filesystem of the kernel is its own parent.
        self.mounts.iter().filter(on_root).find(|m| m.parent == m.id || !is_root(m.parent)).map(|m| m.parent)
    }

    /// Mounts on `point`, starting with the one attached to `parent`, each attached to the one before.
    fn chain(&self, mut parent: u64, point: &Path) -> Vec<&Mount> {
        let mut chain: Vec<&Mount> = Vec::new();
        let seen = |chain: &[&Mount], m: &Mount| chain.iter().any(|c| c.id == m.id);
        while let Some(next) = self.mounts.iter().find(|m| m.parent == parent && m.point == point && !seen(&chain, m)) {
            chain.push(next);
            parent = next.id;
        }
        chain
    }
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let text = |field: &[u8]| Some(String::from_utf8_lossy(&unescape(field)).into_owned());
    let path = |field: &[u8]| Some(PathBuf::from(OsString::from_vec(unescape(field))));
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
    let mut fields = line.split(|&b| b == b' ');
    let (id, parent) = (number(fields.next()?)?, number(fields.next()?)?);
    let device = text(fields.next()?)?;
    let (root, point) = (path(fields.next()?)?, path(fields.next()?)?);
    let options = text(fields.next()?)?.split(',').map(str::to_owned).collect();
    let mut propagation = Vec::new();
    loop {
        match fields.next()? {
            b"-" => break,
            field => propagation.push(text(field)?),
        }
    }
    let (fstype, source) = (text(fields.next()?)?, text(fields.next()?)?);
    let super_options = text(fields.next()?)?.split(',').map(str::to_owned).collect();
    point.as_os_str().as_bytes().starts_with(b"/").then_some(Mount {
        id,
        parent,
        device,
        root,
        point,
        options,
        propagation,
        fstype,
        source,
        super_options,
    })
}

/// Undoes the kernel's octal escapes of blank, tab, newline, backslash and `#`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|d| d.iter().all(|b| (b'0'..=b'7').contains(b)) && d[0] <= b'3');
        match (first, octal) {
            (b'\\', Some(digits)) => {
                out.push(digits.iter().fold(0u8, |n, d| (n << 3) | (d - b'0')));
                rest = &tail[3..];
            }
            _ => {
                out.push(first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        Table::parse(text.as_bytes()).unwrap()
    }

    fn ids(mounts: &[&Mount]) -> Vec<u64> {
        mounts.iter().map(|m| m.id).collect()
    }

    #[test]
    fn reads_fields_and_escapes() {
        let t = table(
            "36 35 98:0 /a\\040b /mnt/t\\011ab\\012x\\134\\0401 ro,nodev shared:1 master:2 - fuse.x src\\040y rw,z\n",
        );
        let m = &t.mounts[0];
        assert_eq!((m.id, m.parent, m.device.as_str()), (36, 35, "98:0"));
        assert_eq!(m.root, Path::new("/a b"));
        assert_eq!(m.point, Path::new("/mnt/t\tab\nx\\ 1"));
        assert_eq!(m.options, ["ro", "nodev"]);
        assert_eq!(m.propagation, ["shared:1", "master:2"]);
        assert_eq!((m.fstype.as_str(), m.source.as_str()), ("fuse.x", "src y"));
        assert_eq!(m.super_options, ["rw", "z"]);
    }

    #[test]
    fn keeps_an_incomplete_escape_and_an_empty_source() {
        let t = table("1 0 0:1 / / rw - tmpfs  rw\n2 1 0:2 / /x\\04 rw - tmpfs a\\999 rw\n");
        assert_eq!(t.mounts[0].source, "");
        assert_eq!(t.mounts[1].point, Path::new("/x\\04"));
        assert_eq!(t.mounts[1].source, "a\\999");
    }

    #[test]
    fn refuses_what_is_not_a_table() {
        for text in [
            "1 2 0:1 / /",
            "x 2 0:1 / / rw - tmpfs t rw",
            "1 2 0:1 / / rw shared:1 tmpfs t rw",
            "1 2 0:1 / rel rw - t t rw",
        ] {
            assert!(Table::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn orders_a_stack_by_parents_not_by_lines() {
        // Attached beneath: the older mount (30) hangs on the newer (40).
        let t = table(
            "30 40 0:3 / /usr ro - overlay rpm-ostree-transient:1 ro\n\
             20 1 0:1 / / rw - ext4 /dev/a rw\n\
             40 25 0:4 / /usr ro - overlay rpm-ostree-transient:2 ro\n\
             25 20 0:1 /usr /usr ro - ext4 /dev/a rw\n",
        );
        assert_eq!(ids(&t.stack(Path::new("/usr"))), [25, 40, 30]);
        assert_eq!(t.visible(Path::new("/usr/bin")).unwrap().id, 30);
        assert_eq!(t.visible(Path::new("/etc")).unwrap().id, 20);
        assert_eq!(ids(&t.stack(Path::new("/etc"))), [0u64; 0]);
    }

    #[test]
    fn a_covered_root_hides_what_is_mounted_below_it() {
        let t = table(
            "1 1 0:1 / / rw - rootfs rootfs rw\n2 1 0:2 / / rw - ext4 /dev/a rw\n\
             3 1 0:3 / /usr rw - tmpfs hidden rw\n4 2 0:4 / /usr rw - tmpfs seen rw\n",
        );
        assert_eq!(ids(&t.stack(Path::new("/"))), [1, 2]);
        assert_eq!(ids(&t.stack(Path::new("/usr"))), [4]);
    }

    #[test]
    fn lists_reachable_mounts_below() {
        let t = table(
            "20 1 0:1 / / rw - ext4 /dev/a rw\n25 20 0:1 /usr /usr ro - ext4 /dev/a rw\n\
             26 25 0:5 / /usr/lib/locale rw - tmpfs hidden rw\n30 25 0:3 / /usr ro - overlay rpm-ostree-transient:1 ro\n\
             31 30 0:6 / /usr/local rw - tmpfs seen rw\n32 31 0:7 / /usr/local/x rw - tmpfs deeper rw\n\
             33 20 0:8 / /usrlocal rw - tmpfs other rw\n",
        );
        assert_eq!(ids(&t.below(Path::new("/usr"))), [31, 32]);
    }

    #[test]
    fn works_when_the_root_is_no_mount_point() {
        let t = table("30 7 0:3 / /usr ro - overlay rpm-ostree-transient:1 ro\n31 30 0:3 / /usr ro - tmpfs t ro\n");
        assert_eq!(ids(&t.stack(Path::new("/usr"))), [30, 31]);
        assert!(t.visible(Path::new("/etc")).is_none());
    }
}
