//! The text form of `dnf.conf` and `.repo` files: sections, `key = value`, continuation lines. What a key means is
//! in `config`.

/// A section: its name and its keys in order. A later key of the same name wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Section {
    /// Between the brackets.
    pub name: String,
    /// In file order.
    pub keys: Vec<(String, String)>,
}

impl Section {
    /// The value of a key that was given, even if it is empty.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.keys.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
}

/// Splits a text into sections.
///
/// # Errors
/// The number of the first line that is none of section, key, continuation or comment, and what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Vec<Section>, String> {
    let mut sections: Vec<Section> = Vec::new();
    // A continuation belongs to the line above it, which may also be a comment or a blank.
    let mut open = false;
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let number = number + 1;
        let trimmed = line.trim();
        if trimmed.is_empty() {
            open = false;
            continue;
        }
        if trimmed.starts_with(['#', ';']) {
            continue;
        }
        if line.starts_with([' ', '\t'])
            && open
            && let Some((_, value)) = sections.last_mut().and_then(|s| s.keys.last_mut())
        {
            value.push('\n');
            value.push_str(trimmed);
            continue;
        }
        if let Some(rest) = trimmed.strip_prefix('[') {
            let (name, _) = rest.split_once(']').ok_or_else(|| format!("line {number}: \"{trimmed}\" lacks a ]"))?;
            sections.push(Section { name: name.trim().into(), keys: Vec::new() });
            open = false;
            continue;
        }
        let (key, value) = trimmed.split_once('=').ok_or_else(|| format!("line {number}: no key = value"))?;
        let section = sections.last_mut().ok_or_else(|| format!("line {number}: a key before the first [section]"))?;
        section.keys.push((key.trim().to_lowercase(), value.trim().into()));
        open = true;
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sections_comments_and_continuations() {
        let text =
            "# c\n[a]\nBaseURL = http://x/\n   http://y/\n; c\nname=A = B\nempty=\n\n[b]\nenabled=0\nenabled=1\n";
        let sections = parse(text).unwrap();
        assert_eq!(sections.len(), 2);
        assert_eq!(sections[0].get("baseurl"), Some("http://x/\nhttp://y/"));
        assert_eq!(sections[0].get("name"), Some("A = B"));
        assert_eq!(sections[0].get("empty"), Some(""));
        assert_eq!(sections[0].get("absent"), None);
        assert_eq!(sections[1].get("enabled"), Some("1"));
    }

    #[test]
    fn says_which_line_is_wrong() {
        for (text, line) in [("a=b\n", "line 1"), ("[a]\nnonsense\n", "line 2"), ("[a\n", "line 1")] {
            assert!(parse(text).unwrap_err().starts_with(line), "{text}");
        }
    }
}
