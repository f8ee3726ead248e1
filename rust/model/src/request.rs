//! What the user asked for, before anything was looked up.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One argument of `install`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "value")]
pub enum PackageArg {
    /// Name, name-version, NEVRA, glob, provide or absolute file path: the resolver decides, as dnf does.
    Subject(String),
    /// A local RPM file (`./x.rpm`), as an absolute path.
    LocalFile(PathBuf),
    /// An RPM file at an `http://`, `https://` or `file://` address.
    Url(String),
}

impl PackageArg {
    /// Sorts one command-line word. `cwd` makes relative file names absolute. An absolute path is a
    /// local RPM only when it ends in `.rpm`; else it is a file that some package must provide.
    /// `@group` is refused: the `Err` is the message.
    pub fn parse(word: &str, cwd: &std::path::Path) -> Result<Self, String> {
        if word.is_empty() || word.contains('\0') {
            return Err("a package argument is empty".into());
        }
        if let Some(group) = word.strip_prefix('@') {
            return Err(format!("\"@{group}\": package groups are not supported; name the packages"));
        }
        if ["http://", "https://", "ftp://", "file://"].iter().any(|s| word.starts_with(s)) {
            return Ok(PackageArg::Url(word.into()));
        }
        if word.ends_with(".rpm") && (word.contains('/') || cwd.join(word).exists()) {
            return Ok(PackageArg::LocalFile(cwd.join(word)));
        }
        Ok(PackageArg::Subject(word.into()))
    }
}

impl std::fmt::Display for PackageArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PackageArg::Subject(s) | PackageArg::Url(s) => f.write_str(s),
            PackageArg::LocalFile(p) => write!(f, "{}", p.display()),
        }
    }
}

/// One change of the layered package set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// To install (or upgrade/downgrade to).
    pub install: Vec<PackageArg>,
    /// Layered packages to remove, by name or NEVRA.
    pub uninstall: Vec<String>,
    /// Remove every layered package.
    pub uninstall_all: bool,
    /// From `apply`: all that is declared. What was declared before and is not any more goes, unless something needs it.
    #[serde(default)]
    pub declared: Option<crate::declaration::Declared>,
}
