//! `apply`: brings the host to the union of all declarations, in one generation. The files are read with the lock held, so
//! that the last of several runs is the one that saw the last state. Where the union cannot be, the objects that are to
//! blame are found with dry runs: in the order of their file names, each is taken that goes with those before it.

use super::{Live, Options, Session, Settings, code, name_lack_of_space, report, within};
use crate::declare::{self, Found};
use crate::generation::Store;
use anyhow::Result;
use fn_error_context::context;
use model::status::{API_VERSION, Outcome};
use model::{Application, Code, Declaration, DeclaredObject, Failure, ObjectState, Progress};
use std::path::Path;

/// Carries out all declarations. What was installed by hand stays.
///
/// # Errors
/// Any [`Code`] that is the host's and not an object's; nothing has changed then. Objects that are refused are in the
/// document.
pub fn apply(options: &Options, progress: &dyn Progress) -> Result<Application> {
    let mut options = options.clone();
    // What is there already is as declared.
    options.resolve.idempotent = true;
    options.resolve.allow_inactive = true;
    let dry = Options { dry_run: true, ..options.clone() };
    let settings = Settings::read(&options)?;
    let mut session = Session::begin(&options, progress)?;
    let found = read()?;
    let all: Vec<&Declaration> = found.declarations.iter().collect();
    let mut refused = Vec::new();
    let outcome = match one(&session, &settings, &all) {
        Err(error) if is_of_object(&error) => {
            session.options = &dry;
            let good = choose(&session, &settings, &all, &mut refused)?;
            session.options = &options;
            one(&session, &settings, &good)
        }
        other => other,
    }
    .map_err(name_lack_of_space)?;
    let objects = objects(&found, refused);
    if !options.dry_run {
        report::write_declarations(&session.lock, &objects)?;
    }
    let Outcome { changed, generation, plan, manifest, .. } = outcome;
    let kind = "Application".into();
    Ok(Application { api_version: API_VERSION.into(), kind, changed, generation, objects, plan, manifest })
}

/// The declarations of this host. `/usr/lib` is the base's: a layer declares nothing.
#[context("Reading declarations")]
fn read() -> Result<Found> {
    let usr = match Store::open_existing()? {
        Some(store) if store.base().join("lib").is_dir() => store.base(),
        _ => "/usr".into(),
    };
    declare::read(Path::new("/"), &declare::directories(Path::new("/"), &usr))
}

/// One run with these declarations and no others.
fn one(session: &Session<'_>, settings: &Settings, declarations: &[&Declaration]) -> Result<Outcome> {
    let live = Live::read(Store::open_existing()?.as_ref())?;
    within(session, settings, &declare::request(declarations, &live.requested)?)
}

fn is_of_object(error: &anyhow::Error) -> bool {
    code(error).is_some_and(declare::is_of_object)
}

/// Those that can be together; the failures of the others go to `refused`. Tries whole groups and halves those that fail,
/// as one bad object among many is the usual case.
fn choose<'d>(
    session: &Session<'_>,
    settings: &Settings,
    all: &[&'d Declaration],
    refused: &mut Vec<(&'d Declaration, Failure)>,
) -> Result<Vec<&'d Declaration>> {
    let mut good: Vec<&Declaration> = Vec::new();
    let mut open = vec![all];
    while let Some(group) = open.pop() {
        let together: Vec<&Declaration> = good.iter().chain(group).copied().collect();
        match one(session, settings, &together) {
            Ok(_) => good = together,
            Err(error) if is_of_object(&error) => match group {
                [] => return Err(error),
                [alone] => refused.push((alone, failure(&error))),
                _ => {
                    let (first, second) = group.split_at(group.len() / 2);
                    open.extend([second, first]);
                }
            },
            Err(error) => return Err(error),
        }
    }
    Ok(good)
}

fn failure(error: &anyhow::Error) -> Failure {
    let found = error.downcast_ref::<Failure>().cloned();
    found.unwrap_or_else(|| Failure::new(Code::Failed, format!("{error:#}")))
}

/// Every object, by file name.
fn objects(found: &Found, refused: Vec<(&Declaration, Failure)>) -> Vec<DeclaredObject> {
    let mut objects = found.others.clone();
    for d in &found.declarations {
        let why = refused.iter().find(|(r, _)| r.file == d.file);
        objects.push(match why {
            Some((_, failure)) => declare::refused(d.file.clone(), Some(d.owner.clone()), d.packages.clone(), failure),
            None => DeclaredObject {
                file: d.file.clone(),
                owner: Some(d.owner.clone()),
                state: ObjectState::Applied,
                packages: d.packages.clone(),
                error: None,
            },
        });
    }
    objects.sort_by(|a, b| a.file.file_name().cmp(&b.file.file_name()));
    objects
}
