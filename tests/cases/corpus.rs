//! Where the corpus of real and hostile packages is. It is not part of the project; where it is absent this says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Folders of the corpus that hold packages.
const FOLDERS: [&str; 7] = ["distro", "thirdparty", "fixture", "zfs-el9/Packages", "maccel-fc43", "bad", "made"];

/// `$TRANSIENT_TEST_DATA`, or the place beside the project; says so when it is not there.
pub fn corpus() -> Option<PathBuf> {
    let dir = match std::env::var_os("TRANSIENT_TEST_DATA") {
        Some(dir) => PathBuf::from(dir),
        None => testkit::project().join("../shared/rpms"),
    };
    if !dir.join("distro").is_dir() {
        println!("skipped, because the corpus is not here");
        return None;
    }
    if std::env::consts::ARCH != "x86_64" {
        println!("skipped, because the corpus is for x86_64");
        return None;
    }
    Some(dir)
}

/// Package files of the corpus by their names in the table.
pub fn files(corpus: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    for folder in FOLDERS {
        for entry in std::fs::read_dir(corpus.join(folder)).unwrap_or_else(|e| panic!("{folder}: {e}")) {
            let path = entry.unwrap().path();
            if path.is_file() {
                found.insert(format!("{folder}/{}", path.file_name().unwrap().display()), path);
            }
        }
    }
    found
}
