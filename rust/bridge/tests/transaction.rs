//! `librpm::Transaction` over an rpmdb of its own. The packages have no files, so nothing but that rpmdb is written.

use bridge::librpm::{Outcome, ProblemKind, Step, Transaction, define_macro, expand, installed};
use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

fn build(dir: &Path, name: &str, version: &str, rest: &str) -> PathBuf {
    let spec = dir.join("one.spec");
    let head = format!("Name: {name}\nVersion: {version}\nRelease: 1\nSummary: s\nLicense: MIT\nBuildArch: noarch\n");
    let (preamble, body) = rest.split_at(rest.find('%').unwrap());
    fs::write(&spec, format!("{head}AutoReqProv: no\n{preamble}%description\nd\n{body}")).unwrap();
    let top = format!("_topdir {}", dir.display());
    let output = Command::new("rpmbuild").arg("-bb").args(["--define", &top]).arg(&spec).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    dir.join(format!("RPMS/noarch/{name}-{version}-1.noarch.rpm"))
}

/// Runs one transaction and returns its end and its steps.
fn run(install: &[&Path], erase: &[&str], output: &File) -> (Outcome, Vec<Step>) {
    let mut steps = Vec::new();
    let mut transaction = Transaction::new().unwrap();
    for path in install {
        transaction.install(path).unwrap();
    }
    for nevra in erase {
        transaction.erase(&nevra.parse().unwrap()).unwrap();
    }
    let outcome = transaction.run(false, Some(output.as_fd()), &mut |step| steps.push(step)).unwrap();
    (outcome, steps)
}

fn names() -> Vec<String> {
    let mut names: Vec<String> = installed(None).unwrap().iter().map(|p| p.nevra.to_string()).collect();
    names.sort();
    names
}

#[test]
fn packages_come_and_go_in_an_rpmdb_of_its_own() {
    let dir = TempDir::new().unwrap();
    let db = dir.path().join("db");
    fs::create_dir(&db).unwrap();
    define_macro(&format!("_dbpath {}", db.display())).unwrap();
    assert_eq!(expand("%{_dbpath}").unwrap(), db.display().to_string());
    let output = File::create(dir.path().join("output")).unwrap();

    let shell = build(dir.path(), "shell", "1", "Provides: /bin/sh\n%files\n");
    let one = build(dir.path(), "one", "1", "%post\necho said by $1\n%files\n");
    let two = build(dir.path(), "one", "2", "%files\n");
    let (outcome, _) = run(&[&shell], &[], &output);
    assert_eq!(outcome, Outcome::Done);
    let (outcome, steps) = run(&[&one], &[], &output);
    assert_eq!(outcome, Outcome::Done);
    let (package, slot) = ("one-1-1.noarch".to_owned(), "post".to_owned());
    let start = Step::ScriptletStart { package: package.clone(), slot: slot.clone() };
    let at = steps.iter().position(|s| *s == start).expect("a start");
    assert!(steps[at..].contains(&Step::ScriptletStop { package, slot }), "{steps:?}");
    assert_eq!(fs::read_to_string(dir.path().join("output")).unwrap(), "said by 1\n");
    assert_eq!(names(), ["one-1-1.noarch", "shell-1-1.noarch"]);

    assert_eq!(run(&[&two], &[], &output).0, Outcome::Done);
    assert_eq!(names(), ["one-2-1.noarch", "shell-1-1.noarch"]);
    assert_eq!(run(&[&one], &[], &output).0, Outcome::Done);
    assert_eq!(names(), ["one-1-1.noarch", "shell-1-1.noarch"], "downgrade");
    assert_eq!(run(&[], &["one-1-1.noarch"], &output).0, Outcome::Done);
    assert_eq!(names(), ["shell-1-1.noarch"]);

    let failing = build(dir.path(), "failing", "1", "%pre\nexit 3\n%files\n");
    let (outcome, steps) = run(&[&failing], &[], &output);
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    let (package, slot) = ("failing-1-1.noarch".into(), "pre".into());
    let failed = Step::ScriptletFailed { package, slot, fatal: true, status: "exit status 3".into() };
    assert!(steps.contains(&failed), "{steps:?}");

    let mut transaction = Transaction::new().unwrap();
    assert!(transaction.erase(&"one-1-1.noarch".parse().unwrap()).is_err(), "it is gone");
    let needy = build(dir.path(), "needy", "1", "Requires: nothing-like-it\n%files\n");
    transaction.install(&needy).unwrap();
    let problems = transaction.check().unwrap();
    assert_eq!(problems.iter().map(|p| p.kind).collect::<Vec<_>>(), [ProblemKind::Dependency]);
    assert!(problems[0].text.contains("nothing-like-it"), "{problems:?}");
    assert!(transaction.install(Path::new("/dev/null")).is_err());
}
