//! The driver: one locked run from a request to a live generation. It calls the steps of the pipeline in their
//! order and owns none of their work; [`incoming`] fetches the files that the user named, [`build`] makes a generation,
//! [`commit`] makes it visible, [`back`] undoes changes, [`recover`] repairs what a killed run left, [`report`] answers questions.

mod apply;
mod back;
mod boot;
mod build;
mod commit;
mod incoming;
mod recover;
mod report;

pub use apply::apply;
pub use back::{reset, rollback};
pub use boot::clean_boot;
pub use report::{diff, history, status};

use crate::config::Config;
use crate::generation::Store;
use crate::host::{self, Host};
use crate::lock::HostLock;
use crate::overlay::UsrMounts;
use crate::{fetch, resolve};
use anyhow::{Context as _, Result};
use fail::fail_point;
use incoming::Incoming;
use model::manifest::Requested;
use model::status::{API_VERSION, HistoryEntry, Outcome};
use model::{
    AttributedEffect, Code, Event, Failure, LayeredPackage, Manifest, NotApplied, Phase, Plan, Progress, Request,
    SkippedPath,
};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where packages and metadata are kept between runs; safe to delete.
pub const CACHE_DIR: &str = "/var/cache/rpm-ostree-transient";

/// How a command is to be run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Say what would be done and stop.
    pub dry_run: bool,
    /// Stop after downloading and verifying.
    pub download_only: bool,
    /// `--force-replacefiles`: a package's file may replace one of another package.
    pub force_replace_files: bool,
    /// Wait for the lock; else fail at once.
    pub wait: bool,
    /// `--now`: start the units that the packages bring and a preset enables.
    pub now: bool,
    /// Names that may bring what is denied by default.
    pub force_unsafe: BTreeSet<String>,
    /// Options of the resolver.
    pub resolve: resolve::Options,
    /// The command as typed, for the history.
    pub command: String,
}

/// What is layered now.
#[derive(Debug, Clone, Default)]
struct Live {
    generation: u64,
    packages: Vec<LayeredPackage>,
    requested: Vec<Requested>,
    effects: Vec<AttributedEffect>,
    skipped: Vec<SkippedPath>,
    not_applied: Vec<NotApplied>,
}

impl Live {
    fn read(store: Option<&Store>) -> Result<Live> {
        let generation = UsrMounts::read()?.live();
        if generation == 0 {
            return Ok(Live::default());
        }
        let store = store.ok_or_else(|| {
            Failure::new(Code::StateDamaged, format!("generation {generation} is on /usr, but its store is gone"))
                .hint("rpm-ostree-transient reset detaches it")
        })?;
        let m = store.manifest(generation)?;
        let Manifest { packages, requested, effects, skipped, not_applied, .. } = m;
        Ok(Live { generation, packages, requested, effects, skipped, not_applied })
    }
}

/// Everything that a change needs and only the lock gives.
struct Session<'a> {
    lock: HostLock,
    host: Host,
    options: &'a Options,
    progress: &'a dyn Progress,
}

impl<'a> Session<'a> {
    fn begin(options: &'a Options, progress: &'a dyn Progress) -> Result<Self> {
        host::require_root()?;
        host::require_host_namespace()?;
        let host = Host::detect()?;
        let lock = take_lock(options, progress)?;
        let session = Session { lock, host, options, progress };
        if let Err(error) = resolve::access::remove_unfinished(Path::new(CACHE_DIR)) {
            // A cache that cannot be written keeps nothing from being removed.
            progress.event(Event::Notice(format!("{error:#}")));
        }
        recover::recover(&session)?;
        Ok(session)
    }

    fn phase(&self, phase: Phase) -> Result<()> {
        if self.progress.cancelled() {
            return Err(Failure::new(Code::Interrupted, "interrupted; nothing was changed").into());
        }
        self.progress.event(Event::Phase(phase));
        Ok(())
    }
}

/// Installs, upgrades and removes layered packages in one step.
///
/// # Errors
/// Any [`Code`]; the host is then as it was before.
pub fn change(request: &Request, options: &Options, progress: &dyn Progress) -> Result<Outcome> {
    carry_out(request, options, progress).map_err(name_lack_of_space)
}

fn carry_out(request: &Request, options: &Options, progress: &dyn Progress) -> Result<Outcome> {
    let settings = Settings::read(options)?;
    within(&Session::begin(options, progress)?, &settings, request)
}

/// What configuration files add to the options.
struct Settings {
    config: Config,
    resolve: resolve::Options,
}

impl Settings {
    /// Read before the lock is taken: a bad file is told at once.
    fn read(options: &Options) -> Result<Settings> {
        host::require_root()?;
        let config = Config::read(Path::new("/"))?;
        let mut resolve = test_hooks::apply(&options.resolve);
        config.apply(&mut resolve)?;
        Ok(Settings { config, resolve })
    }
}

/// One change of a session; a session may have several.
fn within(session: &Session<'_>, settings: &Settings, request: &Request) -> Result<Outcome> {
    let (options, progress) = (session.options, session.progress);
    let (config, resolve_options) = (&settings.config, &settings.resolve);
    let existing = Store::open_existing()?;
    let live = Live::read(existing.as_ref())?;

    session.phase(Phase::Resolve)?;
    let (request, incoming) = Incoming::take(request, resolve_options.cache_only, progress)?;
    let input = resolve::Input {
        request: &request,
        layered: &live.packages,
        requested: &live.requested,
        root: "/".into(),
        cache: CACHE_DIR.into(),
        arch: session.host.arch.clone(),
        options: resolve_options.clone(),
    };
    let mut resolution = resolve::resolve(&input, progress)?;
    fail_point!("resolved", |_| anyhow::bail!("failpoint"));
    let mut plan = resolution.plan.clone();
    incoming.describe(plan.install.iter_mut());
    let nothing = plan.is_empty() && (live.generation == 0 || plan.requested == live.requested);
    let last = live.packages.iter().all(|p| plan.remove.contains(&p.nevra)) && plan.install.is_empty();
    if nothing || options.dry_run && last || options.download_only && plan.install.is_empty() {
        return Ok(outcome(false, live.generation, plan, None));
    }
    if last {
        let store = Store::open_with(&session.lock, &session.host, config.limits())?;
        let entry = history_entry(options, live.generation, 0, &plan, &live.effects);
        return commit::switch(session, &store, &live.effects, None, entry, plan);
    }

    session.phase(Phase::Fetch)?;
    let mut fetched = fetch(&resolution, resolve_options, progress);
    if !resolve_options.cache_only && fetched.as_ref().is_err_and(|e| code(e) == Some(Code::Repository)) {
        // A mirror that lost what its metadata names: look again, once, and then believe it.
        progress.event(Event::Notice("A package is not where the metadata says; reading the metadata again".into()));
        resolution = resolve::resolve_refreshed(&input, progress)?;
        plan = resolution.plan.clone();
        incoming.describe(plan.install.iter_mut());
        fetched = fetch(&resolution, resolve_options, progress);
    }
    let mut fetched = fetched?;
    incoming.describe(fetched.iter_mut().map(|f| &mut f.planned));
    fail_point!("fetched", |_| anyhow::bail!("failpoint"));
    if options.download_only {
        return Ok(outcome(false, live.generation, plan, None));
    }

    let fresh = existing.is_none();
    drop(existing);
    let store = Store::open_with(&session.lock, &session.host, config.limits())?;
    match build::build(session, &store, &live, &fetched, plan) {
        Ok(outcome) if !options.dry_run => {
            // What was harvested is memory to give back. The change is live: a failure here is the next run's to mend.
            let _ = store.empty_staging(&session.lock);
            Ok(outcome)
        }
        other => {
            // What this run made goes; the next run would do the same, but a failed or dry one leaves nothing at once.
            if fresh && UsrMounts::read()?.live() == 0 {
                store.destroy(&session.lock).context("Removing the store after a failed first run")?;
            } else {
                store.empty_staging(&session.lock)?;
            }
            other
        }
    }
}

fn fetch(
    resolution: &resolve::Resolution,
    options: &resolve::Options,
    progress: &dyn Progress,
) -> Result<Vec<fetch::FetchedPackage>> {
    fetch::fetch(resolution, Path::new("/"), Path::new(CACHE_DIR), options, progress)
}

/// Whatever was written when a file system was full: the same case, and the path in the message says which one it was.
fn name_lack_of_space(error: anyhow::Error) -> anyhow::Error {
    let full = |e: &(dyn std::error::Error + 'static)| {
        let errno = e.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
        errno.or(e.downcast_ref::<rustix::io::Errno>().map(|e| e.raw_os_error()))
            == Some(rustix::io::Errno::NOSPC.raw_os_error())
    };
    if error.chain().any(|e| e.is::<Failure>()) || !error.chain().any(full) {
        return error;
    }
    let failure = Failure::new(Code::NoSpace, format!("{error:#}"));
    error.context(failure.hint("uninstall what is not needed, or free memory; nothing was changed"))
}

/// The named case of an error, when it has one.
fn code(error: &anyhow::Error) -> Option<Code> {
    error.downcast_ref::<Failure>().map(|f| f.code)
}

/// Takes the lock, and says once for whom it waits.
pub(crate) fn take_lock(options: &Options, progress: &dyn Progress) -> Result<HostLock> {
    let told = std::cell::Cell::new(false);
    HostLock::take(options.wait, &options.command, &|holder| {
        if !told.replace(true) {
            progress.event(Event::Notice(format!("Waiting for {holder}, which holds the lock")));
        }
        !progress.cancelled()
    })
}

fn outcome(changed: bool, generation: u64, plan: Plan, manifest: Option<Manifest>) -> Outcome {
    Outcome { api_version: API_VERSION.into(), kind: "Outcome".into(), changed, generation, plan, manifest }
}

fn history_entry(options: &Options, from: u64, to: u64, plan: &Plan, old: &[AttributedEffect]) -> HistoryEntry {
    let without = |all: &[AttributedEffect], these: &[AttributedEffect]| {
        all.iter().filter(|e| !these.iter().any(|t| t.effect == e.effect)).cloned().collect()
    };
    HistoryEntry {
        time: now(),
        command: options.command.clone(),
        from,
        to,
        installed: plan.install.clone(),
        removed: plan.remove.clone(),
        done: without(&plan.effects, old),
        undone: without(old, &plan.effects),
    }
}

/// Seconds since 1970, UTC.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Switches that only a build for tests has.
mod test_hooks {
    use crate::resolve::Options;

    /// `RPM_OSTREE_TRANSIENT_TEST_NODEPS=1` leaves requires unchecked, so that single files of a corpus can be tried.
    pub fn apply(options: &Options) -> Options {
        let mut options = options.clone();
        options.no_deps = cfg!(feature = "test-hooks")
            && std::env::var_os("RPM_OSTREE_TRANSIENT_TEST_NODEPS").is_some_and(|v| v == "1");
        options
    }
}
