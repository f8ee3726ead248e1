//! A host, a server, and the configuration that connects the two; with calls that fail a test loudly. What every test
//! of this tier starts with.

use std::time::Duration;
use testkit::host::{Output, Running, TestHost};
use testkit::repository::{Repositories, repositories};
use testkit::server::Server;

/// The program under test.
const PROGRAM: &str = "rpm-ostree-transient";
/// A failpoint's sleep in milliseconds. Nothing else in the program sleeps for nearly as long.
const FOREVER: Duration = Duration::from_secs(600);

/// A host that knows one repository, named `test`.
#[derive(Debug)]
pub struct Scenario {
    /// The host.
    pub host: TestHost,
    /// The server of the repository.
    pub server: Server,
    repositories: Repositories,
    /// `signed` or `unsigned`.
    part: &'static str,
}

impl Scenario {
    /// Signed packages, and the host has the key.
    pub fn signed() -> Scenario {
        Scenario::new("signed", |r| &r.key)
    }

    /// Packages without signatures; the host asks for signatures.
    pub fn unsigned() -> Scenario {
        Scenario::new("unsigned", |r| &r.key)
    }

    /// Signed packages, and the host has only the key of somebody else.
    pub fn signed_by_another_key() -> Scenario {
        Scenario::new("signed", |r| &r.other_key)
    }

    fn new(part: &'static str, key: fn(&Repositories) -> &std::path::PathBuf) -> Scenario {
        let repositories = repositories().unwrap();
        let server = Server::start(&repositories.dir).unwrap();
        let host = TestHost::start().unwrap();
        let etc = host.root().join("etc");
        std::fs::copy(key(&repositories), etc.join("pki/rpm-gpg/RPM-GPG-KEY-test")).unwrap();
        let text = format!(
            "[test]\nname=test\nbaseurl={}/{part}/\nenabled=1\ngpgcheck=1\nrepo_gpgcheck=0\n\
             gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-test\n",
            server.url()
        );
        std::fs::write(etc.join("yum.repos.d/test.repo"), text).unwrap();
        Scenario { host, server, repositories, part }
    }

    /// Runs the program with these words.
    pub fn run(&self, args: &[&str]) -> Output {
        self.run_env(&[], args)
    }

    /// As [`Scenario::run`], with these variables.
    pub fn run_env(&self, env: &[(&str, &str)], args: &[&str]) -> Output {
        self.host.run_env(env, &with_program(args))
    }

    /// Runs the program, which must exit with 0; stdout and stderr.
    #[track_caller]
    pub fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert_eq!(out.status, 0, "{args:?}: {out:?}");
        out.stdout + &out.stderr
    }

    /// Runs the program, which must exit with `code`; stdout and stderr.
    #[track_caller]
    pub fn fails(&self, args: &[&str], code: i32) -> String {
        let out = self.run(args);
        assert_eq!(out.status, code, "{args:?}: {out:?}");
        out.stdout + &out.stderr
    }

    /// Runs a bash script in the host, which must end with 0; its stdout.
    #[track_caller]
    pub fn sh(&self, script: &str) -> String {
        let out = self.host.sh(script);
        assert_eq!(out.status, 0, "{script}: {out:?}");
        out.stdout
    }

    /// The path on the server of the package whose file name starts so.
    #[track_caller]
    pub fn package_path(&self, start: &str) -> String {
        let names = std::fs::read_dir(self.repositories.dir.join(self.part)).unwrap();
        let mut names = names.map(|e| e.unwrap().file_name().into_string().unwrap());
        let name = names.find(|n| n.starts_with(start)).unwrap_or_else(|| panic!("no package {start}"));
        format!("/{}/{name}", self.part)
    }

    /// Starts the program, and returns when it is held at the failpoint.
    #[track_caller]
    pub fn start_at(&self, failpoint: &str, args: &[&str]) -> Held {
        let env = format!("{failpoint}=sleep({})", FOREVER.as_millis());
        let mut running = self.host.spawn(&[("FAILPOINTS", &env)], &with_program(args)).unwrap();
        if !running.wait_for_sleep(FOREVER / 2).unwrap() {
            let out = running.finish().unwrap();
            panic!("{args:?} ended without being at {failpoint} (built with --features test-hooks?): {out:?}");
        }
        Held { running }
    }

    /// Starts the program, and kills it at the failpoint.
    #[track_caller]
    pub fn kill_at(&self, failpoint: &str, args: &[&str]) {
        self.start_at(failpoint, args).kill();
    }
}

/// A run that is held at a failpoint. Killed with this value.
#[derive(Debug)]
pub struct Held {
    running: Running,
}

impl Held {
    /// SIGKILL; returns when it is gone.
    #[track_caller]
    pub fn kill(&mut self) {
        let out = self.running.kill().unwrap();
        assert_eq!(out.status, 128 + 9, "it was not the kill that ended it: {out:?}");
    }
}

fn with_program<'a>(args: &[&'a str]) -> Vec<&'a str> {
    std::iter::once(PROGRAM).chain(args.iter().copied()).collect()
}
