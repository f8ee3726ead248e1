//! Yum repositories of the test packages, one signed and one not, with the keys a host may be told to trust. Made once
//! and kept in the cache; the secret key lives only while they are made.

use crate::packages::{Package, test_set};
use crate::{cached, key_of, tool};
use anyhow::{Context as _, Result};
use fn_error_context::context;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directories and keys of the test repositories.
#[derive(Debug, Clone)]
pub struct Repositories {
    /// What a server serves: `signed/` and `unsigned/`.
    pub dir: PathBuf,
    /// The public key of `signed/`, armoured.
    pub key: PathBuf,
    /// A public key that signed nothing here.
    pub other_key: PathBuf,
}

/// The repositories of [`test_set`].
///
/// # Errors
/// When a tool fails: rpmbuild, rpmsign, gpg or createrepo_c.
pub fn repositories() -> Result<Repositories> {
    let packages = test_set();
    // With this file, as it says how they are made.
    let key =
        key_of([format!("{packages:?}"), include_str!("repository.rs").into(), include_str!("packages.rs").into()]);
    let dir = cached("repositories", &key, |dir| make(dir, &packages))?;
    Ok(Repositories { key: dir.join("key.asc"), other_key: dir.join("other-key.asc"), dir })
}

#[context("Making the test repositories")]
fn make(dir: &Path, packages: &[Package]) -> Result<()> {
    let (unsigned, signed) = (dir.join("unsigned"), dir.join("signed"));
    for path in [&unsigned, &signed] {
        fs::create_dir(path)?;
    }
    let signer = Signer::new("packages@example.invalid")?;
    Signer::new("somebody-else@example.invalid")?.export(&dir.join("other-key.asc"))?;
    signer.export(&dir.join("key.asc"))?;
    let mut to_sign = Vec::new();
    for package in packages {
        let path = package.build(&unsigned)?;
        let copy = signed.join(path.file_name().context("A package without a name")?);
        fs::copy(&path, &copy)?;
        to_sign.push(copy);
    }
    signer.sign(&to_sign)?;
    index(&unsigned)?;
    index(&signed)
}

/// Writes the metadata of a directory of packages.
///
/// # Errors
/// When createrepo_c fails.
pub fn index(dir: &Path) -> Result<()> {
    tool(Command::new("createrepo_c").arg("--quiet").arg(dir)).map(drop)
}

/// A key pair in a directory of its own. Gone, with its agent, when this value is.
#[derive(Debug)]
pub struct Signer {
    home: tempfile::TempDir,
    user: String,
}

impl Signer {
    /// A new key.
    ///
    /// # Errors
    /// When gpg fails.
    #[context("Making a key for {user}")]
    pub fn new(user: &str) -> Result<Signer> {
        // Directly below /tmp: the name of the agent's socket may not be long.
        let home = tempfile::Builder::new().prefix("gpg.").tempdir_in("/tmp")?;
        let signer = Signer { home, user: user.to_owned() };
        tool(signer.gpg().args(["--passphrase", "", "--quick-generate-key", user, "rsa2048", "sign", "never"]))?;
        Ok(signer)
    }

    fn gpg(&self) -> Command {
        let mut gpg = Command::new("gpg");
        gpg.env("GNUPGHOME", self.home.path()).args(["--batch", "--quiet", "--no-tty", "--pinentry-mode", "loopback"]);
        gpg
    }

    /// Writes the public key, armoured.
    ///
    /// # Errors
    /// When gpg fails.
    pub fn export(&self, path: &Path) -> Result<()> {
        fs::write(path, tool(self.gpg().args(["--armor", "--export", &self.user]))?)?;
        Ok(())
    }

    /// Signs packages where they are.
    ///
    /// # Errors
    /// When rpmsign fails.
    pub fn sign(&self, packages: &[PathBuf]) -> Result<()> {
        let mut sign = Command::new("rpmsign");
        sign.env("GNUPGHOME", self.home.path()).args(["--addsign", "--define", &format!("_gpg_name {}", self.user)]);
        // Debian's rpm looks for it where Debian does not put it.
        sign.args(["--define", "__gpg /usr/bin/gpg"]);
        sign.args(["--define", &format!("_gpg_path {}", self.home.path().display())]).args(packages);
        tool(&mut sign).map(drop)
    }
}

impl Drop for Signer {
    fn drop(&mut self) {
        // The agent would notice the missing directory by itself, but only a minute later.
        let _ = Command::new("gpgconf").env("GNUPGHOME", self.home.path()).args(["--kill", "gpg-agent"]).output();
    }
}
