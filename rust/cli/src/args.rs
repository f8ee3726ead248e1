//! What can be typed: verbs and options, in rpm-ostree's words. Only syntax; [`crate::settings`] gives it its meaning.

use clap::{Args, Parser, Subcommand};

/// Name of the program.
pub const NAME: &str = "rpm-ostree-transient";

const EXAMPLES: &str = "\
Examples:
  rpm-ostree install --transient strace tcpdump
  rpm-ostree status
  rpm-ostree rollback --transient
  rpm-ostree uninstall --transient strace
  rpm-ostree reset --transient

The same as rpm-ostree-transient VERB, or ostree transient VERB.
";

/// Layers packages over the running /usr until the next reboot.
///
/// /usr stays read-only, and the persistent deployment is not touched.
#[derive(Debug, Clone, Parser)]
#[command(name = NAME, version, before_help = EXAMPLES, max_term_width = 80, infer_long_args = false)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// One file of [`crate::commands`] each.
#[derive(Debug, Clone, Subcommand)]
#[command(disable_help_subcommand = true)]
pub enum Verb {
    /// Layer packages, or upgrade those that are layered.
    #[command(before_help = "\
Examples:
  rpm-ostree install --transient strace
  rpm-ostree install --transient ./fixed-1.2-3.x86_64.rpm
  rpm-ostree install --transient --dry-run /usr/bin/tcpdump
  rpm-ostree install --transient --uninstall strace ltrace
")]
    Install(InstallArgs),
    /// Remove layered packages.
    #[command(
        alias = "remove",
        before_help = "\
Examples:
  rpm-ostree uninstall --transient strace
  rpm-ostree uninstall --transient --all
"
    )]
    Uninstall(UninstallArgs),
    /// Show what is layered.
    Status(StatusArgs),
    /// Return to the generation before the last change.
    Rollback(ReturnArgs),
    /// Return to the bare base and forget every generation.
    Reset(ReturnArgs),
    /// Bring the host to what its declarations say.
    ///
    /// Declarations are *.toml files in /etc, /run and /usr/lib, below
    /// rpm-ostree-transient.d.
    #[command(before_help = "\
Examples:
  rpm-ostree-transient apply --dry-run
  rpm-ostree-transient apply --unchanged-exit-77
")]
    Apply(ApplyArgs),
    /// List the changes of this boot, newest first.
    History(ReportArgs),
    /// List packages and files that differ from the base.
    Diff(ReportArgs),
    /// Prove that the layer is what it should be: mounts, effects, packages.
    Verify(ReportArgs),
    /// Remove what an earlier boot left; for the unit that runs at boot.
    CleanBoot(ReportArgs),
}

/// Options of every verb that changes the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct RunArgs {
    /// Accepted for rpm-ostree's sake: nothing is ever asked.
    #[arg(short = 'y', long)]
    pub assumeyes: bool,
    /// Show what would be done, and stop.
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Exit with 77 when nothing changed.
    #[arg(long)]
    pub unchanged_exit_77: bool,
    /// Fail at once when another transaction runs, instead of waiting.
    #[arg(long)]
    pub no_wait: bool,
    /// Write one JSON document to stdout, also on failure.
    #[arg(long)]
    pub json: bool,
    /// Write progress to this descriptor, one JSON line an event.
    #[arg(long, value_name = "FD")]
    pub progress_fd: Option<u32>,
}

impl Verb {
    /// True for a call that is meant to change what is layered, so not for a dry run.
    pub fn changes_host(&self) -> bool {
        match self {
            Verb::Install(InstallArgs { change, .. }) | Verb::Uninstall(UninstallArgs { change, .. }) => {
                !change.run.dry_run && !change.download_only
            }
            Verb::Rollback(args) | Verb::Reset(args) => !args.run.dry_run,
            _ => false,
        }
    }

    /// Where a change writes its progress for programs.
    pub fn progress_fd(&self) -> Option<u32> {
        match self {
            Verb::Install(args) => args.change.run.progress_fd,
            Verb::Uninstall(args) => args.change.run.progress_fd,
            Verb::Apply(args) => args.run.progress_fd,
            Verb::Rollback(args) | Verb::Reset(args) => args.run.progress_fd,
            Verb::Status(_) | Verb::History(_) | Verb::Diff(_) | Verb::Verify(_) | Verb::CleanBoot(_) => None,
        }
    }
}

/// Options of the verbs that resolve and download.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ChangeArgs {
    /// Options that every change has.
    #[command(flatten)]
    pub run: RunArgs,
    /// Use cached metadata and packages only, never the network.
    #[arg(short = 'C', long)]
    pub cache_only: bool,
    /// Download and verify packages, and stop.
    #[arg(long)]
    pub download_only: bool,
    /// No error when a package is already as asked.
    #[arg(long)]
    pub idempotent: bool,
    /// Enable these repositories (id or glob; several with commas).
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub enablerepo: Vec<String>,
    /// Disable these repositories (id or glob; several with commas).
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub disablerepo: Vec<String>,
    /// Value of $releasever in repository files.
    #[arg(long, value_name = "VERSION")]
    pub releasever: Option<String>,
    /// Set an option of dnf.conf, or REPO.KEY of one repository.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub setopt: Vec<(String, String)>,
    /// Let a package's file replace one of another package.
    #[arg(long)]
    pub force_replacefiles: bool,
    /// Do not check package signatures.
    #[arg(long)]
    pub nogpgcheck: bool,
    /// Let this package bring what is denied by default.
    #[arg(long, value_name = "NAME")]
    pub force_unsafe: Vec<String>,
}

/// `install`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct InstallArgs {
    /// Name, name-version, glob, provide, file path, ./FILE.rpm or URL.
    #[arg(value_name = "PACKAGE", required_unless_present = "uninstall")]
    pub packages: Vec<String>,
    /// Remove this layered package in the same step.
    #[arg(long, value_name = "PACKAGE")]
    pub uninstall: Vec<String>,
    /// Start the services that the packages bring and a preset enables.
    #[arg(long, conflicts_with = "download_only")]
    pub now: bool,
    /// No error when the base already has a package.
    #[arg(long)]
    pub allow_inactive: bool,
    /// The other options.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// `uninstall`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct UninstallArgs {
    /// Name or full name of a layered package.
    #[arg(value_name = "PACKAGE", required_unless_present = "all")]
    pub packages: Vec<String>,
    /// Remove every layered package.
    #[arg(long, conflicts_with_all = ["packages", "install"])]
    pub all: bool,
    /// Install this package in the same step.
    #[arg(long, value_name = "PACKAGE")]
    pub install: Vec<String>,
    /// The other options.
    #[command(flatten)]
    pub change: ChangeArgs,
}

/// `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct StatusArgs {
    /// Show signatures as well.
    #[arg(short, long)]
    pub verbose: bool,
    /// Accepted for rpm-ostree's sake: only the booted deployment is layered.
    #[arg(short, long, hide = true)]
    pub booted: bool,
    /// Write one JSON document to stdout, also on failure.
    #[arg(long)]
    pub json: bool,
}

/// `rollback` and `reset`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ReturnArgs {
    /// Options that every change has.
    #[command(flatten)]
    pub run: RunArgs,
}

/// `apply`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ApplyArgs {
    /// Use cached metadata and packages only, never the network.
    #[arg(short = 'C', long)]
    pub cache_only: bool,
    /// Options that every change has.
    #[command(flatten)]
    pub run: RunArgs,
}

/// `history`, `diff`, `verify` and `clean-boot`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ReportArgs {
    /// Write one JSON document to stdout, also on failure.
    #[arg(long)]
    pub json: bool,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().into(), value.trim().into())),
        _ => Err(format!("\"{text}\" is not KEY=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn parse(line: &str) -> Result<Verb, clap::Error> {
        Cli::try_parse_from(std::iter::once(NAME).chain(line.split_whitespace())).map(|cli| cli.verb)
    }

    fn install(line: &str) -> InstallArgs {
        match parse(line) {
            Ok(Verb::Install(args)) => args,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_command_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn install_takes_rpm_ostrees_words() {
        let a = install("install -y a b --idempotent");
        assert_eq!(a.packages, ["a", "b"]);
        assert!(a.change.run.assumeyes && a.change.idempotent && !a.change.run.dry_run);

        let a = install("install -n -C --download-only --allow-inactive --unchanged-exit-77 --force-replacefiles x");
        assert!(a.change.run.dry_run && a.change.cache_only && a.change.download_only && a.allow_inactive);
        assert!(a.change.run.unchanged_exit_77 && a.change.force_replacefiles);

        let a = install("install --enablerepo=x,y --enablerepo z --disablerepo * --releasever 41 --uninstall old new");
        assert_eq!(a.change.enablerepo, ["x", "y", "z"]);
        assert_eq!(a.change.disablerepo, ["*"]);
        assert_eq!(a.change.releasever.as_deref(), Some("41"));
        assert_eq!((a.uninstall, a.packages), (vec!["old".to_owned()], vec!["new".to_owned()]));

        let a = install("install --setopt install_weak_deps=True --setopt=up.excludepkgs= --nogpgcheck --no-wait x");
        assert_eq!(
            a.change.setopt,
            [("install_weak_deps".into(), "True".into()), ("up.excludepkgs".into(), String::new())]
        );
        assert!(a.change.nogpgcheck && a.change.run.no_wait);

        assert!(install("install --now x").now && !install("install x").now);
        assert!(parse("install --now --download-only x").is_err());

        assert!(install("install --uninstall only").packages.is_empty());
        assert_eq!(install("install --json -- --odd-name").packages, ["--odd-name"]);
    }

    #[test]
    fn other_verbs() {
        assert!(matches!(parse("uninstall --all"), Ok(Verb::Uninstall(a)) if a.all && a.packages.is_empty()));
        assert!(matches!(parse("remove a -y"), Ok(Verb::Uninstall(a)) if a.packages == ["a"]));
        assert!(matches!(parse("uninstall a --install b"), Ok(Verb::Uninstall(a)) if a.install == ["b"]));
        assert!(matches!(parse("status --json"), Ok(Verb::Status(a)) if a.json));
        assert!(matches!(parse("status -v -b"), Ok(Verb::Status(a)) if a.verbose));
        assert!(matches!(parse("rollback --no-wait"), Ok(Verb::Rollback(a)) if a.run.no_wait));
        assert!(matches!(parse("reset -n --unchanged-exit-77"), Ok(Verb::Reset(a)) if a.run.unchanged_exit_77));
        assert!(
            matches!(parse("apply -C --unchanged-exit-77"), Ok(Verb::Apply(a)) if a.cache_only && a.run.unchanged_exit_77)
        );
        assert!(matches!(parse("history --json"), Ok(Verb::History(a)) if a.json));
        assert!(matches!(parse("diff"), Ok(Verb::Diff(a)) if !a.json));
        assert!(matches!(parse("verify --json"), Ok(Verb::Verify(a)) if a.json));
        assert!(matches!(parse("clean-boot"), Ok(Verb::CleanBoot(a)) if !a.json));
    }

    #[test]
    fn usage_errors_exit_with_2() {
        for line in
            ["", "install", "uninstall", "uninstall --all x", "install --setopt x y", "install -A x", "frob", "diff x"]
        {
            let error = parse(line).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn help_has_examples_first_and_fits_80_columns() {
        let mut command = Cli::command();
        let mut pages = vec![command.render_long_help().to_string()];
        pages.extend(command.get_subcommands_mut().map(|c| c.render_long_help().to_string()));
        assert!(pages[0].starts_with("Examples:\n  rpm-ostree install --transient strace"));
        for page in pages {
            for line in page.lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
        }
    }
}
