//! The header of a package file, read as bytes: names need not be UTF-8, and no length in it is believed before it was
//! checked against the file. The rpm crate then parses the same bytes, so that both must agree that it is a header.
//! Layout: <https://rpm-software-management.github.io/rpm/manual/format_header.html>.

use super::Mismatch;
use crate::names::printable;
use anyhow::{Context as _, Result, bail, ensure};
use rustix::fs::FileType;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// librpm's own limits of a header: entries and bytes of data.
const MAX_ENTRIES: u32 = 0xffff;
const MAX_DATA: u32 = 0x0fff_ffff;
/// Files of one package, and bytes of all their paths: ten times what the largest packages have. The paths are made of two
/// lists, so a small header can stand for very many bytes.
const MAX_FILES: usize = 1 << 20;
const MAX_PATHS: usize = 64 << 20;
/// `PATH_MAX` of Linux, with its NUL.
const LONGEST_PATH: usize = 4096;
const LEAD: usize = 96;
const GHOST: u32 = 1 << 6;

mod tag {
    pub const OLDFILENAMES: u32 = 1027;
    pub const FILESIZES: u32 = 1028;
    pub const FILEMODES: u32 = 1030;
    pub const FILELINKTOS: u32 = 1036;
    pub const FILEFLAGS: u32 = 1037;
    pub const FILEDEVICES: u32 = 1095;
    pub const FILEINODES: u32 = 1096;
    pub const DIRINDEXES: u32 = 1116;
    pub const BASENAMES: u32 = 1117;
    pub const DIRNAMES: u32 = 1118;
    pub const PAYLOADFORMAT: u32 = 1124;
    pub const PAYLOADCOMPRESSOR: u32 = 1125;
    pub const LONGFILESIZES: u32 = 5008;
    pub const PAYLOADSHA256: u32 = 5092;
}

/// One file as the header lists it.
#[derive(Debug, Clone)]
pub struct HeaderFile {
    /// As it is in the header, nothing resolved.
    pub path: Vec<u8>,
    /// With its type.
    pub mode: u32,
    /// Claimed size.
    pub size: u64,
    /// Where a symlink points.
    pub link: Vec<u8>,
    /// `%ghost`: owned, not packaged.
    pub ghost: bool,
    /// Other members of a hard link set have the same.
    pub inode: Option<(u32, u32)>,
}

impl HeaderFile {
    /// The kind of file.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }
    /// True for a directory.
    pub fn is_dir(&self) -> bool {
        self.kind() == FileType::Directory
    }
}

/// A package file whose header was read.
#[derive(Debug)]
pub struct PackageFile {
    /// The rpm crate's view.
    pub metadata: rpm::PackageMetadata,
    /// In header order.
    pub files: Vec<HeaderFile>,
    /// `PAYLOADFORMAT`, `cpio` when it is missing.
    pub format: Vec<u8>,
    /// `PAYLOADCOMPRESSOR`, `gzip` when it is missing, as librpm has it.
    pub compressor: Vec<u8>,
    /// SHA-256 of the payload as it is in the file, in hexadecimal; packages before rpm 4.14 have none.
    pub payload_sha256: Option<Vec<u8>>,
    path: PathBuf,
    payload: u64,
}

impl PackageFile {
    /// A reader that stands at the payload. Opened anew, so that a large transaction does not hold as many files.
    pub fn payload(&self) -> Result<impl BufRead + use<>> {
        let mut file = File::open(&self.path).context("it cannot be opened")?;
        file.seek(SeekFrom::Start(self.payload))?;
        Ok(BufReader::with_capacity(64 * 1024, file))
    }
}

/// Reads lead, signature header and header.
///
/// # Errors
/// What is wrong with them, as one phrase.
pub fn open(path: &Path) -> Result<PackageFile> {
    let file = File::open(path).context("it cannot be opened")?;
    let mut left = file.metadata().context("it cannot be examined")?.len();
    let mut input = BufReader::new(file);
    let mut bytes = vec![0; LEAD];
    input.read_exact(&mut bytes).context("it is shorter than the lead of a package")?;
    left = left.saturating_sub(LEAD as u64);
    // The crate says best what is wrong with a lead, and reads no further than one that is wrong.
    if !bytes.starts_with(&[0xed, 0xab, 0xee, 0xdb]) {
        parse(&bytes)?;
        bail!("it has no lead of a package");
    }
    let signature = read_header(&mut input, &mut left, &mut bytes).context("signature header")?;
    let pad = (8 - signature.data.len() % 8) % 8;
    let at = bytes.len();
    bytes.resize(at + pad, 0);
    input.read_exact(&mut bytes[at..]).context("it ends within the signature header")?;
    left = left.saturating_sub(pad as u64);
    let header = read_header(&mut input, &mut left, &mut bytes).context("header")?;
    let metadata = parse(&bytes)?;
    metadata.check_digests().and_then(|d| d.result()).map_err(|e| Mismatch(from_crate(e).to_string()))?;
    Ok(PackageFile {
        metadata,
        files: header.files()?,
        format: header.string(tag::PAYLOADFORMAT).unwrap_or(b"cpio").to_vec(),
        compressor: header.string(tag::PAYLOADCOMPRESSOR).unwrap_or(b"gzip").to_vec(),
        payload_sha256: header.strings(tag::PAYLOADSHA256)?.and_then(|d| Some(d.first()?.to_vec())),
        path: path.to_path_buf(),
        payload: bytes.len() as u64,
    })
}

fn parse(bytes: &[u8]) -> Result<rpm::PackageMetadata> {
    rpm::PackageMetadata::parse(&mut &bytes[..]).map_err(from_crate)
}

/// The crate's message, escaped: it may quote the file.
fn from_crate(error: rpm::Error) -> anyhow::Error {
    anyhow::anyhow!("{}", printable(error.to_string().as_bytes()))
}

/// Where the value of a tag is, checked.
#[derive(Debug, Clone, Copy)]
struct Slot {
    kind: u32,
    offset: usize,
    count: usize,
}

struct Raw {
    slots: BTreeMap<u32, Slot>,
    data: Vec<u8>,
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Reads one header and appends its bytes to `copy`. `left` is what the file has left.
fn read_header(input: &mut impl BufRead, left: &mut u64, copy: &mut Vec<u8>) -> Result<Raw> {
    let mut intro = [0; 16];
    input.read_exact(&mut intro).context("it ends before it")?;
    ensure!(intro.starts_with(&[0x8e, 0xad, 0xe8, 0x01]), "it does not begin as one");
    let (entries, length) = (be32(&intro, 8).unwrap_or(0), be32(&intro, 12).unwrap_or(0));
    ensure!(entries <= MAX_ENTRIES && length <= MAX_DATA, "it claims {entries} entries and {length} bytes");
    let size = 16 + u64::from(entries) * 16 + u64::from(length);
    ensure!(size <= *left, "it claims {size} bytes, and the file has {left} left");
    *left -= size;
    let mut index = vec![0; entries as usize * 16];
    let mut data = vec![0; length as usize];
    input.read_exact(&mut index)?;
    input.read_exact(&mut data)?;
    let mut slots = BTreeMap::new();
    // No two values share bytes, and so all of them together are read once.
    let mut unread = data.len();
    for item in index.chunks_exact(16) {
        let field = |n: usize| be32(item, n * 4).unwrap_or(0);
        let (tag, kind, offset, count) = (field(0), field(1), field(2) as usize, field(3) as usize);
        let width = match kind {
            0..=2 | 6..=9 => 1,
            3 => 2,
            4 => 4,
            5 => 8,
            _ => bail!("tag {tag} is of the unknown type {kind}"),
        };
        let end = count.checked_mul(width).and_then(|n| n.checked_add(offset));
        ensure!(end.is_some_and(|e| e <= data.len()), "tag {tag} reaches beyond the header");
        let mut taken = count * width;
        if matches!(kind, 6 | 8 | 9) {
            // Each string must end within the data: a crafted one would make a reader run out of it.
            let window = &data[offset..data.len().min(offset + unread)];
            let last = window.iter().enumerate().filter(|(_, b)| **b == 0).nth(count.wrapping_sub(1));
            taken = last.with_context(|| format!("tag {tag} is not terminated, or shares bytes with others"))?.0 + 1;
        }
        unread = unread.checked_sub(taken).with_context(|| format!("tag {tag} shares bytes with others"))?;
        ensure!(slots.insert(tag, Slot { kind, offset, count }).is_none(), "tag {tag} is there twice");
    }
    copy.extend_from_slice(&intro);
    copy.extend_from_slice(&index);
    copy.extend_from_slice(&data);
    Ok(Raw { slots, data })
}

impl Raw {
    fn string(&self, tag: u32) -> Option<&[u8]> {
        let slot = self.slots.get(&tag).filter(|s| matches!(s.kind, 6 | 8 | 9))?;
        self.data[slot.offset..].split(|b| *b == 0).next()
    }

    fn strings(&self, tag: u32) -> Result<Option<Vec<&[u8]>>> {
        let Some(slot) = self.slots.get(&tag) else { return Ok(None) };
        ensure!(matches!(slot.kind, 6 | 8 | 9), "tag {tag} does not hold strings");
        Ok(Some(self.data[slot.offset..].split(|b| *b == 0).take(slot.count).collect()))
    }

    fn numbers(&self, tag: u32) -> Result<Option<Vec<u64>>> {
        let Some(slot) = self.slots.get(&tag) else { return Ok(None) };
        let width = match slot.kind {
            3 => 2,
            4 => 4,
            5 => 8,
            _ => bail!("tag {tag} does not hold numbers"),
        };
        let bytes = &self.data[slot.offset..slot.offset + slot.count * width];
        let number = |c: &[u8]| c.iter().fold(0u64, |n, b| (n << 8) | u64::from(*b));
        Ok(Some(bytes.chunks_exact(width).map(number).collect()))
    }

    /// The column `tag` of the file list, which must have `rows` values.
    fn column(&self, tag: u32, rows: usize) -> Result<Option<Vec<u64>>> {
        let column = self.numbers(tag)?;
        let length = column.as_ref().map_or(rows, Vec::len);
        ensure!(length == rows, "tag {tag} has {length} values for {rows} files");
        Ok(column)
    }

    fn paths(&self) -> Result<Vec<Vec<u8>>> {
        let (base, dirs, indexes) =
            (self.strings(tag::BASENAMES)?, self.strings(tag::DIRNAMES)?, self.numbers(tag::DIRINDEXES)?);
        let old = self.strings(tag::OLDFILENAMES)?;
        let (base, dirs, indexes) = match (base, dirs, indexes, old) {
            (None, None, None, None) => return Ok(vec![]),
            (None, None, None, Some(old)) => {
                ensure!(old.len() <= MAX_FILES, "it has {} files, and {MAX_FILES} is the most", old.len());
                return Ok(old.into_iter().map(<[u8]>::to_vec).collect());
            }
            (Some(b), Some(d), Some(i), None) => (b, d, i),
            (Some(_), Some(_), Some(_), Some(_)) => bail!("it has two file lists"),
            _ => bail!("its file list is incomplete"),
        };
        ensure!(
            base.len() == indexes.len(),
            "it has {} file names and {} directories of them",
            base.len(),
            indexes.len()
        );
        ensure!(base.len() <= MAX_FILES, "it has {} files, and {MAX_FILES} is the most", base.len());
        let mut total = 0;
        for name in &base {
            ensure!(!name.contains(&b'/'), "the file name \"{}\" has a slash", printable(name));
        }
        base.into_iter()
            .zip(indexes)
            .map(|(name, index)| {
                let dir = usize::try_from(index).ok().and_then(|i| dirs.get(i));
                let dir = dir.with_context(|| format!("there is no directory number {index}"))?;
                let length = dir.len() + name.len();
                ensure!(length < LONGEST_PATH, "a path of {length} bytes is too long");
                total += length;
                ensure!(total <= MAX_PATHS, "the paths of its files take more than {MAX_PATHS} bytes");
                Ok([*dir, name].concat())
            })
            .collect()
    }

    fn files(&self) -> Result<Vec<HeaderFile>> {
        let paths = self.paths()?;
        let rows = paths.len();
        if rows == 0 {
            return Ok(vec![]);
        }
        let modes = self.column(tag::FILEMODES, rows)?.context("it has files without modes")?;
        let (short, long) = (self.column(tag::FILESIZES, rows)?, self.column(tag::LONGFILESIZES, rows)?);
        ensure!(short.is_none() || long.is_none(), "it has two lists of file sizes");
        let sizes = long.or(short).context("it has files without sizes")?;
        let flags = self.column(tag::FILEFLAGS, rows)?;
        let (devices, inodes) = (self.column(tag::FILEDEVICES, rows)?, self.column(tag::FILEINODES, rows)?);
        let links = self.strings(tag::FILELINKTOS)?;
        ensure!(links.as_ref().is_none_or(|l| l.len() == rows), "its symlink targets are not one for each file");
        let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        Ok(paths
            .into_iter()
            .enumerate()
            .map(|(n, path)| HeaderFile {
                path,
                mode: narrow(modes[n]),
                size: sizes[n],
                link: links.as_ref().map(|l| l[n].to_vec()).unwrap_or_default(),
                ghost: flags.as_ref().is_some_and(|f| narrow(f[n]) & GHOST != 0),
                inode: devices.as_ref().zip(inodes.as_ref()).map(|(d, i)| (narrow(d[n]), narrow(i[n]))),
            })
            .collect())
    }
}

/// Bytes and inodes that the files take on a tmpfs, whole pages each; a hard link set has its content once.
pub fn footprint(files: &[HeaderFile]) -> (u64, u64) {
    const PAGE: u64 = 4096;
    let (mut bytes, mut inodes) = (0u64, 0u64);
    let mut seen = BTreeSet::new();
    for file in files.iter().filter(|f| !f.ghost) {
        inodes += 1;
        if file.kind() == FileType::RegularFile && file.inode.is_none_or(|i| seen.insert(i)) {
            bytes = bytes.saturating_add(file.size.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX));
        }
    }
    (bytes, inodes)
}
