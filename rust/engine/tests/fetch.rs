//! Fetching real files over HTTP: mirrors, cache, damage, signatures by keys made for the run.

mod lab;

use engine::fetch::{FetchedPackage, fetch, fetch_url};
use lab::http::Server;
use lab::{Host, createrepo, lab, refused};
use model::progress::Silent;
use model::{Code, Event, PackageArg, Progress, Request, Signature};
use std::path::{Path, PathBuf};
use std::process::Command;

struct Key {
    home: tempfile::TempDir,
}

/// A key pair; `public` is its armoured public half.
fn key() -> Key {
    // Sockets of gpg-agent need a short path.
    let key = Key { home: tempfile::Builder::new().prefix("k").tempdir_in("/tmp").unwrap() };
    let user = "Test <t@example.com>";
    key.gpg(&["--batch", "--passphrase", "", "--quick-generate-key", user, "rsa2048", "sign", "never"]);
    std::fs::write(key.public(), key.gpg(&["--armor", "--export", "t@example.com"])).unwrap();
    key
}

impl Drop for Key {
    // gpg starts an agent for each home directory, which would outlive the test.
    fn drop(&mut self) {
        let _ = Command::new("gpgconf").env("GNUPGHOME", self.home.path()).args(["--kill", "all"]).status();
    }
}

impl Key {
    fn gpg(&self, args: &[&str]) -> Vec<u8> {
        let output = Command::new("gpg").env("GNUPGHOME", self.home.path()).args(args).output().expect("gpg");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }
    fn public(&self) -> PathBuf {
        self.home.path().join("public.asc")
    }
    fn sign(&self, rpm: &Path) {
        let mut command = Command::new("rpmsign");
        command.env("GNUPGHOME", self.home.path()).args(["--define", "_gpg_name t@example.com"]);
        // Debian's rpm gives the program without its path, and then does not search for it.
        command.args(["--define", "__gpg /usr/bin/gpg", "--addsign"]).arg(rpm);
        let output = command.output().expect("rpmsign");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn fetched(host: &Host, words: &[&str]) -> anyhow::Result<Vec<FetchedPackage>> {
    let resolution = host.install_words(words)?;
    fetch(&resolution, &host.root(), &host.path("cache"), &host.options, &Silent)
}

fn served(packages: &[&str]) -> (Host, Server) {
    let host = Host::new();
    lab().repository(&host.path("repo"), packages);
    let server = Server::start(&host.path("repo"), None);
    host.configure("r", &format!("baseurl={}", server.url()));
    (host, server)
}

#[test]
fn files_arrive_once() {
    let (mut host, server) = served(&["app-1", "lib-a-1", "lib-b-1"]);
    let files = fetched(&host, &["app"]).unwrap();
    assert_eq!(files.len(), 3);
    for file in &files {
        let checksum = file.planned.checksum.as_ref().unwrap();
        assert!(file.path.to_str().unwrap().contains(&format!("packages/sha256-{}/", checksum.hex)));
        assert_eq!(std::fs::metadata(&file.path).unwrap().len(), file.planned.download_bytes);
        assert_eq!(file.signature, Signature::NotChecked);
    }
    server.asked();
    host.options.cache_only = true;
    fetched(&host, &["app"]).unwrap();
    assert!(server.asked().is_empty());
    // A damaged file of the cache is not used.
    std::fs::write(&files[0].path, "x").unwrap();
    refused(fetched(&host, &["app"]), Code::Repository, &["app-1-1.noarch", "-C"]);
    host.options.cache_only = false;
    fetched(&host, &["app"]).unwrap();
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn the_next_mirror_helps() {
    let (host, server) = served(&["lib-b-1"]);
    host.configure("r", &format!("baseurl={0}/nothing {0}", server.url()));
    assert_eq!(fetched(&host, &["lib-b"]).unwrap().len(), 1);
}

#[test]
fn a_missing_file_says_404_and_the_next_run_looks_again() {
    let (host, server) = served(&["perlish-1"]);
    host.install_words(&["perlish"]).unwrap();
    let file = lab().rpm("perlish-1");
    std::fs::remove_file(host.path("repo").join(file.file_name().unwrap())).unwrap();
    refused(
        fetched(&host, &["perlish"]),
        Code::Repository,
        &["repository r", "perlish-1-1.noarch", "404", "/perlish-1"],
    );
    assert!(leftovers(&host).is_empty());
    server.asked();
    std::fs::copy(&file, host.path("repo").join("renamed.rpm")).unwrap();
    createrepo(&host.path("repo"));
    let files = fetched(&host, &["perlish"]).unwrap();
    assert!(files[0].path.ends_with("renamed.rpm"));
}

/// Files of the package cache.
fn leftovers(host: &Host) -> Vec<PathBuf> {
    let directories = std::fs::read_dir(host.path("cache/packages")).into_iter().flatten().flatten();
    directories.flat_map(|d| std::fs::read_dir(d.path()).unwrap().flatten()).map(|f| f.path()).collect()
}

#[test]
fn damage_on_the_way_is_noticed() {
    let (host, _server) = served(&["lib-b-1"]);
    let file = host.path("repo").join(lab().rpm("lib-b-1").file_name().unwrap());
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file, bytes).unwrap();
    refused(fetched(&host, &["lib-b"]), Code::Checksum, &["repository r", "lib-b-1-1.noarch"]);
    assert!(leftovers(&host).is_empty());
}

#[test]
fn signatures_follow_the_repository() {
    let host = Host::new();
    let repo = host.path("www/repo");
    lab().repository(&repo, &["lib-b-1", "perlish-1"]);
    let key = key();
    key.sign(&repo.join(lab().rpm("lib-b-1").file_name().unwrap()));
    createrepo(&repo);
    std::fs::copy(key.public(), host.path("www/key.asc")).unwrap();
    std::fs::create_dir_all(host.root().join("etc/pki")).unwrap();
    std::fs::copy(key.public(), host.root().join("etc/pki/key")).unwrap();
    let server = Server::start(&host.path("www"), None);
    let base = format!("baseurl={}/repo\ngpgcheck=1", server.url());
    host.configure("r", &base);
    refused(fetched(&host, &["lib-b"]), Code::Untrusted, &["lib-b-1-1.noarch", "repository r", "gpgkey="]);
    refused(fetched(&host, &["perlish"]), Code::Untrusted, &["perlish-1-1.noarch", "not signed"]);
    for address in ["file:///etc/pki/key".to_owned(), format!("{}/key.asc", server.url())] {
        host.configure("r", &format!("{base}\ngpgkey={address}"));
        let files = fetched(&host, &["lib-b"]).unwrap();
        assert!(matches!(&files[0].signature, Signature::Good { .. }), "{:?}", files[0].signature);
    }
    refused(fetched(&host, &["perlish"]), Code::Untrusted, &["perlish-1-1.noarch", "not signed"]);
    host.configure("r", &format!("{base}\ngpgkey=file:///etc/pki/none"));
    refused(fetched(&host, &["lib-b"]), Code::Untrusted, &["/etc/pki/none"]);
    let mut host = host;
    host.options.no_gpg_check = true;
    assert_eq!(fetched(&host, &["lib-b", "perlish"]).unwrap()[1].signature, Signature::NotChecked);
}

#[test]
fn local_files_follow_dnf_conf() {
    let host = Host::new();
    let (signed, unsigned) = (host.path("lib-b.rpm"), lab().rpm("perlish-1"));
    std::fs::copy(lab().rpm("lib-b-1"), &signed).unwrap();
    let key = key();
    key.sign(&signed);
    let get = |path: &Path| {
        let request = Request { install: vec![PackageArg::LocalFile(path.into())], ..Request::default() };
        fetch(&host.resolve(&request)?, &host.root(), &host.path("cache"), &host.options, &Silent)
    };
    assert_eq!(get(&unsigned).unwrap()[0].signature, Signature::NotChecked);
    host.dnf_conf("localpkg_gpgcheck=1");
    refused(get(&unsigned), Code::Untrusted, &["local package perlish-1-1.noarch", "not signed"]);
    refused(get(&signed), Code::Untrusted, &["local package lib-b-1-1.noarch"]);
    std::fs::create_dir_all(host.root().join("etc/pki/rpm-gpg")).unwrap();
    std::fs::copy(key.public(), host.root().join("etc/pki/rpm-gpg/RPM-GPG-KEY-test")).unwrap();
    assert!(matches!(get(&signed).unwrap()[0].signature, Signature::Good { .. }));
}

#[test]
fn signed_metadata() {
    let host = Host::new();
    lab().repository(&host.path("repo"), &["lib-b-1"]);
    std::fs::create_dir_all(host.root().join("etc/pki")).unwrap();
    let key = key();
    std::fs::copy(key.public(), host.root().join("etc/pki/key")).unwrap();
    let base = format!("baseurl=file://{}\nrepo_gpgcheck=1\ngpgkey=file:///etc/pki/key", host.path("repo").display());
    host.configure("r", &base);
    refused(host.install_words(&["lib-b"]), Code::Untrusted, &["repository r"]);
    let repomd = host.path("repo/repodata/repomd.xml");
    key.gpg(&["--batch", "--armor", "--detach-sign", repomd.to_str().unwrap()]);
    host.install_words(&["lib-b"]).unwrap();
    let mut text = std::fs::read_to_string(&repomd).unwrap();
    text += "<!-- changed -->\n";
    std::fs::write(&repomd, text).unwrap();
    std::fs::remove_dir_all(host.path("cache")).unwrap();
    refused(host.install_words(&["lib-b"]), Code::Untrusted, &["repository r"]);
}

#[test]
fn urls_become_files() {
    let host = Host::new();
    lab().repository(&host.path("repo"), &["lib-b-1"]);
    let server = Server::start(&host.path("repo"), None);
    let name = lab().rpm("lib-b-1").file_name().unwrap().to_str().unwrap().to_owned();
    let path = fetch_url(&format!("{}/{name}", server.url()), &host.path("cache"), false, &Silent).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(lab().rpm("lib-b-1")).unwrap());
    assert!(path.ends_with(&name));
    let gone = format!("http://me:secret@127.0.0.1:{}/gone.rpm", server.port);
    let failure =
        refused(fetch_url(&gone, &host.path("cache"), false, &Silent), Code::Repository, &["/gone.rpm", "404"]);
    assert!(!failure.message.contains("secret"), "{failure:?}");
}

#[test]
fn a_user_can_stop() {
    struct Stopped;
    impl Progress for Stopped {
        fn event(&self, _event: Event) {}
        fn cancelled(&self) -> bool {
            true
        }
    }
    let (host, _server) = served(&["lib-b-1"]);
    let resolution = host.install_words(&["lib-b"]).unwrap();
    let result = fetch(&resolution, &host.root(), &host.path("cache"), &host.options, &Stopped);
    refused(result, Code::Interrupted, &["nothing has changed"]);
}
