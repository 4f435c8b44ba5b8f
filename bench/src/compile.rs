//! The contenders in C: compiled when they are needed, on machines that have their libraries.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use xtask::error::{Context, Failure, Result};
use xtask::{bench, exec};

use crate::contenders::{Bundle, Library};

/// Returns the directory of the sources.
pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("contenders")
}

/// The program of `library`, compiled unless it is up to date.
pub(crate) fn binary(library: &Library) -> Result<PathBuf> {
    let program =
        bench::contenders().join(format!("contender-{}-{}", library.source, library.compiler));
    let source = sources().join(library.source).with_extension("c");
    let lockfile = sources().join("Cargo.lock");
    let mut inputs = with_extension(&sources(), "h")?;
    inputs.push(source.clone());
    inputs.extend(library.bundle.map(|_| lockfile));
    if is_current(&program, &inputs)? {
        return Ok(program);
    }
    let directory = bench::contenders();
    std::fs::create_dir_all(&directory).context(directory.display())?;
    let mut compile = Command::new(library.compiler);
    compile.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]);
    compile.arg(&program).arg(&source);
    if let Some(bundle) = library.bundle {
        let (roots, archive) = archive(bundle)?;
        for root in roots {
            compile.arg("-isystem").arg(root);
        }
        compile.arg(archive);
    }
    compile.args(library.link).arg("-lpthread");
    let (name, packages) = (library.source, library.packages);
    match succeeds(&mut compile) {
        Ok(()) => Ok(program),
        Err(why) => Err(Failure::new(format!(
            "{name} does not compile ({why}); as root: apt-get install gcc {packages}"
        ))),
    }
}

/// The roots of `bundle`, and all of its sources compiled, which takes a minute the first time.
fn archive(bundle: &Bundle) -> Result<(Vec<PathBuf>, PathBuf)> {
    let package = package(bundle.package)?;
    let roots: Vec<PathBuf> = bundle.roots.iter().map(|root| package.join(root)).collect();
    let version = package.file_name().context("a package's directory")?;
    let directory = bench::contenders().join(version);
    let archive = directory.join("all.a");
    if archive.is_file() {
        return Ok((roots, archive));
    }
    std::fs::create_dir_all(&directory).context(directory.display())?;
    let mut compile = Command::new("gcc");
    compile.current_dir(&directory).arg("-c").args(bundle.flags);
    for root in &roots {
        compile.arg("-I").arg(root);
        let all = with_extension(root, "c")?;
        compile.args(
            all.iter()
                .filter(|source| !source.ends_with(bundle.without)),
        );
    }
    let done = succeeds(&mut compile).and_then(|()| {
        let objects = with_extension(&directory, "o").map_err(|failure| failure.to_string())?;
        succeeds(Command::new("ar").arg("rcs").arg(&archive).args(objects))
    });
    done.map_err(|why| Failure::new(format!("the sources of {}: {why}", bundle.package)))?;
    Ok((roots, archive))
}

/// Returns the directory in which cargo has unpacked a crate of the lockfile.
fn package(name: &str) -> Result<PathBuf> {
    let host = exec::capture(Command::new("rustc").arg("-vV"))?;
    let host = host.lines().find_map(|line| line.strip_prefix("host: "));
    let mut ask = exec::cargo(["metadata", "--locked", "--format-version", "1"]);
    ask.arg("--features")
        .arg(format!("suci-bench-contenders/{name}"))
        .arg("--filter-platform")
        .arg(host.context("rustc does not say for what it compiles")?)
        .arg("--manifest-path")
        .arg(sources().join("Cargo.toml"));
    let metadata: serde_json::Value = serde_json::from_str(&exec::capture(&mut ask)?)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let manifest = packages
        .filter(|package| package["name"] == name)
        .find_map(|package| package["manifest_path"].as_str());
    let directory = manifest.and_then(|manifest| Path::new(manifest).parent());
    let directory = directory.context(format!("cargo knows no package {name}"))?;
    Ok(directory.to_owned())
}

/// All files below `directory` whose names end so, in an order that does not change.
fn with_extension(directory: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).context(directory.display())? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(with_extension(&path, extension)?);
        } else if path.extension().is_some_and(|has| has == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Runs a compiler or the like to its end, or returns its complaint.
fn succeeds(command: &mut Command) -> Result<(), String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(first_error(&String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("{}: {error}", command.get_program().display())),
    }
}

/// The line that tells the error.
fn first_error(said: &str) -> String {
    let line = said.lines().find(|line| line.contains("error"));
    line.or(said.lines().next())
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Whether `program` is younger than all of `inputs`.
fn is_current(program: &Path, inputs: &[PathBuf]) -> Result<bool> {
    let Ok(built) = changed(program) else {
        return Ok(false);
    };
    for input in inputs {
        if changed(input)? >= built {
            return Ok(false);
        }
    }
    Ok(true)
}

fn changed(path: &Path) -> Result<SystemTime> {
    let changed = std::fs::metadata(path).and_then(|data| data.modified());
    changed.context(path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_with_the_error_is_shown() {
        let said =
            "In file included from x.c:3:\nx.c:3:10: fatal error: zmq.h: No such file\n  3 |\n";
        assert_eq!(
            first_error(said),
            "x.c:3:10: fatal error: zmq.h: No such file"
        );
        assert_eq!(first_error("cc1: no\n"), "cc1: no");
    }

    #[test]
    fn a_library_that_is_missing_is_named_with_the_remedy() {
        let library = Library {
            source: "no-such-source",
            compiler: "no-such-compiler",
            link: &[],
            bundle: None,
            packages: "libmissing-dev",
        };
        let why = binary(&library).unwrap_err().to_string();
        assert!(
            why.ends_with("as root: apt-get install gcc libmissing-dev"),
            "{why}"
        );
    }
}
