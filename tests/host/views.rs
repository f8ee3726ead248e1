//! Processes with a mount namespace of their own, made before a change: who does not see it is in `status`.

use crate::scenario::Scenario;
use serde_json::Value;

/// The views that `status` tells of: program and generation.
fn views(s: &Scenario) -> Vec<(String, u64)> {
    let document: Value = serde_json::from_str(&s.ok(&["status", "--json"])).unwrap();
    let views = document["status"]["staleViews"].as_array().cloned().unwrap_or_default();
    views.iter().map(|v| (v["command"].as_str().unwrap().to_owned(), v["generation"].as_u64().unwrap())).collect()
}

/// Starts a process that sleeps in its own mount namespace with this propagation; its id in the host. The copy of `sleep`
/// gives it a name to be told by.
fn start(s: &Scenario, name: &str, propagation: &str) -> String {
    let script = format!(
        "cp /usr/bin/sleep /tmp/{name}; unshare --mount --propagation {propagation} /tmp/{name} 1000 >/dev/null 2>&1 & \
         until [ \"$(cat /proc/$!/comm)\" = {name} ]; do sleep 0.05; done; echo $!"
    );
    s.sh(&script).trim().to_owned()
}

#[test]
fn those_with_another_view_are_told() {
    let s = Scenario::unsigned();
    let private = start(&s, "private", "private");
    start(&s, "slave", "slave");
    assert_eq!(views(&s), []);

    s.ok(&["install", "--nogpgcheck", "a"]);
    assert_eq!(views(&s), [("private".to_owned(), 0)]);
    let text = s.ok(&["status"]);
    assert!(text.contains(&format!("private, process {private}, sees the base until it is started anew")), "{text}");

    // Of two that stayed behind at different times, each is told what it sees.
    start(&s, "later", "private");
    assert_eq!(views(&s), [("private".to_owned(), 0)]);
    s.ok(&["install", "--nogpgcheck", "b"]);
    assert_eq!(views(&s), [("private".to_owned(), 0), ("later".to_owned(), 1)]);

    // After the reset the first one is right again, by itself.
    s.ok(&["reset"]);
    assert_eq!(views(&s), [("later".to_owned(), 1)]);
    let text = s.ok(&["status"]);
    assert!(text.contains("No packages are layered") && text.contains("sees generation 1"), "{text}");
}

/// A process with another root is no part of the host: it would not see the layer after a restart either.
#[test]
fn containers_are_not_told() {
    let s = Scenario::unsigned();
    s.sh(
        "unshare --mount --propagation private bash -c 'mount -t tmpfs root /mnt; for d in usr proc; do mkdir /mnt/$d; mount --rbind /$d /mnt/$d; done
             for d in bin lib lib64; do ln -s usr/$d /mnt/$d; done; cp /usr/bin/sleep /mnt/contained; cd /mnt; mkdir old; pivot_root . old; umount -l /old
             exec /contained 1000' > /tmp/out 2>&1 &
         for i in $(seq 100); do [ \"$(cat /proc/$!/comm)\" = contained ] && exit; sleep 0.05; done; cat /tmp/out; exit 1",
    );
    s.ok(&["install", "--nogpgcheck", "a"]);
    assert_eq!(views(&s), []);
}
