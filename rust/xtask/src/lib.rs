//! What is generated from the program itself: man pages into `man/`, JSON schemas into `docs/schemas/`, completions for an
//! installation. What is committed is held against a fresh set by tests, so that it cannot fall behind the program.

pub mod man;
pub mod man5;
pub mod schemas;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use clap_complete::Shell;
use rpm_ostree_transient::args::{Cli, NAME};
use std::path::Path;

/// Shells and the directories below the prefix where each looks for completions.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions"),
    (Shell::Zsh, "share/zsh/site-functions"),
    (Shell::Fish, "share/fish/vendor_completions.d"),
];

/// Writes completions for every shell below `prefix`.
///
/// # Errors
/// From the filesystem.
pub fn completions(prefix: &Path) -> Result<()> {
    for (shell, dir) in SHELLS {
        let dir = prefix.join(dir);
        std::fs::create_dir_all(&dir).with_context(|| format!("Making {}", dir.display()))?;
        clap_complete::generate_to(shell, &mut Cli::command(), NAME, &dir)
            .with_context(|| format!("Writing the completions of {shell}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_gets_its_completions() {
        let prefix = tempfile::tempdir().unwrap();
        completions(prefix.path()).unwrap();
        for (file, word) in [
            ("share/bash-completion/completions/rpm-ostree-transient.bash", "uninstall"),
            ("share/zsh/site-functions/_rpm-ostree-transient", "--dry-run"),
            ("share/fish/vendor_completions.d/rpm-ostree-transient.fish", "rollback"),
        ] {
            assert!(std::fs::read_to_string(prefix.path().join(file)).unwrap().contains(word), "{file}");
        }
    }
}
