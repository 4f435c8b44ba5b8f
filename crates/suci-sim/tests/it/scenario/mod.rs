//! Helpers that the scenario tests share.

use std::cell::RefCell;
use std::rc::Rc;

use suci_proto::time::{Duration, Instant};
use suci_proto::{EndReason, Event, Outcome};
use suci_sim::options::{Options, Traffic};
use suci_sim::oracle::Spec;
use suci_sim::packet::Packet;
use suci_sim::workload::Sent;
use suci_sim::world::World;

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A message to a node on a channel, tagged, with notice of its delivery.
pub(crate) fn spec(to: u32, channel: u32, length: u64) -> Spec {
    Spec {
        to,
        channel,
        length,
        header: 0,
        kind: 128,
        tagged: true,
        notify: true,
        twin: false,
        deadline: None,
        cancel: None,
    }
}

/// If it is set, the tests of faults seal packets (`sealed.rs`).
pub(crate) const SEALED: &str = "SUCI_TEST_SEALED";

/// The options of a calm network, for tests of faults, which run in both modes.
pub(crate) fn calm(nodes: usize) -> Options {
    Options {
        sealed: std::env::var_os(SEALED).is_some(),
        ..Options::quiet(nodes)
    }
}

/// A world in which processes run but nothing was said yet.
pub(crate) fn world(options: Options) -> World {
    let mut world = World::new(options, std::env::var_os("SUCI_SIM_TRACE").is_some());
    ok(world.run_for(MS));
    world
}

/// Programs that all talk to all, `messages` for each pair.
pub(crate) fn chatty(messages: u32) -> Traffic {
    Traffic {
        messages,
        fan_out: usize::MAX,
        channels: 4,
        burst: 10,
        gap: Duration::from_millis(20),
        sizes: vec![(80, 0, 300), (20, 1_000, 20_000)],
        ..Traffic::none()
    }
}

pub(crate) fn ok<E: std::fmt::Display>(result: Result<(), E>) {
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// Sends `count` messages, waiting whenever the engine says so.
pub(crate) fn send(world: &mut World, host: usize, count: u32, spec: Spec) {
    for _ in 0..count {
        let mut tries = 0;
        loop {
            match world.send(host, spec) {
                Ok(Some((Sent::Accepted, _))) => break,
                Ok(Some((Sent::Blocked, _))) => ok(world.run_for(MS)),
                Ok(other) => panic!("not sent: {other:?}"),
                Err(error) => panic!("{error}"),
            }
            tries += 1;
            assert!(tries < 100_000, "blocked for ever");
        }
    }
}

/// Runs until everything that was accepted has arrived, at most that long.
pub(crate) fn arrive(world: &mut World, within: Duration) {
    let end = world.now + within;
    while !world.oracle.is_settled() {
        assert!(world.now < end, "not everything arrived within {within:?}");
        ok(world.run_for(MS * 10));
    }
}

/// Runs until programs received `count` messages in all.
pub(crate) fn receive(world: &mut World, count: u64, within: Duration) {
    let end = world.now + within;
    while world.oracle.delivered() < count {
        let so_far = world.oracle.delivered();
        assert!(
            world.now < end,
            "{so_far} of {count} messages within {within:?}"
        );
        ok(world.run_for(MS * 10));
    }
    ok(world.run_for(MS * 100));
    assert_eq!(world.oracle.delivered(), count);
}

/// How the sessions of a host ended.
pub(crate) fn ended(world: &World, host: usize) -> Vec<EndReason> {
    let events = world.events(host);
    events
        .iter()
        .filter_map(|(_, event)| match event {
            Event::Ended { reason, .. } => Some(*reason),
            _ => None,
        })
        .collect()
}

/// All outcomes that a host was told at the end of sessions.
pub(crate) fn outcomes(world: &World, host: usize) -> Vec<Outcome> {
    let events = world.events(host);
    events
        .iter()
        .filter_map(|(_, event)| match event {
            Event::Ended { outcomes, .. } => Some(outcomes),
            _ => None,
        })
        .flatten()
        .map(|outcome| outcome.outcome)
        .collect()
}

/// The times at which a host lost a peer.
pub(crate) fn lost(world: &World, host: usize) -> Vec<Instant> {
    let events = world.events(host);
    events
        .iter()
        .filter(|(_, event)| matches!(event, Event::Lost { .. }))
        .map(|e| e.0)
        .collect()
}

/// Returns how often a peer fell quiet for a host.
pub(crate) fn quiet(world: &World, host: usize) -> usize {
    let events = world.events(host);
    events
        .iter()
        .filter(|(_, event)| matches!(event, Event::Quiet { .. }))
        .count()
}

/// Returns how often a peer was up for a host.
pub(crate) fn up(world: &World, host: usize) -> usize {
    let events = world.events(host);
    events
        .iter()
        .filter(|(_, event)| matches!(event, Event::Up { .. }))
        .count()
}

/// Remembers every packet that is sent from now on.
pub(crate) fn record(world: &mut World) -> Rc<RefCell<Vec<Packet>>> {
    let packets = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&packets);
    world.filter = Some(Box::new(move |_, packet| {
        if !packet.fate.hostile {
            seen.borrow_mut().push(packet.clone());
        }
        false
    }));
    packets
}
