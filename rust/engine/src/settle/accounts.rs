//! Users and groups that scriptlets made in the sandbox, written into the *layer* so that they appear and go with the
//! generation: lines of `/usr/lib/passwd` and `/usr/lib/group` where nss-altfiles is in use, else JSON user records
//! in `/usr/lib/userdb`, which nss-systemd reads by itself. The host's `/etc/passwd`, `shadow` and `group` are
//! never touched. Record format: <https://systemd.io/USER_RECORD/> and <https://systemd.io/GROUP_RECORD/>.

use crate::files;
use crate::harvest::Account;
use anyhow::{Context as _, Result};
use fn_error_context::context;
use model::{Code, Failure};
use std::collections::BTreeSet;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::Path;

/// Where this host's name service looks besides `/etc/passwd`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// nss-altfiles: `/usr/lib/passwd`.
    AltFiles,
    /// nss-systemd: `/usr/lib/userdb/*.user`.
    Userdb,
}

/// A user as `passwd(5)` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct User<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    gecos: &'a str,
    home: &'a str,
    shell: &'a str,
}

/// A group as `group(5)` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group<'a> {
    name: &'a str,
    gid: u32,
    members: Vec<&'a str>,
}

impl<'a> User<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let f: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, gecos, home, shell] = f.as_slice() else { return None };
        Some(User { name, uid: uid.parse().ok()?, gid: gid.parse().ok()?, gecos, home, shell })
    }
}

impl<'a> Group<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let f: Vec<&str> = line.split(':').collect();
        let [name, _, gid, members] = f.as_slice() else { return None };
        let members = members.split(',').filter(|m| !m.is_empty()).collect();
        Some(Group { name, gid: gid.parse().ok()?, members })
    }
}

/// Which backend `nsswitch.conf` text names for `passwd`, altfiles first; none when neither is there.
pub fn backend(nsswitch: &str) -> Option<Backend> {
    let services: Vec<&str> = nsswitch
        .lines()
        .filter_map(|l| l.split('#').next().unwrap_or("").trim().strip_prefix("passwd:"))
        .flat_map(str::split_whitespace)
        .collect();
    if services.contains(&"altfiles") {
        Some(Backend::AltFiles)
    } else if services.contains(&"systemd") {
        Some(Backend::Userdb)
    } else {
        None
    }
}

/// A name that is safe as a file name and as a field: the strict form of systemd's user name rules.
fn sane(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && !name.starts_with(['-', '.'])
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.$".contains(&b))
}

/// Writes accounts into a layer that is not sealed yet. `base` is the pristine `/usr`.
///
/// # Errors
/// [`Code::Refused`] when this host cannot resolve accounts from `/usr`, or a line is malformed.
#[context("Recording users and groups in the layer")]
pub fn write(layer: &Path, base: &Path, accounts: &[Account], nsswitch: &str) -> Result<()> {
    if accounts.is_empty() {
        return Ok(());
    }
    for account in accounts {
        let (line, name) = match account {
            Account::User(l) => (l, User::parse(l).map(|u| u.name)),
            Account::Group(l) => (l, Group::parse(l).map(|g| g.name)),
        };
        if !name.is_some_and(sane) {
            return Err(refused(format!(
                "a scriptlet made the account line \"{}\", which is malformed",
                line.escape_debug()
            )));
        }
    }
    match backend(nsswitch) {
        Some(Backend::AltFiles) => write_altfiles(layer, base, accounts),
        Some(Backend::Userdb) => write_userdb(layer, accounts),
        None => {
            let names: Vec<&str> = accounts.iter().filter_map(|a| text(a).split(':').next()).collect();
            Err(anyhow::Error::new(
                Failure::new(
                    Code::Refused,
                    format!(
                        "the packages make the accounts {}, and \"passwd:\" in /etc/nsswitch.conf has neither altfiles nor systemd to find them in /usr",
                        names.join(", ")
                    ),
                )
                .hint("add \"systemd\" to the passwd: and group: lines of /etc/nsswitch.conf"),
            ))
        }
    }
}

fn text(account: &Account) -> &str {
    match account {
        Account::User(l) | Account::Group(l) => l,
    }
}

fn refused(message: String) -> anyhow::Error {
    Failure::new(Code::Refused, message).into()
}

fn write_altfiles(layer: &Path, base: &Path, accounts: &[Account]) -> Result<()> {
    for (file, wanted) in [("lib/passwd", true), ("lib/group", false)] {
        let new: Vec<&str> = accounts.iter().filter(|a| matches!(a, Account::User(_)) == wanted).map(text).collect();
        if new.is_empty() {
            continue;
        }
        let read = |root: &Path| std::fs::read_to_string(root.join(file)).ok();
        let old = read(layer).or_else(|| read(base)).unwrap_or_default();
        let names: BTreeSet<&str> = new.iter().filter_map(|l| l.split(':').next()).collect();
        let kept = old.lines().filter(|l| !names.contains(l.split(':').next().unwrap_or("")));
        let mut content: String = kept.flat_map(|l| [l, "\n"]).collect();
        content.extend(new.iter().flat_map(|l| [*l, "\n"]));
        make_dir(&layer.join("lib"))?;
        // A new file, renamed: the old one may be a hard link into the previous generation.
        files::write(&layer.join(file), content.as_bytes(), 0o644)?;
    }
    Ok(())
}

fn write_userdb(layer: &Path, accounts: &[Account]) -> Result<()> {
    let dir = layer.join("lib/userdb");
    make_dir(&layer.join("lib"))?;
    make_dir(&dir)?;
    let put = |name: String, content: String| files::write(&dir.join(name), content.as_bytes(), 0o644);
    let link = |name: String, target: String| -> Result<()> {
        let path = dir.join(&name);
        crate::files::remove(&path)?;
        symlink(target, &path).with_context(|| format!("Linking {name}"))
    };
    for account in accounts {
        match account {
            Account::User(line) => {
                let Some(u) = User::parse(line) else { continue };
                let mut record = serde_json::json!({
                    "userName": u.name, "uid": u.uid, "gid": u.gid, "disposition": "system",
                    "homeDirectory": u.home, "shell": u.shell,
                });
                if !u.gecos.is_empty() {
                    record["realName"] = u.gecos.into();
                }
                put(format!("{}.user", u.name), format!("{record}\n"))?;
                link(format!("{}.user", u.uid), format!("{}.user", u.name))?;
            }
            Account::Group(line) => {
                let Some(g) = Group::parse(line) else { continue };
                let record = serde_json::json!({"groupName": g.name, "gid": g.gid, "disposition": "system"});
                put(format!("{}.group", g.name), format!("{record}\n"))?;
                link(format!("{}.group", g.gid), format!("{}.group", g.name))?;
                for member in g.members.iter().filter(|m| sane(m)) {
                    put(format!("{member}:{}.membership", g.name), String::new())?;
                }
            }
        }
    }
    Ok(())
}

fn make_dir(dir: &Path) -> Result<()> {
    match std::fs::DirBuilder::new().mode(0o755).create(dir) {
        Ok(()) => {
            // The mode is not to depend on the caller's umask.
            use std::os::unix::fs::PermissionsExt as _;
            Ok(std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755))?)
        }
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(e).with_context(|| format!("Making {}", dir.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts() -> Vec<Account> {
        vec![
            Account::Group("greeter:x:996:bob".into()),
            Account::User("greeter:x:997:996:Greets:/nonexistent:/usr/sbin/nologin".into()),
        ]
    }

    #[test]
    fn backend_follows_nsswitch() {
        for (text, want) in [
            ("passwd: files altfiles systemd\n", Some(Backend::AltFiles)),
            ("passwd:\tfiles systemd # c\n", Some(Backend::Userdb)),
            ("#passwd: altfiles\npasswd: files\n", None),
            ("", None),
        ] {
            assert_eq!(backend(text), want, "{text}");
        }
    }

    #[test]
    fn userdb_records_and_links() {
        let tmp = tempfile::tempdir().unwrap();
        std::fs::create_dir(tmp.path().join("lib")).unwrap();
        write(tmp.path(), Path::new("/nonexistent"), &accounts(), "passwd: files systemd").unwrap();
        let dir = tmp.path().join("lib/userdb");
        let user: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(dir.join("997.user")).unwrap()).unwrap();
        assert_eq!((user["userName"].as_str(), user["gid"].as_u64()), (Some("greeter"), Some(996)));
        assert!(dir.join("996.group").exists() && dir.join("bob:greeter.membership").exists());
    }

    #[test]
    fn altfiles_keep_the_base_and_replace_a_name() {
        let tmp = tempfile::tempdir().unwrap();
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir(base.path().join("lib")).unwrap();
        std::fs::write(base.path().join("lib/passwd"), "daemon:x:2:2::/:/bin/sh\ngreeter:x:1:1::/:/x\n").unwrap();
        write(tmp.path(), base.path(), &accounts(), "passwd: altfiles").unwrap();
        let text = std::fs::read_to_string(tmp.path().join("lib/passwd")).unwrap();
        assert_eq!(text, "daemon:x:2:2::/:/bin/sh\ngreeter:x:997:996:Greets:/nonexistent:/usr/sbin/nologin\n");
    }

    #[test]
    fn refuses_forged_lines_and_hosts_that_cannot_resolve() {
        let tmp = tempfile::tempdir().unwrap();
        for line in ["../../etc/x:x:1:1::/:/", "a:b", ":x:1:1::/:/"] {
            let e = write(tmp.path(), tmp.path(), &[Account::User(line.into())], "passwd: systemd").unwrap_err();
            assert_eq!(e.downcast_ref::<Failure>().unwrap().code, Code::Refused);
        }
        let e = write(tmp.path(), tmp.path(), &accounts(), "passwd: files").unwrap_err();
        assert!(format!("{e:#}").contains("greeter"));
    }
}
