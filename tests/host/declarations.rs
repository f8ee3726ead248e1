//! Declarations: several owners, one host. `apply` brings it to the union of what they say, whatever one of them breaks.

use crate::scenario::Scenario;
use serde_json::Value;
use std::collections::BTreeSet;
use testkit::packages::Package;

/// Writes a drop-in.
fn declare(s: &Scenario, directory: &str, name: &str, text: &str) {
    let directory = s.host.root().join(directory).join("rpm-ostree-transient.d");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join(name), text).unwrap();
}

fn of(owner: &str, packages: &str) -> String {
    format!("owner = \"{owner}\"\npackages = [{packages}]\n")
}

#[track_caller]
fn json(s: &Scenario, args: &[&str], status: i32) -> Value {
    let out = s.run(args);
    assert_eq!(out.status, status, "{args:?}: {out:?}");
    serde_json::from_str(&out.stdout).unwrap_or_else(|e| panic!("{e}: {out:?}"))
}

/// The requested words of the host with their owners.
#[track_caller]
fn requested(s: &Scenario) -> Vec<(String, Vec<String>)> {
    let status = json(s, &["status", "--json"], 0);
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let owners = |r: &Value| r["owners"].as_array().map(|o| o.iter().map(text).collect()).unwrap_or_default();
    let all = status["spec"]["requested"].as_array().unwrap();
    let mut all: Vec<_> = all.iter().map(|r| (text(&r["word"]), owners(r))).collect();
    all.sort();
    all
}

fn words(list: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    list.iter().map(|(w, o)| ((*w).to_owned(), o.iter().map(|o| (*o).to_owned()).collect())).collect()
}

#[test]
fn the_union_of_all_owners() {
    let s = Scenario::signed();
    let hash = s.host.persistent_hash().unwrap();
    assert_eq!(s.run(&["apply", "--unchanged-exit-77"]).status, 77, "nothing is declared");
    declare(&s, "etc", "10-greet.toml", &of("team-a", "\"greet-user\""));
    declare(&s, "run", "20-hello.toml", &of("team-b", "\"hello-transient\", \"libgreet\""));
    let dry = json(&s, &["apply", "--dry-run", "--json", "--unchanged-exit-77"], 0);
    assert_eq!((&dry["changed"], &dry["kind"]), (&false.into(), &"Application".into()));
    assert!(requested(&s).is_empty());
    let done = json(&s, &["apply", "--json"], 0);
    assert_eq!((&done["changed"], &done["generation"]), (&true.into(), &1.into()), "{done:#}");
    s.sh("rpm -q greet-user libgreet hello-transient");
    let b: &[&str] = &["team-b"];
    assert_eq!(requested(&s), words(&[("greet-user", &["team-a"]), ("hello-transient", b), ("libgreet", b)]));
    assert_eq!(s.run(&["apply", "--unchanged-exit-77"]).status, 77);

    // By hand: stays, whatever the declarations do.
    s.ok(&["install", "hello-transient", "--idempotent"]);
    s.sh("rm /run/rpm-ostree-transient.d/20-hello.toml");
    json(&s, &["apply", "--json"], 0);
    assert_eq!(requested(&s), words(&[("greet-user", &["team-a"]), ("hello-transient", &[])]));
    // What another one needs stays, as a dependency.
    s.sh("rpm -q greet-user libgreet hello-transient");
    let status = json(&s, &["status", "--json"], 0);
    let libgreet = status["status"]["packages"].as_array().unwrap().iter();
    let libgreet = libgreet.clone().find(|p| p["nevra"].to_string().contains("libgreet")).unwrap();
    assert_eq!(libgreet["reason"], "dependency");

    // Masked by a link: asked for by nobody, greet-user stays only because hello-transient needs it.
    s.sh("mv /etc/rpm-ostree-transient.d/10-greet.toml /run/rpm-ostree-transient.d/ && \
          ln -s /dev/null /etc/rpm-ostree-transient.d/10-greet.toml");
    s.ok(&["apply"]);
    assert_eq!(requested(&s), words(&[("hello-transient", &[])]));
    s.sh("rpm -q hello-transient greet-user");
    s.ok(&["uninstall", "--all"]);
    assert_eq!(s.run(&["apply", "--unchanged-exit-77"]).status, 77);
    assert_eq!(s.host.persistent_hash().unwrap(), hash);
}

#[test]
fn one_bad_object_holds_nobody_up() {
    let s = Scenario::signed();
    let evil = Package::new("evil", "1").file("/boot/vmlinuz", "x");
    evil.build(&s.host.root().join("run")).unwrap();
    let unsigned = Package::new("breaks", "1").scriptlet("pre", "exit 7");
    unsigned.build(&s.host.root().join("run")).unwrap();
    declare(&s, "etc", "10-typo.toml", "owner = \"typo\"\npackagse = [\"greet-user\"]\n");
    declare(&s, "etc", "20-missing.toml", &of("missing", "\"libgreet\", \"no-such-package\""));
    declare(&s, "etc", "30-good.toml", &of("good", "\"hello-transient\""));
    declare(&s, "etc", "40-evil.toml", &of("evil", &format!("\"/run/{}\"", evil.file_name())));
    declare(&s, "etc", "50-breaks.toml", &of("breaks", &format!("\"/run/{}\"", unsigned.file_name())));
    declare(&s, "etc", "60-also.toml", &of("also", "\"greet-user\""));
    let out = json(&s, &["apply", "--json", "--unchanged-exit-77"], 90);
    let states: Vec<(&str, &str, &str)> = out["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| {
            let text = |v: &'_ Value| v.as_str().unwrap_or("").to_owned();
            let leak = |t: String| &*t.leak();
            (leak(text(&o["owner"])), leak(text(&o["state"])), leak(text(&o["error"]["code"])))
        })
        .collect();
    assert_eq!(
        states,
        [
            ("typo", "refused", "usage"),
            ("missing", "refused", "not-found"),
            ("good", "applied", ""),
            ("evil", "refused", "refused"),
            ("breaks", "refused", "scriptlet"),
            ("also", "applied", ""),
        ],
        "{out:#}"
    );
    s.sh("rpm -q hello-transient greet-user libgreet && ! rpm -q evil && ! rpm -q breaks");
    assert_eq!(requested(&s), words(&[("greet-user", &["also"]), ("hello-transient", &["good"])]));
    // status tells it to everybody, with file, line and owner.
    let status = s.ok(&["status"]);
    assert!(status.contains("10-typo.toml (typo):") && status.contains(":2: unknown key"), "{status}");
    assert!(status.contains("hello-transient for good"), "{status}");
    // Mended, it is applied.
    declare(&s, "etc", "10-typo.toml", &of("typo", "\"greet-user\""));
    s.sh("rm /etc/rpm-ostree-transient.d/[245]*");
    s.ok(&["apply"]);
    assert_eq!(requested(&s), words(&[("greet-user", &["also", "typo"]), ("hello-transient", &["good"])]));
}

/// A repository that cannot be reached is nobody's fault: nothing goes.
#[test]
fn without_a_repository_nothing_changes() {
    let s = Scenario::signed();
    declare(&s, "etc", "a.toml", &of("a", "\"hello-transient\""));
    s.ok(&["apply"]);
    s.sh("sed -i 's,baseurl=.*,baseurl=http://127.0.0.1:9/,' /etc/yum.repos.d/test.repo; \
          rm -rf /var/cache/rpm-ostree-transient");
    // What holds needs no repository.
    assert_eq!(s.run(&["apply", "--unchanged-exit-77"]).status, 77);
    declare(&s, "etc", "b.toml", &of("b", "\"greet-user\""));
    s.fails(&["apply"], 75);
    s.sh("rpm -q hello-transient");
    s.sh("rm /etc/rpm-ostree-transient.d/*.toml");
    s.ok(&["apply"]);
    s.sh("! rpm -q hello-transient");
}

/// The state of an object's container is looked at by each `apply`.
#[test]
fn an_object_goes_with_its_container() {
    let s = Scenario::signed();
    let id = "5e".repeat(32);
    let container = format!("/var/lib/containers/storage/overlay-containers/{id}");
    let text = of("pod", "\"hello-transient\"") + &format!("lifetime = \"container:{id}\"\n");
    declare(&s, "run", "pod.toml", &text);
    assert_eq!(json(&s, &["apply", "--json"], 0)["objects"][0]["state"], "expired");
    s.sh(&format!("mkdir -p {container}"));
    assert_eq!(json(&s, &["apply", "--json"], 0)["objects"][0]["state"], "applied");
    s.sh(&format!("rpm -q hello-transient && rmdir {container}"));
    assert_eq!(json(&s, &["apply", "--json"], 0)["objects"][0]["state"], "expired");
    s.sh("! rpm -q hello-transient");
}

/// A generator that anybody can repeat.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }
}

/// Ten owners change a hundred files at random, with `apply` running against them and each other. After the last change
/// and one more `apply` the host has the union of all valid objects, and nothing else.
#[test]
fn a_hundred_files_of_ten_owners() {
    let s = Scenario::signed();
    let names: Vec<String> = (0..12).map(|n| format!("declared-{n}")).collect();
    for name in &names {
        let package = Package::new(name, "1").file(&format!("/usr/share/{name}"), name);
        package.build(&s.host.root().join("srv")).unwrap();
    }
    let rpm = |n: usize| format!("/srv/{}", Package::new(&names[n], "1").file_name());
    let seed = std::env::var("DECLARATIONS_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(20_261_201);
    println!("declarations: seed {seed}");
    let mut random = Random(seed);
    let mut files: Vec<Option<usize>> = vec![None; 100];
    for round in 0..6 {
        let running: Vec<_> =
            (0..2).map(|_| s.host.spawn(&[], &["rpm-ostree-transient", "apply", "--json"]).unwrap()).collect();
        for _ in 0..40 {
            let file = random.below(files.len());
            let path = format!("{file:02}.toml");
            let owner = format!("owner-{}", file % 10);
            files[file] = None;
            match random.below(4) {
                0 => drop(std::fs::remove_file(s.host.root().join("etc/rpm-ostree-transient.d").join(path))),
                1 => declare(&s, "etc", &path, &format!("owner = \"{owner}\"\nbad = {file}\n")),
                _ => {
                    let n = random.below(names.len());
                    files[file] = Some(n);
                    declare(&s, "etc", &path, &of(&owner, &format!("\"{}\"", rpm(n))));
                }
            }
        }
        for mut r in running {
            let out = r.finish().unwrap();
            assert!([0, 90].contains(&out.status), "{out:?}");
        }
        let out = s.run(&["apply", "--json"]);
        assert!([0, 90].contains(&out.status), "round {round}: {out:?}");
        let want: BTreeSet<&str> = files.iter().flatten().map(|n| names[*n].as_str()).collect();
        let got = s.sh("rpm -qa --qf '%{name}\\n' 'declared-*'; ls /usr/share | grep '^declared-' || :");
        let got: Vec<&str> = got.lines().collect();
        assert_eq!(got.len(), 2 * want.len(), "round {round}: {got:?}, not {want:?}");
        assert_eq!(got.iter().copied().collect::<BTreeSet<_>>(), want, "round {round}");
        for (word, owners) in requested(&s) {
            let n = names.iter().position(|name| word == Package::new(name, "1").file_name()).unwrap();
            let mut expected: Vec<String> =
                (0..100).filter(|f| files[*f] == Some(n)).map(|f| format!("owner-{}", f % 10)).collect();
            expected.sort();
            expected.dedup();
            assert_eq!(owners, expected, "round {round}: {word}");
        }
    }
    s.ok(&["verify"]);
}
