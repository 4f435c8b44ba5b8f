//! The messages queued for one peer, counted before anything enters the common ring.
//!
//! A peer that takes nothing fills its own gate and nothing else: the ring is emptied in any case.
//! The gate counts as the engine's queue does. It counts at least the messages there, since the
//! thread credits it later. So the engine has room for every message that the gate lets in, and a
//! sender waits here, not in the thread. Each class of channels has the queue's bounds for itself.
//! The gate counts a message in the class that its channel had when it came. If the channel's class
//! changes, the thread moves the messages that the engine moved.

use super::shard::lock;
use super::sleepers::Sleepers;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use suci_proto::limits::MAX_QUEUED_MESSAGES;
use suci_proto::message::{ByClass, Held, WantedRoom, has_room};
use suci_proto::types::ChannelId;
use suci_proto::{CLASSES, EndReason, Priority, Side};

/// Messages that one peer's queue takes on channels of one class.
const MOST: u64 = MAX_QUEUED_MESSAGES as u64;

/// The part of one class of channels.
#[derive(Debug, Default)]
struct ClassSums {
    /// Charge of the messages accepted and not yet acknowledged, or kept behind one that is not.
    charge: AtomicU64,
    /// How many messages those are.
    messages: AtomicU64,
    /// Charge of the last message that found no room, until the thread asks; 0 if there was none.
    turned_away: AtomicU64,
}

/// The queue of one peer, as sums.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// Charge of all messages.
    charge: AtomicU64,
    classes: [ClassSums; CLASSES],
    /// The classes of channels that the program named, and whether there are any.
    named: AtomicBool,
    class_of: RwLock<BTreeMap<ChannelId, u8>>,
    /// Number of the acknowledged messages that are kept behind an unacknowledged one, and their
    /// bytes. Only the thread changes both.
    over_messages: AtomicU64,
    over_bytes: AtomicU64,
    /// Messages whose failure stands in events that the thread did not hand over yet.
    failed: AtomicU64,
    /// Number of those failures that a flush reported.
    flushed: AtomicU64,
    /// Charge of the messages that the engine refused and whose events the thread did not hand over
    /// yet.
    refused: AtomicU64,
    /// The number of these messages.
    refused_messages: AtomicU64,
    /// Which side suspended the session: 0 none, 1 this one, 2 the peer.
    suspended: AtomicU8,
    /// The program removed the node from the book.
    removed: AtomicBool,
    /// Messages are queued for a process that is known to have died.
    died: AtomicBool,
    limit: u64,
    pub(crate) room: Sleepers,
    /// Whether the program waits to hear of room, and for which messages.
    wants: AtomicBool,
    wanted: Mutex<Wanted>,
    ends: Mutex<Ends>,
}

/// The room of which the program waits to hear.
#[derive(Debug, Default)]
struct Wanted {
    room: WantedRoom,
    /// Classes whose event was handed over since the program asked last. The program may have taken
    /// the event.
    told: [bool; CLASSES],
}

/// How many sessions with the peer ended.
#[derive(Debug, Default)]
struct Ends {
    all: u64,
    /// The number of ends in events that the program took.
    events: u64,
    /// The number of ends that the program knows, by events or by calls that waited for the peer.
    told: u64,
    /// Reason why the last session ended.
    reason: Option<EndReason>,
}

/// The threads that wait for room.
impl AsRef<Sleepers> for Arc<Gate> {
    fn as_ref(&self) -> &Sleepers {
        &self.room
    }
}

impl Gate {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// The thread hands over the event that this many sessions ended.
    pub(crate) fn note_end(&self, reason: EndReason, sessions: u32) {
        let mut ends = lock(&self.ends);
        ends.all += u64::from(sessions);
        ends.reason = Some(reason);
    }

    /// The program took such an event.
    pub(crate) fn note_end_told(&self, sessions: u32) {
        let mut ends = lock(&self.ends);
        ends.events += u64::from(sessions);
        ends.told = ends.told.max(ends.events);
    }

    /// The number of ends that the program knows.
    pub(crate) fn ends_told(&self) -> u64 {
        lock(&self.ends).told
    }

    /// Whether there were more than `known` ends.
    pub(crate) fn has_ended_since(&self, known: u64) -> bool {
        lock(&self.ends).all > known
    }

    /// Returns the reason why the last session ended, if there were more than `known` ends: the
    /// caller tells the program.
    pub(crate) fn tell_end_since(&self, known: u64) -> Option<EndReason> {
        let mut ends = lock(&self.ends);
        let reason = ends.reason.filter(|_| ends.all > known)?;
        ends.told = ends.all;
        Some(reason)
    }

    /// The thread says which side suspended the session. Threads that wait for room look again.
    pub(crate) fn set_suspended(&self, by: Option<Side>) {
        let word = match by {
            None => 0,
            Some(Side::Here) => 1,
            Some(Side::There) => 2,
        };
        if self.suspended.swap(word, Ordering::AcqRel) != word {
            self.room.wake();
        }
    }

    /// The program removed the node from the book; or it entered it again, or the node came back by
    /// itself.
    pub(crate) fn set_removed(&self, removed: bool) {
        self.removed.store(removed, Ordering::Release);
    }

    /// Whether the node is not in the book any more: nothing more is sent to it.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    /// Notes whether messages are queued for a process that is known to have died. Returns true if
    /// that is new.
    pub(crate) fn set_died(&self, died: bool) -> bool {
        self.died.swap(died, Ordering::AcqRel) != died
    }

    /// Returns true if messages are queued for a process that is known to have died.
    pub(crate) fn has_died(&self) -> bool {
        self.died.load(Ordering::Acquire)
    }

    /// Which side suspended the session.
    pub(crate) fn suspended(&self) -> Option<Side> {
        match self.suspended.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Side::Here),
            _ => Some(Side::There),
        }
    }

    /// The program named the class of a channel.
    pub(crate) fn set_class(&self, channel: ChannelId, class: u8) {
        let mut classes = self
            .class_of
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        classes.insert(channel, class);
        self.named.store(true, Ordering::Release);
    }

    /// Whether the program named the class of any channel, which may have moved messages between
    /// classes since.
    pub(crate) fn has_classes(&self) -> bool {
        self.named.load(Ordering::Acquire)
    }

    /// The class in which messages on `channel` count.
    pub(crate) fn class_of(&self, channel: ChannelId) -> u8 {
        let default = Priority::DEFAULT.class();
        if !self.has_classes() {
            return default;
        }
        let classes = self.class_of.read().unwrap_or_else(PoisonError::into_inner);
        // Replies have the class of their requests.
        let ranked_as = ChannelId(channel.0 & ChannelId::LAST_USER.0);
        classes.get(&ranked_as).copied().unwrap_or(default)
    }

    fn sums(&self, class: u8) -> &ClassSums {
        // Classes are 0 to 7, as `Priority` says.
        &self.classes[usize::from(class) % CLASSES]
    }

    /// Whether a class of the queue behind it that holds `held` has room for a message.
    pub(crate) fn admits(&self, held: Held, message: Held) -> bool {
        held.messages < MOST && has_room(held.charge(), message.charge(), self.limit)
    }

    /// Whether the program may queue one more active message of `bytes`: it may fill half of the
    /// queue, as [`Engine::has_room_for_active`](suci_proto::Engine::has_room_for_active) says.
    pub(crate) fn has_room_for_active(&self, bytes: u64) -> bool {
        let queued = self.queued();
        let charge = Held::one(bytes).charge();
        has_room(queued.charge(), charge, self.limit / 2) && queued.messages < MOST / 2
    }

    /// The program is to hear when there is room for such a message in `class`. Of several the
    /// smallest decides. An event that waits for the program is outdated, since the queue is full
    /// again: `take_back` takes it back, if it is there, and the messages wait on that it told of.
    /// The caller holds the lock of the events.
    pub(crate) fn want_room(&self, class: u8, message: Held, take_back: impl FnOnce() -> bool) {
        let mut wanted = lock(&self.wanted);
        let told = core::mem::take(&mut wanted.told[usize::from(class) % CLASSES]);
        if told && take_back() {
            wanted.room.restore(class);
        }
        wanted.room.add(class, message.charge());
        self.wants.store(true, Ordering::Release);
    }

    /// Whether the program is to hear of room.
    pub(crate) fn wants_room(&self) -> bool {
        self.wants.load(Ordering::Acquire)
    }

    /// Tells of each class that has the room that is wanted. The caller holds the lock of the
    /// events.
    pub(crate) fn tell_room(&self, mut tell: impl FnMut(u8)) {
        let mut wanted = lock(&self.wanted);
        while let Some(class) = (wanted.room).find(|class, charge| self.has_room_in(class, charge))
        {
            wanted.room.remove(class);
            wanted.told[usize::from(class) % CLASSES] = true;
            tell(class);
        }
        self.wants.store(!wanted.room.is_empty(), Ordering::Release);
    }

    /// Takes a message of a channel of `class` in, if there is room for it.
    pub(crate) fn debit(&self, class: u8, message: Held) -> bool {
        let sums = self.sums(class);
        let charge = message.charge();
        // The sum does not wrap, because `has_room` bounds it.
        let sum = |held| has_room(held, charge, self.limit).then(|| held.wrapping_add(charge));
        // The count comes first, so that a thread that sees a charge sees a count too. A sender
        // that is refused is counted for a moment, and may turn another one away. That one is woken
        // when one of the million messages leaves.
        let before = sums.messages.fetch_add(1, Ordering::AcqRel);
        let fits = before < MOST
            && sums
                .charge
                .fetch_update(Ordering::AcqRel, Ordering::Relaxed, sum)
                .is_ok();
        if fits {
            self.charge.fetch_add(charge, Ordering::AcqRel);
        } else {
            sums.messages.fetch_sub(1, Ordering::AcqRel);
            sums.turned_away.store(charge, Ordering::Release);
        }
        fits
    }

    /// Takes a message in beyond the limit. The engine bounds how many there are.
    pub(crate) fn debit_beyond_limit(&self, class: u8, message: Held) {
        let (charge, sums) = (message.charge(), self.sums(class));
        sums.messages.fetch_add(1, Ordering::AcqRel);
        sums.charge.fetch_add(charge, Ordering::AcqRel);
        self.charge.fetch_add(charge, Ordering::AcqRel);
    }

    /// Gives back the charge of messages that did not enter after all.
    pub(crate) fn credit(&self, class: u8, released: Held) {
        self.charge.fetch_sub(released.charge(), Ordering::AcqRel);
        let sums = self.sums(class);
        sums.charge.fetch_sub(released.charge(), Ordering::AcqRel);
        sums.messages.fetch_sub(released.messages, Ordering::AcqRel);
        self.room.wake();
    }

    /// The thread's account of each class changes: fewer messages are held, or a channel moved to
    /// another class. The caller wakes the threads that wait for room.
    pub(crate) fn settle(&self, before: &ByClass, after: &ByClass) {
        // The sums wrap where less is added than taken.
        let mut change = 0_u64;
        for class in 0..CLASSES as u8 {
            let (old, new) = (before.get(class), after.get(class));
            if old != new {
                let sums = self.sums(class);
                let charge = new.charge().wrapping_sub(old.charge());
                let messages = new.messages.wrapping_sub(old.messages);
                sums.charge.fetch_add(charge, Ordering::AcqRel);
                sums.messages.fetch_add(messages, Ordering::AcqRel);
                change = change.wrapping_add(charge);
            }
        }
        if change != 0 {
            self.charge.fetch_add(change, Ordering::AcqRel);
        }
    }

    /// The thread reports the messages that are acknowledged, and kept behind one that is not.
    pub(crate) fn set_over(&self, over: Held) {
        self.over_messages.store(over.messages, Ordering::Release);
        self.over_bytes.store(over.bytes, Ordering::Release);
    }

    /// The thread reports how many messages failed whose events it has not handed over. It does so
    /// before it credits them, so that a thread that finds nothing queued finds them here.
    pub(crate) fn set_failed(&self, messages: u64) {
        self.failed.store(messages, Ordering::Release);
        // Outcomes that an event leaves out were handed over with it. The number falls only under
        // the lock of the events.
        self.flushed.fetch_min(messages, Ordering::AcqRel);
    }

    /// Messages whose failure is not among the events that were handed over, and that no flush
    /// reported.
    pub(crate) fn failed(&self) -> u64 {
        let flushed = self.flushed.load(Ordering::Acquire);
        self.failed.load(Ordering::Acquire).saturating_sub(flushed)
    }

    /// A flush reports them. Under the lock of the events.
    pub(crate) fn flush_failures(&self) {
        let failed = self.failed.load(Ordering::Acquire);
        self.flushed.store(failed, Ordering::Release);
    }

    /// The thread hands over the event that tells of the first `failed` failures. Returns how many
    /// of them no flush reported. Call it under the lock of the events.
    pub(crate) fn hand_over(&self, failed: u64) -> u64 {
        let flushed = self.flushed.load(Ordering::Acquire);
        let left = flushed.saturating_sub(failed);
        self.flushed.store(left, Ordering::Release);
        failed.saturating_sub(flushed)
    }

    /// The thread reports how many of all messages are refused, before it credits them. The caller
    /// wakes the threads that wait for a flush.
    pub(crate) fn set_refused(&self, refused: Held) {
        self.refused.store(refused.charge(), Ordering::Release);
        self.refused_messages
            .store(refused.messages, Ordering::Release);
    }

    /// Whether refused messages are kept.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused.load(Ordering::Acquire) > 0
    }

    /// Whether a message found no room since the last such call, and would find none now.
    pub(crate) fn turns_away(&self) -> bool {
        let mut full = false;
        for class in 0..CLASSES as u8 {
            let charge = self.sums(class).turned_away.swap(0, Ordering::AcqRel);
            full |= charge > 0 && !self.has_room_in(class, charge);
        }
        full
    }

    fn has_room_in(&self, class: u8, charge: u64) -> bool {
        let sums = self.sums(class);
        let messages = sums.messages.load(Ordering::Acquire);
        messages < MOST && has_room(sums.charge.load(Ordering::Acquire), charge, self.limit)
    }

    /// Whether messages failed without the program being told.
    pub(crate) fn has_failures(&self) -> bool {
        self.failed() > 0
    }

    /// Whether nothing is queued that may yet be acknowledged. Refused messages stay until the
    /// program takes events; a flush must not wait for that, since the program itself may be
    /// flushing.
    pub(crate) fn is_flushed(&self) -> bool {
        let charge = self.charge.load(Ordering::Acquire);
        charge <= self.refused.load(Ordering::Acquire)
    }

    /// The number of messages that may yet be acknowledged.
    pub(crate) fn open_messages(&self) -> u64 {
        let refused = self.refused_messages.load(Ordering::Acquire);
        match self.is_flushed() {
            true => 0,
            // A sender may be about to count its message.
            false => self.queued().messages.saturating_sub(refused).max(1),
        }
    }

    /// Whether nothing is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.charge.load(Ordering::Acquire) == 0
    }

    /// Messages queued and not acknowledged; between two changes a little of both.
    pub(crate) fn queued(&self) -> Held {
        let charge = self.charge.load(Ordering::Acquire);
        if charge == 0 {
            // The count follows.
            return Held::default();
        }
        let classes = self.classes.iter();
        let messages = classes
            .map(|sums| sums.messages.load(Ordering::Acquire))
            .sum();
        let own = Held::new(messages, 0).charge();
        let over = Held {
            messages: self.over_messages.load(Ordering::Acquire),
            bytes: self.over_bytes.load(Ordering::Acquire),
        };
        Held::new(messages, charge.saturating_sub(own)).minus(over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const C: u8 = Priority::DEFAULT.class();

    #[test]
    fn a_gate_takes_what_the_queue_behind_it_would() {
        let gate = Gate::new(1_000);
        assert!(gate.debit(C, Held::one(5_000)), "alone, however long");
        assert!(!gate.debit(C, Held::one(0)), "full");
        gate.credit(C, Held::one(5_000));
        assert!(gate.debit(C, Held::one(536)));
        assert!(!gate.debit(C, Held::one(337)) && gate.debit(C, Held::one(336)));
        assert_eq!(gate.queued(), Held::new(2, 872));
        gate.set_over(Held::one(336));
        assert_eq!(gate.queued(), Held::new(1, 536));
        assert!(!gate.debit(C, Held::one(0)), "what is kept counts");
    }

    #[test]
    fn what_is_refused_is_not_waited_for() {
        let gate = Gate::new(1_000);
        let [kept, refused] = [Held::one(1), Held::one(2)];
        assert!(gate.is_flushed() && gate.debit(C, kept) && gate.debit(C, refused));
        gate.set_refused(refused);
        assert!(!gate.is_flushed(), "one is under way");
        gate.credit(C, kept);
        assert!(gate.is_flushed() && !gate.is_empty());
        gate.set_refused(Held::default());
        gate.credit(C, refused);
        assert!(gate.is_flushed() && gate.is_empty());
    }

    /// Whether their events are handed over or not.
    #[test]
    fn a_flush_reports_a_failure_once() {
        let gate = Gate::new(1_000);
        gate.set_failed(3);
        assert_eq!(gate.failed(), 3);
        gate.flush_failures();
        assert_eq!(gate.failed(), 0);
        gate.set_failed(5);
        assert_eq!(gate.failed(), 2);
        // An event tells of four failures, the first three of which were reported.
        assert_eq!(gate.hand_over(4), 1);
        gate.set_failed(1);
        assert_eq!(gate.failed(), 1);
        gate.flush_failures();
        // An end that leaves its outcome out.
        assert_eq!(gate.hand_over(0), 0);
        gate.set_failed(0);
        gate.set_failed(1);
        assert_eq!(gate.failed(), 1, "since then");
    }

    /// The bound on the number of messages holds, whatever the limit in bytes.
    #[test]
    fn f26_a_gate_takes_so_many_messages() {
        let gate = Gate::new(u64::MAX);
        assert!((0..MOST).all(|_| gate.debit(C, Held::one(0))));
        assert!(!gate.debit(C, Held::one(0)) && !gate.is_empty());
        gate.credit(C, Held::one(0));
        assert!(gate.debit(C, Held::one(0)) && !gate.debit(C, Held::one(0)));
        assert_eq!(gate.queued().messages, MOST);
    }

    /// The smallest message decides, even after an event for it that the program did not take
    /// before it asked again.
    #[test]
    fn room_is_told_once_until_the_program_asks_again() {
        let gate = Gate::new(1_800);
        let told = || {
            let mut told = Vec::new();
            gate.tell_room(|class| told.push(class));
            told
        };
        let (small, wide) = (Held::one(100), Held::one(1_500));
        assert!(gate.debit(C, small) && gate.debit(C, wide));
        let never = || panic!("no event was told");
        for message in [wide, small, wide] {
            gate.want_room(C, message, never);
        }
        assert!(told().is_empty() && gate.wants_room());
        gate.credit(C, small);
        assert_eq!(told(), [C]);
        assert!(told().is_empty() && !gate.wants_room());
        // The program did not take the event.
        gate.want_room(C, wide, || true);
        assert_eq!(told(), [C], "there is room for the small one");
        // The program took this event.
        gate.want_room(C, wide, || false);
        assert!(told().is_empty());
        gate.want_room(C, wide, never);
        gate.credit(C, wide);
        assert_eq!(told(), [C]);
    }

    /// Messages queued on channels of one class leave the room of other classes as it is. A channel
    /// that changes its class takes its messages along.
    #[test]
    fn each_class_has_the_queue_for_itself() {
        let gate = Gate::new(1_000);
        let (low, high) = (ChannelId(1), ChannelId(2));
        gate.set_class(high, 6);
        assert_eq!((gate.class_of(low), gate.class_of(high)), (C, 6));
        let message = Held::one(900);
        assert!(gate.debit(C, message) && !gate.debit(C, message));
        assert!(gate.debit(6, message) && !gate.debit(6, message));
        assert_eq!(gate.queued(), Held::new(2, 1_800));
        let class = |class: u8| {
            let mut held = ByClass::default();
            held.change(class, |_| message);
            held
        };
        gate.settle(&class(6), &class(0));
        assert_eq!(gate.queued(), Held::new(2, 1_800));
        assert!(gate.debit(6, message) && !gate.debit(0, message) && !gate.debit(C, message));
        gate.settle(&class(0), &ByClass::default());
        gate.settle(&class(C), &ByClass::default());
        assert!(gate.debit(0, message) && gate.debit(C, message));
        assert_eq!(gate.queued(), Held::new(3, 2_700));
    }
}
