//! `dnf.conf` and `.repo` files with dnf's meaning: which repositories there are and how each is reached. Unknown
//! keys are ignored, as dnf does. Parsers take text; [`Config::read`] reads the directories.

use super::ini::{self, Section};
use super::vars::Vars;
use crate::glob::glob_matches;
use anyhow::{Context, Result};
use fn_error_context::context;
use model::{Code, Failure};
use std::collections::BTreeSet;
use std::path::Path;

/// A text that is never shown: passwords and addresses with one inside.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// For the library that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Secret(text.into())
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// One `[section]` of a `.repo` file with dnf.conf's defaults and variables applied.
#[derive(Clone, Default)]
pub struct RepoConfig {
    /// Section name.
    pub id: String,
    /// `enabled=`, after `--enablerepo` and `--disablerepo`.
    pub enabled: bool,
    /// `baseurl=`.
    pub baseurl: Vec<String>,
    /// `mirrorlist=`.
    pub mirrorlist: Option<String>,
    /// `metalink=`.
    pub metalink: Option<String>,
    /// `gpgcheck=`.
    pub gpgcheck: bool,
    /// `repo_gpgcheck=`.
    pub repo_gpgcheck: bool,
    /// `gpgkey=`.
    pub gpgkey: Vec<String>,
    /// `priority=`: smaller wins.
    pub priority: i32,
    /// `cost=`: smaller wins among equal priorities.
    pub cost: i32,
    /// `excludepkgs=` of the repository and of dnf.conf.
    pub exclude: Vec<String>,
    /// `includepkgs=` of the repository and of dnf.conf.
    pub include: Vec<String>,
    /// `sslverify=`.
    pub sslverify: bool,
    /// `sslcacert=`.
    pub sslcacert: Option<String>,
    /// `sslclientcert=`.
    pub sslclientcert: Option<String>,
    /// `sslclientkey=`.
    pub sslclientkey: Option<String>,
    /// `proxy=`; none also for `_none_`.
    pub proxy: Option<Secret>,
    /// `proxy_username:proxy_password`.
    pub proxy_userpwd: Option<Secret>,
    /// `username:password`.
    pub userpwd: Option<Secret>,
    /// `skip_if_unavailable=`.
    pub skip_if_unavailable: bool,
    /// `metadata_expire=` in seconds; none is never.
    pub metadata_expire: Option<u64>,
    /// `timeout=` in seconds.
    pub timeout: u64,
    /// `minrate=` in bytes a second.
    pub minrate: u64,
    /// `throttle=` in bytes a second; 0 is no limit.
    pub throttle: u64,
    /// `max_parallel_downloads=`.
    pub parallel: u64,
    /// `module_hotfixes=`.
    pub module_hotfixes: bool,
}

impl RepoConfig {
    /// The address to name in a message, without credentials.
    pub fn address(&self) -> String {
        let address = self.baseurl.first().or(self.metalink.as_ref()).or(self.mirrorlist.as_ref());
        redact(address.map_or("no address", String::as_str))
    }
}

impl std::fmt::Debug for RepoConfig {
    // Addresses may carry a password, so the derived form would leak it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RepoConfig").field("id", &self.id).field("address", &self.address()).finish_non_exhaustive()
    }
}

/// Removes `USER:PASSWORD@` from every address in a text.
pub fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        out.push_str(head);
        let end = tail.find(|c: char| c == '/' || c == '"' || c == '?' || c.is_whitespace()).unwrap_or(tail.len());
        rest = match tail[..end].rfind('@') {
            Some(user) => &tail[user + 1..],
            None => tail,
        };
    }
    out + rest
}

/// Splits a list at white space and commas; quotes hold an element together.
fn words(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    for c in text.chars() {
        match quote {
            Some(q) if c == q => quote = None,
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c.is_whitespace() || c == ',' => out.push(std::mem::take(&mut word)),
            _ => word.push(c),
        }
    }
    out.push(word);
    out.retain(|w| !w.is_empty());
    out
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "1" | "yes" | "true" | "on" | "enabled" => Some(true),
        "0" | "no" | "false" | "off" | "disabled" => Some(false),
        _ => None,
    }
}

/// Seconds, with `s`, `m`, `h`, `d`; `-1` and `never` are no limit (`Some(None)`).
fn seconds(text: &str) -> Option<Option<u64>> {
    if text == "-1" || text == "never" {
        return Some(None);
    }
    scaled(text, &[('s', 1), ('m', 60), ('h', 3600), ('d', 86400)]).map(Some)
}

fn bytes(text: &str) -> Option<u64> {
    scaled(text, &[('k', 1 << 10), ('m', 1 << 20), ('g', 1 << 30)])
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "checked")]
fn scaled(text: &str, units: &[(char, u64)]) -> Option<u64> {
    let text = text.trim().to_lowercase();
    let unit = units.iter().find(|(u, _)| text.ends_with(*u));
    let number: f64 = text.trim_end_matches(|c: char| c.is_alphabetic()).trim().parse().ok()?;
    let known = unit.is_some() || text.ends_with(|c: char| c.is_ascii_digit());
    (known && number.is_finite() && number >= 0.0).then(|| (number * unit.map_or(1, |u| u.1) as f64) as u64)
}

/// `[main]` of dnf.conf with `--setopt` on top, as far as it concerns us.
#[derive(Debug, Clone)]
pub(super) struct Main {
    section: Section,
    /// `install_weak_deps=`; off unless it is asked for.
    pub install_weak_deps: bool,
    /// `localpkg_gpgcheck=`.
    pub localpkg_gpgcheck: bool,
    /// `reposdir=`.
    pub reposdir: Vec<String>,
    /// `varsdir=`.
    pub varsdir: Vec<String>,
    /// Other sections of dnf.conf are repositories.
    repositories: Vec<Section>,
}

/// A value of the wrong form, as an error that names the key.
fn wrong(place: &str, key: &str, value: &str) -> anyhow::Error {
    Failure::new(Code::Usage, format!("{place}: {key}={value} has no meaning")).into()
}

impl Main {
    /// Reads the text of dnf.conf.
    pub fn parse(text: &str, setopts: &[(String, String)]) -> Result<Main> {
        let place = "/etc/dnf/dnf.conf";
        let sections = ini::parse(text).map_err(|e| Failure::new(Code::Usage, format!("{place}: {e}")))?;
        let (mains, repositories): (Vec<_>, Vec<_>) = sections.into_iter().partition(|s| s.name == "main");
        let mut section = Section { name: "main".into(), keys: mains.into_iter().flat_map(|s| s.keys).collect() };
        section.keys.extend(setopts.iter().filter(|(k, _)| !k.contains('.')).cloned());
        let flag = |key: &str| match section.get(key) {
            Some(v) => boolean(v).ok_or_else(|| wrong(place, key, v)),
            None => Ok(false),
        };
        let directories = |key: &str, default: &[&str]| match section.get(key) {
            Some(v) => words(v),
            None => default.iter().map(|&d| d.to_owned()).collect(),
        };
        Ok(Main {
            install_weak_deps: flag("install_weak_deps")?,
            localpkg_gpgcheck: flag("localpkg_gpgcheck")?,
            reposdir: directories("reposdir", &["/etc/yum.repos.d", "/etc/yum/repos.d", "/etc/distro.repos.d"]),
            varsdir: directories("varsdir", &["/etc/yum/vars", "/etc/dnf/vars"]),
            repositories,
            section,
        })
    }

    /// One repository: its own keys, then `[main]`'s, then dnf's defaults.
    pub fn repository(&self, own: &Section, setopts: &[(String, String)], vars: &Vars) -> Result<RepoConfig> {
        let id = vars.expand(&own.name);
        let mut own = own.clone();
        for (key, value) in setopts {
            if let Some((pattern, key)) = key.rsplit_once('.')
                && glob_matches(pattern, &id)
            {
                own.keys.push((key.into(), value.clone()));
            }
        }
        let place = format!("repository {id}");
        let own_text = |key: &str| own.get(key).map(|v| vars.expand(v)).filter(|v| !v.is_empty());
        let text = |key: &str| match own.get(key) {
            Some(v) => Some(vars.expand(v)).filter(|v| !v.is_empty()),
            None => self.section.get(key).map(|v| vars.expand(v)).filter(|v| !v.is_empty()),
        };
        let flag = |key: &str, default| match text(key) {
            Some(v) => boolean(&v).ok_or_else(|| wrong(&place, key, &v)),
            None => Ok(default),
        };
        let number = |key: &str, default: i32| match text(key) {
            Some(v) => v.parse().map_err(|_| wrong(&place, key, &v)),
            None => Ok(default),
        };
        let amount = |key: &str, default: u64, parse: &dyn Fn(&str) -> Option<u64>| match text(key) {
            Some(v) => parse(&v).ok_or_else(|| wrong(&place, key, &v)),
            None => Ok(default),
        };
        let list = |key: &str| own_text(key).map(|v| words(&v)).unwrap_or_default();
        // Patterns of [main] and of the repository add up.
        let patterns = |keys: &[&str]| {
            keys.iter()
                .flat_map(|k| [own_text(k), self.section.get(k).map(|v| vars.expand(v))])
                .flatten()
                .flat_map(|v| words(&v))
                .collect::<Vec<_>>()
        };
        let pair = |user: &str, password: &str| {
            text(user).map(|u| Secret(format!("{u}:{}", text(password).unwrap_or_default())))
        };
        // A metalink in `mirrorlist=` is one: dnf looks at the word in its address.
        let (mut mirrorlist, mut metalink) = (own_text("mirrorlist"), own_text("metalink"));
        if metalink.is_none() && mirrorlist.as_deref().is_some_and(|m| m.contains("metalink")) {
            metalink = mirrorlist.take();
        }
        Ok(RepoConfig {
            enabled: own_text("enabled")
                .map_or(Ok(true), |v| boolean(&v).ok_or_else(|| wrong(&place, "enabled", &v)))?,
            baseurl: list("baseurl"),
            mirrorlist,
            metalink,
            gpgcheck: flag("gpgcheck", false)?,
            repo_gpgcheck: flag("repo_gpgcheck", false)?,
            gpgkey: list("gpgkey"),
            priority: number("priority", 99)?,
            cost: number("cost", 1000)?,
            exclude: patterns(&["excludepkgs", "exclude"]),
            include: patterns(&["includepkgs"]),
            sslverify: flag("sslverify", true)?,
            sslcacert: text("sslcacert"),
            sslclientcert: text("sslclientcert"),
            sslclientkey: text("sslclientkey"),
            proxy: text("proxy").filter(|p| p != "_none_").map(Secret),
            proxy_userpwd: pair("proxy_username", "proxy_password"),
            userpwd: pair("username", "password"),
            skip_if_unavailable: flag("skip_if_unavailable", false)?,
            metadata_expire: match text("metadata_expire") {
                Some(v) => seconds(&v).ok_or_else(|| wrong(&place, "metadata_expire", &v))?,
                None => Some(172_800),
            },
            timeout: amount("timeout", 30, &|v| seconds(v).flatten())?,
            minrate: amount("minrate", 1000, &bytes)?,
            throttle: amount("throttle", 0, &bytes)?,
            parallel: amount("max_parallel_downloads", 3, &|v| v.parse().ok())?,
            module_hotfixes: flag("module_hotfixes", false)?,
            id,
        })
    }
}

/// Every repository that is configured below a root, enabled or not.
#[derive(Debug, Clone)]
pub(super) struct Config {
    /// In file order.
    pub repositories: Vec<RepoConfig>,
}

/// Keys of `[main]` alone that have an effect here.
const MAIN_KEYS: [&str; 4] = ["install_weak_deps", "localpkg_gpgcheck", "reposdir", "varsdir"];

/// Keys of a repository alone that have an effect here.
const OWN_KEYS: [&str; 5] = ["baseurl", "enabled", "gpgkey", "metalink", "mirrorlist"];

/// Keys that a repository has from `[main]` unless it has its own.
const SHARED_KEYS: [&str; 23] = [
    "cost",
    "exclude",
    "excludepkgs",
    "gpgcheck",
    "includepkgs",
    "max_parallel_downloads",
    "metadata_expire",
    "minrate",
    "module_hotfixes",
    "password",
    "priority",
    "proxy",
    "proxy_password",
    "proxy_username",
    "repo_gpgcheck",
    "skip_if_unavailable",
    "sslcacert",
    "sslclientcert",
    "sslclientkey",
    "sslverify",
    "throttle",
    "timeout",
    "username",
];

/// Files of dnf may say more than concerns us, but who types a setting wants its effect: one that has none is an error.
fn check_setopts(setopts: &[(String, String)]) -> Result<()> {
    for (name, _) in setopts {
        let (repository, key) = name.rsplit_once('.').map_or((None, name.as_str()), |(r, k)| (Some(r), k));
        let own: &[&str] = if repository.is_some() { &OWN_KEYS } else { &MAIN_KEYS };
        let known: BTreeSet<String> = own.iter().chain(&SHARED_KEYS).map(|&k| k.to_owned()).collect();
        if known.contains(key) {
            continue;
        }
        let failure = Failure::new(Code::Usage, format!("--setopt {name}: no setting {key} has an effect here"));
        let prefix = repository.map(|r| format!("{r}.")).unwrap_or_default();
        let hint = match super::near(&key.to_lowercase(), &known).first() {
            Some(near) => format!("did you mean {prefix}{near}?"),
            None if repository.is_none() && OWN_KEYS.contains(&key) => format!("name the repository: REPO.{key}"),
            None if MAIN_KEYS.contains(&key) => format!("it is one for all repositories: {key}"),
            None => format!("known are: {}", known.into_iter().collect::<Vec<_>>().join(", ")),
        };
        return Err(failure.hint(hint).into());
    }
    Ok(())
}

/// Reads dnf.conf below `root`; a host may have none.
#[context("Reading /etc/dnf/dnf.conf")]
pub(super) fn read_main(root: &Path, setopts: &[(String, String)]) -> Result<Main> {
    check_setopts(setopts)?;
    let text = match std::fs::read_to_string(root.join("etc/dnf/dnf.conf")) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(e.into()),
    };
    Main::parse(&text, setopts)
}

impl Config {
    /// Reads the repository files below `root`.
    pub fn read(root: &Path, main: &Main, vars: &Vars, options: &super::Options) -> Result<Config> {
        let mut sections = main.repositories.clone();
        for directory in &main.reposdir {
            let directory = root.join(directory.trim_start_matches('/'));
            let Ok(entries) = std::fs::read_dir(&directory) else { continue };
            let mut files: Vec<_> = entries.flatten().map(|e| e.path()).collect();
            files.retain(|p| p.extension().is_some_and(|e| e == "repo"));
            files.sort();
            for file in files {
                let text = std::fs::read_to_string(&file).with_context(|| format!("Reading {}", file.display()))?;
                let parsed =
                    ini::parse(&text).map_err(|e| Failure::new(Code::Usage, format!("{}: {e}", file.display())))?;
                sections.extend(parsed.into_iter().filter(|s| s.name != "main"));
            }
        }
        let mut repositories: Vec<RepoConfig> = Vec::new();
        for section in &sections {
            let mut repository = main.repository(section, &options.setopts, vars)?;
            repository.exclude.extend(options.exclude.iter().cloned());
            if !repositories.iter().any(|r| r.id == repository.id) {
                repositories.push(repository);
            }
        }
        for pattern in options.setopts.iter().filter_map(|(key, _)| Some(key.rsplit_once('.')?.0)) {
            if !repositories.iter().any(|r| glob_matches(pattern, &r.id)) && !is_glob(pattern) {
                return Err(unknown_repository(pattern, &repositories).into());
            }
        }
        switch(&mut repositories, options)?;
        for r in repositories.iter().filter(|r| r.enabled) {
            if r.baseurl.is_empty() && r.mirrorlist.is_none() && r.metalink.is_none() {
                let message = format!("repository {} has neither baseurl, mirrorlist nor metalink", r.id);
                return Err(Failure::new(Code::Usage, message).into());
            }
        }
        Ok(Config { repositories })
    }
}

fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '['])
}

fn unknown_repository(id: &str, repositories: &[RepoConfig]) -> Failure {
    let ids: Vec<_> = repositories.iter().map(|r| r.id.as_str()).collect();
    let failure = Failure::new(Code::Usage, format!("no repository is named {id}"));
    failure.hint(format!("configured are: {}", ids.join(", ")))
}

/// Applies `--disablerepo`, then `--enablerepo`. An id without wildcards that does not exist is an error.
fn switch(repositories: &mut [RepoConfig], options: &super::Options) -> Result<()> {
    for (words, enable) in [(&options.disable_repos, false), (&options.enable_repos, true)] {
        for pattern in words.iter().flat_map(|w| w.split(',')).map(str::trim).filter(|w| !w.is_empty()) {
            let mut found = false;
            for r in repositories.iter_mut().filter(|r| glob_matches(pattern, &r.id)) {
                r.enabled = enable;
                found = true;
            }
            if !found && !is_glob(pattern) {
                return Err(unknown_repository(pattern, repositories).into());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
