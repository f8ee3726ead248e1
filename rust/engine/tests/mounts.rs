//! Real mounts, real kernel: every test runs as PID 1 of its own mount and pid namespace, whose root is a small tmpfs
//! with a `/usr` that is bound read-only over itself, as ostree does it. The machine's own `/usr` is never touched.

mod namespace;

use engine::generation::{Limits, RUN_DIR, Store, stamp_is_current};
use engine::host::{self, Host};
use engine::lock::HostLock;
use engine::overlay::mountinfo::Table;
use engine::overlay::swap::{self, Way};
use engine::overlay::{self, UsrMounts};
use model::status::{Deployment, HistoryEntry, SwapMethod};
use model::{Code, Failure, Manifest};
use namespace::{Propagation, bind, code, in_namespace, mount_tmpfs, mounts, own_namespace, unmount};
use rustix::mount::{MountFlags, mount, mount_remount};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const MIB: u64 = 1 << 20;

fn host() -> Host {
    Host {
        deployment: Deployment {
            stateroot: "testos".into(),
            checksum: "c0ffee".into(),
            serial: 0,
            version: None,
            origin: None,
        },
        boot_id: "boot".into(),
        root_id: (1, 2),
        arch: "x86_64".into(),
    }
}

fn lock() -> HostLock {
    HostLock::take(false, "test", &|_| true).unwrap()
}

fn open(lock: &HostLock) -> Store {
    Store::open_with(lock, &host(), Limits { bytes: 16 * MIB, inodes: 4096 }).unwrap()
}

fn manifest(generation: u64) -> Manifest {
    Manifest {
        format: 1,
        generation,
        parent: None,
        created: 0,
        command: "test".into(),
        requested: vec![],
        packages: vec![],
        files: 2,
        bytes: 0,
        effects: vec![],
        skipped: vec![],
        not_applied: vec![],
    }
}

/// Seals a generation that has a constant tool and a file that tells its number.
fn seal(lock: &HostLock, store: &Store) -> u64 {
    let number = store.next_number().unwrap();
    let layer = store.staging().join("layer");
    fs::create_dir_all(layer.join("bin")).unwrap();
    fs::set_permissions(&layer, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(layer.join("bin/tool"), "layered\n").unwrap();
    fs::write(layer.join("number"), format!("{number}\n")).unwrap();
    let content = engine::generation::Content { layer, ..store.staged_content() };
    store.seal(lock, &content, &manifest(number)).unwrap();
    number
}

fn activate(lock: &HostLock, store: &Store, generation: u64, way: Way) -> anyhow::Result<SwapMethod> {
    swap::activate(lock, generation, &[store.layer(generation)], &store.base(), way)
}

/// What lookups in `/usr` find now: the number of the generation, or none for the base.
fn seen() -> Option<u64> {
    assert_eq!(fs::read_to_string("/usr/share/base").unwrap(), "base\n");
    fs::read_to_string("/usr/number").ok().map(|n| n.trim().parse().unwrap())
}

#[test]
fn usr_is_never_writable() {
    in_namespace("usr_is_never_writable", Propagation::Shared, || {
        let refuse_writes = || {
            assert!(fs::write("/usr/x", "").is_err());
            assert!(fs::write("/usr/bin/tool", "").is_err());
        };
        let lock = lock();
        let store = open(&lock);
        refuse_writes();
        for _ in 0..2 {
            let generation = seal(&lock, &store);
            activate(&lock, &store, generation, Way::Best).unwrap();
            refuse_writes();
            // With either recipe for making it writable; without an upper directory both leave it as it is.
            for flags in [MountFlags::empty(), MountFlags::BIND] {
                let _ = mount_remount("/usr", flags, "");
                refuse_writes();
            }
            own_namespace(|| {
                let _ = mount_remount("/usr", MountFlags::BIND, "");
                refuse_writes();
            });
        }
        overlay::detach_all(&lock).unwrap();
        refuse_writes();
    });
}

/// Sets a flag when it goes out of scope, also by a panic.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn readers_never_miss_a_file_during_swaps() {
    in_namespace("readers_never_miss_a_file_during_swaps", Propagation::Shared, || {
        let lock = lock();
        let store = open(&lock);
        let generations = [seal(&lock, &store), seal(&lock, &store)];
        activate(&lock, &store, generations[0], Way::Best).unwrap();
        let (stop, opens) = (AtomicBool::new(false), [AtomicU64::new(0), AtomicU64::new(0)]);
        let read = |count: &AtomicU64| {
            let mut numbers = BTreeSet::new();
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(fs::read_to_string("/usr/bin/tool").expect("layered file"), "layered\n");
                assert_eq!(fs::read_to_string("/usr/share/base").expect("base file"), "base\n");
                let number = fs::read_to_string("/usr/number").expect("number");
                numbers.insert(number.trim().parse::<u64>().unwrap());
                count.fetch_add(1, Ordering::Relaxed);
            }
            numbers
        };
        std::thread::scope(|scope| {
            // A failed assertion below must end the readers as well, or the scope would wait for ever.
            let _end = StopOnDrop(&stop);
            let same = scope.spawn(|| read(&opens[0]));
            let slave = scope.spawn(|| {
                namespace::unshare_as(Propagation::Slave);
                read(&opens[1])
            });
            let all_read = |at_least: u64| {
                while opens.iter().any(|n| n.load(Ordering::Relaxed) < at_least)
                    && !same.is_finished()
                    && !slave.is_finished()
                {
                    std::thread::yield_now();
                }
            };
            all_read(1);
            for n in 0..300 {
                let to = generations[(n + 1) % 2];
                assert_eq!(activate(&lock, &store, to, Way::Best).unwrap(), SwapMethod::Beneath);
                assert_eq!(UsrMounts::read().unwrap().ours, [to]);
            }
            all_read(opens.iter().map(|n| n.load(Ordering::Relaxed)).max().unwrap_or(0) + 1);
            stop.store(true, Ordering::Relaxed);
            for reader in [same, slave] {
                assert_eq!(reader.join().expect("a reader missed a file"), BTreeSet::from(generations));
            }
        });
        overlay::detach_all(&lock).unwrap();
        assert_eq!(seen(), None);
    });
}

#[test]
fn stacks_where_the_kernel_cannot_attach_beneath() {
    in_namespace("stacks_where_the_kernel_cannot_attach_beneath", Propagation::Shared, || {
        let lock = lock();
        let store = open(&lock);
        let (one, two) = (seal(&lock, &store), seal(&lock, &store));
        assert_eq!(activate(&lock, &store, one, Way::Stack).unwrap(), SwapMethod::Beneath);
        assert_eq!(activate(&lock, &store, two, Way::Stack).unwrap(), SwapMethod::Stacked);
        assert_eq!(activate(&lock, &store, one, Way::Stack).unwrap(), SwapMethod::Stacked);
        assert_eq!(UsrMounts::read().unwrap().ours, [one, two, one]);
        assert_eq!(seen(), Some(one));
        // Meant to be so: no crash to be settled.
        assert_eq!(overlay::settle_stack(&lock).unwrap(), one);
        assert_eq!(UsrMounts::read().unwrap().ours.len(), 3);
        overlay::detach_all(&lock).unwrap();
        assert_eq!((seen(), mounts("/usr")), (None, 1));
        assert!(!Path::new(RUN_DIR).join("stacked").exists());
    });
}

#[test]
fn settles_a_swap_that_was_cut_off() {
    in_namespace("settles_a_swap_that_was_cut_off", Propagation::Shared, || {
        let lock = lock();
        let store = open(&lock);
        let (old, new) = (seal(&lock, &store), seal(&lock, &store));
        // Killed between attaching `new` beneath and detaching `old`: `new` is below, `old` still visible.
        activate(&lock, &store, new, Way::Stack).unwrap();
        activate(&lock, &store, old, Way::Stack).unwrap();
        fs::remove_file(Path::new(RUN_DIR).join("stacked")).unwrap();
        assert_eq!(UsrMounts::read().unwrap().ours, [new, old]);
        assert_eq!(overlay::settle_stack(&lock).unwrap(), new);
        assert_eq!(UsrMounts::read().unwrap().ours, [new]);
        assert_eq!(seen(), Some(new));
        assert_eq!(overlay::settle_stack(&lock).unwrap(), new);
        overlay::detach_all(&lock).unwrap();
        assert_eq!(overlay::settle_stack(&lock).unwrap(), 0);
    });
}

#[test]
fn refuses_and_keeps_foreign_mounts() {
    in_namespace("refuses_and_keeps_foreign_mounts", Propagation::Shared, || {
        let foreign = |source: &str| {
            fs::create_dir_all("/tmp/lower").unwrap();
            fs::write("/tmp/lower/foreign", "foreign\n").unwrap();
            let options = c"lowerdir=/tmp/lower:/usr";
            mount(source, "/usr", "overlay", MountFlags::empty(), options).unwrap();
        };
        let refused = |result: anyhow::Result<()>, words: &str| {
            let error = result.unwrap_err();
            assert_eq!(code(&error), Some(Code::ForeignMount), "{error:#}");
            let failure = error.downcast_ref::<Failure>().unwrap();
            assert!(failure.message.contains(words) && failure.hint.is_some(), "{failure:?}");
            assert_eq!(fs::read_to_string("/usr/foreign").unwrap(), "foreign\n");
        };
        let lock = lock();
        foreign("sysext");
        refused(Store::open(&lock, &host()).map(drop), "sysext");
        assert_eq!(Store::open_existing().unwrap().map(|s| s.path), None);
        unmount("/usr");

        let store = open(&lock);
        let (one, two) = (seal(&lock, &store), seal(&lock, &store));
        foreign("overlay");
        refused(overlay::preflight(&store.base()), "overlay");
        refused(activate(&lock, &store, one, Way::Best).map(drop), "overlay");
        unmount("/usr");

        // A number alone does not make a mount ours: it must be an overlay.
        mount("rpm-ostree-transient:7", "/usr", "tmpfs", MountFlags::empty(), c"").unwrap();
        fs::write("/usr/foreign", "foreign\n").unwrap();
        refused(overlay::detach_all(&lock).and_then(|()| overlay::preflight(&store.base())), "tmpfs");
        unmount("/usr");

        activate(&lock, &store, one, Way::Best).unwrap();
        foreign("overlay");
        assert_eq!(UsrMounts::read().unwrap().live(), one);
        refused(activate(&lock, &store, two, Way::Best).map(drop), "overlay");
        refused(overlay::detach_all(&lock), "overlay");
        unmount("/usr");
        overlay::detach_all(&lock).unwrap();
        assert_eq!(seen(), None);
    });
}

#[test]
fn needs_no_own_mount_on_usr() {
    in_namespace("needs_no_own_mount_on_usr", Propagation::Shared, || {
        unmount("/usr");
        assert_eq!(mounts("/usr"), 0);
        let lock = lock();
        let store = open(&lock);
        overlay::preflight(&store.base()).unwrap();
        for _ in 0..2 {
            let generation = seal(&lock, &store);
            activate(&lock, &store, generation, Way::Best).unwrap();
            assert_eq!((seen(), mounts("/usr")), (Some(generation), 1));
            assert!(fs::write("/usr/x", "").is_err());
        }
        overlay::detach_all(&lock).unwrap();
        assert_eq!(mounts("/usr"), 0);
    });
}

#[test]
fn refuses_submounts_by_name() {
    in_namespace("refuses_submounts_by_name", Propagation::Shared, || {
        let lock = lock();
        let store = open(&lock);
        let generation = seal(&lock, &store);
        let refused = |result: anyhow::Result<()>| {
            let error = result.unwrap_err();
            assert_eq!(code(&error), Some(Code::ForeignMount), "{error:#}");
            assert!(error.downcast_ref::<Failure>().unwrap().message.contains("/usr/lib/locale"));
            assert!(Path::new("/usr/lib/locale/kept").exists());
        };
        let submount = || {
            mount_tmpfs("/usr/lib/locale");
            fs::write("/usr/lib/locale/kept", "").unwrap();
        };
        submount();
        refused(overlay::preflight(&store.base()));
        refused(activate(&lock, &store, generation, Way::Best).map(drop));
        unmount("/usr/lib/locale");
        activate(&lock, &store, generation, Way::Best).unwrap();
        // Detaching ours would take it along.
        submount();
        refused(overlay::detach_all(&lock));
        unmount("/usr/lib/locale");
        overlay::detach_all(&lock).unwrap();
    });
}

#[test]
fn names_the_holder_of_the_lock() {
    in_namespace("names_the_holder_of_the_lock", Propagation::Shared, || {
        let old = rustix::process::umask(rustix::fs::Mode::from_bits_retain(0o077));
        let held = HostLock::take(false, "install strace\nnext", &|_| true).unwrap();
        rustix::process::umask(old);
        assert_eq!(fs::metadata(RUN_DIR).unwrap().mode() & 0o7777, 0o755);
        let inode = || fs::metadata(Path::new(RUN_DIR).join("lock")).unwrap().ino();
        let before = inode();
        let holder = format!("pid {} (install strace next)", std::process::id());
        let error = HostLock::take(false, "second", &|_| true).unwrap_err();
        assert_eq!(code(&error), Some(Code::Locked));
        assert!(error.downcast_ref::<Failure>().unwrap().message.contains(&holder), "{error:#}");
        let (sender, told) = std::sync::mpsc::channel();
        let second = std::thread::spawn(move || {
            HostLock::take(true, "second", &|h| sender.send(h.to_owned()).is_ok()).map(drop)
        });
        assert_eq!(told.recv().unwrap(), holder);
        assert!(!second.is_finished());
        let store = open(&held);
        store.destroy(&held).unwrap();
        drop(held);
        second.join().unwrap().unwrap();
        assert_eq!(inode(), before);
    });
}

#[test]
fn cleans_the_state_of_another_deployment() {
    in_namespace("cleans_the_state_of_another_deployment", Propagation::Shared, || {
        let lock = lock();
        let store = open(&lock);
        let first = seal(&lock, &store);
        activate(&lock, &store, first, Way::Best).unwrap();
        assert!(stamp_is_current(&store, &host()).unwrap());
        let mut next = host();
        next.deployment.serial = 1;
        assert!(!stamp_is_current(&store, &next).unwrap());
        let fresh = Store::open(&lock, &next).unwrap();
        assert_eq!((seen(), mounts("/usr")), (None, 1));
        assert!(fresh.manifest(first).is_err());
        assert!(stamp_is_current(&fresh, &next).unwrap());
        assert!(fresh.next_number().unwrap() > first, "a number was given twice in one boot");
        // A run that was killed before the stamp left something that is not current either.
        fs::remove_file(fresh.path.join("stamp.json")).unwrap();
        assert!(!stamp_is_current(&fresh, &next).unwrap());
        assert!(stamp_is_current(&Store::open(&lock, &next).unwrap(), &next).unwrap());
    });
}

#[test]
fn undoes_what_pid_1_cannot_see() {
    in_namespace("undoes_what_pid_1_cannot_see", Propagation::Shared, || {
        let lock = lock();
        let store = open(&lock);
        let (one, two) = (seal(&lock, &store), seal(&lock, &store));
        let refused = |generation: u64, way: Way, before: Option<u64>| {
            own_namespace(|| {
                let table = mounts("/usr");
                let error = activate(&lock, &store, generation, way).unwrap_err();
                assert_eq!(code(&error), Some(Code::NamespaceUnreachable), "{error:#}");
                assert!(error.downcast_ref::<Failure>().unwrap().message.contains("propagate"));
                assert_eq!((seen(), mounts("/usr")), (before, table));
                assert_eq!(code(&host::require_host_namespace().unwrap_err()), Some(Code::NamespaceUnreachable));
            });
            assert_eq!(seen(), before);
        };
        host::require_host_namespace().unwrap();
        refused(one, Way::Best, None);
        activate(&lock, &store, one, Way::Best).unwrap();
        refused(two, Way::Best, Some(one));
        refused(two, Way::Stack, Some(one));
        assert_eq!(code(&Host::detect().unwrap_err()), Some(Code::NotOstreeHost));
    });
}

#[test]
fn finds_the_limit_of_stacking() {
    in_namespace("finds_the_limit_of_stacking", Propagation::Shared, || {
        for dir in ["/tmp/a", "/tmp/b", "/tmp/one", "/tmp/store/base"] {
            fs::create_dir_all(dir).unwrap();
        }
        let base = Path::new("/tmp/store/base");
        overlay::preflight(base).unwrap();
        mount("one", "/tmp/one", "overlay", MountFlags::empty(), c"lowerdir=/tmp/a:/usr").unwrap();
        mount("two", base, "overlay", MountFlags::empty(), c"lowerdir=/tmp/b:/tmp/one").unwrap();
        let error = overlay::preflight(base).unwrap_err();
        assert_eq!(code(&error), Some(Code::StackingDepth), "{error:#}");
        assert!(!Path::new("/tmp/store/staging/trial").exists());
    });
}

#[test]
fn the_store_is_private_and_keeps_its_records() {
    in_namespace("the_store_is_private_and_keeps_its_records", Propagation::Shared, || {
        let lock = lock();
        let store = open(&lock);
        let table = Table::read("self").unwrap();
        for point in [store.path.clone(), store.base()] {
            let mount = table.visible(&point).unwrap();
            assert_eq!((mount.point.as_path(), mount.propagation.len()), (point.as_path(), 0));
        }
        assert!(fs::write(store.base().join("x"), "").is_err());
        assert_eq!(fs::metadata(&store.path).unwrap().mode() & 0o7777, 0o700);
        let space = store.space().unwrap();
        assert_eq!(space.total_bytes, 16 * MIB);
        assert!(space.free_bytes <= space.total_bytes - space.used_bytes && space.free_inodes < 4096);
        assert_eq!(engine::generation::space_of_store().unwrap(), Some(space));

        let numbers: Vec<u64> = (0..3).map(|_| seal(&lock, &store)).collect();
        assert_eq!(numbers, [1, 2, 3]);
        assert_eq!(store.manifest(2).unwrap(), manifest(2));
        fs::create_dir_all(store.layer(9)).unwrap();
        store.keep_only(&lock, &[2, 9]).unwrap();
        assert!(store.manifest(1).is_err() && store.manifest(2).is_ok() && !store.layer(9).exists());
        assert_eq!(store.next_number().unwrap(), 4);

        let entry = HistoryEntry {
            time: 1,
            command: "c".into(),
            from: 0,
            to: 2,
            installed: vec![],
            removed: vec![],
            done: vec![],
            undone: vec![],
        };
        for _ in 0..2 {
            store.prepare_history(&lock, &entry).unwrap();
            store.take_history(&lock).unwrap();
        }
        assert_eq!(store.history().unwrap(), [entry.clone(), entry.clone()]);
        let journal = engine::generation::Journal { from: 0, to: 2, effects: vec![], old_effects: vec![], entry };
        assert_eq!(store.journal().unwrap(), None);
        store.write_journal(&lock, &journal).unwrap();
        assert_eq!(store.journal().unwrap(), Some(journal));
        store.clear_journal(&lock).unwrap();
        assert_eq!(store.journal().unwrap(), None);

        fs::write(store.path.join("history.json"), "[{").unwrap();
        let error = store.history().unwrap_err();
        assert_eq!(code(&error), Some(Code::StateDamaged));
        let failure = error.downcast_ref::<Failure>().unwrap();
        assert!(failure.message.contains("history.json") && failure.hint.as_ref().unwrap().contains("reset"));

        store.destroy(&lock).unwrap();
        let left: BTreeSet<PathBuf> = fs::read_dir(RUN_DIR).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(left, ["counter", "lock"].map(|n| Path::new(RUN_DIR).join(n)).into());
        assert_eq!(engine::generation::space_of_store().unwrap(), None);
        assert!(open(&lock).next_number().unwrap() > 3, "a number was given twice in one boot");
    });
}

#[test]
fn a_live_generation_without_its_store_is_damaged() {
    in_namespace("a_live_generation_without_its_store_is_damaged", Propagation::Shared, || {
        let lock = lock();
        let store = open(&lock);
        let generation = seal(&lock, &store);
        activate(&lock, &store, generation, Way::Best).unwrap();
        unmount(store.base());
        assert_eq!(code(&Store::open(&lock, &host()).unwrap_err()), Some(Code::StateDamaged));
        unmount(&store.path);
        assert_eq!(code(&Store::open(&lock, &host()).unwrap_err()), Some(Code::StateDamaged));
        // A mount of somebody else in its place is named and left alone.
        bind("/tmp", &store.path);
        assert_eq!(code(&Store::open_existing().unwrap_err()), Some(Code::StateDamaged));
        assert_eq!(seen(), Some(generation));
        overlay::detach_all(&lock).unwrap();
        assert_eq!(seen(), None);
    });
}
