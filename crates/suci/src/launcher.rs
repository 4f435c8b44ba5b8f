//! Notices of the launcher to this process: which processes of the launch have ended, and whose
//! ends it reports.
//!
//! The launcher writes lines to a pipe that the process inherits
//! ([`env::NOTICES`](crate::env::NOTICES)), so nothing that comes from the network can pass for
//! one. The driver reads the pipe when its sleep says that it is readable, and else once in
//! [`PERIOD`]: a driver that never sleeps beside it pays for no system call in between.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;
use suci_proto::ProcessEnd;
use suci_proto::time::Instant;
use suci_proto::types::NodeId;

/// Longest line that is understood.
const LONGEST: usize = 64;

/// Maximum number of bytes that one read takes. The launcher's pipe holds as many.
const MAX_POLL_TIME: usize = 64 << 10;

/// How often the pipe is read while the driver does not sleep.
const PERIOD: Duration = Duration::from_millis(20);

/// The version of the lines: their first word.
const VERSION: &str = "1";
const DIED: &str = "died";
const GONE: &str = "gone";
const FAILED: &str = "failed";
const SUPERVISED: &str = "supervised";

/// A report of the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A process has ended.
    Ended { node: NodeId, end: ProcessEnd },
    /// The launcher reports each end of the processes of these nodes, or does so no more: its pipe
    /// was closed.
    Supervised {
        first: NodeId,
        last: NodeId,
        supervised: bool,
    },
}

/// The end of the pipe: the launcher reports nothing more.
const UNSUPERVISED: Notice = Notice::Supervised {
    first: NodeId(0),
    last: NodeId(u32::MAX),
    supervised: false,
};

/// The line that a launcher writes.
pub(crate) fn line(notice: Notice) -> String {
    match notice {
        Notice::Ended { node, end } => {
            let word = match end {
                ProcessEnd::Replaced => DIED,
                ProcessEnd::Finished => GONE,
                ProcessEnd::Failed => FAILED,
            };
            format!("{VERSION} {word} {node}\n")
        }
        Notice::Supervised { first, last, .. } => {
            format!("{VERSION} {SUPERVISED} {first} {last}\n")
        }
    }
}

/// Parses a line; returns nothing if it is unknown.
fn parse(line: &[u8]) -> Option<Notice> {
    let words: Vec<_> = std::str::from_utf8(line).ok()?.split(' ').collect();
    let node = |word| crate::book::number(word).map(NodeId);
    let ended = |word, end| {
        let node = node(word)?;
        Some(Notice::Ended { node, end })
    };
    match words[..] {
        [VERSION, DIED, word] => ended(word, ProcessEnd::Replaced),
        [VERSION, GONE, word] => ended(word, ProcessEnd::Finished),
        [VERSION, FAILED, word] => ended(word, ProcessEnd::Failed),
        [VERSION, SUPERVISED, first, last] => Some(Notice::Supervised {
            first: node(first)?,
            last: node(last)?,
            supervised: true,
        }),
        _ => None,
    }
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
    /// The launcher has closed the pipe.
    is_closed: bool,
    /// It does not matter whose ends the launcher reports.
    ignores_supervision: bool,
}

impl Launcher {
    /// Takes a pipe that does not block.
    pub(crate) fn new(pipe: OwnedFd) -> Self {
        Self {
            pipe: pipe.into(),
            begun: Vec::new(),
            look_at: Instant::ZERO,
            watched: false,
            is_closed: false,
            ignores_supervision: false,
        }
    }

    /// Passes over the notices of whose ends the launcher reports.
    pub(crate) fn ignore_supervision(&mut self) {
        self.ignores_supervision = true;
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

    /// Reads the notices that are there. After the launcher has closed the pipe the last one says
    /// that it supervises no node any more.
    pub(crate) fn read(&mut self, now: Instant, notices: &mut Vec<Notice>) {
        self.look_at = now + PERIOD;
        let mut buffer = [0; 1024];
        for _ in 0..MAX_POLL_TIME / buffer.len() {
            match self.pipe.read(&mut buffer) {
                Ok(count @ 1..) => self.take(buffer.get(..count).unwrap_or_default(), notices),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => {
                    notices.push(UNSUPERVISED);
                    self.is_closed = true;
                    return;
                }
            }
        }
    }

    /// Returns true if no more notices will come.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn take(&mut self, bytes: &[u8], notices: &mut Vec<Notice>) {
        for &byte in bytes {
            if byte == b'\n' {
                let ignores = self.ignores_supervision;
                let ignored =
                    |notice: &Notice| ignores && matches!(notice, Notice::Supervised { .. });
                notices.extend(parse(&self.begun).filter(|notice| !ignored(notice)));
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

    fn notice(node: u32, end: ProcessEnd) -> Notice {
        let node = NodeId(node);
        Notice::Ended { node, end }
    }

    fn supervised(first: u32, last: u32) -> Notice {
        Notice::Supervised {
            first: NodeId(first),
            last: NodeId(last),
            supervised: true,
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
        let said = [
            supervised(0, 99),
            notice(3, ProcessEnd::Replaced),
            notice(4, ProcessEnd::Failed),
            notice(u32::MAX, ProcessEnd::Finished),
        ];
        let lines: String = said.map(line).concat();
        assert_eq!(
            lines,
            "1 supervised 0 99\n1 died 3\n1 failed 4\n1 gone 4294967295\n"
        );
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
            "1 supervised 7",
            "1 supervised 0 7 9",
            "1 supervised 0 x",
            &long,
        ] {
            let lines = format!("{line}\n1 died 5\n");
            assert_eq!(
                heard(&[lines.as_bytes()]),
                [notice(5, ProcessEnd::Replaced)],
                "{line:?}"
            );
        }
        assert_eq!(heard(&[b"1 gone \xff\n1 gone 7"]), [], "no end of line");
    }

    #[test]
    fn a_program_can_ignore_whose_ends_are_reported() {
        let (from, _to) = std::io::pipe().unwrap();
        let (mut launcher, mut notices) = (Launcher::new(from.into()), Vec::new());
        launcher.ignore_supervision();
        launcher.take(b"1 supervised 0 7\n1 died 3\n", &mut notices);
        assert_eq!(notices, [notice(3, ProcessEnd::Replaced)]);
    }

    #[test]
    fn f17_a_launcher_that_is_gone_supervises_nobody() {
        let (from, mut to) = std::io::pipe().unwrap();
        let mut launcher = Launcher::new(from.into());
        let mut notices = Vec::new();
        std::io::Write::write_all(&mut to, b"1 supervised 0 7\n").unwrap();
        drop(to);
        launcher.read(Instant::ZERO, &mut notices);
        assert_eq!(notices, [supervised(0, 7), UNSUPERVISED]);
        assert!(launcher.is_closed());
    }
}
