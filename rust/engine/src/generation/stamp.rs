//! To which boot and deployment a store belongs. A soft reboot keeps `/run` and the boot id and changes the deployment
//! or at least mounts the root anew, so all of them are in the stamp.

use super::{Store, damaged, read_json, write_json};
use crate::host::Host;
use crate::overlay::UsrMounts;
use crate::overlay::mountinfo::Table;
use anyhow::Result;
use std::path::Path;

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Stamp {
    boot_id: String,
    /// `CHECKSUM.SERIAL`.
    deployment: String,
    root_device: u64,
    root_inode: u64,
    /// Id of the mount on `/`: a soft reboot into the same deployment changes nothing else.
    #[serde(default)]
    root_mount: Option<u64>,
}

impl Stamp {
    fn of(host: &Host) -> Result<Stamp> {
        let root_mount = Table::read("thread-self")?.visible(Path::new("/")).map(|m| m.id);
        Ok(Stamp {
            boot_id: host.boot_id.clone(),
            deployment: format!("{}.{}", host.deployment.checksum, host.deployment.serial),
            root_device: host.root_id.0,
            root_inode: host.root_id.1,
            root_mount,
        })
    }

    /// A stamp of an earlier version of this program has no mount id.
    fn matches(&self, now: &Stamp) -> bool {
        *now == Stamp { root_mount: self.root_mount.or(now.root_mount), ..self.clone() }
    }
}

impl Store {
    /// Writes the stamp: from here on the store is complete.
    pub(super) fn write_stamp(&self, host: &Host) -> Result<()> {
        write_json(&self.path.join("stamp.json"), &Stamp::of(host)?)
    }
}

/// False when the store was made in another boot or for another deployment (soft reboot), or was never finished.
///
/// # Errors
/// [`model::Code::StateDamaged`] when the stamp is damaged, or missing while a generation is live.
pub fn stamp_is_current(store: &Store, host: &Host) -> Result<bool> {
    let path = store.path.join("stamp.json");
    match read_json::<Stamp>(&path)? {
        Some(stamp) => Ok(stamp.matches(&Stamp::of(host)?)),
        None if UsrMounts::read()?.live() == 0 => Ok(false),
        None => Err(damaged(format!("{} is missing while a generation is live", path.display()))),
    }
}
