//! Turns of a driver beside an engine without peers.

use super::failure::MemberFailure;
use super::places::GroupPlaces;
use super::state::{Carrier, Finished, GroupState, GroupWork, Host, Purpose};
use super::turn::ServedGroups;
use crate::agreement::{Absence, Knowledge};
use crate::collective::Collective;
use std::sync::Arc;
use suci_proto::message::IncomingInfo;
use suci_proto::time::Instant;
use suci_proto::types::{Incarnation, Kind, NodeId, SessionNumber, Source};
use suci_proto::{Config, Engine, Identity, Outgoing, Place, Placement};

#[derive(Debug)]
struct Alone;

impl Host for Alone {
    type Error = ();

    fn settled(&self) {}
}

/// Keeps the messages that are offered.
struct Kept {
    engine: Engine,
    offered: Vec<(NodeId, Outgoing)>,
    is_full: bool,
    /// The only node that it serves, if it does not serve all.
    only: Option<NodeId>,
}

fn carrier() -> Kept {
    let identity = Identity {
        node: NodeId(1),
        incarnation: Incarnation(7),
    };
    let engine = Engine::new(Config::default(), identity, [1; 32], 1 << 20, Instant::ZERO);
    Kept {
        engine: engine.unwrap(),
        offered: Vec::new(),
        is_full: false,
        only: None,
    }
}

/// A group of three, as member 1 has it.
fn group() -> GroupState<Alone> {
    let members = vec![NodeId(0), NodeId(1), NodeId(2)];
    let sessions = vec![SessionNumber::default(); 3];
    GroupState::new(4, members, sessions, (1, NodeId(1)), Alone)
}

impl Carrier<Alone> for Kept {
    fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    fn now(&self) -> Instant {
        Instant::ZERO
    }

    fn serves(&self, node: NodeId) -> bool {
        self.only.is_none_or(|only| only == node)
    }

    fn offer(&mut self, to: NodeId, message: Outgoing) -> Result<bool, ()> {
        if !self.is_full {
            self.offered.push((to, message));
        }
        Ok(!self.is_full)
    }
}

/// Returns what member 1 of three tells the others once its barrier failed, as `fail` says.
fn told(fail: impl Fn(&GroupState<Alone>)) -> Vec<Vec<u8>> {
    let mut carrier = carrier();
    let group = Arc::new(group());
    let work = GroupWork::Collective(Collective::barrier(group.place()));
    group.begin(NodeId(1), work).unwrap();
    fail(&group);
    let mut served = ServedGroups::default();
    served.add(group);
    served.progress(&mut carrier);
    let reports = Purpose::Failures.channel(4);
    let mut offered = carrier.offered;
    offered.retain(|(_, message)| message.channel == reports);
    let payloads = offered.iter().map(|(_, message)| message.payload.to_vec());
    payloads.collect()
}

/// It may come back, and would wait for a member that goes on without it.
#[test]
fn a_silent_member_hears_that_it_is_out_once_its_queue_has_room() {
    let mut carrier = carrier();
    carrier.is_full = true;
    let group = Arc::new(group());
    group.let_parts_go_on(true);
    let mut work = group.agreement(0, 0).unwrap();
    work.on_failed(0, Absence::Silent);
    work.on_failed(2, Absence::Silent);
    group.begin(NodeId(1), GroupWork::Agreement(work)).unwrap();
    let mut served = ServedGroups::default();
    served.add(Arc::clone(&group));
    served.progress(&mut carrier);
    assert!(matches!(group.take_result(), Some(Ok(Finished::Agreed(_)))));
    group.release();
    drop(group.without(&Knowledge::default(), 9, Alone));
    served.progress(&mut carrier);
    assert!(!served.is_empty());
    carrier.is_full = false;
    served.progress(&mut carrier);
    let to_each = |node: u32| {
        carrier
            .offered
            .iter()
            .filter(|(to, _)| to.0 == node)
            .count()
    };
    assert!(
        to_each(0) >= 2 && to_each(2) >= 2,
        "that it is out, and the decision"
    );
    assert!(served.is_empty());
}

/// Others would look for the reason at a member that did nothing wrong.
#[test]
fn a_member_whose_failure_another_reported_does_not_say_that_it_gave_up() {
    let gave_up = told(|group| group.give_up(()));
    let failure = MemberFailure::Reported(NodeId(0));
    let was_reported = told(|group| group.lock().reported = Some((1, NodeId(1), failure)));
    assert_eq!((gave_up.len(), was_reported.len()), (2, 2));
    assert!(gave_up.iter().all(|report| report.len() == 9));
    assert!(was_reported.iter().all(|report| report.len() == 8));
}

/// The bytes of a message go to the data of an operation only if its sender makes the same call.
#[test]
fn only_messages_of_the_same_call_have_a_place() {
    let group = Arc::new(group());
    let places = Arc::<GroupPlaces<Alone>>::default();
    let mut served = ServedGroups::new(Arc::clone(&places));
    served.add(Arc::clone(&group));
    let work = Collective::broadcast(group.place(), 0, vec![0; 9_000]);
    let (arguments, kind) = (work.arguments().to_bytes(), work.kind() as u64);
    let from = |node| Source {
        node: NodeId(node),
        session: SessionNumber::default(),
    };
    let message = IncomingInfo {
        channel: Purpose::Data.channel(4),
        number: 0,
        total: 9_000,
        tag: 1 << 8 | kind,
        kind: Kind::USER,
        user_header: arguments.to_vec().into(),
    };
    let is_placed = |from, message: &_| matches!(places.place(from, message), Place::Named(_));
    assert!(!is_placed(from(0), &message), "nothing was begun");
    group.begin(NodeId(1), GroupWork::Collective(work)).unwrap();
    let mut others = vec![message.clone(); 4];
    others[0].channel = Purpose::Data.channel(5);
    others[1].tag += 1 << 8;
    others[2].user_header = vec![0; 16].into();
    others[3].total -= 1;
    for other in others {
        assert!(!is_placed(from(0), &other), "{other:?}");
    }
    let later = Source {
        session: SessionNumber(9),
        ..from(0)
    };
    assert!(!is_placed(later, &message) && !is_placed(from(2), &message));
    assert!(is_placed(from(0), &message));
    assert!(!is_placed(from(0), &message), "it awaits one");
    group.give_up(());
    served.progress(&mut carrier());
    assert!(!is_placed(from(0), &message));
    assert_eq!(Arc::strong_count(&group), 1, "nobody keeps it");
}

/// A member that stays watched is asked for signs of life for ever.
#[test]
fn a_driver_that_runs_late_watches_members_of_an_earlier_operation_no_more() {
    let mut early = carrier();
    early.only = Some(NodeId(0));
    let mut late = carrier();
    late.only = Some(NodeId(2));
    let group = Arc::new(group());
    let [mut of_early, mut of_late] = [(); 2].map(|()| ServedGroups::default());
    let gather = || Collective::gather(group.place(), 1, &[1; 3], vec![0]);
    let begin = || group.begin(NodeId(1), GroupWork::Collective(gather()));
    let watched = || {
        let state = group.lock();
        let current = state.current.as_ref().unwrap();
        (Vec::from_iter(current.watched.clone()), current.asked_at)
    };
    let end = || {
        let mut state = group.lock();
        let current = state.current.as_mut().unwrap();
        current.end(Ok(Finished::Data(Vec::new())));
        current.is_released = true;
    };
    begin().unwrap();
    assert!(group.watch());
    for (served, carrier) in [(&mut of_early, &mut early), (&mut of_late, &mut late)] {
        served.add(Arc::clone(&group));
        served.progress(carrier);
    }
    assert_eq!(watched().0, [0, 2]);
    // Its last message came at the one driver, and the other one runs after the next one began.
    end();
    of_early.progress(&mut early);
    begin().unwrap();
    assert_eq!(watched().0, [2]);
    late.offered.clear();
    of_late.progress(&mut late);
    assert_eq!(watched(), (Vec::new(), None));
    assert!(late.offered.is_empty(), "nobody is asked");
    // Or after the next one is watched, too: then the member still is.
    assert!(group.watch());
    of_late.progress(&mut late);
    end();
    begin().unwrap();
    assert!(group.watch());
    of_late.progress(&mut late);
    assert_eq!(watched().0, [2]);
    end();
    of_late.progress(&mut late);
    assert_eq!(watched().0, []);
}

/// One that suspended this node and died would never be missed: nothing is in its queue.
#[test]
fn a_member_that_takes_nothing_is_watched_until_it_does() {
    let mut carrier = carrier();
    carrier.is_full = true;
    let group = Arc::new(group());
    let work = Collective::gather(group.place(), 0, &[1; 3], vec![0]);
    group.begin(NodeId(1), GroupWork::Collective(work)).unwrap();
    assert!(group.watch());
    let mut served = ServedGroups::default();
    served.add(Arc::clone(&group));
    served.progress(&mut carrier);
    let watched = || {
        let state = group.lock();
        state.current.as_ref().unwrap().watched.clone()
    };
    assert_eq!(watched().into_iter().collect::<Vec<_>>(), [0]);
    carrier.is_full = false;
    served.progress(&mut carrier);
    assert!(watched().is_empty());
    assert!(matches!(group.take_result(), Some(Ok(_))));
}
