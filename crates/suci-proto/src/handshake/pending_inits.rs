//! Callers that were sent a COOKIE and may soon return it with an INIT, which needs room in the
//! socket's budget.
//!
//! Source addresses can be forged, and HELLOs cost nothing to make. These rules keep a flood of
//! them from shutting out known nodes (nodes of the book, and those with a session):
//!
//! * Known nodes are counted apart, each once: all HELLOs under a known node's ID, from any
//!   address, take that node's one slot.
//! * A node that has its slot already takes no slot of a new node, and leaves one of several
//!   packets to new nodes.
//! * Strangers get at most half of the slots, and none while a known node waits for a slot or
//!   packet.
//! * While more than half of the strangers' part is in use, strangers of one source prefix get no
//!   more than an eighth of it: a flood from one address leaves the rest to others. A thousand
//!   honest nodes behind one address take turns then, each for a round trip.
//! * A claim counts for [`FRESH`], a stranger's for [`FRESH_STRANGER`], not for its cookie's life
//!   (tried before: 1,260 HELLOs kept newcomers out of a socket of 8 MiB for 15 to 30 s). A node
//!   that sends its cookie later may find no room; then it is refused and calls again.

use super::sources::SourceCounts;
use std::collections::HashMap;
use suci_link::planted;
use suci_link::time::{Duration, Instant, nanos};

/// The INIT of a known node that was answered is expected for between once and twice this time.
const FRESH: Duration = Duration::from_millis(250);

/// The same of a stranger. It may have stopped, or its address may be forged: others need the room.
const FRESH_STRANGER: Duration = Duration::from_millis(100);

/// The strangers' part is crowded while more than one in `CROWDED` of it is in use. Then the
/// strangers of one source get one in `SOURCE_PART` of it.
const CROWDED: u64 = 2;
const SOURCE_PART: u64 = 8;

/// Our relation to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// An unknown ID, which anyone may claim.
    Stranger,
    /// In the book, or with a session.
    Known,
    /// Known and connected: a new connection would take over the slot.
    Admitted,
}

/// The sender of a HELLO, as a keyed hash for which attackers cannot find collisions; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A node that has its slot: the hash of its ID.
    Admitted(u64),
    /// Another known node: the hash of its ID.
    Known(u64),
    /// An unknown node: the hash of its claim, and the hash of the network prefix that it calls
    /// from.
    Stranger { name: u64, source: u64 },
}

/// How many INITs the socket's budget has room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InitRoom {
    /// INITs in all.
    pub(crate) packets: u64,
    /// INITs of nodes that also need a slot among the peers.
    pub(crate) slots: u64,
    /// INITs of strangers.
    pub(crate) strangers: u64,
}

/// The callers whose INIT is expected.
#[derive(Debug)]
pub(crate) struct PendingInits {
    admitted: Tally,
    known: Tally,
    strangers: Tally,
    /// The same strangers by their source.
    sources: SourceCounts,
    /// A known node found no slot or no packet since all waiting callers were last tried: no
    /// stranger is answered.
    known_waits: bool,
    /// A known node found a slot but no packet: the last packet is kept from nodes that have a
    /// slot.
    known_lacks_packet: bool,
}

impl PendingInits {
    pub(crate) fn new() -> Self {
        Self {
            admitted: Tally::new(FRESH),
            known: Tally::new(FRESH),
            strangers: Tally::new(FRESH_STRANGER),
            sources: SourceCounts::new(),
            known_waits: false,
            known_lacks_packet: false,
        }
    }

    /// Returns true if a HELLO may be answered with this `room`. If so, its INIT is expected.
    pub(crate) fn admits(&mut self, now: Instant, caller: Caller, room: InitRoom) -> bool {
        let (mut admitted, mut known) = (self.admitted.count(now), self.known.count(now));
        let mut strangers = self.strangers.count(now);
        match caller {
            Caller::Admitted(name) => admitted = self.admitted.count_others(now, name),
            Caller::Known(name) => known = self.known.count_others(now, name),
            Caller::Stranger { name, .. } => strangers = self.strangers.count_others(now, name),
        }
        let newcomers = known.saturating_add(strangers);
        let fits = admitted.saturating_add(newcomers) < room.packets;
        let has_slot = newcomers < room.slots;
        match caller {
            // Anyone can call in the name of a node that has a slot.
            Caller::Admitted(name) if fits && admitted < self.most_admitted(room) => {
                let _ = self.admitted.add(now, name);
            }
            Caller::Admitted(_) => return false,
            Caller::Known(name) if fits && has_slot => {
                let _ = self.known.add(now, name);
            }
            Caller::Known(_) => {
                self.known_waits = true;
                self.known_lacks_packet |= has_slot;
                return false;
            }
            Caller::Stranger { name, source } => {
                let allowed = strangers < most_strangers(room.slots) && !self.known_waits;
                let leaves = newcomers < room.strangers;
                let has_part = !self.has_full_source(now, caller, room);
                if !(fits && has_slot && allowed && leaves && has_part) {
                    return false;
                }
                self.add_stranger(now, name, source);
            }
        }
        true
    }

    /// Returns true if the caller is a stranger whose source has its part of the strangers' room,
    /// while this room is crowded.
    pub(crate) fn has_full_source(&mut self, now: Instant, caller: Caller, room: InitRoom) -> bool {
        let Caller::Stranger { name, source } = caller else {
            return false;
        };
        let most = most_strangers(room.slots);
        let strangers = self.strangers.count_others(now, name);
        if strangers <= most / CROWDED || planted("sources-uncapped") {
            return false;
        }
        let again = u64::from(self.strangers.has(name));
        let here = self.sources.count(self.strangers.period, source);
        here.saturating_sub(again) >= (most / SOURCE_PART).max(1)
    }

    fn add_stranger(&mut self, now: Instant, name: u64, source: u64) {
        let added = self.strangers.add(now, name);
        let period = self.strangers.period;
        if added == Added::Again {
            return;
        }
        if added == Added::Moved {
            self.sources.remove(period, 1, source);
        }
        self.sources.add(period, source);
    }

    /// Returns the packets that nodes with a slot may take: all but one, or the only one if no
    /// known node waits for it.
    fn most_admitted(&self, room: InitRoom) -> u64 {
        match room.packets {
            1 => u64::from(!self.known_lacks_packet),
            packets => packets.saturating_sub(1),
        }
    }

    /// Notes that a known node waits for room: no stranger is answered.
    pub(crate) fn on_known_waits(&mut self) {
        self.known_waits = true;
    }

    /// Forgets that a known node found no room. Call it when all waiting callers are tried, known
    /// nodes first, or no known node waits.
    pub(crate) fn try_again(&mut self) {
        self.known_waits = false;
        self.known_lacks_packet = false;
    }

    /// Returns true if this caller was answered lately, and its INIT did not come.
    pub(crate) fn awaits(&mut self, now: Instant, caller: Caller) -> bool {
        let (tally, name) = match caller {
            Caller::Admitted(name) => (&mut self.admitted, name),
            Caller::Known(name) => (&mut self.known, name),
            Caller::Stranger { name, .. } => (&mut self.strangers, name),
        };
        tally.advance(now);
        tally.has(name)
    }

    /// Returns how many of all `limit` slots should be free so that as many of `waiting` strangers
    /// are answered as may be: they get half of the free slots, those of expected strangers
    /// included. A quarter stays with idle strangers, whatever flood of forged names comes.
    pub(crate) fn free_for_strangers(&mut self, now: Instant, waiting: u64, limit: u64) -> u64 {
        let expected = self.strangers.count(now);
        let to_come = most_strangers(limit).saturating_sub(expected).min(waiting);
        if self.known_waits || to_come == 0 {
            return 0;
        }
        expected
            .saturating_add(to_come)
            .saturating_mul(2)
            .min(limit - limit / 4)
    }

    /// Returns how many INITs of nodes without a slot are expected.
    pub(crate) fn newcomers(&mut self, now: Instant) -> u64 {
        let known = self.known.count(now);
        known.saturating_add(self.strangers.count(now))
    }

    /// Returns how many INITs of known nodes without a slot are expected.
    pub(crate) fn known(&mut self, now: Instant) -> u64 {
        self.known.count(now)
    }

    /// Notes that the INIT came: it is expected no more.
    pub(crate) fn came(&mut self, now: Instant, caller: Caller) {
        match caller {
            // The node may have got or lost its slot since.
            Caller::Admitted(name) | Caller::Known(name) => {
                let _ = self.admitted.remove(now, name);
                let _ = self.known.remove(now, name);
            }
            Caller::Stranger { name, source } => {
                if let Some(ago) = self.strangers.remove(now, name) {
                    self.sources.remove(self.strangers.period, ago, source);
                }
            }
        }
    }
}

/// Returns how many strangers may be expected at once while `slots` slots are free.
fn most_strangers(slots: u64) -> u64 {
    (slots / 2).max(1)
}

/// How a name was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Added {
    /// It was not counted.
    New,
    /// It was counted in the previous period, and is now in the current one.
    Moved,
    /// It was counted in the current period already.
    Again,
}

/// Counts names, each once and for a while. Its owner bounds their number: a name is added only if
/// the budget has room for it.
#[derive(Debug)]
struct Tally {
    /// A name is counted for between once and twice this time.
    fresh: Duration,
    period: u64,
    /// The period in which each name last called: the current one or the one before.
    names: HashMap<u64, u64>,
}

impl Tally {
    fn new(fresh: Duration) -> Self {
        Self {
            fresh,
            period: 0,
            names: HashMap::new(),
        }
    }

    fn advance(&mut self, now: Instant) {
        let period = now.as_nanos() / nanos(self.fresh).max(1);
        if period > self.period {
            self.period = period;
            self.names.retain(|_, called| *called + 1 >= period);
        }
    }

    fn count(&mut self, now: Instant) -> u64 {
        if self.names.is_empty() {
            return 0;
        }
        self.advance(now);
        self.names.len() as u64
    }

    /// As [`count`](Self::count), without `name`.
    fn count_others(&mut self, now: Instant, name: u64) -> u64 {
        let all = self.count(now);
        all.saturating_sub(u64::from(self.has(name)))
    }

    /// Counts a name, or counts it for the current period instead of the previous one.
    fn add(&mut self, now: Instant, name: u64) -> Added {
        self.advance(now);
        match self.names.insert(name, self.period) {
            None => Added::New,
            Some(period) if period == self.period => Added::Again,
            Some(_) => Added::Moved,
        }
    }

    /// Forgets a name. Returns how many periods ago it was counted, if it was.
    fn remove(&mut self, now: Instant, name: u64) -> Option<usize> {
        self.advance(now);
        let period = self.names.remove(&name)?;
        Some(usize::from(period != self.period))
    }

    /// Returns true if a name is counted.
    fn has(&self, name: u64) -> bool {
        self.names.contains_key(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stranger with an address of its own.
    fn stranger(name: u64) -> Caller {
        Caller::Stranger { name, source: name }
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn f02_an_answered_caller_is_counted_once_and_for_a_short_time() {
        let mut tally = Tally::new(FRESH);
        for name in 1..=5 {
            tally.add(at(0), name);
        }
        assert_eq!(tally.count(at(0)), 5);
        assert_eq!(tally.count_others(at(0), 4), 4, "its own slot");
        tally.remove(at(0), 1);
        tally.remove(at(0), 1);
        assert_eq!(tally.count(at(0)), 4, "an INIT counts once");
        assert_eq!(tally.count(at(499)), 4, "still expected");
        assert_eq!(tally.count(at(500)), 0);
        assert_eq!(tally.count_others(at(500), 4), 0, "nor has it a slot");
    }

    #[test]
    fn f02_a_repeated_hello_counts_once() {
        let mut tally = Tally::new(FRESH);
        for tenth in 0..100 {
            tally.add(at(100 * tenth), 7);
            assert_eq!(tally.count(at(100 * tenth)), 1);
        }
        tally.remove(at(10_000), 7);
        assert_eq!(tally.count(at(10_000)), 0, "counted in the period before");
    }

    /// Names that are counted once too often would keep free slots from newcomers.
    #[test]
    fn f34_each_of_many_names_is_counted_once() {
        let mut tally = Tally::new(FRESH);
        for _ in 0..3 {
            for name in 1..=1_000 {
                let _ = tally.add(at(0), name);
            }
        }
        assert_eq!(tally.count(at(0)), 1_000);
        for name in 1..=1_000 {
            let _ = tally.remove(at(250), name);
        }
        assert_eq!(tally.count(at(250)), 0);
    }

    /// Strangers that stop after their HELLO leave their room to others soon.
    #[test]
    fn f34_strangers_that_stopped_are_expected_for_200_ms_at_most() {
        let mut expected = PendingInits::new();
        assert_eq!(flood(&mut expected, at(50), 100), 50);
        assert_eq!(flood(&mut expected, at(199), 100), 0);
        assert_eq!(flood(&mut expected, at(200), 100), 50);
    }

    fn room(packets: u64, slots: u64) -> InitRoom {
        InitRoom {
            packets,
            slots,
            strangers: slots,
        }
    }

    /// Returns the room for `slots` new nodes, and some packets more.
    fn slots(slots: u64) -> InitRoom {
        room(slots + 3 * slots.min(1), slots)
    }

    /// Answers strangers as long as there is room. Returns how many there were.
    fn flood(expected: &mut PendingInits, now: Instant, room: u64) -> u64 {
        let room = slots(room);
        let names = now.as_nanos() + 1..;
        let admitted = names.take_while(|n| expected.admits(now, stranger(*n), room));
        admitted.count() as u64
    }

    #[test]
    fn f02_strangers_leave_half_of_the_room_to_known_nodes() {
        let mut expected = PendingInits::new();
        assert_eq!(flood(&mut expected, at(0), 10), 5);
        for name in 1..=5 {
            assert!(expected.admits(at(0), Caller::Known(name), slots(10)));
            assert!(
                expected.admits(at(0), Caller::Known(name), slots(10)),
                "again"
            );
        }
        assert!(
            !expected.admits(at(0), Caller::Known(6), slots(10)),
            "budget"
        );
        expected.came(at(0), Caller::Known(1));
        assert!(expected.admits(at(0), Caller::Known(6), slots(10)));
        expected.came(at(0), Caller::Known(6));
        expected.came(at(0), stranger(1));
        assert!(expected.admits(at(0), Caller::Known(1), slots(10)));
        assert!(expected.admits(at(0), Caller::Known(6), slots(10)));
        assert!(!expected.admits(at(0), stranger(99), slots(10)));
    }

    #[test]
    fn f02_known_nodes_count_for_strangers_too() {
        let mut expected = PendingInits::new();
        for name in 1..=8 {
            assert!(expected.admits(at(0), Caller::Known(name), slots(10)));
        }
        assert_eq!(flood(&mut expected, at(0), 10), 2);
        assert_eq!(flood(&mut expected, at(0), 0), 0);
        assert!(!PendingInits::new().admits(at(0), Caller::Known(1), slots(0)));
    }

    /// As many strangers are answered as slots were made for, and no fewer slots suffice.
    #[test]
    fn slots_are_freed_for_as_many_strangers_as_may_be_answered() {
        for (limit, waiting, most) in [(1, 9, 1), (3, 9, 1), (9, 9, 3), (32, 99, 12), (32, 5, 5)] {
            let mut expected = PendingInits::new();
            assert_eq!(expected.free_for_strangers(at(0), 0, limit), 0);
            let free = expected.free_for_strangers(at(0), waiting, limit);
            let answered = flood(&mut expected, at(0), free.saturating_sub(2));
            assert!(answered < most, "{answered} of {most}");
            let free = expected.free_for_strangers(at(0), most - answered, limit);
            let more = flood(&mut expected, at(1), free);
            assert_eq!(answered + more, most, "{waiting} at {limit}");
        }
        let mut expected = PendingInits::new();
        assert_eq!(flood(&mut expected, at(0), 32), 16);
        assert_eq!(
            expected.free_for_strangers(at(0), 9, 32),
            0,
            "all of their half"
        );
    }

    /// Strangers may take the last slot, but a known node gets it soon, however many they are.
    #[test]
    fn f02_strangers_yield_to_a_known_node_that_found_no_room() {
        let mut expected = PendingInits::new();
        assert_eq!(flood(&mut expected, at(0), 1), 1);
        let mut now = 0;
        while !expected.admits(at(now), Caller::Known(7), slots(1)) {
            assert_eq!(flood(&mut expected, at(now + 50), 1), 0);
            now += 100;
        }
        assert!(now <= 2_000, "{now}");
        expected.came(at(now), Caller::Known(7));
        assert_eq!(flood(&mut expected, at(now), 1), 0, "others may wait");
        expected.try_again();
        assert_eq!(flood(&mut expected, at(now), 1), 1, "their turn");
        // A known node that stopped calling keeps no stranger out: the waiting callers are tried
        // again.
        assert!(!expected.admits(at(now), Caller::Known(8), slots(1)));
        assert_eq!(flood(&mut expected, at(now + 2_000), 1), 0);
        expected.try_again();
        assert_eq!(flood(&mut expected, at(now + 2_000), 1), 1);
    }

    /// A peer that has a slot and connects anew takes no slot of a new node.
    #[test]
    fn f02_a_caller_with_a_slot_takes_no_newcomers_room() {
        let mut expected = PendingInits::new();
        let room = room(4, 1);
        for name in 1..=3 {
            assert!(expected.admits(at(0), Caller::Admitted(name), room));
        }
        assert!(
            expected.admits(at(0), Caller::Known(9), room),
            "the one slot"
        );
        assert!(
            !expected.admits(at(0), Caller::Admitted(4), room),
            "no packet is left"
        );
        assert!(expected.admits(at(0), Caller::Admitted(3), room), "again");
        expected.came(at(0), Caller::Known(3));
        assert!(
            expected.admits(at(0), Caller::Admitted(4), room),
            "one came"
        );
        assert!(expected.awaits(at(0), Caller::Admitted(4)));
        assert!(!expected.awaits(at(0), Caller::Known(4)));
        assert!(!expected.awaits(at(2_000), Caller::Admitted(4)), "long ago");
    }

    /// Calls in the names of nodes that have a slot take no packet that a new node waits for.
    #[test]
    fn f02_nodes_with_a_slot_yield_to_a_newcomer_without_a_packet() {
        let mut expected = PendingInits::new();
        let room = room(1, 1);
        assert!(expected.admits(at(0), Caller::Admitted(1), room));
        let mut now = 0;
        while !expected.admits(at(now), Caller::Known(7), room) {
            now += 100;
            for name in 2..=9 {
                assert!(!expected.admits(at(now), Caller::Admitted(name), room));
            }
        }
        assert!(now <= 2_000, "{now}");
        expected.came(at(now), Caller::Known(7));
        expected.try_again();
        assert!(
            expected.admits(at(now), Caller::Admitted(2), room),
            "its turn"
        );
    }

    /// A known node that finds packets but no slot does not keep out nodes that only need a
    /// packet.
    #[test]
    fn f02_a_waiting_caller_keeps_out_no_node_with_a_slot() {
        let mut expected = PendingInits::new();
        let room = room(3, 1);
        assert!(expected.admits(at(0), Caller::Known(7), room));
        assert!(!expected.admits(at(0), Caller::Known(8), room), "no slot");
        assert!(expected.admits(at(0), Caller::Admitted(1), room));
        let last = InitRoom { packets: 1, ..room };
        assert!(expected.admits(at(5_000), Caller::Admitted(1), last));
    }

    /// A stranger finds a packet, however many HELLOs come in the names of nodes that have a slot.
    #[test]
    fn f02_nodes_with_a_slot_leave_a_packet_to_strangers() {
        let mut expected = PendingInits::new();
        let room = room(4, 2);
        let admitted =
            (1..=20).filter(|name| expected.admits(at(0), Caller::Admitted(*name), room));
        assert_eq!(admitted.count(), 3);
        assert!(expected.admits(at(0), stranger(1), room));
    }

    /// F02: a flood from one address leaves half of the strangers' room to others, who get in while
    /// it lasts. A thousand honest strangers of one address take turns.
    #[test]
    fn f02_a_flood_from_one_address_leaves_room_to_others() {
        let mut expected = PendingInits::new();
        let room = slots(160);
        let of_one = |name| Caller::Stranger { name, source: 1 };
        let calls = (1..=1_000).filter(|name| expected.admits(at(0), of_one(*name), room));
        assert_eq!(calls.count(), 41);
        assert!(expected.has_full_source(at(0), of_one(999), room));
        // A repeated HELLO of one that was answered is answered again.
        assert!(expected.admits(at(0), of_one(41), room));
        let others = (2_001..=2_100).filter(|name| expected.admits(at(0), stranger(*name), room));
        assert_eq!(others.count(), 39);
        for name in 1..=41 {
            expected.came(at(1_500), of_one(name));
        }
        assert!(expected.admits(at(1_500), of_one(42), room));
        let mut honest = PendingInits::new();
        for name in 1..=1_000 {
            assert!(honest.admits(at(name), of_one(name), room), "{name}");
            if name > 20 {
                honest.came(at(name), of_one(name - 20));
            }
        }
    }
}
