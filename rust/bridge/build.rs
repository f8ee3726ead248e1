//! Compiles `src-c-bridge/` against the libraries that pkg-config names.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src-c-bridge");
    let mut build = cc::Build::new();
    for library in ["libsolv", "libsolvext", "librepo", "rpm", "glib-2.0"] {
        for include in pkg_config::Config::new().probe(library)?.include_paths {
            build.include(include);
        }
    }
    build.include(&dir).warnings(true).extra_warnings(true).flag("-std=gnu11").flag("-fvisibility=hidden");
    if std::env::var_os("TRANSIENT_BRIDGE_ASAN").is_some() {
        build.flag("-fsanitize=address").flag("-fno-omit-frame-pointer");
    }
    println!("cargo::rerun-if-env-changed=TRANSIENT_BRIDGE_ASAN");
    println!("cargo::rerun-if-changed={}", dir.display());
    for entry in std::fs::read_dir(&dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "c") {
            build.file(path);
        }
    }
    build.compile("transient_bridge");
    Ok(())
}
