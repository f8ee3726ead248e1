//! Request + repositories + rpmdb → [`Plan`], or an explanation. Repository files are read with dnf's meaning;
//! solving is libsolv's. The base is locked.

use anyhow::Result;
use model::{LayeredPackage, Nevra, Plan, Progress, Request};
use std::path::PathBuf;

/// Options that dnf and rpm-ostree users know.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `-C`: never touch the network; stale metadata will do.
    pub cache_only: bool,
    /// `--enablerepo`: ids or globs.
    pub enable_repos: Vec<String>,
    /// `--disablerepo`: ids or globs.
    pub disable_repos: Vec<String>,
    /// `--releasever`.
    pub releasever: Option<String>,
    /// `--setopt KEY=VALUE` and `REPO.KEY=VALUE`.
    pub setopts: Vec<(String, String)>,
    /// `--nogpgcheck`.
    pub no_gpg_check: bool,
    /// `--allow-inactive`: a request that the base already provides is no error.
    pub allow_inactive: bool,
    /// `--idempotent`: a request that is layered already, or an uninstall of what is not, is no error.
    pub idempotent: bool,
    /// Test only: leave requires unchecked. Set by an environment variable of the test kit, never by an option.
    pub no_deps: bool,
}

/// What resolving works from.
#[derive(Debug)]
pub struct Input<'a> {
    /// What the user asked for; URLs were already downloaded into local files.
    pub request: &'a Request,
    /// The layered packages of the live generation: everything else in the rpmdb is base.
    pub layered: &'a [LayeredPackage],
    /// What they were requested as.
    pub requested: &'a [model::manifest::Requested],
    /// Root of the configuration and of the rpmdb: `/` on a host.
    pub root: PathBuf,
    /// Cache directory: `/var/cache/rpm-ostree-transient` on a host.
    pub cache: PathBuf,
    /// RPM architecture of the host.
    pub arch: String,
    /// See [`Options`].
    pub options: Options,
}

/// The answer: a plan and the repositories that its packages come from.
#[derive(Debug)]
pub struct Resolution {
    /// What to do.
    pub plan: Plan,
    /// Settings of the repositories, for `fetch` (addresses, credentials, gpg keys).
    pub repositories: Vec<RepoConfig>,
}

/// One `[section]` of a `.repo` file with dnf.conf's defaults and variables applied.
#[derive(Debug, Clone, Default)]
pub struct RepoConfig {
    /// Section name.
    pub id: String,
    /// `baseurl=`.
    pub baseurl: Vec<String>,
    /// `mirrorlist=`.
    pub mirrorlist: Option<String>,
    /// `metalink=`.
    pub metalink: Option<String>,
    /// `gpgcheck=`.
    pub gpgcheck: bool,
    /// `repo_gpgcheck=`.
    pub repo_gpgcheck: bool,
    /// `gpgkey=`.
    pub gpgkey: Vec<String>,
}

/// Resolves a request.
///
/// # Errors
/// [`model::Code`]: `NotFound` (with near names), `Unsolvable`, `BaseConflict` (naming the base package),
/// `AlreadyProvided`, `Repository`.
pub fn resolve(_input: &Input<'_>, _progress: &dyn Progress) -> Result<Resolution> {
    anyhow::bail!("not built yet")
}

/// The packages of the rpmdb below `root`.
///
/// # Errors
/// When it cannot be read.
pub fn installed(_root: &std::path::Path) -> Result<Vec<Nevra>> {
    anyhow::bail!("not built yet")
}
