//! The administrator's configuration: `rpm-ostree-transient.conf` and its drop-ins. [`KEYS`] is the one list of what can be
//! set; the manual page is made from it. Files are found as the UAPI group's configuration files specification says
//! (<https://uapi-group.org/specifications/specs/configuration_files_specification/>). Parsers take text; [`Config::read`]
//! reads the directories. Ways back (`reset`, `rollback`) never read it, so that a mistake here cannot block them.

use crate::generation::Limits;
use crate::resolve::{self, near};
use anyhow::{Context as _, Result};
use model::{Code, Failure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Name of the file in each of [`DIRECTORIES`]; `NAME.d/*.conf` are the drop-ins.
pub const NAME: &str = "rpm-ostree-transient.conf";

/// Where files are looked for; the first that has a name hides the same name in the others.
pub const DIRECTORIES: [&str; 3] = ["/etc", "/run", "/usr/lib"];

/// One key that can be set.
#[derive(Debug)]
pub struct Key {
    /// Left of `=`.
    pub name: &'static str,
    /// What can stand right of `=`.
    pub value: &'static str,
    /// What holds when the key is in no file.
    pub default: &'static str,
    /// What it does, in one paragraph.
    pub about: &'static str,
}

/// Every key.
pub const KEYS: [Key; 5] = [
    Key {
        name: "exclude",
        value: "NAME…",
        default: "none",
        about: "Packages of repositories that are never layered: names or globs, separated by spaces or commas. They add to \
                excludepkgs= of dnf.conf and of the repositories. A local file that is named on the command line is not excluded.",
    },
    Key {
        name: "memory-limit",
        value: "SIZE or PERCENT%",
        default: "50%",
        about: "How much memory the layer and its preparation may take: bytes, with K, M, G as multiples of 1024, or a \
                percentage of the machine's memory. It is fixed when the first package is layered; a new value holds after \
                reset or reboot.",
    },
    Key {
        name: "releasever",
        value: "VERSION",
        default: "of the host",
        about: "Value of $releasever in repository files. --releasever on the command line wins.",
    },
    Key {
        name: "require-signatures",
        value: "true or false",
        default: "false",
        about: "Every package must have a good signature by a trusted key, whatever gpgcheck= and localpkg_gpgcheck= say; \
                --nogpgcheck is refused.",
    },
    Key {
        name: "weak-deps",
        value: "true or false",
        default: "install_weak_deps= of dnf.conf, else false",
        about: "Layer also what packages recommend. --setopt install_weak_deps=… on the command line wins.",
    },
];

/// The most that the store's tmpfs may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    Bytes(u64),
    Percent(u64),
}

/// What the files say; a key that is in none has its default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    exclude: Vec<String>,
    memory: Option<Memory>,
    releasever: Option<String>,
    /// The file that demands it, for the message.
    require_signatures: Option<String>,
    weak_deps: Option<bool>,
}

impl Config {
    /// Reads the files below `root`. Later files win: the main file first, then the drop-ins by name.
    ///
    /// # Errors
    /// [`Code::Usage`] naming file and line, for a key or a value that has no meaning.
    pub fn read(root: &Path) -> Result<Config> {
        let mut config = Config::default();
        for file in files(root)? {
            let shown = Path::new("/").join(file.strip_prefix(root).unwrap_or(&file)).display().to_string();
            let bytes = std::fs::read(&file).with_context(|| format!("Reading {shown}"))?;
            let text = String::from_utf8(bytes).map_err(|_| mistake(&shown, 0, "is not UTF-8 text"))?;
            config.add(&text, &shown)?;
        }
        Ok(config)
    }

    /// Adds the text of one file.
    fn add(&mut self, text: &str, file: &str) -> Result<()> {
        let mut seen = BTreeSet::new();
        for (number, line) in text.lines().enumerate() {
            let (number, line) = (number + 1, line.trim());
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if line.starts_with('[') {
                return Err(mistake(file, number, "sections have no meaning here; keys stand alone").into());
            }
            let (key, value) =
                line.split_once('=').ok_or_else(|| mistake(file, number, &format!("\"{line}\" is not KEY = VALUE")))?;
            let (key, value) = (key.trim(), value.trim());
            self.set(key, value, file, number)?;
            if !seen.insert(key.to_owned()) {
                return Err(mistake(file, number, &format!("{key} is set twice in this file")).into());
            }
        }
        Ok(())
    }

    fn set(&mut self, key: &str, value: &str, file: &str, line: usize) -> Result<()> {
        let meaningless = || {
            let form = KEYS.iter().find(|k| k.name == key).map_or("", |k| k.value);
            mistake(file, line, &format!("{key} = {value} has no meaning")).hint(format!("{key} = {form}"))
        };
        let flag = || match value.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Ok(true),
            "false" | "no" | "off" | "0" => Ok(false),
            _ => Err(meaningless()),
        };
        match key {
            "exclude" => self.exclude = words(value),
            "memory-limit" => self.memory = Some(memory(value).ok_or_else(meaningless)?),
            "releasever" if !value.is_empty() && !value.contains(['/', ' ']) => self.releasever = Some(value.into()),
            "releasever" => return Err(meaningless().into()),
            "require-signatures" => self.require_signatures = flag()?.then(|| file.to_owned()),
            "weak-deps" => self.weak_deps = Some(flag()?),
            _ => {
                let known: BTreeSet<String> = KEYS.iter().map(|k| k.name.to_owned()).collect();
                // dnf.conf writes words with "_".
                let hint = match near(&key.to_ascii_lowercase().replace('_', "-"), &known).first() {
                    Some(name) => format!("did you mean {name}?"),
                    None => format!("keys are: {}", known.into_iter().collect::<Vec<_>>().join(", ")),
                };
                return Err(mistake(file, line, &format!("there is no key {key}")).hint(hint).into());
            }
        }
        Ok(())
    }

    /// The limits of a store that is made now.
    pub fn limits(&self) -> Limits {
        let machine = Limits::of_machine();
        let bytes = match self.memory {
            None => machine.bytes,
            Some(Memory::Bytes(bytes)) => bytes,
            // The limit of the machine is half of its memory.
            Some(Memory::Percent(percent)) => machine.bytes / 50 * percent,
        };
        Limits { bytes, ..machine }
    }

    /// Puts what is configured under what the command line says.
    ///
    /// # Errors
    /// [`Code::Usage`] when the command line asks for what the configuration forbids.
    pub fn apply(&self, options: &mut resolve::Options) -> Result<()> {
        if let Some(file) = &self.require_signatures {
            if options.no_gpg_check {
                let message = format!("--nogpgcheck is not allowed: {file} has require-signatures = true");
                return Err(Failure::new(Code::Usage, message)
                    .hint("add the key that signed the package to gpgkey= of its repository, or to /etc/pki/rpm-gpg")
                    .into());
            }
            options.require_signatures = true;
        }
        options.exclude.extend(self.exclude.iter().cloned());
        if options.releasever.is_none() {
            options.releasever.clone_from(&self.releasever);
        }
        if let Some(on) = self.weak_deps {
            // First, so that a later one of the command line wins.
            options.setopts.insert(0, ("install_weak_deps".into(), u8::from(on).to_string()));
        }
        Ok(())
    }
}

/// A mistake in a file; line 0 is the file as a whole.
fn mistake(file: &str, line: usize, what: &str) -> Failure {
    let message = if line == 0 { format!("{file} {what}") } else { format!("{file}, line {line}: {what}") };
    Failure::new(Code::Usage, message)
}

fn words(text: &str) -> Vec<String> {
    text.split([' ', '\t', ',']).filter(|w| !w.is_empty()).map(str::to_owned).collect()
}

/// A size of at least 1 MiB (a tmpfs of size 0 has no limit at all), or 1 to 100 percent.
fn memory(text: &str) -> Option<Memory> {
    if let Some(percent) = text.strip_suffix('%') {
        let percent = percent.trim().parse().ok()?;
        return (1..=100).contains(&percent).then_some(Memory::Percent(percent));
    }
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].trim().to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KIB" => 10,
        "M" | "MIB" => 20,
        "G" | "GIB" => 30,
        "T" | "TIB" => 40,
        _ => return None,
    };
    let bytes = digits.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    // Sizes are signed in the kernel.
    (1 << 20..=1 << 62).contains(&bytes).then_some(Memory::Bytes(bytes))
}

/// The files in the order in which they are read.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let directories = DIRECTORIES.map(|d| root.join(d.trim_start_matches('/')));
    let main = directories.iter().map(|d| d.join(NAME)).find(|p| p.symlink_metadata().is_ok());
    let mut drop_ins: BTreeMap<std::ffi::OsString, PathBuf> = BTreeMap::new();
    for directory in directories {
        let directory = directory.join(format!("{NAME}.d"));
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e).with_context(|| format!("Reading {}", directory.display())),
        };
        for entry in entries {
            let entry = entry.with_context(|| format!("Reading {}", directory.display()))?;
            if entry.path().extension().is_some_and(|e| e == "conf") {
                drop_ins.entry(entry.file_name()).or_insert(entry.path());
            }
        }
    }
    Ok(main.into_iter().chain(drop_ins.into_values()).collect())
}

#[cfg(test)]
mod tests;
