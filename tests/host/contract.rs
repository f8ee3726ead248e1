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
    if let Some(dir) = std::env::var_os("TRANSIENT_KEEP_DOCUMENTS") {
        let path = testkit::project().join(dir).join(format!("{name}.json"));
        let text = format!("{document:#}\n");
        // The one that tells most.
        if std::fs::read(&path).map_or(0, |old| old.len()) < text.len() {
            std::fs::write(path, text).unwrap();
        }
    }
    document
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
    s.sh("ln -s /run/rpm-ostree-transient/etc/x /etc/x");
    document(&s, "cleanup", &["clean-boot", "--json"], 0);
}
