//! Every RPM file of the corpus against the committed table `expected.tsv`: installed and removed again, or refused with
//! the reason that is right for that file; then once more with gpgcheck. The corpus is not part of the project; where it
//! is absent this says so.
#![expect(clippy::print_stdout, reason = "the table of results is there to be read")]

mod corpus;
mod effects;
mod expected;
mod keys;
mod pictures;
mod trial;
mod view;

use corpus::{corpus, files};
use expected::{Case, Outcome, Signed};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use testkit::host::TestHost;
use trial::{Answer, Trial};

/// Hosts share the files of one cache by hard links: starting, changing or ending one is seen in the times of another.
static ONE_HOST: Mutex<()> = Mutex::new(());

/// Tries every case on a host; the host must be the same at the end.
fn try_all(
    host: &TestHost,
    corpus: &Path,
    cases: &[Case],
    one: impl Fn(&Trial<'_>, &Case, &Path) -> Answer,
    reason: impl Fn(&Case) -> String,
) -> Vec<String> {
    let files = files(corpus);
    let unknown = files.keys().filter(|f| !cases.iter().any(|c| c.file == **f));
    let mut problems: Vec<String> = unknown.map(|f| format!("{f}: not in the table")).collect();
    let trial = Trial::new(host, corpus.join(expected::SMALL)).unwrap();
    let first = host.picture().unwrap();
    let persistent = host.persistent_hash().unwrap();
    for case in cases {
        let started = std::time::Instant::now();
        let answer = match files.get(&case.file) {
            Some(path) => one(&trial, case, path),
            None => Answer { problems: vec!["not in the corpus".into()], ..Answer::default() },
        };
        report(case, &answer, &reason(case), started.elapsed().as_secs_f32());
        problems.extend(answer.problems.into_iter().map(|p| format!("{}: {p}", case.file)));
    }
    let last = host.picture().unwrap();
    if last != first {
        problems.push(format!("the host is not as it was: {:?}", first.differences(&last)));
    }
    if host.persistent_hash().unwrap() != persistent {
        problems.push("the persistent side has changed".into());
    }
    problems
}

/// One line of the readable table, and one for what the program said.
fn report(case: &Case, answer: &Answer, reason: &str, seconds: f32) {
    let name: String = case.file.chars().take(64).collect();
    let verdict = if answer.problems.is_empty() { "ok" } else { "WRONG" };
    println!("{verdict:5} {name:64} {:13} {seconds:5.2}s  {}", answer.word, reason);
    if !answer.said.is_empty() {
        println!("      | {}", answer.said);
    }
    for problem in &answer.problems {
        println!("      ! {problem}");
    }
}

#[test]
fn every_file_comes_to_what_the_table_says() {
    let Some(corpus) = corpus() else { return };
    let cases = expected::read(include_str!("expected.tsv")).unwrap();
    let _alone = ONE_HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let host = TestHost::start().unwrap();
    let problems = try_all(&host, &corpus, &cases, |trial, case, path| trial.run(case, path), |c| c.why.clone());
    let installed = cases.iter().filter(|c| matches!(c.outcome, Outcome::Installed(_))).count();
    let refused = cases.len() - installed;
    println!("{} files: {installed} installed, {refused} refused; {} problems", cases.len(), problems.len());
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn with_gpgcheck_only_what_is_signed_by_a_key_of_the_host_comes_in() {
    let Some(corpus) = corpus() else { return };
    let cases = expected::read(include_str!("expected.tsv")).unwrap();
    let _alone = ONE_HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let host = TestHost::start().unwrap();
    keys::demand_signatures(&host).unwrap();
    // Without its key, a good signature is worth nothing; with it in either place, it counts.
    let good = cases.iter().find(|c| c.file == "fixture/hello-2.0-1.x86_64-signed.rpm").unwrap();
    let Signed::Good(key) = &good.signed else { panic!("{good:?}") };
    let unknown = Case { signed: Signed::Unknown(key.clone()), ..good.clone() };
    let beside = host.root().join("etc/pki/rpm-gpg/key");
    for (case, file) in [(&unknown, "RPM-GPG-KEY-redhat8-release"), (good, "rpmtest-rpm.org-rsa-2048-test.pub")] {
        std::fs::copy(corpus.join("keys").join(file), &beside).unwrap();
        let trial = Trial::new(&host, corpus.join(expected::SMALL)).unwrap();
        let answer = trial.run_checked(case, &corpus.join(&case.file));
        report(case, &answer, file, 0.0);
        assert!(answer.problems.is_empty(), "{:?}", answer.problems);
    }
    std::fs::remove_file(beside).unwrap();
    keys::import(&host, &corpus.join("keys"), &[]).unwrap();
    let problems = try_all(
        &host,
        &corpus,
        &cases,
        |trial, case, path| trial.run_checked(case, path),
        |c| format!("{:?}", c.signed),
    );
    let count = |wanted: fn(&Signed) -> bool| cases.iter().filter(|c| wanted(&c.signed)).count();
    println!(
        "{} files with gpgcheck: {} signed and trusted, {} by unknown keys, {} unsigned, {} bad; {} problems",
        cases.len(),
        count(|s| matches!(s, Signed::Good(_) | Signed::Weak(_))),
        count(|s| matches!(s, Signed::Unknown(_))),
        count(|s| *s == Signed::Unsigned),
        count(|s| *s == Signed::Bad),
        problems.len()
    );
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}
