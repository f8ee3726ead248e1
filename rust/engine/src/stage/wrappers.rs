//! Commands that only make sense on the running host: in the sandbox a small shell script stands where they are. It
//! writes down what was called and succeeds, so that the host's list of what was not applied is complete; what only
//! reads, or only changes files, goes on to the real command. The scripts are the uppermost lower directory of `/usr`,
//! so they hide files and symlinks alike, and nothing of them is harvested.

use super::{Layout, Spec};
use crate::tree::Tree;
use anyhow::{Context as _, Result};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// What has a script in its place.
const NAMES: &[&str] = &[
    "systemctl",
    "service",
    "sysctl",
    "modprobe",
    "insmod",
    "rmmod",
    "udevadm",
    "mount",
    "umount",
    "swapon",
    "swapoff",
    "semodule",
    "semanage",
    "setsebool",
    "setenforce",
    "load_policy",
    "dbus-send",
    "gdbus",
    "busctl",
    "loginctl",
    "firewall-cmd",
    "iptables",
    "ip6tables",
    "nft",
    "ipset",
    "auditctl",
    "augenrules",
    "killall",
    "killall5",
    "pkill",
    "systemd-run",
    "hostnamectl",
    "timedatectl",
    "localectl",
    "networkctl",
    "resolvectl",
    "nmcli",
    "telinit",
    "reboot",
    "halt",
    "poweroff",
    "shutdown",
];

/// Where those are that the host has not, relative to `/usr`; first in the search path.
const ABSENT: &str = "lib/rpm-ostree-transient/commands";

/// Where the real commands are, in the sandbox.
pub(super) const REAL: &str = "/dev/.real";

/// What was called, in the sandbox: the number of words, then the words, each ended by a NUL.
const LOG: &str = "/dev/.called";

/// librpm's own search path for scriptlets.
const DEFAULT_PATH: &str = "/sbin:/bin:/usr/sbin:/usr/bin:/usr/X11R6/bin";

/// The most that is read of one scriptlet's calls, in bytes.
const MOST: u64 = 256 * 1024;

/// One script for all names.
const SCRIPT: &str = r#"#!/bin/sh
name=${0##*/}
pass() {
    for dir in bin sbin; do
        [ ! -x "/dev/.real/$dir/$name" ] || exec "/dev/.real/$dir/$name" "$@"
    done
    echo "$name: not found" >&2
    exit 127
}
note() { printf '%s\0' "$(($# + 1))" "$name" "$@" 2> /dev/null >> /dev/.called; }
tell() { note "$@"; exit 0; }
# any PATTERN WORD...: true when a word matches.
any() {
    pattern=$1; shift
    for word do
        eval "case \$word in $pattern) return 0 ;; esac"
    done
    return 1
}
case $name in
    systemctl)
        export SYSTEMD_OFFLINE=1
        if any '--root|--root=*|--image=*|--help|-h|--version' "$@"; then pass "$@"; fi
        if any 'start|stop|restart|try-restart|condrestart|condstop|reload|force-reload|reload-or-restart|reload-or-try-restart|try-reload-or-restart|isolate|kill|clean|freeze|thaw|set-property|bind|mount-image|service-log-level|service-log-target|reset-failed|set-environment|unset-environment|import-environment|cancel|halt|poweroff|reboot|kexec|suspend|hibernate|hybrid-sleep|suspend-then-hibernate|soft-reboot|switch-root|rescue|emergency|default|exit|daemon-reexec' "$@"; then tell "$@"; fi
        # Done by the host itself, once.
        if any daemon-reload "$@"; then exit 0; fi
        if any --now "$@"; then
            note "$@"
            for word do shift; [ "$word" = --now ] || set -- "$@" "$word"; done
        fi
        pass "$@" ;;
    service) if any 'status|--status-all|--help|--version' "$@"; then pass "$@"; fi ;;
    sysctl) any '-[pw]*|-[!-]*[pw]*|--system|--load*|--write|*=*' "$@" || pass "$@" ;;
    modprobe) if any '-n|--dry-run|--show*|-c|-D|-R|--resolve-alias|-V|--version|-h|--help' "$@"; then pass "$@"; fi ;;
    udevadm)
        if any settle "$@"; then exit 0; fi
        if any control "$@" && any '--reload*|-R' "$@"; then exit 0; fi
        any 'control|trigger' "$@" || pass "$@" ;;
    mount) if [ $# = 0 ] || any '-l|--show-labels|-V|--version|-h|--help' "$@"; then pass "$@"; fi ;;
    swapon) if [ $# = 0 ] || any '-s|--summary|--show*|-V|--version|-h|--help' "$@"; then pass "$@"; fi ;;
    semodule) if any '-l*|--list*|-E|--extract|-c|--cil|-h|--help' "$@"; then pass "$@"; fi ;;
    semanage) if any '-l*|--list|-E|--extract|export|-h|--help' "$@"; then pass "$@"; fi ;;
    busctl) if [ $# = 0 ] || any 'list|status|tree|introspect|monitor|get-property|--help|--version' "$@"; then pass "$@"; fi ;;
    loginctl | hostnamectl | timedatectl | localectl | networkctl | resolvectl | nmcli)
        if [ $# = 0 ] || any 'status|*-status|show*|list*|query|monitor|--help|--version|-h' "$@"; then pass "$@"; fi ;;
    firewall-cmd) if any '--state|--get-*|--list-*|--query-*|--info-*|-V|--version|-h|--help' "$@"; then pass "$@"; fi ;;
    iptables | ip6tables) if any '-[!-]*[LSC]*|-[LSC]*|--list*|--check|-V|--version|-h|--help' "$@"; then pass "$@"; fi ;;
    nft | ipset | auditctl) if any 'list|-l|-s|test|-v|--version|-h|--help' "$@"; then pass "$@"; fi ;;
esac
tell "$@"
"#;

/// What `/usr` is made of without the scripts, top first.
pub(super) fn lower(spec: &Spec) -> Vec<PathBuf> {
    spec.layers.iter().chain([&spec.base]).cloned().collect()
}

/// Makes the directory of scripts for a `/usr` made of `lower`, top first.
pub(super) fn build(layout: &Layout, lower: &[PathBuf]) -> Result<PathBuf> {
    let top = layout.wrappers();
    let absent = top.join(ABSENT);
    fs::create_dir_all(&absent)?;
    let script = layout.work.join("wrapper");
    fs::write(&script, SCRIPT)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let link = |to: PathBuf| fs::hard_link(&script, &to).with_context(|| format!("Making {}", to.display()));
    let mut found: BTreeSet<&str> = BTreeSet::new();
    for dir in ["bin", "sbin"] {
        // Where `sbin` is a symlink to `bin`, it stays one.
        let is_dir = |l: &&PathBuf| fs::symlink_metadata(l.join(dir)).is_ok_and(|m| m.is_dir());
        let Some(model) = lower.iter().find(is_dir) else { continue };
        fs::create_dir(top.join(dir))?;
        for name in NAMES {
            if lower.iter().any(|l| fs::symlink_metadata(l.join(dir).join(name)).is_ok()) {
                found.insert(name);
                link(top.join(dir).join(name))?;
            }
        }
        // What is written into a directory takes over the uppermost one's mode, owner and label.
        Tree::open(&top.join(dir))?.set_attributes(None, &Tree::open(&model.join(dir))?.attributes(None)?)?;
    }
    for name in NAMES.iter().filter(|n| !found.contains(*n)) {
        link(absent.join(name))?;
    }
    if let Some(model) = lower.iter().map(|l| l.join("lib")).find(|l| l.is_dir()) {
        Tree::open(&top.join("lib"))?.set_attributes(None, &Tree::open(&model)?.attributes(None)?)?;
    }
    Ok(top)
}

/// Makes the log, with the sandbox's `/dev` at `dev`. Scriptlets run parts of them as other users.
pub(super) fn log(dev: &Path) -> Result<()> {
    let path = dev.join(Path::new(LOG).strip_prefix("/dev")?);
    File::create(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
    Ok(())
}

/// Has scriptlets find what the host has not.
pub(super) fn search_path() -> Result<()> {
    let known = bridge::librpm::expand("%{?_install_script_path}")?;
    let known = if known.is_empty() { DEFAULT_PATH } else { &known };
    bridge::librpm::define_macro(&format!("_install_script_path /usr/{ABSENT}:{known}"))
}

/// The parent's part, once the sandbox is gone: a scriptlet that changed the mode or a label of such a command has made
/// the script a file of its own.
pub(super) fn forget_copies(layout: &Layout) -> Result<()> {
    for dir in ["bin", "sbin"] {
        for name in NAMES {
            let path = layout.upper("usr").join(dir).join(name);
            let is_file = fs::symlink_metadata(&path).is_ok_and(|m| m.is_file() && m.len() == SCRIPT.len() as u64);
            if is_file && fs::read(&path)? == SCRIPT.as_bytes() {
                crate::files::remove(&path)?;
            }
        }
    }
    let made = layout.upper("usr").join(ABSENT);
    if made.is_dir() {
        fs::remove_dir_all(made)?;
    }
    Ok(())
}

/// The log and how much of it was read.
#[derive(Debug, Default)]
pub(super) struct Calls {
    read: u64,
}

impl Calls {
    /// Command lines since the last call, each once. Scriptlets can write anything there: this is text to show.
    pub(super) fn new_ones(&mut self) -> Vec<String> {
        let mut bytes = Vec::new();
        let read = File::open(LOG).and_then(|mut f| {
            f.seek(SeekFrom::Start(self.read))?;
            self.read = f.metadata()?.len();
            f.take(MOST).read_to_end(&mut bytes)
        });
        if read.is_err() {
            // A scriptlet that removes the log has done so on purpose.
            return vec!["removed the record of its commands".into()];
        }
        parse(&bytes)
    }
}

fn parse(bytes: &[u8]) -> Vec<String> {
    const LONGEST: usize = 400;
    let mut lines: Vec<String> = Vec::new();
    let mut fields = bytes.split(|b| *b == 0);
    while let Some(count) = fields.next().and_then(|f| std::str::from_utf8(f).ok()?.parse::<usize>().ok()) {
        let words: Vec<String> = fields.by_ref().take(count).map(word).collect();
        let mut line = words.join(" ");
        if let Some((end, _)) = line.char_indices().nth(LONGEST) {
            line.truncate(end);
            line.push('…');
        }
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

fn word(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).into_owned();
    if text.is_empty() || text.contains(char::is_whitespace) { format!("'{text}'") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn calls_are_read_as_they_were_written() {
        let text = b"3\0systemctl\0start\0a b.service\0" as &[u8];
        assert_eq!(parse(text), ["systemctl start 'a b.service'"]);
        assert_eq!(parse(&[text, text, b"2\0modprobe\0zfs\0"].concat()).len(), 2);
        assert_eq!(parse(b"junk\0x"), Vec::<String>::new());
        assert_eq!(parse(b"99\0modprobe\0"), ["modprobe ''"]);
        assert!(parse(&[b"2\0x\0", "y".repeat(1000).as_bytes(), b"\0"].concat())[0].len() < 410);
    }

    /// What is noted, what is passed on, and what is nothing at all; with a log and real commands of the test's own.
    #[test]
    fn each_command_goes_its_way() {
        let dir = tempfile::tempdir().unwrap();
        let path = |p: &str| dir.path().join(p);
        fs::create_dir_all(path("real/bin")).unwrap();
        let script = SCRIPT
            .replace("/dev/.real", path("real").to_str().unwrap())
            .replace("/dev/.called", path("log").to_str().unwrap());
        let run = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            for (file, text) in [(path(words[0]), &*script), (path("real/bin").join(words[0]), "#!/bin/sh\nexit 9\n")] {
                fs::write(&file, text).unwrap();
                fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
            }
            let _ = fs::remove_file(path("log"));
            let status = Command::new(path(words[0])).args(&words[1..]).status().unwrap();
            (status.code().unwrap(), parse(&fs::read(path("log")).unwrap_or_default()))
        };
        let noted = |line: &str| assert_eq!(run(line), (0, vec![line.to_owned()]), "{line}");
        let passed = |line: &str| assert_eq!(run(line), (9, vec![]), "{line}");
        for line in [
            "systemctl start x.service",
            "systemctl --no-block try-restart x.service",
            "systemctl -s HUP kill x",
            "service x restart",
            "sysctl -w a.b=1",
            "sysctl -p",
            "sysctl -qp /etc/sysctl.d/x.conf",
            "sysctl --system",
            "modprobe zfs",
            "udevadm trigger --subsystem-match=block",
            "mount -a",
            "semodule -n -i x.pp",
            "semanage port -a -t x_t 1",
            "setsebool -P x on",
            "busctl call a b c d",
            "firewall-cmd --reload",
            "killall -HUP x",
            "loginctl terminate-user x",
            "iptables -A INPUT",
        ] {
            noted(line);
        }
        for line in [
            "systemctl preset x.service",
            "systemctl enable x.service",
            "systemctl is-enabled x.service",
            "systemctl --root=/x start",
            "systemctl is-active x",
            "service x status",
            "sysctl -n kernel.osrelease",
            "modprobe -n zfs",
            "udevadm info x",
            "mount",
            "semodule -l",
            "semanage port -l",
            "busctl list",
            "iptables -nL",
        ] {
            passed(line);
        }
        for line in
            ["systemctl daemon-reload", "udevadm control --reload", "udevadm control --reload-rules", "udevadm settle"]
        {
            assert_eq!(run(line), (0, vec![]), "{line}");
        }
        assert_eq!(run("systemctl enable --now x"), (9, vec!["systemctl enable --now x".to_owned()]));
    }
}
