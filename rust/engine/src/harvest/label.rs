//! SELinux labels of what a layer brings: those that the host's policy has for the path at which a file will be seen. The
//! sandbox made them with whatever label the caller of this program gives. Directories that the base has keep the base's,
//! which harvesting has seen to. A host without a policy gets no labels.

use crate::generation::Content;
use crate::tree::{Entry, Tree};
use anyhow::{Context as _, Result};
use fn_error_context::context;
use gio::Cancellable;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Labels the content of a new generation.
///
/// # Errors
/// When the policy cannot be read, or a label cannot be set.
#[context("Labelling the layer")]
pub fn label(root: &Path, base: &Path, content: &Content) -> Result<()> {
    let policy = ostree::SePolicy::new(&gio::File::for_path(root), Cancellable::NONE).context("Reading the policy")?;
    if policy.name().is_none() {
        return Ok(());
    }
    let labels = Labels { policy, key: CString::new("security.selinux")? };
    let (layer, base) = (Tree::open(&content.layer)?, Tree::open(base)?);
    // The layer's /usr/etc is what /etc is copied from, and labelled as that; ostree does the same with a base.
    for entry in layer.list()? {
        let of = if entry.name.as_c_str() == c"etc" {
            Path::new("/etc")
        } else {
            &Path::new("/usr").join(layer.join(&entry.name))
        };
        labels.entry(&layer, &entry, Some(&base), of)?;
    }
    if content.var.is_dir() {
        let host = Tree::open(root)?.enter_if_dir(&CString::new("var")?)?;
        labels.tree(&Tree::open(&content.var)?, host.as_ref(), Path::new("/var"))?;
    }
    if content.linker_cache.exists() {
        let parent = content.linker_cache.parent().context("no parent")?;
        let name = CString::new(content.linker_cache.file_name().context("no name")?.as_bytes())?;
        labels.set(&Tree::open(parent)?, &name, Path::new("/etc/ld.so.cache"), 0o100_644)?;
    }
    Ok(())
}

struct Labels {
    policy: ostree::SePolicy,
    key: CString,
}

impl Labels {
    /// Everything below a directory. `there` is the same directory without the layer, when there is one.
    fn tree(&self, tree: &Tree, there: Option<&Tree>, path: &Path) -> Result<()> {
        for entry in tree.list()? {
            let path = path.join(OsStr::from_bytes(entry.name.as_bytes()));
            self.entry(tree, &entry, there, &path)?;
        }
        Ok(())
    }

    fn entry(&self, tree: &Tree, entry: &Entry, there: Option<&Tree>, path: &Path) -> Result<()> {
        let below = there.map_or(Ok(None), |t| if entry.is_dir() { t.enter_if_dir(&entry.name) } else { Ok(None) })?;
        if below.is_none() {
            self.set(tree, &entry.name, path, entry.stat.st_mode)?;
        }
        if entry.is_dir() {
            self.tree(&tree.enter(&entry.name)?, below.as_ref(), path)?;
        }
        Ok(())
    }

    fn set(&self, tree: &Tree, name: &CString, path: &Path, mode: u32) -> Result<()> {
        // A policy has no rule for a path that is not UTF-8.
        let Some(path) = path.to_str() else { return Ok(()) };
        if let Some(label) = self.policy.label(path, mode, Cancellable::NONE)? {
            let value = CString::new(label.as_str())?;
            tree.set_xattr(Some(name), &self.key, value.as_bytes_with_nul())?;
        }
        Ok(())
    }
}
