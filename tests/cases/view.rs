//! What the host looks like, as text that differs when anything was written: times of change and inode numbers tell of
//! any write, without reading all content again for each of many files.

use anyhow::{Result, ensure};
use std::collections::{BTreeMap, HashSet};
use testkit::host::TestHost;

/// Fields that [`View::lost`] compares: kind, mode, owner, size and target of a link; not inode and time of change.
const FIELDS: [usize; 6] = [1, 3, 4, 5, 6, 8];

/// See the module.
#[derive(Debug, PartialEq, Eq)]
pub struct View {
    /// `/usr`.
    pub usr: String,
    /// `/etc` and `/var`, without the download cache.
    pub outside: String,
    /// Names in `/run`, `/tmp` and `/boot` that are not ours.
    pub volatile: String,
    /// The mount table.
    pub mounts: String,
}

impl View {
    /// Looks; `place` is where the files under test lie inside.
    pub fn of(host: &TestHost, place: &str) -> Result<View> {
        let script = |text: String| {
            let output = host.sh(&text);
            ensure!(output.status == 0, "{text}: {output:?}");
            Ok(output.stdout)
        };
        // Entries come and go in directories of /etc and /var, which changes their times and sizes.
        let list = |what: &str, directories: &str| {
            script(format!(
                "find {what} \\( -type d -printf '%p\\t%y\\t%i\\t%m\\t%U\\t%G\\t{directories}\\0' -o -printf \
                 '%p\\t%y\\t%i\\t%m\\t%U\\t%G\\t%s\\t%C@\\t%l\\0' \\) | LC_ALL=C sort -z | tr '\\n\\0' '?\\n'"
            ))
        };
        Ok(View {
            usr: list("/usr -xdev", "%s\\t%C@\\t")?,
            // The download cache is the one thing that is kept.
            outside: list("/etc /var -path /var/cache/rpm-ostree-transient -prune -o", "")?,
            volatile: script(format!(
                "find /run /tmp /boot -path /run/rpm-ostree-transient -prune -o -path /run/ostree -prune -o \
                 -path {place} -prune -o -printf '%y %p\\n' | LC_ALL=C sort"
            ))?,
            mounts: script("cut -d' ' -f3- /proc/self/mountinfo".into())?,
        })
    }

    /// What of this, which is the base, is gone or another in `layered`.
    pub fn lost(&self, layered: &View) -> Vec<String> {
        let index = |text: &str| -> BTreeMap<String, Vec<String>> {
            let fields = text.lines().map(|l| l.split('\t').map(str::to_owned).collect::<Vec<_>>());
            fields.map(|f| (f[0].clone(), FIELDS.iter().filter_map(|n| f.get(*n).cloned()).collect())).collect()
        };
        let now = index(&layered.usr);
        let mut lost = Vec::new();
        for (path, mut old) in index(&self.usr) {
            let Some(mut new) = now.get(&path).cloned() else {
                lost.push(format!("{path} is gone"));
                continue;
            };
            if old[0] == "d" {
                // The size of a directory is its file system's matter.
                (old[4], new[4]) = (String::new(), String::new());
            }
            if old != new && !path.starts_with("/usr/share/rpm/") {
                lost.push(format!("{path} was {} and is {}", old.join(" "), new.join(" ")));
            }
        }
        lost
    }

    /// What differs, in a line for each part.
    pub fn compare(&self, when: &str, new: &View, problems: &mut Vec<String>) {
        for (what, old, new) in [
            ("/usr", &self.usr, &new.usr),
            ("/etc or /var", &self.outside, &new.outside),
            ("/run, /tmp or /boot", &self.volatile, &new.volatile),
            ("mounts", &self.mounts, &new.mounts),
        ] {
            if old != new {
                problems.push(format!("{what} {when}: {}", difference(old, new)));
            }
        }
    }
}

/// The lines of a listing by their paths.
pub fn by_path(listing: &str) -> BTreeMap<&str, &str> {
    listing.lines().map(|l| (l.split('\t').next().unwrap_or(l), l)).collect()
}

/// The first lines that only one side has.
pub fn difference(old: &str, new: &str) -> String {
    let only = |a: &str, b: &str, sign: char| {
        let known: HashSet<&str> = b.lines().collect();
        a.lines().filter(|l| !known.contains(l)).take(5).map(|l| format!("{sign}{l}")).collect::<Vec<_>>()
    };
    [only(old, new, '-'), only(new, old, '+')].concat().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(usr: &str) -> View {
        View { usr: usr.into(), outside: "o".into(), volatile: "v".into(), mounts: "m".into() }
    }

    #[test]
    fn a_write_is_seen() {
        let mut problems = Vec::new();
        view("a\nb").compare("now", &view("a\nb"), &mut problems);
        assert!(problems.is_empty());
        view("a\nb").compare("now", &view("a\nc"), &mut problems);
        assert_eq!(problems, ["/usr now: -b; +c"]);
    }

    #[test]
    fn a_base_file_that_goes_or_changes_is_lost() {
        let line = |path: &str, kind: &str, inode: u32, mode: u32, size: u32| {
            format!("{path}\t{kind}\t{inode}\t{mode}\t0\t0\t{size}\t1.5\t\n")
        };
        let base = view(&(line("/usr/bin", "d", 1, 755, 4096) + &line("/usr/bin/bash", "f", 2, 755, 9)));
        let same = view(&(line("/usr/bin", "d", 7, 755, 60) + &line("/usr/bin/bash", "f", 8, 755, 9)));
        assert!(base.lost(&same).is_empty());
        assert_eq!(base.lost(&view(&line("/usr/bin", "d", 7, 755, 60))), ["/usr/bin/bash is gone"]);
        let changed = view(&(line("/usr/bin", "d", 7, 700, 60) + &line("/usr/bin/bash", "f", 8, 755, 10)));
        assert_eq!(base.lost(&changed).len(), 2);
    }
}
