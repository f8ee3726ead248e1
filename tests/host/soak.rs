//! Random sequences of what people and accidents do to a host, from a seeded generator. After each step everything that
//! can be asked says the same; at the end the host is as before. `SOAK_SEED`, `SOAK_SEQUENCES` and `SOAK_OPERATIONS` choose
//! what runs; without them it is a few fixed ones. `make soak` runs many.

use crate::outside::everything;
use crate::scenario::Scenario;
use std::collections::BTreeSet;
use std::time::Duration;
use testkit::host::Output;
use testkit::packages::{Content, Package};
use testkit::picture::Picture;

/// xorshift64*: small, and the same everywhere.
struct Generator(u64);

impl Generator {
    fn new(seed: u64) -> Generator {
        let mut generator = Generator(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            generator.next();
        }
        generator
    }
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
    fn choose<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[usize::try_from(self.next() % from.len() as u64).unwrap()]
    }
}

/// Every kind of effect, alone and together, in two versions.
fn packages() -> Vec<Package> {
    let mut all = Vec::new();
    for version in ["1", "2"] {
        all.push(everything(version));
        let mut plain = Package::new("plain", version).file("/usr/share/plain/same", "same\n");
        plain = plain.file(&format!("/usr/share/plain/only-{version}"), version);
        all.push(plain.program("/usr/bin/plain", &format!("#!/bin/sh\necho {version}\n")));
        all.push(
            Package::new("declares", version)
                .file("/usr/lib/sysusers.d/declares.conf", "u declared - \"Declared\" /nonexistent\n")
                .any_file(
                    "/usr/share/declared",
                    Content::Text(version.into()),
                    0o640,
                    "%attr(0640, declared, declared)",
                ),
        );
        all.push(
            Package::new("service", version)
                .file(
                    "/usr/lib/systemd/system/soak.service",
                    "[Service]\nExecStart=/usr/bin/true\n[Install]\nWantedBy=multi-user.target\n",
                )
                .config("/etc/soak.conf", &format!("{version}\n"))
                .config("/etc/systemd/system/soak.service.d/x.conf", "[Service]\nNice=1\n")
                .scriptlet("post", "systemctl --no-reload preset soak.service >/dev/null 2>&1 || :"),
        );
        all.push(
            Package::new("scripted", version)
                .file("/usr/share/scripted", version)
                .scriptlet("pre", "getent passwd soaker >/dev/null || useradd -r -M -d /nonexistent soaker")
                .scriptlet("post", "echo x >> /etc/hosts; echo y > /etc/by-scriptlet; mkdir -p /var/lib/scripted; echo z > /var/lib/scripted/z"),
        );
        let share = if version == "1" { "/etc/moved.conf" } else { "/etc/moved/new.conf" };
        all.push(Package::new("moves", version).config(share, "m\n").file("/var/lib/moves/x", version));
    }
    all
}

const STEPS: [&str; 14] = [
    "resolved",
    "fetched",
    "admitted",
    "staged",
    "harvested",
    "sealed",
    "journaled",
    "covered",
    "effect",
    "before-swap",
    "swapped",
    "settled",
    "recorded",
    "reset-detached",
];

struct Soak {
    s: Scenario,
    first: Picture,
    random: Generator,
    log: Vec<String>,
    /// Paths that a command said it keeps.
    kept: BTreeSet<String>,
    /// What was written into live copies.
    edits: Vec<String>,
}

impl Soak {
    fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.s.ok(&["status", "--json"])).unwrap()
    }

    fn note(&mut self, out: &Output) {
        for line in out.stderr.lines().chain(out.stdout.lines()) {
            if let Some((_, path)) = line.split_once("Your changes are kept in ") {
                self.kept.insert(path.trim().to_owned());
            }
        }
    }

    /// The words of a random change that can be asked for now.
    fn change(&mut self) -> Vec<String> {
        let status = self.status();
        let layered: Vec<String> = status["status"]["packages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|p| p["nevra"].as_str().unwrap().split('-').next().unwrap().to_owned())
            .collect();
        let words = |w: &[&str]| w.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        match self.random.next() % 10 {
            0..=5 => {
                let mut args = words(&["install", "--disablerepo=*", "--nogpgcheck", "--idempotent"]);
                let all = packages();
                for _ in 0..=self.random.next() % 2 {
                    let file = format!("/run/packages/{}", self.random.choose(&all).file_name());
                    // Two versions of one package are no request.
                    let name = file.split('-').next().unwrap().to_owned() + "-";
                    if !args.iter().any(|a| a.starts_with(&name)) {
                        args.push(file);
                    }
                }
                args
            }
            6..=8 if !layered.is_empty() => words(&["uninstall", self.random.choose(&layered).as_str()]),
            9 if self.random.next().is_multiple_of(2) => words(&["reset"]),
            _ => words(&["rollback"]),
        }
    }

    fn step(&mut self) {
        match self.random.next() % 13 {
            0..=6 => {
                let args = self.change();
                self.log.push(args.join(" "));
                let out = self.s.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
                self.note(&out);
                let fine = out.status == 0 || args[0] == "rollback" && out.status == 74;
                assert!(fine, "{out:?}");
            }
            7 | 12 => {
                let copies =
                    "find /run/rpm-ostree-transient/etc/ -type f -name '*.conf' -printf '/etc/%P\n' | LC_ALL=C sort";
                let mut copies: Vec<String> = self.s.sh(copies).lines().map(str::to_owned).collect();
                // A new file in a directory that is the layer's.
                let added =
                    copies.iter().filter_map(|c| c.strip_suffix("/one.conf").map(|d| format!("{d}/added"))).next();
                copies.extend(added);
                if !copies.is_empty() {
                    let (path, n) = (self.random.choose(&copies).clone(), self.log.len());
                    self.log.push(format!("edit {path}"));
                    self.s.sh(&format!("echo edit-{n} >> {path}"));
                    self.edits.push(format!("edit-{n}"));
                }
            }
            8 => {
                let new = self.random.next().is_multiple_of(4);
                self.log.push(format!("soft reboot, new deployment {new}"));
                self.s.host.soft_reboot(new).unwrap();
                self.repair();
            }
            n => self.accident(n == 9),
        }
    }

    /// A change that is killed, or fails, at some step of its way.
    fn accident(&mut self, fails: bool) {
        let (args, step) = (self.change(), *self.random.choose(&STEPS));
        self.log.push(format!("{} {} at {step}", args.join(" "), if fails { "fails" } else { "is killed" }));
        let mut argv = vec!["rpm-ostree-transient"];
        argv.extend(args.iter().map(String::as_str));
        if fails {
            let out = self.s.run_env(&[("FAILPOINTS", &format!("{step}=return"))], &argv[1..]);
            self.note(&out);
        } else {
            let mut running = self.s.host.spawn(&[("FAILPOINTS", &format!("{step}=sleep(600000)"))], &argv).unwrap();
            let reached = running.wait_for_sleep(Duration::from_secs(300)).unwrap();
            let out = if reached { running.kill() } else { running.finish() }.unwrap();
            self.note(&out);
        }
        self.repair();
    }

    /// Any change repairs; this one changes nothing else.
    fn repair(&mut self) {
        let out = self.s.run(&["rollback", "--dry-run"]);
        self.note(&out);
        assert!([0, 74].contains(&out.status), "repair: {out:?}");
    }

    /// Everything that can be asked says the same, and nothing differs that status does not tell.
    fn check(&self) {
        let out = self.s.run(&["verify"]);
        assert_eq!(out.status, 0, "{out:?}");
        // A directory in which an edit was saved is no link any more, also for a generation that comes back.
        let mut notes = out.stdout.lines().filter_map(|l| l.strip_prefix("note: ")?.split(':').next());
        assert!(notes.all(|n| self.kept.iter().any(|k| k.starts_with(&format!("{n}/")))), "{out:?}");
        let status = self.status();
        let effects = status["status"]["effects"].as_array().unwrap();
        let mut known: Vec<String> = effects.iter().filter_map(|e| e["path"].as_str()).map(str::to_owned).collect();
        known.push("/etc/systemd/system/sysinit.target.wants".into());
        known.push("/var/opt/every".into());
        known.extend(self.kept.iter().cloned());
        let now = self.outside();
        let unknown: Vec<String> = self
            .first
            .differing(&now)
            .into_iter()
            .map(|p| format!("/{}", p.display()))
            .filter(|p| {
                !left_out(p) && !known.iter().any(|k| p.starts_with(k.as_str()) || k.starts_with(&format!("{p}/")))
            })
            .collect();
        assert_eq!(unknown, Vec::<String>::new(), "kept: {:?}", self.kept);
        if status["status"]["generation"] == 0 {
            self.s.sh("! ls /run/ostree/deployment-state/*/unlocked-transient 2>/dev/null; ! test -e /run/rpm-ostree-transient/origin");
        }
    }

    fn outside(&self) -> Picture {
        let out = ["usr", "boot", "run", "proc", "sys", "dev", "tmp", "var/cache", "sysroot"];
        Picture::of(&self.s.host.root(), &out).unwrap()
    }

    fn end(&mut self) {
        self.log.push("reset".into());
        let out = self.s.run(&["reset"]);
        assert_eq!(out.status, 0, "{out:?}");
        self.note(&out);
        // No edit is lost.
        for edit in &self.edits {
            self.s.sh(&format!("grep -rqw {edit} /etc"));
        }
        for path in &self.kept {
            self.s.sh(&format!("rm -f {path}"));
            // And the directories that were made for it.
            for dir in std::path::Path::new(path).ancestors().skip(1) {
                let dir = dir.display().to_string();
                if self.first.get(dir.trim_start_matches('/')).is_some() {
                    break;
                }
                self.s.sh(&format!("rmdir {dir} 2>/dev/null || :"));
            }
        }
        self.kept.clear();
        self.check();
        let mut lines = self.s.host.picture().unwrap().differences(&self.first);
        lines.retain(|l| !l[2..].starts_with("/boot"));
        assert_eq!(lines, Vec::<String>::new());
    }
}

/// What [`Soak::outside`] does not look into.
fn left_out(path: &str) -> bool {
    path.starts_with("/usr/") || path.starts_with("/boot/")
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|v| v.parse().unwrap_or_else(|_| panic!("{name}={v}")))
}

#[test]
fn random_sequences() {
    let operations = number("SOAK_OPERATIONS").unwrap_or(20);
    let first_seed = number("SOAK_SEED").unwrap_or(1);
    for seed in first_seed..first_seed + number("SOAK_SEQUENCES").unwrap_or(2) {
        println!("soak: seed {seed}, {operations} operations");
        let s = Scenario::unsigned();
        let first = s.host.picture().unwrap();
        let all = packages();
        for package in &all {
            let dir = s.host.root().join("run/packages");
            std::fs::create_dir_all(&dir).unwrap();
            package.build(&dir).unwrap();
        }
        let mut soak =
            Soak { s, first, random: Generator::new(seed), log: vec![], kept: BTreeSet::new(), edits: vec![] };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..operations {
                soak.step();
                soak.check();
            }
            soak.end();
        }));
        if std::env::var_os("SOAK_LOG").is_some() {
            println!("  {}", soak.log.join("\n  "));
        }
        if result.is_err() {
            panic!("SOAK_SEED={seed} SOAK_SEQUENCES=1 repeats it; after:\n  {}", soak.log.join("\n  "));
        }
    }
}
