//! Declarations: drop-in files in which owners say what the host is to have. [`read`] finds the files that count, [`parse`]
//! makes a value of one text, [`container`] tells whether a container still exists. What they come to together is a
//! [`Request`]; carrying it out is the work of `transaction::apply`.

mod container;
mod parse;
mod read;

pub use parse::{MAX_PACKAGES, parse};
pub(crate) use read::refused;
pub use read::{Found, MAX_BYTES, MAX_FILES, directories, read};

use crate::resolve;
use model::manifest::Requested;
use model::{Code, Declaration, Declared, Failure, PackageArg, Request};
use std::collections::BTreeMap;
use std::path::Path;

/// What these declarations ask of a host that has `requested`: new words to install, and who wants what. A word that was
/// answered before is not asked again, so that `apply` upgrades nothing by itself; a local file is, as its content may
/// be another.
///
/// # Errors
/// [`Code::Usage`] for a word that can name no package; [`parse`] refuses those.
pub fn request(declarations: &[&Declaration], requested: &[Requested]) -> Result<Request, Failure> {
    let mut declared = Declared::default();
    let mut install: BTreeMap<String, PackageArg> = BTreeMap::new();
    for declaration in declarations {
        for word in &declaration.packages {
            let arg = PackageArg::parse(word, Path::new("/")).map_err(|m| Failure::new(Code::Usage, m))?;
            let key = resolve::word_of(&arg);
            declared.owners.entry(key.clone()).or_default().insert(declaration.owner.clone());
            if matches!(arg, PackageArg::LocalFile(_)) || !requested.iter().any(|r| r.word == key) {
                install.insert(word.clone(), arg);
            }
        }
    }
    Ok(Request { install: install.into_values().collect(), declared: Some(declared), ..Request::default() })
}

/// True when the failure is that of an object, and not of the host, its repositories or its memory.
pub fn is_of_object(code: Code) -> bool {
    matches!(
        code,
        Code::NotFound
            | Code::Unsolvable
            | Code::BaseConflict
            | Code::Refused
            | Code::Scriptlet
            | Code::FileConflict
            | Code::Untrusted
            | Code::Checksum
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Lifetime;

    #[test]
    fn asks_for_new_words_and_files_only() {
        let of = |owner: &str, packages: &[&str]| Declaration {
            file: format!("/etc/{owner}.toml").into(),
            owner: owner.into(),
            lifetime: Lifetime::File,
            packages: packages.iter().map(|&p| p.into()).collect(),
        };
        let (a, b) = (of("a", &["strace", "/run/x-1-1.noarch.rpm"]), of("b", &["strace", "tcpdump"]));
        let known =
            |word: &str| Requested { word: word.into(), name: word.into(), local: false, owners: vec!["a".into()] };
        let got = request(&[&a, &b], &[known("strace"), known("x-1-1.noarch.rpm"), known("gone")]).unwrap();
        assert_eq!(
            got.install,
            [PackageArg::LocalFile("/run/x-1-1.noarch.rpm".into()), PackageArg::Subject("tcpdump".into())]
        );
        let owners = got.declared.unwrap().owners;
        assert_eq!(owners["strace"].iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(owners["x-1-1.noarch.rpm"].iter().collect::<Vec<_>>(), ["a"]);
        assert!(!owners.contains_key("gone") && got.uninstall.is_empty());
    }
}
