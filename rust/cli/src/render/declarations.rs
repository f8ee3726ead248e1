//! Declarations for people: what `apply` did, and what `status` tells of refused objects.

use super::{Ending, count, escape, outcome};
use model::status::Outcome;
use model::{Application, DeclaredObject, ObjectState};

/// The text of `apply`.
pub fn application(document: &Application, ending: Ending) -> String {
    let mut out: String = lines(&document.objects).map(|l| l + "\n").collect();
    let applied = document.objects.iter().filter(|o| o.state == ObjectState::Applied).count();
    out.push_str(&format!("{} of {} hold.\n", applied, count(document.objects.len(), "declaration")));
    let mut plan = document.plan.clone();
    // That the base has a package is no news to anybody: nobody asked just now.
    plan.already_provided.clear();
    let outcome = Outcome {
        api_version: document.api_version.clone(),
        kind: String::new(),
        changed: document.changed,
        generation: document.generation,
        plan,
        manifest: document.manifest.clone(),
    };
    out + &self::outcome(&outcome, ending)
}

/// One line for each object that the host does not have.
pub(super) fn lines(objects: &[DeclaredObject]) -> impl Iterator<Item = String> {
    objects.iter().filter(|o| o.state != ObjectState::Applied).map(|o| {
        let file = escape(&o.file.to_string_lossy());
        let owner = o.owner.as_deref().map_or_else(|| "unknown owner".to_owned(), escape);
        match &o.error {
            Some(e) => format!("refused: {file} ({owner}): {}", escape(&e.message)),
            None => format!("expired: {file} ({owner}): its container does not exist"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::failure::ErrorBody;
    use model::{Code, Plan};

    #[test]
    fn names_owner_and_reason() {
        let object = |name: &str, state, message: Option<&str>| DeclaredObject {
            file: format!("/etc/rpm-ostree-transient.d/{name}.toml").into(),
            owner: message.is_none().then(|| name.to_owned()),
            state,
            packages: vec![],
            error: message.map(|m| ErrorBody { code: Code::Usage, message: m.into(), causes: vec![], hint: None }),
        };
        let document = Application {
            api_version: String::new(),
            kind: String::new(),
            changed: false,
            generation: 3,
            objects: vec![
                object("a", ObjectState::Applied, None),
                object("b", ObjectState::Refused, Some("x.toml:2: bad\n")),
                object("c", ObjectState::Expired, None),
            ],
            plan: Plan::default(),
            manifest: None,
        };
        assert_eq!(
            application(&document, Ending::Run),
            "refused: /etc/rpm-ostree-transient.d/b.toml (unknown owner): x.toml:2: bad\\n\n\
             expired: /etc/rpm-ostree-transient.d/c.toml (c): its container does not exist\n\
             1 of 3 declarations hold.\nNothing to do.\n"
        );
    }
}
