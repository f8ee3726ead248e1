//! Users and groups that scriptlets made in the sandbox, written into the *layer* so that they appear and go with the
//! generation: lines of `/usr/lib/passwd` and `/usr/lib/group` where nss-altfiles is in use, else JSON user records
//! in `/usr/lib/userdb`, which nss-systemd reads by itself. The host's `/etc/passwd`, `shadow` and `group` are
//! never touched. Record format: <https://systemd.io/USER_RECORD/> and <https://systemd.io/GROUP_RECORD/>.

use crate::harvest::Account;
use crate::names::printable_path;
use crate::tree::{Tree, kind_name};
use anyhow::{Context as _, Result};
use fn_error_context::context;
use model::{Code, Failure};
use rustix::fs::{FileType, Mode};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::io::Write as _;
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
        if matches!(account, Account::User(l) if User::parse(l).is_some_and(|u| u.uid == 0)) {
            let name = name.unwrap_or_default().escape_debug();
            return Err(refused(format!("a scriptlet made the account \"{name}\" with the user id of root")));
        }
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

/// The line with `x` for a password: an empty one would let anybody in, and hashes are not for a file that all can read.
fn without_password(line: &str) -> String {
    let mut fields: Vec<&str> = line.split(':').collect();
    if let Some(password) = fields.get_mut(1) {
        *password = "x";
    }
    fields.join(":")
}

fn refused(message: String) -> anyhow::Error {
    Failure::new(Code::Refused, message).into()
}

fn write_altfiles(layer: &Path, base: &Path, accounts: &[Account]) -> Result<()> {
    let layer = &Tree::open(layer)?;
    for (file, wanted) in [("passwd", true), ("group", false)] {
        let name = CString::new(file)?;
        let new = accounts.iter().filter(|a| matches!(a, Account::User(_)) == wanted).map(text);
        let new: Vec<String> = new.map(without_password).collect();
        if new.is_empty() {
            continue;
        }
        let old = match below(layer, "lib")? {
            Some(lib) if lib.entry(&name)?.is_some() => read(&lib, &name)?,
            _ => std::fs::read_to_string(base.join("lib").join(file)).unwrap_or_default(),
        };
        let names: BTreeSet<&str> = new.iter().filter_map(|l| l.split(':').next()).collect();
        let kept = old.lines().filter(|l| !names.contains(l.split(':').next().unwrap_or("")));
        let mut content: String = kept.flat_map(|l| [l, "\n"]).collect();
        content.extend(new.iter().flat_map(|l| [l, "\n"]));
        put(&make_dir(layer, "lib")?, file, &content)?;
    }
    Ok(())
}

fn write_userdb(layer: &Path, accounts: &[Account]) -> Result<()> {
    let dir = make_dir(&make_dir(&Tree::open(layer)?, "lib")?, "userdb")?;
    let put = |name: String, content: String| put(&dir, &name, &content);
    let link = |name: String, target: String| -> Result<()> {
        let key = CString::new(name.as_str())?;
        dir.remove_all(&key)?;
        rustix::fs::symlinkat(target, &dir, &key).with_context(|| format!("Linking {name}"))
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
                    // nss-systemd takes an empty file for a masked one, though it reads nothing of it.
                    put(format!("{member}:{}.membership", g.name), "{}\n".into())?;
                }
            }
        }
    }
    Ok(())
}

/// The directory of that name, when there is one. Scriptlets chose what lies here: a symlink is not followed.
fn below(dir: &Tree, name: &str) -> Result<Option<Tree>> {
    let key = CString::new(name)?;
    match dir.entry(&key)? {
        None => Ok(None),
        Some(entry) if entry.is_dir() => dir.enter(&key).map(Some),
        Some(entry) => Err(in_the_way(dir, &key, entry.kind())),
    }
}

fn in_the_way(dir: &Tree, name: &CString, kind: FileType) -> anyhow::Error {
    let what = match kind {
        FileType::Symlink => "symlink",
        FileType::RegularFile => "file",
        FileType::Directory => "directory",
        other => kind_name(other),
    };
    let path = printable_path(&dir.join(name));
    refused(format!("/usr/{path} of the layer is a {what}; accounts that scriptlets make cannot be recorded there"))
}

/// The directory of that name, made when it is not there.
fn make_dir(dir: &Tree, name: &str) -> Result<Tree> {
    if let Some(there) = below(dir, name)? {
        return Ok(there);
    }
    let made = dir.make_dir(&CString::new(name)?)?;
    rustix::fs::fchmod(&made, Mode::from_raw_mode(0o755)).with_context(|| format!("Making {name}"))?;
    Ok(made)
}

fn read(dir: &Tree, name: &CString) -> Result<String> {
    match dir.entry(name)? {
        Some(entry) if entry.kind() != FileType::RegularFile => Err(in_the_way(dir, name, entry.kind())),
        _ => std::io::read_to_string(dir.file(name)?).with_context(|| format!("Reading {name:?} of the layer")),
    }
}

/// A new file in the place of what is there, which may be a hard link into the previous generation.
fn put(dir: &Tree, name: &str, content: &str) -> Result<()> {
    let key = CString::new(name)?;
    dir.remove_all(&key)?;
    let mut file = dir.create(&key)?;
    let mut write = || -> Result<()> {
        file.write_all(content.as_bytes())?;
        Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644))?)
    };
    write().with_context(|| format!("Writing {name} of the layer"))
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
        assert!(dir.join("996.group").exists());
        assert!(std::fs::metadata(dir.join("bob:greeter.membership")).unwrap().len() > 0);
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
    fn symlinks_of_scriptlets_lead_nowhere() {
        use std::os::unix::fs::symlink;
        for (link, nsswitch) in [("userdb", "passwd: systemd"), ("passwd", "passwd: altfiles")] {
            let (tmp, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let secret = elsewhere.path().join("passwd");
            std::fs::write(&secret, "secret:x:1:1::/:/x\n").unwrap();
            std::fs::create_dir(tmp.path().join("lib")).unwrap();
            let target = if link == "userdb" { elsewhere.path() } else { &secret };
            symlink(target, tmp.path().join("lib").join(link)).unwrap();
            let e = write(tmp.path(), tmp.path(), &accounts(), nsswitch).unwrap_err();
            assert_eq!(e.downcast_ref::<Failure>().unwrap().code, Code::Refused);
            assert!(format!("{e:#}").contains(&format!("/usr/lib/{link} of the layer is a symlink")), "{e:#}");
            assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 1);
            // The directory itself as well.
            std::fs::remove_dir_all(tmp.path().join("lib")).unwrap();
            symlink(elsewhere.path(), tmp.path().join("lib")).unwrap();
            assert!(write(tmp.path(), tmp.path(), &accounts(), nsswitch).is_err());
            assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn nobody_gets_in_without_a_password() {
        let tmp = tempfile::tempdir().unwrap();
        let forged = [Account::User("u::990:990::/:/bin/sh".into()), Account::Group("g:$6$hash:990:".into())];
        write(tmp.path(), tmp.path(), &forged, "passwd: altfiles").unwrap();
        let read = |file: &str| std::fs::read_to_string(tmp.path().join("lib").join(file)).unwrap();
        assert_eq!((read("passwd").as_str(), read("group").as_str()), ("u:x:990:990::/:/bin/sh\n", "g:x:990:\n"));
    }

    #[test]
    fn refuses_forged_lines_and_hosts_that_cannot_resolve() {
        let tmp = tempfile::tempdir().unwrap();
        for line in ["../../etc/x:x:1:1::/:/", "a:b", ":x:1:1::/:/", "toor:x:0:0::/:/bin/sh", "toor:x:00:0::/:/bin/sh"]
        {
            let e = write(tmp.path(), tmp.path(), &[Account::User(line.into())], "passwd: systemd").unwrap_err();
            assert_eq!(e.downcast_ref::<Failure>().unwrap().code, Code::Refused);
        }
        let e = write(tmp.path(), tmp.path(), &accounts(), "passwd: files").unwrap_err();
        assert!(format!("{e:#}").contains("greeter"));
    }
}
