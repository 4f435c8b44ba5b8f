//! The receiver's half, through the shares of a socket with room.

use super::*;

#[test]
fn the_limit_follows_the_highest_drained_less_an_eighth() {
    let (mut shares, mut grant) = one(80, 0);
    assert_eq!(grant.credit().limit, 69);
    assert_eq!(grant.outstanding(), 80);
    shares.drain_one(&mut grant, 0, true, at(1));
    assert_eq!(grant.limit(), 70);
    // Packets 1 to 39 were lost: the limit follows the highest number all the same.
    shares.drain_one(&mut grant, 40, true, at(1));
    assert_eq!(grant.limit(), 110);
    shares.drain_one(&mut grant, 7, true, at(1));
    assert_eq!(
        (grant.limit(), grant.outstanding()),
        (110, 80),
        "a late one changes nothing"
    );
    shares.check().unwrap();
}

#[test]
fn small_shares_hold_nothing_back() {
    for share in 1..8 {
        let (mut shares, mut grant) = one(share, 0);
        assert_eq!(grant.limit(), share - 1);
        shares.drain_one(&mut grant, 0, true, at(1));
        assert_eq!((grant.limit(), grant.outstanding()), (share, share));
    }
}

#[test]
fn f09_an_empty_datagram_costs_a_full_one() {
    // Numbers are granted, not bytes: an empty packet uses one like any other, and the books hold
    // the worst charge for each.
    let (shares, mut grant) = one(5, 0);
    assert_eq!(grant.outstanding_bytes(), 5 * DATA_CHARGE);
    let mut credit = SendCredit::new(0, grant.handshake_credit(0), at(0));
    for number in 0..5 {
        assert!(credit.may_send_data(number, at(1)));
        credit.on_sent(number, at(1), true);
    }
    assert!(!credit.may_send_data(5, at(1)));
    assert!(data_charge(0) > 0);
    shares.check().unwrap();
}

#[test]
fn f18_a_stopped_consumer_stops_its_sender_at_the_limit() {
    let (shares, mut grant) = one(16, 0);
    let mut credit = SendCredit::new(0, grant.handshake_credit(0), at(0));
    let mut next = 0;
    for second in 0..9 {
        while credit.may_send_data(next, at(second * 1_000)) {
            credit.on_sent(next, at(second * 1_000), true);
            next += 1;
        }
        credit.on_grant(grant.credit(), at(second * 1_000));
    }
    assert_eq!(next, 14);
    shares.check().unwrap();
}

#[test]
fn f19_a_lost_credit_is_repeated_for_blocked() {
    let (mut shares, mut grant) = one(8, 0);
    grant.credit();
    assert!(!grant.update_due());
    for number in 0..7 {
        shares.drain_one(&mut grant, number, true, at(1));
    }
    assert!(grant.update_due());
    let lost = grant.credit();
    assert!(!grant.update_due() && !grant.ride_due(), "said once");
    shares.on_blocked(&mut grant, 7, at(50));
    assert!(
        grant.update_due(),
        "an answer is owed although nothing changed"
    );
    assert_eq!(grant.credit(), lost);
    assert!(!grant.update_due());
}

#[test]
fn a_packet_beyond_the_announced_limit_calls_for_a_credit() {
    let (mut shares, mut grant) = one(80, 0);
    grant.credit();
    shares.drain_one(&mut grant, 69, true, at(1));
    grant.credit();
    shares.drain_one(&mut grant, 70, true, at(1));
    assert!(!grant.update_due(), "one more is no news");
    grant.credit();
    let beyond = grant.limit() + 1;
    shares.drain_one(&mut grant, beyond, true, at(1));
    assert!(grant.update_due());
}

#[test]
fn credit_rides_after_a_quarter_and_stands_alone_after_half_and_only_for_eliciting_packets() {
    let (mut shares, mut grant) = one(80, 0);
    assert!(
        grant.ride_due() && grant.update_due(),
        "nothing was announced yet"
    );
    grant.credit();
    shares.drain_one(&mut grant, 18, false, at(1));
    assert!(!grant.ride_due());
    shares.drain_one(&mut grant, 19, false, at(1));
    assert!(grant.ride_due());
    assert!(
        !grant.update_due(),
        "two receivers would renew each other's credit forever"
    );
    shares.drain_one(&mut grant, 20, true, at(1));
    assert!(!grant.update_due(), "a reply may still carry it");
    shares.drain_one(&mut grant, 39, true, at(1));
    assert!(grant.update_due());
}

#[test]
fn the_handshake_grant_is_relative_and_moves_to_the_first_number() {
    let (mut shares, mut grant) = one(8, 0);
    let initial = grant.handshake_credit(0);
    assert_eq!(initial.limit, 6);
    grant.start_at(1_000);
    assert!(!grant.update_due());
    assert_eq!(grant.limit(), 1_006);
    assert_eq!(grant.outstanding(), 8);
    shares.drain_one(&mut grant, 1_000, true, at(1));
    assert_eq!(grant.limit(), 1_007);

    let (_, mut grant) = one(8, 500);
    assert_eq!(grant.handshake_credit(500).limit, 6);
    assert_eq!(grant.credit().limit, 506);
}

#[test]
fn a_grant_lapses_two_l_after_the_last_drained_packet() {
    let (mut shares, mut grant) = one(80, 0);
    let control = grant.credit().control;
    shares.drain_one(&mut grant, 5, true, at(100));
    assert_eq!(grant.lapse_at(), Some(at(100 + 2 * L)));
    assert!(!shares.expire(&mut grant, at(99 + 2 * L)));
    assert_eq!(grant.outstanding(), 80);
    assert!(shares.expire(&mut grant, at(100 + 2 * L)));
    assert_eq!((grant.outstanding(), grant.share()), (0, 0));
    assert!(grant.is_dormant());
    assert_eq!(grant.lapse_at(), None);
    assert!(!shares.expire(&mut grant, at(200 + 2 * L)), "once");
    assert!(!grant.update_due());
    // A fresh packet brings it back, as another generation.
    shares.drain_one(&mut grant, 6, true, at(300 + 2 * L));
    assert_eq!(grant.generation(), 1);
    assert!(grant.update_due());
    let again = grant.credit();
    assert_eq!((again.generation, again.limit), (1, 11));
    assert!(again.control >= control);
    shares.check().unwrap();
}

#[test]
fn the_sender_lapses_before_the_receiver_whatever_the_delay() {
    for delay in [0, 1, 500, L - 1] {
        let (mut shares, mut grant) = one(80, 0);
        let mut credit = SendCredit::new(0, grant.handshake_credit(0), at(1_000));
        credit.on_sent(0, at(1_000), true);
        shares.drain_one(&mut grant, 0, true, at(1_000 + delay));
        credit.on_acked(at(1_000), at(1_000 + delay));
        let last = credit.lapse_at().unwrap();
        let receiver = grant.lapse_at().unwrap();
        // A packet sent at the last moment still has L to arrive.
        assert!(receiver.since(last) >= CREDIT_LAPSE);
    }
}

#[test]
fn a_return_gives_back_what_was_not_sent() {
    let (mut shares, mut grant) = one(80, 0);
    shares.drain_one(&mut grant, 9, true, at(1));
    grant.credit();
    assert_eq!(shares.reclaim(&mut grant, at(200)), Some(0));
    assert!(grant.is_reclaiming() && !grant.is_dormant());
    let limit = grant.limit();
    shares.drain_one(&mut grant, 10, true, at(201));
    assert_eq!(grant.limit(), limit, "no more is given");
    shares.on_return(&mut grant, answer_of(7, 12), at(202));
    assert!(grant.is_reclaiming(), "another generation's");
    shares.drain_one(&mut grant, 13, true, at(203));
    shares.on_return(&mut grant, answer_of(0, 12), at(203));
    assert_eq!(grant.generation(), 1, "nobody waits, so it is granted anew");
    assert_eq!(grant.limit(), 13 + 12, "as to a newcomer");
    assert!(grant.update_due());
    shares.on_return(&mut grant, answer_of(0, 12), at(204));
    assert_eq!(
        grant.generation(),
        1,
        "a repeated RETURN is of a past generation"
    );
    shares.check().unwrap();
}

/// F17: a peer that is gone is asked ever more seldom, not for ever.
#[test]
fn f17_an_unanswered_reclaim_is_repeated_less_and_less() {
    let (mut shares, mut grant) = one(8, 0);
    grant.credit();
    let mut times = Vec::new();
    for ms in 200..20_000 {
        if shares.reclaim_due(&grant, NEAR, at(ms)) || times.is_empty() {
            assert_eq!(shares.reclaim(&mut grant, at(ms)), Some(0));
            times.push(ms);
        }
    }
    assert_eq!(
        times,
        [200, 450, 950, 1_950, 3_950, 7_950, 11_950, 15_950, 19_950]
    );
    shares.on_return(&mut grant, answer_of(0, 3), at(20_000));
    assert!(!grant.is_reclaiming());
    assert_eq!(shares.reclaim(&mut grant, at(20_000)), Some(1));
    assert!(
        shares.reclaim_due(&grant, NEAR, at(20_250)),
        "the next one is new"
    );
}

#[test]
fn an_emptied_grant_needs_no_return() {
    let (mut shares, mut grant) = one(8, 0);
    grant.credit();
    shares.reclaim(&mut grant, at(200));
    assert!(!shares.reclaim_due(&grant, NEAR, at(449)));
    assert!(
        shares.reclaim_due(&grant, NEAR, at(450)),
        "repeated until answered"
    );
    shares.reclaim(&mut grant, at(450));
    assert!(!shares.reclaim_due(&grant, NEAR, at(460)));
    shares.drain_one(&mut grant, 6, true, at(460));
    assert!(!grant.is_reclaiming());
    assert!(grant.generation() == 0 && grant.share() > 0);
    assert!(!shares.reclaim_due(&grant, NEAR, at(470)));
}

#[test]
fn a_return_cannot_claim_more_than_was_granted() {
    for highest in [0, 5, 1_000, u64::MAX] {
        let (mut shares, mut grant) = one(8, 0);
        shares.drain_one(&mut grant, 2, true, at(1));
        shares.on_return(&mut grant, answer_of(0, highest), at(2));
        assert!(grant.outstanding() <= 9);
        assert!(grant.limit() >= 2);
        shares.check().unwrap();
    }
}

#[test]
fn shrinking_never_takes_back_what_was_announced() {
    let (mut shares, mut grant) = one(80, 0);
    let announced = grant.credit().limit;
    assert_eq!((grant.share(), announced), (80, 69));
    let mut others: Vec<_> = (0..9)
        .map(|_| shares.admit(0, ETHERNET_MTU, at(0)).unwrap())
        .collect();
    others
        .iter_mut()
        .for_each(|other| shares.mark_unsatisfied(other));
    shares.check().unwrap();
    let mut number = 0;
    while grant.limit() == announced {
        shares.drain_one(&mut grant, number, true, at(1));
        assert!(grant.limit() >= announced);
        shares.check().unwrap();
        number += 1;
    }
    assert_eq!(grant.share(), 8, "80 packets for ten");
    assert_eq!(grant.outstanding(), 8);
    assert!(number > 62, "it rose again only when it fitted");
    for other in &mut others {
        shares.drain_one(other, 0, true, at(2));
    }
    shares.check().unwrap();
}

#[test]
fn a_smaller_reserve_counts_once_the_peer_must_know() {
    let mut shares = Shares::new(8 << 20);
    let mut grant = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
    let first = grant.credit();
    assert_eq!((first.control, grant.control()), (64, 64));
    let others: Vec<_> = (0..99)
        .map(|_| shares.admit(0, ETHERNET_MTU, at(0)).unwrap())
        .collect();
    assert_eq!((others.len(), shares.control_target()), (99, 3));
    shares.drain_one(&mut grant, 0, true, at(1));
    let second = grant.credit();
    assert_eq!(
        (second.control, grant.control()),
        (3, 64),
        "said, not yet known"
    );
    // With the old announcement alone the peer could reach first.limit + 64.
    shares.drain_one(&mut grant, first.limit + 64, true, at(1));
    assert_eq!(grant.control(), 64);
    shares.drain_one(&mut grant, first.limit + 65, true, at(1));
    assert_eq!(grant.control(), 3);
    shares.check().unwrap();
}

#[test]
fn a_return_proves_the_reserve_its_generation_began_with() {
    let mut shares = Shares::new(8 << 20);
    let mut grant = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
    grant.credit();
    let _others: Vec<_> = (0..99)
        .map(|_| shares.admit(0, ETHERNET_MTU, at(0)).unwrap())
        .collect();
    shares.drain_one(&mut grant, 0, true, at(1));
    shares.on_return(&mut grant, answer_of(0, 0), at(1));
    assert_eq!((grant.credit().control, grant.control()), (3, 64));
    shares.on_return(&mut grant, answer_of(1, 0), at(2));
    assert_eq!(grant.control(), 3);
}

#[test]
fn f15_grants_near_the_end_of_the_numbers() {
    let first = u64::MAX - 20;
    let (mut shares, mut grant) = one(80, first);
    assert_eq!(grant.limit(), u64::MAX - 1, "never beyond the last number");
    assert_eq!(grant.handshake_credit(first).limit, 19);
    for number in [u64::MAX - 10, u64::MAX - 1, u64::MAX] {
        shares.drain_one(&mut grant, number, true, at(1));
        shares.check().unwrap();
    }
    shares.on_return(&mut grant, answer_of(0, u64::MAX), at(1));
    shares.check().unwrap();
    let (_, mut grant) = one(80, 0);
    grant.start_at(u64::MAX);
    assert_eq!(grant.limit(), u64::MAX - 1);
}

#[test]
fn a_return_leaves_the_largest_reserve_its_generation_said() {
    let mut shares = Shares::new(8 << 20);
    let mut others: Vec<_> = (0..99)
        .map(|_| shares.admit(0, ETHERNET_MTU, at(0)).unwrap())
        .collect();
    let mut grant = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
    let first = grant.credit().control;
    others.iter_mut().for_each(|other| shares.release(other));
    shares.drain_one(&mut grant, 0, true, at(1));
    let most = grant.credit().control;
    assert!(most > first);
    let _others: Vec<_> = (0..40)
        .map(|_| shares.admit(0, ETHERNET_MTU, at(1)).unwrap())
        .collect();
    shares.drain_one(&mut grant, 1, true, at(2));
    assert!(grant.credit().control < most);
    shares.on_return(&mut grant, answer_of(0, 1), at(3));
    assert_eq!(grant.control(), most, "it may not have heard of less");
    shares.check().unwrap();
}

#[test]
fn the_reordering_allowance_shrinks_with_the_outstanding_packets() {
    let (mut shares, mut grant) = one(80, 0);
    assert_eq!((grant.limit(), grant.outstanding()), (69, 80));
    for _ in 0..9 {
        let mut other = shares.admit(0, ETHERNET_MTU, at(0)).unwrap();
        shares.mark_unsatisfied(&mut other);
    }
    // 70 granted ahead and 10 late; an eighth of that is the rule all the way down.
    for (number, limit, outstanding) in [
        (0, 69, 69 + 9),
        (13, 69, 56 + 8),
        (34, 69, 35 + 5),
        (55, 69, 14 + 2),
        (62, 69, 8),
        (63, 70, 8),
    ] {
        shares.drain_one(&mut grant, number, true, at(1));
        assert_eq!((grant.limit(), grant.outstanding()), (limit, outstanding));
    }
}

#[test]
fn a_due_announcement_stays_due_after_packets_that_need_none() {
    let (mut shares, mut grant) = one(80, 0);
    grant.credit();
    shares.drain_one(&mut grant, 40, true, at(1));
    shares.drain_one(&mut grant, 41, false, at(1));
    assert!(grant.update_due());
    let limit = grant.credit().limit;
    shares.drain_one(&mut grant, limit + 2, true, at(1));
    grant.credit();
    let limit = grant.limit();
    shares.drain_one(&mut grant, limit + 1, false, at(1));
    assert!(
        !grant.update_due(),
        "an ack beyond the limit is not a question"
    );
    shares.drain_one(&mut grant, limit + 2, true, at(1));
    shares.drain_one(&mut grant, limit, false, at(1));
    assert!(grant.update_due());
}

/// F27: a sender that bound its packets to a smaller size has more of them in the same budget.
/// Packets under way count as before, and no RETURN makes packets larger again.
#[test]
fn f27_packets_bound_to_a_smaller_size_are_charged_less() {
    let mut shares = Shares::new(8 << 20);
    let mut grant = shares.admit(0, JUMBO_DATAGRAM, at(0)).unwrap();
    let (share, charge) = (grant.share(), grant.charge());
    shares.drain_one(&mut grant, 3, true, at(1));
    let bound = |generation, size| SocketReturn {
        size,
        ..answer_of(generation, 9)
    };
    assert!(!shares.on_return(&mut grant, bound(5, ETHERNET_MTU), at(2)));
    assert_eq!(grant.charge(), charge, "of no generation");
    assert!(shares.on_return(&mut grant, bound(0, ETHERNET_MTU), at(2)));
    assert_eq!((grant.charge(), grant.generation()), (DATA_CHARGE, 1));
    assert!(grant.outstanding_bytes() >= 6 * charge, "4 to 9 may come");
    shares.check().unwrap();
    shares.drain_one(&mut grant, 10, true, at(3));
    assert!(grant.share() > 3 * share, "{} {share}", grant.share());
    shares.check().unwrap();
    assert!(shares.on_return(&mut grant, bound(1, JUMBO_DATAGRAM), at(4)));
    assert_eq!(grant.charge(), DATA_CHARGE);
    shares.check().unwrap();
}
