//! What a process that we started prints, line by line, while it runs.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use xtask::error::{Context, Failure, Result};
use xtask::exec::Process;

/// A process whose output we read.
pub(crate) struct Talker {
    name: String,
    process: Process,
    lines: Receiver<String>,
    complaints: Receiver<String>,
}

impl Talker {
    pub(crate) fn start(name: &str, mut command: Command) -> Result<Self> {
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::spawn(&mut command)?;
        let child = process.child();
        let lines = reader(child.stdout.take().context("no pipe")?);
        let complaints = reader(child.stderr.take().context("no pipe")?);
        Ok(Self {
            name: name.to_owned(),
            process,
            lines,
            complaints,
        })
    }

    /// Waits until it has printed `word` alone on a line.
    pub(crate) fn wait_for(&mut self, word: &str, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(rest) {
                Ok(line) if line == word => return Ok(()),
                Ok(_) => {}
                Err(_) => return Err(self.failed(&format!("did not say `{word}`"))),
            }
        }
    }

    /// Waits for its successful end and returns what else it printed.
    pub(crate) fn finish_by(&mut self, deadline: Instant) -> Result<Vec<String>> {
        if let Err(failure) = self.process.finish_by(deadline) {
            return Err(self.failed(&failure.to_string()));
        }
        // Ends when the pipe does: with the process.
        Ok(self.lines.iter().collect())
    }

    /// What went wrong, and the last that it complained about.
    fn failed(&mut self, how: &str) -> Failure {
        self.process.kill();
        let said: Vec<String> = self.complaints.iter().collect();
        let last = said.len().saturating_sub(3);
        let said = said.get(last..).unwrap_or_default().join(" | ");
        Failure::new(format!("{}: {how}: {said}", self.name))
    }
}

/// Reads on a thread of its own, so that nobody waits on a full pipe.
fn reader(from: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(from).lines();
        // Ends with the pipe, or when nobody listens any more.
        lines
            .map_while(Result::ok)
            .all(|line| send.send(line).is_ok())
    });
    receive
}
