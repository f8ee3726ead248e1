//! Safe types over the C bridge in `src-c-bridge/`: libsolv (`solv`), librepo (`librepo`) and librpm (`librpm`).
//! Every C object is owned by one Rust value and freed in its `Drop`; every error carries the library's own message.

pub mod librepo;
pub mod librpm;
pub mod process;
pub mod solv;
