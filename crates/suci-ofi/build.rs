//! Has the library name libfabric.so.1 among those that it needs.
//!
//! An MPI in a Python process is loaded with local symbols, and the provider with it: it finds
//! `fi_dupinfo` only if the dynamic linker looks in libfabric for it. A library without content,
//! which has that name, suffices for the link, so that a build needs no libfabric.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsuci-fi.so");
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let (source, library) = (folder.join("empty.c"), folder.join("libfabric.so"));
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let linked = std::fs::write(&source, "").and_then(|()| {
        Command::new(&compiler)
            .args(["-shared", "-nostdlib", "-Wl,-soname,libfabric.so.1", "-o"])
            .args([&library, &source])
            .status()
    });
    match linked {
        Ok(status) if status.success() => {
            let library = library.display();
            println!("cargo:rustc-cdylib-link-arg=-Wl,--no-as-needed,{library},--as-needed");
        }
        other => {
            println!(
                "cargo:warning={compiler:?} made no {}: {other:?}",
                library.display()
            );
            std::process::exit(1);
        }
    }
}
