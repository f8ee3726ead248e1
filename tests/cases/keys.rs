//! Keys in the rpmdb of a test host, as they are on a host whose base was composed with them.

use anyhow::{Context as _, Result, ensure};
use std::path::Path;
use std::process::Command;
use testkit::host::TestHost;
use testkit::tool;

/// Has local files checked.
pub fn demand_signatures(host: &TestHost) -> Result<()> {
    let conf = host.root().join("etc/dnf/dnf.conf");
    let text = std::fs::read_to_string(&conf).unwrap_or_else(|_| "[main]\n".into());
    ensure!(text.contains("[main]"), "{text}");
    std::fs::write(&conf, text.replace("[main]", "[main]\nlocalpkg_gpgcheck=1")).context("Writing dnf.conf")
}

/// Imports these keys, or all of the directory, into the rpmdb of the base.
pub fn import(host: &TestHost, keys: &Path, names: &[&str]) -> Result<()> {
    let deployments = host.sysroot().join("ostree/deploy/testos/deploy");
    let mut dirs = std::fs::read_dir(&deployments)?.filter_map(|e| e.ok().map(|e| e.path())).filter(|p| p.is_dir());
    let database = dirs.next().context("no deployment")?.join("usr/share/rpm");
    let work = tempfile::tempdir()?;
    // The files of a deployment are shared with its repository: never written, only replaced.
    tool(Command::new("cp").arg("-a").arg(&database).arg(work.path()))?;
    let copy = work.path().join("rpm");
    let mut imported = 0;
    for entry in std::fs::read_dir(keys)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !names.is_empty() && !names.contains(&name.as_str()) {
            continue;
        }
        // Several are there to be refused: revoked, damaged, of unknown algorithms.
        let status = Command::new("rpm").arg("--dbpath").arg(&copy).arg("--import").arg(&path).output()?.status;
        imported += usize::from(status.success());
    }
    ensure!(imported >= names.len().max(1), "{imported} keys could be imported");
    for entry in std::fs::read_dir(&copy)? {
        let from = entry?.path();
        let to = database.join(from.file_name().context("a file without a name")?);
        tool(Command::new("cp").args(["-a", "--remove-destination"]).arg(&from).arg(&to))?;
    }
    Ok(())
}
