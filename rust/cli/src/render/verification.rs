//! `verify`: one line a finding, so that a log has what, where, both sides and the way out together.

use super::escape;
use model::verification::Cleanup;
use model::{Finding, Verification};

/// The text. Lines are not wrapped: each is for a log as much as for a terminal.
pub fn verification(document: &Verification) -> String {
    let mut out = String::new();
    for finding in &document.findings {
        out.push_str(&line(&format!("promise {}", finding.promise), finding));
    }
    for note in &document.notes {
        out.push_str(&line("note", note));
    }
    if document.holds {
        let of = match document.generation {
            0 => "nothing is layered".to_owned(),
            n => format!("generation {n}"),
        };
        out.push_str(&format!("Everything holds ({of}).\n"));
    }
    out
}

/// `clean-boot`: what went, or nothing, as a unit that has nothing to do has nothing to say.
pub fn cleanup(document: &Cleanup) -> String {
    document.removed.iter().map(|p| format!("Removed {}\n", escape(&p.to_string_lossy()))).collect()
}

fn line(kind: &str, f: &Finding) -> String {
    let place = escape(&f.place.to_string_lossy());
    let (what, expected, found) = (escape(&f.what), escape(&f.expected), escape(&f.found));
    format!("{kind}: {place}: {what}: expected {expected}, found {found}; {}\n", escape(&f.way_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_each() {
        let finding = Finding {
            promise: 1,
            what: "the overlay is writable".into(),
            place: "/usr\n".into(),
            expected: "ro".into(),
            found: "rw".into(),
            way_out: "reset".into(),
        };
        let mut document = Verification {
            api_version: String::new(),
            kind: String::new(),
            generation: 3,
            holds: false,
            findings: vec![finding.clone()],
            notes: vec![],
        };
        let text = verification(&document);
        assert_eq!(text, "promise 1: /usr\\n: the overlay is writable: expected ro, found rw; reset\n");
        document.notes = std::mem::take(&mut document.findings);
        document.holds = true;
        let text = verification(&document);
        assert!(text.starts_with("note: /usr\\n: ") && text.ends_with("Everything holds (generation 3).\n"), "{text}");
        document.generation = 0;
        assert!(verification(&document).ends_with("(nothing is layered).\n"));
    }
}
