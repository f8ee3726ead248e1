//! What a failure looks like: an error chain becomes one [`Report`], which is a line on stderr or a JSON document on
//! stdout, and an exit status. The numbers are those of [`model::Code`] and nothing else.

use model::{Code, Failure};
use std::sync::Mutex;

/// A failure, ready to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The named case.
    pub code: Code,
    /// One line.
    pub message: String,
    /// What was being done, outermost first, down to the first cause.
    pub causes: Vec<String>,
    /// The way out, when there is one.
    pub hint: Option<String>,
}

impl Report {
    /// From the engine. A [`Failure`] anywhere in the chain gives code, message and hint, as it was made to be read
    /// alone; a chain without one is [`Code::Failed`] and told whole.
    pub fn from_error(error: &anyhow::Error) -> Report {
        // The first form also finds a failure that was attached as context.
        let failure =
            error.downcast_ref::<Failure>().or_else(|| error.chain().find_map(|e| e.downcast_ref::<Failure>()));
        let chain = error.chain().map(|e| one_line(&e.to_string()));
        match failure {
            Some(f) => {
                let message = one_line(&f.message);
                let causes = chain.filter(|c| *c != message).collect();
                Report { code: f.code, causes, hint: f.hint.clone(), message }
            }
            None => Report {
                code: Code::Failed,
                message: one_line(&format!("{error:#}")),
                causes: chain.collect(),
                hint: None,
            },
        }
    }

    /// From clap's text, whose first line is the message, and whose `tip:` is a hint.
    pub fn from_usage(text: &str) -> Report {
        let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
        let message = lines.next().unwrap_or("wrong usage");
        let message = one_line(message.strip_prefix("error: ").unwrap_or(message));
        let hint = lines.find_map(|l| l.strip_prefix("tip: ")).map(one_line);
        Report { code: Code::Usage, message, causes: vec![], hint }
    }

    /// From the panic that [`install_panic_hook`] recorded.
    pub fn from_panic() -> Report {
        let seen = PANIC.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        let what = seen.unwrap_or_else(|| "unknown".into());
        Report {
            code: Code::Failed,
            message: one_line(&format!("internal error: {what}")),
            causes: vec![],
            hint: Some("the next command cleans up what this one left; please report this".into()),
        }
    }

    /// The process exit status.
    pub fn status(&self) -> u8 {
        self.code.exit_status()
    }

    /// `error: …` and, when there is one, `hint: …`, each with a newline.
    pub fn text(&self, colour: bool) -> String {
        let (error, hint, off) = if colour { ("\x1b[1;31m", "\x1b[1m", "\x1b[0m") } else { ("", "", "") };
        let mut text = format!("{error}error:{off} {}\n", self.message);
        if let Some(h) = &self.hint {
            text.push_str(&format!("{hint}hint:{off} {}\n", one_line(h)));
        }
        text
    }

    /// The document `{"error": {…}}`.
    pub fn json(&self) -> serde_json::Value {
        let Report { code, message, causes, hint } = self.clone();
        let document =
            model::failure::ErrorDocument { error: model::failure::ErrorBody { code, message, causes, hint } };
        serde_json::to_value(document).unwrap_or_default()
    }
}

/// Lines are joined and control characters made visible: an error is one line, and a file name in it cannot move the
/// cursor.
fn one_line(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(str::trim).filter(|l| !l.is_empty()).map(crate::render::escape).collect();
    let joint = |l: &str| if l.ends_with([':', ';', ',']) { " " } else { "; " };
    let mut out = String::new();
    for line in lines {
        if !out.is_empty() {
            out.push_str(joint(&out));
        }
        out.push_str(&line);
    }
    out
}

static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Records the first panic instead of printing it, so that it comes out as every other failure does.
pub fn install_panic_hook() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("unknown");
        let place = info.location().map(|l| format!(" ({}:{})", l.file(), l.line())).unwrap_or_default();
        PANIC.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert_with(|| format!("{text}{place}"));
        if std::env::var_os("RUST_BACKTRACE").is_some() {
            usual(info);
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context as _, anyhow};

    /// Every code, so that a new one cannot be forgotten here: the match has no wildcard.
    fn all() -> Vec<(Code, u8, &'static str)> {
        use Code::*;
        let number = |c: Code| match c {
            Failed => (c, 1, "failed"),
            Usage => (c, 2, "usage"),
            NotOstreeHost => (c, 64, "not-ostree-host"),
            NotRoot => (c, 65, "not-root"),
            NamespaceUnreachable => (c, 66, "namespace-unreachable"),
            StackingDepth => (c, 67, "stacking-depth"),
            ForeignMount => (c, 68, "foreign-mount"),
            Untrusted => (c, 69, "untrusted"),
            InUse => (c, 70, "in-use"),
            NoSpace => (c, 71, "no-space"),
            BaseConflict => (c, 72, "base-conflict"),
            Locked => (c, 73, "locked"),
            NotFound => (c, 74, "not-found"),
            Repository => (c, 75, "repository"),
            Checksum => (c, 76, "checksum"),
            Unchanged => (c, 77, "unchanged"),
            Refused => (c, 78, "refused"),
            AlreadyProvided => (c, 79, "already-provided"),
            Scriptlet => (c, 80, "scriptlet"),
            FileConflict => (c, 81, "file-conflict"),
            Unsolvable => (c, 82, "unsolvable"),
            StateDamaged => (c, 83, "state-damaged"),
            NotAsPromised => (c, 84, "not-as-promised"),
            Declaration => (c, 90, "declaration"),
            Interrupted => (c, 130, "interrupted"),
        };
        [
            Failed,
            Usage,
            NotOstreeHost,
            NotRoot,
            NamespaceUnreachable,
            StackingDepth,
            ForeignMount,
            Untrusted,
            InUse,
            NoSpace,
            BaseConflict,
            Locked,
            NotFound,
            Repository,
            Checksum,
            Unchanged,
            Refused,
            AlreadyProvided,
            Scriptlet,
            FileConflict,
            Unsolvable,
            StateDamaged,
            NotAsPromised,
            Declaration,
            Interrupted,
        ]
        .map(number)
        .to_vec()
    }

    #[test]
    fn every_code_has_its_status_and_name() {
        for (code, status, name) in all() {
            let error = anyhow::Error::from(Failure::new(code, "m").hint("h")).context("outer").context("outermost");
            let report = Report::from_error(&error);
            assert_eq!((report.code, report.status()), (code, status));
            assert_eq!(report.text(false), "error: m\nhint: h\n");
            assert_eq!(
                report.json(),
                serde_json::json!({
                    "error": { "code": name, "message": "m", "causes": ["outermost", "outer"], "hint": "h" }
                })
            );
        }
    }

    #[test]
    fn a_failure_attached_as_context_is_found() {
        let error = anyhow!("errno 28").context(Failure::new(Code::NoSpace, "the store is full"));
        let report = Report::from_error(&error);
        assert_eq!(report.code, Code::NoSpace);
        assert_eq!(report.causes, ["errno 28"]);
    }

    #[test]
    fn an_ordinary_chain_is_told_whole_in_one_line() {
        let error = Err::<(), _>(anyhow!("line one:\n  line \x1b[2Jtwo\nthree")).context("Reading x").unwrap_err();
        let report = Report::from_error(&error);
        assert_eq!(report.text(false), "error: Reading x: line one: line \\x1b[2Jtwo; three\n");
        assert_eq!((report.status(), report.causes.len(), report.hint), (1, 2, None));
    }

    #[test]
    fn usage_text_becomes_a_report() {
        let text = "error: unexpected argument '--x' found\n\n  tip: a similar argument exists\n\nUsage: y\n";
        let report = Report::from_usage(text);
        assert_eq!(report.message, "unexpected argument '--x' found");
        assert_eq!((report.hint.as_deref(), report.status()), (Some("a similar argument exists"), 2));
    }

    #[test]
    fn the_pages_list_every_code() {
        let page = include_str!("../../../docs/errors.md");
        for (_, status, name) in all() {
            assert!(page.contains(&format!("| {status} | `{name}` |")), "{name} is not in docs/errors.md");
        }
    }
}
