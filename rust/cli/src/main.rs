//! Starts the program.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(rpm_ostree_transient::run(std::env::args_os().collect()))
}
