//! Socket credit: each rule alone, then all of them against a hostile network.

use super::*;
use suci_link::limits::{
    CREDIT_LAPSE, DATA_CHARGE, ETHERNET_MTU, JUMBO_DATAGRAM, MAX_DATAGRAM, MIN_MTU,
};
use suci_link::time::{Duration, Instant};
use suci_link::types::PacketNumber;

mod grant;
mod model;
mod ranges;
mod send;
mod shares;

impl Shares {
    /// Notes that one packet was read.
    fn drain_one(
        &mut self,
        grant: &mut Grant,
        number: PacketNumber,
        eliciting: bool,
        now: Instant,
    ) {
        let kind = match eliciting {
            true => DrainedKind::Data,
            false => DrainedKind::Ack,
        };
        self.on_drained(grant, number..=number, kind, now);
    }
}

/// The tenure of a near peer.
const NEAR: Tenure = Tenure {
    idle: IDLE,
    turn: TURN,
};

/// A buffer whose budget holds this many full packets.
fn buffer(packets: u64) -> u64 {
    packets * DATA_CHARGE * 2
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// A RETURN that binds no packets.
fn answer_of(generation: u64, highest: PacketNumber) -> SocketReturn {
    let size = 0;
    SocketReturn {
        generation,
        highest,
        size,
    }
}

const L: u64 = CREDIT_LAPSE.as_millis() as u64;

/// Returns a buffer in which the share of a single peer that needs more is `share` packets.
fn buffer_of_one(share: u64) -> u64 {
    let needed = share * DATA_CHARGE;
    let fits = |bytes: &u64| {
        let shares = Shares::new(*bytes);
        shares.free() - shares.reserve() >= needed
    };
    ((needed * 2).max(6_656)..)
        .step_by(8)
        .find(fits)
        .expect("some size")
}

/// A socket with one peer, whose share is `share` packets.
fn one(share: u64, first: PacketNumber) -> (Shares, Grant) {
    let mut shares = Shares::new(buffer_of_one(share));
    let mut grant = shares
        .admit(first, ETHERNET_MTU, at(0))
        .expect("room for one");
    shares.mark_unsatisfied(&mut grant);
    shares.serve(&mut grant, at(0));
    assert_eq!(grant.share(), share);
    (shares, grant)
}

fn offer(generation: u64, limit: PacketNumber, control: u64) -> SocketCredit {
    SocketCredit {
        generation,
        limit,
        control,
    }
}

/// Returns true if nothing is on the books.
fn is_unused(shares: &Shares, recv_buffer: u64) -> bool {
    let fresh = Shares::new(recv_buffer);
    (shares.peers(), shares.free(), shares.next_to_serve()) == (0, fresh.free(), None)
        && shares.control_free() == fresh.control_free()
}
