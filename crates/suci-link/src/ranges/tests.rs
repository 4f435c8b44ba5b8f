use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn set(ranges: &[Range<u64>]) -> RangeSet {
    ranges.iter().cloned().collect()
}

fn spans(set: &RangeSet) -> Vec<(u64, u64)> {
    set.iter().map(|span| (span.start, span.end)).collect()
}

/// Checks the invariants of a set: sorted, disjoint, not adjacent, correct sum.
fn check_invariants(set: &RangeSet) {
    let spans = spans(set);
    assert!(spans.iter().all(|(start, end)| start < end), "{spans:?}");
    assert!(spans.windows(2).all(|two| two[0].1 < two[1].0), "{spans:?}");
    assert_eq!(
        set.len(),
        spans.iter().map(|(start, end)| end - start).sum::<u64>()
    );
    assert_eq!(set.is_empty(), spans.is_empty());
    assert_eq!(set.span_count(), spans.len());
    assert_eq!(set.first(), spans.first().map(|&(start, end)| start..end));
    assert_eq!(set.last(), spans.last().map(|&(start, end)| start..end));
}

#[test]
fn empty_set_has_nothing() {
    let mut set = RangeSet::new();
    assert!(set.is_empty());
    assert_eq!((set.len(), set.span_count()), (0, 0));
    assert_eq!((set.first(), set.last()), (None, None));
    assert_eq!(set.pop_front(10), None);
    assert!(!set.contains(0));
    assert!(!set.intersects(0..u64::MAX));
    assert!(set.covers(5..5));
    assert!(!set.covers(5..6));
}

#[test]
#[expect(clippy::reversed_empty_ranges, reason = "they must do no harm")]
fn empty_and_reversed_ranges_change_nothing() {
    let mut set = set(&[10..15, 15..20]);
    assert_eq!((set.insert(15..15), set.insert(30..5)), (0, 0));
    assert_eq!((set.remove(15..15), set.remove(30..5)), (0, 0));
    assert!(!set.intersects(12..12));
    assert!(!set.intersects(18..12));
    assert_eq!(spans(&set), [(10, 20)]);
}

#[test]
fn insert_merges_what_overlaps_or_touches() {
    let mut set = set(&[10..20, 30..40, 50..60]);
    assert_eq!(set.insert(0..5), 5);
    assert_eq!(set.insert(5..10), 5, "touches both neighbours");
    assert_eq!(spans(&set), [(0, 20), (30, 40), (50, 60)]);
    assert_eq!(set.insert(12..18), 0, "already there");
    assert_eq!(set.insert(15..55), 20, "swallows one, joins two");
    assert_eq!(spans(&set), [(0, 60)]);
    assert_eq!(set.insert(60..61), 1);
    assert_eq!(set.insert(62..63), 1, "one apart stays apart");
    assert_eq!(spans(&set), [(0, 61), (62, 63)]);
    check_invariants(&set);
}

#[test]
fn remove_splits_trims_and_swallows() {
    let mut set = set(&[0..10, 20..30, 40..50]);
    assert_eq!(set.remove(3..6), 3);
    assert_eq!(spans(&set), [(0, 3), (6, 10), (20, 30), (40, 50)]);
    assert_eq!(set.remove(8..45), 2 + 10 + 5);
    assert_eq!(spans(&set), [(0, 3), (6, 8), (45, 50)]);
    assert_eq!(set.remove(3..6), 0, "touching is not overlapping");
    assert_eq!(set.remove(0..3), 3);
    assert_eq!(set.remove(49..100), 1);
    assert_eq!(spans(&set), [(6, 8), (45, 49)]);
    check_invariants(&set);
}

#[test]
fn queries_at_the_borders() {
    let set = set(&[10..20, 30..40]);
    assert_eq!(
        [9, 10, 19, 20].map(|at| set.contains(at)),
        [false, true, true, false]
    );
    assert!(set.covers(10..20) && set.covers(12..13));
    assert!(!set.covers(9..11) && !set.covers(19..21) && !set.covers(15..35));
    assert!(set.intersects(0..11) && set.intersects(19..30) && set.intersects(0..100));
    assert!(!set.intersects(0..10) && !set.intersects(20..30) && !set.intersects(40..50));
}

/// A peer may make as many spans as the owner allows, and then repeat a byte thousands of times.
#[test]
fn f04_overlaps_are_found_among_many_ranges_without_a_scan() {
    let many: Vec<_> = (0..8_192).map(|at| at * 128..at * 128 + 1).collect();
    let set = set(&many);
    for at in [0, 1, 4_000, 8_191] {
        let found = set.overlapping(at * 128..at * 128 + 8);
        assert!(found.size_hint().1.is_some_and(|most| most <= 2));
        assert!(found.eq(std::iter::once(at * 128..at * 128 + 1)));
    }
}

#[test]
fn pop_front_takes_at_most_what_was_asked() {
    let mut set = set(&[10..20, 30..32]);
    assert_eq!(set.pop_front(0), None);
    assert_eq!(set.pop_front(4), Some(10..14));
    assert_eq!(set.len(), 8);
    assert_eq!(set.pop_front(6), Some(14..20));
    assert_eq!(set.pop_front(u64::MAX), Some(30..32));
    assert_eq!(set.pop_front(1), None);
    check_invariants(&set);
}

#[test]
fn clear_forgets_everything() {
    let mut set = set(&[10..20, 30..32]);
    set.clear();
    assert_eq!(set, RangeSet::new());
    check_invariants(&set);
}

#[test]
fn f15_offsets_up_to_the_end_of_u64() {
    let mut set = RangeSet::new();
    assert_eq!(set.insert(u64::MAX - 10..u64::MAX), 10);
    assert_eq!(set.insert(0..5), 5);
    assert!(set.contains(u64::MAX - 1) && !set.contains(u64::MAX));
    assert_eq!(set.insert(0..u64::MAX), u64::MAX - 15);
    assert_eq!((set.len(), set.span_count()), (u64::MAX, 1));
    assert_eq!(set.remove(7..u64::MAX - 1), u64::MAX - 8);
    assert_eq!(spans(&set), [(0, 7), (u64::MAX - 1, u64::MAX)]);
    assert_eq!(set.pop_front(7), Some(0..7));
    assert_eq!(set.pop_front(u64::MAX), Some(u64::MAX - 1..u64::MAX));
    assert!(set.is_empty());
}

#[derive(Clone, Debug)]
enum Op {
    Insert(Range<u64>),
    Remove(Range<u64>),
    Pop(u64),
}

fn range() -> impl Strategy<Value = Range<u64>> {
    (0_u64..120, 0_u64..24).prop_map(|(start, len)| start..start + len)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => range().prop_map(Op::Insert),
        2 => range().prop_map(Op::Remove),
        1 => (0_u64..30).prop_map(Op::Pop),
    ]
}

proptest! {
    /// Every operation and query agrees with a set of single offsets.
    #[test]
    fn behaves_like_a_set_of_offsets(
        ops in prop::collection::vec(op(), 1..60),
        queries in prop::collection::vec(range(), 8),
    ) {
        let mut set = RangeSet::new();
        let mut model = BTreeSet::new();
        for op in ops {
            match op {
                Op::Insert(range) => {
                    let added = range.clone().filter(|&at| model.insert(at)).count();
                    prop_assert_eq!(set.insert(range), added as u64);
                }
                Op::Remove(range) => {
                    let removed = range.clone().filter(|at| model.remove(at)).count();
                    prop_assert_eq!(set.remove(range), removed as u64);
                }
                Op::Pop(max) => {
                    let first = model.first().copied().filter(|_| max > 0);
                    let popped = first.map(|first| {
                        let len = (0..max).take_while(|i| model.contains(&(first + i))).count();
                        first..first + len as u64
                    });
                    for at in popped.clone().into_iter().flatten() {
                        model.remove(&at);
                    }
                    prop_assert_eq!(set.pop_front(max), popped);
                }
            }
            check_invariants(&set);
            prop_assert_eq!(set.iter().flatten().collect::<BTreeSet<_>>(), model.clone());
        }
        for query in queries {
            prop_assert_eq!(set.contains(query.start), model.contains(&query.start));
            prop_assert_eq!(set.covers(query.clone()), query.clone().all(|at| model.contains(&at)));
            prop_assert_eq!(
                set.intersects(query.clone()),
                query.clone().any(|at| model.contains(&at))
            );
            let overlaps = |span: &Range<u64>| span.clone().any(|at| query.contains(&at));
            prop_assert_eq!(
                set.overlapping(query.clone()).collect::<Vec<_>>(),
                set.iter().filter(overlaps).collect::<Vec<_>>()
            );
        }
    }
}
