//! Properties of every controller, for any calls.

use super::*;
use crate::congestion::{AckSample, Cause, CongestionEvent};
use crate::recovery::{AckDelays, RateSample, Rtt};
use crate::time::Instant;
use proptest::prelude::*;

const CHOICES: [ControllerChoice; 5] = [
    ControllerChoice::Auto,
    ControllerChoice::Lan,
    ControllerChoice::Wan,
    ControllerChoice::Cubic,
    ControllerChoice::Fixed { bytes: 0 },
];

/// Largest window of any controller.
const MOST: u64 = 1 << 36;

/// One call: its kind, and three numbers for its arguments.
type Call = (u8, u64, u64, u64);

fn call(controller: &mut dyn Controller, rtt: &mut Rtt, now: Instant, mtu: &mut usize, call: Call) {
    let (kind, a, b, c) = call;
    let ago = |nanos: u64| Instant::from_nanos(now.as_nanos().saturating_sub(nanos));
    match kind % 8 {
        0 => controller.on_sent(now, a % 65_507, b),
        1..=3 => {
            let path = Duration::from_nanos(c);
            rtt.update(path, AckDelays::default());
            let rate = RateSample {
                delivered: a,
                interval: Duration::from_nanos(b.max(1)),
                app_limited: b.is_multiple_of(3),
            };
            let sample = AckSample {
                bytes: a,
                in_flight_before: b,
                in_flight: b.saturating_sub(a),
                delivered: a,
                largest_sent_at: ago(c),
                rtt,
                path: (!b.is_multiple_of(5)).then_some(path),
                rate: (!a.is_multiple_of(7)).then_some(rate),
                app_limited: c.is_multiple_of(4),
                paced: c.is_multiple_of(3),
            };
            controller.on_ack(now, &sample);
        }
        4 | 5 => controller.on_congestion(
            now,
            &CongestionEvent {
                cause: if a.is_multiple_of(4) {
                    Cause::Ecn
                } else {
                    Cause::Loss
                },
                bytes_lost: b,
                largest_lost_sent_at: ago(c),
                persistent: a.is_multiple_of(11),
                in_flight: a,
                overlaps: a.is_multiple_of(3),
            },
        ),
        6 => controller.on_spurious(now),
        _ if a.is_multiple_of(16) => controller.restart(*mtu, b),
        _ => {
            *mtu = 1_200 + (b % 64_000) as usize;
            controller.on_mtu(*mtu);
        }
    }
}

/// Mostly plausible numbers, sometimes any.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..100_000_u64, 4 => 0..1_u64 << 32, 1 => any::<u64>()]
}

proptest! {
    /// Windows stay within their bounds, rates are numbers, and the same calls lead to the same
    /// decisions.
    #[test]
    fn windows_stay_within_bounds_and_decisions_repeat(
        choice in 0..CHOICES.len(),
        calls in prop::collection::vec((number(), (any::<u8>(), number(), number(), number())), 0..300),
    ) {
        let make = || (CHOICES[choice].make(1_472), Rtt::new(millis(100)), 1_472);
        let (mut first, mut second) = (make(), make());
        let mut now = Instant::from_nanos(1_000_000_000);
        for (wait, one) in calls {
            now += Duration::from_nanos(wait % 10_000_000_000);
            for (controller, rtt, mtu) in [&mut first, &mut second] {
                call(&mut **controller, rtt, now, mtu, one);
            }
            let window = first.0.window();
            prop_assert!(window >= 2 * first.2 as u64, "{}: {window}", first.0.name());
            prop_assert!(window <= MOST, "{}: {window}", first.0.name());
            prop_assert_eq!(window, second.0.window());
            prop_assert_eq!(first.0.pacing_rate(&first.1), second.0.pacing_rate(&second.1));
            prop_assert_eq!(first.0.name(), second.0.name());
            if let Some(rate) = first.0.pacing_rate(&first.1) {
                prop_assert!(rate > 0, "{}", first.0.name());
            }
        }
    }
}
