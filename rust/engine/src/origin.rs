//! The second origin file, `/run/rpm-ostree-transient/origin`: a GKeyFile with the groups and keys of an ostree or
//! rpm-ostree origin, plus `[transient]`. The persistent origin is read through libostree and never written.

use crate::generation::RUN_DIR;
use crate::host::Host;
use crate::lock::HostLock;
use anyhow::Result;
use fn_error_context::context;
use model::Manifest;
use std::path::PathBuf;

fn path() -> PathBuf {
    PathBuf::from(RUN_DIR).join("origin")
}

/// One item of a GKeyFile list with its separator. The bindings have no setter for lists; the escapes are those of the
/// GKeyFile documentation.
fn list_item(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace(';', "\\;").replace('\n', "\\n").replace('\t', "\\t");
    escaped + ";"
}

/// The text of the origin file for a live generation.
pub fn text(host: &Host, manifest: &Manifest) -> String {
    let keys = glib::KeyFile::new();
    if let Some(origin) = &host.deployment.origin {
        // A container reference has a transport prefix such as `ostree-unverified-registry:`; a refspec has no scheme.
        let key = if origin.starts_with("ostree-") { "container-image-reference" } else { "refspec" };
        keys.set_string("origin", key, origin);
    }
    let words = |local: bool| {
        manifest.requested.iter().filter(|r| r.local == local).map(|r| r.word.as_str()).collect::<Vec<_>>()
    };
    for (key, local) in [("requested", false), ("requested-local", true)] {
        let words = words(local);
        if !words.is_empty() {
            keys.set_value("packages", key, &words.iter().map(|w| list_item(w)).collect::<String>());
        }
    }
    keys.set_uint64("transient", "generation", manifest.generation);
    keys.set_string("transient", "boot-id", &host.boot_id);
    keys.set_string("transient", "deployment", &format!("{}.{}", host.deployment.checksum, host.deployment.serial));
    keys.to_data().to_string()
}

/// Writes the origin of the live generation, whole or not at all.
///
/// # Errors
/// From the filesystem.
#[context("Writing {}/origin", RUN_DIR)]
pub fn write(_lock: &HostLock, host: &Host, manifest: &Manifest) -> Result<()> {
    crate::files::write(&path(), text(host, manifest).as_bytes(), 0o644)
}

/// Removes the origin: nothing is layered.
///
/// # Errors
/// From the filesystem.
#[context("Removing {}/origin", RUN_DIR)]
pub fn remove(_lock: &HostLock) -> Result<()> {
    crate::files::remove(&path())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::manifest::Requested;
    use model::status::Deployment;

    #[test]
    fn has_the_groups_of_an_rpm_ostree_origin() {
        let host = Host {
            deployment: Deployment {
                stateroot: "testos".into(),
                checksum: "abc".into(),
                serial: 1,
                version: None,
                origin: Some("remote:testos/x86_64/base".into()),
            },
            boot_id: "b".into(),
            root_id: (1, 2),
            arch: "x86_64".into(),
        };
        let manifest = Manifest {
            format: 1,
            generation: 7,
            parent: None,
            created: 0,
            command: String::new(),
            requested: vec![
                Requested { word: "perl(a;b)".into(), name: "strace".into(), local: false, owners: vec![] },
                Requested { word: "x-1-1.noarch.rpm".into(), name: "x".into(), local: true, owners: vec![] },
            ],
            packages: vec![],
            files: 0,
            bytes: 0,
            effects: vec![],
            skipped: vec![],
            not_applied: vec![],
        };
        let keys = glib::KeyFile::new();
        keys.load_from_data(&text(&host, &manifest), glib::KeyFileFlags::NONE).unwrap();
        assert_eq!(keys.string("origin", "refspec").unwrap(), "remote:testos/x86_64/base");
        let requested = keys.string_list("packages", "requested").unwrap();
        assert_eq!(requested.iter().map(|s| s.as_str()).collect::<Vec<_>>(), ["perl(a;b)"]);
        assert_eq!(keys.string_list("packages", "requested-local").unwrap()[0].as_str(), "x-1-1.noarch.rpm");
        assert_eq!(keys.uint64("transient", "generation").unwrap(), 7);
        assert_eq!(keys.string("transient", "deployment").unwrap(), "abc.1");
    }
}
