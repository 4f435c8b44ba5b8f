//! The installed library, compilers, and runs of programs.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The folder of this crate.
pub(crate) fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder in which cargo builds libraries and programs.
pub(crate) fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let program = std::env::current_exe().unwrap();
        program.ancestors().nth(2).unwrap().to_owned()
    })
}

/// A script that packs what was built.
pub(crate) fn packaging(script: &str) -> Command {
    let mut command = Command::new(crate_dir().join("packaging").join(script));
    for variable in ["PREFIX", "LIBDIR", "DESTDIR"] {
        command.env_remove(variable);
    }
    command.arg(built());
    command
}

/// Set if the library and the commands have been built together with the tests.
const BUILT: &str = "SUCI_TEST_BUILT";

/// Builds and installs the library and its commands below the target folder. Returns the prefix.
pub(crate) fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let built = built();
        let mut packages = vec![["suci-shmem", "--lib"], ["suci-cli", "--bins"]];
        // A build of these packages alone has other features than the tests of the workspace, and
        // would compile the engine again.
        if std::env::var_os(BUILT).is_some() {
            packages.clear();
        }
        for package in packages {
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "--quiet", "--locked", "--package"]);
            build.args(package);
            if built.file_name().unwrap() == "release" {
                build.arg("--release");
            }
            build.arg("--target-dir").arg(built.parent().unwrap());
            run(build.current_dir(crate_dir()));
        }
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("suci-shmem");
        run(packaging("install.sh").env("PREFIX", &prefix));
        prefix
    })
}

/// Runs a command, which must succeed. Returns what it wrote to stdout.
pub(crate) fn run(command: &mut Command) -> String {
    let output = output(command);
    let (out, err) = texts(&output);
    let status = output.status;
    assert!(status.success(), "{command:?}: {status}\n{out}\n{err}");
    out
}

pub(crate) fn output(command: &mut Command) -> Output {
    let output = command.output();
    output.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// The output of a command to stdout and stderr.
pub(crate) fn texts(output: &Output) -> (String, String) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Compiles a program of `tests/c` without a warning, by `oshcc` or `oshc++` with a compiler.
/// Returns its path.
pub(crate) fn compile(source: &str, wrapper: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    // Tests run at the same time: each has a file of its own.
    static FILES: AtomicUsize = AtomicUsize::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let name = Path::new(source).file_name().unwrap().to_str().unwrap();
    let program = prefix().join(format!("{name}-{number}"));
    let mut command = Command::new(prefix().join("bin").join(wrapper));
    command.env("CC", compiler).env("CXX", compiler);
    command
        .args(["-g", "-Wall", "-Wextra", "-Werror"])
        .args(flags);
    command.arg(crate_dir().join("tests/c").join(source));
    run(command.arg("-o").arg(&program).arg("-lm"));
    program
}

/// A program that is ended after two minutes, as one that hangs.
pub(crate) fn within_limit(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.arg("120").arg(program);
    command
}

/// `oshrun` of a program with `count` processes and more options, within two minutes.
pub(crate) fn oshrun(program: &Path, count: usize, options: &[&str]) -> Command {
    let mut command = within_limit(&prefix().join("bin/oshrun"));
    command.args(["-np", &count.to_string()]).args(options);
    command.arg(program);
    command
}
