//! F27: the effect of EMSGSIZE, black holes and probes on the packet size.

use super::{MAX_PROBES, MIN_GAIN, PROBE_LAPSE, PathMtu, RAISE_AFTER};
use crate::limits::{ETHERNET_MTU, MAX_DATAGRAM, MIN_MTU};
use crate::time::{Duration, Instant};
use proptest::prelude::*;

const START: Instant = Instant::from_nanos(1_000_000_000);

/// Sends every probe that is due over a path that drops packets larger than `path`.
fn search(mtu: &mut PathMtu, now: Instant, path: usize) -> u32 {
    let mut probes = 0;
    while let Some(size) = mtu.probe_due(now) {
        assert!(size > mtu.current(), "a probe that would teach nothing");
        mtu.on_probe_sent(now, size);
        assert_eq!(mtu.probe_due(now), None, "two probes at once");
        if size <= path {
            assert!(mtu.on_probe_acked(size));
        } else {
            mtu.on_probe_lost(now, size);
        }
        probes += 1;
        assert!(probes < 100, "the search does not end");
    }
    probes
}

/// One round trip in which large packets vanish and small ones do not.
fn swallow(mtu: &mut PathMtu, now: &mut Instant) -> bool {
    let sent_at = *now;
    *now += Duration::from_millis(1);
    mtu.on_acked(200);
    mtu.on_lost(*now, mtu.current(), sent_at)
}

#[test]
fn a_known_route_needs_no_search() {
    let mtu = PathMtu::new(Some(ETHERNET_MTU), MAX_DATAGRAM);
    assert_eq!((mtu.current(), mtu.probe_due(START)), (ETHERNET_MTU, None));
    assert_eq!(mtu.next_time(), None);
    assert_eq!(PathMtu::new(Some(8_972), 4_000).current(), 4_000);
    assert_eq!(PathMtu::new(Some(500), 4_000).current(), MIN_MTU);
    assert_eq!(PathMtu::new(Some(1 << 20), 1 << 20).current(), MAX_DATAGRAM);
}

#[test]
fn an_unknown_route_is_searched_from_the_floor() {
    let mut mtu = PathMtu::new(None, ETHERNET_MTU);
    assert_eq!(mtu.current(), MIN_MTU);
    assert_eq!(
        search(&mut mtu, START, 1_500),
        1,
        "the limit is tried first"
    );
    assert_eq!(mtu.current(), ETHERNET_MTU);
}

#[test]
fn the_usual_sizes_are_tried_before_halving() {
    let mut mtu = PathMtu::new(None, MAX_DATAGRAM);
    let mut tried = Vec::new();
    while let Some(size) = mtu.probe_due(START) {
        tried.push(size);
        mtu.on_probe_sent(START, size);
        if size <= ETHERNET_MTU {
            _ = mtu.on_probe_acked(size)
        } else {
            _ = mtu.on_too_big(START, size)
        }
    }
    assert_eq!(tried[..3], [MAX_DATAGRAM, 8_972, ETHERNET_MTU]);
    assert_eq!(mtu.current(), ETHERNET_MTU);
}

#[test]
fn another_connection_may_agree_on_less_or_more() {
    let mtu = PathMtu::new(Some(9_000), MAX_DATAGRAM).inherit(2_000);
    assert_eq!((mtu.current(), mtu.probe_due(START)), (2_000, None));
    assert_eq!(mtu.inherit(0).current(), MIN_MTU);
    let mtu = mtu.inherit(3_000);
    assert_eq!((mtu.current(), mtu.probe_due(START)), (2_000, Some(3_000)));
}

#[test]
fn f27_a_failed_size_is_remembered_by_the_next_connection() {
    let mut mtu = PathMtu::new(Some(4_000), MAX_DATAGRAM);
    assert!(mtu.on_too_big(START, 4_000));
    let mut mtu = mtu.inherit(9_000);
    assert_eq!(mtu.current(), ETHERNET_MTU);
    while let Some(size) = mtu.probe_due(START) {
        assert!(size < 4_000, "{size}");
        mtu.on_probe_acked(size);
    }
    mtu.on_peer_lost();
    assert_eq!(mtu.inherit(MAX_DATAGRAM).current(), MIN_MTU);
}

#[test]
fn a_lost_probe_is_repeated_before_it_counts() {
    let mut mtu = PathMtu::new(None, ETHERNET_MTU);
    for _ in 1..MAX_PROBES {
        mtu.on_probe_sent(START, ETHERNET_MTU);
        mtu.on_probe_lost(START, ETHERNET_MTU);
        assert_eq!(mtu.probe_due(START), Some(ETHERNET_MTU));
    }
    mtu.on_probe_sent(START, ETHERNET_MTU);
    mtu.on_probe_lost(START, ETHERNET_MTU);
    assert_eq!(mtu.probe_due(START), Some((MIN_MTU + ETHERNET_MTU) / 2));
}

#[test]
fn a_probe_without_an_answer_lapses() {
    let mut mtu = PathMtu::new(None, ETHERNET_MTU);
    let mut now = START;
    for _ in 0..MAX_PROBES {
        assert_eq!(mtu.probe_due(now), Some(ETHERNET_MTU));
        mtu.on_probe_sent(now, ETHERNET_MTU);
        assert_eq!(
            mtu.probe_due(now + PROBE_LAPSE - Duration::from_nanos(1)),
            None
        );
        assert_eq!(mtu.next_time(), Some(now + PROBE_LAPSE));
        now += PROBE_LAPSE;
    }
    mtu.on_probe_sent(now, ETHERNET_MTU);
    assert_eq!(mtu.failed, Some(ETHERNET_MTU));
}

#[test]
fn f27_emsgsize_lowers_the_size_at_once() {
    let mut mtu = PathMtu::new(Some(9_000), MAX_DATAGRAM);
    assert!(mtu.on_too_big(START, 9_000));
    assert_eq!(mtu.current(), 8_972);
    assert!(mtu.on_too_big(START, 8_972));
    assert_eq!(mtu.current(), ETHERNET_MTU);
    assert!(
        !mtu.on_too_big(START, 8_000),
        "an older packet, larger than today's"
    );
    assert!(mtu.on_too_big(START, ETHERNET_MTU));
    assert_eq!(mtu.current(), MIN_MTU);
    assert!(
        !mtu.on_too_big(START, MIN_MTU),
        "nothing is below the floor"
    );
    assert_eq!(mtu.current(), MIN_MTU);
    search(&mut mtu, START, 1_400);
    assert!(
        mtu.current() <= 1_400 && mtu.current() + MIN_GAIN >= 1_400,
        "{}",
        mtu.current()
    );
}

#[test]
fn f27_emsgsize_of_a_probe_ends_its_size() {
    let mut mtu = PathMtu::new(None, 4_000);
    mtu.on_probe_sent(START, 4_000);
    assert!(!mtu.on_too_big(START, 4_000));
    assert_eq!(mtu.current(), MIN_MTU);
    assert_eq!(
        mtu.probe_due(START),
        Some(ETHERNET_MTU),
        "at once, and only once"
    );
}

#[test]
fn f27_a_black_hole_is_noticed_and_probed_again_later() {
    let mut mtu = PathMtu::new(Some(ETHERNET_MTU), MAX_DATAGRAM);
    let mut now = START;
    assert!(!swallow(&mut mtu, &mut now));
    assert!(!swallow(&mut mtu, &mut now));
    assert!(swallow(&mut mtu, &mut now));
    assert_eq!(mtu.current(), MIN_MTU);
    search(&mut mtu, now, 1_300);
    let found = mtu.current();
    assert!((1_300 - MIN_GAIN..=1_300).contains(&found), "{found}");
    // The path carries large packets again; that is noticed after ten minutes, not before.
    assert_eq!(
        mtu.probe_due(now + RAISE_AFTER - Duration::from_secs(1)),
        None
    );
    let later = mtu.next_time().unwrap();
    assert!(later <= now + RAISE_AFTER);
    assert_eq!(search(&mut mtu, later, 1_500), 1);
    assert_eq!(mtu.current(), ETHERNET_MTU);
    assert_eq!(mtu.next_time(), None);
}

#[test]
fn f27_a_black_hole_that_stays_is_doubted_every_ten_minutes() {
    let mut mtu = PathMtu::new(None, ETHERNET_MTU);
    let mut now = START;
    for _ in 0..5 {
        assert!(search(&mut mtu, now, MIN_MTU) > 0);
        assert_eq!(mtu.current(), MIN_MTU);
        let next = mtu.next_time().unwrap();
        assert!(next.since(now) <= RAISE_AFTER && next > now);
        now = next;
    }
}

#[test]
fn f27_congestion_is_no_black_hole() {
    let mut mtu = PathMtu::new(Some(ETHERNET_MTU), MAX_DATAGRAM);
    let mut now = START;
    // Half of the full packets are lost for a long time, but some arrive.
    for _ in 0..100 {
        assert!(!swallow(&mut mtu, &mut now));
        mtu.on_acked(ETHERNET_MTU);
    }
    // Everything is lost, small packets too.
    for _ in 0..100 {
        let sent_at = now;
        now += Duration::from_millis(1);
        assert!(!mtu.on_lost(now, ETHERNET_MTU, sent_at));
    }
    assert_eq!(mtu.current(), ETHERNET_MTU);
}

#[test]
fn f27_one_outage_is_one_sign_however_many_packets_it_took() {
    let mut mtu = PathMtu::new(Some(ETHERNET_MTU), MAX_DATAGRAM);
    for packet in 0..50 {
        let sent_at = START + Duration::from_micros(packet);
        assert!(!mtu.on_lost(
            START + Duration::from_millis(100 + packet),
            ETHERNET_MTU,
            sent_at
        ));
        mtu.on_acked(100);
    }
    assert_eq!(mtu.current(), ETHERNET_MTU);
}

#[test]
fn f27_losses_of_small_packets_say_nothing_about_size() {
    let mut mtu = PathMtu::new(Some(ETHERNET_MTU), MAX_DATAGRAM);
    let mut now = START;
    for _ in 0..100 {
        let sent_at = now;
        now += Duration::from_millis(1);
        mtu.on_acked(200);
        assert!(!mtu.on_lost(now, MIN_MTU, sent_at));
    }
}

#[test]
fn f27_persistent_probe_timeouts_fall_to_the_floor_and_search_at_once() {
    let mut mtu = PathMtu::new(Some(ETHERNET_MTU), MAX_DATAGRAM);
    assert!(!mtu.on_probe_timeout(1));
    assert!(!mtu.on_probe_timeout(2));
    assert!(mtu.on_probe_timeout(3));
    assert_eq!(mtu.current(), MIN_MTU);
    assert!(!mtu.on_probe_timeout(4));
    // The peer was only away: one probe repairs it.
    assert_eq!(search(&mut mtu, START, 1_500), 1);
    assert_eq!(mtu.current(), ETHERNET_MTU);
}

#[test]
fn f27_a_lost_peer_is_met_with_small_packets_until_probes_tell_more() {
    let mut mtu = PathMtu::new(Some(ETHERNET_MTU), MAX_DATAGRAM);
    assert!(!mtu.on_probe_timeout(1));
    mtu.on_peer_lost();
    assert_eq!(mtu.current(), MIN_MTU);
    assert_eq!(search(&mut mtu, START, 1_500), 1);
    assert_eq!(mtu.current(), ETHERNET_MTU);
}

#[test]
fn f27_a_new_failure_does_not_revive_one_of_long_ago() {
    let mut mtu = PathMtu::new(Some(9_000), 9_000);
    assert!(mtu.on_too_big(START, 1_489));
    let later = START + RAISE_AFTER;
    assert!(!mtu.on_too_big(later, 9_000));
    search(&mut mtu, later, 4_000);
    assert!(
        (4_000 - MIN_GAIN..=4_000).contains(&mtu.current()),
        "{}",
        mtu.current()
    );
}

#[test]
fn f27_a_packet_larger_than_one_that_vanished_clears_the_path() {
    let mut mtu = PathMtu::new(Some(ETHERNET_MTU), MAX_DATAGRAM);
    let ms = |ms| START + Duration::from_millis(ms);
    assert!(!mtu.on_lost(ms(1), ETHERNET_MTU, ms(0)));
    mtu.on_acked(1_300);
    assert!(!mtu.on_lost(ms(3), 1_250, ms(2)));
    mtu.on_acked(1_300);
    assert!(
        !mtu.on_lost(ms(5), ETHERNET_MTU, ms(4)),
        "1,250 bytes are not too many"
    );
    mtu.on_acked(1_300);
    assert!(!mtu.on_lost(ms(7), ETHERNET_MTU, ms(6)));
    assert!(mtu.on_lost(ms(9), ETHERNET_MTU, ms(8)));
    // Sizes below the smallest lost one do not count as failed.
    search(&mut mtu, ms(9), 1_400);
    assert!(mtu.current() > 1_300);
}

#[test]
fn a_probe_that_was_only_late_counts() {
    let mut mtu = PathMtu::new(None, ETHERNET_MTU);
    for _ in 0..MAX_PROBES {
        mtu.on_probe_sent(START, ETHERNET_MTU);
        mtu.on_probe_lost(START, ETHERNET_MTU);
    }
    assert!(mtu.on_probe_acked(ETHERNET_MTU));
    assert_eq!((mtu.current(), mtu.failed), (ETHERNET_MTU, None));
}

#[test]
fn f27_the_result_of_a_forgotten_probe_is_ignored() {
    let mut mtu = PathMtu::new(None, ETHERNET_MTU);
    let mut now = START;
    for _ in 0..MAX_PROBES {
        mtu.on_probe_sent(now, ETHERNET_MTU);
        now += PROBE_LAPSE;
    }
    now += RAISE_AFTER;
    assert_eq!(mtu.probe_due(now), Some(ETHERNET_MTU));
    mtu.on_probe_sent(now, ETHERNET_MTU);
    assert_eq!(mtu.failed, None, "the third loss is itself in doubt");
}

proptest! {
    /// For any events the size stays within bounds, and a search on a real path ends at the path's
    /// size.
    #[test]
    fn f27_any_history_ends_in_a_size_that_works(
        route in prop::option::of(0_usize..70_000),
        limit in 0_usize..70_000,
        path in MIN_MTU..MAX_DATAGRAM,
        events in prop::collection::vec((0_u8..7, 0_usize..70_000, 0_u64..20_000), 0..60),
    ) {
        let mut mtu = PathMtu::new(route, limit);
        let mut now = START;
        for (event, size, pause) in events {
            let sent_at = now;
            now += Duration::from_millis(pause);
            match event {
                0 => _ = mtu.on_too_big(now, size),
                1 => _ = mtu.on_lost(now, size, sent_at),
                2 => mtu.on_acked(size),
                3 => _ = mtu.on_probe_timeout((size % 5) as u32),
                4 => mtu = mtu.inherit(size.min(limit)),
                5 => _ = mtu.on_probe_acked(size),
                _ => {
                    if let Some(due) = mtu.probe_due(now) {
                        mtu.on_probe_sent(now, due);
                    }
                }
            }
            prop_assert!((MIN_MTU..=limit.clamp(MIN_MTU, MAX_DATAGRAM)).contains(&mtu.current()));
        }
        now += RAISE_AFTER + PROBE_LAPSE;
        // While it is too large for the path, the system refuses it.
        while mtu.current() > path {
            prop_assert!(mtu.on_too_big(now, mtu.current()));
        }
        now += RAISE_AFTER + PROBE_LAPSE;
        search(&mut mtu, now, path);
        let reachable = path.min(mtu.limit);
        prop_assert!(mtu.current() <= reachable);
        prop_assert!(mtu.current() + MIN_GAIN >= reachable, "{} of {reachable}", mtu.current());
    }
}

#[test]
fn f27_a_path_below_the_floor_is_noticed_once_and_only_if_smaller_packets_arrive() {
    let lost = |mtu: &mut PathMtu, secs| {
        let now = Instant::ZERO + Duration::from_secs(secs);
        assert!(!mtu.on_lost(now, MIN_MTU, now), "nothing to fall to");
        mtu.has_proved_narrow()
    };
    let mut mtu = PathMtu::new(Some(MIN_MTU), MIN_MTU);
    assert!((1..9).all(|secs| !lost(&mut mtu, secs)), "nothing arrives");
    mtu.on_acked(100);
    assert!(mtu.has_proved_narrow());
    assert!(!lost(&mut mtu, 10), "once");
    let mut mtu = PathMtu::new(Some(MIN_MTU), MIN_MTU);
    for secs in 1..9 {
        assert!(!lost(&mut mtu, secs), "some of its size arrive");
        mtu.on_acked(100);
        mtu.on_acked(MIN_MTU);
    }
}

#[test]
fn f27_a_size_is_found_once_the_search_is_over_and_doubted_later() {
    let mut mtu = PathMtu::new(None, 8_972);
    assert_eq!(mtu.found(START), None, "nothing failed yet");
    let mut sizes = 0;
    while let Some(size) = mtu.probe_due(START) {
        assert_eq!(mtu.found(START), None, "the search goes on");
        mtu.on_probe_sent(START, size);
        assert_eq!(mtu.found(START), None, "a probe is under way");
        match size <= ETHERNET_MTU {
            true => assert!(mtu.on_probe_acked(size)),
            false => mtu.on_probe_lost(START, size),
        }
        sizes += 1;
        assert!(sizes < 100);
    }
    assert_eq!(mtu.found(START), Some(ETHERNET_MTU));
    mtu.bind();
    let later = START + RAISE_AFTER;
    assert_eq!((mtu.limit(), mtu.probe_due(later)), (ETHERNET_MTU, None));
    assert!(!mtu.in_doubt(START) && mtu.in_doubt(later));
    assert_eq!(mtu.inherit(8_972).probe_due(later), Some(8_972));
}
