//! What a change leaves in the journal, and signals at the door named `rpm-ostree`.

use crate::scenario::Scenario;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// The next entry, as text: lengths are binary, everything else is readable.
fn entry(journal: &UnixDatagram) -> Option<String> {
    let mut buffer = vec![0; 65536];
    let length = journal.recv(&mut buffer).ok()?;
    Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

#[test]
fn each_change_leaves_an_entry() {
    let s = Scenario::signed();
    s.sh("mkdir -p /run/systemd/journal; rm -f /run/systemd/journal/socket");
    let journal = UnixDatagram::bind(s.host.root().join("run/systemd/journal/socket")).unwrap();
    journal.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    s.ok(&["install", "--setopt=test.password=hunter2", "a"]);
    let text = entry(&journal).unwrap();
    for word in ["install --setopt=test.password=*** a", "MESSAGE_ID", "ended with 0", "TRANSIENT_CALLER"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains("hunter2"));
    s.fails(&["install", "no-such-package"], 74);
    let text = entry(&journal).unwrap();
    assert!(text.contains("failed with 74") && text.contains("TRANSIENT_ERROR"), "{text}");
    s.ok(&["install", "--dry-run", "b"]);
    s.ok(&["status"]);
    assert_eq!(entry(&journal), None, "nothing was to be changed");
    s.ok(&["reset"]);
    assert!(entry(&journal).unwrap().contains("rpm-ostree-transient reset"));
    // A journal that does not read keeps nothing from being done.
    for _ in 0..3 {
        s.ok(&["install", "a"]);
        s.ok(&["reset"]);
    }
    drop(journal);
    s.ok(&["install", "a"]);
}

#[test]
fn status_hands_sigterm_to_the_real_one() {
    let s = Scenario::signed();
    s.ok(&["install", "a"]);
    s.sh("mkdir /root/link /root/real && ln -s $(command -v rpm-ostree-transient) /root/link/rpm-ostree");
    s.sh("printf '#!/bin/sh\\ntrap \"exit 7\" TERM\\n: > /root/ready\\nwhile :; do sleep 0.05; done\\n' > /root/real/rpm-ostree");
    s.sh("chmod 755 /root/real/rpm-ostree");
    let text = s.sh("export PATH=/root/link:/root/real:$PATH; rpm-ostree status & pid=$!
        for i in $(seq 300); do test -e /root/ready && break; sleep 0.1; done
        test -e /root/ready && kill -TERM $pid; wait $pid; echo $?");
    assert_eq!(text, "7\n");
}
