//! The joint between a link and what it carries.

use super::Recorded;
use crate::credit::SocketReturn;
use crate::rate_cap::RateCap;
use crate::time::{Duration, Instant};
use crate::train::Train;
use crate::types::{PacketNumber, ProtocolError};
use crate::wire::{Blocked, Close, ContiguousPackets, Credit, Frame, Mode, PacketPart};
use core::ops::RangeInclusive;
use std::net::SocketAddr;

/// The limit that keeps a packet of messages back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The program's steering function.
    Steering,
    /// The congestion window.
    Congestion,
    /// The pacer.
    Pacing,
    /// The peer's socket has no room, as far as it granted.
    Credit,
    /// The program's cap on the rate.
    Cap,
    /// This end gave the other one's slot to another peer.
    Dismissed,
}

/// A session, as its link sees it: the messages and answers that wait to be sent. Most methods have
/// a default, for sessions that know neither classes nor memory credit.
///
/// The link asks while it builds packets: first whether anything can go, then for the content of
/// each packet. The session describes content by a token `T`, which it gets back with the packet's
/// [`Fate`].
pub trait Cargo<T> {
    /// The reasons why messages wait: those of the link, and others.
    type Wait: From<Held>;

    /// Returns true if messages can go now, as far as the session is concerned.
    fn is_sendable(&mut self) -> bool;

    /// Returns why messages that wait cannot go; `None` if none waits.
    fn wait_reason(&mut self) -> Option<Self::Wait> {
        None
    }

    /// Returns true if this end gave the other one's slot to another peer: nothing more is carried
    /// to it, but what waits still counts.
    fn is_dismissed(&self) -> bool {
        false
    }

    /// Writes messages into the packet under construction, until it has `size` bytes or none may
    /// go. Adds the content to `frames`, for the report of its fate.
    fn write(&mut self, size: usize, train: &mut Train, frames: &mut Vec<Recorded<T>>) -> Written;

    /// Returns a random number that nobody can foresee.
    fn random(&mut self) -> u64;

    /// Returns true if all that can go fits into `room` bytes of packets.
    fn fits(&self, _room: usize) -> bool {
        false
    }

    /// Returns true if nothing must be told before more messages follow, and some can go.
    fn goes_on(&mut self) -> bool {
        self.is_sendable()
    }

    /// Returns true if messages of a higher class may come to this peer or another one.
    fn is_outranked(&mut self) -> bool {
        false
    }

    /// Cuts the next pieces of a large message for packets with `room` bytes behind their headers,
    /// at most `most`, if the packet before carried `frames` and was full of a piece of that
    /// message. `take` puts them into packets, or refuses them. Returns the pieces.
    fn cut(
        &mut self,
        _frames: &[Recorded<T>],
        _room: usize,
        _most: usize,
        _take: impl FnOnce(&Cut<T>) -> bool,
    ) -> Option<Cut<T>> {
        None
    }

    /// Returns the program's cap on the rate of messages, if there is one.
    fn cap(&mut self) -> Option<&mut RateCap> {
        None
    }

    /// Returns true if credit should be told to the peer, even in a packet of its own.
    fn owes_credit(&self) -> bool {
        false
    }

    /// Returns the credit to tell now. `asked`: the link wants it in any case.
    fn take_credit(&mut self, _asked: bool) -> Option<Credit> {
        None
    }

    /// Returns true if answers wait, which need the peer's credit as messages do.
    fn has_answers(&self) -> bool {
        false
    }

    /// Writes answers into the packet, as many as fit. `within_limit`: the packet may carry all
    /// kinds.
    fn write_answers(&mut self, _within_limit: bool, _packet: &mut impl FrameSink<T>) {}

    /// Returns the CLOSE that ends the session.
    fn close(&self) -> Option<Close> {
        None
    }

    /// Returns the bytes that wait for credit, at least one, and the limit of memory credit that
    /// they know. With none the peer would believe that only control packets wait.
    fn waiting(&self) -> (u64, u64) {
        (1, 0)
    }

    /// Returns true if messages wait for the peer's memory.
    fn is_short_of_memory(&self) -> bool {
        false
    }

    /// Returns true if frames of the session may be sent.
    fn is_up(&self) -> bool {
        true
    }

    /// Returns true if the session is over, and the link only repeats its last answers.
    fn is_over(&self) -> bool {
        false
    }

    /// Notes that packets were sent.
    fn on_sent(&mut self, _now: Instant, _sent: &SentTrain) {}
}

/// Learns the fate of content that a session described by `T`.
pub trait Fate<T> {
    /// The content arrived.
    fn acked(&mut self, content: &T);

    /// The packet with the content was lost.
    fn lost(&mut self, content: &T);
}

/// A session, as its link sees it: it takes what arrived. A method whose news it does not need may
/// keep its default, which does nothing.
pub trait Consignee<T>: Cargo<T> + Fate<T> {
    /// Takes messages, or a part of one. Returns true if the acknowledgement may wait for later
    /// messages.
    ///
    /// # Errors
    /// A breach of the protocol, which ends the session.
    fn on_part(&mut self, _part: &PacketPart<'_>) -> Result<bool, ProtocolError> {
        Ok(false)
    }

    /// Takes those of the packets behind the first that carry only messages, as far as it likes to
    /// take them together.
    fn on_contiguous(&mut self, _packets: &mut ContiguousPackets<'_>) {}

    /// Takes a frame that the link does not know.
    ///
    /// # Errors
    /// A breach of the protocol, which ends the session.
    fn on_frame(&mut self, _frame: &Frame<'_>) -> Result<(), ProtocolError> {
        Ok(())
    }

    /// Takes the peer's limit of memory. Returns true if it rose.
    fn on_memory(&mut self, _limit: u64) -> bool {
        false
    }

    /// Learns that something of the peer waits for credit, as the packet `number` said.
    fn on_blocked(&mut self, _now: Instant, _number: PacketNumber, _blocked: &Blocked) {}

    /// Takes credit back.
    fn on_return(&mut self, _now: Instant, _answer: SocketReturn) -> Returned {
        Returned::default()
    }

    /// Learns the mode of the peer's traffic.
    fn on_mode(&mut self, _mode: Mode) {}

    /// Learns that the peer acknowledged packets, after it learnt what was in them, and the least
    /// round trip of the path.
    fn on_ack(&mut self, _least: Duration) {}

    /// Learns that the path moved. Returns what is known of the new one: the UDP payload that it
    /// carries, if the system can tell; the outer `None` if that was not asked yet.
    fn on_moved(
        &mut self,
        _now: Instant,
        _from: SocketAddr,
        _to: SocketAddr,
    ) -> Option<Option<usize>> {
        None
    }

    /// Learns that packets which came to the socket at `arrived` were taken from it: their sender
    /// may send more. `round_trip` is the least one, once it was measured.
    fn on_drained(
        &mut self,
        _now: Instant,
        _arrived: Instant,
        _numbers: RangeInclusive<PacketNumber>,
        _kind: DrainedKind,
        _round_trip: Option<Duration>,
    ) {
    }
}

/// The kind of received packets, as far as it shows what their sender needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainedKind {
    /// They elicit no acknowledgement.
    Ack,
    /// They have control frames such as those of keep-alives. They could use the reserve beyond the
    /// limit, and show no need of credit.
    Control,
    /// They have messages, or report that messages wait for credit (BLOCKED).
    Data,
}

/// The consequences of a RETURN.
#[derive(Clone, Copy, Debug, Default)]
pub struct Returned {
    /// The highest number that the grant allowed, if the RETURN was applied.
    pub allowed: Option<PacketNumber>,
    /// The peer gave up its slot.
    pub is_over: bool,
}

/// Frames for the packet under construction.
pub trait FrameSink<T> {
    /// Adds a frame, and what its loss or acknowledgement means. Returns false, and adds nothing,
    /// if it does not fit.
    fn put(&mut self, frame: Frame<'_>, sent: Option<Recorded<T>>) -> bool;
}

/// Messages that were written into a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// The packet cannot be padded any more.
    pub closed: bool,
}

/// Consecutive pieces of one size, each for a packet of its own.
#[derive(Clone, Copy, Debug)]
pub struct Cut<T> {
    /// Offset of the first piece in its message.
    pub offset: u64,
    /// Bytes of each piece.
    pub len: usize,
    /// Number of pieces: at least one.
    pub count: usize,
    /// Bytes of the frame's head in front of the offset.
    pub lead: usize,
    /// The content of all these packets together.
    pub sent: T,
}

/// Packets that were sent together.
#[derive(Clone, Copy, Debug)]
pub struct SentTrain {
    /// The number of the last one.
    pub last: PacketNumber,
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The peer must acknowledge them.
    pub eliciting: bool,
    /// They carry messages.
    pub data: bool,
    /// One carries an acknowledgement.
    pub acknowledges: bool,
}
