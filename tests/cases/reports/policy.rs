//! Paths outside `/usr`, scriptlets, and what never comes in.

use crate::Rig;
use testkit::packages::Package;

/// coreos/rpm-ostree#233, #4728: what is packaged for `/opt` works there, and nothing of it is in `/var/opt`.
#[test]
fn case_22_opt() {
    let Some((r, corpus)) = Rig::with_corpus() else { return };
    let first = r.picture();
    let node = r.place(&corpus, "thirdparty/nodejs010-runtime");
    r.install(&[node, r.place(&corpus, "fixture/v6-rpm-file-attrs")]);
    r.sh("grep -q nodejs010 /opt/rh/nodejs010/enable && test -f /opt/rpm-file-attrs/dir/normal");
    // Every path of both is where the database says.
    let paths = "rpm -q --qf '[%{FILEFLAGS:fflags} %{FILENAMES}\\n]' nodejs010-runtime rpm-file-attrs";
    r.sh(&format!(
        "{paths} | sed -n '/^[^ ]*g/d;s/^[^ ]* //p' | while IFS= read -r f; do \
         test -e \"$f\" || test -L \"$f\" || {{ echo \"$f\"; exit 1; }}; done"
    ));
    assert_eq!(
        r.sh("find /var/opt -mindepth 1 -printf '%P %l\\n' | LC_ALL=C sort"),
        "rh /usr/lib/opt/rh\nrpm-file-attrs /usr/lib/opt/rpm-file-attrs\n"
    );
    r.ok(&["reset"]);
    assert_eq!(r.picture(), first);
}

/// coreos/rpm-ostree#1090, #4903: `/usr/local` is the administrator's; the path is named.
#[test]
fn case_24_usr_local() {
    let Some((r, corpus)) = Rig::with_corpus() else { return };
    for (file, path) in [
        ("thirdparty/cwp-suphp", "/usr/local/apache/modules/mod_suphp.so"),
        ("fixture/hello-1.0-1.x86_64.rpm-v3", "/usr/local/bin/hello"),
    ] {
        let text = r.refused(&[r.place(&corpus, file)], 78);
        assert!(text.contains(path), "{text}");
    }
}

/// openai/codex#42948, coreos/rpm-ostree#1091: scriptlets write everywhere, or fail. What the host got of it is in the
/// status, and so is what it did not get; a failure has package, slot, exit status and the last lines.
#[test]
fn case_26_scriptlets_that_write_and_fail() {
    let Some((r, corpus)) = Rig::with_corpus() else { return };
    let first = r.picture();
    let files = [r.place(&corpus, "made/post-writes-everywhere")];
    r.install(&files);
    let now = r.picture();
    let known: Vec<String> =
        r.listed("effects", "path").into_iter().map(|p| p.replacen("/opt/", "/var/opt/", 1)).collect();
    let wants = "/etc/systemd/system/sysinit.target.wants";
    let unknown: Vec<String> = first
        .differing(&now)
        .into_iter()
        .map(|p| format!("/{}", p.display()))
        .filter(|p| !p.starts_with("/usr/") && !p.starts_with(wants) && !known.contains(p))
        .collect();
    assert_eq!(unknown, Vec::<String>::new());
    let told = r.status().to_string();
    for place in ["/usr/local/bin", "/boot"] {
        let path =
            format!("{}/post-writes-everywhere", if place == "/usr/local/bin" { "/var/usrlocal/bin" } else { place });
        assert!(told.contains(&path), "{path} is not in {told}");
    }
    r.sh("test ! -e /usr/local/bin/post-writes-everywhere && test ! -e /boot/post-writes-everywhere");
    r.sh("test ! -e /tmp/post-writes-everywhere && test ! -e /run/post-writes-everywhere");
    r.ok(&["reset"]);
    assert_eq!(r.picture(), first);

    let text = r.refused(&[r.place(&corpus, "made/prein-fails")], 80);
    assert!(["prein-fails-1.0-1", "%pre", "3", "prein-ran"].iter().all(|w| text.contains(w)), "{text}");
    // RPM goes on after a failing %post: the user is told, by package and slot.
    let fails =
        Package::new("post-fails", "1").file("/usr/share/post-fails", "x").scriptlet("post", "echo last words; exit 7");
    let text = r.install(&r.build(&[&fails]));
    assert!(["post-fails-1-1", "post", "7", "last words"].iter().all(|w| text.contains(w)), "{text}");
    assert_eq!(r.listed("notApplied", "slot"), ["post"]);
}

/// coreos/rpm-ostree#749, #5411: Lua scriptlets are run by librpm, and never handed to a shell.
#[test]
fn case_32_lua() {
    let r = Rig::new();
    // To a shell this is a syntax error.
    let lua = "local f = io.open('/usr/share/lua-ran', 'w'); f:write(arg[2] or '?'); f:close(); if 1 then x = {} end";
    r.install(
        &r.build(&[&Package::new("speaks-lua", "1")
            .file("/usr/share/speaks-lua", "x")
            .scriptlet("post -p <lua>", lua)]),
    );
    assert_eq!(r.sh("cat /usr/share/lua-ran"), "1");
    assert_eq!(r.listed("notApplied", "what"), Vec::<String>::new());
    r.ok(&["reset"]);
    let Some(corpus) = crate::corpus::corpus() else { return };
    r.install(&[r.place(&corpus, "distro/crypto-policies-"), r.place(&corpus, "fixture/luafork")]);
    assert_eq!(r.sh("cat /etc/crypto-policies/config /etc/crypto-policies/state/current"), "DEFAULT\nDEFAULT\n");
    r.sh("for f in /etc/crypto-policies/back-ends/*.config; do test -s $f || exit 1; done");
    assert_eq!(r.listed("notApplied", "what"), Vec::<String>::new());
    r.ok(&["reset"]);
    // Its %post is Lua as well; but it owns what is not ours to change.
    let text = r.refused(&[r.place(&corpus, "distro/filesystem")], 78);
    assert!(text.contains("filesystem-2.4.44") && text.contains("/boot"), "{text}");
}

/// coreos/rpm-ostree#2415: what cannot take effect before the reboot that ends it is refused by path, not only by name.
#[test]
fn case_40_kernels_and_boot() {
    let r = Rig::new();
    let vmlinuz = "/usr/lib/modules/9.9.9/vmlinuz";
    for (package, words) in [
        (Package::new("kernel-core", "9.9.9").file(vmlinuz, "x"), ["kernel-core-9.9.9", "a kernel"]),
        (Package::new("harmless", "1").file(vmlinuz, "x"), ["harmless-1", vmlinuz]),
        (
            Package::new("boots", "1").file("/boot/loader/entries/x.conf", "x"),
            ["boots-1", "/boot/loader/entries/x.conf"],
        ),
        (
            Package::new("selinux-policy-targeted", "1").file("/usr/share/x", "x"),
            ["selinux-policy-targeted-1", "SELinux"],
        ),
        (
            Package::new("policy", "1").file("/usr/share/selinux/targeted/default/active/x", "x"),
            ["policy-1", "/usr/share/selinux/targeted"],
        ),
    ] {
        // Never reached.
        let package = package.scriptlet("pre", "exit 9");
        let text = r.refused(&r.build(&[&package]), 78);
        assert!(words.iter().all(|w| text.contains(w)), "{words:?}: {text}");
    }
}

/// coreos/rpm-ostree#1078, #2655: nothing stays in `/etc`, and nothing of the administrator's is overwritten or lost.
#[test]
fn case_42_etc() {
    let Some((mut r, corpus)) = Rig::with_corpus() else { return };
    r.sh("echo mine > /etc/auto.master; mkdir -p /etc/raddb; echo mine > /etc/raddb/mine");
    let first = r.picture();
    let place = |r: &Rig| {
        ["distro/epel-release-8", "distro/freeradius-server-", "distro/autofs-"].map(|f| r.place(&corpus, f)).to_vec()
    };
    r.install(&place(&r));
    r.sh("grep -q mine /etc/auto.master && grep -q mine /etc/raddb/mine && test -e /etc/raddb/radiusd.conf");
    r.sh("grep -q . /usr/etc/auto.master && ! cmp -s /usr/etc/auto.master /etc/auto.master");
    assert!(r.listed("skipped", "path").contains(&"/etc/auto.master".to_owned()));
    r.sh("echo edited >> /etc/auto.misc; echo edited >> /etc/raddb/radiusd.conf");
    let text = r.ok(&["reset"]);
    for saved in ["/etc/auto.misc.save", "/etc/raddb/radiusd.conf.save"] {
        assert!(text.contains(saved), "{saved} is not in {text}");
        r.sh(&format!("grep -q edited {saved} && rm {saved}"));
    }
    assert_eq!(r.picture(), first, "after reset");
    r.install(&place(&r));
    r.sh("echo edited >> /etc/auto.misc");
    r.host.reboot().unwrap();
    assert_eq!(r.picture(), first, "after a reboot");
}
