//! The common side of all programs: a parallel form, a sequential one, and a report.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::args::Common;
use crate::process::{Mix, Process};
use crate::progress::Progress;
use crate::transport::Result;

/// The result of a program as text and as JSON.
pub(crate) struct Told {
    pub(crate) text: String,
    pub(crate) json: Value,
}

/// A program with its arguments.
pub(crate) trait Program {
    /// The result. That of several processes equals that of one.
    type Found: PartialEq;

    /// Checks what the parser cannot, for a run in `size` processes.
    fn check(&self, size: usize) -> Result<()>;

    /// Computes the result together with the other processes. Process 0 has it.
    fn parallel(
        &self,
        process: &mut Process,
        progress: &mut Progress,
    ) -> Result<Option<Self::Found>>;

    /// Computes the result alone.
    fn sequential(&self, progress: &mut Progress) -> Result<Self::Found>;

    /// Writes the files that are wanted, and describes the result.
    fn tell(&self, found: &Self::Found) -> Result<Told>;
}

/// Measures of a run.
struct Run {
    processes: usize,
    time: Duration,
    /// The most network sockets of a process, without those that it was started with.
    sockets: u64,
    /// Messages that all processes sent.
    mix: Mix,
}

/// Runs a program: in parallel, then alone if it is to be checked. Process 0 prints the result.
pub(crate) fn run(program: &impl Program, common: &Common) -> Result<()> {
    let mut process = Process::join(common.transport)?;
    program.check(process.size())?;
    process.barrier()?;
    let before = process.mix();
    let begun = Instant::now();
    let mut progress = Progress::new(process.is_root());
    let found = program.parallel(&mut process, &mut progress)?;
    let time = begun.elapsed();
    progress.clear();
    let sent = process.mix();
    let mut mix = Mix::default();
    for (total, (after, before)) in mix.iter_mut().zip(sent.into_iter().zip(before)) {
        let sum = process.allreduce((after - before) as f64, |one, other| one + other)?;
        *total = sum as u64;
    }
    let sockets = process.allreduce(sockets()? as f64, f64::max)? as u64;
    let processes = process.size();
    process.close()?;
    let Some(found) = found else { return Ok(()) };
    if common.check {
        let mut progress = Progress::new(true);
        let expected = program.sequential(&mut progress)?;
        progress.clear();
        if found != expected {
            return Err("the result differs from that of one process".into());
        }
    }
    let told = program.tell(&found)?;
    let run = Run {
        processes,
        time,
        sockets,
        mix,
    };
    print(&told, &run, common)
}

/// The network sockets of this process, but for its standard input and outputs.
fn sockets() -> Result<usize> {
    // By the others processes of one machine find each other's memory. Their inodes come seventh.
    let all = std::fs::read_to_string("/proc/self/net/unix")?;
    let local: Vec<_> = all
        .lines()
        .filter_map(|line| line.split_whitespace().nth(6))
        .collect();
    let is_local = |target: &str| {
        local
            .iter()
            .any(|inode| target == format!("socket:[{inode}]"))
    };
    let mut count = 0;
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok());
        // One is the descriptor of the folder, which is gone by now.
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        let target = target.to_string_lossy();
        let is_socket = target.starts_with("socket:") && !is_local(&target);
        count += usize::from(is_socket && number > Some(2));
    }
    Ok(count)
}

fn print(told: &Told, run: &Run, common: &Common) -> Result<()> {
    let seconds = run.time.as_secs_f64();
    let text = if common.json {
        let mut json = told.json.clone();
        json["processes"] = json!(run.processes);
        json["seconds"] = json!(seconds);
        json["sockets"] = json!(run.sockets);
        json["messages_by_length"] = json!(run.mix);
        json["checked"] = json!(common.check);
        json.to_string()
    } else {
        let checked = if common.check {
            ", as in one process"
        } else {
            ""
        };
        let (told, count) = (&told.text, run.processes);
        let several = if count == 1 { "process" } else { "processes" };
        format!("{told}{checked}\n{seconds:.3} s in {count} {several}")
    };
    println!("{text}");
    Ok(())
}
