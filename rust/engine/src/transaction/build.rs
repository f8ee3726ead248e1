//! From downloaded packages to a sealed generation: admit → stage → harvest → plan of effects → seal → commit. A dry run
//! goes the same way up to the seal, so that what it says of effects is what would happen.

use super::{Live, Session, commit, history_entry, now, outcome, test_hooks};
use crate::generation::Store;
use crate::{admit, fetch, harvest, host, overlay, settle, stage};
use anyhow::Result;
use fail::fail_point;
use model::status::Outcome;
use model::{Effect, LayeredPackage, Manifest, Nevra, NotApplied, Phase, Plan, SkippedPath};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Wall-clock limit of one sandboxed RPM transaction, in seconds.
const STAGE_TIMEOUT: u64 = 300;

/// Makes and activates the next generation.
pub(super) fn build(
    session: &Session<'_>,
    store: &Store,
    live: &Live,
    fetched: &[fetch::FetchedPackage],
    mut plan: Plan,
) -> Result<Outcome> {
    let options = session.options;
    let root = Path::new("/");
    session.phase(Phase::Admit)?;
    overlay::preflight(&store.base())?;
    let policy = admit::Policy {
        force_unsafe: options.force_unsafe.clone(),
        arches: host::compatible_arches(&session.host.arch),
    };
    admit::admit(fetched, &policy, store.space()?, &store.base())?;
    let owned = admit::owned(fetched, &store.base())?;
    fail_point!("admitted", |_| anyhow::bail!("failpoint"));

    session.phase(Phase::Stage)?;
    forget_replaced(session, live)?;
    let previous = (live.generation != 0).then(|| store.content(live.generation));
    let there = |path: PathBuf| path.is_dir().then_some(path);
    let staged = stage::stage(
        &stage::Spec {
            layers: previous.iter().map(|p| p.layer.clone()).collect(),
            base: store.base(),
            etc: there(settle::live::etc()),
            var: there(settle::live::var()),
            sysusers: owned.sysusers.clone(),
            linker_cache: previous.as_ref().is_some_and(|p| p.linker_cache.exists()),
            work: store.staging().join("sandbox"),
            install: fetched.iter().map(|f| f.path.clone()).collect(),
            remove: plan.remove.clone(),
            replace_files: options.force_replace_files,
            no_deps: test_hooks::apply(&options.resolve).no_deps,
            timeout: STAGE_TIMEOUT,
        },
        session.progress,
    )?;
    fail_point!("staged", |_| anyhow::bail!("failpoint"));

    session.phase(Phase::Harvest)?;
    let (base, target) = (store.base(), store.staged_content());
    let released =
        harvest::released(previous.as_ref().map(|p| p.layer.as_path()), &base, &plan, &live.packages, fetched)?;
    let mounts = settle::plan::ours(&live.effects);
    let mut harvest = harvest::harvest(&harvest::Work {
        staged: &staged,
        previous: previous.as_ref(),
        base: &base,
        root,
        target: &target,
        released: released.as_ref(),
        owned: &owned.paths,
        mounts: &mounts,
    })?;
    let nsswitch = std::fs::read_to_string("/etc/nsswitch.conf").unwrap_or_default();
    settle::accounts::write(&target.layer, &base, &harvest.accounts, &nsswitch)?;
    harvest::label(root, &base, &target)?;
    fail_point!("harvested", |_| anyhow::bail!("failpoint"));

    let units = settle::units::choose(&settle::units::Facts {
        root,
        base: &base,
        content: &target,
        links: &harvest.enablements,
        previous: &live.effects,
        causes: &staged.causes,
        owned: &owned.paths,
        now: options.now,
        systemd: settle::has_systemd(),
    })?;
    harvest.not_applied.extend(units.not_applied.iter().chain(&owned.not_applied).cloned());
    let generation = store.next_number()?;
    plan.effects = settle::plan::effects(&settle::plan::Facts {
        host: &session.host,
        root,
        content: &target,
        previous_layer: previous.as_ref().map(|p| p.layer.as_path()),
        previous: &live.effects,
        owned: &owned.paths,
        causes: &staged.causes,
        run: &staged.run,
        units: &units,
        generation,
    })?;
    let manifest = manifest(session, generation, live, fetched, &plan, &harvest);
    if options.dry_run {
        return Ok(outcome(false, live.generation, plan, Some(manifest)));
    }
    store.seal(&session.lock, &target, &manifest)?;
    fail_point!("sealed", |_| anyhow::bail!("failpoint"));
    session.phase(Phase::Activate)?;
    let entry = history_entry(options, live.generation, manifest.generation, &plan, &live.effects);
    commit::switch(session, store, &live.effects, Some(manifest), entry, plan)
}

/// Where the administrator has put something in the place of a link of ours, scriptlets are to see that.
fn forget_replaced(session: &Session<'_>, live: &Live) -> Result<()> {
    for effect in &live.effects {
        if let Effect::Link { path, target } = &effect.effect
            && std::fs::read_link(path).ok().as_ref() != Some(target)
        {
            settle::live::forget(&session.lock, path)?;
        }
    }
    Ok(())
}

/// The record of the generation that is about to be sealed.
fn manifest(
    session: &Session<'_>,
    generation: u64,
    live: &Live,
    fetched: &[fetch::FetchedPackage],
    plan: &Plan,
    harvest: &harvest::Harvest,
) -> Manifest {
    let packages = packages(live, fetched, plan);
    // What earlier runs left undone for a package is so for as long as it is layered.
    let staying: BTreeSet<String> = packages.iter().map(|p| p.nevra.to_string()).collect();
    let stays = |package: &Option<String>| package.as_ref().is_some_and(|p| staying.contains(p));
    let mut skipped: Vec<SkippedPath> = live.skipped.iter().filter(|s| stays(&s.cause.package)).cloned().collect();
    skipped.retain(|old| !harvest.skipped.iter().any(|new| new.path == old.path));
    skipped.extend(harvest.skipped.iter().cloned());
    let mut not_applied: Vec<NotApplied> = live.not_applied.iter().filter(|n| stays(&n.package)).cloned().collect();
    not_applied.retain(|old| !harvest.not_applied.contains(old));
    not_applied.extend(harvest.not_applied.iter().cloned());
    Manifest {
        format: 1,
        generation,
        parent: (live.generation != 0).then_some(live.generation),
        created: now(),
        command: session.options.command.clone(),
        requested: plan.requested.clone(),
        packages,
        files: harvest.files,
        bytes: harvest.bytes,
        effects: plan.effects.clone(),
        skipped,
        not_applied,
    }
}

/// Every package of the new generation, by name.
fn packages(live: &Live, fetched: &[fetch::FetchedPackage], plan: &Plan) -> Vec<LayeredPackage> {
    let requested: BTreeSet<&str> = plan.requested.iter().map(|r| r.name.as_str()).collect();
    let mut packages: BTreeMap<(String, String), LayeredPackage> = BTreeMap::new();
    let replaced: BTreeSet<&Nevra> = plan
        .install
        .iter()
        .filter_map(|p| match &p.action {
            model::Action::Upgrade(n) | model::Action::Downgrade(n) => Some(n),
            _ => None,
        })
        .chain(&plan.remove)
        .collect();
    for p in live.packages.iter().filter(|p| !replaced.contains(&p.nevra)) {
        packages.insert((p.nevra.name.clone(), p.nevra.to_string()), p.clone());
    }
    for f in fetched {
        let p = &f.planned;
        packages.insert(
            (p.nevra.name.clone(), p.nevra.to_string()),
            LayeredPackage {
                nevra: p.nevra.clone(),
                reason: p.reason,
                repository: p.source.label().to_owned(),
                signature: f.signature.clone(),
                installed_bytes: p.installed_bytes,
                checksum: p.checksum.clone(),
            },
        );
    }
    let mut packages: Vec<_> = packages.into_values().collect();
    for p in &mut packages {
        let asked = requested.contains(p.nevra.name.as_str());
        p.reason = if asked { model::Reason::Requested } else { model::Reason::Dependency };
    }
    packages
}
