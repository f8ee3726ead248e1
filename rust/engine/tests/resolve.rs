//! Resolving over real metadata and a real rpmdb: what comes, what goes, what is refused and in which words.

mod lab;

use lab::http::Server;
use lab::{Host, coming, going, lab, refused};
use model::{Action, Code, PackageArg, Reason, Request};

#[test]
fn a_name_brings_its_dependencies() {
    let host = Host::with_repository();
    let resolution = host.install_words(&["app"]).unwrap();
    assert_eq!(coming(&resolution), ["app-2", "lib-a-1", "lib-b-1"]);
    let reasons: Vec<Reason> = resolution.plan.install.iter().map(|p| p.reason).collect();
    assert_eq!(reasons, [Reason::Requested, Reason::Dependency, Reason::Dependency]);
    let app = &resolution.plan.install[0];
    assert_eq!((app.action.clone(), app.source.label()), (Action::Install, "r"));
    assert!(app.download_bytes > 0 && app.installed_bytes > 0);
    assert_eq!(app.checksum.as_ref().unwrap().hex.len(), 64);
    assert_eq!(resolution.plan.requested.len(), 1);
}

#[test]
fn every_form_of_argument() {
    let host = Host::with_repository();
    for (word, expected) in [
        ("lib-b", "lib-b-1"),
        ("app-1", "app-1"),
        ("app.noarch", "app-2"),
        ("app-1-1.noarch", "app-1"),
        ("app-0:1-1.noarch", "app-1"),
        ("app = 1", "app-1"),
        ("per?ish", "perlish-1"),
        ("perl(Foo)", "perlish-1"),
        ("perl(Foo) >= 1.2", "perlish-1"),
        ("/usr/bin/app", "app-2"),
        ("/bin/app", "app-2"),
        ("/usr/sbin/app", "app-2"),
        ("/usr/share/filer/data", "filer-1"),
    ] {
        let resolution = host.install_words(&[word]).unwrap_or_else(|e| panic!("{word}: {e:#}"));
        assert!(coming(&resolution).contains(&expected.to_owned()), "{word}: {:?}", coming(&resolution));
        assert_eq!(resolution.plan.requested[0].word, word);
    }
    assert_eq!(coming(&host.install_words(&["lib-*"]).unwrap()), ["lib-a-1", "lib-b-1"]);
}

#[test]
fn filelists_are_loaded_only_when_asked_for() {
    let host = Host::new();
    lab().repository(&host.path("repo"), &[]);
    let server = Server::start(&host.path("repo"), None);
    host.configure("r", &format!("baseurl={}", server.url()));
    host.install_words(&["app"]).unwrap();
    assert!(!server.asked().iter().any(|p| p.contains("filelists")));
    assert_eq!(coming(&host.install_words(&["file-user"]).unwrap()), ["file-user-1", "filer-1"]);
    assert!(server.asked().iter().any(|p| p.contains("filelists")));
    assert_eq!(coming(&host.install_words(&["file-user"]).unwrap()), ["file-user-1", "filer-1"]);
    assert!(server.asked().is_empty(), "the second time comes from the cache");
}

#[test]
fn the_cache_answers_and_expires() {
    let mut host = Host::new();
    lab().repository(&host.path("repo"), &["lib-b-1"]);
    let server = Server::start(&host.path("repo"), None);
    host.configure("r", &format!("baseurl={}\nmetadata_expire=never", server.url()));
    host.options.cache_only = true;
    refused(host.install_words(&["lib-b"]), Code::Repository, &["repository r", "-C"]);
    assert!(server.asked().is_empty());
    host.options.cache_only = false;
    host.install_words(&["lib-b"]).unwrap();
    assert!(!server.asked().is_empty());
    host.install_words(&["lib-b"]).unwrap();
    assert!(server.asked().is_empty());
    // Unchanged metadata that has expired costs one small file; changed metadata is seen.
    host.configure("r", &format!("baseurl={}\nmetadata_expire=0", server.url()));
    host.install_words(&["lib-b"]).unwrap();
    assert_eq!(server.asked(), ["/repodata/repomd.xml"]);
    lab().repository(&host.path("repo"), &["perlish-1"]);
    assert_eq!(coming(&host.install_words(&["perlish"]).unwrap()), ["perlish-1"]);
    host.options.cache_only = true;
    server.asked();
    assert_eq!(coming(&host.install_words(&["perlish"]).unwrap()), ["perlish-1"]);
    assert!(server.asked().is_empty());
}

#[test]
fn the_base_is_locked() {
    let host = Host::with_repository();
    let base = "libfoo-1-1.noarch";
    refused(host.install_words(&["hungry"]), Code::BaseConflict, &[base, "hungry-1-1.noarch"]);
    refused(host.install_words(&["grumpy"]), Code::BaseConflict, &[base, "grumpy-1-1.noarch", "conflicts"]);
    refused(host.install_words(&["usurper"]), Code::BaseConflict, &[base, "usurper-1-1.noarch", "obsoletes"]);
    refused(host.install_words(&["libfoo-2"]), Code::BaseConflict, &[base, "libfoo-2-1.noarch"]);
    let local = Request { install: vec![PackageArg::LocalFile(lab().rpm("libfoo-2"))], ..Request::default() };
    refused(host.resolve(&local), Code::BaseConflict, &[base, "libfoo-2-1.noarch"]);
    refused(host.install_words(&["wishful"]), Code::Unsolvable, &["libfoo >= 3", "wishful-1-1.noarch", base]);
    refused(host.uninstall_words(&["libfoo"]), Code::BaseConflict, &[base]);
}

#[test]
fn what_the_base_has_is_no_news() {
    let mut host = Host::with_repository();
    for word in ["libfoo", "libfoo-1-1.noarch", "/usr/bin/foo-tool"] {
        refused(host.install_words(&[word]), Code::AlreadyProvided, &["libfoo-1-1.noarch", word]);
    }
    host.options.allow_inactive = true;
    let plan = host.install_words(&["libfoo"]).unwrap().plan;
    assert!(plan.is_empty() && plan.requested.is_empty());
    assert_eq!(plan.already_provided[0].1.to_string(), "libfoo-1-1.noarch");
}

#[test]
fn unknown_words_get_near_names() {
    let mut host = Host::with_repository();
    refused(host.install_words(&["perlsih"]), Code::NotFound, &["\"perlsih\"", "perlish"]);
    refused(host.install_words(&["/usr/share/none"]), Code::NotFound, &["/usr/share/none"]);
    refused(host.uninstall_words(&["app"]), Code::NotFound, &["\"app\" is not layered"]);
    host.options.idempotent = true;
    assert!(host.uninstall_words(&["app"]).unwrap().plan.is_empty());
}

#[test]
fn another_architecture_is_refused() {
    let host = Host::with_repository();
    refused(host.install_words(&["foreign"]), Code::Refused, &["foreign-1-1.s390x", "s390x", "x86_64"]);
    let local = Request { install: vec![PackageArg::LocalFile(lab().rpm("foreign-1"))], ..Request::default() };
    refused(host.resolve(&local), Code::Refused, &["s390x", "x86_64"]);
}

#[test]
fn weak_dependencies_only_when_configured() {
    let mut host = Host::with_repository();
    assert_eq!(coming(&host.install_words(&["weak"]).unwrap()), ["weak-1"]);
    host.dnf_conf("install_weak_deps=True");
    assert_eq!(coming(&host.install_words(&["weak"]).unwrap()), ["lib-b-1", "weak-1"]);
    host.options.setopts = vec![("install_weak_deps".into(), "0".into())];
    assert_eq!(coming(&host.install_words(&["weak"]).unwrap()), ["weak-1"]);
}

#[test]
fn layered_packages_go_up_and_down() {
    let mut host = Host::with_repository();
    host.layer("app-1", Reason::Requested);
    host.layer("lib-a-1", Reason::Dependency);
    host.layer("lib-b-1", Reason::Dependency);
    let resolution = host.install_words(&["app"]).unwrap();
    assert_eq!(coming(&resolution), ["app-2"]);
    assert!(matches!(&resolution.plan.install[0].action, Action::Upgrade(old) if old.version == "1"));
    assert!(going(&resolution).is_empty());
    assert_eq!(resolution.plan.requested.len(), 1);
    refused(host.install_words(&["app-1-1.noarch"]), Code::AlreadyProvided, &["app-1-1.noarch"]);
    host.options.idempotent = true;
    let plan = host.install_words(&["app-1-1.noarch"]).unwrap().plan;
    assert!(plan.is_empty());

    let mut host = Host::with_repository();
    host.layer("app-2", Reason::Requested);
    host.layer("lib-a-1", Reason::Dependency);
    host.layer("lib-b-1", Reason::Dependency);
    refused(host.install_words(&["app"]), Code::AlreadyProvided, &["app-2-1.noarch", "layered"]);
    let local = Request { install: vec![PackageArg::LocalFile(lab().rpm("app-1"))], ..Request::default() };
    for resolution in [host.install_words(&["app-1"]).unwrap(), host.resolve(&local).unwrap()] {
        assert_eq!(coming(&resolution), ["app-1"]);
        assert!(matches!(&resolution.plan.install[0].action, Action::Downgrade(old) if old.version == "2"));
    }
    // A dependency that is asked for is requested from now on.
    let plan = host.install_words(&["lib-b"]).unwrap().plan;
    assert!(plan.is_empty());
    assert_eq!(plan.requested.len(), 2);
}

#[test]
fn uninstall_takes_along_what_nobody_needs() {
    let mut host = Host::new();
    for (name, reason) in [
        ("app-2", Reason::Requested),
        ("lib-a-1", Reason::Dependency),
        ("lib-b-1", Reason::Dependency),
        ("addon-1", Reason::Requested),
    ] {
        host.layer(name, reason);
    }
    refused(host.uninstall_words(&["app"]), Code::Unsolvable, &["app-2-1.noarch", "addon-1-1.noarch"]);
    refused(host.uninstall_words(&["lib-b"]), Code::Unsolvable, &["lib-b-1-1.noarch", "lib-a-1-1.noarch"]);
    let resolution = host.uninstall_words(&["addon"]).unwrap();
    assert_eq!(going(&resolution), ["addon-1"]);
    assert_eq!(resolution.plan.requested.len(), 1);
    let resolution = host.uninstall_words(&["app", "addon"]).unwrap();
    assert_eq!(going(&resolution), ["addon-1", "app-2", "lib-a-1", "lib-b-1"]);
    assert!(resolution.plan.requested.is_empty());
    let all = host.resolve(&Request { uninstall_all: true, ..Request::default() }).unwrap();
    assert_eq!(going(&all).len(), 4);
}

#[test]
fn one_request_installs_and_removes() {
    let mut host = Host::with_repository();
    host.layer("perlish-1", Reason::Requested);
    let request = Request {
        install: vec![PackageArg::Subject("lib-b".into())],
        uninstall: vec!["perlish".into()],
        ..Request::default()
    };
    let resolution = host.resolve(&request).unwrap();
    assert_eq!((coming(&resolution), going(&resolution)), (vec!["lib-b-1".into()], vec!["perlish-1".into()]));
}

#[test]
fn local_files_use_repositories_for_their_requires() {
    let host = Host::with_repository();
    let local = Request { install: vec![PackageArg::LocalFile(lab().rpm("app-1"))], ..Request::default() };
    let resolution = host.resolve(&local).unwrap();
    assert_eq!(coming(&resolution), ["app-1", "lib-a-1", "lib-b-1"]);
    assert_eq!(resolution.plan.install[0].source.label(), "@commandline");
    assert!(resolution.plan.requested[0].local);
}

#[test]
fn variables_credentials_and_excludes() {
    let host = Host::new();
    lab().repository(&host.path("www/9/x86_64/corp"), &[]);
    let server = Server::start(&host.path("www"), Some("Basic bWU6c2VjcmV0"));
    std::fs::create_dir_all(host.root().join("etc/dnf/vars")).unwrap();
    std::fs::write(host.root().join("etc/dnf/vars/site"), "corp\n").unwrap();
    let address = format!("baseurl={}/$releasever/$basearch/$site", server.url());
    host.configure("r", &format!("{address}\nusername=me\npassword=secret\nexcludepkgs=app-2*,perlish"));
    assert!(coming(&host.install_words(&["app"]).unwrap()).contains(&"app-1".to_owned()));
    refused(host.install_words(&["perlish"]), Code::NotFound, &["excludepkgs"]);
    host.configure("r", &format!("{address}\nusername=me\npassword=wrong-word"));
    let failure = refused(
        {
            std::fs::remove_dir_all(host.path("cache")).unwrap();
            host.install_words(&["app"])
        },
        Code::Repository,
        &["repository r", "401"],
    );
    assert!(!format!("{failure:?}").contains("wrong-word"), "{failure:?}");
}

#[test]
fn priority_beats_version() {
    let host = Host::new();
    lab().repository(&host.path("a"), &["app-1", "lib-a-1", "lib-b-1"]);
    lab().repository(&host.path("b"), &["app-2", "lib-a-1", "lib-b-1"]);
    host.configure("a", &format!("baseurl=file://{}\npriority=10", host.path("a").display()));
    host.configure("b", &format!("baseurl=file://{}", host.path("b").display()));
    let resolution = host.install_words(&["app"]).unwrap();
    assert_eq!(coming(&resolution)[0], "app-1");
    assert!(resolution.plan.install.iter().all(|p| p.source.label() == "a"));
}

#[test]
fn a_dead_repository_is_named_or_skipped() {
    let mut host = Host::with_repository();
    host.configure("dead", "baseurl=http://user:secret@127.0.0.1:9/x");
    let failure = refused(
        host.install_words(&["lib-b"]),
        Code::Repository,
        &["repository dead", "http://127.0.0.1:9/x", "onnect", "--disablerepo=dead"],
    );
    assert!(!failure.message.contains("secret"), "{failure:?}");
    host.options.disable_repos = vec!["dead".into()];
    host.install_words(&["lib-b"]).unwrap();
    host.options.disable_repos.clear();
    host.configure("dead", "baseurl=http://user:secret@127.0.0.1:9/x\nskip_if_unavailable=1");
    host.install_words(&["lib-b"]).unwrap();
    host.options.disable_repos = vec!["nonesuch".into()];
    refused(host.install_words(&["lib-b"]), Code::Usage, &["nonesuch", "dead"]);
}

#[test]
fn a_missing_repository_says_404_and_damage_is_noticed() {
    let host = Host::new();
    lab().repository(&host.path("repo"), &["lib-b-1"]);
    let server = Server::start(&host.path("repo"), None);
    host.configure("r", &format!("baseurl={}/gone", server.url()));
    refused(host.install_words(&["lib-b"]), Code::Repository, &["repository r", "404", "/gone/repodata/repomd.xml"]);
    host.configure("r", &format!("baseurl={}/gone {}", server.url(), server.url()));
    host.install_words(&["lib-b"]).unwrap();
    for entry in std::fs::read_dir(host.path("repo/repodata")).unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().contains("primary.xml") {
            let mut bytes = std::fs::read(&path).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
    }
    host.configure("r", &format!("baseurl={}", server.url()));
    refused(host.install_words(&["lib-b"]), Code::Checksum, &["repository r"]);
}

#[test]
fn mirrorlists_lead_to_a_repository() {
    let host = Host::new();
    lab().repository(&host.path("www/repo"), &["lib-b-1"]);
    let server = Server::start(&host.path("www"), None);
    std::fs::write(host.path("www/list"), format!("{0}/nothing\n{0}/repo\n", server.url())).unwrap();
    host.configure("r", &format!("mirrorlist={}/list", server.url()));
    assert_eq!(coming(&host.install_words(&["lib-b"]).unwrap()), ["lib-b-1"]);
}

#[test]
fn installed_lists_the_rpmdb() {
    let host = Host::new();
    let all: Vec<String> = engine::resolve::installed(&host.root()).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(all, ["libfoo-1-1.noarch", "test-release-9-1.noarch"]);
}
