//! What package managers do around a transaction, done in the sandbox, so that everything it makes is harvested like the
//! rest: sysusers.d before (librpm does it itself from 4.19 on), tmpfiles.d, the linker cache and the indexes of kernel modules after.

use super::sandbox::upper;
use anyhow::{Context as _, Result};
use model::{Effect, NotApplied};
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Makes the accounts that the packages declare.
pub(super) fn sysusers(lines: &str) -> Result<Option<NotApplied>> {
    if lines.trim().is_empty() {
        return Ok(None);
    }
    let lines: Vec<&str> = lines.lines().map(group_line).collect();
    run(Command::new("systemd-sysusers").arg("-"), Some(&(lines.join("\n") + "\n")), "systemd-sysusers")
}

/// A line for a group without what comes after its id. systemd-sysusers refuses the fields of users there, and with one
/// such line it makes none of the accounts; older versions, for which packages were made, ignored it.
fn group_line(line: &str) -> &str {
    let mut words = line.split_ascii_whitespace();
    let (Some("g"), Some(_), Some(id)) = (words.next(), words.next(), words.next()) else { return line };
    let end = id.as_ptr() as usize - line.as_ptr() as usize + id.len();
    &line[..end]
}

/// Carries out the snippets of the layer's tmpfiles.d that are new.
pub(super) fn tmpfiles() -> Result<Option<NotApplied>> {
    let mut names: Vec<OsString> = Vec::new();
    for dir in [upper("usr").join("lib/tmpfiles.d"), upper("etc").join("tmpfiles.d")] {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        names.extend(entries.map(|e| e.file_name()).filter(|n| Path::new(n).extension().is_some_and(|e| e == "conf")));
    }
    if names.is_empty() {
        return Ok(None);
    }
    names.sort();
    names.dedup();
    run(Command::new("systemd-tmpfiles").arg("--create").args(names), None, "systemd-tmpfiles --create")
}

/// Regenerates the linker cache when a library may have come or gone.
pub(super) fn linker_cache(needed: bool) -> Result<Option<NotApplied>> {
    let has_library = |dir: &Path| {
        let names = fs::read_dir(dir).into_iter().flatten().flatten();
        names.map(|e| e.file_name()).any(|n| n.to_string_lossy().contains(".so"))
    };
    let usr = upper("usr");
    let mut dirs = vec![usr.join("lib"), usr.join("lib64")];
    let triplets = fs::read_dir(usr.join("lib")).into_iter().flatten().flatten().map(|e| e.path());
    dirs.extend(triplets.filter(|p| p.to_string_lossy().contains("-linux-")));
    dirs.extend(linker_directories().iter().filter_map(|d| Some(usr.join(d.strip_prefix("/usr").ok()?))));
    if !needed && !upper("etc").join("ld.so.conf.d").exists() && !dirs.iter().any(|d| has_library(d)) {
        return Ok(None);
    }
    run(&mut Command::new("ldconfig"), None, "ldconfig")
}

/// Directories that ld.so.conf(5) names, the host's and the layer's.
fn linker_directories() -> Vec<PathBuf> {
    let snippets = fs::read_dir("/etc/ld.so.conf.d").into_iter().flatten().flatten().map(|e| e.path());
    let files = snippets.chain([PathBuf::from("/etc/ld.so.conf")]);
    let texts = files.filter_map(|p| fs::read_to_string(p).ok());
    texts
        .flat_map(|t| t.lines().map(|l| PathBuf::from(l.trim())).collect::<Vec<_>>())
        .filter(|p| p.is_absolute())
        .collect()
}

/// Has the indexes of kernel modules tell of the layer's, for every kernel that the layer touches.
pub(super) fn modules() -> Result<Vec<NotApplied>> {
    let mut failed = Vec::new();
    for entry in fs::read_dir(upper("usr").join("lib/modules")).into_iter().flatten().flatten() {
        let version = entry.file_name();
        // Not where the last file of such a kernel has just gone.
        if entry.path().is_dir() && Path::new("/usr/lib/modules").join(&version).is_dir() {
            failed.extend(run(Command::new("depmod").arg(&version), None, "depmod")?);
        }
    }
    Ok(failed)
}

/// Runs a tool of the host. One that is missing or fails is told, and does not stop the transaction: the package's files
/// are of use without it.
fn run(command: &mut Command, input: Option<&str>, name: &str) -> Result<Option<NotApplied>> {
    let failed = |why: String| Ok(Some(NotApplied { package: None, slot: None, what: format!("{name} {why}") }));
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = match command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return failed("is not on this host".into()),
        Err(e) => return Err(e).with_context(|| format!("Starting {name}")),
    };
    if let (Some(mut pipe), Some(text)) = (child.stdin.take(), input) {
        // A tool that does not read to the end says why on its stderr.
        let _ = pipe.write_all(text.as_bytes());
    }
    let out = child.wait_with_output()?;
    if out.status.success() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&out.stderr);
    failed(format!("failed with {}: {}", out.status, text.lines().next_back().unwrap_or("").trim()))
}

/// Directories that came up in the sandbox's `/run`, and a word on what else did.
pub(super) fn run_directories() -> Result<(Vec<Effect>, Vec<NotApplied>)> {
    let (mut found, mut other) = (Vec::new(), Vec::new());
    let mut open = vec![PathBuf::from("/run")];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).with_context(|| format!("Reading {}", dir.display()))? {
            let entry = entry?;
            let (path, meta) = (entry.path(), entry.metadata()?);
            if meta.is_dir() {
                let (mode, uid, gid) = (meta.permissions().mode() & 0o7777, meta.uid(), meta.gid());
                if path.to_str().is_some() {
                    found.push(Effect::RunDirectory { path: path.clone(), mode, uid, gid });
                }
                open.push(path);
            } else {
                other.push(NotApplied { package: None, slot: None, what: format!("created {}", path.display()) });
            }
        }
    }
    found.sort();
    Ok((found, other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_no_more_than_an_id() {
        for (line, want) in [
            ("g bob - \"Bob group\"", "g bob -"),
            ("g bob 99", "g bob 99"),
            ("g bob", "g bob"),
            ("u bob - \"Bob user\"", "u bob - \"Bob user\""),
            ("# g bob - x", "# g bob - x"),
        ] {
            assert_eq!(group_line(line), want);
        }
    }
}
