//! The real reader of each place in `/etc` takes what a layer puts there; docs/outside-usr.md has the table. A reader
//! that cannot be installed on this system is named as skipped.

use crate::outside::{install, paths, picture};
use crate::scenario::Scenario;
use testkit::packages::{Content, Package};

/// Runs a check when the host has the reader.
#[track_caller]
fn check(s: &Scenario, reader: &str, script: &str) {
    if s.host.sh(&format!("command -v {reader}")).status == 0 {
        s.sh(script);
    } else {
        println!("reader {reader}: skipped, because this host does not have it");
    }
}

/// One file for each reader, in directories that the host has already, which is where each is a link of its own.
fn package() -> Package {
    const BUS: &str = "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN\" \
                       \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n<busconfig>\
                       <policy user=\"nobody\"><allow own=\"org.readers\"/></policy></busconfig>\n";
    [
        ("/etc/profile.d/readers.sh", "export FROM_PROFILE=yes\n"),
        ("/etc/cron.d/readers", "@reboot root echo ran > /run/from-cron\n"),
        ("/etc/logrotate.d/readers", "/run/readers/log {\n  rotate 1\n}\n"),
        ("/etc/pam.d/readers", "auth required pam_permit.so\naccount required pam_permit.so\n"),
        ("/etc/dbus-1/system.d/org.readers.conf", BUS),
        (
            "/etc/systemd/system/readers.service",
            "[Service]\nExecStart=/usr/bin/true\n[Install]\nWantedBy=basic.target\n",
        ),
        ("/etc/systemd/system/cron.service.d/readers.conf", "[Service]\nEnvironment=READERS=yes\n"),
        ("/etc/ld.so.conf.d/readers.conf", "/usr/lib/readers\n"),
        ("/etc/sysctl.d/readers.conf", "kernel.nosuch = 1\n"),
        ("/etc/modprobe.d/readers.conf", "install readers /bin/true\n"),
        ("/etc/udev/rules.d/99-readers.rules", "SUBSYSTEM==\"none\", ENV{READERS}=\"1\"\n"),
        ("/etc/tmpfiles.d/readers.conf", "d /run/from-tmpfiles 0711 root root -\n"),
        ("/etc/environment.d/readers.conf", "READERS=yes\n"),
        ("/etc/rpm/macros.readers", "%readers yes\n"),
        ("/etc/yum.repos.d/readers.repo", "[readers]\nname=readers\nbaseurl=file:///nonexistent\n"),
        ("/etc/cni/net.d/10-readers.conf", "{}\n"),
        ("/etc/audit/readers.conf", "x = y\n"),
        ("/etc/xdg/autostart/readers.desktop", "[Desktop Entry]\nType=Application\nName=readers\nExec=true\n"),
    ]
    .into_iter()
    .fold(Package::new("readers", "1"), |p, (path, text)| p.config(path, text))
    .program("/etc/cron.daily/readers", "#!/bin/sh\necho daily\n")
    .any_file(
        "/etc/sudoers.d/readers",
        Content::Text("nobody ALL=(root) NOPASSWD: /usr/bin/id\n".into()),
        0o440,
        "%config(noreplace)",
    )
    .file("/usr/share/readers", "x\n")
}

#[test]
fn every_reader_takes_what_it_finds() {
    let mut s = Scenario::unsigned();
    s.sh("mkdir -p /etc/{profile.d,cron.d,cron.daily,logrotate.d,pam.d,dbus-1/system.d,ld.so.conf.d,sysctl.d,modprobe.d} \
          /etc/{udev/rules.d,tmpfiles.d,environment.d,rpm,sudoers.d,cni/net.d,audit,xdg/autostart}");
    // What maintainer scripts would have made.
    s.sh("test -e /etc/profile || cp /usr/share/base-files/profile /etc/profile
          for f in auth account session session-noninteractive password; do \
            echo \"${f%%-*} required pam_permit.so\" > /etc/pam.d/common-$f; done
          getent passwd messagebus || echo 'messagebus:x:990:990::/:/usr/sbin/nologin' >> /etc/passwd
          getent group crontab || echo 'crontab:x:991:' >> /etc/group
          mkdir -p /var/spool/cron/crontabs
          getent group messagebus || echo 'messagebus:x:990:' >> /etc/group");
    let first = picture(&s);
    install(&s, &[&package()]);
    let mounts = paths(&s, "mount");
    assert_eq!(
        mounts,
        ["/etc/audit/readers.conf", "/etc/cni/net.d/10-readers.conf", "/etc/systemd/system/readers.service"]
    );
    readers(&s);

    // A pod sees the directory, and nothing of /run.
    s.sh("unshare -m bash -c 'mkdir /tmp/pod; mount --rbind /etc/cni/net.d /tmp/pod; mount -t tmpfs x /run; cat /tmp/pod/*'");
    s.sh("test -f /etc/audit/readers.conf && test ! -L /etc/audit/readers.conf");

    // A new version takes the mounts' place, and what is beneath them looks like it.
    let second = Package::new("readers", "2")
        .config("/etc/cni/net.d/10-readers.conf", "{\"two\": 2}\n")
        .config("/etc/cron.d/readers", "# nothing\n");
    let times = s.sh("stat -c %z /etc/cron.d/readers");
    install(&s, &[&second.any_file("/etc/audit/readers.conf", Content::Text("y\n".into()), 0o640, "%config")]);
    s.sh("grep -q two /etc/cni/net.d/10-readers.conf && test $(stat -c %a /etc/audit/readers.conf) = 640");
    assert_ne!(s.sh("stat -c %z /etc/cron.d/readers"), times, "a watcher of the directory sees no change");
    s.ok(&["rollback"]);
    s.sh("grep -q '^{}' /etc/cni/net.d/10-readers.conf && test $(stat -c %a /etc/audit/readers.conf) = 644");
    s.sh("unshare -m bash -c 'umount /etc/audit/readers.conf; test ! -s /etc/audit/readers.conf'");
    s.ok(&["reset"]);
    assert_eq!(picture(&s), first, "after reset");
    install(&s, &[&package()]);
    s.host.reboot().unwrap();
    assert_eq!(picture(&s), first, "after a reboot");
}

fn readers(s: &Scenario) {
    assert_eq!(s.sh("bash -lc 'echo $FROM_PROFILE'"), "yes\n");
    assert_eq!(s.sh("rpm -E %readers"), "yes\n");
    s.sh("ldconfig -v -N -X 2>&1 | grep readers");
    check(s, "visudo", "visudo -c | grep sudoers.d/readers");
    check(s, "sudo", "setpriv --reuid=65534 --regid=65534 --clear-groups sudo -n /usr/bin/id | grep uid=0");
    check(
        s,
        "cron",
        "cron; for i in $(seq 50); do [ -e /run/from-cron ] && break; sleep 0.1; done; pkill -x cron; cat /run/from-cron",
    );
    check(s, "run-parts", "run-parts /etc/cron.daily --regex readers | grep daily");
    check(
        s,
        "logrotate",
        "mkdir -p /run/readers; echo x > /run/readers/log; logrotate -f -s /run/readers/state /etc/logrotate.d/readers; ls /run/readers/log.1",
    );
    check(s, "pamtester", "pamtester readers root authenticate acct_mgmt");
    let bus = "mkdir -p /run/dbus; dbus-daemon --system --fork --print-pid > /run/bus-pid
        call() { setpriv --reuid=65534 --regid=65534 --clear-groups busctl --address=unix:path=/run/dbus/system_bus_socket \
            call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus RequestName su $1 0; }
        call org.readers && ! call org.others; rc=$?; kill $(cat /run/bus-pid); exit $rc";
    check(s, "dbus-daemon", bus);
    s.sh("systemd-analyze verify readers.service");
    s.sh("test $(systemctl --root=/ is-enabled readers.service) = disabled");
    s.sh("systemctl --root=/ disable readers.service && test -s /etc/systemd/system/readers.service");
    s.sh("systemd-analyze cat-config systemd/system/cron.service | grep READERS=yes");
    s.sh("systemd-analyze cat-config sysctl.d | grep kernel.nosuch");
    s.sh("systemd-tmpfiles --create readers.conf && test $(stat -c %a /run/from-tmpfiles) = 711 && rmdir /run/from-tmpfiles");
    s.sh("/usr/lib/systemd/user-environment-generators/30-systemd-environment-d-generator | grep READERS=yes");
    check(s, "modprobe", "modprobe -c | grep 'install readers'");
    check(s, "udevadm", "udevadm test /sys/class/net/lo 2>&1 | grep 99-readers.rules");
    // Our own, of repositories.
    let text = s.run(&["install", "nosuchpackage"]).stderr;
    assert!(text.contains("readers"), "{text}");
    s.sh("mkdir -p /run/gen && /usr/lib/systemd/user-generators/systemd-xdg-autostart-generator /run/gen /run/gen /run/gen; \
          grep -q readers /run/gen/*readers*");
}
