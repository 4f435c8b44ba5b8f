//! library(suci) for SWI-Prolog: installed as a pack, which builds and tests it, then used by the
//! programs of its README and by its example.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{Context, Failure, Result};
use crate::exec::{self, Process};
use crate::suite;

/// The folder of the pack.
const PACK: &str = "bindings/prolog";

/// Targets that the pack and its programs need: the C library, the command, and a node in Rust.
const BUILT: [&str; 5] = ["--lib", "--bin", "suci", "--example", "exchange"];

/// Each command ends within this time. The tests of the pack take 12 s.
const LIMIT: Duration = Duration::from_secs(60);

/// Formulas for the example, and what it says in one process and in four alike.
const FORMULAS: &[(&str, &str)] = &[
    ("g(p -> f(q)) & f(p)", "satisfiable, 5 states"),
    ("g(f(p)) & f(g(~p))", "unsatisfiable, 4 states"),
    (
        "g(f(a)) & g(f(b)) & g(f(c)) & g(f(d)) & g(f(e))",
        "satisfiable, 33 states",
    ),
];

/// Installs the pack, which runs its tests, and uses it.
///
/// # Errors
/// Something is missing or fails; the output of what failed is shown.
pub fn check() -> Result<()> {
    let place = Place::new()?;
    place.build_in_tree()?;
    place.languages()?;
    place.install()?;
    for (name, command, program) in programs()? {
        fs::write(place.path().join(&name), program)?;
        place.run(&name, &command)?;
    }
    place.example()
}

/// Has three nodes of one job, in Rust, C and Prolog, exchange messages.
///
/// # Errors
/// As [`check`].
pub(crate) fn languages() -> Result<()> {
    let place = Place::new()?;
    place.build_in_tree()?;
    place.languages()
}

/// Where Prolog finds its packs, and only ours.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        fs::create_dir_all(dir.path().join("data/swi-prolog/pack"))?;
        Ok(Self { dir })
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Builds the module as in a clone: with the static library of the tree.
    fn build_in_tree(&self) -> Result<()> {
        exec::run(&mut suite::building(&BUILT))?;
        let pack = exec::root().join(PACK);
        let built = exec::target_dir().join("debug");
        let (pack, built) = (pack.display(), built.display());
        let module = self.path().join("module");
        let module = module.display();
        self.run(
            "make",
            &format!("make -C {pack} SUCI_TARGET={built} SWIPL_MODULE_DIR={module}"),
        )?;
        let goal = "use_module(library(suci)), suci_open(_, [id(1)])";
        let swipl = self.swipl_in_tree();
        self.run("swipl", &format!("{swipl} -g \"{goal}\" -t halt"))?;
        Ok(())
    }

    /// The command that runs Prolog with the module that `build_in_tree` built.
    fn swipl_in_tree(&self) -> String {
        let module = self.path().join("module");
        let library = exec::root().join(PACK).join("prolog");
        let (module, library) = (module.display(), library.display());
        format!("swipl -p foreign={module} -p library={library}")
    }

    /// A program in each language is a node of one job. Each of them checks what the others send.
    fn languages(&self) -> Result<()> {
        let sources = exec::root().join("examples/languages");
        let include = exec::root().join("crates/suci-capi/include");
        let built = exec::target_dir().join("debug");
        let (sources, include, built) = (sources.display(), include.display(), built.display());
        let options = "-std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror";
        let libraries = format!("{built}/libsuci_capi.a -lpthread -ldl -lm");
        self.run(
            "cc",
            &format!("cc {options} -I{include} {sources}/exchange.c {libraries} -o exchange-c"),
        )?;
        let swipl = self.swipl_in_tree();
        let said = self.run(
            "exchange",
            &format!(
                "suci run -n 3 --kill-on-failure -- sh -c 'shift $SUCI_ID; exec $1' sh \
                 {built}/examples/exchange ./exchange-c '{swipl} {sources}/exchange.pl'"
            ),
        )?;
        for node in ["0 in Rust", "1 in C", "2 in Prolog"] {
            let expected = format!("node {node}: all messages are right");
            if !said.lines().any(|line| line.ends_with(&expected)) {
                return Err(Failure::new(format!("no `{expected}` in:\n{said}")));
            }
        }
        Ok(())
    }

    /// Installs the C library, then has Prolog copy the folder, build the module with pkg-config,
    /// run the tests and install the pack.
    fn install(&self) -> Result<()> {
        let script = exec::root().join("crates/suci-capi/packaging/install.sh");
        let built = exec::target_dir().join("debug");
        let (script, built) = (script.display(), built.display());
        self.run("install.sh", &format!("{script} {built}"))?;
        let pack = exec::root().join(PACK);
        // A module that was built before would be copied, too.
        let source = self.path().join("source");
        for file in tracked()? {
            let to = source.join(&file);
            fs::create_dir_all(to.parent().unwrap_or(&source))?;
            fs::copy(pack.join(&file), &to).context(file.display())?;
        }
        let url = format!("file://{}", source.display());
        let goal = format!("pack_install('{url}', [interactive(false)])");
        let said = self.run(
            "pack_install",
            &format!("swipl -f none -g \"{goal}\" -t halt"),
        )?;
        let all_passed = said.lines().find(|line| line.contains("tests passed"));
        let all_passed = all_passed.context("pack_install ran no tests")?;
        println!("   {}", all_passed.trim_start_matches(['%', ' ']));
        Ok(())
    }

    /// The example says the same in one process and in four.
    fn example(&self) -> Result<()> {
        let example = exec::root().join(PACK).join("examples/tableau.pl");
        let example = example.display();
        for (formula, expected) in FORMULAS {
            for launcher in ["", "suci run -n 4 --kill-on-failure -- "] {
                let command = format!("{launcher}swipl {example} '{formula}'");
                let said = self.run("tableau.pl", &command)?;
                if !said.lines().any(|line| line == *expected) {
                    let what = format!("`{command}` did not say `{expected}`:\n{said}");
                    return Err(Failure::new(what));
                }
            }
        }
        Ok(())
    }

    /// Runs a command of the shell and returns all that it says.
    fn run(&self, name: &str, command: &str) -> Result<String> {
        println!("   {command}");
        let built = exec::target_dir().join("debug");
        let path = std::env::var("PATH").unwrap_or_default();
        let prefix = self.path().join("prefix");
        let output = self.path().join("output");
        let file = File::create(&output)?;
        let mut shell = Command::new("sh");
        shell
            .args(["-c", command])
            .current_dir(self.path())
            .env("PATH", format!("{}:{path}", built.display()))
            .env("XDG_DATA_HOME", self.path().join("data"))
            .env("PREFIX", &prefix)
            .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
            .env("LD_LIBRARY_PATH", prefix.join("lib"))
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        let mut process = Process::spawn_as(name, &mut shell)?;
        let ended = process.finish_by(Instant::now() + LIMIT);
        let said = fs::read(&output)?;
        let said = String::from_utf8_lossy(&said).into_owned();
        match ended {
            Ok(()) => Ok(said),
            Err(failure) => Err(Failure::new(format!("{failure}; it said:\n{said}"))),
        }
    }
}

/// The files of the pack, below its folder, without what a build made.
fn tracked() -> Result<Vec<PathBuf>> {
    let listed = exec::capture(
        Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .current_dir(exec::root().join(PACK)),
    )?;
    Ok(listed.lines().map(PathBuf::from).collect())
}

/// Each program of the README: the name of its file and the command that runs it, as its first line
/// tells (`% hello.pl: swipl hello.pl`), and its text.
fn programs() -> Result<Vec<(String, String, String)>> {
    let readme = fs::read_to_string(exec::root().join(PACK).join("README.md"))?;
    let blocks = readme.split("```prolog\n").skip(1);
    let programs = blocks.map(|block| {
        let program = block.split("```").next().unwrap_or_default();
        let first = program.lines().next().unwrap_or_default();
        let (name, command) = first
            .strip_prefix("% ")
            .and_then(|line| line.split_once(": "))
            .context(format!("README: `{first}` does not say `% FILE: COMMAND`"))?;
        Ok((name.to_owned(), command.to_owned(), program.to_owned()))
    });
    let programs = programs.collect::<Result<Vec<_>>>()?;
    match programs.is_empty() {
        false => Ok(programs),
        true => Err(Failure::new("the README has no program")),
    }
}
