//! Events, and messages with them, as C has them.

use crate::entry::{Entry, Host, on_host};
use crate::error::end_code;
use crate::guard::{contain, guard};
use crate::handle::Handle;
use crate::limit::{self, Heard, Limit, Wanted};
use crate::message::{self, RawMessage};
use crate::pointer;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::time::Duration;
use suci::{
    Bytes, EndReason, Error, Event, LostCause, Message, MessageOutcome, Next, Outcome,
    ProtocolError, RefusedReason, Side, Unreachable,
};

/// `suci_outcome`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawOutcome {
    pub(crate) number: u64,
    pub(crate) cookie: u64,
    pub(crate) channel: u32,
    pub(crate) fate: u8,
    pub(crate) notify: u8,
    pub(crate) reserved: [u8; 2],
}

/// `suci_event_up`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UpEvent {
    pub(crate) session: u32,
}

/// `suci_event_lost`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LostEvent {
    pub(crate) code: u64,
    pub(crate) cause: u32,
    pub(crate) refusal: u32,
}

/// `suci_event_side`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SideEvent {
    pub(crate) here: u8,
}

/// `suci_event_ended`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EndedEvent {
    pub(crate) session: u32,
    pub(crate) sessions: u32,
    pub(crate) reason: u32,
    pub(crate) reserved: u32,
    pub(crate) missing: u64,
    pub(crate) code: u64,
    pub(crate) outcomes: *const RawOutcome,
    pub(crate) outcome_count: usize,
}

/// `suci_event_delivery`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DeliveryEvent {
    pub(crate) number: u64,
    pub(crate) cookie: u64,
    pub(crate) reason: u64,
    pub(crate) channel: u32,
}

/// `suci_event_writable`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct WritableEvent {
    pub(crate) priority_class: u8,
}

/// `suci_event_incoming`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IncomingEvent {
    pub(crate) number: u64,
    pub(crate) length: u64,
    pub(crate) tag: u64,
    pub(crate) user_header: *const c_void,
    pub(crate) channel: u32,
    pub(crate) kind: u8,
    pub(crate) user_header_length: u8,
    pub(crate) reserved: [u8; 2],
}

/// `suci_event_finished`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FinishedEvent {
    pub(crate) channel: u32,
}

/// `suci_event_refused`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RefusedEvent {
    pub(crate) code: u64,
    pub(crate) reason: u32,
}

/// `suci_event_released`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReleasedEvent {
    pub(crate) cookie: u64,
}

/// The union of `suci_event`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union EventDetails {
    pub(crate) up: UpEvent,
    pub(crate) lost: LostEvent,
    pub(crate) side: SideEvent,
    pub(crate) ended: EndedEvent,
    pub(crate) delivery: DeliveryEvent,
    pub(crate) writable: WritableEvent,
    pub(crate) incoming: IncomingEvent,
    pub(crate) finished: FinishedEvent,
    pub(crate) refused: RefusedEvent,
    pub(crate) released: ReleasedEvent,
    pub(crate) reserved: [u64; 8],
}

/// `suci_event`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawEvent {
    pub(crate) kind: u32,
    pub(crate) node: u32,
    pub(crate) details: EventDetails,
    /// The memory to which the details point; 0 is none.
    pub(crate) opaque: u64,
}

/// The memory to which an event points.
#[expect(dead_code, reason = "it keeps the memory until it is dropped")]
enum EventMemory {
    Outcomes(Box<[RawOutcome]>),
    Header(Bytes),
}

/// The values of `enum suci_event_type`.
mod kind {
    pub(super) const UP: u32 = 1;
    pub(super) const LOST: u32 = 2;
    pub(super) const QUIET: u32 = 3;
    pub(super) const SUSPENDED: u32 = 4;
    pub(super) const RESUMED: u32 = 5;
    pub(super) const ENDED: u32 = 6;
    pub(super) const DELIVERED: u32 = 7;
    pub(super) const NOT_DELIVERED: u32 = 8;
    pub(super) const WRITABLE: u32 = 9;
    pub(super) const INCOMING: u32 = 10;
    pub(super) const CHANNEL_FINISHED: u32 = 11;
    pub(super) const REFUSED: u32 = 12;
    pub(super) const RELEASED: u32 = 13;
    pub(super) const MEMBER_JOINED: u32 = 14;
    pub(super) const MEMBER_LEFT: u32 = 15;
    pub(super) const MEMBER_FAILED: u32 = 16;
}

/// Returns the number of a reason in `enum suci_refusal`, and what it is about: the peer's code if
/// it is an unknown one, the number of a layer.
fn refusal(reason: RefusedReason) -> (u32, u64) {
    let number = match reason {
        RefusedReason::DuplicateNode => 1,
        RefusedReason::NotAllowed => 2,
        RefusedReason::WrongNode => 3,
        RefusedReason::Mode => 4,
        RefusedReason::NoSocketCredit => 5,
        RefusedReason::NoMemory => 6,
        RefusedReason::TooManyPeers => 7,
        RefusedReason::Unread => 8,
        RefusedReason::NoSocketCreditHere => 9,
        RefusedReason::NoMemoryHere => 10,
        RefusedReason::Stale => 11,
        RefusedReason::Version => 12,
        RefusedReason::Narrow => 13,
        RefusedReason::Other(code) => return (14, code),
        RefusedReason::Key => 15,
        RefusedReason::NoKeysHere => 16,
        RefusedReason::NodeKey => 17,
        RefusedReason::NoNodeKeyHere => 18,
        RefusedReason::Layer(layer) => return (19, layer as u64),
    };
    (number, 0)
}

fn lost(cause: LostCause) -> LostEvent {
    let (cause, (refusal, code)) = match cause {
        LostCause::NoAnswer => (0, (0, 0)),
        LostCause::Unreachable(Unreachable::Port) => (1, (0, 0)),
        LostCause::Unreachable(Unreachable::Host) => (2, (0, 0)),
        LostCause::Unreachable(Unreachable::Network) => (3, (0, 0)),
        LostCause::Unreachable(Unreachable::Prohibited) => (4, (0, 0)),
        LostCause::Unreachable(Unreachable::Other) => (5, (0, 0)),
        LostCause::Refused(reason) => (6, refusal(reason)),
        LostCause::ProcessDied => (7, (0, 0)),
    };
    LostEvent {
        code,
        cause,
        refusal,
    }
}

/// Returns the number of a rule of the protocol.
fn rule(error: &ProtocolError) -> u64 {
    match error {
        ProtocolError::Malformed(_) => 1,
        ProtocolError::UnknownFrame(_) => 2,
        ProtocolError::NeverSent(_) => 3,
        ProtocolError::MemoryCredit(_) => 4,
        ProtocolError::Contradiction { .. } => 5,
        ProtocolError::OutOfPlace(_) => 6,
        ProtocolError::Limit(_) => 7,
        ProtocolError::NotPermitted(_) => 10,
    }
}

fn outcome(of: &MessageOutcome) -> RawOutcome {
    RawOutcome {
        number: of.number,
        cookie: of.token,
        channel: of.channel.0,
        fate: match of.outcome {
            Outcome::Delivered => 0,
            Outcome::NotDelivered => 1,
            Outcome::Unknown => 2,
        },
        notify: of.notify.into(),
        reserved: [0; 2],
    }
}

fn ended(
    session: u32,
    sessions: u32,
    reason: &EndReason,
    outcomes: &[MessageOutcome],
) -> (EndedEvent, Option<EventMemory>) {
    let memory: Box<[RawOutcome]> = outcomes.iter().map(outcome).collect();
    let details = EndedEvent {
        session,
        sessions,
        reason: end_code(reason),
        reserved: 0,
        missing: match reason {
            EndReason::CutShort { missing } => *missing,
            _ => 0,
        },
        code: match reason {
            EndReason::Protocol(error) => rule(error),
            EndReason::PeerProtocol(code) => *code,
            _ => 0,
        },
        outcomes: match memory.is_empty() {
            true => ptr::null(),
            false => memory.as_ptr(),
        },
        outcome_count: memory.len(),
    };
    let memory = (!memory.is_empty()).then_some(EventMemory::Outcomes(memory));
    (details, memory)
}

impl RawEvent {
    const fn nothing() -> Self {
        Self {
            kind: 0,
            node: 0,
            details: EventDetails { reserved: [0; 8] },
            opaque: 0,
        }
    }

    /// Returns an event of which C gets all bytes.
    fn with(kind: u32, node: u32, set: impl FnOnce(&mut EventDetails)) -> Self {
        let mut event = Self::nothing();
        (event.kind, event.node) = (kind, node);
        set(&mut event.details);
        event
    }

    /// Returns the event of this kind about a message: its channel, number, cookie, and a reason.
    fn delivery(kind: u32, node: u32, message: (u32, u64, u64, u64)) -> Self {
        let (channel, number, cookie, reason) = message;
        Self::with(kind, node, |it| {
            it.delivery = DeliveryEvent {
                number,
                cookie,
                reason,
                channel,
            };
        })
    }

    fn released(cookie: u64) -> Self {
        Self::with(kind::RELEASED, 0, |it| {
            it.released = ReleasedEvent { cookie }
        })
    }

    fn keep(mut self, memory: Option<EventMemory>) -> Self {
        self.opaque = memory.map_or(0, |memory| Box::into_raw(Box::new(memory)) as u64);
        self
    }

    fn new(event: Event) -> Self {
        let node = event.node().0;
        let side = |by| SideEvent {
            here: (by == Side::Here).into(),
        };
        match event {
            Event::Up { session, .. } => Self::with(kind::UP, node, |it| {
                it.up = UpEvent { session: session.0 };
            }),
            Event::Lost { cause, .. } => Self::with(kind::LOST, node, |it| it.lost = lost(cause)),
            Event::Quiet { .. } => Self::with(kind::QUIET, node, |_| {}),
            Event::Suspended { by, .. } => {
                Self::with(kind::SUSPENDED, node, |it| it.side = side(by))
            }
            Event::Resumed { by, .. } => Self::with(kind::RESUMED, node, |it| it.side = side(by)),
            Event::Ended {
                session,
                sessions,
                reason,
                outcomes,
                ..
            } => {
                let (details, memory) = ended(session.0, sessions, &reason, &outcomes);
                Self::with(kind::ENDED, node, |it| it.ended = details).keep(memory)
            }
            Event::MemberJoined { .. } => Self::with(kind::MEMBER_JOINED, node, |_| {}),
            Event::MemberLeft { .. } => Self::with(kind::MEMBER_LEFT, node, |_| {}),
            Event::MemberFailed { .. } => Self::with(kind::MEMBER_FAILED, node, |_| {}),
            Event::Refused { reason, .. } => Self::with(kind::REFUSED, node, |it| {
                let (reason, code) = refusal(reason);
                it.refused = RefusedEvent { code, reason };
            }),
            of_message => Self::of_message(node, of_message),
        }
    }

    /// Returns an event about messages or a channel.
    fn of_message(node: u32, event: Event) -> Self {
        match event {
            Event::Delivered {
                channel,
                number,
                token,
                ..
            } => Self::delivery(kind::DELIVERED, node, (channel.0, number, token, 0)),
            Event::NotDelivered {
                channel,
                number,
                token,
                reason,
                ..
            } => Self::delivery(
                kind::NOT_DELIVERED,
                node,
                (channel.0, number, token, reason),
            ),
            Event::Writable { class, .. } => Self::with(kind::WRITABLE, node, |it| {
                it.writable = WritableEvent {
                    priority_class: class,
                };
            }),
            Event::ChannelFinished { channel, .. } => {
                Self::with(kind::CHANNEL_FINISHED, node, |it| {
                    it.finished = FinishedEvent { channel: channel.0 };
                })
            }
            Event::Incoming {
                channel,
                number,
                total,
                tag,
                kind,
                user_header,
                ..
            } => Self::with(kind::INCOMING, node, |it| {
                it.incoming = IncomingEvent {
                    number,
                    length: total,
                    tag,
                    user_header: user_header.as_ptr().cast(),
                    channel: channel.0,
                    kind: kind.0,
                    // At most 255.
                    user_header_length: user_header.len() as u8,
                    reserved: [0; 2],
                };
            })
            .keep(Some(EventMemory::Header(user_header.clone()))),
            // `RawEvent::new` has these.
            Event::Up { .. }
            | Event::Lost { .. }
            | Event::Quiet { .. }
            | Event::Suspended { .. }
            | Event::Resumed { .. }
            | Event::Ended { .. }
            | Event::MemberJoined { .. }
            | Event::MemberLeft { .. }
            | Event::MemberFailed { .. }
            | Event::Refused { .. } => Self::nothing(),
        }
    }
}

/// Releases an event; nothing, if it is released.
fn release(event: &mut RawEvent) {
    let memory = event.opaque as *mut EventMemory;
    *event = RawEvent::nothing();
    if !memory.is_null() {
        // SAFETY: the struct came from `RawEvent::keep` and was not released before, as suci.h
        // asks.
        drop(unsafe { Box::from_raw(memory) });
    }
}

/// Releases an event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_event_release(event: *mut RawEvent) {
    contain(|| {
        // SAFETY: as suci.h asks.
        if let Some(event) = unsafe { event.as_mut() } {
            release(event);
        }
    });
}

/// The next event, also that memory was released.
struct AnyEvent;

impl Wanted for AnyEvent {
    type Item = RawEvent;
    const HEARS_RELEASES: bool = true;

    fn kept(&mut self, entry: &Entry) -> Option<RawEvent> {
        entry.releases.take().map(RawEvent::released)
    }

    fn look(&mut self, host: Host<'_>) -> Result<Option<RawEvent>, Error> {
        let event = match host {
            // Unlike `next_event`, it does the node's other work, too.
            Host::Alone(node) => node.event_timeout(Duration::ZERO)?,
            Host::Shared(node) => node.next_event()?,
        };
        Ok(event.map(RawEvent::new))
    }

    fn wait(
        &mut self,
        host: Host<'_>,
        entry: &Entry,
        limit: Limit,
    ) -> Result<Option<RawEvent>, Error> {
        match host {
            Host::Alone(node) => {
                let event = node.event_timeout(limit.duration())?;
                Ok(event.map(RawEvent::new))
            }
            Host::Shared(node) => {
                let heard = limit::hear(node, &entry.releases, node.event_async(), limit)?;
                Ok(heard.map(|heard| match heard {
                    Heard::Ready(event) => RawEvent::new(event),
                    Heard::Released(cookie) => RawEvent::released(cookie),
                }))
            }
        }
    }
}

/// Takes the next event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_next_event(
    node: Handle,
    event: *mut RawEvent,
    timeout: i64,
) -> c_int {
    guard(|| {
        pointer::output(event, "event")?;
        let mut node = node.enter()?;
        let taken = limit::take(&mut node, timeout, &mut AnyEvent)?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(event, taken) };
        Ok(())
    })
}

/// The union of `suci_item`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ItemDetails {
    pub(crate) message: RawMessage,
    pub(crate) event: RawEvent,
}

/// `suci_item`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawItem {
    pub(crate) kind: u32,
    pub(crate) reserved: u32,
    pub(crate) details: ItemDetails,
}

const ITEM_NONE: u32 = 0;
const ITEM_MESSAGE: u32 = 1;
const ITEM_EVENT: u32 = 2;

/// The next message or event, also that memory was released.
struct AnyItem;

/// The result of such a call.
enum Item {
    Message(Message),
    Event(RawEvent),
}

impl From<Next> for Item {
    fn from(next: Next) -> Self {
        match next {
            Next::Message(message) => Self::Message(message),
            Next::Event(event) => Self::Event(RawEvent::new(event)),
        }
    }
}

impl Item {
    fn released(cookie: u64) -> Self {
        Self::Event(RawEvent::released(cookie))
    }
}

impl Wanted for AnyItem {
    type Item = Item;
    const HEARS_RELEASES: bool = true;

    fn kept(&mut self, entry: &Entry) -> Option<Item> {
        let released = entry.releases.take().map(Item::released);
        released.or_else(|| entry.take_kept(None).map(Item::Message))
    }

    fn look(&mut self, host: Host<'_>) -> Result<Option<Item>, Error> {
        let next = on_host!(host, node => node.try_next())?;
        Ok(next.map(Item::from))
    }

    fn wait(&mut self, host: Host<'_>, entry: &Entry, limit: Limit) -> Result<Option<Item>, Error> {
        match (host, limit) {
            (Host::Alone(node), Limit::Never) => Ok(Some(node.next()?.into())),
            (Host::Alone(node), limit) => Ok(node.next_timeout(limit.duration())?.map(Item::from)),
            (Host::Shared(node), limit) => {
                let heard = limit::hear(node, &entry.releases, node.next_async(), limit)?;
                Ok(heard.map(|heard| match heard {
                    Heard::Ready(next) => next.into(),
                    Heard::Released(cookie) => Item::released(cookie),
                }))
            }
        }
    }
}

/// Takes the next message or event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_next(node: Handle, item: *mut RawItem, timeout: i64) -> c_int {
    guard(|| {
        pointer::output(item, "item")?;
        let mut node = node.enter()?;
        let taken = limit::take(&mut node, timeout, &mut AnyItem)?;
        // SAFETY: as suci.h asks. Each part of the struct is written where C has it.
        unsafe {
            let details = &raw mut (*item).details;
            let kind = match taken {
                Item::Message(taken) => {
                    message::give(taken, details.cast());
                    ITEM_MESSAGE
                }
                Item::Event(taken) => {
                    details.cast::<RawEvent>().write(taken);
                    ITEM_EVENT
                }
            };
            (&raw mut (*item).kind).write(kind);
            (&raw mut (*item).reserved).write(0);
        }
        Ok(())
    })
}

/// Releases an item.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_item_release(item: *mut RawItem) {
    contain(|| {
        // SAFETY: as suci.h asks.
        let Some(item) = (unsafe { item.as_mut() }) else {
            return;
        };
        match std::mem::replace(&mut item.kind, ITEM_NONE) {
            // SAFETY: the kind says which one the union holds.
            ITEM_MESSAGE => message::release(unsafe { &mut item.details.message }),
            // SAFETY: likewise.
            ITEM_EVENT => release(unsafe { &mut item.details.event }),
            _ => {}
        }
    });
}
