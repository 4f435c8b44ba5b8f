//! Notices of the launcher to this process: which processes of the launch have ended.
//!
//! The launcher writes lines to a pipe that the process inherits
//! ([`env::NOTICES`](crate::env::NOTICES)), so nothing that comes from the network can pass for
//! one. The driver reads the pipe when its sleep says that it is readable, and else once in
//! [`PERIOD`]: a driver that never sleeps beside it pays for no system call in between.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;
use suci_proto::time::Instant;
use suci_proto::types::NodeId;

/// Longest line that is understood.
const LONGEST: usize = 64;

/// Most bytes that one read takes. The launcher's pipe holds as many.
const MAX_POLL_TIME: usize = 64 << 10;

/// How often the pipe is read while the driver does not sleep.
const PERIOD: Duration = Duration::from_millis(20);

/// The version of the lines: their first word.
const VERSION: &str = "1";
const DIED: &str = "died";
const GONE: &str = "gone";

/// A process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) node: NodeId,
    /// No other takes its place.
    pub(crate) for_good: bool,
}

/// The line that a launcher writes.
pub(crate) fn line(notice: Notice) -> String {
    let word = if notice.for_good { GONE } else { DIED };
    format!("{VERSION} {word} {}\n", notice.node)
}

/// Parses a line; returns nothing if it is unknown.
fn parse(line: &[u8]) -> Option<Notice> {
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (VERSION, word, node, None) = (words.next()?, words.next()?, words.next()?, words.next())
    else {
        return None;
    };
    let for_good = match word {
        DIED => false,
        GONE => true,
        _ => return None,
    };
    let node = NodeId(crate::book::number(node)?);
    Some(Notice { node, for_good })
}

/// The pipe, and the beginning of an incomplete line.
#[derive(Debug)]
pub(crate) struct Launcher {
    pipe: File,
    /// The line read so far, at most [`LONGEST`] bytes and one more, which shows that it is too
    /// long.
    begun: Vec<u8>,
    /// Time of the next read of the pipe. It is read earlier if a sleep reported that it is
    /// readable.
    look_at: Instant,
    /// Whether the program waits on the pipe itself, so that no sleep here reports that it is
    /// readable: then each poll of the socket reads it.
    watched: bool,
}

impl Launcher {
    /// Takes a pipe that does not block.
    pub(crate) fn new(pipe: OwnedFd) -> Self {
        Self {
            pipe: pipe.into(),
            begun: Vec::new(),
            look_at: Instant::ZERO,
            watched: false,
        }
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.pipe.as_raw_fd()
    }

    /// A sleep said that the pipe is readable.
    pub(crate) fn on_readable(&mut self) {
        self.look_at = Instant::ZERO;
    }

    /// The program waits on the pipe itself from now on.
    pub(crate) fn watch(&mut self) {
        self.watched = true;
    }

    /// Whether the pipe is to be read now.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.watched || now >= self.look_at
    }

    /// Reads the notices that are there. Returns false when no more will come.
    pub(crate) fn read(&mut self, now: Instant, notices: &mut Vec<Notice>) -> bool {
        self.look_at = now + PERIOD;
        let mut buffer = [0; 1024];
        for _ in 0..MAX_POLL_TIME / buffer.len() {
            match self.pipe.read(&mut buffer) {
                Ok(0) => return false,
                Ok(count) => self.take(buffer.get(..count).unwrap_or_default(), notices),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }

    fn take(&mut self, bytes: &[u8], notices: &mut Vec<Notice>) {
        for &byte in bytes {
            if byte == b'\n' {
                notices.extend(parse(&self.begun));
                self.begun.clear();
            } else if self.begun.len() <= LONGEST {
                self.begun.push(byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(node: u32, for_good: bool) -> Notice {
        Notice {
            node: NodeId(node),
            for_good,
        }
    }

    /// Returns the notices that a launcher reads if it gets `pieces` one after the other.
    fn heard(pieces: &[&[u8]]) -> Vec<Notice> {
        let (from, _to) = std::io::pipe().unwrap();
        let mut launcher = Launcher::new(from.into());
        let mut notices = Vec::new();
        for piece in pieces {
            launcher.take(piece, &mut notices);
        }
        assert!(launcher.begun.len() <= LONGEST + 1);
        notices
    }

    #[test]
    fn lines_are_read_as_they_are_written_however_they_are_cut() {
        let said = [notice(3, false), notice(u32::MAX, true)];
        let lines: String = said.map(line).concat();
        assert_eq!(lines, "1 died 3\n1 gone 4294967295\n");
        assert_eq!(heard(&[lines.as_bytes()]), said);
        let cut: Vec<&[u8]> = lines.as_bytes().chunks(1).collect();
        assert_eq!(heard(&cut), said);
    }

    #[test]
    fn what_is_not_known_is_passed_over() {
        let long = "1 gone 7".to_owned() + &" ".repeat(100_000);
        for line in [
            "",
            "1",
            "2 gone 7",
            "1 born 7",
            "1 gone",
            "1 gone 7 8",
            "1 gone -7",
            "1 gone 4294967296",
            "1  gone 7",
            " 1 gone 7",
            "1 gone 7\r",
            "1 gone \u{661}",
            &long,
        ] {
            let lines = format!("{line}\n1 died 5\n");
            assert_eq!(heard(&[lines.as_bytes()]), [notice(5, false)], "{line:?}");
        }
        assert_eq!(heard(&[b"1 gone \xff\n1 gone 7"]), [], "no end of line");
    }
}
