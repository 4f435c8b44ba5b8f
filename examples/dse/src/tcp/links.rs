//! The connections of one process: non-blocking sockets, and what is on its way through them.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use suci::Bytes;

use crate::transport::{LONGEST, Message, Result, Tag};

/// Bytes of a header: destination, source (2 each), tag (1), length of the payload (4).
const HEADER: usize = 9;

/// The most bytes that are read at once.
const READ: usize = 64 << 10;

/// Tag of the message by which a process tells process 0 that its program has closed.
const CLOSED: Tag = Tag(254);

/// Tag of the last message on a connection. Its other fields mean nothing.
const END: Tag = Tag(255);

/// The limit of a look that does not wait.
const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    to: usize,
    from: usize,
    tag: Tag,
    length: usize,
}

impl Header {
    fn encode(self) -> Result<[u8; HEADER]> {
        let (to, from) = (u16::try_from(self.to)?, u16::try_from(self.from)?);
        let length = u32::try_from(self.length)?.to_le_bytes();
        let [a, b, c, d] = length;
        let ([t, u], [f, g]) = (to.to_le_bytes(), from.to_le_bytes());
        Ok([t, u, f, g, self.tag.0, a, b, c, d])
    }

    fn decode([t, u, f, g, tag, a, b, c, d]: [u8; HEADER]) -> Self {
        Self {
            to: u16::from_le_bytes([t, u]).into(),
            from: u16::from_le_bytes([f, g]).into(),
            tag: Tag(tag),
            length: u32::from_le_bytes([a, b, c, d]) as usize,
        }
    }
}

/// A connection.
pub(super) struct Link {
    /// The process at the other end.
    rank: usize,
    stream: Arc<TcpStream>,
    /// Bytes of a message that is not complete.
    incoming: Vec<u8>,
    /// Bytes for which the socket had no room.
    outgoing: VecDeque<u8>,
    /// The last message has come.
    has_ended: bool,
}

impl Link {
    pub(super) fn new(rank: usize, stream: Arc<TcpStream>) -> Self {
        Self {
            rank,
            stream,
            incoming: Vec::new(),
            outgoing: VecDeque::new(),
            has_ended: false,
        }
    }

    pub(super) fn stream(&self) -> Arc<TcpStream> {
        Arc::clone(&self.stream)
    }

    fn ended(&self) -> String {
        format!("process {} ended", self.rank)
    }

    /// Writes a message; keeps what the socket does not take.
    fn write(&mut self, header: Header, payload: &[u8]) -> Result<()> {
        let header = header.encode()?;
        let mut written = 0;
        if self.outgoing.is_empty() {
            let parts = [IoSlice::new(&header), IoSlice::new(payload)];
            written = taken((&*self.stream).write_vectored(&parts)).map_err(|_| self.ended())?;
        }
        let of_payload = written.saturating_sub(HEADER);
        self.outgoing
            .extend(header.get(written..).unwrap_or_default());
        self.outgoing
            .extend(payload.get(of_payload..).unwrap_or_default());
        Ok(())
    }

    /// Writes what was kept, as far as the socket takes it.
    fn write_kept(&mut self) -> Result<()> {
        while !self.outgoing.is_empty() {
            let (first, _) = self.outgoing.as_slices();
            let written = taken((&*self.stream).write(first)).map_err(|_| self.ended())?;
            if written == 0 {
                break;
            }
            self.outgoing.drain(..written);
        }
        Ok(())
    }

    /// Reads once.
    fn read(&mut self, buffer: &mut [u8]) -> Result<()> {
        match (&*self.stream).read(buffer) {
            Ok(0) => Err(self.ended().into()),
            Ok(count) => {
                self.incoming
                    .extend(buffer.get(..count).unwrap_or_default());
                Ok(())
            }
            Err(error) if is_temporary(error.kind()) => Ok(()),
            Err(_) => Err(self.ended().into()),
        }
    }
}

fn is_temporary(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// The bytes that a socket took; none if it is full.
fn taken(written: std::io::Result<usize>) -> std::io::Result<usize> {
    match written {
        Err(error) if is_temporary(error.kind()) => Ok(0),
        other => other,
    }
}

/// Blocks until one of them can be read, or has ended.
pub(super) fn wait_for_input(streams: &[Arc<TcpStream>]) -> Result<()> {
    let fds = streams.iter().map(|stream| fd(stream));
    let polled = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let mut polled: Vec<PollFd<'_>> = polled.collect();
    wait(&mut polled, None)
}

fn fd(stream: &TcpStream) -> std::os::fd::BorrowedFd<'_> {
    std::os::fd::AsFd::as_fd(stream)
}

fn wait(polled: &mut [PollFd<'_>], limit: Option<&Timespec>) -> Result<()> {
    match poll(polled, limit) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// All connections of a process.
pub(super) struct Links {
    rank: usize,
    /// For each process the neighbour to which messages for it go.
    steps: Vec<usize>,
    links: Vec<Link>,
    /// Messages for the program.
    inbox: VecDeque<Message>,
    buffer: Vec<u8>,
    /// In process 0: other programs that have closed.
    closed: usize,
    /// The last message was sent on each connection.
    has_said_end: bool,
    /// The connections have been shut down.
    pub(super) is_over: bool,
}

impl Links {
    pub(super) fn new(rank: usize, steps: Vec<usize>, links: Vec<Link>) -> Self {
        Self {
            rank,
            steps,
            links,
            inbox: VecDeque::new(),
            buffer: vec![0; READ],
            closed: 0,
            has_said_end: false,
            is_over: false,
        }
    }

    pub(super) fn take(&mut self) -> Option<Message> {
        self.inbox.pop_front()
    }

    /// Writes a message of this process, or keeps it where a socket is full.
    pub(super) fn send(&mut self, to: usize, tag: Tag, payload: &[u8]) -> Result<()> {
        let header = Header {
            to,
            from: self.rank,
            tag,
            length: payload.len(),
        };
        self.pass(header, payload)
    }

    /// Gives a message to the program, or to the next process on its way.
    fn pass(&mut self, header: Header, payload: &[u8]) -> Result<()> {
        if header.to == self.rank && header.tag == CLOSED {
            self.closed += 1;
        } else if header.to == self.rank {
            self.inbox.push_back(Message {
                from: header.from,
                tag: header.tag,
                payload: Bytes::copy_from_slice(payload),
            });
        } else {
            let step = self.steps.get(header.to);
            let mut links = self.links.iter_mut();
            let link = links.find(|link| Some(&link.rank) == step);
            let unknown = || format!("there is no process {}", header.to);
            link.ok_or_else(unknown)?.write(header, payload)?;
        }
        Ok(())
    }

    /// Reads and writes what can be; if `blocks`, waits until something can be.
    pub(super) fn progress(&mut self, blocks: bool) -> Result<()> {
        let is_polled = |link: &Link| !link.has_ended || !link.outgoing.is_empty();
        let mut polled = Vec::new();
        let mut places = Vec::new();
        for (at, link) in self
            .links
            .iter()
            .enumerate()
            .filter(|(_, link)| is_polled(link))
        {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, !link.has_ended);
            flags.set(PollFlags::OUT, !link.outgoing.is_empty());
            polled.push(PollFd::from_borrowed_fd(fd(&link.stream), flags));
            places.push(at);
        }
        if polled.is_empty() {
            return match blocks {
                true => Err("no other process is there".into()),
                false => Ok(()),
            };
        }
        wait(&mut polled, (!blocks).then_some(&AT_ONCE))?;
        let ready: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        for (at, ready) in places.into_iter().zip(ready) {
            let Some(link) = self.links.get_mut(at) else {
                continue;
            };
            if ready.contains(PollFlags::OUT) {
                link.write_kept()?;
            }
            if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) && !link.has_ended
            {
                link.read(&mut self.buffer)?;
                let bytes = std::mem::take(&mut link.incoming);
                self.take_messages(at, bytes)?;
            }
        }
        Ok(())
    }

    /// Passes on the complete messages in what came on a connection, and keeps the rest.
    fn take_messages(&mut self, at: usize, mut bytes: Vec<u8>) -> Result<()> {
        let mut rest = &bytes[..];
        while let Some((header, after)) = rest.split_first_chunk() {
            let header = Header::decode(*header);
            if header.length > LONGEST {
                return Err(format!("a message of {} bytes is too long", header.length).into());
            }
            let Some((payload, after)) = after.split_at_checked(header.length) else {
                break;
            };
            rest = after;
            if header.tag == END {
                if let Some(link) = self.links.get_mut(at) {
                    link.has_ended = true;
                }
                self.say_end()?;
            } else {
                self.pass(header, payload)?;
            }
        }
        let used = bytes.len() - rest.len();
        bytes.drain(..used);
        if let Some(link) = self.links.get_mut(at) {
            link.incoming = bytes;
        }
        Ok(())
    }

    /// Blocks until the sockets have taken everything. Others may wait for this process to read, so
    /// it reads meanwhile.
    pub(super) fn flush(&mut self) -> Result<()> {
        while self.links.iter().any(|link| !link.outgoing.is_empty()) {
            self.progress(true)?;
        }
        Ok(())
    }

    /// Waits until all programs have closed. Process 0 hears it from each; then the ends of the
    /// connections spread from it: after that no message is on its way.
    pub(super) fn close(&mut self) -> Result<()> {
        if self.rank == 0 {
            let others = self.steps.len() - 1;
            while self.closed < others {
                self.progress(true)?;
            }
            self.say_end()?;
        } else {
            self.send(0, CLOSED, &[])?;
        }
        self.flush()?;
        while self.links.iter().any(|link| !link.has_ended) {
            self.progress(true)?;
        }
        self.flush()
    }

    fn say_end(&mut self) -> Result<()> {
        if !self.has_said_end {
            self.has_said_end = true;
            let header = Header {
                to: 0,
                from: self.rank,
                tag: END,
                length: 0,
            };
            for link in &mut self.links {
                link.write(header, &[])?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_return_as_they_were() {
        let header = Header {
            to: 700,
            from: 3,
            tag: Tag(9),
            length: 70_000,
        };
        assert_eq!(Header::decode(header.encode().unwrap()), header);
    }
}
