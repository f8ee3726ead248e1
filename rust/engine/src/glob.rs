//! Patterns as in file names, for repositories, packages and presets. Patterns may come from packages, so the time that
//! one takes is bounded by the product of both lengths.

/// `*`, `?` and `[…]` as in file names.
pub fn glob_matches(pattern: &str, text: &str) -> bool {
    let (p, t): (Vec<_>, Vec<_>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at_p, mut at_t) = (0, 0);
    // Where to go on when the rest does not match: behind the last `*`, one character later.
    let mut again: Option<(usize, usize)> = None;
    loop {
        if p.get(at_p) == Some(&'*') {
            at_p += 1;
            again = Some((at_p, at_t));
            continue;
        }
        let step = match (p.get(at_p), t.get(at_t)) {
            (None, None) => return true,
            (Some(_), Some(c)) => one(&p[at_p..], *c),
            _ => None,
        };
        match (step, again) {
            (Some(length), _) => (at_p, at_t) = (at_p + length, at_t + 1),
            (None, Some((back, from))) if from < t.len() => {
                again = Some((back, from + 1));
                (at_p, at_t) = (back, from + 1);
            }
            _ => return false,
        }
    }
}

/// The length of the pattern's first part, when that matches the character.
fn one(p: &[char], c: char) -> Option<usize> {
    match p[0] {
        '?' => Some(1),
        '[' => match p[1..].iter().skip(1).position(|x| *x == ']') {
            Some(end) => in_set(&p[1..end + 2], c).then_some(end + 3),
            None => (c == '[').then_some(1),
        },
        x => (x == c).then_some(1),
    }
}

fn in_set(set: &[char], c: char) -> bool {
    let (negated, set) = match set.first() {
        Some('!' | '^') => (true, &set[1..]),
        _ => (false, set),
    };
    let mut hit = false;
    let mut i = 0;
    while i < set.len() {
        if i + 2 < set.len() && set[i + 1] == '-' {
            hit |= (set[i]..=set[i + 2]).contains(&c);
            i += 3;
        } else {
            hit |= set[i] == c;
            i += 1;
        }
    }
    hit != negated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_go_back_and_take_no_ages() {
        for (pattern, text, expected) in [
            ("*a*b", "xaxbxb", true),
            ("*", "", true),
            ("a*", "a", true),
            ("*.service", "x.socket", false),
            ("x[0-9]*", "x1y", true),
            ("*[!a]c", "abac", false),
            ("*[!a]c", "abbc", true),
        ] {
            assert_eq!(glob_matches(pattern, text), expected, "{pattern} {text}");
        }
        assert!(!glob_matches(&("*a".repeat(60) + "b"), &"a".repeat(250)));
    }
}
