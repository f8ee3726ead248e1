//! `diff`: packages, then paths with the letters of `ostree diff`.

use super::escape;
use model::status::{Diff, PathChange};

/// The text.
pub fn diff(document: &Diff) -> String {
    if document.packages.is_empty() && document.paths.is_empty() {
        return "No difference from the base.\n".into();
    }
    let mut out = String::from("Packages:\n");
    for p in &document.packages {
        out.push_str(&format!("  + {}\n", escape(&p.nevra.to_string())));
    }
    out.push_str("Files:\n");
    for p in &document.paths {
        let letter = match p.change {
            PathChange::Added => 'A',
            PathChange::Changed => 'M',
        };
        out.push_str(&format!("  {letter} {}\n", escape(&p.path)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::package;
    use super::*;
    use model::status::PathDiff;

    #[test]
    fn packages_and_paths() {
        let path = |path: &str, change| PathDiff { path: path.into(), change };
        let document = Diff {
            api_version: model::status::API_VERSION.into(),
            kind: "Diff".into(),
            packages: vec![package("a-1-1.noarch", model::Reason::Requested)],
            paths: vec![
                path("/usr/bin/a\x1b", PathChange::Added),
                path("/usr/lib/sysimage/rpm/rpmdb.sqlite", PathChange::Changed),
            ],
        };
        assert_eq!(
            diff(&document),
            "\
Packages:
  + a-1-1.noarch
Files:
  A /usr/bin/a\\x1b
  M /usr/lib/sysimage/rpm/rpmdb.sqlite
"
        );
        let empty = Diff { packages: vec![], paths: vec![], ..document };
        assert_eq!(diff(&empty), "No difference from the base.\n");
    }
}
