//! `librpm::verify` against packages that rpmbuild made and rpmsign signed with keys made for this run.

use bridge::librpm::{Verdict, verify};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Runs a program that must succeed, and returns what it printed.
fn run(program: &str, arguments: &[&str], home: &Path) -> Vec<u8> {
    let output = Command::new(program).args(arguments).env("HOME", home).env("GNUPGHOME", home).output();
    let output = output.unwrap_or_else(|e| panic!("{program}: {e}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {stderr}");
    output.stdout
}

struct Bench {
    dir: TempDir,
}

impl Bench {
    fn new() -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = TempDir::new().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let spec = "Name: parcel\nVersion: 1\nRelease: 1\nSummary: s\nLicense: MIT\nBuildArch: noarch\n%description\nd\n\
                    %install\nmkdir -p %{buildroot}/usr/share\nseq 1 20000 > %{buildroot}/usr/share/parcel\n\
                    %files\n/usr/share/parcel\n";
        fs::write(dir.path().join("parcel.spec"), spec).unwrap();
        let bench = Bench { dir };
        let top = format!("_topdir {}", bench.dir.path().display());
        run("rpmbuild", &["-bb", "--define", &top, bench.path("parcel.spec").to_str().unwrap()], bench.dir.path());
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn unsigned(&self, name: &str) -> PathBuf {
        fs::copy(self.path("RPMS/noarch/parcel-1-1.noarch.rpm"), self.path(name)).unwrap();
        self.path(name)
    }

    /// Makes a key and returns its armoured public half.
    fn key(&self, user: &str) -> Vec<u8> {
        let quiet = ["--batch", "--pinentry-mode", "loopback", "--passphrase", ""];
        run("gpg", &[&quiet[..], &["--quick-gen-key", user, "rsa2048", "sign", "1d"]].concat(), self.dir.path());
        run("gpg", &["--armor", "--export", user], self.dir.path())
    }

    fn signed(&self, name: &str, user: &str) -> PathBuf {
        let path = self.unsigned(name);
        let user = format!("_gpg_name {user}");
        let gpg = "__gpg /usr/bin/gpg";
        let words = ["--define", &user, "--define", gpg, "--addsign", path.to_str().unwrap()];
        run("rpmsign", &words, self.dir.path());
        path
    }
}

/// Flips one bit at `at`, counted from the end where negative.
fn flip(path: &Path, at: i64) {
    let mut bytes = fs::read(path).unwrap();
    let index = if at < 0 { bytes.len() - usize::try_from(-at).unwrap() } else { usize::try_from(at).unwrap() };
    bytes[index] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

fn is_bad(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Bad { reason } if !reason.is_empty())
}

#[test]
fn each_kind_of_package_gets_its_verdict() {
    let bench = Bench::new();
    let mine = bench.key("mine@example.test");
    let other = bench.key("other@example.test");
    let signed = bench.signed("signed.rpm", "mine@example.test");

    let good = verify(&signed, &[other.clone(), mine.clone()], None).unwrap();
    assert!(matches!(&good, Verdict::Good { key: Some(k) } if k.len() >= 8), "{good:?}");
    let both = [other.clone(), mine.clone()].concat();
    assert_eq!(verify(&signed, &[both], None).unwrap(), good, "two blocks in one file");

    let Verdict::Good { key: Some(id) } = good else { unreachable!() };
    assert_eq!(verify(&signed, std::slice::from_ref(&other), None).unwrap(), Verdict::UnknownKey { key: id.clone() });
    assert_eq!(verify(&signed, &[], None).unwrap(), Verdict::UnknownKey { key: id });
    let unsigned = bench.unsigned("unsigned.rpm");
    assert_eq!(verify(&unsigned, std::slice::from_ref(&mine), None).unwrap(), Verdict::Unsigned);

    // Damage in the payload, with and without a signature, and a file that ends early.
    for source in [&signed, &unsigned] {
        let damaged = bench.path("damaged.rpm");
        fs::copy(source, &damaged).unwrap();
        flip(&damaged, -100);
        let verdict = verify(&damaged, std::slice::from_ref(&mine), None).unwrap();
        assert!(is_bad(&verdict), "{verdict:?}");
        let bytes = fs::read(source).unwrap();
        fs::write(&damaged, &bytes[..bytes.len() - 50]).unwrap();
        let verdict = verify(&damaged, std::slice::from_ref(&mine), None).unwrap();
        assert!(is_bad(&verdict), "{verdict:?}");
    }
    // A damaged header, and a damaged signature over a sound header: never "unsigned".
    let bytes = fs::read(&signed).unwrap();
    let header = bytes.windows(7).rposition(|w| w == b"parcel\0").unwrap();
    assert!(header > 96);
    let damaged = bench.path("damaged.rpm");
    fs::copy(&signed, &damaged).unwrap();
    flip(&damaged, i64::try_from(header).unwrap());
    assert!(is_bad(&verify(&damaged, std::slice::from_ref(&mine), None).unwrap()));
    fs::write(&damaged, b"not a package").unwrap();
    assert!(is_bad(&verify(&damaged, &[], None).unwrap()));
    // Where two signatures of the same package differ last, there is the number that the key made.
    let resigned = fs::read(bench.signed("resigned.rpm", "other@example.test")).unwrap();
    let last = (96..header).rfind(|&at| bytes[at] != resigned[at]).unwrap();
    fs::copy(&signed, &damaged).unwrap();
    flip(&damaged, i64::try_from(last - 20).unwrap());
    let verdict = verify(&damaged, std::slice::from_ref(&mine), None).unwrap();
    assert!(is_bad(&verdict), "{verdict:?}");

    assert!(verify(&bench.path("absent.rpm"), &[], None).is_err());
    assert!(verify(&signed, &[b"no key".to_vec()], None).is_err());
    assert!(matches!(verify(&signed, &[b"no key".to_vec(), mine], None).unwrap(), Verdict::Good { .. }));
}
