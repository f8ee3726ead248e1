//! Two file operations that every state file needs. Anything larger belongs to the module that owns the file.

use anyhow::{Context as _, Result};
use cap_std_ext::cap_std::ambient_authority;
use cap_std_ext::cap_std::fs::{Dir, Permissions, PermissionsExt as _};
use cap_std_ext::dirext::CapStdExtDirExt as _;
use std::path::Path;

/// Writes a file through a temporary name, whole or not at all, with exactly this mode whatever the umask.
///
/// # Errors
/// From the filesystem, naming the path.
pub fn write(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let write = || -> Result<()> {
        let (parent, name) = (path.parent().context("no parent")?, path.file_name().context("no name")?);
        let dir = Dir::open_ambient_dir(parent, ambient_authority())?;
        Ok(dir.atomic_write_with_perms(name, content, Permissions::from_mode(mode))?)
    };
    write().with_context(|| format!("Writing {}", path.display()))
}

/// Removes a file; one that is not there is fine.
///
/// # Errors
/// From the filesystem, naming the path.
pub fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("Removing {}", path.display()))
        }
        _ => Ok(()),
    }
}
