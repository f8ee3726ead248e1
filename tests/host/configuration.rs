//! `rpm-ostree-transient.conf` on a host: each key has its effect, and a mistake changes nothing.

use crate::scenario::Scenario;

const CONF: &str = "/etc/rpm-ostree-transient.conf";

fn configure(s: &Scenario, text: &str) {
    s.sh(&format!("printf '{text}' > {CONF}"));
}

#[test]
fn a_mistake_is_told_and_blocks_no_way_back() {
    let s = Scenario::signed();
    s.ok(&["install", "a"]);
    configure(&s, "# policy\\nrequire-signature=true\\n");
    let text = s.fails(&["install", "b"], 2);
    assert!(text.contains(&format!("error: {CONF}, line 2: there is no key require-signature")), "{text}");
    assert!(text.contains("hint: did you mean require-signatures?"), "{text}");
    s.fails(&["uninstall", "a"], 2);
    s.ok(&["status"]);
    s.ok(&["reset"]);
    s.sh("! test -e /usr/share/a");
    // The administrator hides it with a file of the same name, or mends it.
    s.sh(&format!("mkdir {CONF}.d; mv {CONF} {CONF}.d/10-x.conf"));
    s.fails(&["install", "a"], 2);
    s.sh(&format!(": > {CONF}.d/10-x.conf"));
    s.ok(&["install", "a"]);
}

#[test]
fn signatures_are_required_of_all() {
    let s = Scenario::unsigned();
    s.sh("sed -i s/gpgcheck=1/gpgcheck=0/ /etc/yum.repos.d/*.repo");
    s.ok(&["install", "a"]);
    s.ok(&["reset"]);
    configure(&s, "require-signatures=yes\\n");
    let text = s.fails(&["install", "a"], 69);
    assert!(text.contains("a-1.0-1"), "{text}");
    let text = s.fails(&["install", "--nogpgcheck", "a"], 2);
    assert!(text.contains("--nogpgcheck is not allowed") && text.contains(CONF), "{text}");
    s.sh("! test -e /usr/share/a");
}

#[test]
fn memory_and_excludes() {
    let s = Scenario::signed();
    configure(&s, "memory-limit=64M\\nexclude=b hello-*\\n");
    s.ok(&["install", "a"]);
    let size = s.sh("findmnt -bnro SIZE /run/rpm-ostree-transient/store");
    assert_eq!(size.trim(), (64 << 20).to_string());
    s.fails(&["install", "b"], 74);
    s.fails(&["install", "hello-transient"], 74);
    s.sh(&format!("rm {CONF}"));
    s.ok(&["install", "b"]);
}

#[test]
fn settings_of_one_run() {
    let s = Scenario::signed();
    let text = s.fails(&["install", "--setopt=instal_weak_deps=1", "a"], 2);
    assert!(text.contains("did you mean install_weak_deps?"), "{text}");
    let text = s.fails(&["install", "--setopt=nowhere.timeout=1", "a"], 2);
    assert!(text.contains("no repository is named nowhere"), "{text}");
    s.ok(&["install", "--setopt=*.timeout=20", "a"]);
}
