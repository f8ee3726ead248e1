//! Who does not see the live `/usr`: processes with a mount namespace of their own, to which a change did not propagate.
//! systemd gives one to services with `ProtectSystem=`, `PrivateMounts=` and the like; they see the change once restarted.
//! Only namespaces with the host's root count: a container would not see the layer after a restart either.

use super::UsrMounts;
use super::mountinfo::{Mount, Table};
use model::status::StaleView;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Every process group with another `/usr` than the host's, by unit and namespace; none without the right to look.
///
/// Processes come and go meanwhile, so one that cannot be read is passed over: it has ended, or is none of the caller's.
pub fn stale_views() -> Vec<StaleView> {
    let Ok(host) = Table::read("1").or_else(|_| Table::read("thread-self")) else { return vec![] };
    let own = namespace("1").or_else(|| namespace("thread-self"));
    let mut known: BTreeMap<PathBuf, Option<u64>> = BTreeMap::new();
    let mut told = BTreeSet::new();
    let mut views = vec![];
    for pid in pids() {
        let process = pid.to_string();
        let Some(ns) = namespace(&process).filter(|ns| Some(ns) != own.as_ref()) else { continue };
        let seen = *known.entry(ns.clone()).or_insert_with(|| other_generation(&host, &process));
        let Some(generation) = seen else { continue };
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{process}/{name}")).ok();
        let unit = read("cgroup").as_deref().and_then(unit_of);
        // Of a unit one process stands for all; without a unit each namespace has one.
        if told.insert((unit.is_none().then_some(ns), unit.clone(), generation)) {
            let command = read("comm").unwrap_or_default().trim_end().to_owned();
            views.push(StaleView { unit, pid, command, generation });
        }
    }
    views.sort_by(|a, b| (a.unit.is_none(), &a.unit, a.pid).cmp(&(b.unit.is_none(), &b.unit, b.pid)));
    views
}

/// Process ids in ascending order.
fn pids() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return vec![] };
    let mut pids: Vec<u32> = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

fn namespace(process: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{process}/ns/mnt")).ok()
}

/// The generation that a process with the host's root sees, when it is another than the host's.
fn other_generation(host: &Table, process: &str) -> Option<u64> {
    let table = Table::read(process).ok()?;
    differs(host, &table)
}

/// A namespace with something else on `/` has not got the host's `/usr` at all.
fn differs(host: &Table, other: &Table) -> Option<u64> {
    let same = |a: Option<&Mount>, b: Option<&Mount>| {
        a.zip(b).is_some_and(|(a, b)| (&a.device, &a.root, &a.fstype) == (&b.device, &b.root, &b.fstype))
    };
    let root = Path::new("/");
    let generation = UsrMounts::from_table(other).live();
    (same(host.visible(root), other.visible(root)) && generation != UsrMounts::from_table(host).live())
        .then_some(generation)
}

/// The innermost service of a `/proc/PID/cgroup`, of cgroup v2 or of systemd's own hierarchy of v1.
fn unit_of(cgroup: &str) -> Option<String> {
    let path =
        cgroup.lines().find_map(|l| l.strip_prefix("0::").or_else(|| l.split_once(":name=systemd:").map(|p| p.1)))?;
    path.rsplit('/').find(|name| name.ends_with(".service")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str =
        "20 1 0:20 /deploy / rw shared:1 - ext4 /dev/vda rw\n21 20 0:20 /deploy/usr /usr ro - ext4 /dev/vda rw\n";

    fn table(more: &str) -> Table {
        Table::parse(format!("{BASE}{more}").as_bytes()).unwrap()
    }

    #[test]
    fn tells_who_sees_another_generation() {
        let overlay = |n: u32| format!("3{n} 21 0:3{n} / /usr ro - overlay rpm-ostree-transient:{n} ro\n");
        let host = table(&overlay(2));
        assert_eq!(differs(&host, &table(&overlay(2))), None);
        assert_eq!(differs(&host, &table("")), Some(0));
        assert_eq!(differs(&host, &table(&overlay(1))), Some(1));
        assert_eq!(differs(&table(""), &table(&overlay(1))), Some(1));
        let container = Table::parse(b"50 1 0:40 / / rw - overlay overlay rw\n").unwrap();
        assert_eq!(differs(&host, &container), None);
    }

    #[test]
    fn finds_the_unit_of_a_process() {
        for (text, unit) in [
            ("0::/system.slice/chronyd.service\n", Some("chronyd.service")),
            ("12:cpu:/x\n1:name=systemd:/system.slice/a.service/sub\n", Some("a.service")),
            ("0::/user.slice/user-0.slice/user@0.service/app.slice/b.service\n", Some("b.service")),
            ("0::/user.slice/user-0.slice/session-1.scope\n", None),
            ("", None),
        ] {
            assert_eq!(unit_of(text).as_deref(), unit, "{text}");
        }
    }
}
