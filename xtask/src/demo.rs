//! The demonstration of `make demo`: messages from all to all, a file to all nodes, and figures
//! beside TCP.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::error::{Context, Failure, Result};
use crate::exec::{self, Process};

/// Processes, with one UDP socket each.
const NODES: &str = "4";

/// Length of the file that is broadcast.
const FILE: u64 = 256 << 20;

/// The whole demonstration stays below the five minutes that it promises.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs it with the release build of `suci`.
///
/// # Errors
/// Something does not hold; or `suci` has not been built.
pub fn run() -> Result<()> {
    let suci = exec::target_dir().join("release/suci");
    if !suci.is_file() {
        let path = suci.display();
        return Err(Failure::new(format!(
            "{path} is missing: run `make demo`, which builds it first"
        )));
    }
    let begun = Instant::now();
    exchange_and_broadcast(&suci)?;
    figures(&suci)?;
    println!();
    println!("All of it took {:.0} s.", begun.elapsed().as_secs_f64());
    Ok(())
}

fn exchange_and_broadcast(suci: &Path) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let original = dir.path().join("original");
    noise(&original)?;
    println!("{NODES} processes, one UDP socket each. Each sends to each, then node 0 sends");
    println!(
        "a file of {} MiB to all others, from one buffer:",
        FILE >> 20
    );
    println!();
    let mut demo = Command::new(suci);
    demo.args(["run", "-n", NODES, "--kill-on-failure"])
        .arg(suci);
    demo.args(["demo", "--file"]).arg(&original);
    demo.arg("--into").arg(dir.path());
    Process::spawn(&mut demo)?.finish_by(Instant::now() + LIMIT)?;
    println!();
    println!("SHA-256 by the system's own tool:");
    let copies = (1..4).map(|node| dir.path().join(format!("copy-{node}")));
    let files: Vec<_> = std::iter::once(original).chain(copies).collect();
    let said = exec::capture(Command::new("sha256sum").args(&files))?;
    print!("{said}");
    let mut hashes = said
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let first = hashes.next().context("sha256sum printed nothing")?;
    let equal = hashes.filter(|hash| *hash == first).count();
    if equal == files.len() - 1 {
        println!("All equal.");
        Ok(())
    } else {
        Err(Failure::new("a copy differs from the original"))
    }
}

/// A file that no compression and no repeated block can hide behind.
fn noise(path: &Path) -> Result<()> {
    let source = "/dev/urandom";
    let mut bytes = File::open(source).context(source)?.take(FILE);
    let mut file = File::create(path).context(path.display())?;
    let written = std::io::copy(&mut bytes, &mut file).context(path.display())?;
    if written == FILE {
        Ok(())
    } else {
        Err(Failure::new(format!("{source} gave {written} bytes")))
    }
}

fn figures(suci: &Path) -> Result<()> {
    println!();
    println!("Beside TCP (cubic, NODELAY), in turns over loopback:");
    println!();
    let mut perf = Command::new(suci);
    perf.args(["perf", "--workload", "ping-pong,stream,broadcast"]);
    perf.args(["--vs", "tcp", "--rounds", "9", "--seconds", "0.3"]);
    Process::spawn(&mut perf)?.finish_by(Instant::now() + LIMIT)
}
