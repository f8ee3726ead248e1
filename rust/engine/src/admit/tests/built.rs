//! Packages as rpmbuild makes them: every payload compressor, hard links, old file lists.

use super::*;
use std::process::Command;

/// Builds one package whose `%install` is `install`; `None`, with a word on why, where rpmbuild is missing.
fn rpmbuild(top: &Path, install: &str, files: &str, defines: &[&str]) -> Option<PathBuf> {
    if Command::new("rpmbuild").arg("--version").output().is_err() {
        writeln!(std::io::stderr(), "skipped, because rpmbuild is not here").unwrap();
        return None;
    }
    let spec = top.join("built.spec");
    let text = format!(
        "Name: built\nVersion: 1\nRelease: 1\nSummary: s\nLicense: MIT\nBuildArch: noarch\n%description\nd\n\
         %install\nmkdir -p %{{buildroot}}/usr/share/built; cd %{{buildroot}}/usr/share/built\n{install}\n%files\n{files}\n"
    );
    std::fs::write(&spec, text).unwrap();
    let mut command = Command::new("rpmbuild");
    command.arg("-bb").arg("--define").arg(format!("_topdir {}", top.display()));
    for define in defines {
        command.arg("--define").arg(define);
    }
    let output = command.arg(&spec).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(top.join("RPMS/noarch/built-1-1.noarch.rpm"))
}

#[test]
fn every_compressor_passes_whole_and_not_cut() {
    for io in ["w9.gzdio", "w9.bzdio", "w6.xzdio", "w6.lzdio", "w3.zstdio", "w.ufdio"] {
        let tmp = tempfile::tempdir().unwrap();
        let install = "seq 20000 > a; ln a b; ln -s a c; mkdir d; seq 9 > d/e";
        let define = format!("_binary_payload {io}");
        let Some(path) = rpmbuild(tmp.path(), install, "/usr/share/built", &[&define]) else { return };
        try_one(&path).unwrap_or_else(|e| panic!("{io}: {e}"));
        let whole = std::fs::read(&path).unwrap();
        for (what, bytes) in
            [("cut", whole[..whole.len() - 40].to_vec()), ("more", [&whole[..], b"#!/bin/sh\n"].concat())]
        {
            std::fs::write(&path, bytes).unwrap();
            let failure = try_one(&path).expect_err(io);
            assert!(failure.message.contains("payload"), "{io} {what}: {failure}");
        }
    }
}

#[test]
fn special_files_of_rpmbuild_are_refused() {
    let tmp = tempfile::tempdir().unwrap();
    let Some(path) = rpmbuild(tmp.path(), "mkfifo pipe", "/usr/share/built", &[]) else { return };
    assert!(try_one(&path).unwrap_err().message.contains("/usr/share/built/pipe is a named pipe"));
    let Some(path) = rpmbuild(tmp.path(), "", "%dev(c,0,0) /usr/share/built/gone", &[]) else { return };
    assert!(try_one(&path).unwrap_err().message.contains("/usr/share/built/gone is a device node"));
}
