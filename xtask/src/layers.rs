//! Allowed dependencies (ARCHITECTURE.md section 1), checked by cargo's metadata, and the house
//! limits on size that are best found before a review.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::error::{Context, Failure, Result};
use crate::{exec, source};

/// Each crate and which of ours it may depend on. A crate that is not named here is an error:
/// a new one needs another audience or another unsafe policy, and a place in the picture.
const ARROWS: &[(&str, &[&str])] = &[
    ("suci-link", &[]),
    ("suci-channels", &["suci-link"]),
    ("suci-proto", &["suci-channels", "suci-link"]),
    ("suci-net", &[]),
    ("suci-layers", &["suci-proto"]),
    ("suci", &["suci-proto", "suci-net", "suci-layers"]),
    ("suci-sim", &["suci-proto", "suci-layers", "toy-cipher"]),
    ("suci-sockets", &["suci"]),
    ("suci-capi", &["suci", "suci-sockets"]),
    ("suci-plot", &[]),
    ("suci-cli", &["suci", "suci-plot"]),
    ("suci-shmem", &["suci"]),
    ("suci-ofi", &["suci"]),
    ("suci-preload", &["suci", "suci-sockets"]),
    ("suci-python", &["suci"]),
    ("suci-prolog", &["suci"]),
    ("tableau", &["suci"]),
    ("task-farm", &["suci"]),
    ("halo", &["suci"]),
    ("dse", &["suci"]),
    ("kv", &["suci"]),
    ("sockets", &["suci", "suci-sockets"]),
    ("parameter-server", &["suci"]),
    ("members", &["suci"]),
    ("suci-tests", &["suci", "suci-net", "suci-proto"]),
    ("guarded", &["suci", "suci-proto"]),
    ("toy-cipher", &["suci-link"]),
    ("red-team", &["suci", "suci-proto"]),
    ("suci-bench", &["suci-plot", "xtask"]),
    ("xtask", &["suci-plot"]),
];

/// Namespaces and process helpers, and a cipher that keeps books: development tools, so they may be
/// used by any crate's tests.
const TEST_SUPPORT: &[&str] = &["xtask", "toy-cipher"];

/// The crate of tests across processes, whose every dependency is a test's.
const TEST_CRATE: &str = "suci-tests";

/// The crates of the protocol, which forbid unsafe code and touch no host.
pub(crate) const PROTOCOL: &[&str] = &["suci-link", "suci-channels", "suci-proto"];

/// Names that these must not use, although the compiler for wasm32 lets them through as stubs.
const HOST: &[&str] = &[
    "std::env",
    "std::fs",
    "std::net::Tcp",
    "std::net::Udp",
    "std::process",
    "std::thread",
    "std::time",
    "UdpSocket",
    "TcpStream",
    "SystemTime",
    "thread_local!",
    "static mut",
    "println!",
    "eprintln!",
    "tracing::",
    "libc::",
];

/// Files longer than this before their tests own more than one thing.
const MAX_FILE_LINES: usize = 900;

/// Functions longer than this hide a decision that has a name.
const MAX_FUNCTION_LINES: usize = 70;

/// Checks arrows, unsafe policy, hostlessness of the engine, and sizes.
///
/// # Errors
/// All violations found, one per line.
pub fn check() -> Result<()> {
    let root = exec::root();
    let mut wrong = arrows(&metadata()?)?;
    for name in PROTOCOL {
        wrong.extend(protocol(name, &root.join("crates").join(name).join("src"))?);
    }
    let apart = [
        "xtask/src",
        "bench/src",
        "bench/contenders/src",
        "bindings/python/src",
    ];
    let mut dirs = Vec::from(apart.map(|dir| root.join(dir)));
    for several in ["crates", "examples"] {
        for entry in std::fs::read_dir(root.join(several)).context(several)? {
            dirs.push(entry?.path().join("src"));
        }
    }
    for dir in dirs {
        wrong.extend(sizes(&dir, &root)?);
    }
    if wrong.is_empty() {
        return Ok(());
    }
    wrong.sort();
    Err(Failure::new(wrong.join("\n")))
}

fn metadata() -> Result<Value> {
    let text = exec::capture(&mut exec::cargo([
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
    ]))?;
    Ok(serde_json::from_str(&text)?)
}

fn arrows(metadata: &Value) -> Result<Vec<String>> {
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata names no packages")?;
    let ours: BTreeSet<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            wrong.push(format!(
                "layers: crate `{name}` has no place in xtask/src/layers.rs"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let to = dependency["name"].as_str().unwrap_or_default();
            let for_tests = dependency["kind"] == "dev" || name == TEST_CRATE;
            let fine = allowed.contains(&to) || (for_tests && TEST_SUPPORT.contains(&to));
            if ours.contains(to) && !fine {
                wrong.push(format!("layers: `{name}` must not depend on `{to}`"));
            }
        }
    }
    Ok(wrong)
}

/// A crate of the protocol forbids unsafe code and touches no host.
fn protocol(name: &str, src: &Path) -> Result<Vec<String>> {
    let lib = src.join("lib.rs");
    let text = std::fs::read_to_string(&lib).context(lib.display())?;
    let mut wrong = Vec::new();
    if !source::blanked(&text).contains("#![forbid(unsafe_code)]") {
        wrong.push(format!("layers: {name} lacks #![forbid(unsafe_code)]"));
    }
    for (file, text) in product_files(src)? {
        let blanked = source::blanked(&text);
        let product = source::lines_before_tests(&blanked);
        for (number, line) in blanked.lines().take(product).enumerate() {
            for word in HOST.iter().filter(|word| line.contains(**word)) {
                let at = format!("{}:{}", file.display(), number + 1);
                wrong.push(format!("layers: {at}: `{word}` in {name}"));
            }
        }
    }
    Ok(wrong)
}

fn sizes(src: &Path, root: &Path) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (file, text) in product_files(src)? {
        let blanked = source::blanked(&text);
        let product = source::lines_before_tests(&blanked);
        let shown = file.strip_prefix(root).unwrap_or(&file).display();
        if product > MAX_FILE_LINES {
            wrong.push(format!(
                "size: {shown}: {product} lines, at most {MAX_FILE_LINES}"
            ));
        }
        for function in source::functions(&blanked) {
            if function.line <= product && function.lines > MAX_FUNCTION_LINES {
                let (name, line, lines) = (function.name, function.line, function.lines);
                wrong.push(format!(
                    "size: {shown}:{line}: `{name}` has {lines} lines, at most {MAX_FUNCTION_LINES}"
                ));
            }
        }
    }
    Ok(wrong)
}

/// The files under `src` that are not compiled for tests only, with their text.
fn product_files(src: &Path) -> Result<Vec<(std::path::PathBuf, String)>> {
    let mut files = Vec::new();
    let mut tests = Vec::new();
    for file in source::rust_files(src)? {
        let text = std::fs::read_to_string(&file).context(file.display())?;
        let stem = file.file_stem().unwrap_or_default();
        let is_root = ["lib", "main", "mod"].iter().any(|root| stem == *root);
        let dir = if is_root {
            file.with_file_name("")
        } else {
            file.with_extension("")
        };
        for module in source::test_modules(&source::blanked(&text)) {
            tests.push(dir.join(module));
        }
        files.push((file, text));
    }
    files.retain(|(file, _)| {
        let module = file.with_extension("");
        !tests.iter().any(|test| module.starts_with(test))
    });
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, depends: &str, kind: Option<&str>) -> Value {
        json!({"packages": [
            {"name": name, "dependencies": [{"name": depends, "kind": kind}]},
            {"name": depends, "dependencies": []},
        ]})
    }

    #[test]
    fn an_arrow_of_the_picture_passes() {
        assert!(
            arrows(&package("suci", "suci-proto", None))
                .unwrap_or_default()
                .is_empty()
        );
        assert!(
            arrows(&package("suci-cli", "xtask", Some("dev")))
                .unwrap_or_default()
                .is_empty()
        );
    }

    #[test]
    fn any_other_arrow_fails() -> Result<()> {
        assert_eq!(
            arrows(&package("suci-proto", "suci-net", None))?,
            ["layers: `suci-proto` must not depend on `suci-net`"]
        );
        assert_eq!(
            arrows(&package("suci-proto", "suci-sim", Some("dev")))?.len(),
            1
        );
        assert_eq!(arrows(&package("suci-cli", "xtask", None))?.len(), 1);
        Ok(())
    }

    #[test]
    fn an_unknown_crate_fails() -> Result<()> {
        assert_eq!(arrows(&package("suci-extra", "suci", None))?.len(), 1);
        Ok(())
    }
}
