//! Any fragments and requests against the inbox, with a second, naive opinion of what comes out.
//!
//! The input is a list of operations of a few bytes each, with small numbers, so that fragments meet; one
//! operation takes raw frames as from the wire. The naive model keeps single bytes, the first of each winning.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use suci_proto::message::{Answer, Inbox, InboxLimits, Message, Pool};
use suci_proto::types::{ChannelId, Kind, MessageNumber};
use suci_proto::wire::{Frag, Frame, Rts, Start, frames};

const WINDOW: u64 = 20_000;
const LARGE: u64 = 8_000;
const MAX_MESSAGE: u64 = 4_000;
const CHANNELS: usize = 4;

/// The naive opinion.
#[derive(Default)]
struct Model {
    messages: BTreeMap<(ChannelId, MessageNumber), Pieces>,
    refused: Vec<(ChannelId, MessageNumber)>,
    next: BTreeMap<ChannelId, MessageNumber>,
}

#[derive(Default)]
struct Pieces {
    total: Option<u64>,
    start: Option<(u64, Kind, Vec<u8>)>,
    bytes: BTreeMap<u64, u8>,
    done: bool,
}

impl Pieces {
    fn finish(&mut self) {
        self.done = self.start.is_some() && self.total == Some(self.bytes.len() as u64);
    }
}

impl Model {
    /// A fragment that the inbox took.
    fn take(&mut self, frag: &Frag<'_>) {
        let pieces = self
            .messages
            .entry((frag.channel, frag.message))
            .or_default();
        if pieces.done {
            return;
        }
        pieces.total = pieces.total.or(frag.total());
        if let (None, Some(start)) = (&pieces.start, &frag.start) {
            pieces.start = Some((start.tag, start.kind, start.user_header.to_vec()));
        }
        for (at, byte) in (frag.offset..).zip(frag.data) {
            pieces.bytes.entry(at).or_insert(*byte);
        }
        pieces.finish();
    }

    /// A request that the inbox took.
    fn announce(&mut self, rts: &Rts<'_>) {
        let pieces = self.messages.entry((rts.channel, rts.message)).or_default();
        if pieces.start.is_none() {
            pieces.total = Some(rts.total);
            pieces.start = Some((rts.tag, rts.kind, rts.user_header.to_vec()));
        }
    }

    fn check(&mut self, message: &Message) {
        let next = self.next.entry(message.channel).or_default();
        while self.refused.contains(&(message.channel, *next)) {
            *next += 1;
        }
        assert_eq!(message.number, *next, "in order, without gaps");
        *next += 1;
        let pieces = &self.messages[&(message.channel, message.number)];
        assert!(pieces.done, "complete");
        let (tag, kind, header) = pieces.start.as_ref().expect("it is done");
        assert_eq!((message.tag, message.kind), (*tag, *kind));
        assert_eq!(message.user_header, *header);
        assert!(
            message.payload.iter().eq(pieces.bytes.values()),
            "first bytes win"
        );
    }
}

/// Reads operations off the input.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        u64::from(u16::from_le_bytes([self.byte(), self.byte()]))
    }

    fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}

/// A fragment as the wire could have brought it.
fn frag<'a>(input: &mut Input<'_>, filler: &'a [u8]) -> Option<Frag<'a>> {
    let (place, flags) = (input.byte(), input.byte());
    let (channel, message) = (ChannelId(u32::from(place & 3)), u64::from(place >> 2 & 7));
    let total = input.number();
    let offset = if flags & 1 == 0 { 0 } else { input.number() };
    let from = usize::from(input.byte());
    let len = usize::from(input.byte()) << (flags >> 1 & 3);
    let data = filler.get(from..from + len)?;
    let reach = offset + data.len() as u64;
    let end = if offset == 0 {
        reach == total
    } else {
        flags & 8 != 0
    };
    let user_header = if flags & 16 == 0 { &[][..] } else { b"header" };
    let kind = Kind(flags >> 5);
    let start = (offset == 0).then_some(Start {
        total,
        tag: 7,
        kind,
        user_header,
    });
    let valid = if offset == 0 { reach <= total } else { len > 0 };
    valid.then_some(Frag {
        channel,
        message,
        offset,
        end,
        start,
        data,
    })
}

/// Does one operation. False if the connection would be closed.
fn operate(input: &mut Input<'_>, filler: &[u8], inbox: &mut Inbox, model: &mut Model) -> bool {
    let take = |inbox: &mut Inbox, model: &mut Model, frame: Frame<'_>| match frame {
        Frame::Frag(frag) => inbox.on_frag(&frag).map(|()| model.take(&frag)).is_ok(),
        Frame::Rts(rts) => inbox.on_rts(&rts).map(|()| model.announce(&rts)).is_ok(),
        _ => true,
    };
    match input.byte() % 8 {
        0..=3 => frag(input, filler).is_none_or(|frag| take(inbox, model, Frame::Frag(frag))),
        4 => {
            let place = input.byte();
            let (channel, message) = (ChannelId(u32::from(place & 3)), u64::from(place >> 2 & 7));
            let (total, tag, kind, user_header) = (input.number(), 7, Kind::USER, &[][..]);
            let rts = Rts {
                channel,
                message,
                total,
                tag,
                kind,
                user_header,
            };
            take(inbox, model, Frame::Rts(rts))
        }
        5 => {
            let len = usize::from(input.byte());
            let mut alive = true;
            for frame in frames(input.bytes(len)) {
                let Ok(frame) = frame else { return false };
                alive = alive && take(inbox, model, frame);
            }
            alive
        }
        6 => {
            for _ in 0..input.byte() % 8 {
                let Some(message) = inbox.pop() else { break };
                model.check(&message);
            }
            true
        }
        _ => {
            talk(input, inbox, model);
            true
        }
    }
}

/// The program decides, and answers are sent or lost.
fn talk(input: &mut Input<'_>, inbox: &mut Inbox, model: &mut Model) {
    while let Some(info) = inbox.poll_incoming() {
        let (channel, number) = (info.channel, info.number);
        assert!(info.total > MAX_MESSAGE);
        match input.byte() % 3 {
            0 => {
                inbox.refuse(channel, number, 1).expect("it waits");
                model.refused.push((channel, number));
            }
            1 if info.total < 1 << 20 => {
                let buffer = vec![0; info.total as usize];
                inbox
                    .accept(channel, number, Some(buffer))
                    .expect("long enough");
            }
            _ => assert_eq!(
                inbox.accept(channel, number, None).is_ok(),
                info.total <= LARGE
            ),
        }
    }
    let mut limits = BTreeMap::new();
    while let Some(answer) = inbox.poll_answer() {
        if let Answer::MaxChannel { channel, limit } = answer {
            assert!(
                limits.insert(channel, limit) <= Some(limit),
                "limits only rise"
            );
        }
        if input.byte() & 1 == 1 {
            inbox.on_lost(&answer.frame().1);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let filler: Vec<u8> = (0..4_096_u32).map(|n| (n * n >> 3) as u8).collect();
    let limits = InboxLimits {
        channel_window: WINDOW / 2,
        session_window: WINDOW,
        max_message: MAX_MESSAGE,
        max_channels: CHANNELS,
        max_large: LARGE,
    };
    let mut inbox = Inbox::new(limits, Pool::new(1 << 16));
    let mut model = Model::default();
    let mut input = Input(data);
    while !input.0.is_empty() && operate(&mut input, &filler, &mut inbox, &mut model) {
        assert!(inbox.memory_used() <= WINDOW + LARGE, "promise 6");
        assert!(inbox.large_held() <= LARGE);
    }
    while let Some(message) = inbox.pop() {
        model.check(&message);
        assert!(inbox.memory_used() <= WINDOW + LARGE, "promise 6");
    }
});
