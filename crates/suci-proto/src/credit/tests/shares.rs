//! The budget of a socket.

use super::*;
use std::collections::BTreeSet;

const MIB: u64 = 1 << 20;

/// Packets for data in a buffer of 8 MiB, and those of them that shares do not grow into.
const GRANTABLE: u64 = 1_734;
const RESERVE: u64 = 27;

#[test]
fn the_peer_limit_is_1260_at_8_mib() {
    let shares = Shares::new(8 * MIB);
    assert_eq!(shares.peer_limit(), 1_260);
    // Of 1,820 packets, 29 are set apart for INITs, and about as much as 57 for more control
    // packets than two each.
    assert_eq!(shares.room_for_inits(true), 1_763);
    assert_eq!(shares.free() / DATA_CHARGE, GRANTABLE);
    assert_eq!(shares.control_target(), 64);
    assert_eq!(Shares::new(0).peer_limit(), 0);
}

#[test]
fn a_packet_is_charged_as_the_kernel_does() {
    for (payload, charge) in [
        (0, 832),
        (128, 832),
        (129, 1_280),
        (512, 1_280),
        (1_200, 2_304),
        (1_472, 2_304),
        (4_096, 8_448),
        (65_507, 66_339),
        (usize::MAX, 66_339),
    ] {
        assert_eq!(data_charge(payload), charge, "{payload}");
    }
    let mut before = 0;
    for payload in (0..70_000_usize).step_by(7) {
        let charge = data_charge(payload);
        assert!(charge >= before && charge >= payload.min(65_507) as u64 + 128);
        if (4_097..32_000).contains(&payload) {
            let linear = (payload as u64 + 448).next_power_of_two() + 256;
            assert!(charge >= linear, "{payload}: {charge} < {linear}");
        }
        before = charge;
    }
}

/// Makes the peers use up their grants, `rounds` times.
fn all_busy(shares: &mut Shares, grants: &mut [Grant], rounds: u64, from: u64) {
    for round in 0..rounds {
        for grant in &mut *grants {
            let all = grant.credit().limit;
            shares.drain_one(grant, all, true, at(from + round));
            shares.check().unwrap();
        }
    }
}

fn sum(grants: &[Grant]) -> u64 {
    grants.iter().map(Grant::share).sum()
}

#[test]
fn peers_that_need_more_divide_all_but_the_reserve() {
    let mut shares = Shares::new(8 * MIB);
    let mut grants = Vec::new();
    let reserve = shares.reserve() / DATA_CHARGE;
    assert_eq!(reserve, RESERVE);
    for peers in 1..=64_u64 {
        let newcomer = shares.admit(0, ETHERNET_MTU, at(peers)).unwrap();
        assert!(newcomer.share() >= 1, "peer {peers}");
        grants.push(newcomer);
        all_busy(&mut shares, &mut grants, 12, peers);
        let given: Vec<u64> = grants.iter().map(Grant::share).collect();
        assert!(
            sum(&grants) + reserve + 10 >= GRANTABLE,
            "{peers}: {}",
            sum(&grants)
        );
        assert!(shares.free() + DATA_CHARGE >= shares.reserve(), "{peers}");
        let fair = (GRANTABLE - reserve) / peers;
        let even = |g: &Grant| (fair - 1..=fair + 1).contains(&g.share());
        assert!(grants.iter().all(even), "{peers}: {given:?}");
    }
    for grant in &mut grants {
        shares.release(grant);
        shares.release(grant);
    }
    assert_eq!(
        (shares.peers(), shares.free() / DATA_CHARGE),
        (0, GRANTABLE)
    );
    assert!(is_unused(&shares, 8 * MIB));
}

#[test]
fn a_quarter_of_the_buffer_moves_at_each_poll_of_64_or_1000_senders() {
    for peers in [64_u64, 1_000] {
        let mut shares = Shares::new(8 * MIB);
        let mut grants: Vec<Grant> = Vec::new();
        let mut now = 0;
        while (grants.len() as u64) < peers {
            grants.extend(shares.admit(0, ETHERNET_MTU, at(now)));
            now += 1;
            all_busy(&mut shares, &mut grants, 1, now);
        }
        all_busy(&mut shares, &mut grants, 3, now);
        // The packets that senders may put there until the next poll, with 1,430 bytes of payload
        // each.
        let packets: u64 = grants.iter().map(|g| g.limit() + 1 - g.drained_end()).sum();
        assert!(packets * 1_430 >= 2 * MIB, "{peers}: {packets} packets");
        assert!(grants.iter().all(|g| g.share() >= 1));
    }
}

#[test]
fn peers_without_need_leave_the_budget_to_others() {
    let mut shares = Shares::new(8 * MIB);
    let mut modest: Vec<Grant> = Vec::new();
    for _ in 0..30 {
        modest.extend(shares.admit(0, ETHERNET_MTU, at(0)));
    }
    let before = sum(&modest);
    let mut bulk = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
    // The modest peers send one packet every 10 ms; the bulk sender uses up its credit.
    for millis in (10..2_000).step_by(10) {
        for grant in &mut modest {
            let next = grant.drained_end();
            shares.drain_one(grant, next, true, at(millis));
            if grant.ride_due() {
                grant.credit();
            }
        }
        let all = bulk.credit().limit;
        shares.drain_one(&mut bulk, all, true, at(millis));
        shares.check().unwrap();
    }
    assert!(sum(&modest) * 3 < before, "{} of {before}", sum(&modest));
    assert!(modest.iter().all(|g| g.share() >= 8));
    assert!(
        bulk.share() + sum(&modest) + RESERVE + 2 >= GRANTABLE,
        "{}",
        bulk.share()
    );
    // While no peer is unsatisfied, no share shrinks.
    shares.release(&mut bulk);
    let before = sum(&modest);
    for grant in &mut modest {
        let next = grant.drained_end();
        shares.drain_one(grant, next, true, at(5_000));
    }
    assert_eq!(sum(&modest), before);
}

#[test]
fn without_a_peer_nothing_is_short() {
    for buffer in [0, 4_096, 13_312, 50_000, 100_000, 106_496, 212_992, 8 * MIB] {
        assert!(!Shares::new(buffer).is_short(), "{buffer} B");
    }
}

#[test]
fn credit_that_active_peers_need_is_reclaimed_from_idle_peers() {
    let mut shares = Shares::new(8 * MIB);
    let mut grants: Vec<Grant> = (0..2)
        .map(|_| shares.admit(0, ETHERNET_MTU, at(0)).unwrap())
        .collect();
    all_busy(&mut shares, &mut grants, 3, 1);
    assert!(shares.is_short());
    let [idle, busy] = &mut grants[..] else {
        panic!()
    };
    let even = idle.share();
    for millis in [100, 200, 252, 300] {
        let all = busy.credit().limit;
        shares.drain_one(busy, all, true, at(millis));
        shares.satisfy_if_silent(idle, at(millis));
        assert_eq!(
            shares.reclaim_due(idle, NEAR, at(millis)),
            millis > 252,
            "{millis}"
        );
    }
    let generation = shares.reclaim(idle, at(300)).unwrap();
    let number = idle.drained_end();
    shares.on_return(idle, answer_of(generation, number), at(301));
    shares.drain_one(idle, number, true, at(301));
    assert_eq!(idle.share(), 4, "enough for its next request");
    assert!(!shares.reclaim_due(idle, NEAR, at(900)), "it keeps that");
    let all = busy.credit().limit;
    shares.drain_one(busy, all, true, at(302));
    assert!(busy.share() > 1_700, "{}", busy.share());
    // The idle peer wakes up and needs as much again.
    all_busy(&mut shares, &mut grants, 8, 1_000);
    let shared: Vec<u64> = grants.iter().map(Grant::share).collect();
    assert!(
        shared.iter().all(|s| s.abs_diff(even) <= 2),
        "{shared:?} after {even}"
    );
}

/// A distant peer's packets arrive after its limit was raised, so that none of them comes near it.
#[test]
fn a_peer_that_reports_its_limit_used_needs_more() {
    let mut shares = Shares::new(8 * MIB);
    let mut far = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
    let first = far.share();
    for number in 0..1_000 {
        shares.drain_one(&mut far, number, true, at(number));
        far.credit();
    }
    assert_eq!(far.share(), first);
    shares.on_used_up(&mut far, at(1_000));
    shares.on_blocked(&mut far, 0, at(1_000));
    let all = shares.reserve() / DATA_CHARGE + far.share() + 1;
    assert!(all >= GRANTABLE, "{all}");
    // The report counts as long as a packet that came near its limit.
    far.credit();
    shares.drain_one(&mut far, 1_000, true, at(1_199));
    assert!(far.part().is_some());
    shares.drain_one(&mut far, 1_001, true, at(1_200));
    assert!(far.part().is_none());
    shares.on_used_up(&mut far, at(1_200));
    // A peer without credit waits for its turn like all peers that ask.
    shares.reclaim(&mut far, at(1_201)).unwrap();
    shares.on_used_up(&mut far, at(1_202));
    assert_eq!(far.part(), None);
}

/// Simulates a peer that had all of the budget when two others came, and from then on sends one
/// packet every `period` milliseconds. Returns how often it was asked to give credit back, and the
/// credit of all three in the end.
fn after_having_all(period: usize, says_that_it_waits: bool) -> (u32, Vec<u64>) {
    let mut shares = Shares::new(8 * MIB);
    let mut slow = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
    all_busy(&mut shares, core::slice::from_mut(&mut slow), 12, 0);
    let mut others: Vec<_> = (0..2)
        .map(|_| shares.admit(0, ETHERNET_MTU, at(12)).unwrap())
        .collect();
    let mut given_back = 0;
    for (now, number) in (100..=5_000).step_by(period).zip(slow.drained_end()..) {
        if says_that_it_waits {
            shares.on_used_up(&mut slow, at(now));
            shares.on_blocked(&mut slow, 0, at(now));
        }
        shares.drain_one(&mut slow, number, true, at(now));
        slow.credit();
        all_busy(&mut shares, &mut others, 1, now);
        if shares.reclaim_due(&slow, NEAR, at(now)) {
            assert!(now > 1_000, "{now} ms");
            let generation = shares.reclaim(&mut slow, at(now)).unwrap();
            shares.on_return(&mut slow, answer_of(generation, number), at(now));
            given_back += 1;
        }
        shares.check().unwrap();
    }
    let grants = core::iter::once(&slow).chain(&others);
    (given_back, grants.map(Grant::share).collect())
}

/// The slow peer is never idle for long, and would take three minutes to use up its credit.
#[test]
fn credit_of_a_slow_peer_beyond_its_share_is_reclaimed() {
    let (given_back, given) = after_having_all(100, false);
    assert_eq!(given_back, 1);
    assert!(given[0] <= 4, "{given:?}");
    assert!(given[1..].iter().all(|s| *s > 800), "{given:?}");
}

/// A distant peer never comes near its limit, and would wait a round trip for credit.
#[test]
fn used_credit_beyond_the_share_is_not_reclaimed() {
    let (given_back, _) = after_having_all(2, false);
    assert_eq!(given_back, 0);
}

#[test]
fn a_peer_that_lies_about_its_limit_gets_only_its_part() {
    let (given_back, given) = after_having_all(100, true);
    assert_eq!(given_back, 1);
    let fair = (GRANTABLE - RESERVE) / 3;
    assert!(given.iter().all(|s| s.abs_diff(fair) <= 1), "{given:?}");
}

#[test]
fn demands_are_weights_among_peers_that_need_more() {
    let mut shares = Shares::new(8 * MIB);
    let mut grants: Vec<Grant> = (0..4)
        .map(|_| shares.admit(0, ETHERNET_MTU, at(0)).unwrap())
        .collect();
    let demands = [Demand::Small, Demand::Normal, Demand::Normal, Demand::Large];
    for (grant, demand) in grants.iter_mut().zip(demands) {
        shares.set_demand(grant, demand);
    }
    all_busy(&mut shares, &mut grants, 6, 1);
    let given: Vec<u64> = grants.iter().map(Grant::share).collect();
    let [small, one, other, large] = given[..] else {
        panic!("{given:?}")
    };
    assert_eq!(small, 16, "however much is free");
    assert!(
        one.abs_diff(other) <= 1 && large.abs_diff(2 * one) <= 3,
        "{given:?}"
    );
    // The demand stated last counts at once.
    for grant in &mut grants {
        shares.set_demand(grant, Demand::Normal);
    }
    all_busy(&mut shares, &mut grants, 6, 10);
    let given: Vec<u64> = grants.iter().map(Grant::share).collect();
    assert!(
        given
            .iter()
            .all(|share| share.abs_diff((GRANTABLE - RESERVE) / 4) <= 2),
        "{given:?}"
    );
    grants.iter_mut().for_each(|g| shares.release(g));
    assert!(is_unused(&shares, 8 * MIB));
}

/// Ten peers that send requests take 16 packets each, about a tenth of an even part: the rest goes
/// to the peers that send much.
#[test]
fn credit_that_small_demands_leave_goes_to_the_others() {
    let mut shares = Shares::new(8 * MIB);
    let mut grants = Vec::new();
    for peer in 0..12 {
        let mut grant = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
        if peer < 10 {
            shares.set_demand(&mut grant, Demand::Small);
        }
        grants.push(grant);
    }
    all_busy(&mut shares, &mut grants, 20, 1);
    let given: Vec<u64> = grants.iter().map(Grant::share).collect();
    assert_eq!(given[..10], [16; 10]);
    // All packets but the reserve and those of the ten.
    let each = (GRANTABLE - RESERVE - 160) / 2;
    assert!(
        given[10..].iter().all(|share| share.abs_diff(each) <= 4),
        "{given:?}"
    );
    // In a small budget, a peer of small demand has its even part.
    grants.iter_mut().for_each(|grant| shares.release(grant));
    assert!(is_unused(&shares, 8 * MIB));
    let mut shares = Shares::new(buffer(68));
    let mut grants = Vec::new();
    for peer in 0..2 {
        let mut grant = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
        if peer == 0 {
            shares.set_demand(&mut grant, Demand::Small);
        }
        grants.push(grant);
    }
    all_busy(&mut shares, &mut grants, 20, 1);
    let [small, normal] = [grants[0].share(), grants[1].share()];
    assert!(
        (10..=13).contains(&small) && normal.abs_diff(4 * small) <= 6,
        "{small}, {normal}"
    );
    // The small one goes, and leaves nothing behind.
    shares.release(&mut grants[0]);
    all_busy(&mut shares, &mut grants[1..], 10, 30);
    let left = grants[1].share();
    assert!(left >= 57, "{left}");
    shares.release(&mut grants[1]);
    assert!(is_unused(&shares, buffer(68)));
}

#[test]
fn a_replacement_that_finds_no_packet_asks_anew() {
    let mut shares = Shares::new(8 * MIB);
    let mut old = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
    assert!(shares.expire(&mut old, at(30_000)));
    let mut all = Vec::new();
    all.extend(core::iter::from_fn(|| shares.admit(0, ETHERNET_MTU, at(0))));
    shares.on_blocked(&mut old, 7, at(30_000));
    let mut new = shares
        .replace(&mut old, 0, ETHERNET_MTU, at(30_000))
        .unwrap();
    assert!(new.is_dormant());
    shares.release(&mut all[0]);
    assert_eq!(shares.next_to_serve(), None, "the old one waits no more");
    shares.on_blocked(&mut new, 7, at(30_001));
    assert!(new.share() > 0);
}

#[test]
fn a_burst_of_newcomers_is_served_within_the_budget() {
    let mut shares = Shares::new(8 * MIB);
    let mut grants = Vec::new();
    while let Some(grant) = shares.admit(0, ETHERNET_MTU, at(0)) {
        assert!(grant.control() >= 2);
        assert!(grant.share() >= 1 || grants.len() >= 100);
        grants.push(grant);
        shares.check().unwrap();
        // For any grants of the peers, there is room for the next INIT, also of an unknown node.
        let rest = shares.peer_limit() - grants.len() as u64;
        assert!(shares.room_for_inits(false) >= rest.min(29));
        assert!(shares.room_for_strangers() >= rest.min(1));
    }
    assert_eq!(grants.len(), 1_260);
    // A peer that got nothing asks, and is served from the credit that others give back.
    let mut last = grants.pop().unwrap();
    shares.on_blocked(&mut last, 0, at(1));
    assert!(last.is_dormant() && shares.next_to_serve().is_none());
    shares.release(&mut grants[0]);
    assert_eq!(shares.next_to_serve(), Some(0));
    shares.serve(&mut last, at(1));
    assert!(last.share() > 0);
}

/// Many expected peers find a packet each; otherwise the first ones would get everything.
#[test]
fn a_newcomer_leaves_an_even_part_to_each_that_is_expected() {
    for (expected, with_credit) in [(0, 100..200), (1_000, 1_000..1_001)] {
        let mut shares = Shares::new(8 * MIB);
        let mut grants = Vec::new();
        for left in (0..1_000_u64).rev() {
            shares.set_expected(left.min(expected));
            grants.extend(shares.admit(0, ETHERNET_MTU, at(0)));
        }
        let served = grants.iter().filter(|grant| grant.share() > 0).count();
        assert!(with_credit.contains(&served), "{served}");
    }
}

/// Peers that came first may hold more control packets than the fewest, until they vanish. Each
/// other slot keeps its two.
#[test]
fn each_slot_keeps_its_least_reserve() {
    for buffer in [6_656, 13_312, 64 << 10, 212_992, 8 * MIB] {
        let mut shares = Shares::new(buffer);
        let mut silent = Vec::new();
        while let Some(mut grant) = shares.admit(0, ETHERNET_MTU, at(0)) {
            assert!(grant.control() >= 2);
            shares.expire(&mut grant, at(2 * L));
            shares.satisfy_if_silent(&mut grant, at(2 * L));
            silent.push(grant);
            shares.check().unwrap();
        }
        assert_eq!(silent.len() as u64, shares.peer_limit(), "{buffer} B");
    }
}

/// Our own INIT needs a packet for its answer.
#[test]
fn an_own_init_needs_a_packet_for_its_answer() {
    let mut shares = Shares::new(64 << 10);
    let mut all = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
    shares.mark_unsatisfied(&mut all);
    shares.serve(&mut all, at(0));
    while shares.free() >= DATA_CHARGE {
        let grant = shares.admit_for_own_init(0, ETHERNET_MTU, at(0));
        assert!(grant.is_some_and(|grant| grant.share() >= 1));
    }
    assert!(shares.admit_for_own_init(0, ETHERNET_MTU, at(0)).is_none());
    assert!(
        shares
            .admit(0, ETHERNET_MTU, at(0))
            .is_some_and(|grant| grant.share() == 0)
    );
}

/// Peers that answer RECLAIM at once.
fn return_all(shares: &mut Shares, grants: &mut [Grant], now: Instant) {
    for grant in grants {
        if shares.reclaim_due(grant, NEAR, now) {
            let generation = shares.reclaim(grant, now).unwrap();
            grant.credit();
            let number = grant.limit();
            shares.drain_one(grant, number, true, now);
            shares.on_return(grant, answer_of(generation, number), now);
        }
        shares.check().unwrap();
    }
}

#[test]
fn every_peer_up_to_the_limit_gets_in_and_gets_credit() {
    let mut shares = Shares::new(8 * MIB);
    let mut grants: Vec<Grant> = Vec::new();
    let mut now = 0;
    while (grants.len() as u64) < shares.peer_limit() {
        assert!(now < 1_000_000, "stuck at {} peers", grants.len());
        now += 200;
        if let Some(grant) = shares.admit(0, ETHERNET_MTU, at(now)) {
            grants.push(grant);
            now -= 200;
        } else {
            return_all(&mut shares, &mut grants, at(now));
        }
    }
    assert!(shares.admit(0, ETHERNET_MTU, at(now)).is_none(), "full");
    assert_eq!(shares.room_for_inits(false), 0);
    let mut served = BTreeSet::new();
    for _ in 0..5 {
        now += 1_000;
        for (peer, grant) in grants.iter_mut().enumerate() {
            if grant.share() > 0 {
                served.insert(peer);
            }
            grant.credit();
            let number = grant.limit() + grant.control();
            shares.on_blocked(grant, peer, at(now));
            shares.drain_one(grant, number, true, at(now));
            shares.check().unwrap();
        }
        return_all(&mut shares, &mut grants, at(now));
        while let Some(peer) = shares.next_to_serve() {
            shares.serve(&mut grants[peer], at(now));
        }
    }
    assert_eq!(served.len(), grants.len(), "each had its turn");
    assert!(grants.iter().all(|g| g.control() == 2));
    // One peer leaves, and there is room for another.
    let mut gone = grants.pop().unwrap();
    shares.release(&mut gone);
    assert!(shares.admit(0, ETHERNET_MTU, at(now)).is_some());
}

#[test]
fn each_expected_init_needs_a_packet_and_a_slot() {
    let shares = Shares::new(8 * MIB);
    // Two control packets for each.
    assert_eq!(shares.room_for_inits(false), 1_260);
    assert_eq!(shares.room_for_inits(true), 1_763);
    let shares = Shares::new(buffer(3));
    assert_eq!(shares.room_for_inits(true), 3);
}

#[test]
fn a_peer_with_a_slot_needs_only_a_packet_to_reconnect() {
    let mut shares = Shares::new(4 * 6_656);
    let mut grants = Vec::new();
    while let Some(mut grant) = shares.admit(0, ETHERNET_MTU, at(0)) {
        // The peer's data credit lapses, and it keeps its slot.
        assert!(shares.expire(&mut grant, at(30_000)));
        grants.push(grant);
    }
    // One packet more than is free for data is set apart for INITs.
    assert_eq!(shares.free() / DATA_CHARGE, 4);
    assert_eq!(shares.room_for_inits(false), 0);
    assert_eq!(shares.room_for_inits(true), 5);
}

#[test]
fn big_packets_are_charged_as_big() {
    let mut shares = Shares::new(8 * MIB);
    let mut jumbo = shares.admit(0, 65_507, at(0)).unwrap();
    shares.mark_unsatisfied(&mut jumbo);
    shares.serve(&mut jumbo, at(0));
    assert_eq!(jumbo.share(), 59);
    assert_eq!(jumbo.outstanding_bytes(), 59 * 66_339);
    let small = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
    assert!(small.share() >= 2, "from the reserve: {}", small.share());
    shares.check().unwrap();
}

#[test]
fn a_replacement_inherits_the_reserve_and_repays_the_old_connection() {
    let (mut shares, mut old) = one(80, 0);
    let mut new = shares.replace(&mut old, 0, ETHERNET_MTU, at(1)).unwrap();
    assert_eq!(shares.peers(), 1);
    shares.check().unwrap();
    assert!(
        shares.replace(&mut old, 0, ETHERNET_MTU, at(1)).is_none(),
        "only once"
    );
    let booked = old.outstanding_bytes() + new.outstanding_bytes();
    assert_eq!(
        shares.free(),
        Shares::new(buffer_of_one(80)).free() - booked
    );
    // Packets of the old connection may still be drained, but it gets no more credit.
    let limit = old.limit();
    shares.drain_one(&mut old, 3, true, at(2));
    shares.on_blocked(&mut old, 7, at(2));
    assert!(shares.reclaim(&mut old, at(500)).is_none());
    assert!(!shares.reclaim_due(&old, NEAR, at(500)));
    let free = shares.free();
    shares.drain_one(&mut new, 0, true, at(3));
    shares.release(&mut old);
    assert!(shares.free() > free);
    assert!(limit >= 69);
    shares.drain_one(&mut old, 60, true, at(4));
    shares.release(&mut new);
    assert!(is_unused(&shares, buffer_of_one(80)));
}

/// A buffer with room for four packets of 64 KiB.
fn four_jumbo_packets() -> u64 {
    let fits = |buffer: &u64| Shares::new(*buffer).free() >= 4 * 66_339;
    (0..MIB).step_by(64).find(fits).unwrap()
}

#[test]
fn no_peer_starves_when_there_are_more_peers_than_packets() {
    // Four packets of 64 KiB for six peers.
    let mut shares = Shares::new(four_jumbo_packets());
    let mut grants: Vec<Grant> = Vec::new();
    for _ in 0..4 {
        grants.push(shares.admit(0, 65_507, at(0)).unwrap());
    }
    assert!(
        shares.admit_for_own_init(0, 65_507, at(0)).is_none(),
        "no packet for its first"
    );
    let mut late = grants.pop().unwrap();
    assert!(shares.expire(&mut late, at(2 * L)), "silent");
    let extra = shares.admit(0, 65_507, at(2 * L)).unwrap();
    grants.push(extra);
    shares.drain_one(&mut late, 0, true, at(2 * L));
    assert!(late.is_dormant(), "all is given");
    shares.on_blocked(&mut late, 7, at(2 * L));
    shares.on_blocked(&mut late, 7, at(2 * L));
    // A CREDIT without data is due, which renews the numbers for control: the peer can go on
    // asking.
    assert!(late.update_due());
    assert_eq!(late.credit().limit, 0);
    shares.drain_one(&mut late, 1, true, at(2 * L));
    shares.on_blocked(&mut late, 7, at(2 * L));
    assert!(late.update_due());
    assert_eq!((late.credit().limit, late.outstanding()), (1, 0));
    assert_eq!(shares.next_to_serve(), None);
    // An idle holder is asked to return, and its packet goes to the one that waits.
    let now = at(2 * L + 100);
    let holder = grants.first_mut().unwrap();
    assert!(shares.reclaim_due(holder, NEAR, now));
    assert_eq!(shares.reclaim(holder, now), Some(0));
    shares.drain_one(holder, 1, true, now);
    shares.on_return(holder, answer_of(0, 1), now);
    assert!(holder.is_dormant(), "another waits");
    assert_eq!(shares.next_to_serve(), Some(7));
    shares.on_blocked(holder, 7, now);
    assert!(holder.is_dormant(), "first come, first served");
    shares.serve(&mut late, now);
    assert_eq!((late.share(), late.generation()), (1, 1));
    assert!(late.update_due());
    shares.check().unwrap();
    // Now the other peer waits, and the busy ones have had their turn.
    let busy = grants.last_mut().unwrap();
    shares.drain_one(busy, 0, true, at(2 * L + 999));
    assert!(!shares.reclaim_due(busy, NEAR, at(2 * L + 999)));
    shares.drain_one(busy, 1, true, at(2 * L + 1_000));
    assert!(shares.reclaim_due(busy, NEAR, at(2 * L + 1_000)));
}

#[test]
fn a_peer_that_stopped_waiting_delays_no_other() {
    let mut shares = Shares::new(four_jumbo_packets());
    let mut holders: Vec<_> = (0..3)
        .map(|_| shares.admit(0, 65_507, at(0)).unwrap())
        .collect();
    let mut waiter = shares.admit(0, 65_507, at(0)).unwrap();
    shares.expire(&mut waiter, at(2 * L));
    let mut fourth = shares.admit(0, 65_507, at(2 * L)).unwrap();
    shares.drain_one(&mut waiter, 0, true, at(2 * L));
    shares.on_blocked(&mut waiter, 7, at(2 * L));
    shares.drain_one(&mut fourth, 0, true, at(4 * L - 200));
    assert!(shares.reclaim_due(&fourth, NEAR, at(4 * L - 1)));
    assert!(shares.expire(&mut waiter, at(4 * L)), "gave up silently");
    assert!(
        !shares.reclaim_due(&fourth, NEAR, at(4 * L - 1)),
        "nobody waits"
    );
    shares.drain_one(&mut fourth, 0, true, at(4 * L));
    for grant in &mut holders {
        shares.release(grant);
    }
    shares.on_blocked(&mut waiter, 7, at(4 * L));
    assert!(waiter.share() > 0);
    shares.release(&mut waiter);
    shares.release(&mut fourth);
    assert!(is_unused(&shares, four_jumbo_packets()));
}

#[test]
fn a_zero_buffer_serves_no_peer() {
    let mut shares = Shares::new(1_000);
    assert!(shares.admit(0, ETHERNET_MTU, at(0)).is_none());
    assert_eq!(shares.peers(), 0);
    shares.check().unwrap();
}

#[test]
fn overcommitment_is_reported_with_both_sums() {
    let error = Overcommitted {
        data: 9,
        data_budget: 8,
        control: 1,
        control_budget: 2,
    };
    assert_eq!(
        error.to_string(),
        "granted 9 of 8 B for data and 1 of 2 control packets"
    );
}

#[test]
fn a_share_just_given_is_not_idle() {
    let mut shares = Shares::new(four_jumbo_packets());
    let mut grants: Vec<_> = (0..4)
        .map(|_| shares.admit(0, 65_507, at(0)).unwrap())
        .collect();
    let mut late = grants.pop().unwrap();
    shares.expire(&mut late, at(2 * L));
    let mut early = shares.admit(0, 65_507, at(2 * L)).unwrap();
    shares.drain_one(&mut late, 0, true, at(2 * L));
    shares.on_blocked(&mut late, 7, at(2 * L));
    shares.release(&mut early);
    assert_eq!(shares.next_to_serve(), Some(7));
    shares.serve(&mut late, at(2 * L + 300));
    let mut other = grants.pop().unwrap();
    shares.expire(&mut other, at(2 * L + 300));
    let _newcomer = shares.admit(0, 65_507, at(2 * L + 300));
    shares.drain_one(&mut other, 0, true, at(2 * L + 300));
    shares.on_blocked(&mut other, 8, at(2 * L + 300));
    assert!(
        !shares.reclaim_due(&late, NEAR, at(2 * L + 399)),
        "it has not had time to use it"
    );
    assert!(shares.reclaim_due(&late, NEAR, at(2 * L + 400)));
}

#[test]
fn the_whole_budget_may_be_granted() {
    let mut shares = Shares::new(four_jumbo_packets());
    let _all: Vec<_> = (0..4)
        .map(|_| shares.admit(0, 65_507, at(0)).unwrap())
        .collect();
    assert!(shares.free() < 200);
    shares.check().unwrap();
    assert!(shares.admit_for_own_init(0, 65_507, at(0)).is_none());
}

#[test]
fn nothing_is_reclaimed_while_there_is_plenty() {
    let mut shares = Shares::new(8 * MIB);
    let grants: Vec<_> = (0..30)
        .map(|_| shares.admit(0, ETHERNET_MTU, at(0)).unwrap())
        .collect();
    let first = grants.first().unwrap();
    assert!(first.control() > shares.control_target() && first.outstanding() * 2 > 58);
    assert!(!shares.reclaim_due(first, NEAR, at(5_000)));
}

#[test]
fn the_kernel_may_charge_the_grants_and_a_quarter_of_the_buffer() {
    let mut shares = Shares::new(8 * MIB);
    assert_eq!(shares.allowed(), 2 * MIB);
    let mut grant = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
    let granted = grant.outstanding_bytes() + grant.control() * 832;
    assert_eq!(shares.allowed(), 2 * MIB + granted);
    shares.mark_unsatisfied(&mut grant);
    shares.serve(&mut grant, at(0));
    assert!(shares.allowed() <= 8 * MIB);
    shares.release(&mut grant);
    assert_eq!(shares.allowed(), 2 * MIB);
}

/// The peer idle for longest loses its slot first, then the peer that had its slot for longest;
/// none loses it before it was idle or had a turn.
#[test]
fn slots_are_taken_from_the_idle_and_then_in_turn() {
    let mut shares = Shares::new(8 * MIB);
    let mut grant = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
    shares.drain_one(&mut grant, 0, true, at(50));
    assert_eq!(shares.may_dismiss(&grant, NEAR, at(149)), None);
    assert_eq!(
        shares.may_dismiss(&grant, NEAR, at(150)),
        Some((false, at(50)))
    );
    for round in 1..=10 {
        shares.drain_one(&mut grant, round, true, at(100 * round));
    }
    assert_eq!(shares.may_dismiss(&grant, NEAR, at(999)), None, "busy");
    assert_eq!(
        shares.may_dismiss(&grant, NEAR, at(1_000)),
        Some((true, at(0)))
    );
    shares.dismiss(&mut grant);
    assert_eq!(
        shares.may_dismiss(&grant, NEAR, at(1_000)),
        None,
        "only once"
    );
    let mut other = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
    shares.replace(&mut other, 0, ETHERNET_MTU, at(1)).unwrap();
    assert_eq!(
        shares.may_dismiss(&other, NEAR, at(5_000)),
        None,
        "replaced"
    );
}

/// A far peer is not idle while a packet and its answer are under way, and its turn lasts long
/// enough to be of use.
#[test]
fn a_far_peer_keeps_its_slot_for_longer() {
    let mut shares = Shares::new(8 * MIB);
    let mut grant = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
    let far = Tenure::of(Duration::from_millis(300));
    shares.drain_one(&mut grant, 0, true, at(50));
    assert_eq!(shares.may_dismiss(&grant, far, at(349)), None);
    let idle = Some((false, at(50)));
    assert_eq!(shares.may_dismiss(&grant, far, at(350)), idle);
    for round in 1..=12 {
        shares.drain_one(&mut grant, round, true, at(200 * round));
    }
    assert_eq!(shares.may_dismiss(&grant, far, at(2_399)), None, "busy");
    let had_turn = Some((true, at(0)));
    assert_eq!(shares.may_dismiss(&grant, far, at(2_400)), had_turn);
    let near = Tenure::of(Duration::from_millis(1));
    assert_eq!((near.idle, near.turn), (IDLE, TURN));
    let farthest = Tenure::of(Duration::from_secs(60));
    assert_eq!(farthest.turn, Duration::from_secs(3), "others wait");
}

/// A dismissed grant is reclaimed at once, again until the peer answers, and gets no credit
/// whatever the peer does; then it is over.
#[test]
fn a_dismissed_peer_returns_all_credit() {
    let mut shares = Shares::new(8 * MIB);
    let mut grant = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
    grant.credit();
    shares.mark_unsatisfied(&mut grant);
    shares.dismiss(&mut grant);
    shares.mark_unsatisfied(&mut grant);
    assert!(!shares.is_short(), "it is satisfied again");
    assert!(grant.is_dismissed() && !grant.is_over());
    assert!(shares.reclaim_due(&grant, NEAR, at(1)), "not idle, and yet");
    let generation = shares.reclaim(&mut grant, at(1)).unwrap();
    assert!(!shares.reclaim_due(&grant, NEAR, at(250)));
    assert!(shares.reclaim_due(&grant, NEAR, at(251)), "again");
    // The peer uses all its credit before it gets RECLAIM, and asks for more.
    let limit = grant.limit();
    shares.drain_one(&mut grant, limit, true, at(252));
    assert!(grant.is_reclaiming() && !grant.is_over());
    assert!(
        shares.reclaim_due(&grant, NEAR, at(253)),
        "its end is still to come"
    );
    shares.on_blocked(&mut grant, 3, at(253));
    shares.on_reserve_low(&mut grant, at(253));
    shares.serve(&mut grant, at(253));
    shares.satisfy_if_silent(&mut grant, at(600));
    assert_eq!((grant.share(), grant.limit()), (0, limit));
    assert_eq!(shares.waiting(), 0);
    assert_eq!(shares.reclaim(&mut grant, at(253)), Some(generation));
    shares.on_return(&mut grant, answer_of(generation, limit), at(254));
    assert!(grant.is_over() && grant.share() == 0);
    assert!(!shares.reclaim_due(&grant, NEAR, at(900)));
    assert_eq!(shares.reclaim(&mut grant, at(900)), None);
    shares.release(&mut grant);
    assert!(is_unused(&shares, 8 * MIB));
}

/// The peer used up its numbers for control before RECLAIM came. It gets the numbers that RETURN
/// needs, whether RECLAIM or the higher limit arrives first.
#[test]
fn a_dismissed_peer_has_a_number_left_for_its_return() {
    for reclaim_first in [false, true] {
        let mut shares = Shares::new(8 * MIB);
        let mut grant = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
        let told = grant.credit();
        let mut sender = SendCredit::new(0, told, at(0));
        let generation = told.generation;
        shares.dismiss(&mut grant);
        shares.reclaim(&mut grant, at(1)).unwrap();
        let last = told.limit + told.control;
        for number in 0..=last {
            sender.on_sent(number, at(1), true);
            shares.drain_one(&mut grant, number, true, at(2));
        }
        if reclaim_first {
            sender.on_reclaim(generation, at(2));
            assert!(sender.is_beyond_reserve(last + 1, at(3)));
        }
        sender.on_grant(grant.credit(), at(3));
        sender.on_reclaim(generation, at(3));
        assert!(
            !sender.is_beyond_reserve(last + 1, at(3)),
            "room for RETURN"
        );
        assert!(!sender.may_send_data(last + 1, at(3)));
        assert!(sender.is_beyond_reserve(last + 1 + told.control, at(3)));
        let answer = sender.return_due(at(3)).unwrap();
        shares.on_return(&mut grant, answer, at(4));
        assert!(grant.is_over());
    }
}

/// A dismissed peer gets no more credit for data, even if it asks.
#[test]
fn a_dismissed_peer_is_granted_no_data() {
    let mut shares = Shares::new(8 * MIB);
    let mut grant = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
    let told = grant.credit();
    shares.dismiss(&mut grant);
    shares.reclaim(&mut grant, at(1)).unwrap();
    let before = grant.outstanding_bytes();
    let last = told.limit + told.control;
    for number in 1..last {
        shares.drain_one(&mut grant, number, true, at(2));
        assert!(grant.outstanding_bytes() <= before);
    }
    shares.drain_one(&mut grant, last, true, at(2));
    shares.on_blocked(&mut grant, 3, at(2));
    assert!(grant.is_reclaiming() && grant.share() == 0);
    let credit = grant.credit();
    assert_eq!((credit.limit, grant.outstanding()), (last, 0));
    assert_eq!(credit.generation, told.generation);
}

#[test]
fn a_dismissed_peer_that_never_answers_ends_when_its_grant_lapses() {
    let mut shares = Shares::new(8 * MIB);
    let mut waits = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
    assert!(shares.expire(&mut waits, at(30_000)));
    let mut all: Vec<Grant> =
        core::iter::from_fn(|| shares.admit(0, ETHERNET_MTU, at(0))).collect();
    shares.on_blocked(&mut waits, 3, at(30_000));
    assert_eq!(shares.waiting(), 1);
    shares.dismiss(&mut waits);
    assert_eq!(shares.waiting(), 0, "it stands in line no more");
    assert!(
        shares.reclaim_due(&waits, NEAR, at(30_000)),
        "it has a generation"
    );
    shares.dismiss(&mut all[0]);
    assert!(!all[0].is_over());
    assert!(shares.expire(&mut all[0], at(30_000)));
    assert!(all[0].is_over());
}

/// A peer that needs numbers for control only gets those, and no credit that would be reclaimed at
/// once.
#[test]
fn in_a_full_buffer_control_is_renewed_without_credit() {
    let mut shares = Shares::new(8 * MIB);
    let mut grant = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
    let generation = grant.generation();
    assert!(shares.expire(&mut grant, at(30_000)));
    let mut others: Vec<Grant> =
        core::iter::from_fn(|| shares.admit(0, ETHERNET_MTU, at(30_000))).collect();
    shares.drain_one(&mut grant, 2, true, at(30_003));
    shares.on_reserve_low(&mut grant, at(30_003));
    assert!(grant.update_due(), "it is answered");
    let credit = grant.credit();
    assert_eq!((credit.generation, credit.limit), (generation + 1, 2));
    assert_eq!(shares.waiting(), 0);
    // If much is free, the peer gets some credit all the same.
    others.iter_mut().for_each(|other| shares.release(other));
    shares.on_reserve_low(&mut grant, at(30_004));
    assert!(grant.share() > 0);
}

/// Returned credit is not granted again to an idle peer while it would have to be reclaimed again.
#[test]
fn returned_credit_is_not_granted_if_it_would_be_reclaimed_again() {
    let mut shares = Shares::new(8 * MIB);
    let mut grants: Vec<Grant> = Vec::new();
    while shares.free() > 2 * shares.reserve() {
        grants.extend(shares.admit(0, ETHERNET_MTU, at(0)));
    }
    let mut grant = grants.pop().unwrap();
    grant.credit();
    let generation = shares.reclaim(&mut grant, at(200)).unwrap();
    shares.on_return(&mut grant, answer_of(generation, 0), at(201));
    assert_eq!(grant.share(), 4, "what idle peers have");
    let generation = shares.reclaim(&mut grant, at(203)).unwrap();
    let free = shares.free();
    shares.on_return(&mut grant, answer_of(generation, 0), at(204));
    assert_eq!(grant.share(), 4, "{free} B free");
}

#[test]
fn large_packets_are_for_paths_that_carry_them_and_few_peers() {
    let shares = Shares::new(8 * MIB);
    for (most, peers, size) in [
        (JUMBO_DATAGRAM, 1, JUMBO_DATAGRAM),
        (JUMBO_DATAGRAM, 29, JUMBO_DATAGRAM),
        (JUMBO_DATAGRAM, 30, 4_068),
        (JUMBO_DATAGRAM, 62, 4_068),
        (JUMBO_DATAGRAM, 63, ETHERNET_MTU),
        (MAX_DATAGRAM, 1, 8_972),
        // Jumbo frames of another size, little more than Ethernet's, Ethernet's, a tunnel, the
        // floor.
        (7_000, 1, 7_000),
        (2_016, 1, ETHERNET_MTU),
        (1_572, 1, ETHERNET_MTU),
        (ETHERNET_MTU, 1_000, ETHERNET_MTU),
        (1_392, 1, 1_392),
        (MIN_MTU, 1, MIN_MTU),
    ] {
        assert_eq!(shares.datagram_for(most, peers), size, "{most} B, {peers}");
    }
    // The buffer that the default of net.core.rmem_max gives.
    let small = Shares::new(425_984);
    assert_eq!(small.datagram_for(JUMBO_DATAGRAM, 1), ETHERNET_MTU);
    assert_eq!(
        Shares::new(64 * MIB).datagram_for(MAX_DATAGRAM, 1),
        MAX_DATAGRAM
    );
}

#[test]
fn a_newcomer_whose_packets_are_smaller_than_thought_costs_less() {
    let mut shares = Shares::new(8 * MIB);
    let mut grant = shares.admit(0, JUMBO_DATAGRAM, at(0)).unwrap();
    let (share, booked) = (grant.share(), shares.booked_bytes());
    assert_eq!(booked, share * data_charge(JUMBO_DATAGRAM));
    shares.recharge(&mut grant, ETHERNET_MTU);
    assert_eq!(shares.booked_bytes(), share * DATA_CHARGE);
    shares.recharge(&mut grant, MAX_DATAGRAM);
    assert_eq!(shares.booked_bytes(), share * DATA_CHARGE, "never more");
    all_busy(&mut shares, core::slice::from_mut(&mut grant), 12, 0);
    assert!(grant.share() > 1_700, "{}", grant.share());
    shares.release(&mut grant);
    assert_eq!(shares.booked_bytes(), 0);
}
