//! What is computed from many files: the linker cache, alternatives, indexes of kernel modules. Their readers find the
//! layer's while it is there, and the host's own afterwards.

use crate::outside::{install, picture, status};
use crate::scenario::Scenario;
use std::process::Command;
use testkit::packages::{Content, Package};

/// What the compiler makes of a C text.
fn compile(text: &str, args: &[&str]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("x.c"), text).unwrap();
    let out = Command::new("gcc").current_dir(&dir).args(["-o", "out", "x.c"]).args(args).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    std::fs::read(dir.path().join("out")).unwrap()
}

/// A library in a directory that only ld.so.conf.d names, and a program that needs it.
fn library(version: &str) -> Package {
    let library = format!("const char *cached(void) {{ return \"cached {version}\"; }}");
    let program = "#include <stdio.h>\nextern const char *cached(void);\nint main(void) { puts(cached()); }";
    let dir = tempfile::tempdir().unwrap();
    let library = compile(&library, &["-shared", "-fPIC", "-Wl,-soname,libcached.so.1"]);
    std::fs::write(dir.path().join("libcached.so"), &library).unwrap();
    let program = compile(program, &["-L", dir.path().to_str().unwrap(), "-lcached"]);
    Package::new("cached", version)
        .native()
        .any_file("/usr/share/cached/libcached.so.1", Content::Bytes(library), 0o755, "")
        .any_file("/usr/bin/cached", Content::Bytes(program), 0o755, "")
        .config("/etc/ld.so.conf.d/cached.conf", "/usr/share/cached\n")
}

#[test]
fn linker_cache() {
    let mut s = Scenario::unsigned();
    s.sh("mkdir -p /etc/ld.so.conf.d");
    let first = picture(&s);
    let names = "ldconfig -p | grep -c libcached || :";
    assert_eq!(s.sh(names).trim(), "0");
    install(&s, &[&library("1")]);
    assert_eq!(s.sh("cached"), "cached 1\n");
    assert_eq!(s.sh(names).trim(), "1");
    // Replaced twice, and never without: a program that needs it is started all the while.
    let run = "touch /run/going; while [ -e /run/going ]; do cached || echo missed; done > /run/runs 2>&1";
    let mut runs = s.host.spawn(&[], &["bash", "-c", run]).unwrap();
    for version in ["2", "3"] {
        install(&s, &[&library(version)]);
        assert_eq!(s.sh("cached"), format!("cached {version}\n"));
        s.ok(&["rollback"]);
        s.ok(&["rollback"]);
    }
    s.sh("rm /run/going");
    runs.finish().unwrap();
    let (missed, all) = (s.sh("grep -cv '^cached' /run/runs || :"), s.sh("grep -c '^cached' /run/runs"));
    println!("{} runs across changes of the linker cache", all.trim());
    assert!(missed.trim() == "0" && all.trim().parse::<u32>().unwrap() > 20, "{}", s.sh("cat /run/runs"));
    assert_eq!(s.sh("grep -c ' /etc/ld.so.cache ' /proc/self/mountinfo").trim(), "1");
    s.ok(&["reset"]);
    assert_eq!(picture(&s), first, "after reset");
    assert_eq!(s.sh(names).trim(), "0");
    install(&s, &[&library("1")]);
    s.host.reboot().unwrap();
    assert_eq!(picture(&s), first, "after a reboot");

    // A host without any: the file that the mount needed goes, also after several generations.
    s.sh("mv /etc/ld.so.cache /run/cache");
    let without = picture(&s);
    install(&s, &[&library("1")]);
    install(&s, &[&library("2")]);
    assert_eq!(s.sh("cached"), "cached 2\n");
    s.ok(&["reset"]);
    assert_eq!(picture(&s), without);
}

/// Debian's update-alternatives: a new group works and is recognized; an existing one stays as it is, and is listed.
#[test]
fn alternatives() {
    let mut s = Scenario::unsigned();
    if s.host.sh("command -v update-alternatives").status != 0 {
        println!("alternatives: skipped, because this host has no update-alternatives");
        return;
    }
    s.sh("update-alternatives --install /var/lib/old-greeting old-greeting /usr/bin/true 10");
    let first = picture(&s);
    let package = Package::new("greetings", "1").program("/usr/bin/greeting-one", "#!/bin/sh\necho one\n").scriptlet(
        "post",
        "update-alternatives --install /usr/bin/greeting greeting /usr/bin/greeting-one 10\n\
         update-alternatives --install /var/lib/old-greeting old-greeting /usr/bin/greeting-one 20",
    );
    let second = Package::new("greetings-two", "1")
        .program("/usr/bin/greeting-two", "#!/bin/sh\necho two\n")
        .scriptlet("post", "update-alternatives --install /usr/bin/greeting greeting /usr/bin/greeting-two 20");
    install(&s, &[&package]);
    assert_eq!(s.sh("greeting"), "one\n");
    let shown = s.sh("update-alternatives --display greeting");
    assert!(shown.contains("auto mode") && shown.contains("points to /usr/bin/greeting-one"), "{shown}");
    assert_eq!(s.sh("readlink /etc/alternatives/old-greeting"), "/usr/bin/true\n");
    let skipped = status(&s)["status"]["skipped"].to_string();
    assert!(skipped.contains("/etc/alternatives/old-greeting"), "{skipped}");
    install(&s, &[&second]);
    assert_eq!(s.sh("greeting"), "two\n");
    let shown = s.sh("update-alternatives --display greeting");
    assert!(shown.contains("auto mode") && shown.contains("points to /usr/bin/greeting-two"), "{shown}");
    s.ok(&["rollback"]);
    assert_eq!(s.sh("greeting"), "one\n");
    s.ok(&["reset"]);
    assert_eq!(picture(&s), first, "after reset");
    install(&s, &[&package]);
    s.host.reboot().unwrap();
    assert_eq!(picture(&s), first, "after a reboot");
}

/// Symlinks of packages lead where they would without us, also relative ones that leave their directory.
#[test]
fn symlinks_of_packages() {
    let s = Scenario::unsigned();
    s.sh("mkdir -p /etc/pki; echo host > /etc/pki/of-host");
    let first = picture(&s);
    let package = Package::new("links", "1")
        .link("/etc/relative.conf", "../usr/share/links")
        .link("/etc/pki/beside", "of-host")
        .config("/etc/links.d/one.conf", "one\n")
        .link("/etc/links.d/sub/out", "../../pki/of-host")
        .config("/etc/inner.d/one.conf", "one\n")
        .link("/etc/inner.d/sub/in", "../one.conf")
        .link("/var/lib/link-of-var", "../../etc/pki/of-host")
        .file("/usr/share/links", "usr\n");
    install(&s, &[&package]);
    for path in ["/etc/pki/beside", "/etc/links.d/sub/out", "/var/lib/link-of-var"] {
        assert_eq!(s.sh(&format!("cat {path}")), "host\n", "{path}");
    }
    assert_eq!(s.sh("cat /etc/relative.conf; cat /etc/inner.d/sub/in"), "usr\none\n");
    s.sh("mountpoint -q /etc/links.d && test -L /etc/inner.d");
    install(&s, &[&Package::new("other", "1").file("/usr/share/other", "x\n")]);
    assert_eq!(s.sh("cat /etc/relative.conf"), "usr\n");
    s.ok(&["uninstall", "links"]);
    s.sh("test ! -L /etc/relative.conf && test ! -e /etc/links.d && test ! -L /var/lib/link-of-var");
    s.ok(&["reset"]);
    assert_eq!(picture(&s), first);
}

#[test]
fn kernel_modules() {
    let s = Scenario::unsigned();
    if s.host.sh("command -v depmod").status != 0 {
        println!("kernel modules: skipped, because this host has no depmod");
        return;
    }
    let first = picture(&s);
    let module = compile(
        "char a[] __attribute__((section(\".modinfo\"), used)) = \"license=MIT\";\n\
         char b[] __attribute__((section(\".modinfo\"), used)) = \"description=Layered\";\n\
         char c[] __attribute__((section(\".modinfo\"), used)) = \"alias=layered-alias\";\n",
        &["-c"],
    );
    let package = Package::new("kmod-layered", "1").native();
    let place = "/usr/lib/modules/6.1.0-testhost/extra/layered.ko";
    install(&s, &[&package.any_file(place, Content::Bytes(module), 0o644, "")]);
    assert_eq!(s.sh("modinfo -k 6.1.0-testhost -F description layered"), "Layered\n");
    s.sh("modprobe -n -v -S 6.1.0-testhost layered-alias | grep extra/layered.ko");
    install(&s, &[&Package::new("other", "1").file("/usr/share/other", "x\n")]);
    s.ok(&["uninstall", "kmod-layered"]);
    s.sh("! modinfo -k 6.1.0-testhost layered");
    // The base's own are back, also while something else is layered.
    let usr = |p: &&std::path::Path| p.to_string_lossy().starts_with("usr/lib/modules/6.1.0-testhost/modules.");
    let now = picture(&s);
    assert_eq!(first.differing(&now).into_iter().filter(usr).collect::<Vec<_>>(), Vec::<&std::path::Path>::new());
    s.ok(&["reset"]);
    assert_eq!(picture(&s), first);
}
