//! docs/parity.md against the program: every option is in the tables, and each row is as the program behaves.

use clap::CommandFactory as _;
use rpm_ostree_transient::args::Cli;
use std::collections::BTreeSet;

const TABLES: &str = include_str!("../../../docs/parity.md");

/// Verb, option without dashes, what the table says.
fn rows() -> Vec<(String, String, String)> {
    let mut verb = String::new();
    let mut rows = Vec::new();
    for line in TABLES.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            verb = heading.to_owned();
        } else if let Some(row) = line.strip_prefix("| `--") {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            rows.push((verb.clone(), cells[0].trim_end_matches('`').to_owned(), cells[2].to_owned()));
        }
    }
    rows
}

#[test]
fn the_tables_are_those_of_the_program() {
    let command = Cli::command();
    let rows = rows();
    let verbs: BTreeSet<&str> = rows.iter().map(|(verb, ..)| verb.as_str()).collect();
    assert_eq!(verbs, BTreeSet::from(["install", "reset", "rollback", "status", "uninstall"]));
    for verb in verbs {
        let has: BTreeSet<&str> = command
            .find_subcommand(verb)
            .unwrap()
            .get_arguments()
            .filter_map(clap::Arg::get_long)
            .filter(|l| *l != "help")
            .collect();
        let mut told = BTreeSet::new();
        for (_, option, here) in rows.iter().filter(|(v, ..)| v == verb) {
            match here.as_str() {
                "supported" | "differs" | "own" => assert!(has.contains(option.as_str()), "{verb} has no --{option}"),
                "refused" => assert!(!has.contains(option.as_str()), "{verb} accepts --{option}"),
                other => panic!("{verb} --{option}: {other}"),
            }
            assert!(told.insert(option.as_str()), "{verb} --{option} stands twice");
        }
        let untold: Vec<_> = has.difference(&told).collect();
        assert!(untold.is_empty(), "{verb}: not in docs/parity.md: {untold:?}");
    }
}

#[test]
fn refused_is_a_usage_error() {
    for (verb, option, _) in rows().into_iter().filter(|(.., here)| here == "refused") {
        let error = Cli::command().try_get_matches_from(["x", &verb, &format!("--{option}")]).expect_err(&option);
        assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument, "{verb} --{option}");
    }
}
