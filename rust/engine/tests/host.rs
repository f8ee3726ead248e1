//! Host facts from a real ostree deployment that is `/` of a namespace, made with the ostree command.

mod namespace;

use engine::host::Host;
use model::Code;
use namespace::{Propagation, code, in_deployment};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Size, mode and times of everything below a directory.
fn listing(dir: &Path, found: &mut BTreeMap<PathBuf, (u64, u32, i64, i64)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        found.insert(path.clone(), (meta.size(), meta.mode(), meta.mtime(), meta.mtime_nsec()));
        if meta.is_dir() {
            listing(&path, found);
        }
    }
}

fn sysroot() -> BTreeMap<PathBuf, (u64, u32, i64, i64)> {
    let mut found = BTreeMap::new();
    listing(Path::new("/sysroot/ostree"), &mut found);
    listing(Path::new("/sysroot/boot"), &mut found);
    found
}

#[test]
fn reads_the_booted_deployment_and_changes_nothing() {
    in_deployment("reads_the_booted_deployment_and_changes_nothing", Propagation::Shared, || {
        assert_eq!(code(&Host::detect().unwrap_err()), Some(Code::NotOstreeHost));
        fs::write("/run/ostree-booted", "").unwrap();
        let before = sysroot();
        let host = Host::detect().unwrap();
        assert_eq!(host.deployment.stateroot, "testos");
        assert_eq!(host.deployment.checksum.len(), 64);
        assert_eq!(host.deployment.serial, 0);
        assert_eq!(host.deployment.version.as_deref(), Some("41.7"));
        assert_eq!(host.deployment.origin.as_deref(), Some("testos/base"));
        assert_eq!(host.boot_id.len(), 36);
        let root = fs::metadata("/").unwrap();
        assert_eq!(host.root_id, (root.dev(), root.ino()));
        assert!(Host::persistent_origin().unwrap().unwrap().contains("refspec=testos/base"));
        assert!(engine::overlay::UsrMounts::read().unwrap().foreign.is_empty(), "ostree's own bind is not foreign");
        assert_eq!(sysroot(), before);
        // A root that is no deployment: the marker alone does not make an ostree host.
        rustix::process::chroot("/sysroot").unwrap();
        std::env::set_current_dir("/").unwrap();
        fs::create_dir_all("/run").unwrap();
        fs::write("/run/ostree-booted", "").unwrap();
        assert_eq!(code(&Host::detect().unwrap_err()), Some(Code::NotOstreeHost));
    });
}
