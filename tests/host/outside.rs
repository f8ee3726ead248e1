//! What packages do outside `/usr`: there while layered, gone with the layer, and what the administrator did stays.

use crate::scenario::Scenario;
use testkit::packages::{Content, Package};
use testkit::picture::Picture;

/// Builds packages into the host's `/run`, where nothing counts as left behind, and installs them.
pub fn install(s: &Scenario, packages: &[&Package]) -> String {
    let dir = s.host.root().join("run/packages");
    std::fs::create_dir_all(&dir).unwrap();
    let mut args = vec!["install".to_owned(), "--disablerepo=*".into(), "--nogpgcheck".into()];
    for package in packages {
        package.build(&dir).unwrap();
        args.push(format!("/run/packages/{}", package.file_name()));
    }
    s.ok(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

pub(crate) fn picture(s: &Scenario) -> Picture {
    s.host.picture().unwrap()
}

pub(crate) fn status(s: &Scenario) -> serde_json::Value {
    serde_json::from_str(&s.ok(&["status", "--json"])).unwrap()
}

/// Paths of effects of one kind.
pub(crate) fn paths(s: &Scenario, kind: &str) -> Vec<String> {
    let status = status(s);
    let effects = status["status"]["effects"].as_array().unwrap();
    let of_kind = effects.iter().filter(|e| e["kind"] == kind);
    of_kind.map(|e| e["path"].as_str().unwrap().to_owned()).collect()
}

pub fn everything(version: &str) -> Package {
    Package::new("everything", version)
        .config("/etc/every.conf", &format!("version={version}\n"))
        .config("/etc/every.d/one.conf", &format!("one={version}\n"))
        .config("/etc/logrotate.d/every", "/var/log/every.log {\n}\n")
        .file("/var/lib/every/data", &format!("data={version}\n"))
        .file("/opt/every/tool", "tool\n")
        .file("/usr/share/every", &format!("{version}\n"))
        .file("/usr/lib/tmpfiles.d/every.conf", "d /run/every 0750 root root -\nd /var/spool/every 0700 root root -\n")
        .scriptlet("post", "mkdir -p /var/lib/made; echo x > /var/lib/made/by-post; echo y > /etc/by-post.conf")
}

/// One package with everything, and every path is as before once it goes: by reset, by reboot, by uninstall.
#[test]
fn each_kind_of_path_comes_and_goes() {
    let mut s = Scenario::unsigned();
    s.sh("mkdir -p /etc/logrotate.d");
    let first = picture(&s);
    let package = everything("1");
    let check = |s: &Scenario| {
        s.sh("test -L /etc/every.conf && grep -q version=1 /etc/every.conf");
        s.sh("test -L /etc/every.d && grep -q one=1 /etc/every.d/one.conf");
        s.sh("test -L /etc/logrotate.d/every && test ! -L /etc/logrotate.d");
        s.sh("mountpoint -q /var/lib/every && grep -q data=1 /var/lib/every/data && echo more > /var/lib/every/more");
        s.sh("cat /opt/every/tool && grep -q y /etc/by-post.conf && test -e /var/lib/made/by-post");
        s.sh("test $(stat -c %a /run/every) = 750 && test $(stat -c %a /var/spool/every) = 700");
        s.sh("cat /usr/etc/every.conf");
        assert_eq!(s.sh("rpm -V everything | grep -v -e '  c /etc/' -e /opt/every$ || :"), "");
    };
    install(&s, &[&package]);
    check(&s);
    let links = paths(&s, "link");
    for path in ["/etc/every.conf", "/etc/every.d", "/etc/logrotate.d/every", "/etc/by-post.conf", "/opt/every"] {
        assert!(links.contains(&path.to_owned()), "{path} is not in {links:?}");
    }
    assert_eq!(paths(&s, "mount"), ["/var/lib/every", "/var/lib/made", "/var/spool/every"]);
    let text = s.ok(&["status", "-v"]);
    assert!(text.contains("/etc/by-post.conf") && text.contains("everything-1-1.noarch.post"), "{text}");
    // Everything that differs on the host is in the status.
    let mut known: Vec<String> = ["link", "mount", "cleaner"].iter().flat_map(|k| paths(&s, k)).collect();
    known.push("/etc/systemd/system/sysinit.target.wants".into());
    // The host's /opt is a link.
    known.push("/var/opt/every".into());
    let usr = |p: &String| p.starts_with("/usr/") || p == "/usr";
    let now = picture(&s);
    let differs: Vec<String> = first
        .differing(&now)
        .into_iter()
        .map(|p| format!("/{}", p.display()))
        .filter(|p| !usr(p) && !known.iter().any(|k| p.starts_with(k.as_str())))
        .collect();
    assert_eq!(differs, Vec::<String>::new());

    s.ok(&["reset"]);
    assert_eq!(picture(&s), first, "after reset");
    install(&s, &[&package]);
    check(&s);
    s.ok(&["uninstall", "everything"]);
    assert_eq!(picture(&s), first, "after uninstall");
    s.ok(&["rollback"]);
    check(&s);
    s.ok(&["rollback"]);
    assert_eq!(picture(&s), first, "after rollback");
    install(&s, &[&package]);
    s.host.reboot().unwrap();
    assert_eq!(picture(&s), first, "after a reboot");
    assert_eq!(status(&s)["status"]["generation"], 0);
}

/// A dry run says what would happen outside `/usr`, and does none of it.
#[test]
fn dry_run_lists_effects() {
    let s = Scenario::unsigned();
    let first = picture(&s);
    let package = everything("1");
    let dir = s.host.root().join("run/packages");
    std::fs::create_dir_all(&dir).unwrap();
    package.build(&dir).unwrap();
    let file = format!("/run/packages/{}", package.file_name());
    let text = s.ok(&["install", "--disablerepo=*", "--nogpgcheck", "--dry-run", &file]);
    for word in
        ["/etc/every.conf -> ", "/var/lib/every: mounted", "everything-1-1.noarch.post", "/run/every: directory"]
    {
        assert!(text.contains(word), "{word} is not in {text}");
    }
    assert_eq!(picture(&s), first);
    s.sh("test ! -e /run/rpm-ostree-transient/store && test ! -e /run/every");
}

/// Copies are edited, and stay so over installs of other packages; gone with the layer, the edit is kept and named.
#[test]
fn edits_are_kept() {
    let s = Scenario::unsigned();
    let first = picture(&s);
    install(&s, &[&everything("1")]);
    s.sh("echo edited >> /etc/every.conf; echo mine > /etc/every.d/added.conf; rm /etc/every.d/one.conf");
    install(&s, &[&Package::new("other", "1").config("/etc/other.conf", "other\n")]);
    s.sh("grep -q edited /etc/every.conf && grep -q mine /etc/every.d/added.conf && grep -q other /etc/other.conf");
    s.sh("test ! -e /etc/every.d/one.conf");
    // %config(noreplace): the edit stays, the new default lies beside it.
    install(&s, &[&everything("2")]);
    s.sh("grep -q edited /etc/every.conf && grep -q version=2 /etc/every.conf.rpmnew");
    s.sh("grep -q data=1 /var/lib/every/data");
    let text = s.ok(&["reset"]);
    assert!(text.contains("/etc/every.conf.save") && text.contains("/etc/every.d/added.conf"), "{text}");
    s.sh("grep -q edited /etc/every.conf.save && grep -q mine /etc/every.d/added.conf && test ! -L /etc/every.d");
    s.sh("rm -r /etc/every.conf.save /etc/every.d");
    assert_eq!(picture(&s), first);
}

/// A link that was replaced by a file is the administrator's from then on.
#[test]
fn replaced_links_are_kept() {
    let s = Scenario::unsigned();
    install(&s, &[&everything("1")]);
    s.sh("rm /etc/every.conf; echo real > /etc/every.conf");
    let other = Package::new("other", "1").config("/etc/other.conf", "other\n");
    let text = install(&s, &[&other.scriptlet("post", "cp /etc/every.conf /usr/share/seen")]);
    assert!(text.contains("/etc/every.conf is no longer as the layer made it"), "{text}");
    s.sh("test ! -L /etc/every.conf && grep -q real /etc/every.conf && grep -q real /usr/share/seen");
    s.ok(&["uninstall", "everything"]);
    s.sh("grep -q real /etc/every.conf && test ! -e /etc/every.d");
    s.ok(&["reset"]);
    s.sh("grep -q real /etc/every.conf");
}

/// A file of the host is never touched, whatever scriptlets and packages do to it.
#[test]
fn files_of_the_host_stay() {
    let s = Scenario::unsigned();
    s.sh("echo host > /etc/mine.conf; mkdir -p /var/lib/mine; echo host > /var/lib/mine/data; mkdir /opt/mine; touch /opt/mine/x");
    let first = picture(&s);
    let package = Package::new("takes", "1")
        .config("/etc/mine.conf", "package\n")
        .file("/var/lib/mine/data", "package\n")
        .file("/usr/share/takes", "t\n")
        .scriptlet("post", "echo scriptlet >> /etc/nsswitch.conf; rm -f /etc/hosts");
    install(&s, &[&package]);
    s.sh("grep -q host /etc/mine.conf && grep -q host /var/lib/mine/data && grep -q package /usr/etc/mine.conf");
    let status = status(&s);
    let skipped: Vec<&str> =
        status["status"]["skipped"].as_array().unwrap().iter().map(|e| e["path"].as_str().unwrap()).collect();
    assert_eq!(skipped, ["/etc/hosts", "/etc/mine.conf", "/etc/nsswitch.conf", "/var/lib/mine/data"]);
    assert_eq!(status["status"]["skipped"][2]["package"], "takes-1-1.noarch");
    assert_eq!(status["status"]["skipped"][2]["slot"], "post");
    s.ok(&["reset"]);
    assert_eq!(picture(&s), first);
    // A directory of that name in /opt cannot be shown beside the host's own.
    let opt = Package::new("opt", "1").file("/opt/mine/tool", "t\n");
    opt.build(&s.host.root().join("run/packages")).unwrap();
    let text = s.fails(&["install", "--disablerepo=*", "--nogpgcheck", "/run/packages/opt-1-1.noarch.rpm"], 78);
    assert!(text.contains("/opt/mine"), "{text}");
    assert_eq!(picture(&s), first);
}

/// Killed and failed at every new step: old or new, and the next run works.
#[test]
fn killed_with_effects() {
    let s = Scenario::unsigned();
    let first = picture(&s);
    let package = everything("1");
    install(&s, &[&package]);
    s.ok(&["reset"]);
    let args = ["install", "--disablerepo=*", "--nogpgcheck", "/run/packages/everything-1-1.noarch.rpm"];
    for step in ["covered", "effect", "before-swap"] {
        let out = s.run_env(&[("FAILPOINTS", &format!("{step}=return"))], &args);
        assert_eq!(out.status, 1, "{step}: {out:?}");
        assert_eq!(picture(&s), first, "failed at {step}");
        s.kill_at(step, &args);
        s.ok(&["reset"]);
        assert_eq!(picture(&s), first, "reset after a kill at {step}");
        s.kill_at(step, &args);
        s.ok(&args);
        s.sh("grep -q version=1 /etc/every.conf && grep -q data=1 /var/lib/every/data");
        s.ok(&["reset"]);
        assert_eq!(picture(&s), first, "install and reset after a kill at {step}");
    }
    for step in ["swapped", "recorded"] {
        s.kill_at(step, &args);
        s.ok(&["status"]);
        s.ok(&["uninstall", "everything"]);
        assert_eq!(picture(&s), first, "uninstall after a kill at {step}");
    }
}

/// A power cut in the middle, and then the cleaner.
#[test]
fn power_cut() {
    let mut s = Scenario::unsigned();
    let first = picture(&s);
    let package = everything("1");
    install(&s, &[&package]);
    s.ok(&["reset"]);
    for step in ["covered", "effect", "before-swap", "swapped", "recorded"] {
        let dir = s.host.root().join("run/packages");
        std::fs::create_dir_all(&dir).unwrap();
        package.build(&dir).unwrap();
        s.kill_at(step, &["install", "--disablerepo=*", "--nogpgcheck", "/run/packages/everything-1-1.noarch.rpm"]);
        s.host.reboot().unwrap();
        assert_eq!(picture(&s), first, "power cut at {step}");
    }
}

/// Accounts that a package only declares: owners are right, and the ids are the same after a reboot.
#[test]
fn declared_accounts() {
    let mut s = Scenario::unsigned();
    let first = picture(&s);
    let package = Package::new("declares", "1")
        .file("/usr/lib/sysusers.d/declares.conf", "u declared - \"Declared\" /nonexistent\n")
        .any_file("/usr/share/declared", Content::Text("x".into()), 0o640, "%attr(0640, declared, declared)");
    install(&s, &[&package]);
    assert_eq!(s.sh("stat -c '%U %G' /usr/share/declared").trim(), "declared declared");
    let id = s.sh("id -u declared");
    s.host.reboot().unwrap();
    assert_eq!(picture(&s), first);
    install(&s, &[&package]);
    assert_eq!(s.sh("id -u declared"), id);
    s.sh("ls -l /usr/share/declared | grep -q 'declared declared'");
}
