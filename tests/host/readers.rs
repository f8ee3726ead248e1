//! Promise 2 under load: readers never miss a file that is in both the old and the new state.

use crate::scenario::Scenario;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Changes made while the readers run.
const CHANGES: usize = 200;

/// Acceptance 2. The readers open files through `/proc/PID/root`: one as PID 1 of the host, one as a process in a
/// mount namespace that is a slave of the host's.
#[test]
fn readers_never_miss_a_file() {
    let s = Scenario::signed();
    s.ok(&["install", "a"]);
    s.ok(&["install", "--download-only", "b"]);
    let slave: u32 = s
        .sh("unshare --mount --propagation slave sleep 1000 >/dev/null 2>&1 & echo $!; sleep 0.3")
        .trim()
        .parse()
        .unwrap();
    let roots = [s.host.root(), s.host.root_of(slave).unwrap()];
    let (stop, opens) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let readers: Vec<_> = roots
        .into_iter()
        .map(|root| {
            let (stop, opens) = (stop.clone(), opens.clone());
            let want = [root.join("usr/share/a"), root.join("usr/bin/bash")].map(|p| (std::fs::read(&p).unwrap(), p));
            std::thread::spawn(move || {
                let mut bad = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    for (content, path) in &want {
                        match std::fs::read(path) {
                            Ok(now) if now == *content => {}
                            Ok(_) => bad.push(format!("{}: wrong content", path.display())),
                            Err(e) => bad.push(format!("{}: {e}", path.display())),
                        }
                        opens.fetch_add(1, Ordering::Relaxed);
                    }
                }
                bad
            })
        })
        .collect();
    for i in 0..CHANGES {
        match i % 4 {
            0 => s.ok(&["install", "-C", "b"]),
            1 => s.ok(&["uninstall", "-C", "b"]),
            _ => s.ok(&["rollback"]),
        };
        s.sh("! touch /usr/x 2>/dev/null");
    }
    stop.store(true, Ordering::Relaxed);
    let bad: Vec<String> = readers.into_iter().flat_map(|r| r.join().unwrap()).collect();
    let opens = opens.load(Ordering::Relaxed);
    println!("{CHANGES} changes, {opens} opens, {} misses", bad.len());
    assert!(bad.is_empty(), "{bad:?}");
    assert!(opens > 1000, "the readers hardly ran: {opens}");
}
