//! JSON schemas of the contract, from the types of `model`. `tests/host/contract.rs` holds live output against them;
//! `docs/schemas/released/` has a document of every kind as each released version wrote it, which must parse for ever.

use anyhow::{Context as _, Result};
use model::Application;
use model::failure::ErrorDocument;
use model::progress::Line;
use model::status::{Diff, History, Outcome, Status};
use model::verification::{Cleanup, Verification};
use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use std::path::Path;

/// Every document: its name as in `kind`, in lower case, and its schema.
pub fn all() -> [(&'static str, Schema); 9] {
    [
        ("status", of::<Status>()),
        ("outcome", of::<Outcome>()),
        ("application", of::<Application>()),
        ("history", of::<History>()),
        ("diff", of::<Diff>()),
        ("verification", of::<Verification>()),
        ("cleanup", of::<Cleanup>()),
        ("error", of::<ErrorDocument>()),
        ("progress", of::<Line>()),
    ]
}

fn of<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>()
}

/// The text of a schema file.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn text(schema: &Schema) -> Result<String> {
    Ok(serde_json::to_string_pretty(schema)? + "\n")
}

/// Writes `NAME.schema.json` for every document.
///
/// # Errors
/// From the filesystem.
pub fn write(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("Making {}", dir.display()))?;
    for (name, schema) in all() {
        let path = dir.join(format!("{name}.schema.json"));
        std::fs::write(&path, text(&schema)?).with_context(|| format!("Writing {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn dir() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas")
    }

    #[test]
    fn the_committed_schemas_are_those_of_the_types() {
        for (name, schema) in all() {
            let path = dir().join(format!("{name}.schema.json"));
            let committed = std::fs::read_to_string(&path).unwrap();
            assert_eq!(committed, text(&schema).unwrap(), "{}: make man writes it", path.display());
        }
    }

    /// A document of another kind, or one with a field of another type, does not pass.
    #[test]
    fn schemas_tell_documents_apart() {
        let status = serde_json::to_value(&all()[0].1).unwrap();
        let validator = jsonschema::validator_for(&status).unwrap();
        let text = std::fs::read_to_string(dir().join("released/v1/status.json")).unwrap();
        let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(validator.is_valid(&document));
        document["status"]["generation"] = "1".into();
        assert!(!validator.is_valid(&document));
        assert!(!validator.is_valid(&serde_json::json!({"kind": "Status"})));
    }

    /// Whatever a released version wrote is read by this one, and fits its schema.
    #[test]
    fn released_documents_parse() {
        for (name, schema) in all() {
            let schema = serde_json::to_value(&schema).unwrap();
            let validator = jsonschema::validator_for(&schema).unwrap();
            for version in std::fs::read_dir(dir().join("released")).unwrap() {
                let path = version.unwrap().path().join(format!("{name}.json"));
                let text = std::fs::read_to_string(&path).unwrap();
                let document: serde_json::Value = serde_json::from_str(&text).unwrap();
                let errors: Vec<_> = validator.iter_errors(&document).map(|e| e.to_string()).collect();
                assert!(errors.is_empty(), "{}: {errors:?}", path.display());
                match name {
                    "status" => drop(serde_json::from_str::<Status>(&text).unwrap()),
                    "application" => drop(serde_json::from_str::<Application>(&text).unwrap()),
                    "outcome" => drop(serde_json::from_str::<Outcome>(&text).unwrap()),
                    "history" => drop(serde_json::from_str::<History>(&text).unwrap()),
                    "progress" => drop(serde_json::from_str::<Line>(&text).unwrap()),
                    "diff" => drop(serde_json::from_str::<Diff>(&text).unwrap()),
                    "verification" => drop(serde_json::from_str::<Verification>(&text).unwrap()),
                    "cleanup" => drop(serde_json::from_str::<Cleanup>(&text).unwrap()),
                    _ => drop(serde_json::from_str::<ErrorDocument>(&text).unwrap()),
                }
            }
        }
    }
}
