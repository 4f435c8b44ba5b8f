//! The key phases of a connection: which key seals the next packet, which ones may open a packet.
//!
//! A sender moves to its next phase at its [`PhaseLimit`]. The first packet of a phase holds a
//! PING; the sender moves on only after a packet of the phase was acknowledged. So sender and
//! receiver are never more than one phase apart, and two bits in the header tell the previous, the
//! present and the next phase of the receiver from each other (RFC 9001 section 6 does the same
//! with one bit and a delay).
//!
//! A receiver keeps the keys of its previous phase for packets that come late, for
//! [`PREVIOUS_KEPT`].
//!
//! A sender that may not move on and has used up its phase seals nothing more: the connection is
//! replaced, as one whose packet numbers are used up.

use super::{AEAD_TAG, ConnectionKeys, NotAuthentic, Open, Seal};
use crate::limits::{self, MAX_FORGERIES};
use crate::planted;
use crate::time::{Duration, Instant};
use crate::types::PacketNumber;
use crate::wire::{HEADER, SealedHeader};
use core::cell::{Cell, OnceCell};
use core::fmt;

/// Phases in the header are counted modulo this.
const PHASES: u8 = 4;

/// Number of the last trains whose last packet an UNKNOWN may name.
const TAILS: usize = 4;

/// How long the keys of the previous phase are kept: more than three probe timeouts (RFC 9001
/// section 6.5).
const PREVIOUS_KEPT: Duration = Duration::from_secs(10);

/// How long a key phase lasts at most.
#[derive(Clone, Copy, Debug)]
pub struct PhaseLimit {
    /// Packets that are sealed in it.
    pub packets: u64,
    /// Time from its first packet.
    pub time: Duration,
}

/// The keys of one connection.
pub struct Sealing {
    sender: SenderPhase,
    receiver: ReceiverPhases,
    /// Packets for this connection that were not authentic, in all phases. A count of packets that
    /// anybody may have sent: it does not make the peer active.
    forged: Cell<u64>,
    /// The last 8 bytes of the last packets of trains: only the peer and the path know them.
    tails: [u64; TAILS],
    newest_tail: usize,
}

/// Leaves the keys out.
impl fmt::Debug for Sealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phases = (self.sender.phase, self.receiver.phase);
        write!(f, "Sealing in phases {phases:?}")
    }
}

/// The present phase of the packets that this node sends.
struct SenderPhase {
    seal: Box<dyn Seal>,
    phase: u8,
    /// Packets sealed in this phase.
    sealed: u64,
    /// When the first packet of the phase was sealed, and its number.
    began: Option<(Instant, PacketNumber)>,
    /// A packet of this phase was acknowledged.
    confirmed: bool,
}

/// The phases of the packets that this node may receive.
struct ReceiverPhases {
    phase: u8,
    /// With the time when the present phase began.
    previous: Option<(Box<dyn Open>, Instant)>,
    present: Box<dyn Open>,
    /// Made when the first packet claims to be of the next phase: forged ones cost no further
    /// derivation.
    next: OnceCell<Box<dyn Open>>,
    /// No packet is authentic any more.
    revoked: bool,
}

/// The key for the next packets of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Packets may be sealed.
    Ready,
    /// A new phase begins with the next packet, which must hold a PING.
    Begins,
    /// This key may seal no more packets.
    UsedUp,
}

impl Sealing {
    /// Begins with the first phase of these keys, in both directions.
    pub fn new(keys: ConnectionKeys) -> Self {
        Self {
            sender: SenderPhase {
                seal: keys.seal,
                phase: 0,
                sealed: 0,
                began: None,
                // The handshake proved that the peer has the key of the first phase.
                confirmed: true,
            },
            receiver: ReceiverPhases {
                phase: 0,
                previous: None,
                present: keys.open,
                next: OnceCell::new(),
                revoked: false,
            },
            forged: Cell::new(0),
            tails: [0; TAILS],
            newest_tail: 0,
        }
    }

    /// Returns the phase of the packets that are sealed now.
    pub fn phase(&self) -> u8 {
        self.sender.phase
    }

    /// Prepares to seal a train at `now` whose first packet has this `number`.
    pub fn prepare(&mut self, now: Instant, number: PacketNumber, limit: PhaseLimit) -> Readiness {
        self.receiver.forget_previous(now);
        self.sender.prepare(now, number, limit)
    }

    /// Notes that the packet `largest` was acknowledged.
    pub fn on_acked(&mut self, largest: PacketNumber) {
        let began = self.sender.began;
        self.sender.confirmed |= began.is_some_and(|(_, first)| first <= largest);
    }

    /// Seals `body` into `sealed`, which gets header, ciphertext and tag. `sealed` has room for
    /// exactly that.
    pub fn seal(&mut self, header: &[u8; HEADER], body: &[&[u8]], sealed: &mut [u8]) {
        self.sender.sealed = self.sender.sealed.saturating_add(1);
        let Some((head, rest)) = sealed.split_first_chunk_mut() else {
            return;
        };
        *head = *header;
        let number = header.last_chunk().map_or(0, |n| u64::from_le_bytes(*n));
        self.sender.seal.seal(number, header, body, rest);
    }

    /// Seals the last packet of the connection: `packet` holds header and frames.
    pub fn seal_alone(&mut self, packet: &[u8]) -> Vec<u8> {
        let mut sealed = vec![0; packet.len().saturating_add(AEAD_TAG)];
        if let Some((header, body)) = packet.split_first_chunk() {
            self.seal(header, &[body], &mut sealed);
        }
        sealed
    }

    /// Notes the last 8 bytes of a packet that is sent.
    pub fn note_tail(&mut self, tail: u64) {
        self.newest_tail = self.newest_tail.wrapping_add(1) % TAILS;
        if let Some(place) = self.tails.get_mut(self.newest_tail) {
            *place = tail;
        }
    }

    /// Returns true if a packet with these last bytes was sent of late, as the last of its train.
    pub fn sent_lately(&self, tail: u64) -> bool {
        tail != 0 && self.tails.contains(&tail)
    }

    /// Opens a packet in place. Changes nothing else, but counts what is not authentic.
    pub fn open(&self, header: &SealedHeader, datagram: &mut [u8]) -> Result<(), NotAuthentic> {
        let (head, body) = datagram.split_first_chunk_mut().ok_or(NotAuthentic)?;
        let open = self.receiver.key(header.phase).ok_or(NotAuthentic)?;
        let opened = open.open(header.number, head, body);
        if opened.is_err() {
            self.forged.set(self.forged.get().saturating_add(1));
        }
        opened
    }

    /// Notes that a packet of this phase was opened.
    pub fn on_opened(&mut self, now: Instant, phase: u8) {
        self.receiver.forget_previous(now);
        self.receiver.on_opened(now, phase);
    }

    /// Returns true if so many packets were forged that these keys should open no more.
    pub fn is_worn_out(&self) -> bool {
        self.forged.get() >= MAX_FORGERIES && !self.receiver.revoked
    }

    /// Drops the keys that only packets under way need, of a peer that was silent for longer.
    pub fn shrink(&mut self) {
        self.receiver.previous = None;
    }

    /// Counts `packets` as forged.
    #[doc(hidden)]
    pub fn wear_out(&mut self, packets: u64) {
        self.forged.set(packets);
    }

    /// Returns true if the keys of the previous phase are there.
    #[cfg(test)]
    pub fn has_previous(&self) -> bool {
        self.receiver.previous.is_some()
    }

    /// Counts `packets` as sealed in this phase.
    #[doc(hidden)]
    pub fn use_up_phase(&mut self, packets: u64) {
        self.sender.sealed = packets;
    }

    /// Makes all further packets count as not authentic.
    pub fn revoke(&mut self) {
        self.receiver.revoked = true;
    }
}

impl SenderPhase {
    fn prepare(&mut self, now: Instant, number: PacketNumber, limit: PhaseLimit) -> Readiness {
        let (began, _) = *self.began.get_or_insert((now, number));
        let longest = limits::MAX_SEGMENTS as u64;
        let has_room = self.sealed.saturating_add(longest) <= limit.packets;
        let is_due = !has_room || now.since(began) >= limit.time;
        if is_due && self.confirmed {
            if !planted("phase-without-key") {
                self.seal = self.seal.next();
            }
            self.phase = self.phase.wrapping_add(1) % PHASES;
            self.sealed = 0;
            self.began = Some((now, number));
            self.confirmed = false;
            return Readiness::Begins;
        }
        match has_room {
            true => Readiness::Ready,
            false => Readiness::UsedUp,
        }
    }
}

impl ReceiverPhases {
    /// Returns the key of the phase with these bits.
    fn key(&self, phase: u8) -> Option<&dyn Open> {
        if self.revoked {
            return None;
        }
        match phase.wrapping_sub(self.phase) % PHASES {
            0 => Some(&*self.present),
            1 => Some(&**self.next.get_or_init(|| self.present.next())),
            3 => self.previous.as_ref().map(|(open, _)| &**open),
            _ => None,
        }
    }

    fn forget_previous(&mut self, now: Instant) {
        let is_late = |(_, since): &mut (_, Instant)| now >= *since + PREVIOUS_KEPT;
        drop(self.previous.take_if(is_late));
    }

    fn on_opened(&mut self, now: Instant, phase: u8) {
        if phase.wrapping_sub(self.phase) % PHASES != 1 {
            return;
        }
        let Some(next) = self.next.take() else {
            return;
        };
        self.previous = Some((core::mem::replace(&mut self.present, next), now));
        self.phase = phase;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{MAX_SEGMENTS, PHASE_PACKETS, PHASE_TIME};
    use crate::security::Handshakes;
    use crate::time::Duration;
    use crate::toy_cipher::{RecordingHandshakes, SealLedger};
    use crate::types::NodeId;

    const START: Instant = Instant::ZERO;

    fn prepare(sealing: &mut Sealing, now: Instant, number: PacketNumber) -> Readiness {
        let limit = PhaseLimit {
            packets: PHASE_PACKETS,
            time: PHASE_TIME,
        };
        sealing.prepare(now, number, limit)
    }

    fn ends() -> (Sealing, Sealing, SealLedger) {
        let ledger = SealLedger::default();
        let makes = RecordingHandshakes::new(ledger.clone(), &[1]);
        let len = makes.message_len();
        let (mut first, mut second) = (vec![0; len], vec![0; len]);
        let mut initiator = makes.initiate(NodeId(1), 0, b"", &mut first).unwrap();
        let theirs = makes.respond(NodeId(0), b"", &first).unwrap();
        let theirs = theirs.answer(b"", &mut second).unwrap();
        let ours = initiator.finish(b"", &second).unwrap();
        (Sealing::new(ours), Sealing::new(theirs), ledger)
    }

    fn sealed(sealing: &mut Sealing, number: PacketNumber) -> Vec<u8> {
        let header = SealedHeader {
            index: 7,
            number,
            phase: sealing.phase(),
        };
        sealing.seal_alone(&[&header.bytes()[..], b"frames"].concat())
    }

    fn opens(sealing: &mut Sealing, packet: &[u8]) -> bool {
        opens_at(sealing, START, packet)
    }

    fn opens_at(sealing: &mut Sealing, now: Instant, packet: &[u8]) -> bool {
        let header = SealedHeader::read(packet).unwrap();
        let mut copy = packet.to_vec();
        let opened = sealing.open(&header, &mut copy).is_ok();
        if opened {
            sealing.on_opened(now, header.phase);
            assert_eq!(copy.get(HEADER..HEADER + 6), Some(&b"frames"[..]));
        }
        opened
    }

    #[test]
    fn two_phases_are_live_at_a_time() {
        let (mut ours, mut theirs, ledger) = ends();
        let mut packets = Vec::new();
        for phase in 0..6_u64 {
            let now = START + PHASE_TIME.saturating_mul(u32::try_from(phase).unwrap());
            let began = prepare(&mut ours, now, phase) == Readiness::Begins;
            assert_eq!(began, phase > 0);
            packets.push(sealed(&mut ours, phase));
            ours.on_acked(phase);
        }
        for newest in 0..packets.len() {
            assert!(opens(&mut theirs, &packets[newest]), "{newest}");
            for (phase, packet) in packets.iter().enumerate() {
                let live = phase == newest || phase + 1 == newest;
                let next = phase == newest + 1;
                if !next {
                    assert_eq!(opens(&mut theirs, packet), live, "{phase} in {newest}");
                }
            }
        }
        assert_eq!((ledger.phases(), ledger.repeats().len()), (5, 0));
    }

    #[test]
    fn a_phase_ends_by_its_packets() {
        let (mut ours, _, _) = ends();
        assert_eq!(prepare(&mut ours, START, 0), Readiness::Ready);
        ours.sender.sealed = PHASE_PACKETS - MAX_SEGMENTS as u64;
        assert_eq!(prepare(&mut ours, START, 1), Readiness::Ready);
        ours.sender.sealed += 1;
        assert_eq!(prepare(&mut ours, START, 1), Readiness::Begins);
        ours.sender.sealed = PHASE_PACKETS;
        let later = START + PHASE_TIME;
        assert_eq!(
            prepare(&mut ours, later, 9),
            Readiness::UsedUp,
            "unconfirmed"
        );
        ours.on_acked(0);
        assert_eq!(prepare(&mut ours, later, 9), Readiness::UsedUp);
        ours.on_acked(1);
        assert_eq!(prepare(&mut ours, later, 9), Readiness::Begins);
    }

    #[test]
    fn a_phase_ends_by_time_once_it_is_confirmed() {
        let (mut ours, _, _) = ends();
        assert_eq!(prepare(&mut ours, START, 0), Readiness::Ready);
        let short = START + (PHASE_TIME - Duration::from_nanos(1));
        assert_eq!(prepare(&mut ours, short, 1), Readiness::Ready);
        let later = START + PHASE_TIME;
        assert_eq!(prepare(&mut ours, later, 2), Readiness::Begins);
        let latest = later + PHASE_TIME;
        assert_eq!(prepare(&mut ours, latest, 3), Readiness::Ready);
        ours.on_acked(2);
        assert_eq!(prepare(&mut ours, latest, 4), Readiness::Begins);
    }

    /// A receiver of two phases: the sender, and the packets of both.
    fn second_phase() -> (Sealing, Sealing, [Vec<u8>; 2]) {
        let (mut ours, mut theirs, _) = ends();
        let packets = [0, 1].map(|phase| {
            let now = START + PHASE_TIME.saturating_mul(phase);
            prepare(&mut ours, now, phase.into());
            sealed(&mut ours, phase.into())
        });
        assert!(packets.iter().all(|packet| opens(&mut theirs, packet)));
        assert!(theirs.has_previous());
        (ours, theirs, packets)
    }

    #[test]
    fn keys_of_the_previous_phase_are_dropped_after_a_while() {
        let kept = START + PREVIOUS_KEPT;
        let (_, mut theirs, [old, new]) = second_phase();
        let shortly_before = kept - Duration::from_nanos(1);
        assert!(opens_at(&mut theirs, shortly_before, &old), "late packets");
        assert!(opens_at(&mut theirs, kept, &new) && !theirs.has_previous());
        assert!(!opens_at(&mut theirs, kept, &old));
        // Also if nothing comes any more: whatever is sent, and once the peer is idle.
        let (_, mut theirs, _) = second_phase();
        prepare(&mut theirs, kept, 1);
        assert!(!theirs.has_previous());
        let (_, mut theirs, _) = second_phase();
        theirs.shrink();
        assert!(!theirs.has_previous());
    }

    #[test]
    fn forgeries_wear_keys_out() {
        let (mut ours, mut theirs, _) = ends();
        let packet = sealed(&mut ours, 0);
        let mut forged = packet.clone();
        *forged.last_mut().unwrap() ^= 1;
        theirs.wear_out(MAX_FORGERIES - 1);
        assert!(opens(&mut theirs, &packet) && !theirs.is_worn_out());
        assert!(!opens(&mut theirs, &forged) && theirs.is_worn_out());
        theirs.revoke();
        assert!(!theirs.is_worn_out(), "said once");
    }

    #[test]
    fn forged_phases_change_nothing() {
        let (mut ours, mut theirs, _) = ends();
        for phase in 0..PHASES {
            let mut forged = sealed(&mut ours, u64::from(phase));
            forged[1] = phase;
            assert_eq!(opens(&mut theirs, &forged), phase == 0);
        }
        theirs.revoke();
        assert!(!opens(&mut theirs, &sealed(&mut ours, 9)));
    }

    #[test]
    fn only_tails_of_late_packets_are_known() {
        let (mut ours, _, _) = ends();
        assert!(!ours.sent_lately(0));
        (1..=5).for_each(|tail| ours.note_tail(tail));
        assert!(!ours.sent_lately(1) && ours.sent_lately(2) && ours.sent_lately(5));
    }
}
