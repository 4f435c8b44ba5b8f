//! `--tag-output`: marks each line with the process that printed it.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::child::Child;
use crate::error::{Context, Failure, Result};
use crate::output::write_all;

/// Longest line that is kept together; a longer one is cut, so that memory stays bounded.
const LONGEST: u64 = 64 << 10;

/// How long nothing may come after every process has ended: a grandchild may hold a pipe for ever.
/// Data that is already there may take any time to read.
const PATIENCE: Duration = Duration::from_secs(2);

/// The threads that copy output line by line.
pub(super) struct Tags {
    running: usize,
    done: Receiver<Result<()>>,
    report: Sender<Result<()>>,
    lines: Arc<Lines>,
}

/// Lines that were read, and those that were written, or could not be.
#[derive(Default)]
struct Lines {
    read: AtomicU64,
    written: AtomicU64,
}

impl Lines {
    /// Returns both counts. The count of written lines is read first, so equal counts mean that no
    /// line was in transit.
    fn counts(&self) -> (u64, u64) {
        let written = self.written.load(Ordering::SeqCst);
        (self.read.load(Ordering::SeqCst), written)
    }
}

impl Default for Tags {
    fn default() -> Self {
        let (report, done) = channel();
        Self {
            running: 0,
            done,
            report,
            lines: Arc::default(),
        }
    }
}

impl Tags {
    /// Copies the output of `child`, each line with `[id] ` in front.
    pub(super) fn follow(&mut self, id: u32, child: &mut Child) -> Result<()> {
        let (out, err) = child.take_output();
        if let Some(out) = out {
            self.copy(id, out, "standard output", || std::io::stdout().lock())?;
        }
        if let Some(err) = err {
            self.copy(id, err, "standard error", || std::io::stderr().lock())?;
        }
        Ok(())
    }

    fn copy<W: AsFd>(
        &mut self,
        id: u32,
        from: impl Read + Send + 'static,
        name: &'static str,
        to: impl Fn() -> W + Send + 'static,
    ) -> Result<()> {
        let (report, lines) = (self.report.clone(), Arc::clone(&self.lines));
        let work = move || {
            let done = copy_lines(&format!("[{id}] "), from, to, &lines);
            // A process that prints on learns of it by its own writing; one that has ended does
            // not.
            let _ = report.send(done.context(name));
        };
        std::thread::Builder::new()
            .spawn(work)
            .context("a thread for --tag-output")?;
        self.running += 1;
        Ok(())
    }

    /// Waits until all output was copied, or the user `had_enough`.
    pub(super) fn finish(self, had_enough: impl Fn() -> bool) -> Result<()> {
        let (mut left, mut before, mut result) = (self.running, self.lines.counts(), Ok(()));
        while left > 0 {
            if let Ok(done) = self.done.recv_timeout(PATIENCE) {
                left -= 1;
                result = result.and(done);
                continue;
            }
            let counts = self.lines.counts();
            if counts.0 == counts.1 && counts == before {
                break;
            }
            before = counts;
            if had_enough() {
                return Err(Failure::new("interrupted before all output was passed on"));
            }
        }
        result
    }
}

fn copy_lines<W: AsFd>(
    tag: &str,
    from: impl Read,
    to: impl Fn() -> W,
    lines: &Lines,
) -> std::io::Result<()> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        line.extend_from_slice(tag.as_bytes());
        if (&mut from).take(LONGEST).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        lines.read.fetch_add(1, Ordering::SeqCst);
        // Under one lock, so that lines of different processes do not mix.
        let done = write_all(to(), &line);
        lines.written.fetch_add(1, Ordering::SeqCst);
        done?;
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn every_line_is_tagged_even_an_unfinished_one() {
        let (to, mut from) = UnixStream::pair().unwrap();
        let lines = Lines::default();
        copy_lines("[3] ", &b"one\n\ntwo"[..], || &to, &lines).unwrap();
        drop(to);
        let mut kept = String::new();
        from.read_to_string(&mut kept).unwrap();
        assert_eq!(kept, "[3] one\n[3] \n[3] two\n");
        assert_eq!(lines.counts(), (3, 3));
    }

    #[test]
    fn lines_that_could_not_be_written_are_not_waited_for() {
        let (to, from) = UnixStream::pair().unwrap();
        drop(from);
        let lines = Lines::default();
        copy_lines("", &b"one\n"[..], || &to, &lines).unwrap_err();
        assert_eq!(lines.counts(), (1, 1));
    }
}
