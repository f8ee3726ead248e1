//! One file tried on the host. Whatever it comes to, the host is looked at before, while it is layered, and after.

use crate::effects::Listed;
use crate::expected::{Case, Outcome, Signed};
use crate::view::{View, difference};
use anyhow::{Context as _, Result, ensure};
use model::Code;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use testkit::host::{Output, TestHost};

/// Where files lie inside.
const INSIDE: &str = "/tmp/cases";
/// Leaves requires unchecked in builds for tests, so that single files can be tried.
const ENV: [(&str, &str); 1] = [("RPM_OSTREE_TRANSIENT_TEST_NODEPS", "1")];

/// A host on which files are tried one after the other.
#[derive(Debug)]
pub struct Trial<'a> {
    host: &'a TestHost,
    small: PathBuf,
    clean: View,
    opt: String,
}

/// What a file came to: a word, what the program said, and what was wrong with that.
#[derive(Debug, Default)]
pub struct Answer {
    /// `installed`, or the code of the refusal.
    pub word: String,
    /// Its message.
    pub said: String,
    /// Each in a line.
    pub problems: Vec<String>,
}

impl<'a> Trial<'a> {
    /// Prepares the host. `small` is a package that can be installed to have a store.
    pub fn new(host: &'a TestHost, small: PathBuf) -> Result<Trial<'a>> {
        std::fs::create_dir_all(host.root().join(&INSIDE[1..])).context("Making a place for the files in the host")?;
        let opt = host.sh("readlink -f /opt").stdout.trim().to_owned();
        Ok(Trial { host, small, clean: View::of(host, INSIDE)?, opt })
    }

    /// Tries one file without gpgcheck.
    pub fn run(&self, case: &Case, path: &Path) -> Answer {
        let mut answer = Answer::default();
        if let Err(error) = self.attempt(case, path, &mut answer) {
            answer.problems.push(format!("{error:#}"));
        }
        answer
    }

    /// Tries one file with gpgcheck.
    pub fn run_checked(&self, case: &Case, path: &Path) -> Answer {
        let mut answer = Answer::default();
        if let Err(error) = self.attempt_checked(case, path, &mut answer) {
            answer.problems.push(format!("{error:#}"));
        }
        answer
    }

    fn attempt(&self, case: &Case, path: &Path, answer: &mut Answer) -> Result<()> {
        let bytes = std::fs::read(path).with_context(|| format!("Reading {}", path.display()))?;
        let hash = testkit::hex(&Sha256::digest(&bytes));
        ensure!(hash == case.sha256, "this is another file: its sha256 is {hash}");
        let name = self.place(path)?;
        if let Some(size) = &case.store {
            let small = self.place(&self.small)?;
            self.good(&["install", "--nogpgcheck", &small])?;
            self.shell(&format!("mount -o remount,size={size} /run/rpm-ostree-transient/store"))?;
        }
        let before = if case.store.is_some() { Some(self.view()?) } else { None };
        let before = before.as_ref().unwrap_or(&self.clean);
        let output = self.program(&["install", "--nogpgcheck", "--json", &name]);
        answer.judge(&output, &case.outcome);
        if output.status == 0 && matches!(case.outcome, Outcome::Installed(_)) {
            self.look(&output, &name, case, before, answer)?;
        } else {
            before.compare("after the refusal", &self.view()?, &mut answer.problems);
        }
        self.clean_up(&name, answer)
    }

    fn attempt_checked(&self, case: &Case, path: &Path, answer: &mut Answer) -> Result<()> {
        let name = self.place(path)?;
        let output = self.program(&["install", "--json", &name]);
        let untrusted = |parts: &[&str]| {
            let package = case.outcome.package();
            let parts = package.into_iter().chain(parts.iter().copied()).map(str::to_owned).collect();
            Outcome::Refused(Code::Untrusted, parts)
        };
        let outcome = match &case.signed {
            Signed::Unseen | Signed::Good(_) => case.outcome.clone(),
            Signed::Weak(_) if output.status != i32::from(Code::Untrusted.exit_status()) => case.outcome.clone(),
            Signed::Weak(_) => untrusted(&[]),
            Signed::Unknown(key) => untrusted(&[key, "not trusted"]),
            Signed::Unsigned => untrusted(&["is not signed"]),
            Signed::Bad => untrusted(&["bad signature or digest"]),
        };
        // The store is of the usual size here.
        if case.store.is_none() || outcome != case.outcome {
            answer.judge(&output, &outcome);
        }
        if let (0, Signed::Good(key)) = (output.status, &case.signed) {
            let status = self.status()?;
            let known = status["status"]["packages"][0]["signature"].to_string();
            answer.wrong_unless(known.contains(key.as_str()), || format!("status does not name key {key}: {known}"));
        }
        if output.status != 0 {
            self.clean.compare("after the refusal", &self.view()?, &mut answer.problems);
        }
        self.clean_up(&name, answer)
    }

    /// Checks a layered package, and removes it.
    fn look(&self, output: &Output, name: &str, case: &Case, before: &View, answer: &mut Answer) -> Result<()> {
        let document: Value = serde_json::from_str(&output.stdout).context("Reading the document of install")?;
        answer.wrong_unless(document["changed"] == Value::Bool(true), || format!("nothing changed: {document}"));
        let status = self.status()?;
        let listed = Listed::of(&status, &self.opt);
        let status = status.to_string();
        if let Outcome::Installed(parts) = &case.outcome {
            for part in parts {
                answer.wrong_unless(status.contains(part), || format!("\"{part}\" is not in the status: {status}"));
            }
        }
        let shown = self.program(&["diff"]);
        // Names of files are for people there, so a file cannot write to their terminal.
        let plain = shown.stdout.chars().all(|c| c == '\n' || !c.is_control()) && !shown.stdout.contains("\\\\");
        answer.wrong_unless(shown.status == 0 && plain, || format!("diff: {shown:?}"));
        let layered = self.view()?;
        listed.compare(before, &layered, &mut answer.problems);
        answer.problems.extend(before.lost(&layered));
        let query =
            |format: &str| self.shell(&format!("rpm -qp --nosignature --nodigest --qf '{format}' {name} 2>/dev/null"));
        let nevra = query("%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}")?;
        let known = self.host.sh(&format!("rpm -q '{nevra}'"));
        answer.wrong_unless(known.status == 0, || format!("rpm does not know it: {known:?}"));
        // Dependencies are unchecked here, and verify scripts are not what was asked.
        let verified = self.host.sh(&format!("rpm -V --nodeps --noscripts '{nevra}'"));
        let wrong: Vec<&str> = verified.stdout.lines().filter(|l| !excused(l, &listed)).collect();
        answer.wrong_unless(wrong.is_empty(), || format!("rpm -V: {}", wrong.join("; ")));
        self.good(&["uninstall", &query("%{NAME}")?])?;
        let gone = self.view()?;
        if gone.usr != before.usr {
            answer.problems.push(format!("/usr after uninstall: {}", difference(&before.usr, &gone.usr)));
        }
        Ok(())
    }

    fn clean_up(&self, name: &str, answer: &mut Answer) -> Result<()> {
        self.good(&["reset"])?;
        self.clean.compare("after reset", &self.view()?, &mut answer.problems);
        std::fs::remove_file(self.host.root().join(&name[1..]))?;
        Ok(())
    }

    /// Copies a file into the host; the product knows a local file by its suffix.
    fn place(&self, path: &Path) -> Result<String> {
        let name = path.file_name().context("a file without a name")?.to_string_lossy();
        let suffix = if name.ends_with(".rpm") { "" } else { ".rpm" };
        let inside = format!("{INSIDE}/{name}{suffix}");
        std::fs::copy(path, self.host.root().join(&inside[1..])).with_context(|| format!("Copying {name}"))?;
        Ok(inside)
    }

    fn program(&self, args: &[&str]) -> Output {
        // Hanging is one of the things that a hostile file may try.
        self.host.run_env(&ENV, &[&["timeout", "-k", "5", "120", "rpm-ostree-transient"], args].concat())
    }

    fn good(&self, args: &[&str]) -> Result<()> {
        let output = self.program(args);
        ensure!(output.status == 0, "{args:?}: {}", told(&output));
        Ok(())
    }

    fn status(&self) -> Result<Value> {
        let output = self.program(&["status", "--json"]);
        serde_json::from_str(&output.stdout).with_context(|| format!("Reading the status: {}", told(&output)))
    }

    fn shell(&self, script: &str) -> Result<String> {
        let output = self.host.sh(script);
        ensure!(output.status == 0, "{script}: {output:?}");
        Ok(output.stdout)
    }

    fn view(&self) -> Result<View> {
        View::of(self.host, INSIDE)
    }
}

impl Answer {
    fn wrong_unless(&mut self, right: bool, problem: impl FnOnce() -> String) {
        if !right {
            self.problems.push(problem());
        }
    }

    /// Holds what the program said against what it should have said.
    fn judge(&mut self, output: &Output, outcome: &Outcome) {
        let document: Value = serde_json::from_str(&output.stdout).unwrap_or_default();
        let error = &document["error"];
        let said = error["message"].as_str().unwrap_or_default();
        said.clone_into(&mut self.said);
        self.word = match output.status {
            0 => "installed".into(),
            status => error["code"].as_str().map_or_else(|| format!("status {status}"), str::to_owned),
        };
        for text in [said, error["hint"].as_str().unwrap_or_default()] {
            self.wrong_unless(!text.contains(char::is_control), || format!("not one plain line: {text:?}"));
            // Paths of the machine that the test host runs on, and descriptors of the sandbox.
            let foreign = ["/test-cache/", "/proc/", env!("CARGO_MANIFEST_DIR")].iter().find(|p| text.contains(**p));
            self.wrong_unless(foreign.is_none(), || format!("this says nothing to the user: {text}"));
        }
        match outcome {
            Outcome::Installed(_) => {
                self.wrong_unless(output.status == 0, || format!("must be installed: {}", told(output)));
            }
            Outcome::Refused(..) if output.status == 0 => self.problems.push("must be refused".into()),
            Outcome::Refused(code, parts) => {
                let wanted = serde_json::to_value(code).unwrap_or_default();
                let right = error["code"] == wanted && output.status == i32::from(code.exit_status());
                self.wrong_unless(right, || {
                    format!("must be refused as {wanted} with {}: {}", code.exit_status(), told(output))
                });
                for part in parts.iter().filter(|p| !said.contains(p.as_str())) {
                    self.problems.push(format!("\"{part}\" is not in: {said}"));
                }
            }
        }
    }
}

/// True for a line of `rpm -V` about a ghost, a configuration file, or a path of which the status says that the host has
/// a link there or its own file.
fn excused(line: &str, listed: &Listed) -> bool {
    let path = || line.find('/').is_some_and(|n| listed.excuses(&line[n..]));
    matches!(line.split_whitespace().nth(1), Some("c" | "g")) || path()
}

/// Status and message of a failure in one line.
fn told(output: &Output) -> String {
    let text = if output.stdout.trim().is_empty() { &output.stderr } else { &output.stdout };
    format!("status {}: {}", output.status, text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ghosts_configuration_and_links_are_excused() {
        let status = serde_json::json!({"status": {"effects": [{"kind": "link", "path": "/etc/x.d"}]}});
        let listed = Listed::of(&status, "/opt");
        for line in ["S.5....T.  c /usr/share/x.conf", "missing   g /usr/share/x", ".M.......    /etc/x.d"] {
            assert!(excused(line, &listed), "{line}");
        }
        for line in [
            "S.5....T.    /usr/bin/x",
            "missing     /usr/bin/x",
            ".M.......  d /usr/share/doc/x",
            ".M.......    /etc/x",
        ] {
            assert!(!excused(line, &listed), "{line}");
        }
    }

    #[test]
    fn a_wrong_answer_is_noticed() {
        let count = |status, code: &str, message: &str, part: &str| {
            let document = serde_json::json!({"error": {"code": code, "message": message}});
            let output = Output { status, stdout: document.to_string(), stderr: String::new() };
            let mut answer = Answer::default();
            answer.judge(&output, &Outcome::Refused(Code::Refused, vec![part.into()]));
            answer.problems.len()
        };
        let right = "a: /etc/a.conf is outside /usr";
        assert_eq!(count(78, "refused", right, "/etc/a.conf"), 0);
        assert_eq!(count(78, "refused", right, "/etc/b.conf"), 1);
        assert_eq!(count(78, "checksum", right, "/etc/a.conf"), 1);
        assert_eq!(count(1, "refused", right, "/etc/a.conf"), 1);
        assert_eq!(count(0, "refused", right, "/etc/a.conf"), 1);
        assert_eq!(count(78, "refused", "a\nb", "a"), 1);
        assert_eq!(count(78, "refused", "opening /proc/self/fd/7", "opening"), 1);
        let mut answer = Answer::default();
        let output = Output { status: 139, stdout: String::new(), stderr: "Segmentation fault".into() };
        answer.judge(&output, &Outcome::Installed(vec![]));
        assert_eq!((answer.word.as_str(), answer.problems.len()), ("status 139", 1));
    }
}
