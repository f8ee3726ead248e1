//! Users, groups, and the attributes that depend on them.

use crate::Rig;

const ACCOUNT_FILES: &str =
    "cat /etc/passwd /etc/group /etc/shadow /etc/gshadow; ls -l /etc/subuid /etc/subgid 2>&1; :";

/// coreos/rpm-ostree#5333: users that are only in sysusers.d.
#[test]
fn case_33_declared_users() {
    let Some((r, corpus)) = Rig::with_corpus() else { return };
    let before = r.sh(ACCOUNT_FILES);
    r.install(&[r.place(&corpus, "fixture/v6-rpm-file-attrs")]);
    let owner = |name: &str| r.sh(&format!("stat -c '%U:%G %a' /opt/rpm-file-attrs/{name}"));
    assert_eq!(owner("different-owner-and-group"), "jane:bob 655\n");
    assert_eq!(owner("example-confidential-file"), "jane:jane 600\n");
    r.sh("getent passwd jane && getent group bob && setpriv --reuid jane --clear-groups cat /opt/rpm-file-attrs/example-confidential-file");
    assert_eq!(r.sh(ACCOUNT_FILES), before);
}

/// coreos/rpm-ostree#1843, #3435: users that %pre makes. The ids are the same each time, set-group-id programs have the
/// right group, and the host's account files are never another.
#[test]
fn case_34_users_of_scriptlets() {
    let Some((mut r, corpus)) = Rig::with_corpus() else { return };
    let before = r.sh(ACCOUNT_FILES);
    let names = ["distro/dovecot-", "distro/cyrus-imapd-", "distro/libcgroup-tools-", "distro/ngircd-"];
    let mut seen = Vec::new();
    for _ in 0..2 {
        let files = names.map(|n| r.place(&corpus, n)).to_vec();
        r.install(&files);
        assert_eq!(r.sh(ACCOUNT_FILES), before);
        seen.push(
            r.sh("for u in dovecot dovenull cyrus ngircd; do getent passwd $u; id -G $u; done; getent group cgred"),
        );
        assert_eq!(
            r.sh("id -u dovecot; id -u cyrus; id -Gn cyrus | tr ' ' '\\n' | grep saslauth"),
            "97\n76\nsaslauth\n"
        );
        assert_eq!(r.sh("stat -c '%G %a' /usr/bin/cgexec"), "cgred 2755\n");
        assert_eq!(r.sh("stat -Lc '%U:%G %a' /var/lib/imap /etc/ngircd.conf"), "cyrus:mail 750\nroot:ngircd 660\n");
        r.host.reboot().unwrap();
        assert_eq!(r.sh(ACCOUNT_FILES), before);
        r.sh("! getent passwd dovecot && ! getent group cgred");
    }
    assert_eq!(seen[0], seen[1]);
}

/// coreos/rpm-ostree#4765: file capabilities arrive byte by byte, an empty set is not none, and set-user-id bits survive.
#[test]
fn case_35_capabilities() {
    let Some((r, corpus)) = Rig::with_corpus() else { return };
    let names = ["fixture/v6-rpm-file-attrs", "fixture/testsuidpermissionscheck-", "thirdparty/openssh-8"];
    r.install(&names.map(|n| r.place(&corpus, n)));
    let raw = |path: &str| {
        let value = format!("getfattr --absolute-names --only-values -n security.capability {path} | od -An -tx1 -v");
        r.sh(&value).split_whitespace().collect::<String>()
    };
    // struct vfs_cap_data, revision 2: effective bit, then permitted and inheritable, low and high halves.
    let bytes = |permitted: u32| {
        let head = 0x0200_0001_u32.to_le_bytes();
        let low = permitted.to_le_bytes();
        [&head[..], &low, &[0; 12]].concat().iter().map(|b| format!("{b:02x}")).collect::<String>()
    };
    assert_eq!(raw("/opt/rpm-file-attrs/with_caps"), bytes(1 << 19 | 1 << 21));
    assert_eq!(raw("/var/lib/testsuidpermissionscheck/test_permissions_fscaps"), bytes(1 << 13));
    let empty = raw("/opt/rpm-file-attrs/empty_caps");
    assert!(empty.len() == 40 && empty[8..].chars().all(|c| c == '0'), "{empty}");
    r.sh("! getfattr -n security.capability /opt/rpm-file-attrs/normal 2>/dev/null");
    let modes = r.sh("stat -c '%a %U' /var/lib/testsuidpermissionscheck/test_permissions_file_setuid_bit \
                      $(rpm -ql openssh | grep ssh-keysign$)");
    assert!(modes.lines().count() == 2 && modes.lines().all(|l| l.starts_with('4') && l.ends_with(" root")), "{modes}");
    assert_eq!(r.sh("rpm -V --nodeps --noscripts openssh rpm-file-attrs | grep -v -e ' c /' -e ' g /' -e '/opt/rpm-file-attrs$' || :"), "");
}
