//! `--tag-output`: who printed what.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::child::Child;
use crate::error::{Context, Result};

/// Longest line that is kept together; a longer one is cut, so that memory stays bounded.
const LONGEST: u64 = 64 << 10;

/// How long output is followed after every process has ended: a grandchild may hold a pipe for ever.
const PATIENCE: Duration = Duration::from_secs(2);

/// The threads that copy output line by line.
pub(super) struct Tags {
    running: usize,
    done: Receiver<()>,
    report: Sender<()>,
}

impl Default for Tags {
    fn default() -> Self {
        let (report, done) = channel();
        Self {
            running: 0,
            done,
            report,
        }
    }
}

impl Tags {
    /// Copies what `child` prints, each line with `[id] ` in front.
    pub(super) fn follow(&mut self, id: u32, child: &mut Child) -> Result<()> {
        let (out, err) = child.take_output();
        if let Some(out) = out {
            self.copy(id, out, std::io::stdout)?;
        }
        if let Some(err) = err {
            self.copy(id, err, std::io::stderr)?;
        }
        Ok(())
    }

    fn copy<W: Write>(
        &mut self,
        id: u32,
        from: impl Read + Send + 'static,
        to: impl Fn() -> W + Send + 'static,
    ) -> Result<()> {
        let report = self.report.clone();
        let work = move || {
            // Either end may break; the process itself then learns of it by its own writing.
            let _ = copy_lines(&format!("[{id}] "), from, to);
            let _ = report.send(());
        };
        std::thread::Builder::new()
            .spawn(work)
            .context("a thread for --tag-output")?;
        self.running += 1;
        Ok(())
    }

    /// Waits until all was copied.
    pub(super) fn finish(self) {
        let end = Instant::now() + PATIENCE;
        for _ in 0..self.running {
            let left = end.saturating_duration_since(Instant::now());
            if self.done.recv_timeout(left).is_err() {
                return;
            }
        }
    }
}

fn copy_lines<W: Write>(tag: &str, from: impl Read, to: impl Fn() -> W) -> std::io::Result<()> {
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
        // One write, so that lines of different processes do not mix.
        let mut to = to();
        to.write_all(&line)?;
        to.flush()?;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A test may panic.

    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_line_is_tagged_even_an_unfinished_one() {
        let kept = Kept::default();
        copy_lines("[3] ", &b"one\n\ntwo"[..], || kept.clone()).unwrap();
        assert_eq!(*kept.0.lock().unwrap(), b"[3] one\n[3] \n[3] two\n");
    }
}
