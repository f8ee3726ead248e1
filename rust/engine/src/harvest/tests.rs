//! Harvesting of hand-made upper directories, as root on tmpfs, since marks and owners need both.

use super::*;
use crate::tree::Tree;
use model::{Code, Failure};
use rustix::fs::{FileType, Mode, XattrFlags, chown, lgetxattr, lsetxattr, mknodat};
use std::ffi::CString;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};

/// base, previous layer and upper directories of one imaginary transaction.
struct Rig {
    tmp: tempfile::TempDir,
    with_previous: bool,
}

impl Rig {
    fn new() -> Rig {
        // Where the product works too: a tmpfs with trusted.* attributes.
        let tmp = tempfile::tempdir_in("/dev/shm").unwrap();
        for d in ["base", "previous", "usr", "etc", "var", "root/etc", "root/var"] {
            std::fs::create_dir_all(tmp.path().join(d)).unwrap();
        }
        Rig { tmp, with_previous: true }
    }
    fn path(&self, p: &str) -> PathBuf {
        self.tmp.path().join(p)
    }
    fn dir(&self, p: &str) -> &Self {
        std::fs::create_dir_all(self.path(p)).unwrap();
        self
    }
    fn file(&self, p: &str, text: &str) -> &Self {
        std::fs::create_dir_all(self.path(p).parent().unwrap()).unwrap();
        std::fs::write(self.path(p), text).unwrap();
        self
    }
    fn node(&self, p: &str, kind: FileType) -> &Self {
        std::fs::create_dir_all(self.path(p).parent().unwrap()).unwrap();
        mknodat(rustix::fs::CWD, self.path(p), kind, Mode::from_raw_mode(0o600), 0).unwrap();
        self
    }
    fn mark(&self, p: &str, name: &str, value: &[u8]) -> &Self {
        lsetxattr(self.path(p), name, value, XattrFlags::empty()).unwrap();
        self
    }
    fn attr(&self, p: &str, name: &str) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 256];
        lgetxattr(self.path(p), name, &mut buffer).ok().map(|n| buffer[..n].to_vec())
    }
    fn run_with(&self, released: Option<&BTreeSet<PathBuf>>) -> Result<Harvest> {
        let (usr, etc, var) = (self.path("usr"), self.path("etc"), self.path("var"));
        let staged = Staged { usr, etc, var, not_applied: vec![], causes: BTreeMap::new(), run: vec![] };
        let content = |layer: &str| Content {
            layer: self.path(layer),
            var: self.path(&format!("{layer}-var")),
            linker_cache: self.path(&format!("{layer}-cache")),
        };
        let (previous, target) = (content("previous"), content("new"));
        harvest(&Work {
            staged: &staged,
            previous: self.with_previous.then_some(&previous),
            base: &self.path("base"),
            root: &self.path("root"),
            target: &target,
            released,
            owned: &BTreeMap::new(),
            mounts: &BTreeSet::new(),
        })
    }
    fn run(&self) -> Harvest {
        self.run_with(None).unwrap()
    }
    fn read(&self, p: &str) -> Option<String> {
        std::fs::read_to_string(self.path(p)).ok()
    }
    fn exists(&self, p: &str) -> bool {
        self.path(p).symlink_metadata().is_ok()
    }
}

/// Everything here needs root; without it the tests say so.
macro_rules! need_root {
    () => {
        if !rustix::process::geteuid().is_root() {
            use std::io::Write as _;
            writeln!(std::io::stderr(), "skipped, because this test needs root").unwrap();
            return;
        }
    };
}

// After the macro, which it uses.
mod overlay;

#[test]
fn first_layer_keeps_everything() {
    need_root!();
    let mut rig = Rig::new();
    rig.with_previous = false;
    rig.dir("base/bin").file("usr/bin/tool", "tool").file("usr/share/new/readme", "text");
    chown(rig.path("usr/bin/tool"), Some(rustix::fs::Uid::from_raw(7)), None).unwrap();
    std::fs::set_permissions(rig.path("usr/bin/tool"), PermissionsExt::from_mode(0o4755)).unwrap();
    // cap_net_raw=ep, as security.capability holds it.
    let caps = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    rig.mark("usr/bin/tool", "security.capability", &caps);
    symlink("tool", rig.path("usr/bin/alias")).unwrap();
    let before = rig.path("usr/bin/tool").metadata().unwrap();
    let got = rig.run();
    let after = rig.path("new/bin/tool").metadata().unwrap();
    assert_eq!((after.mode(), after.uid(), after.mtime_nsec()), (before.mode(), 7, before.mtime_nsec()));
    assert_eq!(rig.attr("new/bin/tool", "security.capability").unwrap(), caps);
    assert_eq!(std::fs::read_link(rig.path("new/bin/alias")).unwrap(), Path::new("tool"));
    assert_eq!((got.files, got.bytes, got.skipped), (3, 8, vec![]));
    // Moved, not copied.
    assert!(!rig.exists("usr/bin/tool"));
    assert_eq!(after.ino(), before.ino());
}

#[test]
fn whiteouts_remove_from_the_layer_only() {
    need_root!();
    let rig = Rig::new();
    rig.file("base/bin/ls", "base").dir("base/share/doc").file("base/share/doc/x", "x");
    rig.file("previous/bin/tool", "old").file("previous/bin/ls", "layered").file("previous/lib/t/a", "a");
    rig.node("usr/bin/tool", FileType::CharacterDevice).node("usr/bin/ls", FileType::CharacterDevice);
    rig.node("usr/lib/t", FileType::CharacterDevice).node("usr/share/doc", FileType::CharacterDevice);
    let got = rig.run();
    for gone in ["new/bin", "new/lib/t", "new/share"] {
        assert!(!rig.exists(gone), "{gone}");
    }
    let skipped: Vec<_> = got.skipped.iter().map(|s| s.path.to_str().unwrap()).collect();
    assert_eq!(skipped, ["/usr/bin/ls", "/usr/share/doc"]);
    assert!(got.skipped[0].reason.contains("part of the base"));
    // The previous generation is untouched.
    assert_eq!(rig.read("previous/bin/ls").as_deref(), Some("layered"));
}

#[test]
fn opaque_directories_replace_the_layers() {
    need_root!();
    let rig = Rig::new();
    rig.file("base/lib/app/base", "b").file("previous/lib/app/old", "o").file("previous/opt/app/old", "o");
    rig.file("usr/lib/app/new", "n").file("usr/opt/app/new", "n");
    rig.mark("usr/lib/app", "trusted.overlay.opaque", b"y").mark("usr/opt/app", "trusted.overlay.opaque", b"y");
    let got = rig.run();
    for (path, there) in
        [("new/lib/app/new", true), ("new/lib/app/old", false), ("new/opt/app/new", true), ("new/opt/app/old", false)]
    {
        assert_eq!(rig.exists(path), there, "{path}");
    }
    assert_eq!(rig.attr("new/lib/app", "trusted.overlay.opaque"), None);
    assert_eq!(rig.attr("new/opt/app", "trusted.overlay.opaque"), None);
    assert_eq!(got.skipped.len(), 1);
    assert_eq!(got.skipped[0].path, Path::new("/usr/lib/app/base"));
}

#[test]
fn a_replaced_kind_does_not_keep_the_old_one() {
    need_root!();
    let rig = Rig::new();
    rig.file("previous/lib/dir/inside", "x").file("previous/lib/file", "x");
    rig.file("usr/lib/dir", "now a file").file("usr/lib/file/inside", "now a directory");
    rig.run();
    assert_eq!(rig.read("new/lib/dir").as_deref(), Some("now a file"));
    assert_eq!(rig.read("new/lib/file/inside").as_deref(), Some("now a directory"));
    assert_eq!(rig.read("previous/lib/dir/inside").as_deref(), Some("x"));
}

#[test]
fn what_equals_the_base_is_not_stored() {
    need_root!();
    let rig = Rig::new();
    rig.file("base/bin/same", "s").file("base/bin/mode", "s").file("base/share/rpm/rpmdb.sqlite", "db");
    rig.file("previous/bin/same", "replaced earlier");
    rig.file("usr/bin/same", "s").file("usr/bin/mode", "s").file("usr/share/rpm/rpmdb.sqlite", "db");
    std::fs::set_permissions(rig.path("usr/bin/mode"), PermissionsExt::from_mode(0o700)).unwrap();
    let got = rig.run();
    assert!(!rig.exists("new/bin/same"));
    assert!(rig.exists("new/bin/mode") && rig.exists("new/share/rpm/rpmdb.sqlite"));
    assert_eq!(got.files, 2);
    let diff = compare_with_base(&rig.path("new"), &rig.path("base")).unwrap();
    assert_eq!(diff, [PathDiff { path: "/usr/bin/mode".into(), change: PathChange::Changed }]);
}

#[test]
fn hard_links_stay_linked_and_generations_share() {
    need_root!();
    let rig = Rig::new();
    rig.file("previous/lib/kept", "k").file("previous/share/rpm/rpmdb.sqlite", "db");
    rig.file("usr/lib/a", "linked");
    std::fs::hard_link(rig.path("usr/lib/a"), rig.path("usr/lib/b")).unwrap();
    let got = rig.run();
    let ino = |p: &str| rig.path(p).metadata().unwrap().ino();
    assert_eq!(ino("new/lib/a"), ino("new/lib/b"));
    assert_eq!(ino("new/lib/kept"), ino("previous/lib/kept"));
    assert_ne!(ino("new/share/rpm/rpmdb.sqlite"), ino("previous/share/rpm/rpmdb.sqlite"));
    assert_eq!(rig.read("new/share/rpm/rpmdb.sqlite").as_deref(), Some("db"));
    assert_eq!((got.files, got.bytes), (4, 6 + 1 + 2));
}

#[test]
fn directories_of_the_base_keep_its_attributes() {
    need_root!();
    let rig = Rig::new();
    rig.dir("base/share/x").dir("previous/lib/mine");
    let mode = |p: &str, m: u32| std::fs::set_permissions(rig.path(p), PermissionsExt::from_mode(m)).unwrap();
    mode("base", 0o755);
    mode("base/share/x", 0o2750);
    mode("previous/lib/mine", 0o711);
    rig.mark("base/share/x", "user.note", b"base").mark("base", "user.root", b"r");
    rig.file("usr/share/x/file", "f").mark("usr/share/x", "user.other", b"o").dir("usr/share/x");
    mode("usr/share/x", 0o777);
    rig.dir("usr/share/fresh");
    mode("usr/share/fresh", 0o1777);
    let got = rig.run();
    let of = |p: &str| rig.path(p).metadata().unwrap();
    assert_eq!(of("new/share/x").mode() & 0o7777, 0o2750);
    assert_eq!(of("new/share/x").mtime_nsec(), of("base/share/x").mtime_nsec());
    assert_eq!(rig.attr("new/share/x", "user.note").as_deref(), Some(&b"base"[..]));
    assert_eq!(rig.attr("new/share/x", "user.other"), None);
    assert_eq!(of("new/lib/mine").mode() & 0o7777, 0o711);
    assert_eq!(of("new/share/fresh").mode() & 0o7777, 0o1777);
    assert_eq!((of("new").mode() & 0o7777, of("new").mtime_nsec()), (0o755, of("base").mtime_nsec()));
    assert_eq!(rig.attr("new", "user.root").as_deref(), Some(&b"r"[..]));
    assert!(got.skipped.iter().any(|s| s.path == Path::new("/usr/share/x") && s.reason.contains("keeps its own")));
}

#[test]
fn overlay_marks_do_not_get_into_a_layer() {
    need_root!();
    let rig = Rig::new();
    rig.file("usr/lib/f", "f").dir("usr/lib/d");
    rig.mark("usr/lib/f", "user.overlay.whiteout", b"y").mark("usr/lib/f", "trusted.overlay.origin", b"o");
    rig.mark("usr/lib/d", "user.overlay.opaque", b"y").mark("usr/lib/d", "trusted.overlay.impure", b"y");
    rig.mark("usr/lib/f", "user.kept", b"k");
    rig.run();
    for (path, name) in [
        ("new/lib/f", "user.overlay.whiteout"),
        ("new/lib/f", "trusted.overlay.origin"),
        ("new/lib/d", "user.overlay.opaque"),
        ("new/lib/d", "trusted.overlay.impure"),
    ] {
        assert_eq!(rig.attr(path, name), None, "{path} {name}");
    }
    assert_eq!(rig.attr("new/lib/f", "user.kept").as_deref(), Some(&b"k"[..]));
    // Content that is somewhere else cannot be harvested.
    let rig = Rig::new();
    rig.file("usr/lib/f", "").mark("usr/lib/f", "trusted.overlay.metacopy", b"");
    assert!(format!("{:#}", rig.run_with(None).unwrap_err()).contains("without its content"));
}

#[test]
fn special_files_and_hidden_base_directories_are_refused() {
    need_root!();
    for (kind, word) in [(FileType::Fifo, "named pipe"), (FileType::Socket, "socket")] {
        let rig = Rig::new();
        rig.node("usr/lib/od\nd", kind);
        let error = rig.run_with(None).unwrap_err();
        let failure = error.downcast_ref::<Failure>().unwrap();
        assert_eq!(failure.code, Code::Refused);
        assert_eq!(failure.message, format!("/usr/lib/od\\nd is a {word}, which a layer does not hold"));
    }
    let rig = Rig::new();
    rig.file("base/lib/systemd/systemd", "pid 1").dir("usr/lib");
    symlink("/tmp", rig.path("usr/lib/systemd")).unwrap();
    let error = rig.run_with(None).unwrap_err();
    assert_eq!(error.downcast_ref::<Failure>().unwrap().code, Code::Refused);
}

#[test]
fn symlinks_are_not_followed() {
    need_root!();
    let rig = Rig::new();
    rig.dir("outside").file("usr/lib/link/f", "f");
    rig.dir("previous/lib");
    symlink(rig.path("outside"), rig.path("previous/lib/link")).unwrap();
    rig.run();
    assert!(!rig.exists("outside/f"));
    assert_eq!(rig.read("new/lib/link/f").as_deref(), Some("f"));
}

#[test]
fn released_paths_give_the_base_back() {
    need_root!();
    let rig = Rig::new();
    rig.file("base/bin/tool", "base").file("previous/bin/tool", "layered").file("previous/bin/own", "own");
    rig.file("previous/bin/other", "o").file("base/bin/other", "b");
    let released = BTreeSet::from([PathBuf::from("bin/tool"), PathBuf::from("bin/own"), "no/x".into()]);
    rig.run_with(Some(&released)).unwrap();
    assert!(!rig.exists("new/bin/tool"), "the base has it");
    assert!(rig.exists("new/bin/own"), "the base has it not: librpm's removal decides");
    assert!(rig.exists("new/bin/other"), "still owned");
}

#[test]
fn a_stale_write_ahead_log_of_the_base_is_not_shown() {
    need_root!();
    let rig = Rig::new();
    rig.file("base/share/rpm/rpmdb.sqlite", "old").file("base/share/rpm/rpmdb.sqlite-wal", "frames");
    rig.file("usr/share/rpm/rpmdb.sqlite", "new").node("usr/share/rpm/rpmdb.sqlite-wal", FileType::CharacterDevice);
    rig.run();
    assert_eq!(rig.read("new/share/rpm/rpmdb.sqlite-wal").as_deref(), Some(""));
}

#[test]
fn depth_is_bounded() {
    need_root!();
    let rig = Rig::new();
    let mut at = Tree::open(&rig.path("usr")).unwrap();
    let name = CString::new("d").unwrap();
    for _ in 0..128 {
        at = at.make_dir(&name).unwrap();
    }
    rustix::fs::mkdirat(&at, "d", Mode::from_raw_mode(0o755)).unwrap();
    let error = rig.run_with(None).unwrap_err();
    assert_eq!(error.downcast_ref::<Failure>().unwrap().code, Code::Refused);
}
