use super::*;
use proptest::prelude::*;

fn priority(class: u8, weight: u8) -> Priority {
    Priority::new(class, weight).unwrap()
}

fn filled(flows: &[(u8, u8)]) -> Scheduler {
    let mut scheduler = Scheduler::default();
    for (flow, &(class, weight)) in flows.iter().enumerate() {
        scheduler.set_priority(flow, priority(class, weight));
        scheduler.add(flow);
    }
    scheduler
}

/// The peers in the order of service if all always have more, `unit` bytes at a time.
fn serve(scheduler: &mut Scheduler, unit: usize, times: usize) -> Vec<usize> {
    let one = |_| {
        let flow = scheduler.front().unwrap();
        scheduler.charge(unit);
        flow
    };
    (0..times).map(one).collect()
}

#[test]
fn a_lower_class_gets_nothing_while_a_higher_one_has_something() {
    let mut scheduler = filled(&[(0, 255), (7, 1), (3, 16)]);
    assert_eq!(serve(&mut scheduler, 60_000, 100), vec![1; 100]);
    scheduler.drop_front();
    assert_eq!(serve(&mut scheduler, 60_000, 100), vec![2; 100]);
    scheduler.drop_front();
    assert_eq!(serve(&mut scheduler, 60_000, 100), vec![0; 100]);
    scheduler.add(2);
    assert_eq!(scheduler.front(), Some(2), "at once");
    scheduler.drop_front();
    scheduler.drop_front();
    assert_eq!((scheduler.front(), scheduler.is_empty()), (None, true));
}

#[test]
fn bytes_are_divided_by_weight_whatever_a_unit_is() {
    for unit in [1_400, 65_507] {
        let mut scheduler = filled(&[(3, 16), (3, 48), (3, 1)]);
        let served = serve(&mut scheduler, unit, 65_000);
        let count = |flow| served.iter().filter(|p| **p == flow).count() as f64;
        assert!((count(1) / count(0) - 3.0).abs() < 0.1, "{unit}");
        assert!((count(0) / count(2) - 16.0).abs() < 1.0, "{unit}");
    }
}

#[test]
fn a_debt_outlasts_leaving_and_coming_back() {
    let mut scheduler = filled(&[(3, 1), (3, 1)]);
    let mut sent = [0, 0];
    for _ in 0..1_000 {
        let flow = scheduler.front().unwrap();
        let bytes = if flow == 0 { 60_000 } else { 1_000 };
        sent[flow] += bytes;
        scheduler.charge(bytes);
        if flow == 0 {
            // The flow leaves and comes back.
            scheduler.set_priority(0, priority(3, 1));
        }
    }
    let ratio = sent[0] as f64 / sent[1] as f64;
    assert!(ratio < 1.2, "{sent:?}");
}

#[test]
fn a_change_of_class_counts_at_once() {
    let mut scheduler = filled(&[(3, 16), (3, 16)]);
    scheduler.set_priority(1, priority(4, 16));
    assert_eq!(serve(&mut scheduler, 1_000, 3), [1, 1, 1]);
    scheduler.set_priority(1, priority(2, 16));
    assert_eq!(serve(&mut scheduler, 1_000, 3), [0, 0, 0]);
    scheduler.forget(0);
    assert_eq!(scheduler.front(), Some(1));
    assert_eq!(scheduler.priority(0), Priority::DEFAULT);
}

/// A loop over a forgotten flow ends, and the other flows have their turns.
#[cfg(suci_plant)]
#[test]
fn a_place_that_was_planted_as_forgotten_delays_no_other() {
    for forgotten in 0..2 {
        let mut scheduler = filled(&[(3, 16), (3, 16), (3, 16)]);
        if forgotten == 1 {
            scheduler.pass();
        }
        scheduler.plant_forgotten();
        scheduler.add(forgotten);
        scheduler.set_priority(forgotten, priority(4, 16));
        scheduler.add(forgotten);
        let mut served = serve(&mut scheduler, 65_536, 4);
        served.sort_unstable();
        let others: Vec<usize> = (0..3).filter(|flow| *flow != forgotten).collect();
        assert_eq!(served, [others[0], others[0], others[1], others[1]]);
    }
}

/// Flows in the order of their turns, with a queue for each class: the model of the rings.
#[derive(Default)]
struct Queues([std::collections::VecDeque<usize>; CLASSES]);

impl Queues {
    fn remove(&mut self, flow: usize) -> bool {
        let before: usize = self.0.iter().map(|q| q.len()).sum();
        self.0.iter_mut().for_each(|q| q.retain(|p| *p != flow));
        before > self.0.iter().map(|q| q.len()).sum()
    }

    fn first(&mut self) -> Option<&mut std::collections::VecDeque<usize>> {
        self.0.iter_mut().rev().find(|q| !q.is_empty())
    }
}

proptest! {
    /// After any sequence of additions, removals, changes of class and turns, the rings have the
    /// order of queues.
    #[test]
    fn rings_are_queues(steps in prop::collection::vec((0_u8..6, 0_usize..6, 0_u8..3), 0..300)) {
        let (mut scheduler, mut queues, mut classes) = (Scheduler::default(), Queues::default(), [3; 6]);
        for (what, flow, class) in steps {
            match what {
                0 | 1 => {
                    scheduler.add(flow);
                    if !queues.0.iter().any(|q| q.contains(&flow)) {
                        queues.0[classes[flow]].push_back(flow);
                    }
                }
                2 => {
                    scheduler.set_priority(flow, priority(class, 16));
                    classes[flow] = class.into();
                    if queues.remove(flow) {
                        queues.0[classes[flow]].push_back(flow);
                    }
                }
                3 => {
                    scheduler.drop_front();
                    queues.first().and_then(|q| q.pop_front());
                }
                4 => {
                    scheduler.pass();
                    queues.first().into_iter().for_each(|q| q.rotate_left(1));
                }
                _ => {
                    scheduler.forget(flow);
                    queues.remove(flow);
                    classes[flow] = 3;
                }
            }
            let listed = |flow| queues.0.iter().any(|q| q.contains(&flow));
            prop_assert!((0..6).all(|flow| scheduler.is_listed(flow) == listed(flow)));
            let all: Vec<usize> = queues.0.iter().flatten().copied().collect();
            prop_assert_eq!(scheduler.only(), all.first().copied().filter(|_| all.len() == 1));
            let first = queues.first().map(|q| (q[0], q.len() == 1));
            prop_assert_eq!(scheduler.front(), first.map(|(flow, _)| flow));
            prop_assert_eq!(scheduler.is_front_alone(), first.is_some_and(|(_, alone)| alone));
        }
    }

    /// After any additions and removals, the served flow is listed and of the highest class that
    /// has one, and within a class no flow waits while others send more than a round.
    #[test]
    fn no_place_starves_within_a_class(
        flows in prop::collection::vec((0_u8..3, 1_u8..=255), 1..8),
        steps in prop::collection::vec((0_usize..8, 0_u8..4, 1_usize..65_507), 1..600),
    ) {
        let mut scheduler = filled(&flows);
        let mut has: Vec<bool> = vec![true; flows.len()];
        // Bytes that the others of its class sent while each flow waited.
        let mut waited = vec![0_u64; flows.len()];
        let round = |class: u8| -> u64 {
            flows.iter().filter(|(c, _)| *c == class)
                .map(|(_, weight)| u64::from(*weight) * 4_096 + 65_507).sum()
        };
        for (other, what, bytes) in steps {
            let other = other % flows.len();
            scheduler.add(other);
            has[other] = true;
            let flow = scheduler.front().unwrap();
            let class = flows[flow].0;
            prop_assert!(has[flow]);
            prop_assert!((0..flows.len()).all(|p| !has[p] || flows[p].0 <= class));
            if what == 0 {
                scheduler.drop_front();
                has[flow] = false;
            } else {
                scheduler.charge(bytes);
                for p in (0..flows.len()).filter(|p| has[*p] && flows[*p].0 == class) {
                    waited[p] += bytes as u64;
                }
            }
            waited[flow] = 0;
            for p in (0..flows.len()).filter(|p| has[*p]) {
                let debt_rounds = 65_507 / (u64::from(flows[p].1) * 4_096) + 2;
                prop_assert!(waited[p] <= round(flows[p].0) * debt_rounds, "{waited:?}");
            }
        }
    }
}
