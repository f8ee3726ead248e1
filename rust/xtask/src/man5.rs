//! Man pages of section 5: the configuration file. Its keys are those of the engine's one list.

use anyhow::Result;
use clap_mangen::roff::{Roff, bold, italic, roman};
use engine::config::{DIRECTORIES, KEYS, NAME};
use std::collections::BTreeMap;

const EXAMPLE: &str = "\
# /etc/rpm-ostree-transient.conf.d/50-policy.conf
require-signatures = true
memory-limit = 25%
exclude = kernel* systemd*
";

/// File name to text, for every page.
///
/// # Errors
/// When a page cannot be rendered.
pub fn pages() -> Result<BTreeMap<String, Vec<u8>>> {
    let mut roff = Roff::new();
    roff.control("TH", [NAME, "5", "", "rpm-ostree-transient", "System administration"]);
    roff.control("SH", ["NAME"]).text([roman(format!("{NAME} - configuration of rpm-ostree-transient"))]);
    roff.control("SH", ["SYNOPSIS"]);
    for directory in DIRECTORIES {
        roff.text([italic(format!("{directory}/{NAME}"))]).control("br", []);
    }
    for directory in DIRECTORIES {
        roff.text([italic(format!("{directory}/{NAME}.d/*.conf"))]).control("br", []);
    }
    roff.control("SH", ["EXAMPLE"]).control("nf", []);
    for line in EXAMPLE.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([roman(
        "Each line is KEY = VALUE, a comment that begins with # or ;, or empty. There are no sections. The first main file in \
         the order above is read, then the drop-ins of all directories by name; a name in an earlier directory hides the same \
         name in a later one. A later file wins for each key. A key or a value that has no meaning is an error that names file \
         and line (status 2), and nothing is changed.",
    )]);
    roff.control("PP", []).text([roman(
        "install and uninstall read these files; reset, rollback and clean-boot never do, so that a mistake here cannot block a \
         way back. Repositories and what concerns them are configured where dnf does it: /etc/yum.repos.d and \
         /etc/dnf/dnf.conf.",
    )]);
    roff.control("SH", ["KEYS"]);
    for key in &KEYS {
        roff.control("TP", []).text([bold(key.name), roman(" = "), italic(key.value)]);
        roff.text([roman(key.about)]);
        roff.control("IP", []).text([roman(format!("Default: {}.", key.default))]);
    }
    roff.control("SH", ["SEE ALSO"])
        .text([roman("rpm-ostree-transient(8), rpm-ostree-transient-install(8), dnf.conf(5)")]);
    let mut out = Vec::new();
    roff.to_writer(&mut out)?;
    Ok(BTreeMap::from([(format!("{NAME}.5"), out)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_in_the_page_and_in_the_guide() {
        let page = String::from_utf8(pages().unwrap().into_values().next().unwrap()).unwrap().replace('\\', "");
        let guide = include_str!("../../../docs/configuration.md");
        for key in &KEYS {
            assert!(page.contains(&format!("fB{}", key.name)), "{}", key.name);
            assert!(guide.contains(&format!("| `{}` |", key.name)), "{} is not in docs/configuration.md", key.name);
        }
    }
}
