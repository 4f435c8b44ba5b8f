//! One end of a connection: its state, and the windows of its two directions.

use super::{
    Address, ConnectionFailure, MAX_WINDOW, MEMORY, MIN_WINDOW, SEGMENT, SEGMENT_CHARGE, SocketId,
    SocketKind,
};
use bytes::Bytes;
use std::collections::VecDeque;
use suci_proto::time::Instant;
use suci_proto::types::ChannelId;

/// A shorter part of what a program sends waits for more credit. A receiver that has read all gives
/// credit before less than half of its window is left, so the wait ends.
pub(super) const MIN_PART: u64 = 1 << 10;

const _: () = assert!(MIN_PART + SEGMENT_CHARGE <= MIN_WINDOW / 2);

/// The state of a connection, as one end sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// OPEN waits for its answer, until this time.
    Opening(Instant),
    /// Both directions are open, or were ended singly.
    Open,
    /// The program closed the socket; the rest of its last message waits for room.
    Flushing,
    /// The program closed the socket; the peer's answer is awaited.
    Closing,
    /// The peer closed. What came before can be read until the program closes the socket, too.
    PeerClosed,
    /// The connection failed. What came before can be read.
    Failed(ConnectionFailure),
}

impl State {
    /// Returns true if the peer may still have something to say.
    pub(super) const fn is_live(self) -> bool {
        matches!(
            self,
            Self::Opening(_) | Self::Open | Self::Flushing | Self::Closing
        )
    }
}

/// The bytes that the sockets promised to their peers in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PromisedMemory {
    pub(super) promised: u64,
}

impl PromisedMemory {
    /// Promises a new socket its first window: smaller ones as memory gets scarce. Returns `None`
    /// if there is none.
    pub(super) fn first_window(&mut self) -> Option<u64> {
        let window = match self.promised {
            promised if promised < MEMORY / 8 => 16 * MIN_WINDOW,
            promised if promised < MEMORY / 4 => 4 * MIN_WINDOW,
            _ => MIN_WINDOW,
        };
        (self.promised + window <= MEMORY).then(|| self.promised += window)?;
        Some(window)
    }

    pub(super) const fn has_room(&self) -> bool {
        self.promised + MIN_WINDOW <= MEMORY
    }

    pub(super) fn release(&mut self, window: u64) {
        self.promised = self.promised.saturating_sub(window);
    }

    /// Returns the next window of a socket that used up half of one. Half of the memory is left to
    /// new sockets.
    fn next_window(&mut self, window: u64) -> u64 {
        let next = if self.promised + window <= MEMORY / 2 {
            (2 * window).min(MAX_WINDOW)
        } else if self.promised > MEMORY / 4 * 3 {
            (window / 2).max(MIN_WINDOW)
        } else {
            window
        };
        self.promised = self.promised - window + next;
        next
    }
}

/// A part of a stream or message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) bytes: Bytes,
    /// It ends a message.
    pub(super) last: bool,
}

/// Returns the amount that a segment of this length counts in the window.
pub(super) const fn charge(length: usize) -> u64 {
    length as u64 + SEGMENT_CHARGE
}

/// The direction towards this end.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    segments: VecDeque<Segment>,
    /// Bytes and charges that were received.
    received: u64,
    /// Bytes and charges that the program took.
    taken: u64,
    /// Bytes and charges that the peer may send in all.
    limit: u64,
    /// Bytes and charges that the peer may send beyond those that the program took.
    pub(super) window: u64,
    /// Bytes and charges that were dropped since the program closed the socket.
    pub(super) dropped: u64,
    /// The peer sends nothing more.
    pub(super) ended: bool,
}

impl Incoming {
    pub(super) const fn new(window: u64) -> Self {
        Self {
            segments: VecDeque::new(),
            received: 0,
            taken: 0,
            limit: window,
            window,
            dropped: 0,
            ended: false,
        }
    }

    /// Counts a segment. Returns false if it exceeds the window, or comes after the end.
    fn count(&mut self, length: usize) -> bool {
        let received = self.received + charge(length);
        if received > self.limit || self.ended {
            return false;
        }
        self.received = received;
        true
    }

    /// Takes a segment. Returns false if it exceeds the window, or comes after the end.
    pub(super) fn push(&mut self, segment: Segment) -> bool {
        let fits = self.count(segment.bytes.len());
        if fits {
            self.segments.push_back(segment);
        }
        fits
    }

    /// Takes an empty segment that no program reads, as [`Incoming::push`] does.
    pub(super) fn skip(&mut self) -> bool {
        let fits = self.count(0);
        if fits {
            self.taken += charge(0);
        }
        fits
    }

    pub(super) fn pop(&mut self) -> Option<Segment> {
        let segment = self.segments.pop_front()?;
        self.taken += charge(segment.bytes.len());
        Some(segment)
    }

    /// Drops what arrived. Returns how many bytes.
    pub(super) fn drop_all(&mut self) -> u64 {
        let mut bytes = 0;
        while let Some(segment) = self.pop() {
            bytes += segment.bytes.len() as u64;
            self.dropped += charge(segment.bytes.len());
        }
        bytes
    }

    /// Returns the new limit that the peer is to be told, if half of the window was used up.
    pub(super) fn grant(&mut self, memory: &mut PromisedMemory) -> Option<u64> {
        let left = self.limit - self.taken;
        if self.ended || left > self.window / 2 {
            return None;
        }
        self.window = memory.next_window(self.window);
        self.limit = self.taken + self.window;
        Some(self.limit)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.segments = VecDeque::new();
    }
}

/// The direction towards the peer.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent {
    /// Bytes and charges that were sent.
    sent: u64,
    /// Bytes and charges that may be sent in all.
    limit: u64,
    /// The program sends nothing more.
    pub(super) ended: bool,
    /// The rest of a message whose first part was sent.
    pub(super) rest: Bytes,
}

impl Sent {
    /// Raises the limit. Returns whether that lets the program send again.
    pub(super) fn set_limit(&mut self, limit: u64) -> bool {
        let before = self.has_room();
        self.limit = self.limit.max(limit);
        !before && self.has_room()
    }

    pub(super) const fn has_room(&self) -> bool {
        self.limit.saturating_sub(self.sent) >= MIN_PART + SEGMENT_CHARGE
    }

    /// Takes credit for the next part of `length` bytes. Returns its length; `None` if it must
    /// wait.
    pub(super) fn take(&mut self, length: usize) -> Option<usize> {
        let credit = self.limit.saturating_sub(self.sent);
        let most = credit.checked_sub(SEGMENT_CHARGE)?;
        let part = length.min(SEGMENT).min(usize::try_from(most).ok()?);
        if part < length && (part as u64) < MIN_PART {
            return None;
        }
        self.sent += charge(part);
        Some(part)
    }
}

/// One end of a connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) port: u16,
    pub(super) peer: Address,
    /// The peer's socket, once it is known.
    pub(super) remote: SocketId,
    pub(super) kind: SocketKind,
    pub(super) channel: ChannelId,
    pub(super) state: State,
    pub(super) incoming: Incoming,
    pub(super) sent: Sent,
}

impl Connection {
    /// Returns true if a call that receives has something to say.
    pub(super) fn is_readable(&self) -> bool {
        let over = matches!(self.state, State::PeerClosed | State::Failed(_));
        !self.incoming.is_empty() || self.incoming.ended || over
    }

    /// Returns why nothing can be sent, if that is so for ever.
    pub(super) const fn send_failure(&self) -> Option<ConnectionFailure> {
        match self.state {
            State::Opening(_) => Some(ConnectionFailure::NotConnected),
            State::Open if self.sent.ended => Some(ConnectionFailure::BrokenPipe),
            State::Open => None,
            State::Flushing | State::Closing => Some(ConnectionFailure::Closed),
            State::PeerClosed => Some(ConnectionFailure::BrokenPipe),
            State::Failed(failure) => Some(failure),
        }
    }
}
