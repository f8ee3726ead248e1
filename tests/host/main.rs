//! The host tier: the program on an ostree-booted host in a mount namespace, used as a user uses it.
#![expect(clippy::print_stdout, reason = "numbers for the one who reads the log")]

mod acceptance;
mod caches;
mod callers;
mod configuration;
mod content;
mod contract;
mod declarations;
mod edits;
mod etc_readers;
mod hardening;
mod journal;
mod kills;
mod labels;
mod outside;
mod readers;
mod refusals;
mod rig;
mod scenario;
mod soak;
mod soft_reboot;
mod units;
mod verify;
mod views;
