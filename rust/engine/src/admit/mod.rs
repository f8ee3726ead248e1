//! Reads every package with the rpm crate before librpm does, and refuses what must not come in.

use crate::fetch::FetchedPackage;
use crate::generation::Space;
use anyhow::Result;
use std::collections::BTreeSet;

/// What admission is allowed to let through.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// `--force-unsafe=NAME`: packages that may replace what is denied by default.
    pub force_unsafe: BTreeSet<String>,
    /// RPM architectures that can run here, best first.
    pub arches: Vec<String>,
}

/// Checks packages; changes nothing.
///
/// # Errors
/// [`model::Code::Refused`] with path and package, [`model::Code::NoSpace`] with needed and free figures.
pub fn admit(_packages: &[FetchedPackage], _policy: &Policy, _space: Space) -> Result<()> {
    anyhow::bail!("not built yet")
}
