//! Telling the processes of a launch which of the others have ended. The first line says that this
//! is done, so that the silence of one shows nothing.
//!
//! Each process inherits the reading end of a pipe of its own. A process that does not read fills
//! its pipe and no more: the launcher writes only where there is room, and never waits for a
//! process.

use std::io::{PipeReader, PipeWriter, Write};

use suci::NodeId;
use suci::env::{ProcessEnd, notice, supervision};

/// Bytes written at once: a pipe that poll calls writable has room for a page.
const AT_ONCE: usize = 4_096;

/// All that was to be told so far, in order.
pub(super) struct Notices {
    /// The nodes of the launch.
    size: u32,
    ends: Vec<Notice>,
}

#[derive(Clone, Copy)]
struct Notice {
    id: u32,
    end: ProcessEnd,
}

impl Notices {
    /// Returns the notices of a launch of the nodes from 0 to `size` - 1.
    pub(super) fn new(size: u32) -> Self {
        let ends = Vec::new();
        Self { size, ends }
    }

    /// Adds the notice that process `id` has ended.
    pub(super) fn add(&mut self, id: u32, end: ProcessEnd) {
        self.ends.push(Notice { id, end });
    }

    /// Returns a pipe for a process that is about to start under `id`.
    pub(super) fn pipe_for(&self, id: u32) -> std::io::Result<(PipeReader, Outbox)> {
        let (reader, mut writer) = std::io::pipe()?;
        // An empty pipe has room for it, however soon the process reads.
        let last = NodeId(self.size.saturating_sub(1));
        writer.write_all(supervision(NodeId(0), last).as_bytes())?;
        let outbox = Outbox {
            id,
            pipe: Some(writer),
            next: 0,
            started: self.ends.len(),
        };
        Ok((reader, outbox))
    }
}

/// The writing end of a process's pipe, and how far it has come.
pub(super) struct Outbox {
    id: u32,
    /// None when the process does not read it any more.
    pipe: Option<PipeWriter>,
    /// The next notice to be written.
    next: usize,
    /// The first notice since the process started: those before are of interest if they hold still.
    started: usize,
}

impl Outbox {
    /// Returns the pipe, if a notice must be written to it.
    pub(super) fn wants(&self, notices: &Notices) -> Option<&PipeWriter> {
        let pipe = self.pipe.as_ref()?;
        (self.next < notices.ends.len()).then_some(pipe)
    }

    /// Writes the next notices, a page at most. Call it when poll says that there is room.
    pub(super) fn write(&mut self, notices: &Notices) {
        let mut text = String::new();
        while let Some(&Notice { id, end }) = notices.ends.get(self.next) {
            let is_last = end != ProcessEnd::Replaced;
            if id != self.id && (is_last || self.next >= self.started) {
                let line = notice(NodeId(id), end);
                if text.len() + line.len() > AT_ONCE {
                    break;
                }
                text.push_str(&line);
            }
            self.next += 1;
        }
        // The process closed its end, or never knew of it, and gets no notices.
        if let Some(pipe) = &mut self.pipe
            && pipe.write_all(text.as_bytes()).is_err()
        {
            self.pipe = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_process_that_starts_later_is_told_of_earlier_ends() {
        let mut notices = Notices::new(4);
        let (mut early, mut first) = notices.pipe_for(0).unwrap();
        notices.add(1, ProcessEnd::Replaced);
        notices.add(2, ProcessEnd::Failed);
        let (mut late, mut second) = notices.pipe_for(1).unwrap();
        notices.add(3, ProcessEnd::Replaced);
        for outbox in [&mut first, &mut second] {
            assert!(outbox.wants(&notices).is_some());
            outbox.write(&notices);
            assert!(outbox.wants(&notices).is_none());
        }
        drop((first, second));
        let mut said = [String::new(), String::new()];
        early.read_to_string(&mut said[0]).unwrap();
        late.read_to_string(&mut said[1]).unwrap();
        assert_eq!(
            said,
            ["1 died 1\n1 failed 2\n1 died 3\n", "1 failed 2\n1 died 3\n"]
                .map(|ends| format!("1 supervised 0 3\n{ends}"))
        );
    }

    #[test]
    fn long_output_is_written_by_pages_and_nothing_to_a_closed_pipe() {
        let mut notices = Notices::new(4);
        let (mut reader, mut outbox) = notices.pipe_for(0).unwrap();
        (0..10_000).for_each(|id| notices.add(id, ProcessEnd::Finished));
        let mut first = [0; "1 supervised 0 3\n".len()];
        reader.read_exact(&mut first).unwrap();
        outbox.write(&notices);
        let mut page = [0; 2 * AT_ONCE];
        let count = reader.read(&mut page).unwrap();
        assert!((AT_ONCE / 2..=AT_ONCE).contains(&count), "{count}");
        drop(reader);
        outbox.write(&notices);
        assert!(outbox.wants(&notices).is_none());
    }
}
