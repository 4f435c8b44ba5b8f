//! Programs in C on libfabric, which load the provider as others do.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod mpi;
mod programs;

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Set if the library has been built together with the tests.
const BUILT: &str = "SUCI_TEST_BUILT";

/// A folder of providers that has this one alone: `FI_PROVIDER_PATH`.
fn providers() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let program = std::env::current_exe().unwrap();
        let built = program.ancestors().nth(2).unwrap();
        // A build of this package alone has other features than the tests of the workspace, and
        // would compile the engine again.
        if std::env::var_os(BUILT).is_none() {
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "-q", "--locked", "--lib", "-p", "suci-ofi"]);
            if built.ends_with("release") {
                build.arg("--release");
            }
            build.arg("--target-dir").arg(built.parent().unwrap());
            run(build.current_dir(env!("CARGO_MANIFEST_DIR")));
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("suci-ofi-providers");
        std::fs::create_dir_all(&folder).unwrap();
        let link = folder.join("libsuci-fi.so");
        _ = std::fs::remove_file(&link);
        symlink(built.join("libsuci_fi.so"), link).unwrap();
        folder
    })
}

/// Compiles a program of `tests/c` without a warning. Returns its path.
fn compile(name: &str, compiler: &str, libraries: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ofi-{name}"));
    let mut compile = Command::new(compiler);
    compile.args(["-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-o"]);
    compile.arg(&program).arg(folder.join(format!("{name}.c")));
    run(compile.args(libraries));
    program
}

/// A program that uses the provider, and that is ended after two minutes, as one that hangs.
fn within_limit(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command.arg("120").arg(program);
    command.env("FI_PROVIDER_PATH", providers());
    command.env("FI_PROVIDER", "suci");
    command
}

/// Runs a command, which must succeed. Returns what it wrote to stdout.
fn run(command: &mut Command) -> String {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let status = output.status;
    assert!(status.success(), "{command:?}: {status}\n{out}\n{err}");
    out
}
