//! SELinux labels without SELinux: a policy of a few lines, read through libostree. The kernel stores the labels, which is
//! all that is asked of it here.

use crate::outside::{install, picture};
use crate::scenario::Scenario;
use testkit::packages::Package;

const POLICY: &str = "mkdir -p /etc/selinux/mini/contexts/files /etc/selinux/mini/policy
printf 'SELINUX=permissive\\nSELINUXTYPE=mini\\n' > /etc/selinux/config
echo x > /etc/selinux/mini/policy/policy.33
cat > /etc/selinux/mini/contexts/files/file_contexts <<'END'
/.*                        system_u:object_r:default_t:s0
/usr(/.*)?                 system_u:object_r:usr_t:s0
/usr/bin(/.*)?             system_u:object_r:bin_t:s0
/usr/bin/labelled     --   system_u:object_r:labelled_exec_t:s0
/etc(/.*)?                 system_u:object_r:etc_t:s0
/etc/labelled(/.*)?        system_u:object_r:labelled_etc_t:s0
/etc/ld\\.so\\.cache   --   system_u:object_r:ld_so_cache_t:s0
/etc/audit(/.*)?        system_u:object_r:auditd_etc_t:s0
/var(/.*)?                 system_u:object_r:var_t:s0
/var/lib/labelled(/.*)?    system_u:object_r:labelled_var_t:s0
END";

fn label(s: &Scenario, path: &str) -> String {
    let text = s.host.sh(&format!("getfattr --absolute-names --only-values -n security.selinux {path}")).stdout;
    text.trim_end_matches('\0').to_owned()
}

fn package() -> Package {
    Package::new("labelled", "1")
        .program("/usr/bin/labelled", "#!/bin/sh\n")
        .file("/usr/share/labelled/data", "x\n")
        .config("/etc/labelled/one.conf", "one\n")
        .config("/etc/audit/labelled.conf", "one\n")
        .config("/etc/ld.so.conf.d/labelled.conf", "/usr/share/labelled\n")
        .file("/var/lib/labelled/data", "x\n")
}

#[test]
fn files_have_the_label_of_the_place_where_they_are_seen() {
    let s = Scenario::unsigned();
    s.sh(POLICY);
    s.sh("mkdir -p /etc/audit");
    s.sh("setfattr -n security.selinux -v system_u:object_r:of_the_host:s0 /etc /var/lib");
    let first = picture(&s);
    install(&s, &[&package()]);
    for (path, want) in [
        ("/usr/bin/labelled", "labelled_exec_t"),
        ("/usr/share/labelled", "usr_t"),
        ("/usr/share/labelled/data", "usr_t"),
        ("/usr/etc/labelled/one.conf", "labelled_etc_t"),
        ("/etc/labelled/", "labelled_etc_t"),
        ("/etc/labelled/one.conf", "labelled_etc_t"),
        ("/run/rpm-ostree-transient/etc/", "of_the_host"),
        ("/etc/audit/labelled.conf", "auditd_etc_t"),
        ("/var/lib/labelled", "labelled_var_t"),
        ("/var/lib/labelled/data", "labelled_var_t"),
    ] {
        assert_eq!(label(&s, path), format!("system_u:object_r:{want}:s0"), "{path}");
    }
    // The mount point looks like what is seen on it.
    s.sh("umount /etc/audit/labelled.conf");
    assert_eq!(label(&s, "/etc/audit/labelled.conf"), "system_u:object_r:auditd_etc_t:s0");
    // Directories passed through are the base's.
    assert_eq!(label(&s, "/usr") + &label(&s, "/usr/bin") + &label(&s, "/usr/share"), "");
    s.ok(&["reset"]);
    assert_eq!(picture(&s), first);
}

#[test]
fn no_policy_no_labels() {
    let s = Scenario::unsigned();
    install(&s, &[&package()]);
    for path in ["/usr/bin/labelled", "/etc/labelled/one.conf", "/var/lib/labelled/data"] {
        assert_eq!(label(&s, path), "", "{path}");
    }
}

/// Neither the caller's umask nor what directories hand down is seen in the layer.
#[test]
fn directories_keep_the_look_of_the_base() {
    let s = Scenario::unsigned();
    let look = "for d in /usr /usr/bin /usr/share /usr/lib /usr/etc; do stat -c '%n %a %u %g' $d; \
                getfattr --absolute-names -d -m - $d; done";
    let first = s.sh(look);
    // The store inherits from /run, the cache from /var: a setgid directory with a default ACL in both.
    s.sh("chmod g+s /run && chgrp 50 /run && setfattr -n user.x -v y /var/cache
          (umask 077; mkdir -p /run/packages /run/rpm-ostree-transient) && chmod 755 /run/rpm-ostree-transient
          ! command -v setfacl || setfacl -d -m u:65534:rwx /run /run/rpm-ostree-transient");
    package().build(&s.host.root().join("run/packages")).unwrap();
    s.sh("umask 077; rpm-ostree-transient install --disablerepo=* --nogpgcheck /run/packages/labelled-1-1.noarch.rpm");
    assert_eq!(s.sh(look), first);
    assert_eq!(s.sh("stat -c '%a %u %g' /usr/share/labelled /usr/share/labelled/data"), "755 0 0\n644 0 0\n");
    assert_eq!(s.sh("stat -L -c '%a %u %g' /etc/labelled /etc/labelled/one.conf"), "755 0 0\n644 0 0\n");
    assert_eq!(s.sh("getfattr --absolute-names -d -m - /usr/share/labelled /etc/labelled/ /var/lib/labelled"), "");
}
