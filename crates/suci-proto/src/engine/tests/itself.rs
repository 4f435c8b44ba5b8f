//! A node that sends to itself: properties that only show from inside the engine.

use super::*;
use suci_channels::scheduler::Priority;

/// Each session is promised a window: a node's session with itself waits until another session
/// returns its window.
#[test]
fn f32_messages_to_itself_wait_for_memory_that_others_hold() {
    let mut world = World::new(1);
    let (now, engine) = (world.now, &mut world.engines[0]);
    let memory = &mut engine.shared.memory;
    let mut promises: Vec<_> = core::iter::from_fn(|| memory.take()).collect();
    engine.send(now, id(0), message(b"in")).unwrap();
    assert!(engine.poll_transmit(now, 64).is_none());
    assert!(!engine.has_message() && !engine.has_output());
    assert_eq!(
        engine.peer_stats(id(0)).unwrap().waiting,
        Some(WaitReason::SessionMemory)
    );
    engine.shared.memory.release(promises.pop().unwrap());
    assert!(engine.has_output());
    assert!(engine.poll_transmit(now, 64).is_none());
    assert_eq!(engine.recv().unwrap().1.payload, b"in");
    engine.audit(now).unwrap();
}

/// An urgent channel gives its peer two turns. The second one must not cancel the cycle in which
/// the program finds what the first one passed on.
#[test]
fn an_urgent_message_to_itself_makes_the_next_cycle_due() {
    let mut world = World::new(1);
    let (now, engine) = (world.now, &mut world.engines[0]);
    let urgent = Outgoing {
        channel: ChannelId(1),
        ..message(b"now")
    };
    let class = Priority::new(7, 1).unwrap();
    engine
        .set_channel_priority(id(0), urgent.channel, class)
        .unwrap();
    engine.send(now, id(0), urgent).unwrap();
    assert!(engine.poll_transmit(now, 64).is_none());
    assert!(engine.has_message());
    assert_eq!(engine.next_timeout(), Some(now));
    engine.begin_cycle(now);
    engine.handle_timeout(now);
    assert_eq!(engine.recv().unwrap().1.payload, b"now");
    assert!(engine.poll_transmit(now, 64).is_none());
    assert_eq!(engine.next_timeout(), None, "nothing else is to do");
}

/// A node that hears nothing from itself for long, since it sends no packets, does not lose itself.
#[test]
fn a_session_with_itself_never_ends_for_silence() {
    let mut world = World::new(1);
    let (now, engine) = (world.now, &mut world.engines[0]);
    engine.send(now, id(0), message(b"unread")).unwrap();
    assert!(engine.poll_transmit(now, 64).is_none());
    // A request for memory fails, so all silent peers are asked for a sign of life.
    let memory = &mut engine.shared.memory;
    let _promises: Vec<_> = core::iter::from_fn(|| memory.take()).collect();
    let now = now + 1_000 * SECOND;
    engine.begin_cycle(now);
    engine.handle_timeout(now);
    assert_eq!(engine.poll_event(), None);
    assert_eq!(engine.recv().unwrap().1.payload, b"unread");
}
