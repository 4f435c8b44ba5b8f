//! A process of this machine and user whose regions this one maps.

use super::end_mark::EndMark;
use super::segment::{Segment, Use};
use super::wire::{ANSWER, GREETING, RegionAnswer, RegionQuestion, address};
use crate::sys::{self, local};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use suci_layers::remote::{RemoteRegion, Rights};
use suci_proto::types::{Incarnation, NodeId};

/// The time in which the other process answers, unless it is stopped.
const PATIENCE: Duration = Duration::from_millis(500);

/// A connection to the process, and a descriptor of the process itself: its children may hold the
/// other end of the connection beyond its end.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) incarnation: Incarnation,
    stream: UnixStream,
    process: OwnedFd,
    end_mark: EndMark,
    /// One question at a time.
    asking: Mutex<()>,
    ended: AtomicBool,
}

impl Link {
    /// Connects to the process of a session. Fails if it is not on this machine, or offers no
    /// memory, or is of another user.
    pub(super) fn open(node: NodeId, incarnation: Incarnation) -> io::Result<Self> {
        let stream = UnixStream::connect_addr(&address(node, incarnation)?)?;
        let other = local::credentials(&stream)?;
        if other.user != sys::user() {
            // Somebody else took the address.
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // The process answers questions later, so that the descriptor is not of another one that
        // has its number since.
        let process = local::process_descriptor(other.process)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut greeting = [0; GREETING.len()];
        let (count, end_mark) = receive(&stream, &mut greeting)?;
        let end_mark = end_mark.filter(|_| count == greeting.len() && greeting == GREETING);
        let end_mark = EndMark::open(&end_mark.ok_or(io::ErrorKind::InvalidData)?)?;
        Ok(Self {
            incarnation,
            stream,
            process,
            end_mark,
            asking: Mutex::new(()),
            ended: AtomicBool::new(false),
        })
    }

    /// Maps a region. Fails if the other process does not offer it.
    pub(super) fn map(&self, region: &RemoteRegion) -> io::Result<(Segment, Rights)> {
        let _one = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let answered = self.ask(region);
        // An answer that comes later must not be taken for one to another question.
        if answered.is_err() {
            self.end();
        }
        let (answer, file) = answered?;
        let (Some(rights), Some(file)) = (answer.rights, file) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let wanted = match rights.contains(Rights::WRITE) || rights.contains(Rights::ATOMIC) {
            true => Use::Change,
            false => Use::Read,
        };
        Ok((Segment::open(&file, answer.length, wanted)?, rights))
    }

    fn ask(&self, region: &RemoteRegion) -> io::Result<(RegionAnswer, Option<OwnedFd>)> {
        local::send(&self.stream, RegionQuestion::about(region).bytes(), None)?;
        let mut bytes = [0; ANSWER + 1];
        let (count, file) = receive(&self.stream, &mut bytes)?;
        let answer = bytes.get(..count).and_then(RegionAnswer::read);
        Ok((answer.ok_or(io::ErrorKind::InvalidData)?, file))
    }

    /// The descriptors that become ready when the process ends or closes its node.
    pub(super) fn descriptors(&self) -> [RawFd; 2] {
        [self.process.as_raw_fd(), self.stream.as_raw_fd()]
    }

    /// Notes that the process is gone.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Whether the process has ended, or closed its node: its memory means nothing any more.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire) || self.end_mark.is_set()
    }
}

/// Receives a message of the other process.
fn receive(stream: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    loop {
        match local::receive(stream, bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            received => return received,
        }
    }
}

/// Returns the entries to wait for the end of the process, or of the connection.
pub(super) fn entries([process, stream]: [RawFd; 2]) -> [libc::pollfd; 2] {
    let entry = |fd, events| libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // That a connection is closed is reported in any case.
    [entry(process, libc::POLLIN), entry(stream, 0)]
}
