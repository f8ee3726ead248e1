//! Who must have signed what: `gpgcheck=` with the keys of the repository for its packages, `localpkg_gpgcheck=` for
//! local files, and the keys of the rpmdb for both. There is no silent fall-back.

use crate::resolve::{Options, RepoConfig, Resolution, access};
use anyhow::Result;
use bridge::librpm::{Verdict, verify};
use model::{Code, Failure, PackageSource, PlannedPackage, Progress, Signature};
use std::collections::BTreeMap;
use std::path::Path;

/// Checks packages of one run; reads each repository's keys once, and only when one of its packages is checked.
pub(super) struct Trust<'a> {
    resolution: &'a Resolution,
    root: &'a Path,
    options: &'a Options,
    progress: &'a dyn Progress,
    keys: BTreeMap<String, Vec<Vec<u8>>>,
}

impl<'a> Trust<'a> {
    pub fn new(resolution: &'a Resolution, root: &'a Path, options: &'a Options, progress: &'a dyn Progress) -> Self {
        Trust { resolution, root, options, progress, keys: BTreeMap::new() }
    }

    /// Verifies one file as policy asks.
    ///
    /// # Errors
    /// [`Code::Untrusted`], naming package, repository and key.
    pub fn check(&mut self, package: &PlannedPackage, path: &Path) -> Result<Signature> {
        let config = match &package.source {
            PackageSource::Repository { id, .. } => self.resolution.repositories.iter().find(|r| r.id == *id),
            PackageSource::File { .. } => None,
        };
        let asked = self.options.require_signatures || config.map_or(self.resolution.local_gpgcheck, |c| c.gpgcheck);
        if !asked || self.options.no_gpg_check {
            return Ok(Signature::NotChecked);
        }
        self.load(config)?;
        let keys = &self.keys[package.source.label()];
        match verify(path, keys, Some(self.root))? {
            Verdict::Good { key } => Ok(Signature::Good { key }),
            verdict => Err(refusal(package, config, &verdict).into()),
        }
    }

    fn load(&mut self, config: Option<&RepoConfig>) -> Result<()> {
        let label = config.map_or("@commandline", |c| &c.id);
        if !self.keys.contains_key(label) {
            let keys = match config {
                Some(config) => access::keys(config, self.root, self.options.cache_only, self.progress)?,
                None => host_keys(self.root),
            };
            self.keys.insert(label.into(), keys);
        }
        Ok(())
    }
}

/// The keys that the host ships for its own packages; the rpmdb of an ostree host often has none imported.
fn host_keys(root: &Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(root.join("etc/pki/rpm-gpg"));
    entries.into_iter().flatten().flatten().filter_map(|e| std::fs::read(e.path()).ok()).collect()
}

fn refusal(package: &PlannedPackage, config: Option<&RepoConfig>, verdict: &Verdict) -> Failure {
    let whose = match config {
        Some(config) => format!("{} of repository {}", package.nevra, config.id),
        None => format!("local package {}", package.nevra),
    };
    let message = match verdict {
        Verdict::Unsigned => format!("{whose} is not signed"),
        Verdict::UnknownKey { key } => format!("{whose} is signed with key {key}, which is not trusted"),
        Verdict::Bad { reason } => format!("{whose} has a bad signature or digest: {reason}"),
        Verdict::Good { .. } => whose,
    };
    let failure = Failure::new(Code::Untrusted, message.replace('\n', "; "));
    match (verdict, config) {
        (Verdict::UnknownKey { .. }, Some(config)) => {
            failure.hint(format!("if you trust that key, add its address to gpgkey= of [{}]", config.id))
        }
        (Verdict::UnknownKey { .. }, None) => failure.hint("if you trust that key, put it into /etc/pki/rpm-gpg"),
        (Verdict::Unsigned, _) => failure.hint("--nogpgcheck accepts unsigned packages"),
        _ => failure,
    }
}
