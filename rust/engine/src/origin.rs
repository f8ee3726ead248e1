//! The second origin file, `/run/rpm-ostree-transient/origin`.
