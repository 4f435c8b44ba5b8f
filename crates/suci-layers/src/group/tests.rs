//! Turns of a driver beside an engine without peers.

use super::failure::MemberFailure;
use super::state::{Carrier, GroupState, GroupWork, Host, Purpose};
use super::turn::ServedGroups;
use crate::collective::Collective;
use std::sync::Arc;
use suci_proto::time::Instant;
use suci_proto::types::{Incarnation, NodeId, SessionNumber};
use suci_proto::{Config, Engine, Identity, Outgoing};

#[derive(Debug)]
struct Alone;

impl Host for Alone {
    type Error = ();

    fn settled(&self) {}
}

/// Keeps the messages that are offered.
struct Kept {
    engine: Engine,
    offered: Vec<Outgoing>,
}

impl Carrier<Alone> for Kept {
    fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    fn now(&self) -> Instant {
        Instant::ZERO
    }

    fn serves(&self, _: NodeId) -> bool {
        true
    }

    fn offer(&mut self, _: NodeId, message: Outgoing) -> Result<bool, ()> {
        self.offered.push(message);
        Ok(true)
    }
}

/// Returns what member 1 of three tells the others once its barrier failed, as `fail` says.
fn told(fail: impl Fn(&GroupState<Alone>)) -> Vec<Vec<u8>> {
    let identity = Identity {
        node: NodeId(1),
        incarnation: Incarnation(7),
    };
    let engine = Engine::new(Config::default(), identity, [1; 32], 1 << 20, Instant::ZERO);
    let mut carrier = Kept {
        engine: engine.unwrap(),
        offered: Vec::new(),
    };
    let members = vec![NodeId(0), NodeId(1), NodeId(2)];
    let sessions = vec![SessionNumber::default(); 3];
    let group = Arc::new(GroupState::new(4, members, sessions, (1, NodeId(1)), Alone));
    let work = GroupWork::Collective(Collective::barrier(group.place()));
    group.begin(NodeId(1), work).unwrap();
    fail(&group);
    let mut served = ServedGroups::default();
    served.add(group);
    served.progress(&mut carrier);
    let reports = Purpose::Failures.channel(4);
    let mut offered = carrier.offered;
    offered.retain(|message| message.channel == reports);
    let payloads = offered.iter().map(|message| message.payload.to_vec());
    payloads.collect()
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
