//! The payload, decompressed in a stream and held against the header: every entry must be a file of the header, every
//! packaged file must be there once, sizes must agree, and nothing may follow. Memory does not depend on what the
//! payload claims. Formats: cpio "newc" and rpm's stripped variant for large files and format 6.
//! Layout: <https://rpm-software-management.github.io/rpm/manual/format_payload.html>.

use super::Mismatch;
use super::header::HeaderFile;
use crate::names::printable;
use anyhow::{Context as _, Result, bail, ensure};
use rustix::fs::FileType;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::io::{BufRead, Read};

/// librpm's own limit for the xz and lzma decoders.
const LZMA_MEMORY: u64 = 100 << 20;
/// Longest name or symlink target: `PATH_MAX`.
const LONGEST: u64 = 4096;
/// Zeros after the trailer: cpio pads to its block, at most this.
const PADDING: u64 = 64 * 1024;

/// Checks the whole payload, and its digest where the header has one.
///
/// # Errors
/// What is wrong with it, as one phrase; [`Mismatch`] when it is not the payload that the header promises.
pub fn check(
    input: impl BufRead,
    digest: Option<&[u8]>,
    compressor: &[u8],
    format: &[u8],
    files: &[HeaderFile],
) -> Result<()> {
    let Some(want) = digest else { return check_content(input, compressor, format, files) };
    let mut input = Hashed { input, hash: Sha256::new() };
    let found = check_content(&mut input, compressor, format, files);
    // Content of a damaged payload is wrong in any way; that it is damaged is what the user can do something about.
    std::io::copy(&mut input, &mut std::io::sink()).context("its payload cannot be read")?;
    let got: String = input.hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
    if !got.as_bytes().eq_ignore_ascii_case(want) {
        let text = format!("its payload has the SHA-256 digest {got}, and the header says {}", printable(want));
        return Err(Mismatch(text).into());
    }
    found
}

fn check_content(mut input: impl BufRead, compressor: &[u8], format: &[u8], files: &[HeaderFile]) -> Result<()> {
    ensure!(format == b"cpio", "its payload is in the format \"{}\", not cpio", printable(format));
    let start = input.fill_buf().context("its payload cannot be read")?;
    if start.is_empty() && files.iter().all(|f| f.ghost) {
        return Ok(());
    }
    let stored = start.starts_with(b"0707");
    // librpm takes the tag's word for the compressor, so another one in the file would not be what was checked.
    let fits = match compressor {
        b"gzip" => start.starts_with(&[0x1f, 0x8b]) || stored,
        b"bzip2" => start.starts_with(b"BZh"),
        b"xz" => start.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]),
        b"zstd" => start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]),
        b"lzma" => start.first() == Some(&0x5d),
        b"identity" | b"none" => stored,
        other => bail!("its payload is compressed with \"{}\", which is not known", printable(other)),
    };
    ensure!(fits, "its payload is not the {} data that the header promises", printable(compressor));
    match compressor {
        b"gzip" if !stored => finish(files, flate2::bufread::GzDecoder::new(input), |d| d.into_inner()),
        b"bzip2" => finish(files, bzip2::bufread::BzDecoder::new(input), |d| d.into_inner()),
        b"xz" => {
            let stream = liblzma::stream::Stream::new_stream_decoder(LZMA_MEMORY, 0)?;
            finish(files, liblzma::bufread::XzDecoder::new_stream(input, stream), |d| d.into_inner())
        }
        b"lzma" => {
            let stream = liblzma::stream::Stream::new_lzma_decoder(LZMA_MEMORY)?;
            finish(files, liblzma::bufread::XzDecoder::new_stream(input, stream), |d| d.into_inner())
        }
        b"zstd" => finish(files, zstd::stream::read::Decoder::with_buffer(input)?, |d| d.finish()),
        _ => finish(files, input, |i| i),
    }
}

/// Checks the archive, that its decoder has nothing more, and that the file ends with it.
fn finish<D: Read, I: BufRead>(files: &[HeaderFile], mut decoder: D, inner: impl FnOnce(D) -> I) -> Result<()> {
    archive(&mut decoder, files)?;
    let garbage = "there is garbage after its payload";
    let mut block = [0; 4096];
    let mut padding = 0;
    loop {
        let n = decoder.read(&mut block).context(garbage)?;
        if n == 0 {
            break;
        }
        padding += n as u64;
        ensure!(padding <= PADDING && block[..n].iter().all(|b| *b == 0), garbage);
    }
    ensure!(inner(decoder).fill_buf().context(garbage)?.is_empty(), garbage);
    Ok(())
}

/// What one archive entry says of itself.
struct Entry {
    index: usize,
    /// `None` in stripped archives.
    mode: Option<u32>,
    size: u64,
}

fn archive(input: &mut impl Read, files: &[HeaderFile]) -> Result<()> {
    let by_path: BTreeMap<&[u8], usize> = files.iter().enumerate().map(|(n, f)| (&f.path[..], n)).collect();
    let sets = LinkSets::new(files);
    let mut seen = vec![None; files.len()];
    while let Some(entry) = next(input, files, &by_path, &sets)? {
        let file = &files[entry.index];
        let shown = printable(&file.path);
        ensure!(seen[entry.index].is_none(), "{shown} is in the payload twice");
        ensure!(!file.ghost, "{shown} is in the payload, and the header has it as %ghost");
        let kind = file.kind();
        ensure!(
            entry.mode.is_none_or(|m| FileType::from_raw_mode(m) == kind),
            "{shown} is another kind of file in the payload than in the header"
        );
        match kind {
            FileType::Symlink => {
                ensure!(entry.size <= LONGEST, "the symlink {shown} has a target of {} bytes", entry.size);
                let mut target = vec![0; usize::try_from(entry.size)?];
                input.read_exact(&mut target).context(ENDS)?;
                ensure!(
                    target.strip_suffix(b"\0").unwrap_or(&target) == file.link,
                    "the symlink {shown} points to \"{}\" in the payload and to \"{}\" in the header",
                    printable(&target),
                    printable(&file.link)
                );
            }
            FileType::RegularFile => {
                let empty_link = entry.size == 0 && sets.is_shared(entry.index);
                ensure!(
                    entry.size == file.size || empty_link,
                    "{shown} has {} bytes in the payload and {} in the header",
                    entry.size,
                    file.size
                );
                skip(input, entry.size)?;
            }
            _ => ensure!(entry.size == 0, "{shown} has content in the payload, and is not a file"),
        }
        skip(input, pad(entry.size))?;
        seen[entry.index] = Some(entry.size);
    }
    for (n, file) in files.iter().enumerate().filter(|(_, f)| !f.ghost) {
        let shown = printable(&file.path);
        ensure!(seen[n].is_some(), "{shown} is in the header, but missing from the payload");
        if file.kind() == FileType::RegularFile && file.size > 0 {
            let found = sets.members(n).iter().any(|m| seen[*m] == Some(file.size));
            ensure!(found, "{shown} is in the header, but its content is missing from the payload");
        }
    }
    Ok(())
}

const ENDS: &str = "its payload ends too early or cannot be read";

/// Reads one entry's header; `None` at the trailer.
fn next(
    input: &mut impl Read,
    files: &[HeaderFile],
    by_path: &BTreeMap<&[u8], usize>,
    sets: &LinkSets,
) -> Result<Option<Entry>> {
    let mut magic = [0; 6];
    input.read_exact(&mut magic).context(ENDS)?;
    if &magic == b"07070X" {
        let index = usize::try_from(hex(input)?)?;
        skip(input, 2)?;
        let file = files
            .get(index)
            .with_context(|| format!("its payload has file number {index}, which is not in the header"))?;
        // The header has all there is to know; librpm puts the content of a hard link set into its last member.
        let size = match file.kind() {
            FileType::RegularFile if sets.members(index).last() == Some(&index) => file.size,
            FileType::Symlink => file.link.len() as u64,
            _ => 0,
        };
        return Ok(Some(Entry { index, mode: None, size }));
    }
    ensure!(matches!(&magic, b"070701" | b"070702"), "its payload is not a cpio archive");
    let mut field = [0; 13];
    for f in &mut field {
        *f = hex(input)?;
    }
    let (mode, size, length) = (field[1], field[6], field[11]);
    ensure!((1..=LONGEST).contains(&length), "its payload has a file name of {length} bytes");
    let mut name = vec![0; usize::try_from(length)?];
    input.read_exact(&mut name).context(ENDS)?;
    skip(input, pad(110 + length))?;
    ensure!(name.pop() == Some(0) && !name.contains(&0), "its payload has a file name with a NUL");
    if name == b"TRAILER!!!" {
        ensure!(size == 0, "its payload has a trailer with content");
        return Ok(None);
    }
    let path = match name.strip_prefix(b"./") {
        Some(rest) => [b"/", rest].concat(),
        None if name.starts_with(b"/") => name.clone(),
        None => [b"/", &name[..]].concat(),
    };
    let index = by_path
        .get(&path[..])
        .with_context(|| format!("{} is in the payload, but not in the header", printable(&path)))?;
    Ok(Some(Entry { index: *index, mode: Some(u32::try_from(mode)?), size }))
}

/// Bytes to the next multiple of four.
fn pad(n: u64) -> u64 {
    (4 - n % 4) % 4
}

fn hex(input: &mut impl Read) -> Result<u64> {
    let mut digits = [0; 8];
    input.read_exact(&mut digits).context(ENDS)?;
    let digit = |n: u64, d: &u8| Some(n * 16 + u64::from((*d as char).to_digit(16)?));
    digits.iter().try_fold(0, digit).context("its payload has a damaged cpio header")
}

fn skip(input: &mut impl Read, bytes: u64) -> Result<()> {
    let mut block = [0; 65536];
    let mut left = bytes;
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
        let n = input.read(&mut block[..wanted]).context(ENDS)?;
        ensure!(n > 0, ENDS);
        left -= n as u64;
    }
    Ok(())
}

/// Hashes what is consumed.
struct Hashed<R> {
    input: R,
    hash: Sha256,
}

impl<R: BufRead> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.input.read(buffer)?;
        self.hash.update(&buffer[..n]);
        Ok(n)
    }
}

impl<R: BufRead> BufRead for Hashed<R> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, n: usize) {
        // What was filled is still there, so this reads nothing.
        if let Ok(block) = self.input.fill_buf() {
            self.hash.update(&block[..n.min(block.len())]);
        }
        self.input.consume(n);
    }
}

/// Which files are names of one inode.
struct LinkSets {
    of: Vec<Option<(u32, u32)>>,
    sets: BTreeMap<(u32, u32), Vec<usize>>,
    alone: Vec<[usize; 1]>,
}

impl LinkSets {
    fn new(files: &[HeaderFile]) -> LinkSets {
        let mut sets: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
        let inode = |f: &HeaderFile| f.inode.filter(|_| !f.ghost && f.kind() == FileType::RegularFile);
        for (n, file) in files.iter().enumerate() {
            if let Some(i) = inode(file) {
                sets.entry(i).or_default().push(n);
            }
        }
        LinkSets { of: files.iter().map(inode).collect(), sets, alone: (0..files.len()).map(|n| [n]).collect() }
    }

    fn members(&self, file: usize) -> &[usize] {
        self.of[file].and_then(|i| self.sets.get(&i)).map_or(&self.alone[file][..], |m| &m[..])
    }

    fn is_shared(&self, file: usize) -> bool {
        self.members(file).len() > 1
    }
}
