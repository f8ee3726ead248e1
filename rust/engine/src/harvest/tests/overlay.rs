//! Marks as the running kernel makes them: work in a real overlay with the sandbox's options, harvest, and compare the
//! layer over the base with what that overlay showed.

use super::*;
use std::process::Command;

/// Runs a script in a private mount namespace with an overlay at `merged`; returns its stdout.
fn in_overlay(rig: &Rig, options: &str, script: &str) -> String {
    let whole = format!(
        "set -e; cd '{}'; mkdir -p merged; mount -t overlay overlay -o {options} merged; cd merged; {script}",
        rig.path("").display()
    );
    let output = Command::new("unshare").args(["-m", "sh", "-c", &whole]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Name, kind, mode, owner, link count of files, target, and content of every entry. Times of directories too.
const LISTING: &str = "find . -mindepth 1 -printf '%p %y %m %U:%G %l %T@\\n' | sort; \
    find . -type f ! -path './share/rpm/*' -exec sha256sum {} + | sort; \
    getfattr -R -h -d -m 'user|security.capability' . 2>/dev/null || true";

#[test]
fn the_layer_over_the_base_is_what_the_sandbox_showed() {
    need_root!();
    let rig = Rig::new();
    rig.file("base/bin/ls", "ls").file("base/lib/app/base", "b").file("base/share/doc/base/README", "r");
    rig.file("base/share/rpm/rpmdb.sqlite", "base db");
    let options = |lower: &str, upper: &str| {
        format!("lowerdir={lower},upperdir={upper},workdir=work,redirect_dir=off,metacopy=off")
    };
    // Two transactions, each harvested; the second works over the first one's layer.
    let first = "mkdir lib/one lib/two lib/gone; echo 1 > lib/one/a; ln lib/one/a lib/one/b; echo 2 > lib/two/f; \
        echo x > lib/gone/x; echo replaced > bin/ls; printf '#!' > bin/tool; chown 7:8 bin/tool; chmod 6755 bin/tool; \
        ln -s tool bin/alias; echo db1 > share/rpm/rpmdb.sqlite; mkdir share/doc/new; chmod 1777 share/doc/new; \
        echo d > lib/app/deep; chmod 0640 lib/app/deep; touch share/doc/base/README; setfattr -n user.k -v v lib/two; ";
    let second = "rm -r lib/gone; rm -r lib/two; mkdir lib/two; echo 3 > lib/two/other; rm lib/one/a; printf ls > bin/ls; \
        rm bin/alias; mkdir bin/alias; echo in > bin/alias/in; mv lib/one lib/moved; ln -s moved lib/one; \
        echo db2 > share/rpm/rpmdb.sqlite; rmdir share/doc/new; chmod 4711 bin/tool; rm lib/app/deep; ";
    rig.dir("work");
    let shown = in_overlay(&rig, &options("base", "usr"), &format!("{first}{LISTING}"));
    let mut one = Rig { with_previous: false, ..rig };
    let got = one.run();
    assert_eq!(got.skipped, []);
    let lower = |rig: &Rig| in_overlay(rig, "lowerdir=new:base", LISTING);
    let changed_base_dirs = |text: &str| -> Vec<String> {
        // Times of the base's directories stay the base's.
        let base_dirs = ["./bin", "./lib", "./lib/app", "./share", "./share/doc", "./share/doc/base", "./share/rpm"];
        let strip = |l: &str| match base_dirs.iter().find(|d| l.starts_with(&format!("{d} d"))) {
            Some(_) => l.rsplit_once(' ').unwrap().0.to_owned(),
            // A touched file equals the base's, which keeps its time.
            None if l.starts_with("./share/doc/base/README f") || l.starts_with("./bin/ls f") => {
                l.rsplit_once(' ').unwrap().0.to_owned()
            }
            None => l.to_owned(),
        };
        text.lines().map(strip).collect()
    };
    assert_eq!(changed_base_dirs(&lower(&one)), changed_base_dirs(&shown));
    assert!(!one.exists("new/share/doc/base/README"), "it was only touched");

    std::fs::remove_dir_all(one.path("previous")).unwrap();
    std::fs::rename(one.path("new"), one.path("previous")).unwrap();
    for dir in ["usr", "work"] {
        std::fs::remove_dir_all(one.path(dir)).unwrap();
        std::fs::create_dir(one.path(dir)).unwrap();
    }
    one.with_previous = true;
    let shown = in_overlay(&one, &options("previous:base", "usr"), &format!("{second}{LISTING}"));
    let got = one.run();
    assert_eq!(got.skipped, []);
    assert_eq!(changed_base_dirs(&lower(&one)), changed_base_dirs(&shown));
    assert!(!one.exists("new/bin/ls"), "it equals the base's again");
    assert_eq!(one.read("previous/bin/ls").as_deref(), Some("replaced\n"));
    assert_eq!(one.read("previous/share/rpm/rpmdb.sqlite").as_deref(), Some("db1\n"));
    assert_eq!(one.path("previous/bin/tool").metadata().unwrap().mode() & 0o7777, 0o6755);

    // No mark of an overlay is anywhere in the layer.
    let marks = Command::new("getfattr").args(["-R", "-h", "-m", "overlay"]).arg(one.path("new")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&marks.stdout), "");
}

#[test]
fn what_the_sandbox_removed_of_the_base_comes_back() {
    need_root!();
    let rig = Rig::new();
    rig.file("base/bin/ls", "ls").file("base/lib/app/one", "1").file("base/lib/app/two", "2").dir("work");
    let options = "lowerdir=base,upperdir=usr,workdir=work,redirect_dir=off,metacopy=off";
    in_overlay(&rig, options, "rm bin/ls; rm -r lib/app; mkdir lib/app; echo new > lib/app/two");
    let got = rig.run();
    let skipped: Vec<_> = got.skipped.iter().map(|s| s.path.to_str().unwrap()).collect();
    assert_eq!(skipped, ["/usr/bin/ls", "/usr/lib/app/one"]);
    let listing = in_overlay(&rig, "lowerdir=new:base", "find . -type f | sort; cat lib/app/two");
    assert_eq!(listing, "./bin/ls\n./lib/app/one\n./lib/app/two\nnew\n");
}
