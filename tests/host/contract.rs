//! The JSON contract on live output: every document fits its committed schema, and stdout carries nothing else. A release
//! keeps its documents: `TRANSIENT_KEEP_DOCUMENTS=docs/schemas/released/VERSION`, an existing directory, has them written.

use crate::scenario::Scenario;
use serde_json::Value;
use testkit::packages::Package;

/// The document that a command prints, held against the schema of that name.
#[track_caller]
fn document(s: &Scenario, name: &str, args: &[&str], status: i32) -> Value {
    let out = s.run(args);
    assert_eq!(out.status, status, "{args:?}: {out:?}");
    let document: Value = serde_json::from_str(&out.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {out:?}"));
    let path = testkit::project().join(format!("docs/schemas/{name}.schema.json"));
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&document).map(|e| format!("{}: {e}", e.instance_path)).collect();
    assert!(errors.is_empty(), "{args:?}: {errors:?}\n{document:#}");
    keep(name, &document);
    document
}

/// Of each kind, the document that tells most.
fn keep(name: &str, document: &Value) {
    let Some(dir) = std::env::var_os("TRANSIENT_KEEP_DOCUMENTS") else { return };
    let path = testkit::project().join(dir).join(format!("{name}.json"));
    let text = format!("{document:#}\n");
    if std::fs::read(&path).map_or(0, |old| old.len()) < text.len() {
        std::fs::write(path, text).unwrap();
    }
}

#[test]
fn live_documents_fit_their_schemas() {
    let s = Scenario::signed();
    let empty = document(&s, "status", &["status", "--json"], 0);
    assert_eq!(empty["apiVersion"], "rpm-ostree-transient/v1");
    let package = Package::new("contract", "1")
        .requires("libgreet")
        .config("/etc/contract.conf", "a=b\n")
        .file("/var/lib/contract/data", "d\n")
        .file("/usr/share/contract", "c\n")
        .scriptlet("post", "echo x >> /etc/hosts");
    package.build(&s.host.root().join("run")).unwrap();
    let file = format!("/run/{}", package.file_name());
    let install = ["install", "--json", "--nogpgcheck", file.as_str(), "greet-user"];
    let dry = document(&s, "outcome", &[&install[..], &["--dry-run"]].concat(), 0);
    assert_eq!(dry["changed"], false);
    assert!(!dry["plan"]["effects"].as_array().unwrap().is_empty(), "{dry:#}");
    let done = document(&s, "outcome", &install, 0);
    assert_eq!(done["changed"], true);
    assert_eq!(done["manifest"]["effects"], dry["plan"]["effects"]);
    let status = document(&s, "status", &["status", "--json"], 0);
    assert_eq!(status["status"]["packages"].as_array().unwrap().len(), 3);
    document(&s, "diff", &["diff", "--json"], 0);
    document(&s, "verification", &["verify", "--json"], 0);
    s.sh("mv /etc/contract.conf /tmp/link");
    document(&s, "verification", &["verify", "--json"], 84);
    s.sh("mv /tmp/link /etc/contract.conf; rm /etc/contract.conf; echo mine > /etc/contract.conf");
    document(&s, "verification", &["verify", "--json"], 0);
    document(&s, "history", &["history", "--json"], 0);
    document(&s, "outcome", &["rollback", "--json"], 0);
    document(&s, "history", &["history", "--json"], 0);
    let error = document(&s, "error", &["install", "--json", "no-such-package"], 74);
    assert_eq!(error["error"]["code"], "not-found");
    document(&s, "error", &["install", "--json", "--no-such-option"], 2);
    document(&s, "outcome", &["reset", "--json"], 0);
    s.sh("mkdir /etc/rpm-ostree-transient.d && cd /etc/rpm-ostree-transient.d && echo 'owner = 1' > bad.toml && \
          printf 'owner = \"a\"\\npackages = [\"hello-transient\"]\\n' > good.toml");
    document(&s, "application", &["apply", "--json"], 90);
    let status = document(&s, "status", &["status", "--json"], 0);
    assert_eq!(status["spec"]["declarations"].as_array().unwrap().len(), 2, "{status:#}");
    document(&s, "outcome", &["reset", "--json"], 0);
    s.sh("ln -s /run/rpm-ostree-transient/etc/x /etc/x");
    document(&s, "cleanup", &["clean-boot", "--json"], 0);
}

/// Every line of `--progress-fd` fits its schema; the first is `start`, the last `done` with the exit status.
#[test]
fn progress_lines() {
    let s = Scenario::signed();
    let path = testkit::project().join("docs/schemas/progress.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for (words, status) in [("install hello-transient", 0), ("install no-such-package", 74), ("reset", 0)] {
        let text = s.sh(&format!(
            "rpm-ostree-transient {words} --progress-fd 7 7>/run/lines >/dev/null 2>&1; test $? = {status} && cat /run/lines"
        ));
        let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        for line in &lines {
            let errors: Vec<String> = validator.iter_errors(line).map(|e| e.to_string()).collect();
            assert!(errors.is_empty(), "{errors:?}\n{line}");
            keep("progress", line);
        }
        let (first, last) = (lines.first().unwrap(), lines.last().unwrap());
        assert_eq!((&first["kind"], &first["apiVersion"]), (&"start".into(), &"rpm-ostree-transient/v1".into()));
        assert_eq!((&last["kind"], &last["status"]), (&"done".into(), &status.into()), "{words}");
        if words.starts_with("install hello") {
            let phases: Vec<&str> = lines.iter().filter_map(|l| l["phase"].as_str()).collect();
            assert_eq!(phases, ["resolve", "fetch", "admit", "stage", "harvest", "activate", "settle"]);
        }
    }
    s.fails(&["install", "--progress-fd", "77", "a"], 2);
}

/// A reader that never reads holds nothing up.
#[test]
fn nobody_reads_the_progress() {
    let s = Scenario::signed();
    let started = std::time::Instant::now();
    // The shell holds both ends, and the pipe is full.
    let text = s.sh("mkfifo /run/pipe; exec 7<>/run/pipe; head -c 65536 /dev/zero >&7; \
         rpm-ostree-transient install --progress-fd 7 hello-transient >/dev/null && rpm -q hello-transient");
    assert!(text.contains("hello-transient-2.0"), "{text}");
    assert!(started.elapsed().as_secs() < 50, "{:?}", started.elapsed());
}
