//! Compilers, and the library to link with.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The folder of this crate.
pub(crate) fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Reads a file of this crate.
pub(crate) fn read(file: &str) -> String {
    let path = crate_dir().join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns a folder of this test for what it makes.
pub(crate) fn scratch() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("suci-capi");
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Set if the libraries have been built together with the tests.
const BUILT: &str = "SUCI_TEST_BUILT";

/// Builds the libraries, which no test links as Rust, and returns their folder.
fn built() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let program = std::env::current_exe().unwrap();
        let deps = program.parent().unwrap();
        let directory = deps.parent().unwrap().to_owned();
        // A build of this package alone has other features than the tests of the workspace, and
        // would compile the engine again.
        if std::env::var_os(BUILT).is_some() {
            return directory;
        }
        let profile = directory.file_name().unwrap();
        let mut build = Command::new(env!("CARGO"));
        build.args([
            "build",
            "--quiet",
            "--locked",
            "--lib",
            "--package",
            "suci-capi",
        ]);
        if profile == "release" {
            build.arg("--release");
        }
        build
            .arg("--target-dir")
            .arg(directory.parent().unwrap())
            .current_dir(crate_dir());
        run(&mut build);
        directory
    })
}

/// Returns the static library.
pub(crate) fn archive() -> PathBuf {
    built().join("libsuci_capi.a")
}

/// Returns the folder of `libsuci.so`, which has the names that `make install` gives.
pub(crate) fn library() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = scratch().join("lib");
        std::fs::create_dir_all(&dir).unwrap();
        for (link, to) in [
            ("libsuci.so.0", built().join("libsuci_capi.so")),
            ("libsuci.so", PathBuf::from("libsuci.so.0")),
        ] {
            let link = dir.join(link);
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(to, link).unwrap();
        }
        dir
    })
}

/// A compiler with its language.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compiler {
    pub(crate) program: &'static str,
    standard: &'static [&'static str],
}

const C: &[&str] = &["-x", "c", "-std=c11"];
const CPP: &[&str] = &["-x", "c++", "-std=c++17"];

/// The compiler of the tests that need only one.
pub(crate) const GCC: Compiler = Compiler {
    program: "gcc",
    standard: C,
};

/// Set if tests try every combination that they know; without it, a selection.
const FULL: &str = "SUCI_TEST_FULL";

/// Returns the compilers of C and C++, of gcc and of clang; without [`FULL`] one of each language,
/// by each. `make setup-host` installs them.
pub(crate) fn compilers() -> Vec<Compiler> {
    // Most programs are compiled by gcc as C in tests of their own, as for the sanitizers.
    let mut all = vec![("clang", C), ("g++", CPP)];
    if std::env::var_os(FULL).is_some() {
        all.extend([("gcc", C), ("clang++", CPP)]);
    }
    let compiler = |(program, standard)| Compiler { program, standard };
    all.into_iter().map(compiler).collect()
}

/// Runs a command, which must succeed. Returns what it wrote to stdout.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{command:?}: {}\n{out}\n{err}",
        output.status
    );
    out.into_owned()
}

impl Compiler {
    /// Compiles a program against the library, without a warning. Returns its path.
    pub(crate) fn compile(self, source: &Path, name: &str, flags: &[&str]) -> PathBuf {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let program = scratch().join(format!("{name}-{}", self.program));
        // Two tests may compile the same program, and one that is being written cannot run.
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let written = program.with_extension(number.to_string());
        let include = crate_dir().join("include");
        let mut command = Command::new(self.program);
        command
            .args([
                "-D_GNU_SOURCE",
                "-g",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-pedantic",
            ])
            .args(self.standard)
            .args(flags)
            .arg("-I")
            .arg(include)
            .arg("-I")
            .arg(crate_dir().join("tests/c"))
            .arg(source)
            .arg("-o")
            .arg(&written)
            .arg("-L")
            .arg(library())
            .args(["-lsuci", "-lpthread"])
            .arg(format!("-Wl,-rpath,{}", library().display()));
        run(&mut command);
        fs::rename(&written, &program).unwrap();
        program
    }
}

/// Runs a compiled program within a minute.
pub(crate) fn execute(program: &Path) -> String {
    run(Command::new("timeout").arg("60").arg(program))
}
