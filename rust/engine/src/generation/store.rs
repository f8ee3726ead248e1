//! Making, opening and removing the store: the tmpfs, the parked base in it and the directories. The tmpfs is ours when
//! its mount source says so; nothing else on that path is touched.

use super::layers::COUNTER_NAME;
use super::{RUN_DIR, Space, Store, damaged, make_dir, remove_tree, stamp_is_current};
use crate::files;
use crate::host::Host;
use crate::lock::{HostLock, LOCK_NAME};
use crate::overlay::mountinfo::Table;
use crate::overlay::{self, UsrMounts, sys};
use anyhow::{Context as _, Result};
use fn_error_context::context;
use std::path::{Path, PathBuf};

/// Mount source of the store's tmpfs.
const SOURCE: &str = "rpm-ostree-transient-store";

/// Limits of the store's tmpfs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of content.
    pub bytes: u64,
    /// Files and directories.
    pub inodes: u64,
}

impl Limits {
    /// Half of the memory, and an inode for every 16 KiB of it: an inode costs about 1 KiB, so that empty files alone
    /// cannot take more than a sixteenth of the memory.
    pub fn of_machine() -> Limits {
        let system = rustix::system::sysinfo();
        #[expect(clippy::useless_conversion, reason = "the field is narrower than u64 on 32-bit machines")]
        let memory = u64::from(system.totalram).saturating_mul(u64::from(system.mem_unit));
        Limits { bytes: memory / 2, inodes: (memory / 16384).max(65536) }
    }
}

fn store_path() -> PathBuf {
    Path::new(RUN_DIR).join("store")
}

/// True when our tmpfs is on the store's path.
///
/// # Errors
/// [`model::Code::StateDamaged`] when somebody else's mount is there.
fn is_mounted() -> Result<bool> {
    let path = store_path();
    match Table::read("thread-self")?.stack(&path).last() {
        None => Ok(false),
        Some(mount) if mount.fstype == "tmpfs" && mount.source == SOURCE => Ok(true),
        Some(mount) => {
            let message = format!("{} on {} is not our store", mount.source, path.display());
            Err(model::Failure::new(model::Code::StateDamaged, message)
                .hint(format!("umount {}", path.display()))
                .into())
        }
    }
}

impl Store {
    /// Opens the store, making tmpfs, parked base and directories when they are missing, and empties `staging/`.
    /// State of another boot or deployment (see `stamp`) is cleaned first.
    ///
    /// # Errors
    /// [`model::Code::StateDamaged`] when what is there is not ours; [`model::Code::ForeignMount`] when `/usr` is not
    /// pristine and the base is still to be parked.
    pub fn open(lock: &HostLock, host: &Host) -> Result<Store> {
        Self::open_with(lock, host, Limits::of_machine())
    }

    /// [`Store::open`] with other limits for a store that is made.
    ///
    /// # Errors
    /// As [`Store::open`].
    #[context("Opening the store")]
    pub fn open_with(lock: &HostLock, host: &Host, limits: Limits) -> Result<Store> {
        if let Some(store) = Store::open_existing()? {
            if stamp_is_current(&store, host)? {
                store.complete(lock)?;
                return Ok(store);
            }
            overlay::detach_all(lock)?;
            store.destroy(lock)?;
        }
        let live = UsrMounts::read()?.live();
        if live != 0 {
            return Err(damaged(format!("generation {live} is on /usr, but its store is gone")));
        }
        let store = Store::mount(limits)?;
        let made = store.complete(lock).and_then(|()| store.write_stamp(host));
        match made {
            Ok(()) => Ok(store),
            Err(error) => {
                // A store without a stamp would be cleaned by the next run; a failed run leaves nothing at once.
                let _ = store.destroy(lock);
                Err(error)
            }
        }
    }

    /// The store when it exists; for readers. Needs root.
    ///
    /// # Errors
    /// [`model::Code::StateDamaged`] when somebody else's mount is in its place.
    pub fn open_existing() -> Result<Option<Store>> {
        Ok(is_mounted()?.then(|| Store { path: store_path() }))
    }

    /// Mounts a fresh tmpfs, which is private before anything is put into it.
    fn mount(limits: Limits) -> Result<Store> {
        // A foreign mount on /usr would be parked as the base: refuse before there is anything.
        UsrMounts::read()?.refuse_foreign()?;
        let path = store_path();
        make_dir(&path)?;
        sys::tmpfs(SOURCE, limits.bytes, limits.inodes)?.attach(&path).context("Attaching the tmpfs of the store")?;
        Ok(Store { path })
    }

    /// Brings everything in place that a killed run may have left out. Runs again at any time.
    fn complete(&self, lock: &HostLock) -> Result<()> {
        sys::make_private(&self.path)?;
        for dir in [self.generations(), self.staging(), self.base()] {
            make_dir(&dir)?;
        }
        self.empty_staging(lock)?;
        let base = self.base();
        let table = Table::read("thread-self")?;
        if let Some(parked) = table.stack(&base).last() {
            // A run killed between the calls of parking leaves a clone that is still in the peer group of /usr.
            if parked.propagation.is_empty() && parked.options.iter().any(|o| o == "ro") {
                return Ok(());
            }
            sys::detach(&base)?;
        }
        let live = UsrMounts::from_table(&table).live();
        if live != 0 {
            return Err(damaged(format!(
                "generation {live} is live, but the base parked at {} is gone",
                base.display()
            )));
        }
        overlay::park_base(&base)
    }

    /// Empties `staging/` after a failed run.
    ///
    /// # Errors
    /// From the filesystem.
    pub fn empty_staging(&self, _lock: &HostLock) -> Result<()> {
        remove_tree(&self.staging())?;
        make_dir(&self.staging())
    }

    /// Free and used space.
    ///
    /// # Errors
    /// From statvfs.
    pub fn space(&self) -> Result<Space> {
        space_of(&self.path)
    }

    /// Unmounts the parked base and the store's tmpfs and removes `RUN_DIR`'s content but for the lock and the counter,
    /// so that no number is given twice in a boot. Only with no overlay of ours live.
    ///
    /// # Errors
    /// From the kernel.
    #[context("Removing the store")]
    pub fn destroy(self, _lock: &HostLock) -> Result<()> {
        let live = UsrMounts::read()?.live();
        anyhow::ensure!(live == 0, "generation {live} is still on /usr");
        let base = self.base();
        if !Table::read("thread-self")?.stack(&base).is_empty() {
            sys::detach(&base)?;
        }
        while is_mounted()? {
            sys::detach(&self.path)?;
        }
        let entries = std::fs::read_dir(RUN_DIR).with_context(|| format!("Reading {RUN_DIR}"))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            if name == LOCK_NAME || name == COUNTER_NAME {
                continue;
            }
            if entry.file_type()?.is_dir() { remove_tree(&entry.path())? } else { files::remove(&entry.path())? }
        }
        Ok(())
    }
}

/// Space of the store's tmpfs for readers without root; none when there is no store.
///
/// # Errors
/// From statvfs.
pub fn space_of_store() -> Result<Option<Space>> {
    if is_mounted()? { space_of(&store_path()).map(Some) } else { Ok(None) }
}

#[context("Asking for the space in {}", path.display())]
fn space_of(path: &Path) -> Result<Space> {
    let stat = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Ok(Space {
        free_bytes: bytes(stat.f_bavail),
        free_inodes: stat.f_favail,
        used_bytes: bytes(stat.f_blocks.saturating_sub(stat.f_bfree)),
        total_bytes: bytes(stat.f_blocks),
    })
}
