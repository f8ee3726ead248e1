//! The committed table: what each file must come to. Plain text, so that a change of an outcome is seen in review.

use model::Code;

/// A small package without dependencies, to have a store in place before a case that wants it small.
pub const SMALL: &str = "fixture/payload-test-0.1-w.ufdio.x86_64.rpm";

/// What gpgcheck must find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signed {
    /// It is refused before anybody looks.
    Unseen,
    /// By this key, which is there.
    Good(String),
    /// By this key, in a way that newer libraries no longer take.
    Weak(String),
    /// By this key, which is not there or was revoked.
    Unknown(String),
    /// Nothing.
    Unsigned,
    /// Not what was signed.
    Bad,
}

/// What a file must come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Installed, verified, removed; `status` holds all of these meanwhile.
    Installed(Vec<String>),
    /// Refused with this code and a message that holds all of these.
    Refused(Code, Vec<String>),
}

impl Outcome {
    /// The package, which the first part of a refusal names.
    pub fn package(&self) -> Option<&str> {
        match self {
            Outcome::Installed(_) => None,
            Outcome::Refused(_, parts) => parts.first().map(String::as_str),
        }
    }
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// Below the corpus.
    pub file: String,
    /// Of the file, in hexadecimal.
    pub sha256: String,
    /// Size of the store, as `mount -o size=` takes it.
    pub store: Option<String>,
    /// Its signature.
    pub signed: Signed,
    /// What it must come to when signatures are not asked for.
    pub outcome: Outcome,
    /// The reason, for people.
    pub why: String,
}

/// Reads the table.
///
/// # Errors
/// The number of a line and what is wrong with it.
pub fn read(text: &str) -> Result<Vec<Case>, String> {
    let lines = text.lines().enumerate().filter(|(_, l)| !l.is_empty() && !l.starts_with('#'));
    let cases: Vec<Case> =
        lines.map(|(n, l)| line(l).map_err(|e| format!("line {}: {e}", n + 1))).collect::<Result<_, _>>()?;
    let twice = cases.iter().enumerate().find(|(n, c)| cases[..*n].iter().any(|o| o.file == c.file));
    twice.map_or(Ok(()), |(_, c)| Err(format!("{} is there twice", c.file)))?;
    Ok(cases)
}

fn line(text: &str) -> Result<Case, String> {
    let fields: Vec<&str> = text.split('\t').collect();
    let [file, sha256, setup, signed, outcome, code, message, why] = fields[..] else {
        return Err(format!("{} fields, not 8", fields.len()));
    };
    let store = match setup {
        "-" => None,
        _ => Some(setup.strip_prefix("store=").ok_or_else(|| format!("setup is {setup}"))?.to_owned()),
    };
    let signed = match signed.split_once(':').unwrap_or((signed, "")) {
        ("-", "") => Signed::Unseen,
        ("unsigned", "") => Signed::Unsigned,
        ("bad", "") => Signed::Bad,
        ("good", key) if key.len() == 8 => Signed::Good(key.into()),
        ("weak", key) if key.len() == 8 => Signed::Weak(key.into()),
        ("unknown", key) if key.len() == 8 => Signed::Unknown(key.into()),
        _ => return Err(format!("signed is {signed}")),
    };
    let parts = |message: &str| message.split(" & ").map(str::to_owned).collect();
    let outcome = match (outcome, code, message) {
        ("installed", "-", "-") => Outcome::Installed(vec![]),
        ("installed", "-", message) => Outcome::Installed(parts(message)),
        ("refused", code, message) if message != "-" => {
            let code = serde_json::from_value(code.into()).map_err(|_| format!("there is no code {code}"))?;
            Outcome::Refused(code, parts(message))
        }
        _ => return Err(format!("{outcome}, {code} and {message} do not go together")),
    };
    if why.is_empty() || why == "-" {
        return Err("no reason".into());
    }
    Ok(Case { file: file.into(), sha256: sha256.into(), store, signed, outcome, why: why.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_whole_or_refused() {
        let text = "# x\n\na.rpm\tff\t-\tgood:01234567\tinstalled\t-\t-\tplain\n\
                    b.rpm\tff\tstore=64m\t-\trefused\tno-space\tb & 64\tbig\n\
                    c.rpm\tff\t-\tunsigned\tinstalled\t-\tx & y\tplain\n";
        let cases = read(text).unwrap();
        assert_eq!(cases[0].outcome, Outcome::Installed(vec![]));
        assert_eq!(cases[0].signed, Signed::Good("01234567".into()));
        assert_eq!(cases[1].store.as_deref(), Some("64m"));
        assert_eq!(cases[1].outcome, Outcome::Refused(Code::NoSpace, vec!["b".into(), "64".into()]));
        assert_eq!(cases[2].outcome, Outcome::Installed(vec!["x".into(), "y".into()]));
        for (line, word) in [
            ("a\tff\t-\t-\tinstalled\t-\t-", "7 fields"),
            ("a\tff\t-\t-\tinstalled\trefused\t-\tx", "go together"),
            ("a\tff\t-\t-\trefused\trefused\t-\tx", "go together"),
            ("a\tff\t-\t-\trefused\tno-such\tm\tx", "no code"),
            ("a\tff\tbig\t-\tinstalled\t-\t-\tx", "setup"),
            ("a\tff\t-\tgood:12\tinstalled\t-\t-\tx", "signed"),
            ("a\tff\t-\tunsigned:01234567\tinstalled\t-\t-\tx", "signed"),
            ("a\tff\t-\t-\tinstalled\t-\t-\t-", "no reason"),
            ("a\tff\t-\t-\tinstalled\t-\t-\tx\na\tff\t-\t-\tinstalled\t-\t-\tx", "twice"),
        ] {
            assert!(read(line).unwrap_err().contains(word), "{line}");
        }
    }
}
