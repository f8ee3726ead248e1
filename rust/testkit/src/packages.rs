//! Packages for tests, made by the real rpmbuild from short descriptions. [`test_set`] is what the test repository has.

use crate::tool;
use anyhow::{Context as _, Result};
use fn_error_context::context;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Content {
    /// This text.
    Text(String),
    /// So many bytes that no compression makes smaller; always the same ones.
    Noise(usize),
    /// These bytes.
    Bytes(Vec<u8>),
    /// No file, but a symlink to this.
    Link(String),
}

/// A file of a package.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct File {
    path: String,
    content: Content,
    mode: u32,
    /// Words before it in `%files`, such as `%config(noreplace)`.
    tags: String,
}

/// A package to be made. Noarch, release 1, licence MIT, unless told otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Package {
    name: String,
    version: String,
    release: String,
    native: bool,
    /// Lines of the preamble: `Requires: …` and the like.
    tags: Vec<String>,
    files: Vec<File>,
    /// Slot (`pre`, `post -p <lua>`) and body.
    scriptlets: Vec<(String, String)>,
}

impl Package {
    /// An empty one.
    pub fn new(name: &str, version: &str) -> Package {
        let (name, version, release) = (name.to_owned(), version.to_owned(), "1".to_owned());
        Package { name, version, release, native: false, tags: vec![], files: vec![], scriptlets: vec![] }
    }

    /// Another release than 1.
    #[must_use]
    pub fn release(mut self, release: &str) -> Package {
        release.clone_into(&mut self.release);
        self
    }

    /// For this machine's architecture instead of any.
    #[must_use]
    pub fn native(mut self) -> Package {
        self.native = true;
        self
    }

    /// A line of the preamble, such as `tag("Conflicts", "x1")`.
    #[must_use]
    pub fn tag(mut self, tag: &str, value: &str) -> Package {
        self.tags.push(format!("{tag}: {value}"));
        self
    }

    /// `Requires:`.
    #[must_use]
    pub fn requires(self, capability: &str) -> Package {
        self.tag("Requires", capability)
    }

    /// A text file, mode 0644.
    #[must_use]
    pub fn file(self, path: &str, text: &str) -> Package {
        self.any_file(path, Content::Text(text.to_owned()), 0o644, "")
    }

    /// A program, mode 0755.
    #[must_use]
    pub fn program(self, path: &str, text: &str) -> Package {
        self.any_file(path, Content::Text(text.to_owned()), 0o755, "")
    }

    /// A configuration file.
    #[must_use]
    pub fn config(self, path: &str, text: &str) -> Package {
        self.any_file(path, Content::Text(text.to_owned()), 0o644, "%config(noreplace)")
    }

    /// Any regular file, with words of `%files` for it.
    #[must_use]
    pub fn any_file(mut self, path: &str, content: Content, mode: u32, tags: &str) -> Package {
        self.files.push(File { path: path.to_owned(), content, mode, tags: tags.to_owned() });
        self
    }

    /// A symlink.
    #[must_use]
    pub fn link(self, path: &str, target: &str) -> Package {
        self.any_file(path, Content::Link(target.to_owned()), 0o777, "")
    }

    /// A scriptlet: `pre`, `post`, `preun`, …
    #[must_use]
    pub fn scriptlet(mut self, slot: &str, body: &str) -> Package {
        self.scriptlets.push((slot.to_owned(), body.to_owned()));
        self
    }

    /// `NAME-VERSION-RELEASE.ARCH.rpm`.
    pub fn file_name(&self) -> String {
        let arch = if self.native { std::env::consts::ARCH } else { "noarch" };
        format!("{}-{}-{}.{arch}.rpm", self.name, self.version, self.release)
    }

    /// The spec, with the files taken from `source`.
    fn spec(&self, source: &Path) -> String {
        let mut text = String::from(
            "%global debug_package %{nil}\n%global __os_install_post %{nil}\n%global _build_id_links none\n\
             %global _binary_payload w3.zstdio\n",
        );
        let Package { name, version, release, native, tags, files, scriptlets } = self;
        // Writing to a String does not fail.
        let _ = write!(
            text,
            "Name: {name}\nVersion: {version}\nRelease: {release}\nSummary: Test package {name}\nLicense: MIT\n{}{}\n\
             %description\nA package for tests.\n%install\ncp -a '{}/.' %{{buildroot}}/\n%files\n",
            if *native { "" } else { "BuildArch: noarch\n" },
            tags.join("\n"),
            source.display(),
        );
        for File { path, tags, mode, content } in files {
            let as_it_is = tags.contains("%attr") || matches!(content, Content::Link(_));
            let attr = if as_it_is { String::new() } else { format!("%attr({mode:04o}, root, root) ") };
            let _ = writeln!(text, "{attr}{tags} {path}");
        }
        for (slot, body) in scriptlets {
            let _ = write!(text, "%{slot}\n{body}\n");
        }
        text
    }

    /// Builds it into `out`; the path of the package.
    ///
    /// # Errors
    /// When rpmbuild refuses it.
    #[context("Building {}", self.file_name())]
    pub fn build(&self, out: &Path) -> Result<PathBuf> {
        let work = tempfile::tempdir()?;
        let source = work.path().join("files");
        fs::create_dir(&source)?;
        for File { path, content, mode, .. } in &self.files {
            let path = source.join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().context("A file without a directory")?)?;
            match content {
                Content::Text(text) => fs::write(&path, text)?,
                Content::Noise(len) => fs::write(&path, noise(*len))?,
                Content::Bytes(bytes) => fs::write(&path, bytes)?,
                Content::Link(target) => {
                    std::os::unix::fs::symlink(target, &path)?;
                    continue;
                }
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(*mode))?;
        }
        let spec = work.path().join("package.spec");
        fs::write(&spec, self.spec(&source))?;
        let define = |name: &str, value: &Path| format!("{name} {}", value.display());
        tool(
            Command::new("rpmbuild")
                .args(["-bb", "--quiet", "--define", &define("_topdir", &work.path().join("top"))])
                .args([
                    "--define",
                    &define("_rpmdir", out),
                    "--define",
                    "_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
                ])
                .arg(&spec),
        )?;
        Ok(out.join(self.file_name()))
    }
}

/// Bytes of a small generator (xorshift64): random enough for any compressor, and always the same.
fn noise(len: usize) -> Vec<u8> {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        bytes.extend_from_slice(&x.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// The packages of the test repository.
pub fn test_set() -> Vec<Package> {
    let hello = |version: &str| {
        Package::new("hello-transient", version)
            .requires("libgreet")
            .requires("greet-data")
            .requires("greet-user")
            .program(
                "/usr/bin/hello-transient",
                &format!("#!/bin/sh\n. /usr/lib/libgreet/greet.sh\ngreet \"hello-transient {version}\"\n"),
            )
    };
    vec![
        hello("1.0"),
        hello("2.0"),
        Package::new("libgreet", "1.0").file("/usr/lib/libgreet/greet.sh", "greet() { echo \"$1\"; }\n"),
        Package::new("greet-data", "1.0")
            .file("/usr/share/greet/words", "hello\n")
            .file(
                "/usr/lib/systemd/system/greet.service",
                "[Unit]\nDescription=Greets\n[Service]\nType=oneshot\nExecStart=/usr/bin/hello-transient\n\
                 [Install]\nWantedBy=multi-user.target\n",
            )
            .scriptlet("post", "[ \"$1\" -ne 1 ] || systemctl --no-reload preset greet.service >/dev/null 2>&1 || :")
            .scriptlet("preun", "[ \"$1\" -ne 0 ] || systemctl --no-reload disable greet.service >/dev/null 2>&1 || :"),
        Package::new("greet-user", "1.0").file("/usr/share/greet-user/motto", "greetings\n").scriptlet(
            "pre",
            "getent group greeter >/dev/null || groupadd -r greeter\n\
             getent passwd greeter >/dev/null || \
             useradd -r -g greeter -M -d /nonexistent -s /usr/sbin/nologin -c Greets greeter",
        ),
        Package::new("a", "1.0").file("/usr/share/a", "a\n"),
        Package::new("b", "1.0").file("/usr/share/b", "b\n"),
        Package::new("c", "1.0").requires("a").file("/usr/share/c", "c\n"),
        Package::new("needs-newer-base", "1.0").requires("bash >= 999").file("/usr/share/needs-newer-base", "x\n"),
        Package::new("bash", "999").native().program("/usr/bin/bash", "#!/bin/sh\necho not bash\n"),
        Package::new("obsoletes-base", "1.0").tag("Obsoletes", "bash < 999").file("/usr/share/obsoletes-base", "x\n"),
        Package::new("prein-fails", "1.0").file("/usr/share/prein-fails", "x\n").scriptlet("pre", "exit 3"),
        Package::new("etc-file", "1.0").config("/etc/etc-file.conf", "key=value\n"),
        Package::new("big", "1.0").any_file("/usr/share/big", Content::Noise(40 << 20), 0o644, ""),
        Package::new("x1", "1.0").file("/usr/share/x", "from x1\n"),
        Package::new("x2", "1.0").file("/usr/share/x", "from x2\n"),
    ]
}
