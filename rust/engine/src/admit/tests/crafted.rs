//! Packages that rpmbuild would not make, written byte by byte and without digests, so that nothing but the rule under
//! test stands in their way.

use super::*;

const FILE: u32 = 0o100_644;
const DIR: u32 = 0o040_755;
const LINK: u32 = 0o120_777;

/// One file: in the header, in the payload, or in both.
#[derive(Clone)]
struct Item {
    path: &'static [u8],
    mode: u32,
    /// Size in the header.
    size: u64,
    content: &'static [u8],
    link: &'static [u8],
    ghost: bool,
    inode: u32,
    in_header: bool,
    in_payload: bool,
}

fn item(path: &'static [u8], mode: u32, content: &'static [u8]) -> Item {
    let link = if mode == LINK { content } else { b"" };
    let size = content.len() as u64;
    Item { path, mode, size, content, link, ghost: false, inode: 0, in_header: true, in_payload: true }
}

fn file(path: &'static [u8]) -> Item {
    item(path, FILE, b"text")
}

#[derive(Clone)]
struct Craft {
    items: Vec<Item>,
    name: &'static str,
    arch: &'static str,
    /// Entries by number instead of name.
    stripped: bool,
    tail: &'static [u8],
    /// Header entries that replace or add to the usual ones: tag, type, count, value.
    extra: Vec<(u32, u32, u32, Vec<u8>)>,
}

fn craft(items: &[Item]) -> Craft {
    Craft { items: items.to_vec(), name: "crafted", arch: "noarch", stripped: false, tail: b"", extra: vec![] }
}

impl Craft {
    fn with(mut self, change: impl FnOnce(&mut Craft)) -> Craft {
        change(&mut self);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let listed: Vec<_> = self.items.iter().enumerate().filter(|(_, i)| i.in_header).collect();
        let rows = listed.len() as u32;
        let strings = |of: &dyn Fn(&Item) -> Vec<u8>| -> Vec<u8> {
            listed.iter().flat_map(|(_, i)| [of(i), vec![0]].concat()).collect()
        };
        let numbers =
            |of: &dyn Fn(usize, &Item) -> u32| listed.iter().flat_map(|(n, i)| of(*n, i).to_be_bytes()).collect();
        let split = |p: &[u8]| {
            let at = p.iter().rposition(|b| *b == b'/').map_or(0, |n| n + 1);
            (p[..at].to_vec(), p[at..].to_vec())
        };
        let text = |s: &str| [s.as_bytes(), b"\0"].concat();
        let mut tags: Vec<(u32, u32, u32, Vec<u8>)> = vec![
            (1000, 6, 1, text(self.name)),
            (1001, 6, 1, text("1")),
            (1002, 6, 1, text("1")),
            (1022, 6, 1, text(self.arch)),
            (1044, 6, 1, text("crafted-1-1.src.rpm")),
            (1124, 6, 1, text("cpio")),
        ];
        if rows > 0 {
            let modes = listed.iter().flat_map(|(_, i)| (i.mode as u16).to_be_bytes()).collect();
            let sizes = listed.iter().flat_map(|(_, i)| i.size.to_be_bytes()).collect();
            tags.extend([
                (1030, 3, rows, modes),
                (1036, 8, rows, strings(&|i| i.link.to_vec())),
                (1037, 4, rows, numbers(&|_, i| if i.ghost { 64 } else { 0 })),
                (1095, 4, rows, numbers(&|_, _| 1)),
                (1096, 4, rows, numbers(&|n, i| if i.inode == 0 { 1000 + n as u32 } else { i.inode })),
                (1116, 4, rows, listed.iter().enumerate().flat_map(|(n, _)| (n as u32).to_be_bytes()).collect()),
                (1117, 8, rows, strings(&|i| split(i.path).1)),
                (1118, 8, rows, strings(&|i| split(i.path).0)),
                (5008, 5, rows, sizes),
            ]);
        }
        tags.retain(|t| !self.extra.iter().any(|e| e.0 == t.0));
        tags.extend(self.extra.iter().filter(|e| e.2 > 0).cloned());
        tags.sort_by_key(|t| t.0);
        let mut bytes = vec![0; 96];
        bytes[..8].copy_from_slice(&[0xed, 0xab, 0xee, 0xdb, 3, 0, 0, 0]);
        bytes[10..17].copy_from_slice(b"crafted");
        bytes[78..80].copy_from_slice(&5u16.to_be_bytes());
        bytes.extend(header(&[(1000, 4, 1, vec![0; 4])]));
        bytes.extend([0; 4]);
        bytes.extend(header(&tags));
        for (n, i) in self.items.iter().enumerate().filter(|(_, i)| i.in_payload) {
            bytes.extend(self.entry(n as u32, i));
        }
        bytes.extend(newc(b"TRAILER!!!", 0, b""));
        bytes.extend(self.tail);
        bytes
    }

    fn entry(&self, number: u32, item: &Item) -> Vec<u8> {
        if !self.stripped {
            return newc(&[b".", item.path].concat(), item.mode, item.content);
        }
        let mut entry = format!("07070X{number:08x}").into_bytes();
        entry.extend([0; 2]);
        entry.extend(item.content);
        entry.resize(entry.len().next_multiple_of(4), 0);
        entry
    }

    fn admit(&self) -> std::result::Result<(), Failure> {
        let tmp = tempfile::tempdir().unwrap();
        try_one(&self.write(tmp.path()))
    }

    fn write(&self, dir: &Path) -> PathBuf {
        let path = dir.join(format!("{}.rpm", self.name));
        std::fs::write(&path, self.bytes()).unwrap();
        path
    }

    fn refused(&self, part: &str) {
        self.refused_as(Code::Refused, part);
    }

    fn refused_as(&self, code: Code, part: &str) {
        let failure = self.admit().expect_err(part);
        assert_eq!(failure.code, code, "{failure}");
        assert!(failure.message.contains(part), "wanted {part:?} in {:?}", failure.message);
    }
}

fn header(tags: &[(u32, u32, u32, Vec<u8>)]) -> Vec<u8> {
    let (mut index, mut data) = (vec![], vec![]);
    for (tag, kind, count, value) in tags {
        let width = match kind {
            3 => 2,
            4 => 4,
            5 => 8,
            _ => 1,
        };
        let length: usize = data.len();
        data.resize(length.next_multiple_of(width), 0);
        for field in [*tag, *kind, data.len() as u32, *count] {
            index.extend(field.to_be_bytes());
        }
        data.extend(value);
    }
    let mut bytes = vec![0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0];
    bytes.extend((tags.len() as u32).to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    [bytes, index, data].concat()
}

fn newc(name: &[u8], mode: u32, content: &[u8]) -> Vec<u8> {
    let mut entry = b"070701".to_vec();
    for field in [0, mode, 0, 0, 1, 0, content.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0] {
        entry.extend(format!("{field:08x}").into_bytes());
    }
    entry.extend(name);
    entry.push(0);
    entry.resize(entry.len().next_multiple_of(4), 0);
    entry.extend(content);
    entry.resize(entry.len().next_multiple_of(4), 0);
    entry
}

#[test]
fn the_crafted_package_itself_is_fine() {
    let plain = craft(&[file(b"/usr/bin/x"), item(b"/usr/share/d", DIR, b""), item(b"/usr/bin/y", LINK, b"x")]);
    plain.admit().unwrap();
    plain.with(|c| c.stripped = true).admit().unwrap();
    craft(&[]).admit().unwrap();
    craft(&[file(b"/usr/share/\xff\xfe")]).admit().unwrap();
}

#[test]
fn paths() {
    for (path, part) in [
        (&b"/usr/share/../../etc/x"[..], "goes upwards"),
        (b"/usr/share/./x", "has an empty part"),
        (b"/usr//x", "has an empty part"),
        (b"usr/x", "is not absolute"),
        (b"/usr/share/x/", "has an empty part"),
        (b"/srv/x\x1b[2J", "crafted-1-1.noarch is refused: /srv/x\\u{1b}[2J is outside /usr, /etc, /var and /opt"),
        (b"/usr/etc/x", "/usr/etc/x is below /usr/etc"),
        (b"/etc", "/etc is outside"),
        (b"/run/x", "/run/x is outside"),
        (b"/boot/x", "below /boot, which a transient layer never changes"),
        (b"/root/x", "/root/x is outside /usr"),
        (b"/usr/local/bin/x", "is below /usr/local, which is the administrator's"),
        // The base's /usr/tmp is a symlink to ../var/tmp.
        (b"/usr/tmp/x", "/usr/tmp/x is outside /usr"),
        (b"/usr/lib/systemd/systemd/x", "/usr/lib/systemd/systemd is not a directory"),
        (b"/lib64/libc.so.6", "/lib64/libc.so.6 is part of the C library"),
        (b"/usr/lib/modules/6.1/vmlinuz", "is part of a kernel"),
        (b"/sbin/rpm", "/sbin/rpm is part of rpm"),
    ] {
        craft(&[file(path)]).refused(part);
    }
    craft(&[item(b"/usr/lib/systemd/systemd", DIR, b"")]).refused("is part of systemd");
    for (one, part) in [
        (file(b"/usr/share/doc"), "/usr/share/doc is a file, and the base has a directory there"),
        (item(b"/usr/lib/systemd", LINK, b"/tmp"), "is a symlink, and the base has a directory there"),
    ] {
        craft(&[one]).refused_as(Code::FileConflict, part);
    }
    // A directory where the base has a symlink to one is rpm's usual case.
    craft(&[item(b"/usr/man", DIR, b""), file(b"/usr/man/x")]).admit().unwrap();
}

#[test]
fn ghosts_may_be_anywhere_but_not_in_the_payload() {
    let ghost = |path| Item { ghost: true, in_payload: false, ..file(path) };
    craft(&[ghost(b"/etc/x"), ghost(b"/var/log/x"), ghost(b"/boot/x")]).admit().unwrap();
    craft(&[ghost(b"/usr/../x")]).refused("goes upwards");
    craft(&[Item { ghost: true, ..file(b"/etc/x") }]).refused("the header has it as %ghost");
}

#[test]
fn kinds() {
    for (mode, word) in
        [(0o010_644, "named pipe"), (0o020_600, "device node"), (0o060_600, "device node"), (0o140_755, "socket")]
    {
        craft(&[item(b"/usr/lib/x", mode, b"")]).refused(&format!("/usr/lib/x is a {word}"));
    }
    let claims = Item { mode: DIR, ..file(b"/usr/lib/x") };
    let mut both = craft(&[claims]);
    both.items[0].in_payload = false;
    both.items.push(Item { in_header: false, ..file(b"/usr/lib/x") });
    both.refused("is another kind of file in the payload");
}

#[test]
fn header_and_payload_agree() {
    let x = file(b"/usr/bin/x");
    craft(&[x.clone(), Item { in_header: false, ..file(b"/usr/bin/y") }])
        .refused("/usr/bin/y is in the payload, but not");
    craft(&[x.clone(), Item { in_payload: false, ..file(b"/usr/bin/y") }]).refused("missing from the payload");
    craft(&[x.clone(), Item { in_header: false, ..x.clone() }]).refused("/usr/bin/x is in the payload twice");
    craft(&[x.clone(), Item { in_payload: false, ..x.clone() }]).refused("/usr/bin/x is in its file list twice");
    craft(&[Item { size: 5, ..x.clone() }]).refused("/usr/bin/x has 4 bytes in the payload and 5 in the header");
    craft(&[Item { link: b"/etc", ..item(b"/usr/bin/l", LINK, b"x") }]).refused("points to \"x\" in the payload");
    craft(std::slice::from_ref(&x)).with(|c| c.tail = b"more").refused("garbage after its payload");
    craft(std::slice::from_ref(&x)).with(|c| c.tail = &[0; 512]).admit().unwrap();
    // Hard links: one name carries the content, the others none.
    let link = |path, content| Item { size: 4, inode: 7, content, ..file(path) };
    craft(&[link(b"/usr/bin/a", b""), link(b"/usr/bin/b", b"text")]).admit().unwrap();
    craft(&[link(b"/usr/bin/a", b""), link(b"/usr/bin/b", b"")]).refused("its content is missing from the payload");
    craft(&[link(b"/usr/bin/a", b""), link(b"/usr/bin/b", b"text")]).with(|c| c.stripped = true).admit().unwrap();
    craft(&[x])
        .with(|c| {
            c.stripped = true;
            c.items.push(Item { in_header: false, ..file(b"/usr/bin/y") });
        })
        .refused("file number 1, which is not in the header");
}

#[test]
fn one_place_is_filled_once() {
    // The base's sbin is a symlink to bin.
    craft(&[file(b"/usr/bin/x"), file(b"/usr/sbin/x")]).refused("are the same path on this host");
    craft(&[file(b"/bin/x"), file(b"/usr/bin/x")]).refused("are the same path on this host");
    craft(&[item(b"/usr/share/l", LINK, b"/etc"), file(b"/usr/share/l/x")])
        .refused("/usr/share/l/x goes through /usr/share/l, which is itself packaged as a symlink");
    // Over two packages, in either order.
    let tmp = tempfile::tempdir().unwrap();
    let link = craft(&[item(b"/usr/share/l", LINK, b"/etc")]).with(|c| c.name = "link").write(tmp.path());
    let through = craft(&[file(b"/usr/share/l/x")]).with(|c| c.name = "through").write(tmp.path());
    for order in [[&link, &through], [&through, &link]] {
        let failure = try_with(&order.map(|p| p.as_path()), &policy(), PLENTY).unwrap_err();
        assert!(failure.message.starts_with("through-1-1.noarch is refused: /usr/share/l/x goes through"), "{failure}");
    }
}

#[test]
fn names_arches_and_sources() {
    craft(&[]).with(|c| c.arch = "s390x").refused("it is built for s390x, and this host is x86_64");
    craft(&[]).with(|c| c.name = "kernel-core").refused("kernel-core-1-1.noarch is refused: it is a kernel");
    craft(&[]).with(|c| c.name = "a b\n").refused("\"a b\\n-1-1.noarch\" is no name");
    craft(&[]).with(|c| c.extra = vec![(1044, 6, 0, vec![]), (1106, 4, 1, vec![0, 0, 0, 1])]).refused("source package");
    let tmp = tempfile::tempdir().unwrap();
    let libc = craft(&[file(b"/usr/lib64/libc.so.6")]).write(tmp.path());
    assert!(try_one(&libc).unwrap_err().hint.unwrap().contains("--force-unsafe=crafted"));
    let forced = Policy { force_unsafe: BTreeSet::from(["crafted".into()]), ..policy() };
    try_with(&[&libc], &forced, PLENTY).unwrap();
    // What the source promised is what is there.
    let base = base();
    let other: Nevra = "crafted-2-1.noarch".parse().unwrap();
    let error = admit_files(&[(&libc, Some(&other))], &forced, PLENTY, base.path(), host_root().path()).unwrap_err();
    assert!(error.to_string().contains("it is not crafted-2-1.noarch, as its source said"), "{error}");
}

#[test]
fn lengths_in_the_header_are_not_believed() {
    let with = |tag, kind, count, value: &[u8]| {
        let value = value.to_vec();
        craft(&[file(b"/usr/bin/x")]).with(move |c| c.extra = vec![(tag, kind, count, value)])
    };
    with(1005, 8, u32::MAX, b"x\0").refused("tag 1005 reaches beyond the header");
    with(1005, 5, 0x2000_0001, &[0; 8]).refused("tag 1005 reaches beyond the header");
    with(1005, 77, 1, b"x").refused("of the unknown type 77");
    with(1116, 4, 1, &9u32.to_be_bytes()).refused("there is no directory number 9");
    with(1117, 8, 1, b"a/b\0").refused("the file name \"a/b\" has a slash");
    with(1027, 8, 1, b"/etc/x\0").refused("it has two file lists");
    with(1028, 4, 1, &[0; 4]).refused("it has two lists of file sizes");
    with(1030, 3, 2, &[0; 4]).refused("has 2 values for 1 files");
    with(1124, 6, 1, b"drpm\0").refused("in the format \"drpm\"");
    with(1125, 6, 1, b"zstd\0").refused("is not the zstd data that the header promises");
    with(1125, 6, 1, b"brotli\0").refused("compressed with \"brotli\"");
    let huge = craft(&[Item { size: 1 << 63, ..file(b"/usr/bin/x") }, Item { size: 1 << 63, ..file(b"/usr/bin/y") }]);
    let failure = huge.admit().unwrap_err();
    assert_eq!(failure.code, Code::NoSpace);
    assert!(failure.message.contains("16.0 EiB"), "{failure}");
}

/// Few bytes that stand for very many, or that are to be read very often.
#[test]
fn small_headers_do_not_grow() {
    let dir = |length: usize| {
        let value = [b"/usr/", vec![b'd'; length].as_slice(), b"/\0"].concat();
        craft(&[file(b"/usr/bin/x")]).with(|c| c.extra = vec![(1118, 8, 1, value)])
    };
    dir(5000).refused("a path of 5007 bytes is too long");
    let names = 20_000;
    dir(3600)
        .with(|c| {
            c.extra.push((1117, 8, names, b"n\0".repeat(names as usize)));
            c.extra.push((1116, 4, names, vec![0; names as usize * 4]));
        })
        .refused("the paths of its files take more than 67108864 bytes");
    let mut bytes = dir(3000).bytes();
    let entry = |tag: u32| [tag.to_be_bytes(), 6u32.to_be_bytes()].concat();
    let at = |bytes: &[u8], entry: &[u8]| bytes.windows(8).position(|w| w == entry).unwrap() + 8;
    let long = at(&bytes, &[1118u32.to_be_bytes(), 8u32.to_be_bytes()].concat());
    let offset: [u8; 4] = bytes[long..long + 4].try_into().unwrap();
    for tag in [1001, 1002] {
        let place = at(&bytes, &entry(tag));
        bytes[place..place + 4].copy_from_slice(&offset);
    }
    let tmp = tempfile::tempdir().unwrap();
    let path = tmp.path().join("shared.rpm");
    std::fs::write(&path, bytes).unwrap();
    let failure = try_with(&[&path], &policy(), PLENTY).unwrap_err();
    assert!(failure.message.contains("shares bytes with others"), "{failure}");
}

#[test]
fn a_wrong_digest_is_damage() {
    let zeros = || vec![(5092, 8, 1, [&[b'0'; 64][..], b"\0"].concat())];
    let one = craft(&[file(b"/usr/bin/x")]).with(|c| c.extra = zeros());
    one.refused_as(Code::Checksum, "crafted-1-1.noarch is damaged: its payload has the SHA-256 digest");
    // Damage is the reason, whatever follows from it.
    one.with(|c| c.tail = b"more").refused_as(Code::Checksum, "its payload has the SHA-256 digest");
}

#[test]
fn inodes_count_too() {
    let tmp = tempfile::tempdir().unwrap();
    let two = craft(&[file(b"/usr/bin/x"), file(b"/usr/bin/y")]).write(tmp.path());
    let failure = try_with(&[&two], &policy(), Space { free_inodes: 1, ..PLENTY }).unwrap_err();
    assert_eq!(failure.code, Code::NoSpace);
    assert_eq!(failure.message, "crafted-1-1.noarch needs 2 inodes, and the store has 1 left");
}
