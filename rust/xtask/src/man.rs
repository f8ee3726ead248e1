//! Man pages of section 8: one for the program, one for each verb. Those of section 5 are in [`crate::man5`].

use anyhow::{Context as _, Result};
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use model::Code;
use rpm_ostree_transient::args::{Cli, NAME};
use std::collections::BTreeMap;
use std::path::Path;

const SECTION: &str = "8";

/// File name to text, for every page.
///
/// # Errors
/// When a page cannot be rendered.
pub fn pages() -> Result<BTreeMap<String, Vec<u8>>> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut pages = crate::man5::pages()?;
    pages.insert(format!("{NAME}.{SECTION}"), page(&command, &names(&command))?);
    for verb in command.get_subcommands().filter(|v| !v.is_hide_set()) {
        let name = format!("{NAME}-{}", verb.get_name());
        let verb = verb.clone().name(name.clone()).bin_name(format!("{NAME} {}", verb.get_name()));
        pages.insert(format!("{name}.{SECTION}"), page(&verb, &[NAME.to_owned()])?);
    }
    Ok(pages)
}

fn names(command: &Command) -> Vec<String> {
    let verbs = command.get_subcommands().filter(|v| !v.is_hide_set());
    verbs.map(|v| format!("{NAME}-{}", v.get_name())).chain(["rpm-ostree".into(), "ostree".into()]).collect()
}

fn page(command: &Command, see_also: &[String]) -> Result<Vec<u8>> {
    let man = Man::new(command.clone()).section(SECTION).manual("System administration").source(NAME);
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    if command.get_arguments().next().is_some() {
        man.render_options_section(&mut out)?;
    }
    let mut roff = Roff::new();
    if let Some(help) = command.get_before_help().map(ToString::to_string) {
        roff.control("SH", ["EXAMPLES"]);
        roff.control("nf", []);
        for line in help.lines().filter(|l| *l != "Examples:") {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    if command.get_name() == NAME {
        roff.control("SH", ["EXIT STATUS"]);
        roff.text([roman("0 on success. Every other status has one meaning:")]);
        for (code, text) in statuses() {
            roff.control("TP", []).text([bold(code.exit_status().to_string())]).text([roman(text)]);
        }
        roff.control("SH", ["FILES"]);
        for (path, text) in FILES {
            roff.control("TP", []).text([italic(path)]).text([roman(text)]);
        }
    }
    roff.control("SH", ["SEE ALSO"]);
    let pages = see_also.iter().map(|n| {
        let section = if n.starts_with("rpm-ostree") && n != "rpm-ostree" { SECTION } else { "1" };
        format!("{n}({section})")
    });
    roff.text([roman(pages.collect::<Vec<_>>().join(", "))]);
    roff.to_writer(&mut out)?;
    Ok(out)
}

const FILES: [(&str, &str); 6] = [
    ("/etc/rpm-ostree-transient.conf", "Configuration, see rpm-ostree-transient.conf(5)."),
    ("/etc/rpm-ostree-transient.d/*.toml", "Declarations, which apply carries out; see rpm-ostree-transient.d(5)."),
    ("/run/rpm-ostree-transient/status.json", "What is layered, as JSON for programs; readable by everybody."),
    ("/run/rpm-ostree-transient/origin", "What was asked for, in the form of an origin file of ostree."),
    ("/run/rpm-ostree-transient/etc", "Live copies of what packages bring to /etc; edited in place."),
    ("/var/cache/rpm-ostree-transient", "Downloaded metadata and packages; safe to delete."),
];

/// Every status but that of success, with its meaning.
fn statuses() -> [(Code, &'static str); 24] {
    [
        (Code::Failed, "Anything without a number of its own."),
        (Code::Usage, "The command line or a configuration file is wrong."),
        (Code::NotOstreeHost, "The host was not booted from an ostree deployment."),
        (Code::NotRoot, "Root is needed."),
        (Code::NamespaceUnreachable, "The host's mount namespace cannot be reached."),
        (Code::StackingDepth, "The kernel's limit of stacked file systems is reached."),
        (Code::ForeignMount, "Another mount is on /usr or below it."),
        (Code::Untrusted, "A signature is missing, bad or by an unknown key."),
        (Code::InUse, "A file of the layer is in use."),
        (Code::NoSpace, "Memory or inodes do not suffice."),
        (Code::BaseConflict, "A base package would have to change."),
        (Code::Locked, "Another transaction runs."),
        (Code::NotFound, "No package matches."),
        (Code::Repository, "A repository or a download failed."),
        (Code::Checksum, "A file has another checksum than its source promises."),
        (Code::Unchanged, "Nothing changed, and --unchanged-exit-77 was given."),
        (Code::Refused, "A package is refused."),
        (Code::AlreadyProvided, "The base already has it."),
        (Code::Scriptlet, "A scriptlet failed."),
        (Code::FileConflict, "One path has two owners with different content."),
        (Code::Unsolvable, "The request has no solution."),
        (Code::StateDamaged, "State in /run is damaged or foreign; reset mends it."),
        (Code::Declaration, "apply refused a declaration; all others are applied."),
        (Code::Interrupted, "Interrupted before anything changed."),
    ]
}

/// Writes every page into a directory.
///
/// # Errors
/// From the filesystem.
pub fn write(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("Making {}", dir.display()))?;
    for (name, text) in pages()? {
        let path = dir.join(name);
        std::fs::write(&path, text).with_context(|| format!("Writing {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The format of declarations is explained, not generated.
    const BY_HAND: &str = "rpm-ostree-transient.d.5";

    #[test]
    fn the_committed_pages_are_those_of_the_program() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../man");
        let pages = pages().unwrap();
        let there = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let there: std::collections::BTreeSet<String> =
            there.filter(|n| n.ends_with(".8") || n.ends_with(".5")).filter(|n| n != BY_HAND).collect();
        assert_eq!(there, pages.keys().cloned().collect(), "make man writes them");
        for (name, text) in pages {
            let committed = std::fs::read(dir.join(&name)).unwrap();
            assert_eq!(
                String::from_utf8_lossy(&committed),
                String::from_utf8_lossy(&text),
                "{name}: make man writes it"
            );
        }
    }

    #[test]
    fn every_status_is_listed_once() {
        let mut seen: Vec<u8> = statuses().iter().map(|(c, _)| c.exit_status()).collect();
        seen.dedup();
        assert_eq!(seen.len(), statuses().len());
        let errors = include_str!("../../../docs/errors.md");
        for status in seen {
            assert!(errors.contains(&format!("| {status} |")), "{status} is not in docs/errors.md");
        }
    }
}
