//! Packets drained together, and one by one.

use super::*;
use proptest::prelude::*;

/// The next event of one peer or of the socket.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A peer's packets are drained after others were lost. The fields are the peer, the packets
    /// lost, the packets drained, and how far beyond the limit the numbers may go.
    Run(usize, u64, u64, u64),
    /// The oldest packet counted as lost arrives late.
    Late(usize),
    /// A peer is told its credit.
    Tell(usize),
    /// A peer asks for credit (BLOCKED).
    Blocked(usize),
    /// A peer is asked for its unused credit, and returns it.
    Return(usize),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let peer = 0..3_usize;
    let step = prop_oneof![
        6 => (peer.clone(), prop_oneof![4 => Just(0_u64), 1 => 1..3_u64], 1..60_u64, prop_oneof![4 => Just(0_u64), 1 => 1..4_u64])
            .prop_map(|(peer, gap, length, beyond)| Step::Run(peer, gap, length, beyond)),
        1 => peer.clone().prop_map(Step::Late),
        4 => peer.clone().prop_map(Step::Tell),
        1 => peer.clone().prop_map(Step::Blocked),
        1 => peer.prop_map(Step::Return),
        2 => (1..150_u64).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..60)
}

/// A socket and its senders.
struct Side {
    shares: Shares,
    grants: Vec<Grant>,
    /// The oldest number of each that was lost.
    lost: Vec<Option<PacketNumber>>,
    together: bool,
}

impl Side {
    fn new(packets: u64, together: bool) -> Self {
        let mut shares = Shares::new(buffer(packets));
        let grants: Vec<_> = (0..3)
            .filter_map(|_| shares.admit(0, ETHERNET_MTU, at(0)))
            .collect();
        Self {
            lost: vec![None; grants.len()],
            shares,
            grants,
            together,
        }
    }

    fn take(&mut self, step: Step, now: Instant) {
        let Self {
            shares,
            grants,
            lost,
            together,
        } = self;
        match step {
            Step::Run(peer, gap, length, beyond) => {
                let grant = &mut grants[peer];
                let first = grant.drained_end() + gap;
                let last = (first + length - 1).min(grant.limit().saturating_add(beyond));
                if gap > 0 {
                    lost[peer] = Some(first - 1);
                }
                if *together {
                    shares.on_drained(grant, first..=last, DrainedKind::Data, now);
                } else {
                    (first..=last).for_each(|number| shares.drain_one(grant, number, true, now));
                }
            }
            Step::Late(peer) => {
                if let Some(number) = lost[peer].take() {
                    shares.drain_one(&mut grants[peer], number, true, now);
                }
            }
            Step::Tell(peer) => drop(grants[peer].credit()),
            Step::Blocked(peer) => {
                shares.on_used_up(&mut grants[peer], now);
                shares.on_blocked(&mut grants[peer], peer, now);
            }
            Step::Return(peer) => {
                let grant = &mut grants[peer];
                let highest = grant.drained_end().saturating_sub(1);
                let generation = grant.credit().generation;
                shares.on_return(grant, answer_of(generation, highest), now);
            }
            Step::Wait(_) => {}
        }
    }

    fn seen(&self) -> String {
        format!("{:?}\n{:?}", self.shares, self.grants)
    }
}

proptest! {
    /// Grants, books and memory end up the same.
    #[test]
    fn draining_a_range_equals_draining_its_packets_one_by_one(packets in 40..400_u64, steps in steps()) {
        let (mut together, mut single) = (Side::new(packets, true), Side::new(packets, false));
        let mut now = at(1);
        for step in steps {
            if let Step::Wait(millis) = step {
                now += Duration::from_millis(millis);
            }
            together.take(step, now);
            single.take(step, now);
            prop_assert_eq!(together.seen(), single.seen(), "after {:?}", step);
        }
    }
}
