//! The output of a process that we started, line by line, while it runs.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use xtask::error::{Context, Failure, Result};
use xtask::exec::Process;

/// A process whose output we read.
pub(crate) struct Talker {
    process: Process,
    lines: Receiver<String>,
    complaints: Receiver<String>,
}

impl Talker {
    pub(crate) fn start(name: &str, mut command: Command) -> Result<Self> {
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::spawn_as(name, &mut command)?;
        let child = process.child();
        let lines = reader(child.stdout.take().context("no pipe")?);
        let complaints = reader(child.stderr.take().context("no pipe")?);
        Ok(Self {
            process,
            lines,
            complaints,
        })
    }

    /// Waits for its next line.
    pub(crate) fn next_line(&mut self, limit: Duration) -> Result<String> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => Ok(line),
            Err(_) => {
                let why = format!("`{}` said nothing", self.process.name());
                Err(self.failed(&why))
            }
        }
    }

    /// Waits until it has printed `word` alone on a line.
    pub(crate) fn wait_for(&mut self, word: &str, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(rest) {
                Ok(line) if line == word => return Ok(()),
                Ok(_) => {}
                Err(_) => {
                    let why = format!("`{}` did not say `{word}`", self.process.name());
                    return Err(self.failed(&why));
                }
            }
        }
    }

    /// Waits for its successful end and returns the rest of its output.
    pub(crate) fn finish_by(&mut self, deadline: Instant) -> Result<Vec<String>> {
        if let Err(failure) = self.process.finish_by(deadline) {
            return Err(self.failed(&failure.to_string()));
        }
        // Ends when the pipe does: with the process.
        Ok(self.lines.iter().collect())
    }

    /// Makes the error, with the last lines of its complaints.
    fn failed(&mut self, how: &str) -> Failure {
        self.process.kill();
        let said: Vec<String> = self.complaints.iter().collect();
        let last = said.len().saturating_sub(3);
        match said.get(last..) {
            None | Some([]) => Failure::new(how),
            Some(said) => Failure::new(format!("{how}: {}", said.join(" | "))),
        }
    }
}

/// Reads on a thread of its own, so that no process waits on a full pipe.
fn reader(from: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(from).lines();
        // Ends with the pipe, or when the receiver is gone.
        lines
            .map_while(Result::ok)
            .all(|line| send.send(line).is_ok())
    });
    receive
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_who_and_not_the_command_line() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            Talker::start("x, server", command).unwrap()
        };
        let end = || Instant::now() + Duration::from_secs(10);
        let why = shell("echo a word >&2; exit 3").finish_by(end());
        let why = why.unwrap_err().to_string();
        assert_eq!(why, "`x, server` ended with exit status: 3: a word");
        let why = shell("true").wait_for("ready", Duration::from_secs(10));
        let why = why.unwrap_err().to_string();
        assert_eq!(why, "`x, server` did not say `ready`");
        let mut talker = shell("echo one; exit 1");
        let limit = Duration::from_secs(10);
        assert_eq!(talker.next_line(limit).unwrap(), "one");
        let why = talker.next_line(limit).unwrap_err().to_string();
        assert_eq!(why, "`x, server` said nothing");
    }
}
