//! The pipeline: request → resolve → fetch → admit → stage → harvest → activate → settle.
//! One module per step; each takes and returns plain values. Nothing here prints.

pub mod admit;
pub mod config;
pub mod declare;
pub mod fetch;
pub mod files;
pub mod generation;
pub mod glob;
pub mod harvest;
pub mod host;
pub mod lock;
pub mod names;
pub mod origin;
pub mod overlay;
pub mod resolve;
pub mod settle;
pub mod stage;
pub mod transaction;
mod tree;
pub mod verify;
