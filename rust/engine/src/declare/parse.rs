//! One text → a [`Declaration`], or one line that says what is wrong, with file and line. Walks the document by hand: a
//! derived reader would name neither the line of a wrong value nor the key that was meant.

use crate::resolve::near;
use model::declaration::ADMIN;
use model::{Code, Declaration, Failure, Lifetime, PackageArg};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Most packages that one file may name.
pub const MAX_PACKAGES: usize = 256;
/// Most bytes of one package word.
const MAX_WORD: usize = 512;
/// Most characters of an owner.
const MAX_OWNER: usize = 64;
const KEYS: [&str; 3] = ["owner", "packages", "lifetime"];

/// The text with its name, for messages.
struct Source<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    /// `FILE:LINE: MESSAGE`.
    fn wrong(&self, at: usize, message: impl std::fmt::Display) -> Failure {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
        let text = format!("{}:{line}: {message}", self.file.display());
        Failure::new(Code::Usage, text)
    }

    fn text<'v>(&self, key: &str, value: &'v Spanned<DeValue<'_>>) -> Result<&'v str, Failure> {
        let found = value.get_ref();
        found
            .as_str()
            .ok_or_else(|| self.wrong(value.span().start, format!("{key} must be a string, not {}", kind(found))))
    }
}

/// What a reader calls a value of this type.
fn kind(value: &DeValue<'_>) -> &'static str {
    match value.type_str() {
        "array" => "a list",
        "integer" => "a number",
        "float" => "a number",
        "boolean" => "true or false",
        "table" => "a table",
        other => other,
    }
}

/// Parses the text of a declaration.
///
/// # Errors
/// [`Code::Usage`] with the owner, when the text tells it: syntax, an unknown key, a missing or wrong value, a bound that
/// is exceeded.
pub fn parse(file: &Path, text: &str) -> Result<Declaration, (Option<String>, Failure)> {
    let source = Source { file, text };
    let document = DeTable::parse(text).map_err(|e| {
        let message = e.message().lines().next().unwrap_or("not TOML").to_owned();
        (None, source.wrong(e.span().map_or(0, |s| s.start), message))
    })?;
    let table = document.get_ref();
    let owner = owner(&source, table).map_err(|e| (None, e))?;
    contents(&source, table, &owner).map_err(|e| (Some(owner.clone()), e))
}

fn owner(source: &Source<'_>, table: &DeTable<'_>) -> Result<String, Failure> {
    let Some(value) = table.get("owner") else {
        return Err(unknown_keys(source, table).err().unwrap_or_else(|| {
            source.wrong(0, "owner is missing").hint("owner = \"NAME\" says to whom the content belongs")
        }));
    };
    let owner = source.text("owner", value)?;
    let at = value.span().start;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._@:/-".contains(c);
    if owner.is_empty() || owner.len() > MAX_OWNER || !owner.chars().all(plain) {
        let message = format!("owner \"{}\" is not 1 to {MAX_OWNER} letters, digits or ._@:/-", owner.escape_default());
        return Err(source.wrong(at, message));
    }
    if owner == ADMIN {
        return Err(source.wrong(at, format!("owner \"{ADMIN}\" stands for the command line; take another name")));
    }
    Ok(owner.to_owned())
}

fn contents(source: &Source<'_>, table: &DeTable<'_>, owner: &str) -> Result<Declaration, Failure> {
    unknown_keys(source, table)?;
    let lifetime = match table.get("lifetime") {
        None => Lifetime::File,
        Some(value) => lifetime(source, value)?,
    };
    let Some(value) = table.get("packages") else {
        return Err(source.wrong(0, "nothing is declared: packages is missing"));
    };
    let Some(list) = value.get_ref().as_array() else {
        let message = format!("packages must be a list of strings, not {}", kind(value.get_ref()));
        return Err(source.wrong(value.span().start, message));
    };
    if list.is_empty() || list.len() > MAX_PACKAGES {
        let message = format!("packages has {} words; 1 to {MAX_PACKAGES} are possible", list.len());
        return Err(source.wrong(value.span().start, message));
    }
    let packages = list.iter().map(|word| package(source, word)).collect::<Result<_, _>>()?;
    Ok(Declaration { file: source.file.to_path_buf(), owner: owner.to_owned(), lifetime, packages })
}

fn unknown_keys(source: &Source<'_>, table: &DeTable<'_>) -> Result<(), Failure> {
    let unknown = table.keys().filter(|k| !KEYS.contains(&k.get_ref().as_ref()));
    let Some(key) = unknown.min_by_key(|k| k.span().start) else { return Ok(()) };
    let failure = source.wrong(key.span().start, format!("unknown key \"{}\"", key.get_ref().escape_default()));
    let near = near(key.get_ref(), &KEYS.map(str::to_owned).into());
    Err(failure.hint(match near.first() {
        Some(near) => format!("{near} is meant?"),
        None => format!("known are: {}", KEYS.join(", ")),
    }))
}

fn lifetime(source: &Source<'_>, value: &Spanned<DeValue<'_>>) -> Result<Lifetime, Failure> {
    let text = source.text("lifetime", value)?;
    let id = text.strip_prefix("container:").filter(|id| {
        // The names of directories are looked up by it.
        id.len() == 64 && id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    });
    id.map(|id| Lifetime::Container(id.to_owned())).ok_or_else(|| {
        let message = format!("lifetime \"{}\" is not container:ID with the full id", text.escape_default());
        source.wrong(value.span().start, message).hint("an id has 64 digits from 0 to f; podman ps --no-trunc shows it")
    })
}

fn package(source: &Source<'_>, value: &Spanned<DeValue<'_>>) -> Result<String, Failure> {
    let word = source.text("a package", value)?;
    let wrong = |message: String| source.wrong(value.span().start, message);
    if word.len() > MAX_WORD || word.trim() != word || word.contains(char::is_control) {
        return Err(wrong(format!(
            "\"{}\" is no package: spaces, control characters or too long",
            word.escape_default()
        )));
    }
    match PackageArg::parse(word, Path::new("/nonexistent")) {
        Err(message) => Err(wrong(message)),
        Ok(PackageArg::Url(_)) => {
            Err(wrong(format!("{word}: an address is not possible here; name a package or a file on the host")))
        }
        Ok(PackageArg::LocalFile(_)) if !word.starts_with('/') => {
            Err(wrong(format!("{word}: the path of a file must be absolute")))
        }
        Ok(_) => Ok(word.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad(text: &str) -> (Option<String>, String, Option<String>) {
        let (owner, failure) = parse(Path::new("/x.toml"), text).unwrap_err();
        (owner, failure.message, failure.hint)
    }

    #[test]
    fn reads_what_is_right() {
        let id = "0a".repeat(32);
        let text = format!(
            "# why\nowner = \"net.example/cni-2\"\nlifetime = \"container:{id}\"\npackages = [\n  \"strace\",\n  \
             'perl(Foo)', \"/run/x-1-1.noarch.rpm\", \"/usr/bin/tcpdump\",\n]\n"
        );
        let got = parse(Path::new("/x.toml"), &text).unwrap();
        assert_eq!((got.owner.as_str(), got.lifetime), ("net.example/cni-2", Lifetime::Container(id)));
        assert_eq!(got.packages, ["strace", "perl(Foo)", "/run/x-1-1.noarch.rpm", "/usr/bin/tcpdump"]);
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        for (text, owner, message, hint) in [
            (
                "owner = \"a\"\npakages = []",
                Some("a"),
                "/x.toml:2: unknown key \"pakages\"",
                Some("packages is meant?"),
            ),
            (
                "owner = \"a\"\nfrobnicate = 1",
                Some("a"),
                "/x.toml:2: unknown key",
                Some("known are: owner, packages, lifetime"),
            ),
            ("onwer = \"a\"", None, "/x.toml:1: unknown key \"onwer\"", Some("owner is meant?")),
            ("packages = [\"a\"]", None, "/x.toml:1: owner is missing", Some("owner = ")),
            ("owner = 1", None, "/x.toml:1: owner must be a string, not a number", None),
            ("owner = \"a b\"", None, "/x.toml:1: owner \"a b\" is not 1 to 64 letters", None),
            ("owner = \"admin\"\npackages = [\"a\"]", None, "/x.toml:1: owner \"admin\" stands for", None),
            ("\n\nowner = \"a\"\n", Some("a"), "/x.toml:1: nothing is declared", None),
            (
                "owner = \"a\"\n\npackages = \"b\"",
                Some("a"),
                "/x.toml:3: packages must be a list of strings, not string",
                None,
            ),
            ("owner = \"a\"\npackages = []", Some("a"), "/x.toml:2: packages has 0 words", None),
            (
                "owner = \"a\"\npackages = [\n\"b\",\n 7]",
                Some("a"),
                "/x.toml:4: a package must be a string, not a number",
                None,
            ),
            ("owner = \"a\"\npackages = [\"@core\"]", Some("a"), "/x.toml:2: \"@core\": package groups", None),
            (
                "owner = \"a\"\npackages = [\"https://h/x.rpm\"]",
                Some("a"),
                "/x.toml:2: https://h/x.rpm: an address",
                None,
            ),
            ("owner = \"a\"\npackages = [\"./x.rpm\"]", Some("a"), "/x.toml:2: ./x.rpm: the path of a file must", None),
            ("owner = \"a\"\npackages = [\"a\\nb\"]", Some("a"), "/x.toml:2: \"a\\nb\" is no package", None),
            (
                "owner = \"a\"\nlifetime = \"container:../x\"",
                Some("a"),
                "/x.toml:2: lifetime \"container:../x\"",
                Some("an id has 64"),
            ),
            ("owner = \"a\"\nowner = \"b\"", None, "/x.toml:2: duplicate key", None),
            ("owner = \"a\"\npackages = [\"b\"", None, "/x.toml:2: ", None),
        ] {
            let (got_owner, got, got_hint) = bad(text);
            assert_eq!(got_owner.as_deref(), owner, "{text}: {got}");
            assert!(got.starts_with(message), "{text}: {got}");
            match hint {
                None => assert_eq!(got_hint, None, "{text}"),
                Some(hint) => assert!(got_hint.as_ref().is_some_and(|h| h.starts_with(hint)), "{text}: {got_hint:?}"),
            }
        }
    }

    #[test]
    fn sizes_are_bounded() {
        let many = vec!["\"a\""; MAX_PACKAGES + 1].join(",");
        assert!(bad(&format!("owner = \"a\"\npackages = [{many}]")).1.contains("has 257 words"));
        let deep = format!("owner = {}1{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(bad(&deep).1.starts_with("/x.toml:1: "));
    }
}
