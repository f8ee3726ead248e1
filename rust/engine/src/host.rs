//! Facts about the running host: is it ostree-booted, which deployment, which boot, which architecture.
//! Reads only. Nothing here changes the host: libostree is only asked to load what is there, never to lock, write or
//! prepare, so it never remounts `/sysroot`.

use crate::overlay::UsrMounts;
use anyhow::{Context as _, Result};
use fn_error_context::context;
use model::status::Deployment;
use model::{Code, Failure};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Made by the initramfs of an ostree host; libostree looks at it as well.
const BOOTED_MARKER: &str = "/run/ostree-booted";
/// What ostree keeps outside of the deployment.
const REPOSITORY: &str = "/sysroot/ostree/repo";

/// What the other steps need to know of the host.
#[derive(Debug, Clone)]
pub struct Host {
    /// The booted deployment.
    pub deployment: Deployment,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// Device and inode of `/`, which change with a soft reboot.
    pub root_id: (u64, u64),
    /// RPM's name of the machine's architecture (`x86_64`).
    pub arch: String,
}

impl Host {
    /// Looks at the host that this process runs on.
    ///
    /// # Errors
    /// [`model::Code::NotOstreeHost`] when `/run/ostree-booted` or a booted deployment is missing.
    pub fn detect() -> Result<Host> {
        let (sysroot, booted) = load()?;
        let origin = booted.origin().and_then(|keys| origin_name(&keys));
        let deployment = Deployment {
            stateroot: booted.osname().into(),
            checksum: booted.csum().into(),
            serial: booted.deployserial(),
            version: commit_version(&sysroot, &booted.csum()),
            origin,
        };
        let root = std::fs::metadata("/").context("Looking at /")?;
        Ok(Host {
            deployment,
            boot_id: read_line("/proc/sys/kernel/random/boot_id")?,
            root_id: (root.dev(), root.ino()),
            arch: rpm_arch(&rustix::system::uname().machine().to_string_lossy()).to_owned(),
        })
    }

    /// The text of the booted deployment's persistent origin file, when it has one.
    ///
    /// # Errors
    /// [`model::Code::NotOstreeHost`].
    pub fn persistent_origin() -> Result<Option<String>> {
        let (_, booted) = load()?;
        Ok(booted.origin().map(|keys| keys.to_data().to_string()))
    }
}

/// Loads the sysroot and its booted deployment.
#[context("Reading the booted deployment")]
fn load() -> Result<(ostree::Sysroot, ostree::Deployment)> {
    let not_ostree = |message: String| {
        Failure::new(Code::NotOstreeHost, message)
            .hint("transient layering needs a host that was booted from an ostree deployment")
    };
    if !Path::new(BOOTED_MARKER).exists() {
        return Err(not_ostree(format!("this is not an ostree host: {BOOTED_MARKER} does not exist")).into());
    }
    if !Path::new(REPOSITORY).exists() {
        // systemd unmounts it on the way and only a unit or an initramfs would mount it again; ostree itself is lost as well.
        let mut message = format!("the ostree sysroot is not mounted: {REPOSITORY} does not exist");
        if let Ok(n @ 1..) = UsrMounts::read().map(|m| m.live()) {
            message.push_str(&format!(" (generation {n} is still on /usr)"));
        }
        return Err(Failure::new(Code::NotOstreeHost, message)
            .hint(
                "a soft reboot without \"ostree admin prepare-soft-reboot\" loses /sysroot, /boot and /var; reboot with \
                 \"systemctl reboot\"",
            )
            .into());
    }
    let sysroot = ostree::Sysroot::new_default();
    sysroot
        .load(gio::Cancellable::NONE)
        .map_err(|e| not_ostree(format!("the ostree sysroot cannot be read: {}", e.message())))?;
    let booted = sysroot
        .booted_deployment()
        .ok_or_else(|| not_ostree("this is not a booted ostree deployment: no deployment is mounted as /".into()))?;
    Ok((sysroot, booted))
}

/// What the deployment follows: a container reference (rpm-ostree and bootc write it) or a refspec.
fn origin_name(keys: &glib::KeyFile) -> Option<String> {
    ["container-image-reference", "refspec", "baserefspec"]
        .iter()
        .find_map(|key| keys.string("origin", key).ok())
        .map(Into::into)
}

/// `version` in the commit's metadata. A commit that is gone from the repository has none; that is no failure.
fn commit_version(sysroot: &ostree::Sysroot, checksum: &str) -> Option<String> {
    let (commit, _) = sysroot.repo().load_commit(checksum).ok()?;
    let metadata = glib::VariantDict::new(Some(&commit.child_value(0)));
    metadata.lookup_value(ostree::COMMIT_META_KEY_VERSION, None)?.str().map(str::to_owned)
}

fn read_line(path: &str) -> Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("Reading {path}"))?;
    Ok(text.trim().to_owned())
}

/// Refuses callers without root, in one line.
///
/// # Errors
/// [`model::Code::NotRoot`].
pub fn require_root() -> Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Failure::new(Code::NotRoot, "this command needs root").hint("run it with sudo").into())
}

/// Refuses when this process does not share PID 1's mount namespace: what we mount would not be seen.
///
/// # Errors
/// [`model::Code::NamespaceUnreachable`].
pub fn require_host_namespace() -> Result<()> {
    let hint = "in a container use --pid=host and \"nsenter -t 1 -m -- rpm-ostree-transient …\"; outside of one, \
                \"nsenter -t 1 -m\" alone";
    let fail = |message: String| Failure::new(Code::NamespaceUnreachable, message).hint(hint);
    let read = |path: &str| std::fs::read_link(path).map_err(|e| fail(format!("cannot read {path}: {e}")));
    let (own, init) = (read("/proc/thread-self/ns/mnt")?, read("/proc/1/ns/mnt")?);
    if own == init {
        return Ok(());
    }
    Err(fail(format!(
        "this process is in mount namespace {} and PID 1 in {}: the host would not see the change",
        own.display(),
        init.display()
    ))
    .into())
}

/// RPM's name for a machine name of uname(2).
fn rpm_arch(machine: &str) -> &str {
    match machine {
        // A 64-bit kernel under a 32-bit personality says i686 as well; that is what RPM would build for.
        "i386" | "i486" | "i586" | "i686" => "i686",
        "armv7l" => "armv7hl",
        "armv6l" => "armv6hl",
        other => other,
    }
}

/// RPM architectures that can run on `arch`, best first.
pub fn compatible_arches(arch: &str) -> Vec<String> {
    let list: &[&str] = match arch {
        "x86_64" => &["x86_64", "i686", "i586", "i486", "i386"],
        "i686" => &["i686", "i586", "i486", "i386"],
        "armv7hl" => &["armv7hl", "armv6hl"],
        other => &[other],
    };
    list.iter().chain(&["noarch"]).map(|a| (*a).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_architectures_as_rpm_does() {
        for (machine, rpm) in [("x86_64", "x86_64"), ("i586", "i686"), ("armv7l", "armv7hl"), ("aarch64", "aarch64")] {
            assert_eq!(rpm_arch(machine), rpm);
        }
        assert_eq!(compatible_arches("aarch64"), ["aarch64", "noarch"]);
        assert_eq!(compatible_arches("x86_64").first().map(String::as_str), Some("x86_64"));
        assert!(compatible_arches("x86_64").contains(&"i686".to_owned()));
    }

    #[test]
    fn prefers_the_container_reference() {
        for (text, expected) in [
            ("[origin]\nrefspec=r:os/base\n", Some("r:os/base")),
            ("[origin]\nbaserefspec=r:os/base\n", Some("r:os/base")),
            (
                "[origin]\nrefspec=x\ncontainer-image-reference=ostree-unverified-registry:q/i\n",
                Some("ostree-unverified-registry:q/i"),
            ),
            ("[other]\nrefspec=x\n", None),
        ] {
            let keys = glib::KeyFile::new();
            keys.load_from_data(text, glib::KeyFileFlags::NONE).unwrap();
            assert_eq!(origin_name(&keys).as_deref(), expected, "{text}");
        }
    }
}
