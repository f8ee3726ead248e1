//! Commands of the layer that go through `/etc/alternatives` and lead nowhere: their package asked a tool for the link
//! that this host does not have, or that failed. The user is told of each, as the command is there and does not work.

use crate::names::document_path;
use crate::tree::Tree;
use anyhow::Result;
use fn_error_context::context;
use model::NotApplied;
use rustix::fs::FileType;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

const DIRECTORY: &str = "/etc/alternatives";

/// One entry for each such link of the layer. `root` is the host's `/`.
#[context("Looking for alternatives that lead nowhere")]
pub(super) fn dangling(layer: &Path, root: &Path) -> Result<Vec<NotApplied>> {
    let mut found = Vec::new();
    walk(&Tree::open(layer)?, layer, root, &mut found)?;
    Ok(found)
}

fn walk(dir: &Tree, layer: &Path, root: &Path, found: &mut Vec<NotApplied>) -> Result<()> {
    for entry in dir.list()? {
        let name = &entry.name;
        if entry.is_dir() {
            walk(&dir.enter(name)?, layer, root, found)?;
        } else if entry.kind() == FileType::Symlink {
            let target = dir.readlink(name)?;
            let target = Path::new(OsStr::from_bytes(target.as_bytes()));
            let Ok(below) = target.strip_prefix(DIRECTORY) else { continue };
            // What the packages bring for /etc is in the layer's etc.
            let there = [layer.join("etc/alternatives"), root.join("etc/alternatives")];
            if !there.iter().any(|d| d.join(below).symlink_metadata().is_ok()) {
                let link = Path::new("/usr").join(document_path(&dir.join(name)));
                let what = format!(
                    "{} is a link to {}, which is not there",
                    link.display(),
                    Path::new(DIRECTORY).join(document_path(below)).display()
                );
                found.push(NotApplied { package: None, slot: None, what });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_links_that_lead_nowhere_are_told() {
        let tmp = tempfile::tempdir().unwrap();
        let (layer, root) = (tmp.path().join("layer"), tmp.path().join("root"));
        for dir in [layer.join("bin"), layer.join("etc/alternatives"), root.join("etc/alternatives")] {
            std::fs::create_dir_all(dir).unwrap();
        }
        symlink("/usr/bin/x-1", layer.join("etc/alternatives/x")).unwrap();
        symlink("/usr/bin/y-1", root.join("etc/alternatives/y")).unwrap();
        for name in ["x", "y", "z"] {
            symlink(format!("/etc/alternatives/{name}"), layer.join("bin").join(name)).unwrap();
        }
        symlink("/nowhere", layer.join("bin/other")).unwrap();
        let found = dangling(&layer, &root).unwrap();
        let what: Vec<&str> = found.iter().map(|n| n.what.as_str()).collect();
        assert_eq!(what, ["/usr/bin/z is a link to /etc/alternatives/z, which is not there"]);
    }
}
