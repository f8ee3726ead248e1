//! Variables of repository files: `$releasever`, `$basearch`, `$arch` and those of the vars directories.

use std::collections::BTreeMap;
use std::path::Path;

/// Names without `$`, and their values.
#[derive(Debug, Clone, Default)]
pub(super) struct Vars(pub BTreeMap<String, String>);

impl Vars {
    /// The variables of the vars directories below `root`; later directories win.
    pub fn read(root: &Path, directories: &[String]) -> Vars {
        let mut vars = BTreeMap::new();
        for directory in directories {
            let Ok(entries) = std::fs::read_dir(root.join(directory.trim_start_matches('/'))) else { continue };
            for entry in entries.flatten() {
                if let (Ok(name), Ok(text)) = (entry.file_name().into_string(), std::fs::read_to_string(entry.path())) {
                    vars.insert(name, text.lines().next().unwrap_or_default().trim().to_owned());
                }
            }
        }
        Vars(vars)
    }

    /// Replaces `$name`, `${name}`, `${name:-default}` and `${name:+other}`. An unknown variable stays as it is.
    pub fn expand(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let tail = &rest[at + 1..];
            match self.one(tail) {
                Some((value, used)) => {
                    out.push_str(&value);
                    rest = &tail[used..];
                }
                None => {
                    out.push('$');
                    rest = tail;
                }
            }
        }
        out + rest
    }

    /// The value of the variable that `tail` starts with, and how many bytes it takes.
    fn one(&self, tail: &str) -> Option<(String, usize)> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let Some(braced) = tail.strip_prefix('{') else {
            let end = tail.find(|c| !is_name(c)).unwrap_or(tail.len());
            return self.0.get(&tail[..end]).map(|v| (v.clone(), end));
        };
        let mut depth = 1;
        let close = braced.char_indices().find_map(|(i, c)| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            (depth == 0).then_some(i)
        })?;
        let (inner, used) = (&braced[..close], close + 2);
        let end = inner.find(|c| !is_name(c)).unwrap_or(inner.len());
        let value = self.0.get(&inner[..end]);
        let set = value.filter(|v| !v.is_empty());
        match &inner[end..] {
            "" => value.map(|v| (v.clone(), used)),
            other => {
                if let Some(default) = other.strip_prefix(":-") {
                    Some((set.cloned().unwrap_or_else(|| self.expand(default)), used))
                } else {
                    let alternative = other.strip_prefix(":+")?;
                    Some((if set.is_some() { self.expand(alternative) } else { String::new() }, used))
                }
            }
        }
    }
}

/// `$basearch` of an RPM architecture, as dnf maps it.
pub(super) fn basearch(arch: &str) -> &str {
    match arch {
        "i386" | "i486" | "i586" | "i686" | "athlon" | "geode" => "i386",
        "x86_64_v2" | "x86_64_v3" | "x86_64_v4" | "amd64" | "ia32e" => "x86_64",
        "armv6hl" => "armv6hl",
        "armv7hl" | "armv7hnl" | "armv8hl" => "armhfp",
        "armv5tejl" | "armv5tel" | "armv5tl" | "armv6l" | "armv7l" | "armv8l" => "arm",
        "ppc64p7" | "ppc64pseries" | "ppc64iseries" => "ppc64",
        other => other,
    }
}

/// `VERSION_ID` of an os-release file.
pub(super) fn version_id(os_release: &str) -> Option<String> {
    let line = os_release.lines().find_map(|l| l.trim().strip_prefix("VERSION_ID="))?;
    Some(line.trim_matches(['"', '\'']).to_owned()).filter(|v| !v.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expands_every_form() {
        let vars = Vars(
            [("releasever", "9"), ("basearch", "x86_64"), ("empty", ""), ("a_b", "c")]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into(),
        );
        for (text, expected) in [
            ("http://h/$releasever/$basearch/os", "http://h/9/x86_64/os"),
            ("${releasever}-stream", "9-stream"),
            ("$a_b.$unknown$", "c.$unknown$"),
            ("${unknown}", "${unknown}"),
            ("${unknown:-d}", "d"),
            ("${empty:-$basearch}", "x86_64"),
            ("${releasever:+el$releasever}", "el9"),
            ("${empty:+x}", ""),
            ("${unknown:-${releasever:-8}}", "9"),
            ("${open", "${open"),
            ("no variable", "no variable"),
        ] {
            assert_eq!(vars.expand(text), expected, "{text}");
        }
    }

    #[test]
    fn reads_version_id() {
        assert_eq!(version_id("ID=x\nVERSION_ID=\"9.4\"\n").as_deref(), Some("9.4"));
        assert_eq!(version_id("VERSION=3\n"), None);
    }
}
