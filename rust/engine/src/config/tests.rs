//! Tables: what a file says, what it means, and what is told about a mistake.

use super::*;

fn parsed(text: &str) -> Config {
    let mut config = Config::default();
    config.add(text, "/f").unwrap();
    config
}

#[test]
fn every_key_can_be_set() {
    for key in &KEYS {
        let value = if key.value.contains("true") { "true" } else { "25%" };
        assert_ne!(parsed(&format!("{} = {value}\n", key.name)), Config::default(), "{}", key.name);
    }
    assert!(KEYS.is_sorted_by_key(|k| k.name));
}

#[test]
fn mistakes_name_file_line_and_way_out() {
    for (text, message, hint) in [
        (
            "# c\nrequire-signature = true\n",
            "/f, line 2: there is no key require-signature",
            "mean require-signatures?",
        ),
        ("Memory_Limit=1G", "/f, line 1: there is no key Memory_Limit", "did you mean memory-limit?"),
        ("frobnicate=1", "/f, line 1: there is no key frobnicate", "keys are: exclude, memory-limit"),
        ("[main]\n", "/f, line 1: sections have no meaning here", ""),
        ("weak-deps\n", "/f, line 1: \"weak-deps\" is not KEY = VALUE", ""),
        ("weak-deps=maybe\n", "/f, line 1: weak-deps = maybe has no meaning", "weak-deps = true or false"),
        ("memory-limit=0\n", "/f, line 1: memory-limit = 0 has no meaning", "memory-limit = SIZE or PERCENT%"),
        ("releasever=\n", "/f, line 1: releasever =  has no meaning", "releasever = VERSION"),
        ("weak-deps=1\nweak-deps=0\n", "/f, line 2: weak-deps is set twice in this file", ""),
    ] {
        let error = Config::default().add(text, "/f").expect_err(text);
        let failure = error.downcast_ref::<Failure>().unwrap();
        assert_eq!(failure.code, Code::Usage);
        assert!(failure.message.starts_with(message), "{text}: {}", failure.message);
        let told = failure.hint.clone().unwrap_or_default();
        assert!(told.contains(hint) && hint.is_empty() == told.is_empty(), "{text}: {told}");
    }
}

#[test]
fn sizes() {
    for (text, want) in [
        ("1M", Some(Memory::Bytes(1 << 20))),
        ("2 GiB", Some(Memory::Bytes(2 << 30))),
        ("3145728", Some(Memory::Bytes(3 << 20))),
        ("25%", Some(Memory::Percent(25))),
        ("100 %", Some(Memory::Percent(100))),
        ("0", None),
        ("0%", None),
        ("101%", None),
        ("1K", None),
        ("-1G", None),
        ("1.5G", None),
        ("1X", None),
        ("99999999T", None),
        ("", None),
        ("é", None),
    ] {
        assert_eq!(memory(text), want, "{text}");
    }
    let half = Limits::of_machine();
    assert_eq!(parsed("").limits(), half);
    let quarter = parsed("memory-limit=25%").limits();
    assert!(quarter.bytes.abs_diff(half.bytes / 2) < 100 && quarter.inodes == half.inodes);
}

#[test]
fn files_hide_and_follow_each_other() {
    let root = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    assert_eq!(Config::read(root.path()).unwrap(), Config::default());
    put("usr/lib/rpm-ostree-transient.conf", "releasever=1\nweak-deps=yes\n");
    put("usr/lib/rpm-ostree-transient.conf.d/50-a.conf", "exclude=a b\n");
    assert_eq!(Config::read(root.path()).unwrap(), parsed("releasever=1\nweak-deps=yes\nexclude=a,b"));
    // The same name in /etc hides all of the vendor's file; a later name wins over an earlier one.
    put("etc/rpm-ostree-transient.conf", "releasever=2\n");
    put("etc/rpm-ostree-transient.conf.d/50-a.conf", "");
    put("run/rpm-ostree-transient.conf.d/60-b.conf", "releasever=3\n");
    put("etc/rpm-ostree-transient.conf.d/70-c.txt", "nonsense");
    assert_eq!(Config::read(root.path()).unwrap(), parsed("releasever=3"));
    put("etc/rpm-ostree-transient.conf.d/70-c.conf", "nonsense");
    let error = Config::read(root.path()).unwrap_err().to_string();
    assert!(error.starts_with("/etc/rpm-ostree-transient.conf.d/70-c.conf, line 1: "), "{error}");
}

#[test]
fn the_command_line_wins_but_not_over_signatures() {
    let config = parsed("exclude=x\nreleasever=40\nweak-deps=true\n");
    let mut options = resolve::Options {
        releasever: Some("41".into()),
        setopts: vec![("install_weak_deps".into(), "0".into())],
        ..resolve::Options::default()
    };
    config.apply(&mut options).unwrap();
    assert_eq!(options.releasever.as_deref(), Some("41"));
    assert_eq!(options.setopts.last().unwrap().1, "0");
    assert_eq!(options.setopts[0].1, "1");
    assert_eq!(options.exclude, ["x"]);
    assert!(!options.require_signatures);

    let strict = parsed("require-signatures=true\n");
    let mut options = resolve::Options::default();
    strict.apply(&mut options).unwrap();
    assert!(options.require_signatures);
    options.no_gpg_check = true;
    assert!(strict.apply(&mut options).unwrap_err().to_string().contains("/f has require-signatures"));
}
