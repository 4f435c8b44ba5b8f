//! Both halves against each other, through the bytes of the wire.

mod alike_frames;
mod alike_payloads;
mod cancel;
mod credit;
mod ending;
mod footprint;
mod frame_batches;
mod lossy;
mod placement;
mod priorities;
mod receiving;
mod requests;
mod sending;

use super::cold::WARM;
use super::sizes::{len64, to_usize};
use super::*;
use bytes::Bytes;
use core::ops::Range;
use suci_link::limits::{MAX_CHANNELS, MIN_CHANNELS};
use suci_link::recovery::Content;
use suci_link::time::Duration;
use suci_link::types::{ChannelId, Kind, MessageNumber, NodeId, ProtocolError};
use suci_link::wire::{self, Frag, Frame, Rts, Start};

/// Room of an empty packet at MTU 1500.
const ROOM: usize = 1_444;

const C0: ChannelId = ChannelId(0);
const C1: ChannelId = ChannelId(1);

/// A packet as it was built.
#[derive(Clone, Debug)]
struct Packet {
    bytes: Vec<u8>,
    sent: Vec<SentFrame>,
}

fn limits() -> OutboxLimits {
    OutboxLimits {
        rts_threshold: 100_000,
        max_queued_bytes: 10_000_000,
        max_queued_messages: 100_000,
        ride: 0,
        reply_reserve: 0,
        group_reserve: 0,
    }
}

/// An outbox with plenty of credit.
fn outbox() -> Outbox {
    let mut outbox = Outbox::new(limits());
    outbox.set_initial_channel_limit(1 << 30);
    outbox.set_session_limit(1 << 30);
    outbox.set_max_channels(MIN_CHANNELS);
    outbox
}

fn inbox_limits() -> InboxLimits {
    InboxLimits {
        channel_window: 1 << 20,
        session_window: 1 << 21,
        max_message: 1 << 20,
        max_channels: MAX_CHANNELS,
        max_large: 1 << 20,
    }
}

fn inbox() -> Inbox {
    Inbox::new(inbox_limits(), Pool::new(1 << 20))
}

/// Returns bytes by which any two offsets of any two messages differ, with high probability.
fn content(seed: u64, len: usize) -> Bytes {
    (0..len as u64)
        .map(|at| {
            (at.wrapping_add(seed << 32)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                >> 56) as u8
        })
        .collect()
}

fn message(channel: ChannelId, payload: Bytes) -> Outgoing {
    Outgoing {
        channel,
        tag: 0,
        kind: Kind::USER,
        user_header: Bytes::new(),
        payload,
        notify: true,
        token: 0,
        deadline: None,
    }
}

/// Queues messages of `len` bytes, which get these numbers.
fn push(outbox: &mut Outbox, channel: ChannelId, numbers: Range<u64>, len: usize) {
    for number in numbers {
        let pushed = outbox.push(message(channel, content(number, len)));
        assert_eq!(pushed.unwrap(), number);
    }
}

/// Builds a packet as the engine does.
fn packet(outbox: &mut Outbox, full: usize) -> Option<Packet> {
    let mut bytes = Vec::new();
    let mut sent: Vec<SentFrame> = Vec::new();
    loop {
        let room = full - bytes.len();
        let before = bytes.len();
        let Some(put) = outbox.next(room, &mut bytes) else {
            break;
        };
        let mut copied = put.payload;
        if let Some((payload, range)) = put.reference {
            copied -= range.len() as u64;
            bytes.extend_from_slice(&payload[range]);
        }
        assert!(bytes.len() <= full, "{} of {full}", bytes.len());
        assert!(bytes.len() > before && copied <= (bytes.len() - before) as u64);
        let (sent_now, is_full, closed) = (put.sent, put.full, put.closed);
        if !sent.last_mut().is_some_and(|last| last.adjoin(&sent_now)) {
            sent.push(sent_now);
        }
        if closed {
            break;
        }
        if is_full {
            let next = outbox.next(full - bytes.len(), &mut bytes);
            assert!(next.is_none(), "no room for what is next");
        }
    }
    (!sent.is_empty()).then_some(Packet { bytes, sent })
}

/// All packets that may go now.
fn packets(outbox: &mut Outbox, full: usize) -> Vec<Packet> {
    let packets = std::iter::from_fn(|| packet(outbox, full)).collect();
    assert!(
        !outbox.has_sendable(),
        "nothing but what does not fit an empty packet is left"
    );
    packets
}

/// Hands a packet to the inbox as a peer does.
fn take(inbox: &mut Inbox, packet: &Packet) -> Result<(), ProtocolError> {
    let mut frames = wire::frames(&packet.bytes);
    loop {
        if let Some(batch) = frames.next_batch() {
            inbox.on_batch(&batch)?;
            continue;
        }
        let Some(frame) = frames.next() else {
            return Ok(());
        };
        match frame? {
            Frame::Frag(frag) => inbox.on_frag(&frag)?,
            Frame::Rts(rts) => inbox.on_rts(&rts)?,
            Frame::Fin { channel, count } => inbox.on_fin(channel, count)?,
            Frame::Padding(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn acked(outbox: &mut Outbox, packet: &Packet) {
    for frame in &packet.sent {
        outbox.on_acked(frame);
    }
}

fn lost(outbox: &mut Outbox, packet: &Packet) {
    for frame in &packet.sent {
        outbox.on_lost(frame);
    }
}

/// Tells the outbox what the inbox has to say.
fn answers(inbox: &mut Inbox, outbox: &mut Outbox) {
    outbox.set_session_limit(inbox.session_limit());
    while let Some(answer) = inbox.poll_answer() {
        answer_one(answer, outbox);
    }
}

fn answer_one(answer: Answer, outbox: &mut Outbox) {
    match answer {
        Answer::Cts { channel, message } => outbox.on_cts(channel, message).unwrap(),
        Answer::Refuse {
            channel,
            message,
            reason,
        } => {
            outbox.on_refused(channel, message, reason).unwrap();
        }
        Answer::MaxChannel { channel, limit } => outbox.set_channel_limit(channel, limit),
        Answer::MaxChannels { limit } => outbox.set_max_channels(limit),
    }
}

fn pop_all(inbox: &mut Inbox) -> Vec<Message> {
    std::iter::from_fn(|| inbox.pop()).collect()
}

fn completions(outbox: &mut Outbox) -> Vec<(u64, Outcome)> {
    std::iter::from_fn(|| outbox.poll_completion())
        .map(|c| (c.number, c.outcome))
        .collect()
}

/// A piece of a message of `total` bytes on channel 0, with the right content unless `data` says
/// else.
fn frag(message: u64, total: u64, offset: u64, data: &[u8]) -> Frag<'_> {
    let end = offset + data.len() as u64 == total;
    let start = (offset == 0).then_some(Start {
        total,
        tag: 5,
        kind: Kind::USER,
        user_header: b"h",
    });
    Frag {
        channel: C0,
        message,
        offset,
        end,
        start,
        data,
    }
}

fn rts(message: u64, total: u64) -> Rts<'static> {
    Rts {
        channel: C0,
        message,
        total,
        tag: 5,
        kind: Kind::USER,
        user_header: b"h",
    }
}

/// Returns the channel and message of each frame of a packet.
fn names(packet: &Packet) -> Vec<(ChannelId, u64)> {
    let frames = wire::frames(&packet.bytes).map(Result::unwrap);
    let names = frames.filter_map(|frame| match frame {
        Frame::Frag(frag) => Some((frag.channel, frag.message)),
        _ => None,
    });
    names.collect()
}

#[test]
fn empty_messages_are_not_free() {
    assert_eq!(charge(0, 0), 64);
    assert_eq!(charge(100, 7), 171);
    assert_eq!(charge(u64::MAX, 7), u64::MAX);
}
