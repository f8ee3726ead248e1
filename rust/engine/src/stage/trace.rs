//! Who changed what outside `/usr`: the upper directories of `/etc` and `/var` are looked at before and after each
//! scriptlet. What came up in between is the scriptlet's; what librpm unpacked is told by the packages' headers.

use super::sandbox::upper;
use crate::names::document_path;
use model::Cause;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// With more entries than this, looking after each scriptlet would take longer than the scriptlets: causes then are those
/// of the headers only.
const MOST: usize = 5000;

/// What was seen so far.
#[derive(Debug)]
pub(super) struct Trace {
    /// Names of the hierarchies that are looked at.
    hierarchies: &'static [&'static str],
    seen: HashMap<PathBuf, (u64, i64, i64)>,
    causes: BTreeMap<PathBuf, Cause>,
}

impl Trace {
    pub(super) fn new(hierarchies: &'static [&'static str]) -> Trace {
        Trace { hierarchies, seen: HashMap::new(), causes: BTreeMap::new() }
    }

    /// Notes what is new since the last look; `cause` is none for what librpm itself did.
    pub(super) fn look(&mut self, cause: Option<&Cause>) {
        if self.seen.len() > MOST {
            return;
        }
        for hierarchy in self.hierarchies {
            self.walk(&upper(hierarchy), Path::new(hierarchy), cause);
        }
    }

    fn walk(&mut self, dir: &Path, shown: &Path, cause: Option<&Cause>) {
        // A directory that cannot be read is harvested, or fails, later: here only the cause would be missing.
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            let path = shown.join(entry.file_name());
            let state = (meta.ino(), meta.ctime(), meta.ctime_nsec());
            let is_dir = meta.is_dir();
            let new = self.seen.insert(path.clone(), state);
            if let Some(cause) = cause
                && (new.is_none() || !is_dir && new != Some(state))
            {
                self.causes.insert(Path::new("/").join(document_path(&path)), cause.clone());
            }
            if is_dir && self.seen.len() <= MOST {
                self.walk(&entry.path(), &path, cause);
            }
        }
    }

    /// Absolute paths, safe for documents, and who made them.
    pub(super) fn causes(self) -> BTreeMap<PathBuf, Cause> {
        self.causes
    }
}
