//! The node whose memory others read and change.

use super::context::{Context, is_unanswered};
use super::error::{RemoteError, RemoteErrorKind};
use super::layout::Layout;
use super::memory::{AtomicOp, Lent, Memory, Placement, Width, gather, scatter};
use super::region::{RegionId, Regions};
use super::wire::{Access, Action, REPLIES, Reply, Request, Signal};
use super::{Body, Description, LONGEST_REPLY, PlaceDecision};
use crate::output::Output;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use suci_proto::Outgoing;
use suci_proto::types::{NodeId, Source};

/// Replies to one node that may wait until they can be sent. With as many, or with
/// [`LONGEST_REPLY`] bytes of them, the target takes no request of that node.
const MAX_REPLIES: usize = 64;

/// Puts of one node that are placed and incomplete. Each new one is compared with all of them.
const MAX_PLACED: usize = 64;

/// Serves the one-sided operations of other nodes.
///
/// Its driver calls [`place`](Self::place) for long messages of [`REQUESTS`](super::REQUESTS);
/// [`on_request`](Self::on_request) for each message of that channel in order, as long as
/// [`takes`](Self::takes) says so; [`transmit`](Self::transmit) afterwards and whenever the node
/// can send again; and [`ended`](Self::ended) when a session ended.
#[derive(Debug)]
pub struct Target {
    regions: Regions,
    initiators: BTreeMap<Source, InitiatorState>,
    output: Output,
}

/// The state that the target keeps of one session. Messages of the next session may be placed
/// before the target hears of the end of this one.
#[derive(Debug, Default)]
struct InitiatorState {
    /// The puts whose bytes go directly to their places, and which are not complete, in order.
    placed: VecDeque<Placed>,
    /// The first request without a reply that failed since the last flush, and how many did: of
    /// each context.
    failed: BTreeMap<Context, (RemoteError, u64)>,
}

/// A put whose bytes do not come to the handler.
#[derive(Clone, Copy, Debug)]
enum Placed {
    /// They go to these places.
    At(Span),
    /// They vanish, because the put breaks this rule.
    Nowhere(RemoteErrorKind),
}

impl Placed {
    fn holds_back(self, later: &Span) -> bool {
        match self {
            Self::At(span) => span.holds_back(later),
            Self::Nowhere(_) => false,
        }
    }
}

/// A put that is placed and incomplete.
#[derive(Clone, Copy, Debug)]
struct Span {
    region: RegionId,
    /// The bytes from the first to the last.
    start: u64,
    end: u64,
    /// The offset of the integer that changes when the put is complete.
    signal: Option<u64>,
}

impl Span {
    fn new(region: RegionId, layout: &Layout, signal: Option<Signal>) -> Self {
        Self {
            region,
            start: layout.start(),
            end: layout.end(),
            signal: signal.map(|signal| signal.offset),
        }
    }

    /// Returns true if `later` must not be written before this put is complete.
    fn holds_back(&self, later: &Self) -> bool {
        #[cfg(suci_plant)]
        if suci_proto::plant::active("overlapping-puts-placed") {
            return false;
        }
        let touches = |start: u64, end: u64| start < later.end && later.start < end;
        let signal = |at: u64| touches(at, at.saturating_add(Width::Bits64.bytes()));
        self.region == later.region
            && (touches(self.start, self.end) || self.signal.is_some_and(signal))
    }
}

impl Target {
    /// Returns a target that serves `regions`.
    #[must_use]
    pub fn new(regions: Regions) -> Self {
        Self {
            regions,
            initiators: BTreeMap::new(),
            output: Output::default(),
        }
    }

    /// Decides where the bytes of a message of [`REQUESTS`](super::REQUESTS) go, before they
    /// arrive. All earlier messages of the channel were handled, or placed.
    ///
    /// Bytes of two placed puts may arrive in any order. Therefore a put is not placed while an
    /// earlier one is incomplete and touches its bytes, or if a fence is between them. Nor
    /// is it beside 64 others.
    ///
    /// The bytes of a put that breaks a rule vanish. The node need not keep them, however many they
    /// are, and the put fails in its turn: before a flush behind it is answered.
    pub fn place(&mut self, from: Source, message: &Description<'_>) -> PlaceDecision {
        let request = Request::read(message.kind, message.user_header, message.total);
        let Ok(Request::Access(access)) = request else {
            return PlaceDecision::Buffer;
        };
        let Action::Put {
            layout,
            signal,
            fenced,
        } = &access.action
        else {
            return PlaceDecision::Buffer;
        };
        let lent = self.admit(&access);
        let span = Span::new(access.region, layout, *signal);
        let state = self.initiators.entry(from).or_default();
        // A fence holds back what is behind it also if the put that carries it breaks a rule.
        let after_fence = is_fenced(*fenced) && !state.placed.is_empty();
        if after_fence || state.placed.len() >= MAX_PLACED {
            return PlaceDecision::AfterEarlier;
        }
        let lent = match lent {
            Ok(lent) => lent,
            Err(error) => {
                state.placed.push_back(Placed::Nowhere(error));
                let nowhere = Placement::nowhere(layout.clone(), message.total);
                return PlaceDecision::Direct(nowhere);
            }
        };
        if state.placed.iter().any(|earlier| earlier.holds_back(&span)) {
            return PlaceDecision::AfterEarlier;
        }
        state.placed.push_back(Placed::At(span));
        PlaceDecision::Direct(Placement::new(lent, layout.clone(), 0, message.total))
    }

    /// Returns true if the target can handle a request of this node: few enough replies to it wait.
    /// Otherwise the request waits at the node, and memory credit holds its sender back.
    #[must_use]
    pub fn takes(&self, from: NodeId) -> bool {
        self.output.count(from) < MAX_REPLIES && self.output.bytes(from) < LONGEST_REPLY
    }

    /// Handles the next message of [`REQUESTS`](super::REQUESTS) of this node.
    pub fn on_request(&mut self, from: Source, message: &Description<'_>, body: Body<'_>) {
        let placed = match (body, self.initiators.get_mut(&from)) {
            (Body::Placed, Some(state)) => state.placed.pop_front(),
            _ => None,
        };
        let request = Request::read(message.kind, message.user_header, message.total);
        let outcome = match request {
            Ok(Request::Flush) => return self.flush(from, message.tag),
            Ok(Request::Access(access)) => match placed {
                Some(Placed::Nowhere(kind)) => Err(access.error(kind)),
                _ => self.apply(&access, body),
            },
            Err(_) => Err(RemoteError {
                kind: RemoteErrorKind::Malformed,
                region: RegionId(0),
                offset: 0,
                length: message.total,
            }),
        };
        match outcome {
            Ok(_) if is_unanswered(message.tag) => {}
            Ok((reply, data)) => self.reply(from.node, message.tag, &reply, data),
            Err(error) if is_unanswered(message.tag) => {
                let state = self.initiators.entry(from).or_default();
                let failed = state.failed.entry(Context::of_tag(message.tag));
                let (_, count) = failed.or_insert((error, 0));
                *count = count.saturating_add(1);
            }
            Err(error) => {
                let reply = Reply::Error { error, count: 1 };
                self.reply(from.node, message.tag, &reply, Bytes::new());
            }
        }
    }

    /// Applies a request of a session that is over, as far as it changes memory. Nobody awaits a
    /// reply.
    pub fn on_last_request(&mut self, from: Source, message: &Description<'_>, body: Body<'_>) {
        let placed = match (body, self.initiators.get_mut(&from)) {
            (Body::Placed, Some(state)) => state.placed.pop_front(),
            _ => None,
        };
        let request = Request::read(message.kind, message.user_header, message.total);
        if let Ok(Request::Access(access)) = request
            && !matches!(access.action, Action::Get { .. })
            && !matches!(placed, Some(Placed::Nowhere(_)))
        {
            // An error has no effect, and nobody to hear of it.
            _ = self.apply(&access, body);
        }
    }

    /// Gives the replies that wait to `send`, which returns false if it cannot take one now. Those
    /// to the same node then wait for the next call.
    pub fn transmit(&mut self, send: impl FnMut(NodeId, &Outgoing) -> bool) {
        self.output.transmit(send);
    }

    /// Returns true if replies wait for [`transmit`](Self::transmit).
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Forgets a session that ended, and all before it. A put that was placed and not complete may
    /// have changed a part of its bytes.
    pub fn ended(&mut self, session: Source) {
        let over = |other: &Source| other.node == session.node && *other <= session;
        self.initiators.retain(|other, _| !over(other));
        self.output.clear(session.node);
    }

    /// Returns the memory that the request may touch. Everything is checked, so that a request is
    /// applied completely or not at all.
    fn admit(&self, access: &Access) -> Result<Arc<Lent>, RemoteErrorKind> {
        let end = match &access.action {
            Action::Put { layout, signal, .. } => put_end(layout, *signal)?,
            Action::Get { layout } => layout.end(),
            Action::Atomic { offset, width, .. } => integer_end(*offset, *width)?,
        };
        let rights = access.action.rights();
        self.regions.admit(access.region, access.key, rights, end)
    }

    fn apply(&self, access: &Access, body: Body<'_>) -> Result<(Reply, Bytes), RemoteError> {
        let apply = |memory: &dyn Memory| match &access.action {
            Action::Put { layout, signal, .. } => write(memory, layout, *signal, body),
            Action::Get { layout } => read(memory, layout),
            Action::Atomic { offset, width, op } => {
                let before = memory.atomic(*offset, *width, *op);
                #[cfg(suci_plant)]
                if suci_proto::plant::active("atomic-applied-twice") {
                    memory.atomic(*offset, *width, *op);
                }
                let before = before.ok_or(RemoteErrorKind::Unaligned)?;
                Ok((Reply::Value { before }, Bytes::new()))
            }
        };
        let lent = self.admit(access);
        let applied = lent.and_then(|lent| {
            let applied = lent.with(apply);
            applied.ok_or(RemoteErrorKind::Withdrawn)?
        });
        applied.map_err(|kind| access.error(kind))
    }

    /// Answers a flush: all earlier requests were handled, because messages come in order.
    fn flush(&mut self, from: Source, tag: u64) {
        let state = self.initiators.get_mut(&from);
        let reply = match state.and_then(|state| state.failed.remove(&Context::of_tag(tag))) {
            None => Reply::Done,
            Some((error, count)) => Reply::Error { error, count },
        };
        self.reply(from.node, tag, &reply, Bytes::new());
    }

    fn reply(&mut self, to: NodeId, tag: u64, reply: &Reply, payload: Bytes) {
        let message = Outgoing {
            channel: REPLIES,
            tag,
            kind: reply.kind(),
            user_header: reply.header().into(),
            payload,
            notify: false,
            token: 0,
            deadline: None,
        };
        self.output.push(to, message);
    }
}

/// Returns true if the fence of a put is to be kept.
fn is_fenced(fenced: bool) -> bool {
    #[cfg(suci_plant)]
    if suci_proto::plant::active("fence-without-wait") {
        return false;
    }
    fenced
}

/// Returns the offset behind the bytes of a put and its signal, if the signal may be there.
pub(super) fn put_end(layout: &Layout, signal: Option<Signal>) -> Result<u64, RemoteErrorKind> {
    let signal_end = signal.map_or(Ok(0), |s| integer_end(s.offset, Width::Bits64))?;
    Ok(layout.end().max(signal_end))
}

/// Returns the offset behind an integer, if the integer may be there.
pub(super) fn integer_end(offset: u64, width: Width) -> Result<u64, RemoteErrorKind> {
    if !offset.is_multiple_of(width.bytes()) {
        return Err(RemoteErrorKind::Unaligned);
    }
    let end = offset.checked_add(width.bytes());
    end.ok_or(RemoteErrorKind::OutOfBounds)
}

/// Writes the bytes of a put, then its signal.
pub(super) fn write(
    memory: &dyn Memory,
    layout: &Layout,
    signal: Option<Signal>,
    body: Body<'_>,
) -> Result<(Reply, Bytes), RemoteErrorKind> {
    // An atomic operation that changes nothing shows whether the signal can follow.
    if let Some(signal) = signal {
        let fetched = memory.atomic(signal.offset, Width::Bits64, AtomicOp::Fetch);
        fetched.ok_or(RemoteErrorKind::Unaligned)?;
    }
    if let Body::Bytes(bytes) = body
        && !scatter(memory, layout, 0, bytes)
    {
        return Err(RemoteErrorKind::OutOfBounds);
    }
    if let Some(signal) = signal {
        memory.atomic(signal.offset, Width::Bits64, signal.op());
    }
    Ok((Reply::Done, Bytes::new()))
}

fn read(memory: &dyn Memory, layout: &Layout) -> Result<(Reply, Bytes), RemoteErrorKind> {
    if layout.total() > LONGEST_REPLY as u64 {
        return Err(RemoteErrorKind::TooLong);
    }
    let mut bytes = vec![0; usize::try_from(layout.total()).unwrap_or(usize::MAX)];
    if !gather(memory, layout, &mut bytes) {
        return Err(RemoteErrorKind::OutOfBounds);
    }
    Ok((Reply::Data, bytes.into()))
}
