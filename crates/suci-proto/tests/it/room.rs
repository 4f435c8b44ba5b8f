//! Events for the program after its message found no room in the send queue.

use crate::net::{Net, id, message, pair};
use suci_proto::time::Duration;
use suci_proto::types::ChannelId;
use suci_proto::{Event, Outgoing, Priority, SendError};

const SECOND: Duration = Duration::from_secs(1);

fn on(channel: u32, len: usize) -> Outgoing {
    Outgoing {
        channel: ChannelId(channel),
        ..message(&vec![1; len])
    }
}

/// Sends until the queue is full, then asks for room. Returns how many messages it took.
fn fill(net: &mut Net, channel: u32, len: usize) -> usize {
    let now = net.now;
    let mut taken = 0;
    loop {
        match net.engine(0).send(now, id(1), on(channel, len)) {
            Ok(_) => taken += 1,
            Err(SendError::WouldBlock(message)) => {
                assert!(net.engine(0).want_room(id(1), &message).is_some());
                return taken;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn rooms(net: &mut Net) -> Vec<u8> {
    let events = net.events(0).into_iter();
    let rooms = events.filter_map(|event| match event {
        Event::Writable { node, class } if node == id(1) => Some(class),
        _ => None,
    });
    rooms.collect()
}

#[test]
fn room_is_told_once_for_all_that_wait_for_it() {
    let mut net = pair();
    let class = Priority::DEFAULT.class();
    assert_eq!(fill(&mut net, 0, 10_000), 6);
    // Other messages of the same class, on the same channel and on another.
    assert_eq!(fill(&mut net, 0, 9_000) + fill(&mut net, 3, 9_000), 0);
    assert_eq!(rooms(&mut net), [], "not before there is room");
    net.flush(0);
    net.run(SECOND);
    assert_eq!(rooms(&mut net), [class]);
    net.run(10 * SECOND);
    assert_eq!(rooms(&mut net), [], "once");
    // The event comes each time again.
    for _ in 0..3 {
        assert_eq!(fill(&mut net, 0, 10_000), 6);
        net.flush(0);
        net.run(SECOND);
        assert_eq!(rooms(&mut net), [class]);
    }
}

/// Each class has its own queue, and its own event. A message that is refused for another reason
/// waits for no room.
#[test]
fn each_class_is_told_for_itself() {
    let mut net = pair();
    let urgent = Priority::new(6, 16).unwrap();
    net.engine(0)
        .set_channel_priority(id(1), ChannelId(7), urgent)
        .unwrap();
    assert_eq!(fill(&mut net, 0, 10_000), 6);
    assert_eq!(fill(&mut net, 7, 10_000), 6);
    net.flush(0);
    net.run(SECOND);
    let mut told = rooms(&mut net);
    told.sort_unstable();
    assert_eq!(told, [Priority::DEFAULT.class(), 6]);
    assert_eq!(net.engine(0).want_room(id(9), &on(0, 1)), None);
}

/// An event that the program did not take is outdated once the queue is full again. It comes again
/// when there is room again, once for all messages for which the program asked before it takes the
/// event.
#[test]
fn room_that_is_gone_is_not_told() {
    let mut net = pair();
    let class = Priority::DEFAULT.class();
    assert_eq!(fill(&mut net, 0, 10_000), 6);
    // The channel's messages count in another class now.
    let urgent = Priority::new(6, 16).unwrap();
    net.engine(0)
        .set_channel_priority(id(1), ChannelId(0), urgent)
        .unwrap();
    assert!(net.engine(0).has_event(), "there is room");
    let now = net.now;
    for _ in 0..6 {
        net.engine(0).send(now, id(1), on(3, 10_000)).unwrap();
    }
    assert!(!net.engine(0).has_event(), "the queue is full again");
    assert_eq!(net.engine(0).poll_event(), None);
    assert_eq!(fill(&mut net, 3, 20_000), 0, "another that waits");
    net.flush(0);
    net.run(SECOND);
    assert_eq!(rooms(&mut net), [class], "once for both");
    net.run(SECOND);
    assert_eq!(rooms(&mut net), []);
}

/// An untaken event for a message that waits for room stays when the program asks for another
/// message.
#[test]
fn room_for_the_smallest_stays_told_when_another_asks() {
    let mut net = pair();
    assert_eq!(fill(&mut net, 0, 10_000), 6);
    let urgent = Priority::new(6, 16).unwrap();
    net.engine(0)
        .set_channel_priority(id(1), ChannelId(0), urgent)
        .unwrap();
    let now = net.now;
    net.engine(0).send(now, id(1), on(3, 10_000)).unwrap();
    net.engine(0).want_room(id(1), &on(3, 60_000));
    let room = Event::Writable {
        node: id(1),
        class: Priority::DEFAULT.class(),
    };
    assert_eq!(net.engine(0).poll_event(), Some(room));
    assert_eq!(net.engine(0).poll_event(), None);
}

/// The smallest message decides: there may be room for it long before there is for others.
#[test]
fn room_for_the_smallest_is_told() {
    let mut net = pair();
    assert_eq!(fill(&mut net, 0, 20_000), 3);
    let now = net.now;
    let small = net.engine(0).send(now, id(1), on(0, 100));
    assert!(small.is_ok(), "there was room for that");
    let (wide, narrow) = (on(0, 60_000), on(0, 10_000));
    for message in [&wide, &narrow, &wide] {
        let refused = net.engine(0).send(now, id(1), message.clone());
        assert!(matches!(refused, Err(SendError::WouldBlock(_))));
        net.engine(0).want_room(id(1), message);
    }
    net.flush(0);
    while rooms(&mut net).is_empty() {
        net.run(Duration::from_micros(10));
    }
    let now = net.now;
    assert!(net.engine(0).send(now, id(1), narrow).is_ok());
}

/// There is room at once if a channel with all queued messages moves to another class, and if the
/// program asks late.
#[test]
fn room_that_is_there_is_told_at_once() {
    let mut net = pair();
    let class = Priority::DEFAULT.class();
    assert_eq!(fill(&mut net, 0, 10_000), 6);
    let urgent = Priority::new(6, 16).unwrap();
    net.engine(0)
        .set_channel_priority(id(1), ChannelId(0), urgent)
        .unwrap();
    net.flush(0);
    assert_eq!(rooms(&mut net), [class]);
    net.run(SECOND);
    net.engine(0).want_room(id(1), &on(0, 10_000));
    net.flush(0);
    assert_eq!(rooms(&mut net), [6]);
}

/// The end of a session makes room: the program gets both events, in this order.
#[test]
fn the_end_of_a_session_makes_room() {
    let mut net = pair();
    assert_eq!(fill(&mut net, 0, 10_000), 6);
    let now = net.now;
    net.engine(0).reset(now, id(1)).unwrap();
    net.flush(0);
    let events = net.events(0);
    let class = Priority::DEFAULT.class();
    let room = Event::Writable { node: id(1), class };
    assert!(matches!(events[..], [Event::Ended { .. }, _]), "{events:?}");
    assert_eq!(events[1], room);
}

/// For a program that takes no events one event waits for each class, even if sessions end
/// meanwhile.
#[test]
fn f04_untaken_events_about_room_are_one_event() {
    let mut net = pair();
    let now = net.now;
    for _ in 0..100 {
        assert_eq!(fill(&mut net, 0, 10_000), 6);
        net.engine(0).reset(now, id(1)).unwrap();
    }
    let events: Vec<_> = std::iter::from_fn(|| net.engine(0).poll_event()).collect();
    let told = events
        .iter()
        .filter(|event| matches!(event, Event::Writable { .. }));
    assert!(told.count() <= 2 && events.len() < 8, "{events:?}");
}
