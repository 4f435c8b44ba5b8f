//! Any fragments and requests against the inbox, with a second, naive opinion of the result.
//!
//! The input is a list of operations of a few bytes each, with small numbers, so that fragments
//! meet; one operation takes raw frames as from the wire. The naive model keeps single bytes, of
//! which the first copy wins. After every operation it adds up anew the memory that the inbox must
//! hold.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::{BTreeMap, VecDeque};
use suci_proto::message::{Answer, Inbox, InboxLimits, Message, Pool};
use suci_proto::types::{ChannelId, Kind, MessageNumber};
use suci_proto::wire::{Frag, FragHead, Frame, FrameBatch, Rts, Start, frames};

const WINDOW: u64 = 20_000;
const LARGE: u64 = 8_000;
const MAX_MESSAGE: u64 = 4_000;
const CHANNELS: u64 = 4;

/// The bytes that a message counts beside its length and its user header.
const MESSAGE: u64 = 64;

/// The naive opinion.
#[derive(Default)]
struct Model {
    messages: BTreeMap<Name, Pieces>,
    refused: Vec<Name>,
    /// Large messages that wait for memory, in the order of their requests.
    waiting: VecDeque<Name>,
    channels: BTreeMap<ChannelId, Span>,
}

type Name = (ChannelId, MessageNumber);

/// The messages of a channel that count: from the next that the program takes to one past the
/// highest heard of.
#[derive(Clone, Copy, Default)]
struct Span {
    next: MessageNumber,
    end: MessageNumber,
}

#[derive(Default)]
struct Pieces {
    total: Option<u64>,
    start: Option<(u64, Kind, Vec<u8>)>,
    bytes: BTreeMap<u64, u8>,
    done: bool,
    way: Way,
}

/// The way in which a message comes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Way {
    /// Charged as it comes.
    #[default]
    Unasked,
    /// By a request that was not granted.
    Asked,
    /// By a request, into memory of the inbox's own.
    Ours,
    /// By a request, into the program's.
    Supplied,
}

impl Pieces {
    fn finish(&mut self) {
        self.done = self.start.is_some() && self.total == Some(self.bytes.len() as u64);
    }

    /// Whether it came completely, and its sender had cancelled it.
    fn is_void(&self) -> bool {
        let kind = self.start.as_ref().map(|(_, kind, _)| *kind);
        self.done && kind == Some(Kind::VOID)
    }

    /// The memory that it takes.
    fn held(&self) -> u64 {
        let header = self.start.as_ref().map_or(0, |(_, _, header)| header.len());
        let reach = self.bytes.last_key_value().map_or(0, |(at, _)| at + 1);
        let length = match self.way {
            Way::Unasked => self.total.unwrap_or(reach),
            Way::Ours => budgeted(self.total.unwrap_or(reach)),
            Way::Asked | Way::Supplied => 0,
        };
        MESSAGE + header as u64 + length
    }
}

/// The least bytes that a message of `total` bytes counts if it asked first.
fn budgeted(total: u64) -> u64 {
    total.max(256)
}

impl Model {
    /// The pieces of a message; it is known from now on.
    fn pieces(&mut self, name: Name) -> &mut Pieces {
        let span = self.channels.entry(name.0).or_default();
        span.end = span.end.max(name.1 + 1);
        self.messages.entry(name).or_default()
    }

    /// A fragment that the inbox took.
    fn take(&mut self, frag: &Frag<'_>) {
        let pieces = self.pieces((frag.channel, frag.message));
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
        let name = (rts.channel, rts.message);
        let pieces = self.pieces(name);
        if pieces.start.is_some() {
            return;
        }
        pieces.total = Some(rts.total);
        pieces.start = Some((rts.tag, rts.kind, rts.user_header.to_vec()));
        pieces.way = Way::Asked;
        if rts.total <= MAX_MESSAGE.min(LARGE) {
            self.waiting.push_back(name);
        }
    }

    fn check(&mut self, message: &Message) {
        let span = self.channels.entry(message.channel).or_default();
        assert_eq!(message.number, span.next, "in order, without gaps");
        span.next += 1;
        let pieces = &self.messages[&(message.channel, message.number)];
        assert!(pieces.done, "complete");
        let (tag, kind, header) = pieces.start.as_ref().expect("it is done");
        assert_eq!((message.tag, message.kind), (*tag, *kind));
        assert_eq!(message.user_header, *header);
        assert!(
            message.payload.iter().eq(pieces.bytes.values()),
            "first bytes win"
        );
        self.settle();
    }

    /// Passes over messages that were refused or cancelled, and gives free memory to the message
    /// that has waited longest.
    fn settle(&mut self) {
        for (channel, span) in &mut self.channels {
            let passed_over = |name: Name| {
                let is_void = self.messages.get(&name).is_some_and(Pieces::is_void);
                is_void || self.refused.contains(&name)
            };
            while passed_over((*channel, span.next)) {
                span.next += 1;
            }
        }
        while let Some(name) = self.waiting.front() {
            let wanted = self.messages[name].total.expect("its request said so");
            if self.large() + budgeted(wanted) > LARGE {
                break;
            }
            self.pieces(*name).way = Way::Ours;
            self.waiting.pop_front();
        }
    }

    /// All messages that the program may yet take.
    fn counted(&self) -> impl Iterator<Item = Option<&Pieces>> {
        let names = self
            .channels
            .iter()
            .flat_map(|(channel, span)| (span.next..span.end).map(|number| (*channel, number)));
        names.map(|name| self.messages.get(&name))
    }

    /// The memory of large messages.
    fn large(&self) -> u64 {
        let granted = self
            .counted()
            .flatten()
            .filter(|pieces| pieces.way == Way::Ours);
        granted
            .filter_map(|pieces| pieces.total)
            .map(budgeted)
            .sum()
    }

    /// All memory.
    fn held(&self) -> u64 {
        let held = |pieces: Option<&Pieces>| pieces.map_or(MESSAGE, Pieces::held);
        self.counted().map(held).sum()
    }

    /// Checks that the inbox holds what it must, and nothing else.
    fn compare(&self, inbox: &Inbox) {
        assert_eq!(inbox.memory_used(), self.held(), "memory");
        assert_eq!(inbox.large_held(), self.large(), "memory of large messages");
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

fn name(input: &mut Input<'_>) -> Name {
    let place = input.byte();
    (ChannelId(u32::from(place & 3)), u64::from(place >> 2 & 7))
}

/// A fragment as the wire could have brought it.
fn frag<'a>(input: &mut Input<'_>, filler: &'a [u8]) -> Option<Frag<'a>> {
    let ((channel, message), flags) = (name(input), input.byte());
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

/// Whole messages side by side, most of them with consecutive numbers.
fn whole_ones(input: &mut Input<'_>, filler: &[u8]) -> Vec<u8> {
    let ((channel, first), shape) = (name(input), input.byte());
    let (count, odd) = (u64::from(shape & 7) + 1, u64::from(shape >> 3 & 7));
    let (len, tag) = (usize::from(input.byte()), u64::from(shape >> 6));
    let mut bytes = Vec::new();
    for at in 0..count {
        let len = if at == odd { len * 8 } else { len };
        let head = FragHead {
            channel,
            message: first + at,
            offset: 0,
            end: true,
            start: Some(Start {
                total: len as u64,
                tag,
                kind: Kind::USER,
                user_header: b"",
            }),
        };
        head.put(&mut bytes, len, false);
        bytes.extend_from_slice(&filler[..len]);
    }
    bytes
}

/// Takes the frames of a packet, runs of them together. Returns false if the connection would be
/// closed.
fn take_all(bytes: &[u8], inbox: &mut Inbox, model: &mut Model) -> bool {
    let mut frames = frames(bytes);
    loop {
        let taken = if let Some(batch) = frames.next_batch() {
            take_batch(inbox, model, &batch)
        } else {
            match frames.next() {
                None => return true,
                Some(Err(_)) => false,
                Some(Ok(frame)) => take(inbox, model, frame),
            }
        };
        if !taken {
            return false;
        }
    }
}

/// Takes a batch. Returns false if the connection would be closed.
fn take_batch(inbox: &mut Inbox, model: &mut Model, batch: &FrameBatch<'_>) -> bool {
    let taken = inbox.on_batch(batch).is_ok();
    // Of a batch that breaks a rule some messages were taken, too, but none beyond all credit.
    for frame in frames(batch.frames()) {
        if let Ok(Frame::Frag(frag)) = frame {
            let next = model
                .channels
                .get(&frag.channel)
                .map_or(0, |span| span.next);
            if taken || frag.message.saturating_sub(next) < WINDOW / MESSAGE {
                model.take(&frag);
            }
        }
    }
    taken
}

/// Takes a frame. Returns false if the connection would be closed.
fn take(inbox: &mut Inbox, model: &mut Model, frame: Frame<'_>) -> bool {
    match frame {
        Frame::Frag(frag) => inbox.on_frag(&frag).map(|()| model.take(&frag)).is_ok(),
        Frame::Rts(rts) => inbox.on_rts(&rts).map(|()| model.announce(&rts)).is_ok(),
        _ => true,
    }
}

/// All of a message whose length is known and that may be sent: by chance its pieces would hardly
/// ever fit.
fn complete(name: Name, filler: &[u8], inbox: &mut Inbox, model: &mut Model) -> bool {
    let Some(pieces) = model.messages.get(&name) else {
        return true;
    };
    let (Some(total), false) = (pieces.total, pieces.way == Way::Asked) else {
        return true;
    };
    let start = pieces.start.clone();
    let (tag, kind, user_header) = start.unwrap_or((7, Kind::USER, Vec::new()));
    for offset in (0..total).step_by(filler.len()) {
        let data = &filler[..filler.len().min((total - offset) as usize)];
        let frag = Frag {
            channel: name.0,
            message: name.1,
            offset,
            end: offset + data.len() as u64 == total,
            start: (offset == 0).then_some(Start {
                total,
                tag,
                kind,
                user_header: &user_header,
            }),
            data,
        };
        if !take(inbox, model, Frame::Frag(frag)) {
            return false;
        }
    }
    true
}

/// Does one operation. False if the connection would be closed.
fn operate(input: &mut Input<'_>, filler: &[u8], inbox: &mut Inbox, model: &mut Model) -> bool {
    match input.byte() % 8 {
        0 | 1 => frag(input, filler).is_none_or(|frag| take(inbox, model, Frame::Frag(frag))),
        2 => take_all(&whole_ones(input, filler), inbox, model),
        3 => complete(name(input), filler, inbox, model),
        4 => {
            let (channel, message) = name(input);
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
            take_all(input.bytes(len), inbox, model)
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
                model.settle();
            }
            1 if info.total < 1 << 20 => {
                let buffer = vec![0; info.total as usize];
                inbox
                    .accept(channel, number, Some(buffer.into()))
                    .expect("long enough");
                model.pieces((channel, number)).way = Way::Supplied;
            }
            _ => {
                let fits = info.total <= LARGE;
                assert_eq!(inbox.accept(channel, number, None).is_ok(), fits);
                if fits {
                    model.waiting.push_back((channel, number));
                    model.settle();
                }
            }
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
    let mut alive = true;
    while alive && !input.0.is_empty() {
        alive = operate(&mut input, &filler, &mut inbox, &mut model);
        assert!(inbox.memory_used() <= WINDOW + LARGE, "promise 6");
        assert!(inbox.large_held() <= LARGE);
        model.settle();
        // A packet that broke a rule may have been taken in part: from then on the model knows only
        // the good part.
        if alive {
            model.compare(&inbox);
        }
    }
    while let Some(message) = inbox.pop() {
        model.check(&message);
        assert!(inbox.memory_used() <= WINDOW + LARGE, "promise 6");
        if alive {
            model.compare(&inbox);
        }
    }
});
