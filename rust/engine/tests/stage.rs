//! Real transactions in the real sandbox: this machine's own `/usr` is the base, with an empty rpmdb in a layer over
//! it. Needs root. This program is also the worker that it starts, and the parent that it kills.
#![expect(clippy::print_stderr, reason = "a test without a harness says itself how it went")]

use engine::stage::{Spec, Staged, WORKER_COMMAND, stage, worker_main};
use model::{Code, Event, Failure, Nevra, Progress};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Keeps every event.
#[derive(Default)]
struct Record(Mutex<Vec<Event>>);

impl Progress for Record {
    fn event(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

impl Record {
    /// What scriptlets printed.
    fn lines(&self) -> Vec<String> {
        let events = self.0.lock().unwrap();
        let line = |e: &Event| if let Event::Scriptlet { line, .. } = e { Some(line.clone()) } else { None };
        events.iter().filter_map(line).collect()
    }
}

/// Says yes to "did the user ask to stop" from the first scriptlet's output on.
struct Impatient;

impl Progress for Impatient {
    fn event(&self, _event: Event) {}
    fn cancelled(&self) -> bool {
        true
    }
}

struct Bench {
    dir: TempDir,
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Bench {
    /// A tmpfs for everything, and a layer with an rpmdb that knows who provides `/bin/sh`.
    fn new() -> Self {
        let bench = Bench { dir: TempDir::new().unwrap() };
        run(Command::new("mount").args(["-t", "tmpfs", "-o", "mode=0755", "tmpfs"]).arg(bench.dir.path()));
        let (db, macros) = (bench.path("base/share/rpm"), bench.path("base/lib/rpm/macros.d"));
        fs::create_dir_all(&db).unwrap();
        fs::create_dir_all(&macros).unwrap();
        fs::write(macros.join("macros.dbpath"), "%_dbpath /usr/share/rpm\n").unwrap();
        let shell = bench.rpm("shell", "1", "Provides: /bin/sh /bin/bash\n%files\n");
        run(Command::new("rpm").arg("--dbpath").arg(&db).args(["-i", "--justdb"]).arg(shell));
        fs::remove_file(db.join(".rpm.lock")).unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Builds a package. `rest` goes on after the preamble; a line `%d` in it is the end of the preamble.
    fn rpm(&self, name: &str, version: &str, rest: &str) -> PathBuf {
        let spec = self.path(&format!("{name}.spec"));
        let (preamble, body) = rest.split_at(rest.find('%').unwrap());
        let head =
            format!("Name: {name}\nVersion: {version}\nRelease: 1\nSummary: s\nLicense: MIT\nBuildArch: noarch\n");
        fs::write(&spec, format!("{head}AutoReqProv: no\n{preamble}%description\nd\n{body}")).unwrap();
        let top = format!("_topdir {}", self.path("build").display());
        run(Command::new("rpmbuild").arg("-bb").args(["--define", &top]).arg(&spec));
        self.path(&format!("build/RPMS/noarch/{name}-{version}-1.noarch.rpm"))
    }

    fn spec(&self, work: &str, install: &[&PathBuf]) -> Spec {
        Spec {
            etc: None,
            var: None,
            sysusers: String::new(),
            linker_cache: false,
            layers: vec![self.path("base")],
            base: "/usr".into(),
            work: self.path(work),
            install: install.iter().map(|p| (*p).clone()).collect(),
            remove: vec![],
            replace_files: false,
            no_deps: false,
            timeout: 60,
        }
    }

    fn code(&self, spec: &Spec) -> (Code, String) {
        let error = stage(spec, &Record::default()).expect_err("it must fail");
        let failure = error.downcast_ref::<Failure>().unwrap_or_else(|| panic!("no name: {error:#}"));
        (failure.code, failure.message.clone())
    }

    /// Runs a command over a read-only `/usr` made of these layers, and returns what it printed.
    fn on_read_only_usr(&self, layers: &[&Path], as_user: &str, words: &[&str]) -> String {
        let mut lower: Vec<String> = layers.iter().map(|l| l.display().to_string()).collect();
        lower.extend([self.path("base").display().to_string(), "/usr".into()]);
        let script = format!(
            "mount -t overlay -o ro,lowerdir={} overlay /usr && exec setpriv --reuid={as_user} --clear-groups \"$@\"",
            lower.join(":")
        );
        run(Command::new("unshare").args(["-m", "sh", "-ec", &script, "sh"]).args(words))
    }
}

const PARCEL: &str = "\
Requires: /bin/sh
%install
mkdir -p %{buildroot}/usr/bin %{buildroot}/etc %{buildroot}/var/lib/parcel
echo 'echo parcel %{version}' > %{buildroot}/usr/bin/parcel
ln %{buildroot}/usr/bin/parcel %{buildroot}/usr/bin/parcel-too
echo conf > %{buildroot}/etc/parcel.conf
%pre
echo from pre
useradd --system --no-create-home parcel
%post
echo from post; chown parcel /var/lib/parcel
%files
%attr(0755,root,root) /usr/bin/parcel
%attr(0755,root,root) /usr/bin/parcel-too
%config /etc/parcel.conf
%dir /var/lib/parcel
";

fn install_lands_in_the_upper_directories(bench: &Bench) {
    let before = fs::read("/etc/passwd").unwrap();
    let record = Record::default();
    let package = bench.rpm("parcel", "1", PARCEL);
    let staged: Staged = stage(&bench.spec("work", &[&package]), &record).unwrap();
    assert_eq!(staged.not_applied, vec![]);
    assert_eq!(record.lines(), ["from pre", "from post"]);
    let progress =
        record.0.lock().unwrap().iter().any(|e| matches!(e, Event::Bytes { done, total, .. } if done == total));
    assert!(progress, "unpacking is reported");

    let (one, two) = (staged.usr.join("bin/parcel"), staged.usr.join("bin/parcel-too"));
    let (one, two) = (fs::metadata(one).unwrap(), fs::metadata(two).unwrap());
    assert_eq!((one.mode() & 0o7777, one.ino()), (0o755, two.ino()), "hard links stay hard links");
    assert_eq!(fs::read_to_string(staged.etc.join("parcel.conf")).unwrap(), "conf\n");
    let passwd = fs::read_to_string(staged.etc.join("passwd")).unwrap();
    let uid = passwd.lines().find_map(|l| l.strip_prefix("parcel:")).expect("a user").split(':').nth(1).unwrap();
    assert_eq!(fs::metadata(staged.var.join("lib/parcel")).unwrap().uid().to_string(), uid);
    assert_eq!(fs::metadata(&staged.usr).unwrap().mode(), fs::metadata("/usr").unwrap().mode());

    assert_eq!(fs::read("/etc/passwd").unwrap(), before);
    for path in ["/usr/bin/parcel", "/etc/parcel.conf", "/var/lib/parcel", "/usr/share/rpm"] {
        assert!(!Path::new(path).exists(), "{path} on the host");
    }
    // The rpmdb is whole without its journal, for everybody, where nothing can be written.
    let database = staged.usr.join("share/rpm");
    assert_eq!(fs::metadata(database.join("rpmdb.sqlite-wal")).map_or(0, |m| m.len()), 0);
    assert!(database.join("rpmdb.sqlite").exists() && !database.join(".rpm.lock").exists());
    for user in ["0", "65534"] {
        let list = bench.on_read_only_usr(&[&staged.usr], user, &["rpm", "-qa", "--qf", "%{name}\n"]);
        let mut list: Vec<&str> = list.lines().collect();
        list.sort_unstable();
        assert_eq!(list, ["parcel", "shell"], "as {user}");
    }
}

fn commands_for_the_running_host_are_told(bench: &Bench) {
    let head = "%install\nmkdir -p %{buildroot}/usr/lib/systemd/system\n\
        printf '[Service]\\nExecStart=/bin/true\\n[Install]\\nWantedBy=multi-user.target\\n' > %{buildroot}/usr/lib/systemd/system/caller.service\n";
    let script = r#"%post
systemctl daemon-reload && systemctl enable --now caller.service && systemctl start "caller.service" || exit 3
test "$(systemctl is-enabled caller.service)" = enabled || exit 4
/usr/bin/systemctl restart other.service; /sbin/modprobe zfs; semodule -n -i /x.pp; firewall-cmd --reload || exit 5
sysctl -w kernel.domainname=x
test ! -e /usr/bin/firewall-cmd || exit 6
chmod 700 /usr/bin/mount
%posttrans
setpriv --reuid 65534 --clear-groups udevadm trigger; udevadm control --reload; udevadm settle
systemctl start caller.service
%files
/usr/lib/systemd/system/caller.service
"#;
    let before = fs::read_to_string("/proc/sys/kernel/domainname").unwrap();
    let package = bench.rpm("caller", "1", &(head.to_owned() + script));
    let lua = bench.rpm("caller-lua", "1", "%post -p <lua>\nos.execute('modprobe lua')\n%files\n");
    let record = Record::default();
    let staged = stage(&bench.spec("caller", &[&package, &lua]), &record).unwrap();
    let told: Vec<String> = staged
        .not_applied
        .iter()
        .map(|n| format!("{} {} {}", n.package.as_deref().unwrap(), n.slot.as_deref().unwrap(), n.what))
        .collect();
    assert_eq!(
        told,
        [
            "caller-lua-1-1.noarch post modprobe lua",
            "caller-1-1.noarch post systemctl enable --now caller.service",
            "caller-1-1.noarch post systemctl start caller.service",
            "caller-1-1.noarch post systemctl restart other.service",
            "caller-1-1.noarch post modprobe zfs",
            "caller-1-1.noarch post semodule -n -i /x.pp",
            "caller-1-1.noarch post firewall-cmd --reload",
            "caller-1-1.noarch post sysctl -w kernel.domainname=x",
            "caller-1-1.noarch posttrans udevadm trigger",
            "caller-1-1.noarch posttrans systemctl start caller.service",
        ],
        "{:?}",
        record.lines()
    );
    assert_eq!(fs::read_to_string("/proc/sys/kernel/domainname").unwrap(), before);
    let link = staged.etc.join("systemd/system/multi-user.target.wants/caller.service");
    assert!(fs::symlink_metadata(link).unwrap().is_symlink());
    // Nothing of the scripts is in the layer.
    assert!(!staged.usr.join("bin/mount").exists() && !staged.usr.join("lib/rpm-ostree-transient").exists());
    assert_eq!(fs::metadata(staged.usr.join("lib")).unwrap().mode(), fs::metadata("/usr/lib").unwrap().mode());
}

fn a_file_that_is_no_package(bench: &Bench) {
    let path = bench.path("no.rpm");
    fs::write(&path, "no package").unwrap();
    let error = format!("{:#}", stage(&bench.spec("no", &[&path]), &Record::default()).unwrap_err());
    assert!(error.contains(path.to_str().unwrap()) && !error.contains("/proc/self"), "{error}");
}

fn parse(nevra: &str) -> Nevra {
    nevra.parse().unwrap()
}

fn packages_change_over_a_layer(bench: &Bench) {
    let quiet = "%install\nmkdir -p %{buildroot}/usr/share\necho %{version} > %{buildroot}/usr/share/quiet\n\
                 %files\n/usr/share/quiet\n";
    let (old, new) = (bench.rpm("quiet", "1", quiet), bench.rpm("quiet", "2", quiet));
    let first = stage(&bench.spec("first", &[&old]), &Record::default()).unwrap();
    // Each run is over the one before, with its upper directory on top.
    let over = |work: &str, layer: &[&Path], install: &[&PathBuf], remove: &[&str]| {
        let mut spec = bench.spec(work, install);
        spec.layers = layer.iter().map(|p| p.to_path_buf()).chain(spec.layers).collect();
        spec.remove = remove.iter().map(|n| parse(n)).collect();
        stage(&spec, &Record::default()).unwrap()
    };
    let read = |staged: &Staged| fs::read_to_string(staged.usr.join("share/quiet")).unwrap();
    let second = over("second", &[&first.usr], &[&new], &[]);
    assert_eq!(read(&second), "2\n");
    let third = over("third", &[&second.usr, &first.usr], &[&old], &[]);
    assert_eq!(read(&third), "1\n", "downgrade");
    let again = over("again", &[&first.usr], &[&old], &[]);
    assert_eq!(read(&again), "1\n", "the same again");
    let fourth = over("fourth", &[&second.usr, &first.usr], &[], &["quiet-2-1.noarch"]);
    let whiteout = fs::symlink_metadata(fourth.usr.join("share/quiet")).unwrap();
    assert_eq!((whiteout.mode() & 0o170_000, whiteout.rdev()), (0o020_000, 0), "a whiteout");
    let list =
        bench.on_read_only_usr(&[&fourth.usr, &second.usr, &first.usr], "0", &["rpm", "-qa", "--qf", "%{name} "]);
    assert_eq!(list, "shell ");

    let mut spec = bench.spec("absent", &[]);
    spec.remove = vec![parse("quiet-9-1.noarch")];
    let error = format!("{:#}", stage(&spec, &Record::default()).unwrap_err());
    assert!(error.contains("quiet-9-1.noarch") && error.contains("not installed"), "{error}");
}

fn scriptlets_that_fail(bench: &Bench) {
    let pre = bench.rpm("bad-pre", "1", "%pre\necho reason one\necho reason two\nexit 3\n%files\n");
    let (code, message) = bench.code(&bench.spec("bad-pre", &[&pre]));
    assert_eq!(code, Code::Scriptlet);
    assert_eq!(message, "scriptlet %pre of bad-pre-1-1.noarch failed with exit status 3: reason one | reason two");

    let post = bench.rpm("bad-post", "1", "%post\necho a pity\nexit 4\n%files\n");
    let staged = stage(&bench.spec("bad-post", &[&post]), &Record::default()).unwrap();
    let [one] = &staged.not_applied[..] else { panic!("{:?}", staged.not_applied) };
    assert_eq!((one.package.as_deref(), one.slot.as_deref()), (Some("bad-post-1-1.noarch"), Some("post")));
    assert_eq!(one.what, "scriptlet failed with exit status 4: a pity");

    let lost = bench.rpm("lost", "1", "%post\ntouch /sysroot/x /boot/y /new\n%files\n");
    let staged = stage(&bench.spec("lost", &[&lost]), &Record::default()).unwrap();
    let what: Vec<&str> = staged.not_applied.iter().map(|n| n.what.as_str()).collect();
    assert_eq!(what, ["created /boot/y", "created /new", "created /sysroot/x"]);
}

fn conflicts_and_dependencies(bench: &Bench) {
    let with = |text: &str| {
        format!(
            "%install\nmkdir -p %{{buildroot}}/usr/share\necho {text} > %{{buildroot}}/usr/share/disputed\n\
             %files\n/usr/share/disputed\n"
        )
    };
    let (one, two) = (bench.rpm("one", "1", &with("one")), bench.rpm("two", "1", &with("two")));
    let (code, message) = bench.code(&bench.spec("new-conflict", &[&one, &two]));
    assert_eq!(code, Code::FileConflict);
    for part in ["/usr/share/disputed", "one-1-1.noarch", "two-1-1.noarch"] {
        assert!(message.contains(part), "{message}");
    }
    let first = stage(&bench.spec("one", &[&one]), &Record::default()).unwrap();
    let mut spec = bench.spec("old-conflict", &[&two]);
    spec.layers.insert(0, first.usr);
    let (code, message) = bench.code(&spec);
    assert_eq!(code, Code::FileConflict, "{message}");
    assert!(message.contains("one-1-1.noarch") && message.contains("two-1-1.noarch"), "{message}");
    spec.work = bench.path("replace");
    spec.replace_files = true;
    let staged = stage(&spec, &Record::default()).unwrap();
    assert_eq!(fs::read_to_string(staged.usr.join("share/disputed")).unwrap(), "two\n");

    let needy = bench.rpm("needy", "1", "Requires: no-such-thing\n%files\n");
    let (code, message) = bench.code(&bench.spec("needy", &[&needy]));
    assert_eq!(code, Code::Unsolvable);
    assert!(message.contains("no-such-thing") && message.contains("needy"), "{message}");
    let mut spec = bench.spec("no-deps", &[&needy]);
    spec.no_deps = true;
    stage(&spec, &Record::default()).unwrap();
}

fn the_sandbox_has_walls(bench: &Bench) {
    let script = r#"%post -p /bin/bash
find /run -mindepth 1 | sed 's/^/can: see /'
can() { if "$@" 2>/dev/null; then echo "can: $*"; fi; }
can mknod /usr/share/node c 1 3
can /dev/.real/bin/mount -t tmpfs tmpfs /mnt
can /dev/.real/bin/umount /usr
can chroot /proc/1/root true 
can sh -c 'echo x > /proc/sys/kernel/domainname'
can sh -c 'echo h > /proc/sysrq-trigger'
for fd in /proc/1/fd/*; do can sh -c "echo forged >> $fd"; can readlink $fd; done
can readlink /proc/1/root
can touch /sys/x
can ip link add dummy0 type dummy
can test -e /dev/sda -o -e /dev/vda -o -e /dev/mem -o -e /dev/kmsg
can test -e /run/systemd
can test "$(ls /sys/class/net)" != lo
can test "$$" -gt 1000
can sh -c 'read x < /proc/kcore'
echo umask $(umask) home $HOME offline $SYSTEMD_OFFLINE secret ${SECRET-none} path $PATH
grep -E 'NoNewPrivs|CapBnd|CapEff' /proc/self/status
echo stdin $(readlink /proc/self/fd/0)
echo null > /dev/null && head -c 4 /dev/urandom | wc -c
%files
"#;
    let package = bench.rpm("probe", "1", script);
    let record = Record::default();
    let staged = stage(&bench.spec("probe", &[&package]), &record).unwrap();
    let lines = record.lines();
    let can: Vec<&String> = lines.iter().filter(|l| l.starts_with("can: ")).collect();
    assert!(can.is_empty(), "{can:?}");
    assert!(lines.iter().any(|l| l.starts_with("umask 0022 home /root offline 1 secret none")), "{lines:?}");
    assert!(lines.iter().any(|l| l == "NoNewPrivs:\t1"), "{lines:?}");
    // CHOWN 0, DAC_OVERRIDE 1, FOWNER 3, FSETID 4, KILL 5, SETGID 6, SETUID 7, SYS_CHROOT 18, SETFCAP 31.
    for set in ["CapEff", "CapBnd"] {
        assert!(lines.iter().any(|l| *l == format!("{set}:\t00000000800400fb")), "{lines:?}");
    }
    assert!(lines.iter().any(|l| l == "4"), "{lines:?}");
    assert_eq!(staged.not_applied, vec![]);
}

fn lua_runs_inside(bench: &Bench) {
    // What our own caller left open must not lead out.
    let open = fs::File::open("/usr/share").unwrap();
    rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
    let script = r#"%post -p <lua>
print("hello from lua")
for _, name in ipairs(posix.dir("/proc/self/fd")) do
  local to = posix.readlink("/proc/self/fd/" .. name)
  if to and to:sub(1, 1) == "/" then print("fd " .. to) end
end
local tty = io.open("/dev/tty", "r")
if tty then print("a terminal") end
%files
"#;
    let package = bench.rpm("moon", "1", script);
    let record = Record::default();
    stage(&bench.spec("moon", &[&package]), &record).unwrap();
    let lines = record.lines();
    assert_eq!(lines.first().map(String::as_str), Some("hello from lua"), "{lines:?}");
    let good = ["moon-1-1.noarch.rpm", "scriptlets.log", "worker.log", "null", "(deleted)"];
    // librpm itself has the root of the sandbox open.
    let ours = |l: &&String| *l == "fd /" || l.starts_with("fd /usr/share/rpm/") || good.iter().any(|g| l.ends_with(g));
    let stray: Vec<&String> = lines.iter().skip(1).filter(|l| !ours(l)).collect();
    assert!(stray.is_empty(), "{stray:?}");
}

fn owners_are_known(bench: &Bench) {
    let package = bench.rpm("parcel", "3", PARCEL);
    let staged = stage(&bench.spec("owners", &[&package]), &Record::default()).unwrap();
    let list = bridge::librpm::installed(Some(&staged.usr.join("share/rpm"))).unwrap();
    let parcel = list.iter().find(|p| p.nevra == parse("parcel-3-1.noarch")).unwrap();
    let mut files: Vec<&str> = parcel.files.iter().map(|f| f.to_str().unwrap()).collect();
    files.sort_unstable();
    assert_eq!(files, ["/etc/parcel.conf", "/usr/bin/parcel", "/usr/bin/parcel-too", "/var/lib/parcel"]);
    assert_eq!(list.len(), 2);
}

fn file_capabilities_stay(bench: &Bench) {
    let package = bench.rpm(
        "capable",
        "1",
        "%install\nmkdir -p %{buildroot}/usr/bin\necho > %{buildroot}/usr/bin/capable\n\
         %files\n%attr(4755,root,root) %caps(cap_net_raw=p) /usr/bin/capable\n",
    );
    let staged = stage(&bench.spec("capable", &[&package]), &Record::default()).unwrap();
    let file = staged.usr.join("bin/capable");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o4755);
    let mut value = [0_u8; 64];
    let size = rustix::fs::getxattr(&file, "security.capability", &mut value).expect("a file capability");
    assert_eq!(size, 20);
}

/// True while a process with this word in its command line exists.
fn alive(word: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.split(|b| *b == 0).any(|w| w == word.as_bytes())
    })
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn time_runs_out(bench: &Bench) {
    let word = "77701";
    let slow = bench.rpm("slow", "1", "%pre\necho before\nsetsid sleep 77701 &\nsleep 77701\n%files\n");
    let mut spec = bench.spec("slow", &[&slow]);
    spec.timeout = 2;
    let (code, message) = bench.code(&spec);
    assert_eq!(code, Code::Scriptlet);
    assert!(message.contains("%pre of slow-1-1.noarch") && message.contains("2 seconds: before"), "{message}");
    assert!(!alive(word), "nothing is left running");

    // Asked to stop at once.
    spec.work = bench.path("slow-cancelled");
    let error = stage(&spec, &Impatient).unwrap_err();
    assert_eq!(error.downcast_ref::<Failure>().map(|f| f.code), Some(Code::Interrupted));
    assert!(!alive(word));

    // A daemon that a scriptlet leaves behind ends with the transaction.
    let daemon = bench.rpm("daemon", "1", "%post\nsetsid sleep 77702 > /dev/null 2>&1 &\n%files\n");
    stage(&bench.spec("daemon", &[&daemon]), &Record::default()).unwrap();
    assert!(!alive("77702"));
}

fn a_killed_parent_leaves_nothing(bench: &Bench) {
    let slow = bench.rpm("orphan", "1", "%pre\nsetsid sleep 77703 &\nsleep 77703\n%files\n");
    let order = bench.path("order.json");
    fs::write(&order, serde_json::to_vec(&bench.spec("orphan", &[&slow])).unwrap()).unwrap();
    let mut parent = Command::new("/proc/self/exe").arg(PARENT).arg(&order).spawn().unwrap();
    wait_until("the scriptlet runs", || alive("77703"));
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_until("everything is gone", || !alive("77703") && !alive(WORKER_COMMAND));
}

fn memory_runs_out(bench: &Bench) {
    let big = bench.rpm(
        "big",
        "1",
        "%install\nmkdir -p %{buildroot}/usr/share\nhead -c 20000000 /dev/urandom > %{buildroot}/usr/share/big\n\
         %files\n/usr/share/big\n",
    );
    let small = bench.path("small");
    fs::create_dir(&small).unwrap();
    run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(&small));
    let (code, message) = bench.code(&bench.spec("small/work", &[&big]));
    assert_eq!(code, Code::NoSpace, "{message}");
    assert!(message.contains("big-1-1.noarch"), "{message}");

    // Not even the rpmdb fits.
    let tiny = bench.path("tiny");
    fs::create_dir(&tiny).unwrap();
    run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(&tiny));
    let (code, message) = bench.code(&bench.spec("tiny/work", &[&big]));
    assert_eq!(code, Code::NoSpace, "{message}");
}

/// Word that makes this program the parent to be killed.
const PARENT: &str = "stage-parent";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    match words.get(1).map(String::as_str) {
        Some(WORKER_COMMAND) => return ExitCode::from(worker_main()),
        Some(PARENT) => {
            let spec: Spec = serde_json::from_slice(&fs::read(&words[2]).unwrap()).unwrap();
            return ExitCode::from(u8::from(stage(&spec, &Record::default()).is_err()));
        }
        _ => {}
    }
    assert!(rustix::process::getuid().is_root(), "this test needs root");
    #[expect(deprecated, reason = "its successor is unsafe for the sake of UnshareFlags::FILES, which this is not")]
    rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNS).unwrap();
    run(Command::new("mount").args(["--make-rprivate", "/"]));
    let bench = Bench::new();
    fs::set_permissions(bench.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    type Case = (&'static str, fn(&Bench));
    let cases: &[Case] = &[
        ("install_lands_in_the_upper_directories", install_lands_in_the_upper_directories),
        ("packages_change_over_a_layer", packages_change_over_a_layer),
        ("scriptlets_that_fail", scriptlets_that_fail),
        ("conflicts_and_dependencies", conflicts_and_dependencies),
        ("commands_for_the_running_host_are_told", commands_for_the_running_host_are_told),
        ("the_sandbox_has_walls", the_sandbox_has_walls),
        ("a_file_that_is_no_package", a_file_that_is_no_package),
        ("lua_runs_inside", lua_runs_inside),
        ("owners_are_known", owners_are_known),
        ("file_capabilities_stay", file_capabilities_stay),
        ("time_runs_out", time_runs_out),
        ("a_killed_parent_leaves_nothing", a_killed_parent_leaves_nothing),
        ("memory_runs_out", memory_runs_out),
    ];
    let wanted = words.get(1).filter(|w| !w.starts_with('-'));
    let mut failed = false;
    for (name, case) in cases.iter().filter(|(n, _)| wanted.is_none_or(|w| n.contains(w.as_str()))) {
        let result = std::panic::catch_unwind(|| case(&bench));
        eprintln!("test {name} ... {}", if result.is_ok() { "ok" } else { "FAILED" });
        failed |= result.is_err();
    }
    run(Command::new("umount").arg("-l").arg(bench.dir.path()));
    ExitCode::from(u8::from(failed))
}
