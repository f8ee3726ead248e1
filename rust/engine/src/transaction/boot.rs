//! `clean-boot`: at the start of a boot, removes what an earlier one left: as the unit does that cleans up after itself, and
//! also what was merged into the `/etc` of another deployment. With a live layer of this boot there is nothing to do.

use super::{Options, Session, recover};
use crate::generation::{Store, stamp_is_current};
use crate::host::{self, Host};
use crate::{files, settle};
use anyhow::Result;
use model::Progress;
use model::status::API_VERSION;
use model::verification::Cleanup;

/// Cleans, and tells what was removed. Done twice is done once.
///
/// # Errors
/// From the kernel or the filesystem.
pub fn clean_boot(options: &Options, progress: &dyn Progress) -> Result<Cleanup> {
    host::require_root()?;
    host::require_host_namespace()?;
    let host = Host::detect()?;
    let session = Session { lock: super::take_lock(options, progress)?, host, options, progress };
    let before = settle::links_of_ours()?;
    let removed = match Store::open_existing()? {
        Some(store) if stamp_is_current(&store, &session.host)? => vec![],
        Some(store) => {
            recover::remove_stale(&session, store, "What was layered in another boot or deployment is being removed")?;
            before
        }
        None => {
            let mut removed = settle::cleaner::clean(&session.lock)?;
            for link in settle::links_of_ours()? {
                files::remove(&link)?;
                removed.push(link);
            }
            removed
        }
    };
    Ok(Cleanup { api_version: API_VERSION.into(), kind: "Cleanup".into(), removed })
}
