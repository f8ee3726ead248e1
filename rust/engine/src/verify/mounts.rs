//! Promise 1: what is on `/usr` is ours, read-only, made of the lowerdirs that it should be, seen by PID 1 as well; and
//! the base parked in the store is the deployment's own `/usr`.

use super::{Mismatch, RESET, Report};
use crate::generation::Store;
use crate::overlay::mountinfo::{Mount, Table};
use crate::overlay::{SOURCE_PREFIX, USR, UsrMounts};
use anyhow::Result;
use std::path::{Path, PathBuf};

pub(super) fn check(table: &Table, store: Option<&Store>, generation: u64, report: &mut Report) -> Result<()> {
    let usr = Path::new(USR);
    let mounts = UsrMounts::from_table(table);
    let mut find = |what: &str, place: &Path, expected: String, found: String, way_out: &str| {
        report.find(Mismatch { promise: 1, what, place, expected, found, way_out });
    };
    let flags = rustix::fs::statvfs(usr)?.f_flag;
    if !flags.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        find("/usr is writable", usr, "ro".into(), "rw".into(), "mount -o remount,bind,ro /usr");
    }
    if let Some((source, fstype)) = mounts.foreign.last() {
        let found = format!("{fstype} (source \"{source}\")");
        find("somebody else's mount is on /usr", usr, "none".into(), found, "umount /usr, when nothing needs it");
    }
    let seen = UsrMounts::from_table(&Table::read("1")?).live();
    if seen != generation {
        let (expected, found) = (format!("generation {generation}"), format!("generation {seen}"));
        find(
            "PID 1 sees another generation on /usr",
            usr,
            expected,
            found,
            "nsenter -t 1 -m rpm-ostree-transient reset",
        );
    }
    let Some(store) = store else { return Ok(()) };
    if generation != 0
        && let Some(overlay) = table.visible(usr).filter(|m| m.source.starts_with(SOURCE_PREFIX))
    {
        for (what, expected, found) in overlay_faults(overlay, &[store.layer(generation), store.base()]) {
            find(what, usr, expected, found, RESET);
        }
    }
    for (what, expected, found) in base_faults(table, &store.base()) {
        find(what, &store.base(), expected, found, RESET);
    }
    Ok(())
}

type Fault = (&'static str, String, String);

/// What is wrong with an overlay that should have these lower directories, top first, and nothing else.
fn overlay_faults(overlay: &Mount, lowerdirs: &[PathBuf]) -> Vec<Fault> {
    let mut faults: Vec<Fault> = Vec::new();
    for (which, options) in [("the mount", &overlay.options), ("the filesystem", &overlay.super_options)] {
        if !options.iter().any(|o| o == "ro") {
            faults.push(("the overlay is writable", format!("ro on {which}"), "rw".into()));
        }
    }
    let value = |prefix: &str| overlay.super_options.iter().find(|o| o.starts_with(prefix));
    if let Some(upper) = value("upperdir=").or_else(|| value("workdir=")) {
        faults.push(("the overlay has an upper directory", "none".into(), upper.clone()));
    }
    let expected: Vec<String> = lowerdirs.iter().map(|d| d.display().to_string()).collect();
    let found = lower_directories(&overlay.super_options);
    if found != expected {
        faults.push(("the overlay has other lower directories", expected.join(", "), found.join(", ")));
    }
    faults
}

/// Lower directories, top first, in either form that the kernel shows: one `lowerdir=` list, or a `lowerdir+=` each.
fn lower_directories(options: &[String]) -> Vec<String> {
    let each: Vec<String> = options.iter().filter_map(|o| o.strip_prefix("lowerdir+=")).map(str::to_owned).collect();
    match options.iter().find_map(|o| o.strip_prefix("lowerdir=")) {
        // Our paths have no colon that would be escaped.
        Some(list) => list.split(':').map(str::to_owned).collect(),
        None => each,
    }
}

/// The parked base must be the same directory of the same filesystem as what is below our overlays, unchanged and private.
fn base_faults(table: &Table, base: &Path) -> Vec<Fault> {
    let Some(parked) = table.stack(base).last().copied() else {
        return vec![("the parked base is gone", "a mount".into(), "none".into())];
    };
    let mut faults: Vec<Fault> = Vec::new();
    let pristine = table.stack(Path::new(USR)).first().copied().filter(|m| !m.source.starts_with(SOURCE_PREFIX));
    let (device, root) = match (pristine, table.visible(Path::new("/"))) {
        (Some(m), _) => (m.device.clone(), m.root.clone()),
        (None, Some(m)) => (m.device.clone(), m.root.join("usr")),
        (None, None) => return faults,
    };
    if (&parked.device, &parked.root) != (&device, &root) {
        let show = |device: &str, root: &Path| format!("{} of device {device}", root.display());
        faults.push((
            "the parked base is not the deployment's /usr",
            show(&device, &root),
            show(&parked.device, &parked.root),
        ));
    }
    if !parked.options.iter().any(|o| o == "ro") {
        faults.push(("the parked base is writable", "ro".into(), "rw".into()));
    }
    if !parked.propagation.is_empty() {
        faults.push(("the parked base is not private", "private".into(), parked.propagation.join(" ")));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "20 1 0:1 /d / rw - ext4 /dev/a rw\n25 20 0:1 /d/usr /usr ro - ext4 /dev/a rw\n\
                        26 20 0:5 / /run rw - tmpfs run rw\n27 26 0:6 / /run/s rw - tmpfs s rw\n";
    const BASE: &str = "28 27 0:1 /d/usr /run/s/base ro - ext4 /dev/a rw\n";

    fn overlay(options: &str) -> Mount {
        let line = format!("30 25 0:9 / /usr ro - overlay rpm-ostree-transient:2 {options}\n");
        Table::parse(line.as_bytes()).unwrap().mounts.remove(0)
    }

    #[test]
    fn an_overlay_is_as_it_was_made_or_each_difference_is_named() {
        let lower = [PathBuf::from("/run/l"), PathBuf::from("/run/b")];
        for options in ["ro,lowerdir=/run/l:/run/b,xino=off", "ro,lowerdir+=/run/l,lowerdir+=/run/b,index=off"] {
            assert_eq!(overlay_faults(&overlay(options), &lower), [], "{options}");
        }
        for (options, what) in [
            ("rw,lowerdir=/run/l:/run/b", "the overlay is writable"),
            ("ro,lowerdir=/run/l:/run/b,upperdir=/x,workdir=/y", "the overlay has an upper directory"),
            ("ro,lowerdir=/run/b", "the overlay has other lower directories"),
            ("ro,lowerdir+=/run/b,lowerdir+=/run/l", "the overlay has other lower directories"),
        ] {
            let faults = overlay_faults(&overlay(options), &lower);
            assert_eq!(faults.iter().map(|f| f.0).collect::<Vec<_>>(), [what], "{options}");
        }
    }

    #[test]
    fn the_base_is_the_deployments_own() {
        let faults = |base: &str| -> Vec<&str> {
            let table = Table::parse(format!("{HOST}{base}").as_bytes()).unwrap();
            base_faults(&table, Path::new("/run/s/base")).into_iter().map(|f| f.0).collect()
        };
        assert_eq!(faults(BASE), [""; 0]);
        for (base, what) in [
            ("", "the parked base is gone"),
            ("28 27 0:1 /other/usr /run/s/base ro - ext4 /dev/a rw\n", "the parked base is not the deployment's /usr"),
            ("28 27 0:1 /d/usr /run/s/base rw - ext4 /dev/a rw\n", "the parked base is writable"),
            ("28 27 0:1 /d/usr /run/s/base ro shared:3 - ext4 /dev/a rw\n", "the parked base is not private"),
        ] {
            assert_eq!(faults(base), [what], "{base}");
        }
    }
}
