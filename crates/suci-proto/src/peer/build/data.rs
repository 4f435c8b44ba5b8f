//! The message part of a packet.

use super::{Contents, Permit};
use crate::peer::connected::Connected;
use suci_channels::message::{Outbox, SMALL};
use suci_link::link::PING_EVERY;
use suci_link::recovery::{MAX_CONTROL, SentFrame};
use suci_link::train::Train;
use suci_link::wire::{Frame, Mode};

/// Bound of padding in a packet that is shorter than its train's segments. A packet that would need
/// more ends the train instead. More room is left only if a message with a long user header did not
/// fit.
const PADDING_LIMIT: usize = SMALL + 32;

/// The result of [`write_data`].
pub(in crate::peer) struct Written {
    /// The packet cannot be padded any more.
    pub(in crate::peer) closed: bool,
    /// Bytes of messages that were sent before.
    pub(in crate::peer) resent: u64,
}

/// Writes messages of `outbox` until the packet has `size` bytes or no message may be sent.
pub(in crate::peer) fn write_data(
    outbox: &mut Outbox,
    size: usize,
    train: &mut Train,
    frames: &mut Vec<SentFrame>,
) -> Written {
    let mut resent = 0;
    let closed = loop {
        let room = size.saturating_sub(train.packet_len());
        let Some(put) = outbox.next(room, train.head()) else {
            break false;
        };
        remember(frames, put.sent);
        resent += if put.resent { put.payload } else { 0 };
        let mut copied = put.payload;
        if let Some((payload, range)) = put.reference {
            copied = copied.saturating_sub(range.len() as u64);
            train.reference(payload, range.start, range.len());
        }
        train.note_copied(copied);
        if put.closed || put.full {
            break put.closed;
        }
    };
    Written { closed, resent }
}

impl Connected<'_> {
    /// Adds a PING if this packet is the last one of a long queue in Throughput mode, or if it is a
    /// control packet and half of the permitted control packets are in flight.
    pub(super) fn ping_at_the_end(
        &mut self,
        permit: Permit,
        train: &mut Train,
        contents: &mut Contents,
    ) {
        let connection = &*self.connection;
        let many = connection.link.since_ping >= PING_EVERY * connection.link.mtu.current() as u64;
        let seldom = connection.link.modes.ours() == Mode::Throughput;
        let crowded =
            contents.control && connection.link.recovery.control_in_flight() >= MAX_CONTROL / 2;
        let outbox = &mut self.session.outbox;
        let last = many && seldom && contents.data && !outbox.has_sendable();
        if (last || crowded) && train.packet_len() < permit.size {
            Frame::Ping.put(train.head());
            contents.ping = true;
        }
    }

    /// Fills the packet up with padding if another of the same size can follow.
    pub(super) fn pad(&mut self, permit: Permit, train: &mut Train) {
        let short = permit.size.saturating_sub(train.packet_len());
        if permit.data && (1..=PADDING_LIMIT).contains(&short) && self.session.outbox.has_sendable()
        {
            Frame::Padding(short).put(train.head());
        }
    }
}

/// Adds a frame to the content of a packet.
fn remember(frames: &mut Vec<SentFrame>, sent: SentFrame) {
    if !frames.last_mut().is_some_and(|last| last.adjoin(&sent)) {
        frames.push(sent);
    }
}
