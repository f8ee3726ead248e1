//! Request + repositories + rpmdb → [`Plan`], or an explanation. Repository files are read with dnf's meaning;
//! solving is libsolv's. The base is locked.

pub(crate) mod access;
mod config;
mod ini;
mod install;
mod metadata;
mod problems;
mod session;
mod subject;
mod uninstall;
mod vars;

pub(crate) use uninstall::word_of;

pub use config::{RepoConfig, Secret, redact};
pub(crate) use subject::near;

use anyhow::Result;
use fn_error_context::context;
use model::{Failure, LayeredPackage, Nevra, Plan, Progress, Request};
use session::{How, Session};
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
    /// Names or globs of packages that no repository has for us.
    pub exclude: Vec<String>,
    /// Signatures are asked for whatever the files of dnf say.
    pub require_signatures: bool,
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
    /// `localpkg_gpgcheck=` of dnf.conf: local files must be signed as well.
    pub local_gpgcheck: bool,
}

/// Resolves a request.
///
/// # Errors
/// [`model::Code`]: `NotFound` (with near names), `Unsolvable`, `BaseConflict` (naming the base package),
/// `AlreadyProvided`, `Refused` (another architecture), `Repository`, `Usage` (a configuration file).
pub fn resolve(input: &Input<'_>, progress: &dyn Progress) -> Result<Resolution> {
    run(input, false, progress)
}

/// The same, but looks at every repository even if its metadata is fresh: for a mirror that no longer has what its
/// metadata names.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_refreshed(input: &Input<'_>, progress: &dyn Progress) -> Result<Resolution> {
    run(input, true, progress)
}

fn run(input: &Input<'_>, refresh: bool, progress: &dyn Progress) -> Result<Resolution> {
    // Removing needs no repository, and so no network.
    let repositories = !input.request.install.is_empty();
    let how = How { repositories, filelists: false, refresh, progress };
    let mut session = Session::open(input, how)?;
    let mut answer = install::plan(&mut session, input)?;
    if matches!(answer, install::Answer::NeedsFilelists) {
        // File lists are large and seldom needed: a second load is cheaper than having them always.
        session = Session::open(input, How { filelists: true, refresh: false, ..how })?;
        answer = install::plan(&mut session, input)?;
    }
    if progress.cancelled() {
        return Err(access::interrupted().into());
    }
    match answer {
        install::Answer::Plan(plan) => Ok(Resolution {
            plan,
            local_gpgcheck: session.main.localpkg_gpgcheck,
            repositories: session.repositories.into_iter().map(|(_, config)| config).collect(),
        }),
        install::Answer::NeedsFilelists => {
            Err(Failure::new(model::Code::Failed, "the file lists did not answer the request").into())
        }
    }
}

/// Makes the next run look at this repository again: its metadata names what the mirrors no longer have.
pub(crate) fn expire_metadata(cache: &std::path::Path, config: &RepoConfig) {
    // A failure only means that the metadata lives as long as it would have anyway.
    let _ = metadata::expire(cache, config);
}

/// The settings of `[main]` in dnf.conf, for addresses that belong to no repository.
pub(crate) fn main_settings(root: &std::path::Path) -> Result<RepoConfig> {
    let section = ini::Section { name: "@commandline".into(), keys: Vec::new() };
    config::read_main(root, &[])?.repository(&section, &[], &vars::Vars::default())
}

/// The packages of the rpmdb below `root`.
///
/// # Errors
/// When it cannot be read.
#[context("Listing installed packages")]
pub fn installed(root: &std::path::Path) -> Result<Vec<Nevra>> {
    let mut pool = bridge::solv::Pool::new("noarch")?;
    let repo = pool.add_repo("@System", 0, 0)?;
    pool.add_rpmdb(repo, root)?;
    let mut all: Vec<Nevra> = pool.packages(repo).into_iter().map(|p| pool.nevra(p)).collect();
    all.sort();
    Ok(all)
}
