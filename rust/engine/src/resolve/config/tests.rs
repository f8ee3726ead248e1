//! Tables: what a file says, and what it means.

use super::*;

fn vars() -> Vars {
    Vars([("releasever", "9"), ("basearch", "x86_64")].map(|(k, v)| (k.to_owned(), v.to_owned())).into())
}

fn repo(main: &str, own: &str) -> RepoConfig {
    let main = Main::parse(main, &[]).unwrap();
    main.repository(&ini::parse(&format!("[r]\n{own}")).unwrap()[0], &[], &vars()).unwrap()
}

#[test]
fn defaults_are_those_of_dnf() {
    let r = repo("", "baseurl=http://h/");
    assert!(r.enabled && r.sslverify && !r.gpgcheck && !r.repo_gpgcheck && !r.skip_if_unavailable);
    assert_eq!((r.priority, r.cost, r.metadata_expire, r.timeout, r.minrate), (99, 1000, Some(172_800), 30, 1000));
    assert!(r.proxy.is_none() && r.userpwd.is_none());
}

#[test]
fn lists_keep_quotes_together_and_expand() {
    let r = repo(
        "",
        "baseurl=http://a/$releasever, http://b/\n  http://c/\ngpgkey=\"file:///k 1\" https://h/$basearch.asc",
    );
    assert_eq!(r.baseurl, ["http://a/9", "http://b/", "http://c/"]);
    assert_eq!(r.gpgkey, ["file:///k 1", "https://h/x86_64.asc"]);
}

#[test]
fn a_repository_overrides_main() {
    let main = "[main]\ngpgcheck=1\nproxy=http://p:1/\nexcludepkgs=kernel*\ntimeout=2m\nskip_if_unavailable=True\n";
    let r = repo(main, "gpgcheck=0\nproxy=_none_\nexclude=a,b\nincludepkgs=c");
    assert!(!r.gpgcheck && r.proxy.is_none() && r.skip_if_unavailable);
    assert_eq!((r.timeout, r.include), (120, vec!["c".to_owned()]));
    assert_eq!(r.exclude, ["kernel*", "a", "b"]);
    let r = repo(main, "baseurl=http://h/");
    assert!(r.gpgcheck);
    assert_eq!(r.proxy.unwrap().expose(), "http://p:1/");
    assert!(repo(main, "proxy=").proxy.is_none());
}

#[test]
fn setopt_reaches_main_and_single_repositories() {
    let setopts: Vec<(String, String)> = [("install_weak_deps", "True"), ("r*.priority", "5"), ("other.priority", "6")]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into();
    let main = Main::parse("[main]\ninstall_weak_deps=0\n", &setopts).unwrap();
    assert!(main.install_weak_deps);
    let section = &ini::parse("[r1]\nbaseurl=http://h/\n").unwrap()[0];
    assert_eq!(main.repository(section, &setopts, &vars()).unwrap().priority, 5);
}

#[test]
fn durations_and_sizes() {
    for (text, expected) in [
        ("60", Some(Some(60))),
        ("6h", Some(Some(21600))),
        ("1.5d", Some(Some(129_600))),
        ("never", Some(None)),
        ("-1", Some(None)),
        ("x", None),
        ("5y", None),
    ] {
        assert_eq!(seconds(text), expected, "{text}");
    }
    for (text, expected) in [("1k", Some(1024)), ("2M", Some(2 << 20)), ("100", Some(100)), ("-3", None)] {
        assert_eq!(bytes(text), expected, "{text}");
    }
}

#[test]
fn credentials_never_show() {
    let r = repo("", "baseurl=https://u:secret@h/p\nusername=me\npassword=secret\nproxy=http://a:secret@p/");
    assert_eq!(r.userpwd.as_ref().unwrap().expose(), "me:secret");
    let shown = format!("{r:?} {:?} {:?} {}", r.userpwd, r.proxy, r.address());
    assert!(!shown.contains("secret"), "{shown}");
    for (text, expected) in [
        ("for http://u:p@h/x [http://q@i]", "for http://h/x [http://i]"),
        ("http://h/a@b", "http://h/a@b"),
        ("https://u:p@ss@h", "https://h"),
        ("none", "none"),
    ] {
        assert_eq!(redact(text), expected);
    }
}

#[test]
fn a_value_without_meaning_is_named() {
    let main = Main::parse("", &[]).unwrap();
    let section = &ini::parse("[r]\nenabled=perhaps\n").unwrap()[0];
    let error = main.repository(section, &[], &vars()).unwrap_err().to_string();
    assert!(error.contains("repository r") && error.contains("enabled=perhaps"), "{error}");
}

#[test]
fn globs() {
    for (pattern, text, expected) in [
        ("*", "", true),
        ("fed*", "fedora", true),
        ("f?d", "fad", true),
        ("[a-c]x", "bx", true),
        ("[!a-c]x", "bx", false),
        ("*-debug", "a-debug-b", false),
        ("[", "[", true),
    ] {
        assert_eq!(glob_matches(pattern, text), expected, "{pattern} {text}");
    }
}

#[test]
fn a_metalink_in_mirrorlist_is_a_metalink() {
    let r = repo("", "mirrorlist=https://m/metalink?repo=x");
    assert!(r.mirrorlist.is_none() && r.metalink.is_some());
}

#[test]
fn a_setting_without_effect_is_refused() {
    for (name, hint) in [
        ("instal_weak_deps", "did you mean install_weak_deps?"),
        ("Timeout", "did you mean timeout?"),
        ("up.priorty", "did you mean up.priority?"),
        ("baseurl", "name the repository: REPO.baseurl"),
        ("up.reposdir", "it is one for all repositories: reposdir"),
        ("tsflags", "known are: "),
        ("up.", "known are: "),
    ] {
        let error = check_setopts(&[(name.into(), "1".into())]).expect_err(name);
        let failure = error.downcast_ref::<Failure>().unwrap();
        assert_eq!(failure.code, Code::Usage);
        assert!(failure.hint.as_ref().unwrap().starts_with(hint), "{name}: {:?}", failure.hint);
    }
    let source = include_str!("../config.rs");
    for key in OWN_KEYS.iter().chain(&SHARED_KEYS).map(|k| format!("a.b*.{k}")).chain(MAIN_KEYS.map(String::from)) {
        check_setopts(&[(key.clone(), String::new())]).unwrap();
        // Named in the list and where it is read.
        let quoted = format!("\"{}\"", key.rsplit('.').next().unwrap());
        assert!(source.matches(&quoted).count() >= 2, "{key} is not read");
    }
}
