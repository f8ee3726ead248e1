//! Which drop-in files count, by systemd's rules: of files with one name in several directories the first directory wins,
//! and a link to /dev/null or an empty file there masks those below it. Files are taken in the order of their names.

use super::{container, parse};
use anyhow::{Context as _, Result};
use fn_error_context::context;
use model::failure::ErrorBody;
use model::{Code, Declaration, DeclaredObject, Failure, Lifetime, ObjectState};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Most bytes of one file.
pub const MAX_BYTES: u64 = 64 * 1024;
/// Most files in all directories together.
pub const MAX_FILES: usize = 1024;
const NAME: &str = "rpm-ostree-transient.d";

/// What the directories hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Valid and wanted, by file name.
    pub declarations: Vec<Declaration>,
    /// All others.
    pub others: Vec<DeclaredObject>,
}

/// The directories, first the one that wins. `usr` is the base's own `/usr`: what a layer brings declares nothing, as it
/// would ask for itself.
pub fn directories(root: &Path, usr: &Path) -> [PathBuf; 3] {
    [root.join("etc").join(NAME), root.join("run").join(NAME), usr.join("lib").join(NAME)]
}

/// Reads all declarations. `root` is where containers are looked up.
///
/// # Errors
/// [`Code::Usage`] for more than [`MAX_FILES`]; from the filesystem. What is wrong with one file is in its object.
pub fn read(root: &Path, directories: &[PathBuf]) -> Result<Found> {
    let mut found = Found::default();
    for path in files(directories)?.into_values() {
        let parsed = match text(&path) {
            Ok(None) => continue,
            Ok(Some(text)) => parse(&path, &text),
            Err(failure) => Err((None, failure)),
        };
        match parsed {
            Ok(d) => match &d.lifetime {
                Lifetime::Container(id) if !container::exists(root, id) => found.others.push(expired(d)),
                _ => found.declarations.push(d),
            },
            Err((owner, failure)) => found.others.push(refused(path, owner, vec![], &failure)),
        }
    }
    Ok(found)
}

/// The path that counts for each name.
fn files(directories: &[PathBuf]) -> Result<BTreeMap<String, PathBuf>> {
    let mut files = BTreeMap::new();
    for directory in directories {
        for name in names(directory)? {
            files.entry(name.clone()).or_insert_with(|| directory.join(name));
        }
    }
    if files.len() > MAX_FILES {
        let message = format!("{} declarations; at most {MAX_FILES} are possible", files.len());
        return Err(Failure::new(Code::Usage, message).into());
    }
    Ok(files)
}

#[context("Listing {}", directory.display())]
fn names(directory: &Path) -> Result<Vec<String>> {
    let entries = match std::fs::read_dir(directory) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(vec![]),
        other => other?,
    };
    let mut names = Vec::new();
    for entry in entries {
        // A name that is not UTF-8 cannot be told in a JSON document, and nobody writes one by intent.
        if let Ok(name) = entry?.file_name().into_string()
            && name.ends_with(".toml")
            && !name.starts_with('.')
        {
            names.push(name);
        }
    }
    Ok(names)
}

/// The text of a file; none when it masks.
fn text(path: &Path) -> Result<Option<String>, Failure> {
    let wrong = |why: String| Failure::new(Code::Usage, format!("{}: {why}", path.display()));
    if std::fs::read_link(path).is_ok_and(|target| target == Path::new("/dev/null")) {
        return Ok(None);
    }
    let read = || -> Result<(std::fs::Metadata, Vec<u8>)> {
        // Not blocking, for a named pipe.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).context("it cannot be opened")?;
        let metadata = file.metadata()?;
        let mut bytes = Vec::new();
        if metadata.is_file() {
            file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        }
        Ok((metadata, bytes))
    };
    let (metadata, bytes) = read().map_err(|e| wrong(format!("{e:#}")))?;
    if !metadata.is_file() {
        return Err(wrong("it is not a regular file".into()));
    }
    if metadata.uid() != 0 || metadata.mode() & 0o022 != 0 {
        return Err(wrong("others than root can write it".into()).hint("chown root, and chmod go-w"));
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(wrong(format!("it has more than {MAX_BYTES} bytes")));
    }
    if bytes.is_empty() {
        return Ok(None);
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8".into()))?;
    Ok(Some(text))
}

fn expired(d: Declaration) -> DeclaredObject {
    DeclaredObject {
        file: d.file,
        owner: Some(d.owner),
        state: ObjectState::Expired,
        packages: d.packages,
        error: None,
    }
}

/// The object of a file that is refused.
pub(crate) fn refused(
    file: PathBuf,
    owner: Option<String>,
    packages: Vec<String>,
    failure: &Failure,
) -> DeclaredObject {
    let error =
        ErrorBody { code: failure.code, message: failure.message.clone(), causes: vec![], hint: failure.hint.clone() };
    DeclaredObject { file, owner, state: ObjectState::Refused, packages, error: Some(error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    struct Dirs {
        root: tempfile::TempDir,
    }

    impl Dirs {
        fn new() -> Dirs {
            let root = tempfile::tempdir().unwrap();
            for dir in directories(root.path(), &root.path().join("usr")) {
                std::fs::create_dir_all(dir).unwrap();
            }
            Dirs { root }
        }

        fn path(&self, top: &str, name: &str) -> PathBuf {
            self.root.path().join(top).join(NAME).join(name)
        }

        fn write(&self, top: &str, name: &str, text: &str) {
            std::fs::write(self.path(top, name), text).unwrap();
            std::fs::set_permissions(self.path(top, name), std::fs::Permissions::from_mode(0o644)).unwrap();
        }

        fn read(&self) -> Found {
            read(self.root.path(), &directories(self.root.path(), &self.root.path().join("usr"))).unwrap()
        }

        /// `OWNER` of every valid file, in order.
        fn owners(&self) -> Vec<String> {
            self.read().declarations.into_iter().map(|d| d.owner).collect()
        }
    }

    fn of(owner: &str) -> String {
        format!("owner = \"{owner}\"\npackages = [\"p\"]\n")
    }

    #[test]
    fn the_first_directory_wins_and_names_give_the_order() {
        let d = Dirs::new();
        d.write("usr/lib", "50-b.toml", &of("usr"));
        d.write("run", "50-b.toml", &of("run"));
        d.write("run", "10-a.toml", &of("first"));
        assert_eq!(d.owners(), ["first", "run"]);
        d.write("etc", "50-b.toml", &of("etc"));
        assert_eq!(d.owners(), ["first", "etc"]);
        // Masked: by a link, and by an empty file.
        std::fs::remove_file(d.path("etc", "50-b.toml")).unwrap();
        symlink("/dev/null", d.path("etc", "50-b.toml")).unwrap();
        assert_eq!(d.owners(), ["first"]);
        d.write("etc", "10-a.toml", "");
        assert_eq!(d.read(), Found::default());
        for other in ["x.conf", ".x.toml", "x.toml~", "README"] {
            d.write("etc", other, &of("other"));
        }
        assert_eq!(d.read(), Found::default());
    }

    #[test]
    fn no_directory_is_no_declaration() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(read(root.path(), &directories(root.path(), &root.path().join("usr"))).unwrap(), Found::default());
    }

    #[test]
    fn one_bad_file_is_told_and_the_others_count() {
        let d = Dirs::new();
        d.write("etc", "a.toml", "owner = \"a\"\npackagse = []\n");
        d.write("etc", "b.toml", &of("b"));
        d.write("etc", "big.toml", &"#".repeat(MAX_BYTES as usize + 1));
        std::fs::write(d.path("etc", "latin.toml"), b"# \xe9\n").unwrap();
        d.write("etc", "open.toml", &of("open"));
        std::fs::set_permissions(d.path("etc", "open.toml"), std::fs::Permissions::from_mode(0o666)).unwrap();
        std::fs::create_dir(d.path("etc", "dir.toml")).unwrap();
        symlink("/nonexistent", d.path("etc", "gone.toml")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            d.path("etc", "pipe.toml"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o644),
            0,
        )
        .unwrap();
        let found = d.read();
        assert_eq!(found.declarations.len(), 1);
        let told: Vec<(Option<&str>, String)> = found
            .others
            .iter()
            .map(|o| {
                let message = &o.error.as_ref().unwrap().message;
                (o.owner.as_deref(), message.rsplit_once(".toml:").unwrap().1.trim().to_owned())
            })
            .collect();
        let told: Vec<(Option<&str>, &str)> = told.iter().map(|(o, m)| (*o, m.as_str())).collect();
        assert_eq!(
            told,
            [
                (Some("a"), "2: unknown key \"packagse\""),
                (None, "it has more than 65536 bytes"),
                (None, "it is not a regular file"),
                (None, "it cannot be opened: No such file or directory (os error 2)"),
                (None, "it is not UTF-8"),
                (None, "others than root can write it"),
                (None, "it is not a regular file"),
            ]
        );
    }

    #[test]
    fn an_object_ends_with_its_container() {
        let d = Dirs::new();
        let id = "12".repeat(32);
        d.write("run", "a.toml", &format!("{}lifetime = \"container:{id}\"\n", of("a")));
        let found = d.read();
        assert!(found.declarations.is_empty());
        assert_eq!((found.others[0].state, found.others[0].owner.as_deref()), (ObjectState::Expired, Some("a")));
        let container = d.root.path().join("var/lib/containers/storage/overlay-containers").join(&id);
        std::fs::create_dir_all(&container).unwrap();
        assert_eq!(d.owners(), ["a"]);
        std::fs::remove_dir(container).unwrap();
        assert!(d.owners().is_empty());
    }

    #[test]
    fn the_number_of_files_is_bounded() {
        let d = Dirs::new();
        for n in 0..=MAX_FILES {
            d.write("run", &format!("{n}.toml"), "");
        }
        let error = read(d.root.path(), &directories(d.root.path(), d.root.path())).unwrap_err();
        assert!(error.to_string().starts_with("1025 declarations"), "{error:#}");
    }
}
