//! The message part of a packet.

use suci_channels::message::{Outbox, SMALL, SentFrame};
use suci_link::link::{PADDING_LIMIT, Recorded};
use suci_link::recovery::Content;
use suci_link::train::Train;

/// A packet is padded, and does not end its train, if only a message with a long user header did
/// not fit.
const _: () = assert!(PADDING_LIMIT == SMALL + 32);

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
    frames: &mut Vec<Recorded<SentFrame>>,
) -> Written {
    let mut resent = 0;
    let closed = loop {
        let room = size.saturating_sub(train.packet_len());
        let Some(put) = outbox.next(room, train.head()) else {
            break false;
        };
        remember(frames, Recorded::Cargo(put.sent));
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

/// Adds a frame to the content of a packet.
fn remember(frames: &mut Vec<Recorded<SentFrame>>, sent: Recorded<SentFrame>) {
    if !frames.last_mut().is_some_and(|last| last.adjoin(&sent)) {
        frames.push(sent);
    }
}
