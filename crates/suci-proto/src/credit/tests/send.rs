//! The sender's half.

use super::*;

const PTO: Duration = Duration::from_millis(20);

fn sender(limit: u64, control: u64) -> SendCredit {
    SendCredit::new(0, offer(0, limit, control), at(0))
}

#[test]
fn data_goes_up_to_the_limit() {
    let credit = sender(9, 2);
    assert_eq!(credit.data_allowance(0, at(1)), 10);
    assert_eq!(credit.data_allowance(9, at(1)), 1);
    assert!(credit.may_send_data(9, at(1)));
    assert!(!credit.may_send_data(10, at(1)));
    assert_eq!(credit.data_allowance(500, at(1)), 0);
    assert_eq!((credit.generation(), credit.limit()), (0, 9));
}

#[test]
fn the_first_grant_counts_from_the_first_number() {
    let credit = SendCredit::new(1_000, offer(0, 0, 2), at(0));
    assert!(credit.may_send_data(1_000, at(1)));
    assert!(!credit.may_send_data(1_001, at(1)));
}

#[test]
fn f21_control_passes_a_closed_window_in_small_packets() {
    let mut credit = sender(9, 2);
    assert_eq!(
        credit.may_send_control(9, at(1)),
        ControlAllowance::WithinLimit
    );
    assert_eq!(
        credit.may_send_control(10, at(1)),
        ControlAllowance::Reserve
    );
    assert_eq!(
        credit.may_send_control(11, at(1)),
        ControlAllowance::Reserve
    );
    credit.on_sent(10, at(5), false);
    credit.on_sent(11, at(7), false);
    assert_eq!(
        credit.may_send_control(12, at(8)),
        ControlAllowance::NotBefore(at(7 + 250))
    );
}

#[test]
fn control_within_the_limit_does_not_delay_control_beyond_it() {
    let mut credit = sender(9, 0);
    credit.on_sent(9, at(5), false);
    assert_eq!(
        credit.may_send_control(10, at(6)),
        ControlAllowance::Reserve,
        "the first after a pause"
    );
    credit.on_sent(10, at(6), false);
    assert_eq!(
        credit.may_send_control(11, at(7)),
        ControlAllowance::NotBefore(at(6 + 1_000))
    );
    assert!(credit.on_grant(offer(0, 20, 0), at(8)));
    assert_eq!(
        credit.may_send_control(11, at(8)),
        ControlAllowance::WithinLimit
    );
}

#[test]
fn a_generation_only_rises() {
    let mut credit = sender(9, 2);
    assert!(credit.on_grant(offer(0, 20, 3), at(1)));
    assert!(
        !credit.on_grant(offer(0, 15, 9), at(1)),
        "an older announcement came later"
    );
    assert_eq!(credit.limit(), 20);
    assert_eq!(
        credit.may_send_control(23, at(1)),
        ControlAllowance::Reserve
    );
    credit.on_sent(23, at(1), false);
    assert!(matches!(
        credit.may_send_control(24, at(1)),
        ControlAllowance::NotBefore(_)
    ));
    assert!(
        !credit.on_grant(offer(0, 20, 1), at(1)),
        "nothing more for data"
    );
    assert!(
        matches!(
            credit.may_send_control(22, at(1)),
            ControlAllowance::NotBefore(_)
        ),
        "the smaller"
    );
    assert!(!credit.on_grant(offer(0, 20, 7), at(1)));
    assert!(
        matches!(
            credit.may_send_control(22, at(1)),
            ControlAllowance::NotBefore(_)
        ),
        "not back"
    );
}

#[test]
fn a_higher_generation_replaces_even_downwards() {
    let mut credit = sender(100, 2);
    assert!(credit.on_grant(offer(1, 50, 4), at(1)));
    assert_eq!((credit.generation(), credit.limit()), (1, 50));
    assert_eq!(
        credit.may_send_control(54, at(1)),
        ControlAllowance::Reserve
    );
    assert!(
        !credit.on_grant(offer(0, 200, 9), at(1)),
        "an ended generation"
    );
    assert_eq!((credit.generation(), credit.limit()), (1, 50));
}

#[test]
fn lapses_l_after_the_newest_acked_packet_was_sent() {
    let mut credit = sender(9, 2);
    credit.on_sent(0, at(100), true);
    credit.on_acked(at(100), at(3_000));
    credit.on_acked(at(50), at(3_001));
    assert_eq!(credit.lapse_at(), Some(at(100 + L)));
    assert!(credit.may_send_data(1, at(99 + L)));
    assert!(!credit.lapsed(at(99 + L)));
    assert!(credit.lapsed(at(100 + L)));
    assert!(!credit.may_send_data(1, at(100 + L)));
    // Numbers for control now begin behind those sent, not behind the limit granted.
    assert_eq!(
        credit.may_send_control(2, at(100 + L)),
        ControlAllowance::Reserve
    );
    credit.on_sent(1, at(100 + L), false);
    credit.on_sent(2, at(100 + L), false);
    assert_eq!(
        credit.may_send_control(3, at(101 + L)),
        ControlAllowance::NotBefore(at(350 + L)),
        "the reserve is used up"
    );
}

#[test]
fn a_lapse_is_for_ever_and_returned() {
    let mut credit = sender(9, 2);
    credit.on_sent(0, at(1), true);
    credit.on_sent(1, at(9_000), true);
    assert_eq!(credit.return_due(at(9_000)), None);
    assert_eq!(
        credit.return_due(at(L)),
        Some(SocketReturn {
            generation: 0,
            highest: 1,
            size: 0,
        }),
        "known before anything was called"
    );
    // The ack of a late packet comes too late: the receiver may have counted on the lapse.
    credit.on_acked(at(9_000), at(L));
    assert_eq!(credit.lapse_at(), None);
    assert!(!credit.may_send_data(2, at(L)));
    assert!(!credit.on_grant(offer(0, 50, 2), at(L)), "ended");
    assert!(!credit.return_is_urgent());
    assert_eq!(
        credit.return_due(at(L)),
        Some(SocketReturn {
            generation: 0,
            highest: 1,
            size: 0,
        })
    );
    credit.on_return_sent(at(L));
    assert_eq!(credit.return_due(at(L)), None);
    credit.on_return_lost(7);
    assert_eq!(credit.return_due(at(L)), None, "another generation's");
    credit.on_return_lost(0);
    assert!(credit.return_due(at(L)).is_some());
    assert!(credit.on_grant(offer(1, 50, 2), at(L)));
    assert_eq!(credit.return_due(at(L)), None);
    assert_eq!(credit.data_allowance(2, at(L)), 49);
}

/// The last control packets were lost, or their answers were.
#[test]
fn f19_when_all_numbers_are_used_up_two_packets_go_soon_then_one_in_each_l() {
    let mut credit = sender(9, 2);
    let mut now = 100;
    credit.on_sent(10, at(now), true);
    credit.on_sent(11, at(now), true);
    for (number, pause) in (12..).zip([250, 1_000, L, L]) {
        let due = now + pause;
        let silent = ControlAllowance::NotBefore(at(due));
        assert_eq!(credit.may_send_control(number, at(due - 1)), silent);
        let allowed = credit.may_send_control(number, at(due));
        assert_eq!(allowed, ControlAllowance::Reserve);
        now = due;
        credit.on_sent(number, at(now), true);
    }
}

/// Numbers that were granted meanwhile begin the pauses anew.
#[test]
fn f19_a_packet_within_its_numbers_makes_the_next_pause_short() {
    let mut credit = sender(9, 2);
    for (number, time) in [(10, 0), (11, 0), (12, 250)] {
        credit.on_sent(number, at(time), true);
    }
    assert!(credit.on_grant(offer(0, 12, 2), at(1_001)) || credit.limit() == 12);
    credit.on_sent(13, at(1_002), true);
    credit.on_sent(14, at(1_003), true);
    let silent = ControlAllowance::NotBefore(at(1_003 + 250));
    assert_eq!(credit.may_send_control(15, at(1_004)), silent);
}

#[test]
fn a_generation_without_fresh_ack_is_returned_at_once() {
    let mut credit = sender(9, 2);
    assert!(
        !credit.on_grant(offer(1, 50, 2), at(L)),
        "it may be minutes old"
    );
    assert!(!credit.may_send_data(0, at(L)));
    assert_eq!(credit.return_due(at(L)).map(|r| r.generation), Some(1));
    credit.on_acked(at(L - 5), at(L));
    assert!(credit.on_grant(offer(2, 50, 2), at(L)));
    assert_eq!(credit.data_allowance(0, at(L)), 51);
}

#[test]
fn reclaim_is_answered_each_time_and_ends_the_generation() {
    let mut credit = sender(9, 2);
    credit.on_sent(0, at(1), true);
    credit.on_sent(1, at(1), true);
    credit.on_reclaim(0, at(2));
    assert!(credit.return_is_urgent());
    let answer = SocketReturn {
        generation: 0,
        highest: 1,
        size: 0,
    };
    assert_eq!(credit.return_due(at(2)), Some(answer));
    assert!(!credit.may_send_data(2, at(2)));
    assert_eq!(credit.limit(), 1, "frozen at what was sent");
    assert_eq!(credit.may_send_control(2, at(2)), ControlAllowance::Reserve);
    credit.on_return_sent(at(2));
    assert!(!credit.return_is_urgent());
    assert!(
        !credit.on_grant(offer(0, 90, 2), at(3)),
        "its later grants are ignored"
    );
    credit.on_sent(2, at(2), true);
    credit.on_reclaim(0, at(4));
    assert_eq!(
        credit.return_due(at(4)),
        Some(SocketReturn {
            generation: 0,
            highest: 2,
            size: 0,
        })
    );
    assert!(credit.on_grant(offer(1, 90, 2), at(5)));
    credit.on_reclaim(0, at(6));
    assert_eq!(credit.return_due(at(6)), None, "of a past generation");
    assert!(credit.may_send_data(3, at(6)));
}

#[test]
fn reclaim_may_overtake_the_grant_it_ends() {
    let mut credit = sender(9, 2);
    credit.on_reclaim(3, at(1));
    assert_eq!(
        credit.return_due(at(1)),
        Some(SocketReturn {
            generation: 3,
            highest: 0,
            size: 0,
        })
    );
    assert!(!credit.on_grant(offer(3, 90, 2), at(2)));
    assert!(!credit.may_send_data(0, at(2)));
    assert!(credit.on_grant(offer(4, 90, 2), at(3)));
}

#[test]
fn f19_blocked_repeats_with_back_off_until_credit_comes() {
    let mut credit = sender(0, 64);
    credit.on_sent(0, at(0), true);
    assert_eq!(credit.blocked_timer(), None);
    credit.on_waiting(at(10), PTO);
    credit.on_waiting(at(25), PTO);
    assert_eq!(
        credit.blocked_timer(),
        Some(at(30)),
        "the first call counts"
    );
    assert!(!credit.needs_blocked(at(29)));
    assert!(credit.needs_blocked(at(30)));
    let mut now = 30;
    for pause in [20, 40, 80, 160, 320, 640, 1_000, 1_000] {
        credit.on_blocked_sent(at(now));
        now += pause;
        assert_eq!(credit.blocked_timer(), Some(at(now)));
    }
    assert!(!credit.on_grant(offer(0, 0, 64), at(now)), "nothing new");
    assert!(credit.blocked_timer().is_some());
    assert!(credit.on_grant(offer(0, 5, 64), at(now)));
    assert_eq!(credit.blocked_timer(), None);
    credit.on_waiting(at(now), PTO);
    credit.on_idle(at(now));
    assert_eq!(credit.blocked_timer(), None);
}

#[test]
fn a_used_up_limit_is_reported_once_the_limit_rises() {
    let mut credit = sender(9, 64);
    assert_eq!(credit.used_up(), None);
    credit.on_sent(9, at(0), true);
    credit.on_used_up(at(1));
    assert!(credit.on_grant(offer(0, 20, 64), at(2)));
    assert_eq!((credit.limit(), credit.used_up()), (20, Some(9)));
    credit.on_used_up_reported(at(3));
    assert_eq!(credit.used_up(), None);
    credit.on_used_up(at(52));
    assert_eq!(credit.used_up(), None, "it was told 49 ms ago");
    credit.on_used_up(at(53));
    assert_eq!(credit.used_up(), Some(20));
}

/// An ended grant's limit is the highest number sent, which proves no need of more.
#[test]
fn an_ended_grant_reports_no_used_up_limit() {
    let mut credit = sender(9, 64);
    credit.on_sent(0, at(0), true);
    credit.on_used_up(at(1));
    credit.on_reclaim(0, at(2));
    assert_eq!(credit.used_up(), None);
    credit.on_used_up(at(3));
    assert_eq!(credit.used_up(), None);
    credit.on_acked(at(3), at(4));
    assert!(credit.on_grant(offer(1, 20, 64), at(4)));
    credit.on_used_up(at(4 + L));
    assert_eq!(credit.used_up(), None, "it lapsed");
}

#[test]
fn blocked_is_due_at_once_when_the_grant_ended() {
    let mut credit = sender(9, 2);
    credit.on_waiting(at(L + 5), PTO);
    assert!(credit.needs_blocked(at(L + 5)));
    let mut credit = sender(9, 2);
    credit.on_waiting(at(5), PTO);
    credit.on_reclaim(0, at(6));
    assert_eq!(credit.blocked_timer(), Some(at(6)));
}

#[test]
fn a_pause_before_blocked_has_bounds() {
    for (pto, pause) in [(Duration::ZERO, 1), (Duration::from_secs(60), 1_000)] {
        let mut credit = sender(0, 2);
        credit.on_waiting(at(0), pto);
        assert_eq!(credit.blocked_timer(), Some(at(pause)));
    }
}

#[test]
fn a_sender_of_acks_only_asks_for_an_ack_before_its_grant_ends() {
    let mut credit = sender(39, 2);
    credit.on_sent(0, at(0), false);
    assert!(!credit.refresh_due(29, at(0)));
    assert!(credit.refresh_due(30, at(0)), "a quarter is left");
    credit.on_sent(30, at(0), true);
    assert!(!credit.refresh_due(31, at(0)), "once for each grant");
    assert!(credit.on_grant(offer(0, 79, 2), at(0)));
    assert!(!credit.refresh_due(31, at(0)));
    assert!(!credit.refresh_due(31, at(L / 2 - 1)));
    assert!(
        credit.refresh_due(31, at(L / 2)),
        "half of the lapse is over"
    );
    credit.on_sent(31, at(L / 2), true);
    assert!(!credit.refresh_due(32, at(L / 2 + 1_249)));
    assert!(
        credit.refresh_due(32, at(L / 2 + 1_250)),
        "again, with a pause"
    );
    credit.on_acked(at(L / 2), at(L / 2 + 3_000));
    assert!(!credit.refresh_due(32, at(L / 2 + 3_000)));
}

#[test]
fn f15_numbers_near_their_end() {
    let first = u64::MAX - 3;
    let mut credit = SendCredit::new(first, offer(0, 1_000, u64::MAX), at(0));
    assert_eq!(
        credit.data_allowance(first, at(1)),
        3,
        "the last number is never used"
    );
    credit.on_sent(u64::MAX - 1, at(1), true);
    credit.on_sent(u64::MAX, at(1), true);
    assert!(!credit.on_grant(offer(0, u64::MAX, u64::MAX), at(1)));
    assert!(!credit.may_send_data(u64::MAX, at(1)));
    assert!(matches!(
        credit.may_send_control(u64::MAX, at(1)),
        ControlAllowance::NotBefore(_)
    ));
    credit.on_reclaim(u64::MAX, at(1));
    assert_eq!(
        credit.return_due(at(1)).map(|r| r.highest),
        Some(u64::MAX - 1)
    );
    assert!(!credit.on_grant(offer(u64::MAX, 5, 2), at(1)));
}

#[test]
fn f19_blocked_of_an_ended_generation_says_so_each_time() {
    let mut credit = sender(9, 2);
    credit.on_reclaim(0, at(1));
    credit.on_return_sent(at(1));
    assert_eq!(credit.return_due(at(2)), None);
    credit.on_waiting(at(2), PTO);
    assert!(credit.needs_blocked(at(2)) && credit.return_due(at(2)).is_some());
    credit.on_blocked_sent(at(2));
    assert_eq!(credit.return_due(at(3)), None);
    assert!(credit.return_due(at(22)).is_some(), "with the next BLOCKED");
}

#[test]
fn a_reserve_that_never_arrived_is_not_used() {
    let mut credit = sender(9, 60);
    credit.on_reclaim(1, at(1));
    assert_eq!(credit.may_send_control(1, at(1)), ControlAllowance::Reserve);
    credit.on_sent(0, at(1), false);
    credit.on_sent(1, at(1), false);
    assert!(matches!(
        credit.may_send_control(2, at(1)),
        ControlAllowance::NotBefore(_)
    ));
}

#[test]
fn a_live_grant_counts_control_from_its_limit() {
    let mut credit = sender(9, 2);
    credit.on_sent(10, at(1), true);
    assert!(credit.on_grant(offer(0, 20, 2), at(1)));
    assert_eq!(
        credit.may_send_control(22, at(2)),
        ControlAllowance::Reserve
    );
    assert!(matches!(
        credit.may_send_control(23, at(2)),
        ControlAllowance::NotBefore(_)
    ));
}

#[test]
fn a_grant_below_the_numbers_sent_does_not_end_blocked() {
    let mut credit = sender(9, 64);
    credit.on_sent(30, at(1), true);
    credit.on_waiting(at(1), PTO);
    assert!(!credit.on_grant(offer(0, 30, 64), at(1)));
    assert!(credit.blocked_timer().is_some());
    assert!(
        !credit.refresh_due(31, at(1)),
        "nothing runs low that never was"
    );
    assert!(credit.on_grant(offer(0, 31, 64), at(1)));
    assert_eq!(credit.blocked_timer(), None);
}

#[test]
fn f21_whoever_runs_out_of_reserve_asks_at_once() {
    let mut credit = sender(9, 4);
    assert!(!credit.reserve_report_due(11, at(1)));
    assert!(
        credit.reserve_report_due(12, at(1)),
        "the second half of the reserve"
    );
    assert!(!credit.needs_blocked(at(1)));
    credit.report_low_reserve(12, at(1), PTO);
    assert!(credit.needs_blocked(at(1)));
    credit.on_sent(12, at(1), false);
    credit.on_blocked_sent(at(1));
    assert!(!credit.needs_blocked(at(2)), "once per pause");
    assert!(credit.on_grant(offer(0, 30, 4), at(3)));
    assert!(!credit.reserve_report_due(13, at(3)));
}

/// Two ends that have nothing but a reserve, with a packet under way in each direction, each know
/// of one number less than the other used, so their reserves are always low.
#[test]
fn f21_a_peer_asks_again_only_after_an_answer_could_arrive() {
    let mut credit = sender(9, 2);
    let asked = at(1);
    credit.report_low_reserve(11, asked, PTO);
    credit.on_sent(11, asked, true);
    credit.on_grant(offer(0, 10, 2), asked);
    assert!(
        !credit.reserve_report_due(12, asked),
        "the answer is under way"
    );
    credit.on_sent(12, asked, false);
    let just_before = asked + PTO - Duration::from_millis(1);
    assert!(!credit.reserve_report_due(13, just_before));
    assert!(credit.reserve_report_due(13, asked + PTO), "it was lost");
    credit.on_grant(offer(0, 11, 2), asked);
    assert!(
        credit.reserve_report_due(13, asked),
        "it came, and 12 was used"
    );
}

/// F27: the sender gives its grant back to have the next one charged by a smaller size.
#[test]
fn f27_binding_the_size_of_packets_returns_the_grant() {
    let mut credit = sender(9, 2);
    credit.on_sent(0, at(1), true);
    assert!(credit.bind(1_472, at(2)));
    assert!(credit.return_is_urgent() && !credit.is_reclaimed());
    let answer = SocketReturn {
        size: 1_472,
        ..answer_of(0, 0)
    };
    assert_eq!(credit.return_due(at(2)), Some(answer));
    assert!(!credit.may_send_data(1, at(2)));
    credit.on_return_sent(at(2));
    assert!(!credit.return_is_urgent());
    assert!(!credit.bind(1_200, at(3)), "there is nothing to return");
    assert!(credit.on_grant(offer(1, 90, 2), at(4)));
    credit.on_reclaim(1, at(5));
    let size = credit.return_due(at(5)).map(|answer| answer.size);
    assert_eq!(size, Some(1_472), "it holds from then on");
}
