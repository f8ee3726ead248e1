//! What a transient layer must not replace, because the running system cannot survive it or because it would not take
//! effect before the reboot that discards it. By path as well as by name: a renamed package is no way around.
//! `--force-unsafe=NAME` is.

/// Why a package of this name is denied.
pub fn by_name(name: &str) -> Option<&'static str> {
    let is = |names: &[&str]| names.contains(&name);
    let begins = |prefixes: &[&str]| prefixes.iter().any(|p| name.starts_with(p));
    Some(match name {
        _ if is(&["kernel", "kernel-core", "kernel-rt", "kernel-default"])
            || (name.starts_with("kernel-") && (name.ends_with("-core") || name.starts_with("kernel-uki"))) =>
        {
            "a kernel"
        }
        _ if is(&["grub2", "shim", "bootupd", "systemd-boot", "systemd-boot-unsigned"])
            || begins(&["grub2-efi", "grub2-pc", "grub2-tools", "grub2-common", "shim-"]) =>
        {
            "a bootloader"
        }
        _ if is(&["glibc", "glibc-common"]) => "the C library",
        _ if is(&["systemd", "systemd-libs", "systemd-shared"]) => "systemd",
        _ if name == "selinux-policy" || begins(&["selinux-policy-"]) && name != "selinux-policy-devel" => {
            "the SELinux policy"
        }
        _ if is(&["pam", "pam-libs"]) => "PAM",
        _ if is(&["ostree", "ostree-libs"]) => "ostree",
        _ if is(&["rpm", "rpm-libs"]) => "rpm",
        _ if is(&["rpm-ostree", "rpm-ostree-libs"]) => "rpm-ostree",
        "rpm-ostree-transient" => "this tool",
        _ => return None,
    })
}

/// Why a file at this path is denied. `path` is relative to `/usr`, symlinks of the base resolved.
pub fn by_path(path: &[u8]) -> Option<&'static str> {
    let parts: Vec<&[u8]> = path.split(|b| *b == b'/').collect();
    let (name, dirs) = parts.split_last()?;
    let named = |prefixes: &[&str]| prefixes.iter().any(|p| name.starts_with(p.as_bytes()));
    // Where the dynamic linker looks by itself; a private copy elsewhere hurts nobody.
    let in_lib = match dirs {
        [d] => matches!(*d, b"lib" | b"lib64" | b"lib32" | b"libx32"),
        [d, triplet] => *d == b"lib" && triplet.windows(7).any(|w| w == b"-linux-"),
        _ => false,
    };
    let in_bin = matches!(dirs, [d] if matches!(*d, b"bin" | b"sbin"));
    Some(match dirs {
        [b"lib", b"modules", _] if named(&["vmlinuz"]) => "a kernel",
        [b"lib", b"modules", _] if named(&["initramfs", "initrd"]) => "an initramfs",
        [b"lib", b"ostree-boot", ..] => "a kernel",
        [b"lib", b"efi" | b"bootupd", ..] => "a bootloader",
        _ if in_bin && named(&["grub-install", "grub2-install", "bootupctl"]) => "a bootloader",
        _ if in_lib && (*name == b"libc.so.6" || named(&["ld-linux", "ld64.so"])) => "the C library",
        [b"lib", b"systemd"] if *name == b"systemd" => "systemd",
        _ if in_lib && named(&["libsystemd.so."]) => "systemd",
        [b"share", b"selinux", b"targeted" | b"mls" | b"minimum" | b"default", ..] => "the SELinux policy",
        _ if in_lib && named(&["libpam.so"]) => "PAM",
        _ if in_bin && *name == b"ostree" || in_lib && named(&["libostree-1.so"]) => "ostree",
        [b"lib", b"ostree", ..] => "ostree",
        _ if in_bin && *name == b"rpm" || in_lib && named(&["librpm.so", "librpmio.so"]) => "rpm",
        _ if in_bin && *name == b"rpm-ostree" || in_lib && named(&["librpmostree-1.so"]) => "rpm-ostree",
        _ if in_bin && *name == b"rpm-ostree-transient" => "this tool",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_are_denied_and_neighbours_that_are_not() {
        for (path, want) in [
            ("lib/modules/6.12.0/vmlinuz", Some("a kernel")),
            ("lib/modules/6.12.0/kernel/drivers/x.ko", None),
            ("lib/modules/6.12.0/initramfs.img", Some("an initramfs")),
            ("lib64/libc.so.6", Some("the C library")),
            ("lib/x86_64-linux-gnu/libc.so.6", Some("the C library")),
            ("lib64/ld-linux-x86-64.so.2", Some("the C library")),
            ("x86_64-linux-gnu/sys-root/lib/libc.so.6", None),
            ("lib64/libcap.so.2", None),
            ("lib/systemd/systemd", Some("systemd")),
            ("lib/systemd/system/x.service", None),
            ("lib64/libpam.so.0.85.1", Some("PAM")),
            ("lib64/security/pam_x.so", None),
            ("bin/rpm", Some("rpm")),
            ("bin/rpmsign", None),
            ("bin/rpm-ostree", Some("rpm-ostree")),
            ("bin/rpm-ostree-transient", Some("this tool")),
            ("lib/ostree/ostree-prepare-root", Some("ostree")),
            ("share/selinux/packages/container.pp.bz2", None),
            ("share/selinux/targeted/base.lst", Some("the SELinux policy")),
            ("sbin/grub2-install", Some("a bootloader")),
        ] {
            assert_eq!(by_path(path.as_bytes()), want, "{path}");
        }
    }

    #[test]
    fn names_that_are_denied_and_neighbours_that_are_not() {
        for denied in ["kernel-core", "kernel-rt-core", "shim-x64", "grub2-efi-x64", "glibc", "systemd", "pam", "rpm"] {
            assert!(by_name(denied).is_some(), "{denied}");
        }
        for fine in ["kernel-modules-extra", "kernel-headers", "systemd-container", "glibc-langpack-de", "rpm-build"] {
            assert_eq!(by_name(fine), None, "{fine}");
        }
    }
}
