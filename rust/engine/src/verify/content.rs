//! Promise 5: rpmdb, status, origin and tree say the same; files of layered packages are what the packages brought; and,
//! where the host has SELinux, they have the labels of the running policy.

use super::{Mismatch, RESET, Report};
use crate::generation::{RUN_DIR, Store};
use crate::host::Host;
use crate::transaction;
use crate::tree::Tree;
use anyhow::{Context as _, Result};
use gio::Cancellable;
use model::{Manifest, Nevra};
use std::collections::BTreeSet;
use std::path::Path;

pub(super) fn check(host: &Host, live: Option<(&Store, &Manifest)>, report: &mut Report) -> Result<()> {
    let layered: BTreeSet<Nevra> = live.iter().flat_map(|(_, m)| &m.packages).map(|p| p.nevra.clone()).collect();
    status(live.map(|(_, m)| m), &layered, report)?;
    origin(host, live.map(|(_, m)| m), report)?;
    let Some((store, manifest)) = live else { return Ok(()) };
    database(&store.base(), &layered, report)?;
    files(manifest, &layered, report)?;
    labels(&store.layer(manifest.generation), report)
}

fn words<'a>(names: impl Iterator<Item = &'a Nevra>) -> String {
    let names: Vec<String> = names.map(ToString::to_string).collect();
    if names.is_empty() { "nothing".into() } else { names.join(" ") }
}

fn status(manifest: Option<&Manifest>, layered: &BTreeSet<Nevra>, report: &mut Report) -> Result<()> {
    let told = transaction::status()?;
    let packages: BTreeSet<Nevra> = told.status.packages.iter().map(|p| p.nevra.clone()).collect();
    let place = Path::new(model::status::STATUS_PATH);
    let generation = manifest.map_or(0, |m| m.generation);
    if told.status.generation != generation || &packages != layered {
        let show = |n: u64, p: &BTreeSet<Nevra>| format!("generation {n} with {}", words(p.iter()));
        let (expected, found) = (show(generation, layered), show(told.status.generation, &packages));
        let what = "the status tells something else than the records";
        report.find(Mismatch { promise: 5, what, place, expected, found, way_out: RESET });
    }
    Ok(())
}

fn origin(host: &Host, manifest: Option<&Manifest>, report: &mut Report) -> Result<()> {
    let place = Path::new(RUN_DIR).join("origin");
    let found = std::fs::read_to_string(&place).ok();
    let expected = manifest.map(|m| crate::origin::text(host, m));
    if found != expected {
        let show = |text: Option<String>| text.map_or("no file".into(), |t| t.replace('\n', " "));
        let (expected, found) = (show(expected), show(found));
        let what = "the transient origin is not that of the live generation";
        report.find(Mismatch { promise: 5, what, place: &place, expected, found, way_out: RESET });
    }
    Ok(())
}

/// The rpmdb that everybody sees has the layered packages besides those of the base, and no others.
fn database(base: &Path, layered: &BTreeSet<Nevra>, report: &mut Report) -> Result<()> {
    let seen = std::fs::canonicalize(bridge::librpm::expand("%{_dbpath}")?).context("Looking for the rpmdb")?;
    let below = seen.strip_prefix("/usr").with_context(|| format!("{} is not below /usr", seen.display()))?;
    let names = |path: Option<&Path>| -> Result<BTreeSet<Nevra>> {
        Ok(bridge::librpm::installed(path)?.into_iter().map(|p| p.nevra).collect())
    };
    let (now, before) = (names(None)?, names(Some(&base.join(below)))?);
    let added: BTreeSet<&Nevra> = now.difference(&before).collect();
    let missing: Vec<&Nevra> = layered.iter().filter(|n| !now.contains(n)).collect();
    let unknown: Vec<&Nevra> = added.iter().filter(|n| !layered.contains(**n)).copied().collect();
    if !missing.is_empty() || !unknown.is_empty() {
        let (expected, found) = (words(layered.iter()), words(added.into_iter()));
        let what = "the rpmdb has other packages than the records";
        report.find(Mismatch { promise: 5, what, place: &seen, expected, found, way_out: RESET });
    }
    Ok(())
}

fn files(manifest: &Manifest, layered: &BTreeSet<Nevra>, report: &mut Report) -> Result<()> {
    for file in bridge::librpm::altered(layered)? {
        // What lies elsewhere may be edited; see `outside`. What status tells as skipped is known.
        let ours = file.path.starts_with("/usr") || file.path.starts_with("/opt");
        if !ours || manifest.skipped.iter().any(|s| s.path == file.path) {
            continue;
        }
        report.find(Mismatch {
            promise: 5,
            what: "a file of the layer is not what its package brought",
            place: &file.path,
            expected: format!("the file of {}", file.package),
            found: if file.missing { "nothing".into() } else { "other content".into() },
            way_out: "uninstall the package and install it again; a scriptlet of its own may have changed the file",
        });
    }
    Ok(())
}

/// The attribute that SELinux reads.
const LABEL: &std::ffi::CStr = c"security.selinux";

fn labels(layer: &Path, report: &mut Report) -> Result<()> {
    // Where the kernel has no policy loaded, files have no labels.
    if !Path::new("/sys/fs/selinux/enforce").exists() {
        return Ok(());
    }
    let policy = ostree::SePolicy::new(&gio::File::for_path("/"), Cancellable::NONE).context("Reading the policy")?;
    if policy.name().is_none() {
        return Ok(());
    }
    compare_labels(&Tree::open(layer)?, report, &|path, mode| {
        // Defaults for /etc are labelled as what they are copied to.
        let path = path.strip_prefix("/usr").filter(|p| p.starts_with("/etc/")).unwrap_or(path);
        Ok(policy.label(path, mode, Cancellable::NONE)?.map(Into::into))
    })
}

/// What a policy says of a path of a given mode.
type Labels<'a> = dyn Fn(&str, u32) -> Result<Option<String>> + 'a;

fn compare_labels(tree: &Tree, report: &mut Report, labels: &Labels<'_>) -> Result<()> {
    for entry in tree.list()? {
        let path = Path::new("/usr").join(tree.join(&entry.name));
        let found = tree.attributes(Some(&entry.name))?.xattrs.get(LABEL).map(|v| {
            let text = String::from_utf8_lossy(v);
            text.trim_end_matches('\0').to_owned()
        });
        if let Some(path) = path.to_str()
            && let Some(expected) = labels(path, entry.stat.st_mode)?
            && found.as_ref() != Some(&expected)
        {
            report.find(Mismatch {
                promise: 5,
                what: "a file of the layer has another label than the policy gives it",
                place: Path::new(path),
                expected,
                found: found.unwrap_or_else(|| "no label".into()),
                way_out: "uninstall the package and install it again",
            });
        }
        if entry.is_dir() {
            compare_labels(&tree.enter(&entry.name)?, report, labels)?;
        }
    }
    Ok(())
}
