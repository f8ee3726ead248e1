//! Which files of the previous layer lose their last layered owner. Only files that cover one of the base matter, and
//! only when something goes; there are seldom any, and then the rpmdb is not even read.

use super::layer::in_rpmdb;
use crate::admit::{owned_paths, paths::Base};
use crate::fetch::FetchedPackage;
use crate::tree::Tree;
use anyhow::Result;
use bridge::librpm::InstalledPackage;
use fn_error_context::context;
use model::manifest::LayeredPackage;
use model::{Action, Nevra, Plan};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Paths below `/usr` for [`super::harvest_released`]. `layered` are the packages of the previous layer, whose rpmdb is
/// the live one.
///
/// # Errors
/// When the live rpmdb or a package cannot be read.
#[context("Finding files that no package owns any more")]
pub fn released(
    previous: Option<&Path>,
    base: &Path,
    plan: &Plan,
    layered: &[LayeredPackage],
    fetched: &[FetchedPackage],
) -> Result<Option<BTreeSet<PathBuf>>> {
    let gone = gone(plan);
    let Some(previous) = previous.filter(|_| !gone.is_empty()) else { return Ok(None) };
    let covering = covering(previous, base)?;
    if covering.is_empty() {
        return Ok(None);
    }
    let staying: BTreeSet<&Nevra> = layered.iter().map(|p| &p.nevra).filter(|n| !gone.contains(n)).collect();
    let installed = bridge::librpm::installed(None)?;
    let mut incoming = Vec::new();
    for package in fetched {
        incoming.extend(owned_paths(&package.path)?);
    }
    Ok(Some(choose(covering, &installed, &gone, &staying, &incoming, base)))
}

/// Packages that leave the layer, replaced ones included.
fn gone(plan: &Plan) -> BTreeSet<&Nevra> {
    let replaced = plan.install.iter().filter_map(|p| match &p.action {
        Action::Upgrade(from) | Action::Downgrade(from) => Some(from),
        Action::Reinstall => Some(&p.nevra),
        Action::Install => None,
    });
    plan.remove.iter().chain(replaced).collect()
}

/// Files of the layer that stand before one of the base.
fn covering(layer: &Path, base: &Path) -> Result<BTreeSet<PathBuf>> {
    fn walk(layer: &Tree, base: &Tree, found: &mut BTreeSet<PathBuf>) -> Result<()> {
        for entry in layer.list()? {
            if !entry.is_dir() {
                let there = base.entry(&entry.name)?;
                if there.is_some() && !in_rpmdb(&layer.path) {
                    found.insert(layer.join(&entry.name));
                }
            } else if let Some(below) = base.enter_if_dir(&entry.name)? {
                walk(&layer.enter(&entry.name)?, &below, found)?;
            }
        }
        Ok(())
    }
    let mut found = BTreeSet::new();
    walk(&Tree::open(layer)?, &Tree::open(base)?, &mut found)?;
    Ok(found)
}

/// Of the covering files, those that a package that goes owns and none that stays or comes.
fn choose(
    covering: BTreeSet<PathBuf>,
    installed: &[InstalledPackage],
    gone: &BTreeSet<&Nevra>,
    staying: &BTreeSet<&Nevra>,
    incoming: &[Vec<u8>],
    base: &Path,
) -> BTreeSet<PathBuf> {
    let mut base = Base::new(base, Path::new("/"));
    let mut place = |path: &[u8]| base.place(path, false).ok()?.strip_prefix("usr").ok().map(Path::to_path_buf);
    let mut owned_by = |packages: &BTreeSet<&Nevra>| -> BTreeSet<PathBuf> {
        let files = installed.iter().filter(|p| packages.contains(&p.nevra)).flat_map(|p| &p.files);
        files.filter_map(|f| place(f.as_os_str().as_bytes())).collect()
    };
    let (lost, mut kept) = (owned_by(gone), owned_by(staying));
    kept.extend(incoming.iter().filter_map(|f| place(f)));
    covering.into_iter().filter(|p| lost.contains(p) && !kept.contains(p)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_layered_owner_counts() {
        let tmp = tempfile::tempdir().unwrap();
        let (base, layer) = (tmp.path().join("base"), tmp.path().join("layer"));
        for root in [&base, &layer] {
            std::fs::create_dir_all(root.join("bin")).unwrap();
            std::fs::create_dir_all(root.join("share/rpm")).unwrap();
            for file in ["a", "b", "c", "d"] {
                std::fs::write(root.join("bin").join(file), file).unwrap();
            }
            std::fs::write(root.join("share/rpm/rpmdb.sqlite"), "").unwrap();
        }
        std::os::unix::fs::symlink("bin", base.join("sbin")).unwrap();
        std::fs::write(layer.join("bin/own"), "").unwrap();
        let covering = covering(&layer, &base).unwrap();
        assert_eq!(
            covering.iter().map(|p| p.to_str().unwrap()).collect::<Vec<_>>(),
            ["bin/a", "bin/b", "bin/c", "bin/d"]
        );
        let nevra = |n: &str| -> Nevra { format!("{n}-1-1.noarch").parse().unwrap() };
        let package = |n: &str, files: &[&str]| InstalledPackage {
            nevra: nevra(n),
            files: files.iter().map(PathBuf::from).collect(),
        };
        let installed = [
            package("goes", &["/usr/sbin/a", "/bin/b", "/usr/bin/c", "/usr/bin/own", "/etc/x"]),
            package("stays", &["/usr/bin/b", "/usr/bin/d"]),
            // The base owns its path too; that does not keep the layer's file.
            package("base", &["/usr/bin/a"]),
        ];
        let (goes, stays) = (nevra("goes"), nevra("stays"));
        let got = choose(
            covering,
            &installed,
            &BTreeSet::from([&goes]),
            &BTreeSet::from([&stays]),
            &[b"/usr/bin/c".to_vec()],
            &base,
        );
        assert_eq!(got, BTreeSet::from([PathBuf::from("bin/a")]));
    }
}
