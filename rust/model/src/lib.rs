//! Names, values and the JSON contract. No I/O happens here: every type can be made, compared and
//! printed in a test without a host. The words are those of the glossary in `CONTRIBUTING.md`.
#![forbid(unsafe_code)]

pub mod declaration;
pub mod effect;
pub mod failure;
pub mod manifest;
pub mod nevra;
pub mod plan;
pub mod progress;
pub mod request;
pub mod status;
pub mod verification;

pub use declaration::{Application, Declaration, Declared, DeclaredObject, Lifetime, ObjectState};
pub use effect::{AttributedEffect, Cause, Effect, NotApplied, SkippedPath};
pub use failure::{Code, Failure};
pub use manifest::{LayeredPackage, Manifest, Reason, Signature};
pub use nevra::Nevra;
pub use plan::{Action, Checksum, PackageSource, Plan, PlannedPackage};
pub use progress::{Event, Phase, Progress};
pub use request::{PackageArg, Request};
pub use verification::{Finding, Verification};
