//! The front end: words in, text or JSON and an exit status out. The engine decides and acts; nothing here mounts,
//! solves or reads packages. [`args`] is what can be typed, [`settings`] what it means, [`commands`] one file a verb,
//! [`render`] text for people, [`stream`] progress for
//! programs, [`exit`] what a failure looks like, [`journal`] the entry of each change, [`wrapper`] the door named `rpm-ostree`.

pub mod args;
pub mod commands;
pub mod exit;
pub mod journal;
pub mod output;
pub mod progress;
pub mod render;
pub mod settings;
pub mod stream;
pub mod wrapper;

use args::Cli;
use clap::{CommandFactory as _, FromArgMatches as _};
use exit::Report;
use output::Output;
use std::ffi::{OsStr, OsString};
use std::panic::AssertUnwindSafe;

/// Runs one command line, `argv[0]` included, and returns the exit status. Under the name `rpm-ostree` it may not
/// return at all: calls that are not ours are handed on with `exec`.
pub fn run(argv: Vec<OsString>) -> u8 {
    // First of all: the worker enters new namespaces and must have a single thread.
    if argv.get(1).is_some_and(|a| a == engine::stage::WORKER_COMMAND) {
        return engine::stage::worker_main();
    }
    #[cfg(feature = "test-hooks")]
    let _scenario = fail::FailScenario::setup();
    let typed = settings::typed(&argv);
    match program_name(&argv) {
        Some("rpm-ostree") => match wrapper::run(&argv) {
            wrapper::Outcome::Exit(status) => status,
            wrapper::Outcome::Ours(rest) => ours("rpm-ostree --transient", rest, &typed),
        },
        Some("ostree-transient") => ours("ostree transient", argv.into_iter().skip(1).collect(), &typed),
        _ => ours(args::NAME, argv.into_iter().skip(1).collect(), &typed),
    }
}

/// The last part of `argv[0]`.
fn program_name(argv: &[OsString]) -> Option<&str> {
    std::path::Path::new(argv.first()?).file_name()?.to_str()
}

/// Parses and runs one of our own verbs. `called_as` is what usage lines show.
fn ours(called_as: &str, rest: Vec<OsString>, typed: &str) -> u8 {
    let wants_json = asks_for_json(&rest);
    let output = Output::new(wants_json);
    let words = std::iter::once(OsString::from(called_as)).chain(rest);
    let parsed = Cli::command()
        .bin_name(called_as)
        .try_get_matches_from(words)
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return usage(&error, &output),
    };
    exit::install_panic_hook();
    settings::own_umask();
    let logged = cli.verb.changes_host();
    let log = |status, error: Option<&Report>| {
        if logged {
            let error = error.map(|r| r.message.as_str());
            journal::write(&journal::Ending { command: typed, status, error });
        }
    };
    let work = || {
        if let Some(fd) = cli.verb.progress_fd() {
            stream::start(fd, typed)?;
        }
        commands::run(cli, typed, &output)
    };
    let report = match std::panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(status)) => {
            log(status, None);
            stream::done(status);
            return status;
        }
        Ok(Err(error)) => Report::from_error(&error),
        Err(_) => Report::from_panic(),
    };
    log(report.status(), Some(&report));
    output.failure(&report);
    stream::done(report.status());
    report.status()
}

/// Help and version go out as clap wrote them; a usage error also as JSON where JSON was asked for.
fn usage(error: &clap::Error, output: &Output) -> u8 {
    if error.use_stderr() && output.json() {
        let report = Report::from_usage(&error.to_string());
        output.failure(&report);
        return report.status();
    }
    // A closed pipe is no reason to fail: the reader has what it wanted.
    let _ = error.print();
    u8::try_from(error.exit_code()).unwrap_or(2)
}

/// True when `--json` stands before `--`. Looked up before parsing, as parsing itself may fail.
fn asks_for_json(words: &[OsString]) -> bool {
    words.iter().take_while(|w| *w != OsStr::new("--")).any(|w| w == OsStr::new("--json"))
}
