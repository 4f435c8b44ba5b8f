//! Active messages between nodes over loopback.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, builder, introduce, pair, shared_pair};
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};
use suci::active::{ActiveError, ActiveMessages, ActiveNode, MAX_WAITING, MAX_WORDS};
use suci::{Error, NodeId, SessionNumber, SharedNode};

/// Handlers of the tests.
const NOTE: u16 = 1;
const ASK: u16 = 2;
const ANSWER: u16 = 700;

/// Extracts until `handled` handlers ran.
fn extract(active: &mut ActiveMessages<'_>, node: &mut impl ActiveNode, handled: usize) {
    let mut ran = 0;
    while ran < handled {
        let most = handled - ran;
        let now = active.extract_timeout(node, most, LONG).unwrap();
        assert!(now > 0, "{ran} of {handled}");
        ran += now;
    }
}

#[test]
fn a_message_runs_its_handler_with_words_and_payload() {
    let (mut a, mut b) = pair();
    let seen = RefCell::new(Vec::new());
    let mut active = ActiveMessages::new();
    active.set_handler(NOTE, |_, message| seen.borrow_mut().push(message));
    let mut sender = ActiveMessages::new();
    let most = [1, 2, 3, 4, 5, 6, 7, u64::MAX];
    sender.send(&mut a, b.id(), NOTE, &most, "small").unwrap();
    sender
        .send(&mut a, b.id(), NOTE, &[], vec![7; 300_000])
        .unwrap();
    extract(&mut active, &mut b, 2);
    let seen = seen.take();
    let [first, second] = &seen[..] else {
        panic!("{seen:?}");
    };
    assert_eq!((first.from, first.session), (a.id(), SessionNumber(0)));
    assert_eq!((first.handler(), first.words()), (NOTE, &most[..]));
    assert_eq!(&first.payload[..], b"small");
    assert!(second.words().is_empty());
    assert_eq!(&second.payload[..], vec![7; 300_000]);
    let too_many = sender.send(&mut a, b.id(), NOTE, &[0; MAX_WORDS + 1], "");
    assert!(matches!(
        too_many,
        Err(ActiveError::TooManyWords { count: 9 })
    ));
}

#[test]
fn messages_are_handled_in_order_and_apart_from_others() {
    let (mut a, mut b) = pair();
    let next = Cell::new(0);
    let mut active = ActiveMessages::new();
    active.set_handler(NOTE, |_, message| {
        assert_eq!(message.words(), [next.get()]);
        next.set(next.get() + 1);
    });
    let mut sender = ActiveMessages::new();
    for number in 0..1_000 {
        sender.send(&mut a, b.id(), NOTE, &[number], "").unwrap();
    }
    a.send_copy(b.id(), b"another layer's").unwrap();
    assert_eq!(
        &b.recv_timeout(LONG).unwrap().unwrap().payload[..],
        b"another layer's"
    );
    assert_eq!(next.get(), 0, "handlers run where the program extracts");
    extract(&mut active, &mut b, 1_000);
    assert_eq!(next.get(), 1_000);
    assert!(b.try_recv().unwrap().is_none());
}

#[test]
fn a_handler_replies_and_sends_to_any_node() {
    let (mut a, mut b) = pair();
    let mut c = builder(2).open().unwrap();
    introduce(&mut b, &mut c);
    let heard = Cell::new(0);
    let mut asked = ActiveMessages::new();
    asked.set_handler(ASK, |replies, message| {
        let word = message.words()[0];
        replies.send(message.from, ANSWER, &[word + 1], "").unwrap();
        replies.send(NodeId(2), ANSWER, &[word + 2], "").unwrap();
        replies.send(NodeId(1), NOTE, &[word + 3], "").unwrap();
    });
    asked.set_handler(NOTE, |_, message| {
        heard.set(heard.get() + message.words()[0])
    });
    ActiveMessages::new()
        .send(&mut a, b.id(), ASK, &[10], "")
        .unwrap();
    extract(&mut asked, &mut b, 2);
    assert_eq!(heard.get(), 13, "a node may send to itself");
    for (node, expected) in [(&mut a, 11), (&mut c, 12)] {
        let mut answered = ActiveMessages::new();
        answered.set_handler(ANSWER, |_, message| assert_eq!(message.words(), [expected]));
        extract(&mut answered, node, 1);
    }
    assert_eq!(asked.waiting(), 0);
}

#[test]
fn extract_runs_no_more_handlers_than_it_may() {
    let (mut a, mut b) = pair();
    let mut sender = ActiveMessages::new();
    for _ in 0..10 {
        sender.send(&mut a, b.id(), NOTE, &[], "").unwrap();
    }
    a.flush(LONG).unwrap();
    let ran = Cell::new(0);
    let mut active = ActiveMessages::new();
    active.set_handler(NOTE, |_, _| ran.set(ran.get() + 1));
    assert_eq!(active.extract(&mut b, 0).unwrap(), 0);
    assert_eq!(active.extract(&mut b, 3).unwrap(), 3);
    assert_eq!(active.extract_timeout(&mut b, 4, LONG).unwrap(), 4);
    assert_eq!(ran.get(), 7);
    assert_eq!(active.extract(&mut b, usize::MAX).unwrap(), 3);
    assert_eq!(active.extract(&mut b, 1).unwrap(), 0);
    let began = Instant::now();
    let limit = Duration::from_millis(20);
    assert_eq!(active.extract_timeout(&mut b, 1, limit).unwrap(), 0);
    assert!(began.elapsed() >= limit);
}

/// A node that sends requests and answers those of another.
struct Flooder<'a, N> {
    node: N,
    poll: fn(&mut N),
    active: ActiveMessages<'a>,
    to: NodeId,
    sent: u64,
}

/// How many requests and answers a node handled. Each must be the next one.
#[derive(Default)]
struct Handled {
    requests: Cell<u64>,
    answers: Cell<u64>,
}

impl<'a, N: ActiveNode> Flooder<'a, N> {
    fn new(node: N, poll: fn(&mut N), to: NodeId, handled: &'a Handled) -> Self {
        let mut active = ActiveMessages::new();
        active.set_handler(ASK, |replies, message| {
            assert_eq!(message.words(), [handled.requests.get()]);
            handled.requests.set(handled.requests.get() + 1);
            // Longer than the request, so that the memory for answers is full first.
            let sent = replies.send(message.from, ANSWER, message.words(), vec![1; 16_000]);
            sent.unwrap();
        });
        active.set_handler(ANSWER, |_, message| {
            assert_eq!(message.words(), [handled.answers.get()]);
            assert_eq!(message.payload.len(), 16_000);
            handled.answers.set(handled.answers.get() + 1);
        });
        Self {
            node,
            poll,
            active,
            to,
            sent: 0,
        }
    }

    /// Sends requests until the queue is full. Returns how many.
    fn send(&mut self) -> u64 {
        let before = self.sent;
        loop {
            let payload = vec![0; 2_000];
            match self
                .active
                .send(&mut self.node, self.to, ASK, &[self.sent], payload)
            {
                Ok(()) => self.sent += 1,
                Err(ActiveError::QueueFull { payload, .. }) => {
                    assert_eq!(payload.len(), 2_000);
                    return self.sent - before;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn extract(&mut self) -> u64 {
        self.active.extract(&mut self.node, 100).unwrap() as u64
    }

    fn poll(&mut self) {
        (self.poll)(&mut self.node);
    }
}

/// Repeats until `step` returned 0 for 50 ms.
fn until_nothing_moves(mut step: impl FnMut() -> u64) {
    let (mut still, end) = (0, Instant::now() + LONG);
    while still < 50 {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(1));
        still = match step() {
            0 => still + 1,
            _ => 0,
        };
    }
}

#[test]
fn f04_nodes_that_flood_each_other_with_requests_come_to_no_deadlock() {
    let node = |id| {
        let small = builder(id).memory(1 << 20).send_queue(1 << 17);
        small.open().unwrap()
    };
    let (mut a, mut b) = (node(0), node(1));
    introduce(&mut a, &mut b);
    flood_each_other(a, b, |node| _ = node.poll(Duration::ZERO).unwrap());
}

#[test]
fn f04_shared_nodes_that_flood_each_other_come_to_no_deadlock() {
    let node = |id| {
        let small = builder(id).memory(1 << 20).send_queue(1 << 17);
        small.open_threads(1).unwrap()
    };
    let (a, b) = (node(0), node(1));
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    flood_each_other(a, b, |_| ());
}

/// Of nodes 0 and 1.
fn flood_each_other<N: ActiveNode>(a: N, b: N, poll: fn(&mut N)) {
    let (at_a, at_b) = (Handled::default(), Handled::default());
    let mut a = Flooder::new(a, poll, NodeId(1), &at_a);
    let mut b = Flooder::new(b, poll, NodeId(0), &at_b);
    // Requests fill the queues and the memory for them in both directions.
    until_nothing_moves(|| {
        let sent = a.send() + b.send();
        a.poll();
        b.poll();
        sent
    });
    // One node answers, then the other, until answers fill theirs, too.
    until_nothing_moves(|| {
        b.poll();
        a.extract()
    });
    until_nothing_moves(|| {
        a.poll();
        b.extract()
    });
    let [in_a, in_b] = [&a.active, &b.active].map(ActiveMessages::waiting);
    assert!(in_a > 0 && in_b > 0, "{in_a} and {in_b} replies wait");
    let is_done = |a: &Flooder<'_, N>, b: &Flooder<'_, N>| {
        let done = |from: &Flooder<'_, N>, at: &Handled, there: &Handled| {
            at.answers.get() == from.sent && there.requests.get() == from.sent
        };
        done(a, &at_a, &at_b) && done(b, &at_b, &at_a)
    };
    let end = Instant::now() + LONG;
    while !is_done(&a, &b) {
        assert!(Instant::now() < end, "{:?} {:?}", a.active, b.active);
        a.extract();
        b.extract();
    }
    assert!(a.sent > 20 && b.sent > 20);
}

/// A node of each kind, and one with two threads in the middle, which handles the messages of both
/// in one thread of the program.
#[test]
fn a_shared_node_extracts_as_any_other() {
    let mut middle = builder(1).open_threads(2).unwrap();
    let (mut a, mut c) = (
        builder(0).open().unwrap(),
        builder(2).open_threads(1).unwrap(),
    );
    middle.add_peer(a.id(), a.local_addr()).unwrap();
    middle.add_peer(c.id(), c.local_addr()).unwrap();
    a.add_peer(middle.id(), middle.local_addr()).unwrap();
    c.add_peer(middle.id(), middle.local_addr()).unwrap();
    let (mut answers_a, mut answers_c) = (0, 0);
    let next = Cell::new([0; 3]);
    let mut active = ActiveMessages::new();
    active.set_handler(ASK, |replies, message| {
        let mut numbers = next.get();
        let number = &mut numbers[message.from.0 as usize];
        assert_eq!(message.words(), [*number]);
        *number += 1;
        next.set(numbers);
        let payload = message.payload.to_vec();
        let sent = replies.send(message.from, ANSWER, message.words(), payload);
        sent.unwrap();
    });
    let none = active.extract(&mut middle, 5).unwrap();
    assert_eq!(none, 0);
    let limit = Duration::from_millis(20);
    assert_eq!(active.extract_timeout(&mut middle, 1, limit).unwrap(), 0);
    let ask = |from: &mut dyn FnMut(u64, Vec<u8>)| {
        for number in 0..200 {
            from(number, vec![number as u8; 2_000]);
        }
    };
    let mut of_a = ActiveMessages::new();
    let mut of_c = ActiveMessages::new();
    let to = middle.id();
    ask(&mut |number, payload| of_a.send(&mut a, to, ASK, &[number], payload).unwrap());
    ask(&mut |number, payload| of_c.send(&mut c, to, ASK, &[number], payload).unwrap());
    ActiveMessages::new()
        .send(&mut middle, to, ASK, &[0], "to itself")
        .unwrap();
    active.set_handler(ANSWER, |_, message| assert_eq!(message.from, NodeId(1)));
    extract(&mut active, &mut middle, 402);
    drop(active);
    assert_eq!(next.get(), [200, 1, 200]);
    of_a.set_handler(ANSWER, |_, message| {
        assert_eq!(message.words(), [answers_a]);
        answers_a += 1;
    });
    of_c.set_handler(ANSWER, |_, message| {
        assert_eq!(message.payload[..], vec![answers_c as u8; 2_000]);
        answers_c += 1;
    });
    extract(&mut of_a, &mut a, 200);
    extract(&mut of_c, &mut c, 200);
}

/// Messages that came before the end are handled after it; then the call says that it is closed.
#[test]
fn a_closed_shared_node_has_its_active_messages_handled() {
    let (mut a, mut b) = shared_pair();
    let mut sender = ActiveMessages::new();
    for number in 0..2_000 {
        sender.send(&mut a, b.id(), NOTE, &[number], "").unwrap();
    }
    a.flush(LONG).unwrap();
    b.close(Duration::ZERO).unwrap();
    let next = Cell::new(0);
    let mut active = ActiveMessages::new();
    active.set_handler(NOTE, |_, message| {
        assert_eq!(message.words(), [next.get()]);
        next.set(next.get() + 1);
    });
    extract(&mut active, &mut b, 2_000);
    for most in [1, 5] {
        let closed = active.extract(&mut b, most).unwrap_err();
        assert!(matches!(closed, ActiveError::Node(Error::Closed)));
    }
    let closed = active.extract_timeout(&mut b, 1, LONG).unwrap_err();
    assert!(matches!(closed, ActiveError::Node(Error::Closed)));
    let unknown: Result<(), _> = sender.send(&mut a, NodeId(77), NOTE, &[], "");
    assert!(matches!(
        unknown,
        Err(ActiveError::Node(Error::UnknownPeer(_)))
    ));
}

/// The thread hands no more over than its queue takes, and goes on when the program extracts.
#[test]
fn a_shared_node_that_extracts_late_loses_nothing() {
    let (mut a, mut b) = shared_pair();
    let mut sender = ActiveMessages::new();
    let count = 2_000;
    for number in 0..count {
        sender
            .send(&mut a, b.id(), NOTE, &[number], vec![1; 900])
            .unwrap();
    }
    let wait = |node: &SharedNode| node.recv_timeout(Duration::from_millis(200)).unwrap();
    assert!(wait(&b).is_none(), "they are not for calls that receive");
    let next = Cell::new(0);
    let mut active = ActiveMessages::new();
    active.set_handler(NOTE, |_, message| {
        assert_eq!(message.words(), [next.get()]);
        next.set(next.get() + 1);
    });
    extract(&mut active, &mut b, count as usize);
    assert_eq!(active.extract(&mut b, 1).unwrap(), 0);
}

#[test]
fn a_receiver_that_extracts_nothing_holds_its_sender_back() {
    let small = |id| builder(id).memory(1 << 20).send_queue(1 << 17).open();
    let (mut a, mut b) = (small(0).unwrap(), small(1).unwrap());
    introduce(&mut a, &mut b);
    let mut sender = ActiveMessages::new();
    let mut sent = 0;
    let full = loop {
        match sender.send(&mut a, b.id(), NOTE, &[], vec![0; 1_000]) {
            Ok(()) => sent += 1,
            Err(error) => {
                // Messages for which the receiver has room may not have arrived yet.
                let before = a.peer(b.id()).queue_len().unwrap();
                b.poll(Duration::from_millis(50)).unwrap();
                a.poll(Duration::from_millis(50)).unwrap();
                if a.peer(b.id()).queue_len().unwrap() == before {
                    break error;
                }
            }
        }
        assert!(sent < 2_000, "memory is not bounded");
    };
    assert!(matches!(full, ActiveError::QueueFull { .. }), "{full}");
    let mut active = ActiveMessages::new();
    active.set_handler(NOTE, |_, _| {});
    let handled = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut handled = 0;
            while handled < sent {
                let ran = a.poll(Duration::from_millis(1));
                ran.unwrap();
                handled = sent - a.peer(NodeId(1)).queue_len().unwrap().0;
            }
        });
        extract(&mut active, &mut b, sent as usize);
        receiver.join().unwrap();
        sent
    });
    assert_eq!(handled, sent);
}

#[test]
fn a_handler_cannot_send_without_bound() {
    let (mut a, mut b) = pair();
    let refused = Cell::new(None);
    let mut active = ActiveMessages::new();
    active.set_handler(ASK, |replies, message| {
        for sent in 0.. {
            if let Err(error) = replies.send(message.from, NOTE, &[sent], "x") {
                let ActiveError::HandlersFull { payload, .. } = error else {
                    panic!("{error}");
                };
                assert_eq!(&payload[..], b"x");
                return refused.set(Some(sent as usize));
            }
        }
    });
    ActiveMessages::new()
        .send(&mut a, b.id(), ASK, &[], "")
        .unwrap();
    extract(&mut active, &mut b, 1);
    assert_eq!(refused.get(), Some(MAX_WAITING));
    assert_eq!(active.waiting(), 0, "the node took them");
    let mut sender = ActiveMessages::new();
    sender.set_handler(NOTE, |_, _| {});
    extract(&mut sender, &mut a, MAX_WAITING);
}

#[test]
fn messages_that_name_no_handler_are_told_once_each_and_dropped() {
    let (mut a, mut b) = pair();
    let mut sender = ActiveMessages::new();
    for handler in [NOTE, 77, NOTE, 78] {
        sender.send(&mut a, b.id(), handler, &[], "").unwrap();
    }
    a.flush(LONG).unwrap();
    let ran = Cell::new(0);
    let mut active = ActiveMessages::new();
    active.set_handler(NOTE, |_, _| ran.set(ran.get() + 1));
    assert_eq!(
        active.extract(&mut b, 9).unwrap(),
        1,
        "those before the fault count"
    );
    let error = active.extract(&mut b, 9).unwrap_err();
    assert!(
        matches!(
            error,
            ActiveError::NoHandler {
                from: NodeId(0),
                handler: 77
            }
        ),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains("node 0") && text.contains("handler 77"),
        "{text}"
    );
    assert_eq!(active.extract(&mut b, 9).unwrap(), 1);
    assert!(
        active
            .extract(&mut b, 9)
            .unwrap_err()
            .to_string()
            .contains("78")
    );
    assert_eq!(active.extract(&mut b, 9).unwrap(), 0);
    assert_eq!((ran.get(), active.dropped()), (2, 2));
}

#[test]
fn a_message_of_a_handler_that_cannot_be_sent_is_told() {
    let (mut a, mut b) = pair();
    let mut active = ActiveMessages::new();
    active.set_handler(ASK, |replies, message| {
        replies.send(NodeId(99), NOTE, &[], "").unwrap();
        replies.send(message.from, ANSWER, &[], "").unwrap();
    });
    ActiveMessages::new()
        .send(&mut a, b.id(), ASK, &[], "")
        .unwrap();
    extract(&mut active, &mut b, 1);
    let error = active.extract(&mut b, 1).unwrap_err();
    let ActiveError::Dropped { to, source } = error else {
        panic!("{error}");
    };
    assert_eq!(to, NodeId(99));
    assert!(matches!(source, Error::UnknownPeer(NodeId(99))));
    let mut answered = ActiveMessages::new();
    answered.set_handler(ANSWER, |_, _| {});
    // The messages behind it go with the next call.
    assert_eq!(active.extract(&mut b, 1).unwrap(), 0);
    extract(&mut answered, &mut a, 1);
}

#[test]
fn what_a_node_sent_before_it_closed_is_handled_before_its_next_session() {
    let (mut a, mut b) = pair();
    let (to, address) = (b.id(), b.local_addr());
    let mut sender = ActiveMessages::new();
    for number in 0..5 {
        sender.send(&mut a, to, NOTE, &[number], "").unwrap();
    }
    a.close(LONG).unwrap();
    let mut again = builder(0).open().unwrap();
    again.add_peer(to, address).unwrap();
    b.add_peer(again.id(), again.local_addr()).unwrap();
    for number in 5..10 {
        sender.send(&mut again, to, NOTE, &[number], "").unwrap();
    }
    let seen = RefCell::new(Vec::new());
    let mut active = ActiveMessages::new();
    active.set_handler(NOTE, |_, message| {
        seen.borrow_mut()
            .push((message.words()[0], message.session));
    });
    extract(&mut active, &mut b, 10);
    drop(active);
    let seen = seen.into_inner();
    assert!(seen.is_sorted(), "{seen:?}");
    assert_ne!(seen.first().unwrap().1, seen.last().unwrap().1);
    // The closed node itself still handles what had come.
    let mut late = ActiveMessages::new();
    late.set_handler(NOTE, |_, _| {});
    let closed = late.extract(&mut a, 1);
    assert!(matches!(closed, Err(ActiveError::Node(Error::Closed))));
}

#[test]
fn a_node_that_dies_in_a_flood_holds_nobody_up() {
    let (mut a, mut b) = pair();
    let mut c = builder(2).open().unwrap();
    introduce(&mut b, &mut c);
    let mut sender = ActiveMessages::new();
    for _ in 0..1_000 {
        sender.send(&mut a, b.id(), ASK, &[], "").unwrap();
    }
    a.peer(b.id()).reset().unwrap();
    drop(a);
    sender.send(&mut c, b.id(), ASK, &[], "").unwrap();
    let from_c = Cell::new(false);
    let mut active = ActiveMessages::new();
    active.set_handler(ASK, |replies, message| {
        from_c.set(from_c.get() || message.from == NodeId(2));
        replies.send(message.from, ANSWER, &[], "").unwrap();
    });
    let end = Instant::now() + LONG;
    while !from_c.get() {
        assert!(Instant::now() < end);
        // Replies to the node that is gone may be refused.
        let _ = active.extract_timeout(&mut b, 100, Duration::from_millis(100));
    }
    let mut answered = ActiveMessages::new();
    answered.set_handler(ANSWER, |_, _| {});
    extract(&mut answered, &mut c, 1);
}
