//! The contenders in C: compiled when they are needed, by whoever has their libraries.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use xtask::error::{Context, Failure, Result};

use crate::contenders::Library;

/// Where the sources are.
pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("contenders")
}

/// The program of `library`, compiled unless it is up to date.
pub(crate) fn binary(library: &Library) -> Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name(format!("contender-{}", library.source));
    let source = sources().join(library.source).with_extension("c");
    if is_current(&program, &source)? {
        return Ok(program);
    }
    let mut compile = Command::new(library.compiler);
    compile.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]);
    compile
        .arg(&program)
        .arg(&source)
        .args(library.link)
        .arg("-lpthread");
    let why = match compile.output() {
        Ok(output) if output.status.success() => return Ok(program),
        Ok(output) => first_error(&String::from_utf8_lossy(&output.stderr)),
        Err(error) => format!("{}: {error}", library.compiler),
    };
    let (name, packages) = (library.source, library.packages);
    Err(Failure::new(format!(
        "{name} does not compile ({why}); as root: apt-get install gcc {packages}"
    )))
}

/// The line that tells what went wrong.
fn first_error(said: &str) -> String {
    let line = said.lines().find(|line| line.contains("error"));
    line.or(said.lines().next())
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Whether `program` is younger than `source` and all headers beside it.
fn is_current(program: &Path, source: &Path) -> Result<bool> {
    let Ok(built) = changed(program) else {
        return Ok(false);
    };
    let entries = std::fs::read_dir(sources()).context("contenders/")?;
    for entry in entries {
        let path = entry?.path();
        let matters = path == source || path.extension().is_some_and(|ext| ext == "h");
        if matters && changed(&path)? >= built {
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
            packages: "libmissing-dev",
        };
        let why = binary(&library).unwrap_err().to_string();
        assert!(
            why.ends_with("as root: apt-get install gcc libmissing-dev"),
            "{why}"
        );
    }
}
