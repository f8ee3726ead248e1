//! Does a container still exist? Answered from the directories in which the engines keep one directory a container, by
//! its full id, from its creation to its removal: a stopped container exists. No engine is asked, as none may run yet.

use std::path::Path;

/// Below the root, without the id. `*` stands for one directory.
const STORES: [&str; 6] = [
    // containers/storage: podman and CRI-O.
    "var/lib/containers/storage/overlay-containers",
    "run/containers/storage/overlay-containers",
    "var/lib/containers/storage/vfs-containers",
    "run/containers/storage/vfs-containers",
    // containerd's tasks, by namespace (k8s.io, moby, default).
    "run/containerd/io.containerd.runtime.v2.task/*",
    "var/lib/docker/containers",
];

/// True when an engine has a container with this full id.
pub(super) fn exists(root: &Path, id: &str) -> bool {
    STORES.iter().any(|store| match store.strip_suffix("/*") {
        None => root.join(store).join(id).is_dir(),
        Some(parent) => {
            let Ok(entries) = std::fs::read_dir(root.join(parent)) else { return false };
            entries.flatten().any(|e| e.path().join(id).is_dir())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_where_the_engines_keep_containers() {
        let dir = tempfile::tempdir().unwrap();
        let id = "ab".repeat(32);
        assert!(!exists(dir.path(), &id));
        for store in STORES {
            let path = dir.path().join(store.replace('*', "k8s.io")).join(&id);
            std::fs::create_dir_all(&path).unwrap();
            assert!(exists(dir.path(), &id), "{store}");
            assert!(!exists(dir.path(), &"cd".repeat(32)));
            std::fs::remove_dir(&path).unwrap();
            assert!(!exists(dir.path(), &id), "{store}");
        }
    }
}
