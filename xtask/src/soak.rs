//! Every README snippet and each example many times in a row, with progress.

use crate::error::Result;
use crate::exec;

/// The variable for how often the tests of snippets run each one.
pub(crate) const ROUNDS: &str = "SUCI_TEST_ROUNDS";

/// Runs each `rounds` times. Each line of a snippet must end within a minute.
///
/// # Errors
/// The build fails, or a snippet does.
pub fn run(rounds: u32) -> Result<()> {
    build()?;
    let test = ["test", "-q", "--locked", "--release", "-p", "suci-tests"];
    let filter = ["snippets_", "--", "--nocapture", "--test-threads", "1"];
    let mut test = exec::cargo([&test[..], &filter].concat());
    exec::run(test.env(ROUNDS, rounds.to_string()))
}

/// Builds the programs that snippets run: the command, the library's examples, the programs in
/// `examples/`.
///
/// # Errors
/// The build fails.
pub(crate) fn build() -> Result<()> {
    let mut args = vec![
        "build",
        "-q",
        "--locked",
        "--release",
        "--bins",
        "--examples",
    ];
    args.extend(["-p", "suci", "-p", "suci-cli"]);
    let examples = std::fs::read_dir(exec::root().join("examples"))?;
    let names = examples.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names = names.collect::<Result<Vec<String>>>()?;
    for name in &names {
        args.extend(["-p", name]);
    }
    exec::run(&mut exec::cargo(args))
}
