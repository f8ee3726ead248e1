//! Raw words → a resolved request and options, as the engine takes them. Pure but for the existence of a file that
//! [`PackageArg::parse`] looks up.

use crate::args::{ApplyArgs, ChangeArgs, InstallArgs, RunArgs, UninstallArgs};
use anyhow::Result;
use engine::transaction::Options;
use model::{Code, Failure, PackageArg, Request};
use std::ffi::OsString;
use std::path::Path;

/// A change of the layered packages, ready for the engine.
#[derive(Debug, Clone)]
pub struct Change {
    /// What is asked.
    pub request: Request,
    /// How it is run.
    pub options: Options,
}

impl Change {
    /// `install` with its words sorted. `cwd` makes relative file names absolute; `typed` goes to the history.
    ///
    /// # Errors
    /// [`Code::Usage`] for a word that can never name a package.
    pub fn install(args: &InstallArgs, cwd: &Path, typed: &str) -> Result<Change> {
        let mut options = change_options(&args.change, typed);
        options.resolve.allow_inactive = args.allow_inactive;
        options.now = args.now;
        let request = Request {
            install: package_args(&args.packages, cwd)?,
            uninstall: args.uninstall.clone(),
            uninstall_all: false,
            declared: None,
        };
        Ok(Change { request, options })
    }

    /// `uninstall`, as [`Change::install`].
    ///
    /// # Errors
    /// [`Code::Usage`] for a word of `--install` that can never name a package.
    pub fn uninstall(args: &UninstallArgs, cwd: &Path, typed: &str) -> Result<Change> {
        let request = Request {
            install: package_args(&args.install, cwd)?,
            uninstall: args.packages.clone(),
            uninstall_all: args.all,
            declared: None,
        };
        Ok(Change { request, options: change_options(&args.change, typed) })
    }
}

/// The options of `rollback` and `reset`.
pub fn run_options(args: &RunArgs, typed: &str) -> Options {
    Options { dry_run: args.dry_run, wait: !args.no_wait, command: typed.to_owned(), ..Options::default() }
}

/// The options of `apply`.
pub fn apply_options(args: &ApplyArgs, typed: &str) -> Options {
    let resolve = engine::resolve::Options { cache_only: args.cache_only, ..engine::resolve::Options::default() };
    Options { resolve, ..run_options(&args.run, typed) }
}

fn change_options(args: &ChangeArgs, typed: &str) -> Options {
    Options {
        download_only: args.download_only,
        force_replace_files: args.force_replacefiles,
        force_unsafe: args.force_unsafe.iter().cloned().collect(),
        resolve: engine::resolve::Options {
            cache_only: args.cache_only,
            enable_repos: args.enablerepo.clone(),
            disable_repos: args.disablerepo.clone(),
            releasever: args.releasever.clone(),
            setopts: args.setopt.clone(),
            no_gpg_check: args.nogpgcheck,
            idempotent: args.idempotent,
            ..engine::resolve::Options::default()
        },
        ..run_options(&args.run, typed)
    }
}

fn package_args(words: &[String], cwd: &Path) -> Result<Vec<PackageArg>> {
    let parse = |w: &String| PackageArg::parse(w, cwd).map_err(|message| Failure::new(Code::Usage, message).into());
    words.iter().map(parse).collect()
}

/// What this program makes is readable by all and writable by root, whatever its caller's umask; what is for root alone
/// is made so explicitly. Calls that are handed on keep the umask of their caller.
pub fn own_umask() {
    rustix::process::umask(rustix::fs::Mode::WGRP | rustix::fs::Mode::WOTH);
}

/// A word without its secrets: the command line is kept where any user can read it.
fn without_secrets(word: String, is_setopt: bool) -> String {
    let setting = if is_setopt { Some(word.as_str()) } else { word.strip_prefix("--setopt=") };
    if let Some((key, _)) = setting.and_then(|s| s.split_once('=')) {
        let name = key.rsplit('.').next().unwrap_or(key).trim().to_ascii_lowercase();
        if ["password", "username", "token", "secret"].iter().any(|s| name.ends_with(s)) {
            return format!("{}{key}=***", if is_setopt { "" } else { "--setopt=" });
        }
    }
    let word = engine::resolve::redact(&word);
    // Addresses that were signed for one download carry the signature in their query.
    match word.split_once('?') {
        Some((address, _)) if address.contains("://") => format!("{address}?***"),
        _ => word,
    }
}

/// The command line as one would type it again, but for its secrets: the program's own name without its directory, and
/// words quoted where a shell needs that.
pub fn typed(argv: &[OsString]) -> String {
    let mut words: Vec<String> = Vec::with_capacity(argv.len());
    let mut is_setopt = false;
    for word in argv {
        let next_is_setopt = word == "--setopt";
        words.push(without_secrets(word.to_string_lossy().into_owned(), is_setopt));
        is_setopt = next_is_setopt;
    }
    if let Some(program) = words.first_mut() {
        *program = program.rsplit('/').next().unwrap_or_default().to_owned();
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+~^*?[]()".contains(c);
    let quote = |w: &String| match w {
        // Globs and provides in brackets stay readable; this text is for people.
        w if !w.is_empty() && w.chars().all(plain) => w.clone(),
        w => format!("'{}'", w.replace('\'', "'\\''")),
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_sorted_and_options_carried() {
        let args = InstallArgs {
            packages: vec!["a".into(), "./b.rpm".into(), "https://x/c.rpm".into()],
            uninstall: vec!["old".into()],
            allow_inactive: true,
            now: true,
            change: ChangeArgs {
                cache_only: true,
                idempotent: true,
                force_unsafe: vec!["kernel".into()],
                run: RunArgs { dry_run: true, no_wait: true, ..RunArgs::default() },
                ..ChangeArgs::default()
            },
        };
        let change = Change::install(&args, Path::new("/home"), "cmd").unwrap();
        assert_eq!(
            change.request.install,
            [
                PackageArg::Subject("a".into()),
                PackageArg::LocalFile("/home/./b.rpm".into()),
                PackageArg::Url("https://x/c.rpm".into())
            ]
        );
        assert_eq!(change.request.uninstall, ["old"]);
        let o = &change.options;
        assert!(o.dry_run && !o.wait && o.resolve.cache_only && o.resolve.allow_inactive && o.resolve.idempotent);
        assert!(o.now && o.force_unsafe.contains("kernel") && o.command == "cmd" && !o.resolve.no_deps);
    }

    #[test]
    fn a_group_is_a_usage_error() {
        let args = InstallArgs { packages: vec!["@core".into()], ..InstallArgs::default() };
        let error = Change::install(&args, Path::new("/"), "").unwrap_err();
        assert_eq!(error.downcast_ref::<Failure>().unwrap().code, Code::Usage);
    }

    #[test]
    fn typed_can_be_typed_again() {
        let line = |words: &[&str]| typed(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(line(&["/usr/bin/rpm-ostree", "install", "--transient", "a*"]), "rpm-ostree install --transient a*");
        assert_eq!(line(&["x", "a b", "it's", ""]), r"x 'a b' 'it'\''s' ''");
    }

    #[test]
    fn typed_keeps_no_secrets() {
        for (word, want) in [
            ("https://joe:hunter2@h/a.rpm", "https://h/a.rpm"),
            ("https://h/a.rpm?X-Signature=hunter2&x=1", "https://h/a.rpm?***"),
            ("--setopt=up.password=hunter2", "--setopt=up.password=***"),
            ("--setopt=proxy=http://joe:hunter2@h:1/", "--setopt=proxy=http://h:1/"),
            ("--setopt=up.excludepkgs=a", "--setopt=up.excludepkgs=a"),
            ("*?a", "*?a"),
        ] {
            assert_eq!(typed(&["x".into(), word.into()]), typed(&["x".into(), want.into()]));
        }
        let line = typed(&["x", "--setopt", "Proxy_Password=hunter2", "password=shown"].map(OsString::from));
        assert_eq!(line, "x --setopt Proxy_Password=*** password=shown");
    }
}
