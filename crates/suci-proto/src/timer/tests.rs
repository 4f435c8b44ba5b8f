//! The wheel against a sorted map, and where digits of the clock roll over.

use super::{SLOTS, TICK_BITS, TimerWheel};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use suci_link::time::{Duration, Instant};

const KEYS: usize = 40;

/// The model of the wheel.
#[derive(Default)]
struct Model {
    by_key: BTreeMap<usize, Instant>,
    by_time: BTreeSet<(Instant, usize)>,
}

impl Model {
    fn cancel(&mut self, key: usize) {
        if let Some(deadline) = self.by_key.remove(&key) {
            self.by_time.remove(&(deadline, key));
        }
    }

    fn set(&mut self, key: usize, deadline: Instant) {
        self.cancel(key);
        self.by_key.insert(key, deadline);
        self.by_time.insert((deadline, key));
    }

    fn expire(&mut self, now: Instant) -> Vec<usize> {
        let mut due = Vec::new();
        while let Some(&(deadline, key)) = self.by_time.first().filter(|first| first.0 <= now) {
            assert_eq!(self.by_key.remove(&key), Some(deadline));
            self.by_time.pop_first();
            due.push(key);
        }
        due
    }
}

#[derive(Clone, Debug)]
enum Step {
    Set(usize, u64),
    /// Sets a deadline in the past.
    SetLate(usize, u64),
    Cancel(usize),
    Advance(u64),
    ToNext,
}

/// Distances of every magnitude, so that every level is used; and crowds in one slot.
fn distance() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0_u32..64, any::<u64>()).prop_map(|(bits, value)| value >> bits),
        (0_u64..50_000).prop_map(|value| (1 << 36) + value),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0..KEYS, distance()).prop_map(|(key, before)| Step::SetLate(key, before)),
        6 => (0..KEYS, distance()).prop_map(|(key, after)| Step::Set(key, after)),
        1 => (0..KEYS).prop_map(Step::Cancel),
        2 => (8_u32..64, any::<u64>()).prop_map(|(bits, value)| Step::Advance(value >> bits)),
        2 => Just(Step::ToNext),
    ]
}

/// Returns how many timers are armed.
fn armed(wheel: &TimerWheel) -> usize {
    wheel.armed_at.iter().filter(|at| at.is_armed()).count()
}

/// Checks that each slot is a heap, and that positions and bits agree with the slots.
fn assert_sound(wheel: &TimerWheel) {
    for (slot, heap) in wheel.slots.iter().enumerate() {
        let occupied = wheel.occupied[slot / SLOTS] & (1 << (slot % SLOTS)) != 0;
        assert_eq!(occupied, !heap.is_empty());
        for (position, armed) in heap.iter().enumerate() {
            assert!(heap[position.saturating_sub(1) / 2] <= *armed, "{heap:?}");
            assert_eq!(wheel.armed_at[armed.1], super::ArmedAt::new(slot, position));
        }
    }
}

proptest! {
    #[test]
    fn the_wheel_behaves_as_a_sorted_map(start in distance(), steps in prop::collection::vec(step(), 0..200)) {
        let (mut wheel, mut model) = (TimerWheel::new(), Model::default());
        let mut now = Instant::from_nanos(start);
        for step in steps {
            match step {
                Step::Set(key, _) | Step::SetLate(key, _) => {
                    let deadline = match step {
                        Step::Set(_, after) => now + Duration::from_nanos(after),
                        Step::SetLate(_, before) => now - Duration::from_nanos(before),
                        _ => now,
                    };
                    wheel.set(key, deadline);
                    model.set(key, deadline);
                }
                Step::Cancel(key) => {
                    wheel.cancel(key);
                    model.cancel(key);
                }
                Step::Advance(by) => now += Duration::from_nanos(by),
                Step::ToNext => now = wheel.next().map_or(now, |next| next.max(now)),
            }
            if matches!(step, Step::Advance(_) | Step::ToNext) {
                let mut due = Vec::new();
                wheel.expire(now, &mut due);
                prop_assert_eq!(due, model.expire(now));
            }
            prop_assert_eq!(wheel.next(), model.by_time.first().map(|first| first.0));
            prop_assert_eq!(armed(&wheel), model.by_key.len());
            assert_sound(&wheel);
            for key in 0..KEYS {
                prop_assert_eq!(wheel.deadline(key), model.by_key.get(&key).copied());
            }
        }
    }
}

fn due(wheel: &mut TimerWheel, now: Instant) -> Vec<usize> {
    let mut due = Vec::new();
    wheel.expire(now, &mut due);
    due
}

#[test]
fn a_timer_is_never_early_not_even_by_a_nanosecond() {
    let mut wheel = TimerWheel::new();
    for bits in 0..64 {
        let deadline = Instant::from_nanos(1 << bits);
        wheel.set(bits, deadline);
        assert_eq!(
            due(&mut wheel, deadline - Duration::from_nanos(1)),
            [] as [usize; 0],
            "{bits}"
        );
        assert_eq!(wheel.next(), Some(deadline));
        assert_eq!(due(&mut wheel, deadline), [bits]);
    }
    assert_eq!(wheel.next(), None);
}

#[test]
fn ties_come_in_the_order_of_keys() {
    let mut wheel = TimerWheel::new();
    let deadline = Instant::from_nanos(5_000_000);
    for key in [7, 3, 9, 1, 8] {
        wheel.set(key, deadline);
    }
    wheel.set(0, deadline + Duration::from_nanos(1));
    assert_eq!(due(&mut wheel, Instant::MAX), [1, 3, 7, 8, 9, 0]);
}

#[test]
fn cancelling_in_one_half_of_a_heap_keeps_the_other_in_order() {
    let mut wheel = TimerWheel::new();
    for (key, after) in [1, 10, 2, 11, 12, 3, 4].into_iter().enumerate() {
        wheel.set(key, Instant::from_nanos((1 << 36) + after));
    }
    // The 4 takes the place of the 11, below the 10.
    wheel.cancel(3);
    assert_sound(&wheel);
    assert_eq!(due(&mut wheel, Instant::MAX), [0, 2, 5, 6, 1, 4]);
}

#[test]
fn the_end_of_time_is_a_deadline() {
    let mut wheel = TimerWheel::new();
    wheel.set(0, Instant::MAX);
    assert_eq!(
        due(&mut wheel, Instant::MAX - Duration::from_nanos(1)),
        [] as [usize; 0]
    );
    assert_eq!(wheel.next(), Some(Instant::MAX));
    assert_eq!(due(&mut wheel, Instant::MAX), [0]);
}

#[test]
fn f16_time_that_seems_to_run_backwards_loses_no_timer() {
    let mut wheel = TimerWheel::new();
    assert!(due(&mut wheel, Instant::from_nanos(1 << 40)).is_empty());
    wheel.set(1, Instant::from_nanos(1 << 30));
    wheel.set(0, Instant::from_nanos(1 << 20));
    assert!(due(&mut wheel, Instant::from_nanos(1 << 10)).is_empty());
    assert_eq!(due(&mut wheel, Instant::from_nanos(1 << 20)), [0]);
    assert_eq!(wheel.next(), Some(Instant::from_nanos(1 << 30)));
    assert_eq!(due(&mut wheel, Instant::from_nanos(1 << 40)), [1]);
}

#[test]
fn ten_thousand_timers_rearmed_in_turn_come_out_in_order() {
    let mut wheel = TimerWheel::new();
    let mut now = Instant::ZERO;
    for round in 0..3_u64 {
        for key in 0..10_000_usize {
            now += Duration::from_micros(3);
            wheel.set(key, now + Duration::from_secs(10));
            assert_eq!(
                wheel.next(),
                wheel.deadline(if round == 0 { 0 } else { (key + 1) % 10_000 })
            );
            assert!(due(&mut wheel, now).is_empty());
        }
    }
    assert_eq!(armed(&wheel), 10_000);
    let expected: Vec<usize> = (0..10_000).collect();
    assert_eq!(due(&mut wheel, now + Duration::from_secs(10)), expected);
}

#[test]
fn a_slot_that_came_near_keeps_its_memory() {
    let mut wheel = TimerWheel::new();
    let memory = |wheel: &TimerWheel| wheel.slots.iter().filter(|s| s.capacity() > 0).count();
    let tick = 1_u64 << TICK_BITS;
    wheel.set(0, Instant::from_nanos(tick * SLOTS as u64 + 5 * tick));
    assert_eq!(memory(&wheel), 1);
    assert!(due(&mut wheel, Instant::from_nanos(tick * SLOTS as u64)).is_empty());
    assert_eq!(
        memory(&wheel),
        2,
        "moved to a finer slot, the coarse one kept for its next lap"
    );
    assert_eq!(due(&mut wheel, Instant::MAX), [0]);
}
