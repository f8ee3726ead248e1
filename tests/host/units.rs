//! Units: what presets enable until reboot, what `--now` starts, and what is only told. No systemd runs on the test host,
//! so a stand-in for `systemctl` writes down what it is asked, and keeps started services as processes.

use crate::scenario::Scenario;
use testkit::packages::Package;

const STAND_IN: &str = r#"#!/bin/bash
echo "$*" >> /run/stand-in/log
[[ ! -e /run/stand-in/fail || $* != $(cat /run/stand-in/fail) ]] || { echo "as asked" >&2; exit 1; }
verb=$1; shift; [[ $1 != -- ]] || shift
case $verb-$1 in
    *-rpm-ostree-transient*) ;;
    start-*)
        [[ ! -e /run/stand-in/$1.pid ]] || exit 0
        program=$(sed -n 's/^ExecStart=//p' "/usr/lib/systemd/system/$1") || exit 5
        $program > /dev/null 2>&1 < /dev/null & echo $! > "/run/stand-in/$1.pid" ;;
    stop-*)
        # Its file must be there to be stopped by.
        [[ -e /usr/lib/systemd/system/$1 ]] || exit 5
        kill "$(cat "/run/stand-in/$1.pid")" && rm "/run/stand-in/$1.pid" ;;
esac
"#;

/// A host on which systemd seems to run.
fn booted() -> Scenario {
    let s = Scenario::unsigned();
    let root = s.host.root();
    std::fs::create_dir_all(root.join("run/stand-in")).unwrap();
    std::fs::create_dir_all(root.join("run/packages")).unwrap();
    std::fs::create_dir_all(root.join("run/systemd/system")).unwrap();
    std::fs::write(root.join("run/stand-in/systemctl"), STAND_IN).unwrap();
    s.sh("chmod 755 /run/stand-in/systemctl");
    s
}

fn run(s: &Scenario, args: &[&str], code: i32) -> String {
    let out = s.run_env(&[("PATH", "/run/stand-in:/usr/sbin:/usr/bin")], args);
    assert_eq!(out.status, code, "{args:?}: {out:?}");
    out.stdout + &out.stderr
}

fn install(s: &Scenario, package: &Package, more: &[&str], code: i32) -> String {
    package.build(&s.host.root().join("run/packages")).unwrap();
    let file = format!("/run/packages/{}", package.file_name());
    run(s, &[&["install", "--disablerepo=*", "--nogpgcheck", &file], more].concat(), code)
}

/// What systemctl was asked since the last call, but for what our own units need.
fn asked(s: &Scenario) -> Vec<String> {
    let text = s.sh("cat /run/stand-in/log 2>/dev/null; rm -f /run/stand-in/log");
    text.lines().filter(|l| !l.contains("rpm-ostree-transient")).map(str::to_owned).collect()
}

fn not_applied(s: &Scenario) -> Vec<String> {
    let status: serde_json::Value = serde_json::from_str(&s.ok(&["status", "--json"])).unwrap();
    let word = |n: &serde_json::Value, key: &str| n[key].as_str().unwrap_or("-").to_owned();
    let list = status["status"]["notApplied"].as_array().unwrap();
    list.iter().map(|n| format!("{} {} {}", word(n, "package"), word(n, "slot"), word(n, "what"))).collect()
}

/// Whether the stand-in's process for the service below lives.
fn running(s: &Scenario) -> bool {
    s.host.sh("kill -0 $(cat /run/stand-in/sleeper.service.pid)").status == 0
}

/// A service that sleeps, as a program of its own.
fn sleeper(version: &str) -> Package {
    let unit = "[Service]\nExecStart=/usr/bin/sleeper 1000\n[Install]\nWantedBy=multi-user.target\n";
    Package::new("sleeper", version)
        .file("/usr/lib/systemd/system/sleeper.service", unit)
        .program("/usr/bin/sleeper", &format!("#!/bin/bash\n# {version}\nwhile :; do sleep 1; done\n"))
        .scriptlet("post", "systemctl --no-reload preset sleeper.service; systemctl start sleeper.service")
}

fn with_preset(package: Package, unit: &str) -> Package {
    package.file(&format!("/usr/lib/systemd/system-preset/80-{unit}.preset"), &format!("enable {unit}\n"))
}

const LINK: &str = "/run/systemd/system/multi-user.target.wants/sleeper.service";

/// A preset of the package's own enables it; that of the base, which disables everything, does not.
#[test]
fn presets_decide() {
    let s = booted();
    let first = s.host.picture().unwrap();
    install(&s, &with_preset(sleeper("1"), "sleeper.service"), &[], 0);
    assert_eq!(s.sh(&format!("readlink {LINK}")).trim(), "/usr/lib/systemd/system/sleeper.service");
    assert_eq!(asked(&s), ["daemon-reload"], "nothing is started");
    assert_eq!(not_applied(&s), ["sleeper-1-1.noarch post systemctl start sleeper.service"]);
    let text = s.ok(&["status", "-v"]);
    assert!(text.contains(&format!("{LINK} ->")) && text.contains("sleeper-1-1.noarch.post"), "{text}");

    // A link stays while its unit does, and goes with it.
    install(&s, &Package::new("other", "1").file("/usr/share/other", "x\n"), &[], 0);
    s.sh(&format!("test -L {LINK}"));
    run(&s, &["uninstall", "sleeper"], 0);
    s.sh("test ! -e /run/systemd/system/multi-user.target.wants");
    run(&s, &["rollback"], 0);
    s.sh(&format!("test -L {LINK}"));
    run(&s, &["reset"], 0);
    s.sh("test ! -e /run/systemd/system/multi-user.target.wants");
    assert_eq!(asked(&s).last().map(String::as_str), Some("daemon-reload"));

    install(&s, &sleeper("2").scriptlet("posttrans", "systemctl enable sleeper.service"), &[], 0);
    s.sh("test ! -e /run/systemd/system/multi-user.target.wants");
    assert_eq!(
        not_applied(&s),
        [
            "sleeper-2-1.noarch post systemctl start sleeper.service",
            "sleeper-2-1.noarch posttrans enable sleeper.service: no preset enables it"
        ]
    );
    // The administrator's word counts more than the package's.
    run(&s, &["reset"], 0);
    s.sh("mkdir -p /etc/systemd/system-preset; echo 'disable sleeper.*' > /etc/systemd/system-preset/10-mine.preset");
    install(
        &s,
        &with_preset(sleeper("3"), "sleeper.service").scriptlet("posttrans", "systemctl enable sleeper"),
        &[],
        0,
    );
    s.sh("test ! -e /run/systemd/system/multi-user.target.wants");
    run(&s, &["reset"], 0);
    s.sh("rm -r /etc/systemd/system-preset");
    assert_eq!(s.host.picture().unwrap(), first);
}

/// Whatever a scriptlet does to units of the base is told, and the host's own links stay.
#[test]
fn units_of_the_base_stay_as_they_are() {
    let s = booted();
    let wants = "/etc/systemd/system/sysinit.target.wants";
    s.sh(&format!("mkdir -p {wants}; ln -s /usr/lib/systemd/system/systemd-pstore.service {wants}/"));
    let first = s.host.picture().unwrap();
    let script = "systemctl disable systemd-pstore.service; systemctl mask systemd-journald.service\n\
                  systemctl enable debug-shell.service";
    install(&s, &Package::new("meddler", "1").file("/usr/share/meddler", "x\n").scriptlet("post", script), &[], 0);
    assert_eq!(
        not_applied(&s),
        [
            "meddler-1-1.noarch post enable debug-shell.service: it is the base's",
            "meddler-1-1.noarch post mask systemd-journald.service"
        ]
    );
    let text = s.ok(&["status"]);
    assert!(text.contains("systemd-pstore.service:") && text.contains("was removed in the sandbox"), "{text}");
    s.sh(&format!("test -L {wants}/systemd-pstore.service; test -z \"$(ls -A /run/systemd/system)\""));
    run(&s, &["reset"], 0);
    assert_eq!(s.host.picture().unwrap(), first);
}

/// `--now` starts after the reload, and every way back stops before the files go.
#[test]
fn now_starts_and_the_ways_back_stop() {
    let s = booted();
    let package = with_preset(sleeper("1"), "sleeper.service");
    install(&s, &package, &["--now"], 0);
    assert_eq!((running(&s), asked(&s)), (true, vec!["daemon-reload".into(), "start -- sleeper.service".into()]));
    let text = s.ok(&["status", "-v"]);
    assert!(text.contains("sleeper.service is started"), "{text}");
    // Another package: it goes on.
    install(&s, &Package::new("other", "1").file("/usr/share/other", "x\n"), &[], 0);
    assert!(!asked(&s).iter().any(|l| l.starts_with("stop")) && running(&s));
    run(&s, &["uninstall", "sleeper"], 0);
    let log = asked(&s);
    assert_eq!((running(&s), log[0].as_str()), (false, "stop -- sleeper.service"));
    assert_eq!(log[1..], ["daemon-reload", "daemon-reload"], "before and after its link is gone");
    run(&s, &["rollback"], 0);
    assert!(running(&s));
    run(&s, &["reset"], 0);
    assert!(!running(&s));

    // Without a preset for it, nothing is started.
    asked(&s);
    install(&s, &sleeper("2"), &["--now"], 0);
    assert_eq!(asked(&s), ["daemon-reload"]);
    run(&s, &["reset"], 0);
}

/// A service that does not start takes the generation with it; a failure later on stops what was started.
#[test]
fn a_failing_start_undoes_the_generation() {
    let s = booted();
    let first = s.host.picture().unwrap();
    let package = with_preset(sleeper("1"), "sleeper.service");
    s.sh("echo 'start -- sleeper.service' > /run/stand-in/fail");
    let text = install(&s, &package, &["--now"], 1);
    assert!(text.contains("sleeper.service") && text.contains("as asked"), "{text}");
    assert_eq!(s.host.picture().unwrap(), first);
    s.sh("rm /run/stand-in/fail; test ! -e /run/systemd/system/multi-user.target.wants");
    asked(&s);
    let file = format!("/run/packages/{}", package.file_name());
    let words = ["install", "--disablerepo=*", "--nogpgcheck", "--now", &file];
    let env = [("PATH", "/run/stand-in:/usr/sbin:/usr/bin"), ("FAILPOINTS", "settled=return")];
    assert_eq!(s.run_env(&env, &words).status, 1);
    let log = asked(&s);
    assert_eq!(log[..3], ["daemon-reload", "start -- sleeper.service", "stop -- sleeper.service"]);
    assert!(!running(&s));
    assert_eq!(s.host.picture().unwrap(), first);
    run(&s, &words, 0);

    // A change that fails after the old service was stopped starts it again.
    asked(&s);
    let env = [("PATH", "/run/stand-in:/usr/sbin:/usr/bin"), ("FAILPOINTS", "stopped=return")];
    assert_eq!(s.run_env(&env, &["uninstall", "sleeper"]).status, 1);
    assert_eq!(asked(&s).last().map(String::as_str), Some("start -- sleeper.service"));
    assert!(running(&s));
    run(&s, &["reset"], 0);
}

/// Files for parts of the system that a layer does not reach, and commands of every kind.
#[test]
fn what_is_not_applied_is_told() {
    let s = booted();
    let first = s.host.picture().unwrap();
    let package = Package::new("wants-more", "1")
        .file("/usr/lib/sysctl.d/50-more.conf", "kernel.domainname = more\n")
        .file("/etc/modules-load.d/more.conf", "more\n")
        .scriptlet("pre", "service more stop")
        .scriptlet(
            "post",
            "sysctl --system >/dev/null; udevadm control --reload; modprobe more; systemctl daemon-reload",
        );
    package.build(&s.host.root().join("run/packages")).unwrap();
    let file = format!("/run/packages/{}", package.file_name());
    let text = run(&s, &["install", "--disablerepo=*", "--nogpgcheck", "--dry-run", &file], 0);
    assert!(text.contains("wants-more-1-1.noarch.pre: service more stop"), "{text}");
    install(&s, &package, &[], 0);
    assert_eq!(
        not_applied(&s),
        [
            "wants-more-1-1.noarch pre service more stop",
            "wants-more-1-1.noarch post sysctl --system",
            "wants-more-1-1.noarch post modprobe more",
            "wants-more-1-1.noarch - kernel modules to load: /etc/modules-load.d/more.conf",
            "wants-more-1-1.noarch - kernel settings: /usr/lib/sysctl.d/50-more.conf"
        ]
    );
    run(&s, &["reset"], 0);
    assert_eq!(s.host.picture().unwrap(), first);
}
