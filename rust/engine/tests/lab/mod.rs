//! Real packages, real metadata, a real rpmdb and a small HTTP server, made once per test program by rpmbuild,
//! createrepo_c and rpm. A missing tool fails the test.
#![allow(dead_code, missing_docs, reason = "shared by several test programs, each of which uses a part")]

pub mod http;

use engine::resolve::{Input, Options, Resolution, resolve};
use model::manifest::Requested;
use model::progress::Silent;
use model::{Code, Failure, LayeredPackage, Nevra, PackageArg, Reason, Request, Signature};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tempfile::TempDir;

/// (name, version, architecture, lines of the preamble, files)
type Recipe = (&'static str, &'static str, &'static str, &'static str, &'static [&'static str]);

const RECIPES: &[Recipe] = &[
    ("test-release", "9", "noarch", "Provides: system-release = 9", &[]),
    ("libfoo", "1", "noarch", "", &["/usr/bin/foo-tool"]),
    ("libfoo", "2", "noarch", "", &["/usr/bin/foo-tool"]),
    ("app", "1", "noarch", "Requires: lib-a", &["/usr/bin/app"]),
    ("app", "2", "noarch", "Requires: lib-a", &["/usr/bin/app"]),
    ("lib-a", "1", "noarch", "Requires: lib-b >= 1", &[]),
    ("lib-b", "1", "noarch", "", &[]),
    ("addon", "1", "noarch", "Requires: app", &[]),
    ("hungry", "1", "noarch", "Requires: libfoo >= 2", &[]),
    ("wishful", "1", "noarch", "Requires: libfoo >= 3", &[]),
    ("grumpy", "1", "noarch", "Conflicts: libfoo", &[]),
    ("usurper", "1", "noarch", "Obsoletes: libfoo < 5", &[]),
    ("perlish", "1", "noarch", "Provides: perl(Foo) = 1.5", &[]),
    ("filer", "1", "noarch", "", &["/usr/share/filer/data"]),
    ("file-user", "1", "noarch", "Requires: /usr/share/filer/data", &[]),
    ("foreign", "1", "s390x", "", &[]),
    ("weak", "1", "noarch", "Recommends: lib-b", &[]),
];

pub struct Lab {
    dir: PathBuf,
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// The packages, built once.
pub fn lab() -> &'static Lab {
    static LAB: OnceLock<Lab> = OnceLock::new();
    LAB.get_or_init(|| {
        // A static is never dropped: the place is in the build directory, and each run replaces the last one's.
        let lab = Lab { dir: Path::new(env!("CARGO_TARGET_TMPDIR")).join(concat!("lab-", env!("CARGO_CRATE_NAME"))) };
        let _ = std::fs::remove_dir_all(&lab.dir);
        std::fs::create_dir_all(lab.rpms()).unwrap();
        for recipe in RECIPES {
            lab.build(recipe);
        }
        lab
    })
}

impl Lab {
    fn build(&self, (name, version, arch, preamble, files): &Recipe) {
        let spec = self.dir.join(format!("{name}-{version}.spec"));
        let mut install = String::new();
        for file in *files {
            install +=
                &format!("mkdir -p %{{buildroot}}$(dirname {file}); echo {name}-{version} > %{{buildroot}}{file}\n");
        }
        let noarch = if *arch == "noarch" { "BuildArch: noarch\n" } else { "" };
        let text = format!(
            "Name: {name}\nVersion: {version}\nRelease: 1\nSummary: {name}\nLicense: MIT\n{noarch}{preamble}\n\
             %description\n{name}\n%install\n{install}\n%files\n{}\n",
            files.join("\n")
        );
        std::fs::write(&spec, text).unwrap();
        let top = self.dir.join("build");
        let mut command = Command::new("rpmbuild");
        command.arg("-bb").arg("--quiet").arg("--define").arg(format!("_topdir {}", top.display()));
        command.arg("--define").arg(format!("_rpmdir {}", self.rpms().display()));
        command.args(["--define", "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm"]);
        if *arch != "noarch" {
            command.args(["--target", arch]);
        }
        run(command.arg(&spec));
    }

    fn rpms(&self) -> PathBuf {
        self.dir.join("rpms")
    }

    /// The file of `name-version`.
    pub fn rpm(&self, name_version: &str) -> PathBuf {
        let found = std::fs::read_dir(self.rpms())
            .unwrap()
            .map(|e| e.unwrap().path())
            .find(|p| p.file_name().unwrap().to_str().unwrap().starts_with(&format!("{name_version}-1.")));
        found.unwrap_or_else(|| panic!("{name_version} is not in the lab"))
    }

    /// A repository of these packages; all when the list is empty.
    pub fn repository(&self, dir: &Path, packages: &[&str]) {
        std::fs::create_dir_all(dir).unwrap();
        for (name, version, ..) in RECIPES {
            let name = format!("{name}-{version}");
            if packages.is_empty() || packages.contains(&name.as_str()) {
                let file = self.rpm(&name);
                std::fs::copy(&file, dir.join(file.file_name().unwrap())).unwrap();
            }
        }
        createrepo(dir);
    }
}

pub fn createrepo(dir: &Path) {
    run(Command::new("createrepo_c").arg("--quiet").arg(dir));
}

/// One host with its configuration, rpmdb and cache.
pub struct Host {
    pub dir: TempDir,
    pub layered: Vec<LayeredPackage>,
    pub requested: Vec<Requested>,
    pub options: Options,
}

impl Host {
    /// A host whose base is test-release and libfoo-1.
    pub fn new() -> Host {
        let host = Host {
            dir: TempDir::new().unwrap(),
            layered: Vec::new(),
            requested: Vec::new(),
            options: Options::default(),
        };
        std::fs::create_dir_all(host.root().join("etc/yum.repos.d")).unwrap();
        host.install("test-release-9");
        host.install("libfoo-1");
        host
    }

    /// The same with one repository of all packages, by `file://`.
    pub fn with_repository() -> Host {
        let host = Host::new();
        lab().repository(&host.path("repo"), &[]);
        host.configure("r", &format!("baseurl=file://{}", host.path("repo").display()));
        host
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn root(&self) -> PathBuf {
        self.path("root")
    }

    pub fn configure(&self, id: &str, text: &str) {
        let file = self.root().join(format!("etc/yum.repos.d/{id}.repo"));
        std::fs::write(file, format!("[{id}]\nname={id}\n{text}\n")).unwrap();
    }

    pub fn dnf_conf(&self, text: &str) {
        std::fs::create_dir_all(self.root().join("etc/dnf")).unwrap();
        std::fs::write(self.root().join("etc/dnf/dnf.conf"), format!("[main]\n{text}\n")).unwrap();
    }

    fn install(&self, name_version: &str) {
        let mut command = Command::new("rpm");
        command.arg("--root").arg(self.root()).args(["--justdb", "--nodeps", "--noscripts", "--notriggers", "-i"]);
        run(command.arg(lab().rpm(name_version)));
    }

    /// Records a package in the rpmdb as layered.
    pub fn layer(&mut self, name_version: &str, reason: Reason) {
        self.install(name_version);
        let nevra: Nevra = format!("{name_version}-1.noarch").parse().unwrap();
        if reason == Reason::Requested {
            self.requested.push(Requested {
                word: nevra.name.clone(),
                name: nevra.name.clone(),
                local: false,
                owners: vec![],
            });
        }
        self.layered.push(LayeredPackage {
            nevra,
            reason,
            repository: "r".into(),
            signature: Signature::NotChecked,
            installed_bytes: 1,
            checksum: None,
        });
    }

    pub fn resolve(&self, request: &Request) -> anyhow::Result<Resolution> {
        let input = Input {
            request,
            layered: &self.layered,
            requested: &self.requested,
            root: self.root(),
            cache: self.path("cache"),
            arch: "x86_64".into(),
            options: self.options.clone(),
        };
        resolve(&input, &Silent)
    }

    pub fn install_words(&self, words: &[&str]) -> anyhow::Result<Resolution> {
        let install = words.iter().map(|w| PackageArg::parse(w, Path::new("/")).unwrap()).collect();
        self.resolve(&Request { install, ..Request::default() })
    }

    pub fn uninstall_words(&self, words: &[&str]) -> anyhow::Result<Resolution> {
        let uninstall = words.iter().map(|w| (*w).to_owned()).collect();
        self.resolve(&Request { uninstall, ..Request::default() })
    }
}

/// `name-version` of what comes in, sorted.
pub fn coming(resolution: &Resolution) -> Vec<String> {
    resolution.plan.install.iter().map(|p| format!("{}-{}", p.nevra.name, p.nevra.version)).collect()
}

/// `name-version` of what goes, sorted.
pub fn going(resolution: &Resolution) -> Vec<String> {
    resolution.plan.remove.iter().map(|n| format!("{}-{}", n.name, n.version)).collect()
}

/// The failure of a result, which must have this code and name all these texts.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(result: anyhow::Result<T>, code: Code, texts: &[&str]) -> Failure {
    let error = result.expect_err("this must fail");
    let failure = error.downcast_ref::<Failure>().unwrap_or_else(|| panic!("no named case: {error:#}")).clone();
    assert_eq!(failure.code, code, "{error:#}");
    let all = format!("{} {}", failure.message, failure.hint.as_deref().unwrap_or_default());
    for text in texts {
        assert!(all.contains(text), "\"{text}\" is not in: {all}");
    }
    assert!(!failure.message.contains('\n'), "{all}");
    failure
}
