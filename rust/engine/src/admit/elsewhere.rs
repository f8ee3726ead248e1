//! What packages ship for parts of the system that a layer does not reach: it is told, as the files alone do nothing.

use crate::names::printable_path;
use model::NotApplied;
use std::path::Path;

/// Directory, ending of names, and what such a file is for.
const KINDS: [(&str, &[&str], &str); 8] = [
    ("usr/lib/sysctl.d", &["conf"], "kernel settings"),
    ("etc/sysctl.d", &["conf"], "kernel settings"),
    ("usr/lib/modules-load.d", &["conf"], "kernel modules to load"),
    ("etc/modules-load.d", &["conf"], "kernel modules to load"),
    ("usr/lib/binfmt.d", &["conf"], "binary formats"),
    ("etc/binfmt.d", &["conf"], "binary formats"),
    ("usr/share/selinux", &["pp", "cil", "bz2"], "SELinux policy"),
    ("usr/lib/bootc/kargs.d", &["toml"], "kernel arguments"),
];

/// What a file would have done, when it is such a one. `place` is relative to `/`.
pub(super) fn told(place: &Path, package: &str) -> Option<NotApplied> {
    let ending = place.extension()?;
    let (.., what) =
        KINDS.iter().find(|(dir, endings, _)| place.starts_with(dir) && endings.iter().any(|e| ending == *e))?;
    let what = format!("{what}: /{}", printable_path(place));
    Some(NotApplied { package: Some(package.to_owned()), slot: None, what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_do_nothing_by_themselves() {
        for (path, what) in [
            ("usr/lib/sysctl.d/50-x.conf", Some("kernel settings: /usr/lib/sysctl.d/50-x.conf")),
            ("usr/lib/sysctl.d/README", None),
            ("etc/modules-load.d/x.conf", Some("kernel modules to load: /etc/modules-load.d/x.conf")),
            (
                "usr/share/selinux/packages/targeted/x.pp.bz2",
                Some("SELinux policy: /usr/share/selinux/packages/targeted/x.pp.bz2"),
            ),
            ("usr/share/selinux/devel/include/x.if", None),
            ("usr/lib/sysctl.dd/x.conf", None),
        ] {
            assert_eq!(told(Path::new(path), "p").map(|n| n.what).as_deref(), what, "{path}");
        }
    }
}
