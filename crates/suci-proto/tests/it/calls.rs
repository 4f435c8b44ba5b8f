//! Calls: a request, its reply, and the ends of calls without a reply.

use crate::net::message;
use crate::net::{Net, id};
use crate::pair::Pair;
use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use suci_proto::limits::{REPLY_RESERVE, RESERVES};
use suci_proto::time::Duration;
use suci_proto::types::{ChannelId, Kind};
use suci_proto::{
    CallError, CallId, CallResult, Config, EndReason, Event, Filter, Message, Outgoing, SendError,
    TOO_LONG,
};

const SECOND: Duration = Duration::from_secs(1);

/// Longer than `max_message`.
const BEYOND_LIMIT: usize = (64 << 20) + 1;

/// The number of the last call; each call of a test gets a new one.
static LAST: AtomicU64 = AtomicU64::new(1 << 60);

fn call(pair: &mut Pair, from: usize, payload: &[u8]) -> CallId {
    let id = CallId(LAST.fetch_add(1, Ordering::Relaxed));
    pair.ask(from, |engine, now, to| {
        engine.call(now, to, id, message(payload))
    })
    .unwrap();
    id
}

fn reply_to(request: &Message, payload: &'static [u8]) -> Outgoing {
    assert_eq!(request.kind, Kind::REQUEST);
    Outgoing {
        channel: request.channel.replies(),
        tag: request.tag,
        ..message(payload)
    }
}

/// The only message that `host` received.
fn request_at(pair: &mut Pair, host: usize) -> Message {
    let mut received = pair.received(host);
    assert_eq!(received.len(), 1);
    received.remove(0)
}

fn results(pair: &mut Pair, host: usize) -> Vec<(CallId, CallResult)> {
    pair.ask(host, |engine, _, _| {
        std::iter::from_fn(|| engine.poll_call()).collect()
    })
}

fn late(pair: &Pair, host: usize) -> u64 {
    pair.engine(host).counters().late_replies
}

#[test]
fn a_reply_goes_to_its_call_and_to_nothing_else() {
    let mut pair = Pair::new();
    let calls: Vec<_> = (0..3).map(|n| call(&mut pair, 0, &[n])).collect();
    pair.run(SECOND);
    let requests = pair.received(1);
    assert_eq!(requests.len(), 3);
    // Answer in another order than the requests came.
    for request in requests.iter().rev() {
        let payload: &[u8] = if request.payload[0] == 1 {
            b"one"
        } else {
            b"other"
        };
        pair.send(
            1,
            reply_to(request, Bytes::copy_from_slice(payload).to_vec().leak()),
        );
    }
    pair.run(SECOND);
    let mut answered = results(&mut pair, 0);
    answered.sort_by_key(|(id, _)| *id);
    let payloads: Vec<_> = answered
        .iter()
        .map(|(_, result)| result.as_ref().unwrap().1.payload.to_vec())
        .collect();
    assert_eq!(
        answered.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        calls
    );
    assert_eq!(payloads, [&b"other"[..], b"one", b"other"]);
    assert_eq!(pair.received(0), []);
    assert_eq!((late(&pair, 0), pair.engine(0).open_calls()), (0, 0));
}

/// The calling program takes no messages meanwhile, and the received ones fill the credit of the
/// call's channel.
#[test]
fn a_reply_does_not_wait_behind_messages_that_the_caller_has_not_taken() {
    let mut pair = Pair::new();
    pair.set_reads(0, false);
    call(&mut pair, 0, b"question");
    pair.run(SECOND);
    let request = request_at(&mut pair, 1);
    for _ in 0..10_000 {
        pair.send(1, message(&[7; 20_000]));
        pair.run(Duration::from_millis(1));
        if pair.engine(1).queue_len(pair.id(0)).0 > 20 {
            break;
        }
    }
    pair.run(SECOND);
    let kept = pair.engine(1).queue_len(pair.id(0)).0;
    assert!(kept > 0, "credit is used up");
    pair.send(1, reply_to(&request, b"answer"));
    pair.run(SECOND);
    let answered = results(&mut pair, 0);
    assert_eq!(answered.len(), 1);
    assert_eq!(&*answered[0].1.as_ref().unwrap().1.payload, b"answer");
    pair.set_reads(0, true);
    pair.run(SECOND * 20);
    let numbers: Vec<_> = pair.received(0).iter().map(|m| m.number).collect();
    assert!(numbers.len() > 10 && numbers.is_sorted() && numbers[0] == 0);
}

/// Channels that the program never takes from fill all memory of the session for messages.
fn stuffed(memory: u64) -> Net {
    let mut net = Net::new(2, |_| Config {
        memory,
        max_message: 200_000,
        ..Config::default()
    });
    net.reading = false;
    // Empty messages fill the rest that longer ones leave.
    for (channel, length) in [(5, 1_000), (6, 1_000), (7, 0)] {
        for _ in 0..1_000 {
            let bulk = Outgoing {
                channel: ChannelId(channel),
                ..message(&vec![1; length])
            };
            net.send(1, id(0), bulk);
        }
        net.run(SECOND);
    }
    let left = net.engine(1).queue_len(id(0)).0;
    assert!(left > 100, "credit is used up: {left} wait");
    net
}

/// Neither side sends anything until the program takes a message.
#[test]
fn f19_a_session_that_waits_for_its_program_is_quiet() {
    let mut net = stuffed(1 << 20);
    let sent = |net: &mut Net| [0, 1].map(|host| net.engine(host).counters().packets_out);
    net.run(SECOND * 5);
    let before = sent(&mut net);
    net.run(SECOND * 10);
    let after = sent(&mut net);
    let packets: u64 = (0..2).map(|host| after[host] - before[host]).sum();
    assert!(
        packets <= 30,
        "{packets} packets: a question and an answer each second"
    );
}

/// No message can come on another channel then, and the program can find that out. Once it takes
/// messages, only the peer is waited for.
#[test]
fn f19_a_program_that_waits_while_other_messages_fill_the_memory_is_told() {
    let mut net = stuffed(1 << 20);
    let other = ChannelId(9);
    let on_other = Outgoing {
        channel: other,
        ..message(b"waits")
    };
    net.send(1, id(0), on_other);
    net.run(SECOND * 2);
    let full = net.engine(0).blocked_by_unread((id(1), other).into());
    let (bytes, channels) = full.unwrap();
    let window = 32 << 10;
    let holds = window - RESERVES - REPLY_RESERVE..window;
    assert!(holds.contains(&bytes), "{bytes} bytes of 32 KiB");
    assert_eq!(channels, [5, 6, 7].map(ChannelId));
    for wanted in [id(1).into(), other.into(), Filter::from((id(0), other))] {
        assert_eq!(net.engine(0).blocked_by_unread(wanted), None, "{wanted:?}");
    }
    // The peer may use the credit that it knows of by now.
    for _ in 0..8 {
        assert!(net.engine(0).recv_from(ChannelId(5).into()).is_some());
    }
    assert_eq!(net.engine(0).blocked_by_unread((id(1), other).into()), None);
    net.flush(0);
    net.reading = true;
    // The peer asked for long without success, but continues at once.
    net.run(Duration::from_millis(300));
    assert_eq!(net.engine(1).queue_len(id(0)).0, 0);
    let got = net.received(0);
    assert!(got.iter().any(|(_, message)| message.channel == other));
    assert_eq!(net.engine(0).blocked_by_unread((id(1), other).into()), None);
}

/// Replies come for any length, one by one or many at once.
#[test]
fn f19_replies_come_whatever_the_caller_leaves_alone() {
    for memory in [1 << 20, 16 << 20] {
        let mut net = stuffed(memory);
        for (length, at_once) in [(0, 1), (64, 200), (4_096, 1), (4_096, 20), (100_000, 3)] {
            let header = Bytes::from_static(&[3; 255]);
            for n in 0..at_once {
                let (now, id_of_call) = (net.now, CallId(LAST.fetch_add(1, Ordering::Relaxed)));
                let question = message(&[n]);
                (net.engine(0).call(now, id(1), id_of_call, question)).unwrap();
            }
            net.flush(0);
            net.run(Duration::from_millis(20));
            let mut answered = 0;
            while let Some((_, request)) = net.engine(1).recv() {
                let reply = Outgoing {
                    user_header: header.clone(),
                    ..reply_to(&request, vec![5; length].leak())
                };
                net.queue(1, id(0), reply);
            }
            net.flush(1);
            // Time for a few round trips, and for the timers of messages that wait for credit.
            for _ in 0..100 {
                net.run(Duration::from_millis(1));
                let results = std::iter::from_fn(|| net.engine(0).poll_call());
                let results: Vec<_> = results.collect();
                assert!(results.iter().all(|(_, result)| result.is_ok()));
                answered += results.len();
                net.flush(0);
            }
            assert_eq!(answered, usize::from(at_once), "{memory}: {length} B");
        }
    }
}

#[test]
fn a_reply_after_the_call_was_cancelled_is_late() {
    let mut pair = Pair::new();
    let id = call(&mut pair, 0, b"question");
    pair.run(SECOND);
    let request = request_at(&mut pair, 1);
    pair.ask(0, |engine, _, _| engine.cancel_call(id));
    assert_eq!(pair.engine(0).open_calls(), 0);
    pair.send(1, reply_to(&request, b"answer"));
    pair.run(SECOND);
    assert_eq!((results(&mut pair, 0), late(&pair, 0)), (vec![], 1));
}

#[test]
fn a_second_reply_is_late_and_so_is_one_that_nobody_asked_for() {
    let mut pair = Pair::new();
    call(&mut pair, 0, b"question");
    pair.run(SECOND);
    let request = request_at(&mut pair, 1);
    let other = Message {
        channel: ChannelId(1),
        ..request.clone()
    };
    for to in [&other, &request, &request] {
        pair.send(1, reply_to(to, b"answer"));
    }
    pair.run(SECOND);
    assert_eq!(results(&mut pair, 0).len(), 1);
    assert_eq!(late(&pair, 0), 2);
}

/// A reply that the driver did not take yet when the call is cancelled is late as well.
#[test]
fn a_cancelled_call_leaves_nothing() {
    let mut pair = Pair::new();
    let id = call(&mut pair, 0, b"question");
    pair.run(SECOND);
    let request = request_at(&mut pair, 1);
    pair.send(1, reply_to(&request, b"answer"));
    pair.run(SECOND);
    pair.ask(0, |engine, _, _| engine.cancel_call(id));
    assert_eq!((results(&mut pair, 0), late(&pair, 0)), (vec![], 1));
}

#[test]
fn a_restart_ends_the_call_at_once_and_a_reply_to_the_old_process_is_late() {
    let mut pair = Pair::new();
    let id = call(&mut pair, 0, b"question");
    pair.run(SECOND);
    pair.restart(1);
    pair.send(1, message(b"here I am"));
    pair.run(SECOND);
    let ended = CallError::Ended(EndReason::Restarted);
    assert_eq!(results(&mut pair, 0), [(id, Err(ended))]);

    // The reverse: the caller restarts, and the reply is for its earlier process.
    pair.received(0);
    call(&mut pair, 1, b"question");
    pair.run(SECOND);
    let request = request_at(&mut pair, 0);
    pair.restart(1);
    let id = call(&mut pair, 1, b"another");
    pair.run(SECOND);
    pair.send(0, reply_to(&request, b"for another"));
    pair.run(SECOND);
    assert_eq!((results(&mut pair, 1), late(&pair, 1)), (vec![], 1));
    let request = request_at(&mut pair, 0);
    pair.send(0, reply_to(&request, b"answer"));
    pair.run(SECOND);
    let answered = results(&mut pair, 1);
    assert_eq!(answered[0].0, id);
    assert_eq!(&*answered[0].1.as_ref().unwrap().1.payload, b"answer");
}

/// The request was acknowledged long ago: only the call is outstanding.
#[test]
fn a_silent_death_ends_the_call_when_the_peer_is_given_up() {
    let mut pair = Pair::new();
    let id = call(&mut pair, 0, b"question");
    pair.run(SECOND);
    assert_eq!(pair.engine(0).queue_len(pair.id(1)), (0, 0));
    pair.set_away(1, true);
    pair.events(0);
    pair.run(SECOND * 60);
    let lost = |event: &Event| matches!(event, Event::Lost { .. });
    assert!(
        pair.events(0).iter().any(lost),
        "it is asked for a sign of life"
    );
    assert_eq!(results(&mut pair, 0), [], "Lost ends nothing");
    pair.run(SECOND * 400);
    let ended = CallError::Ended(EndReason::Silent);
    assert_eq!(results(&mut pair, 0), [(id, Err(ended))]);
}

#[test]
fn a_reply_that_came_before_the_end_counts() {
    let mut pair = Pair::new();
    let ids = [b"one", b"two"].map(|payload| call(&mut pair, 0, payload));
    pair.run(SECOND);
    let requests = pair.received(1);
    pair.send(1, reply_to(&requests[0], b"answer"));
    pair.close(1, SECOND);
    pair.run(SECOND * 5);
    let answered = results(&mut pair, 0);
    assert_eq!(answered.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids);
    assert!(answered[0].1.is_ok());
    assert_eq!(answered[1].1, Err(CallError::Ended(EndReason::Closed)));
}

#[test]
fn a_refused_request_ends_its_call_and_is_no_event() {
    let mut pair = Pair::new();
    let id = call(&mut pair, 0, &vec![1; BEYOND_LIMIT]);
    pair.run(SECOND);
    let events = pair.events(1);
    let Some(&Event::Incoming {
        channel, number, ..
    }) = events.last()
    else {
        panic!("{events:?}");
    };
    pair.ask(1, |engine, _, to| engine.refuse(to, channel, number, 42))
        .unwrap();
    pair.events(0);
    pair.run(SECOND);
    assert_eq!(results(&mut pair, 0), [(id, Err(CallError::Refused(42)))]);
    assert_eq!(pair.events(0), []);
}

#[test]
fn a_reply_that_is_too_long_ends_its_call_and_is_refused() {
    let mut pair = Pair::new();
    let id = call(&mut pair, 0, b"question");
    pair.run(SECOND);
    let request = request_at(&mut pair, 1);
    pair.events(0);
    let mut reply = reply_to(&request, b"");
    reply.payload = vec![1; BEYOND_LIMIT].into();
    pair.send(1, reply);
    pair.run(SECOND);
    let length = BEYOND_LIMIT as u64;
    let error = CallError::TooLong { length };
    assert_eq!(results(&mut pair, 0), [(id, Err(error))]);
    assert_eq!(pair.events(0), [], "its program is not asked");
    let events = pair.events(1);
    let refused =
        |event: &Event| matches!(event, Event::NotDelivered { reason, .. } if *reason == TOO_LONG);
    assert!(events.iter().any(refused), "{events:?}");
}

#[test]
fn abandoning_a_peer_ends_the_calls_to_it_and_no_others() {
    let mut pair = Pair::new();
    let id = call(&mut pair, 0, b"question");
    pair.run(SECOND);
    pair.ask(0, |engine, now, to| engine.reset(now, to))
        .unwrap();
    let ended = CallError::Ended(EndReason::Reset);
    assert_eq!(results(&mut pair, 0), [(id, Err(ended))]);
    // The next call belongs to the next session.
    let id = call(&mut pair, 0, b"again");
    pair.run(SECOND);
    let request = pair.received(1).pop().unwrap();
    pair.send(1, reply_to(&request, b"answer"));
    pair.run(SECOND);
    assert_eq!(results(&mut pair, 0)[0].0, id);
}

/// Both programs finish the channel of a call: no state of it is left, and the caller's program is
/// not told of an unknown channel.
#[test]
fn calls_leave_nothing_of_a_channel_that_both_finish() {
    let mut pair = Pair::new();
    let channel = ChannelId(0);
    call(&mut pair, 0, b"question");
    pair.run(SECOND);
    let request = request_at(&mut pair, 1);
    pair.send(1, reply_to(&request, b"answer"));
    for host in [0, 1] {
        pair.ask(host, |engine, now, to| {
            assert!(engine.finish_channel(now, to, channel).unwrap());
        });
    }
    pair.run(SECOND);
    assert_eq!(results(&mut pair, 0).len(), 1);
    let refused = pair.ask(1, |engine, now, to| {
        engine.send(now, to, reply_to(&request, b"again"))
    });
    assert_eq!(refused, Err(SendError::Finished { channel }));
    pair.run(SECOND);
    for host in [0, 1] {
        let node = pair.id(1 - host);
        let told: Vec<_> = pair.events(host);
        let ends = told
            .into_iter()
            .filter(|event| matches!(event, Event::ChannelFinished { .. }));
        assert_eq!(
            ends.collect::<Vec<_>>(),
            [Event::ChannelFinished { node, channel }]
        );
    }
}

/// The caller sends nothing more after the reply, and becomes idle.
#[test]
fn an_answered_caller_becomes_idle() {
    let mut pair = Pair::new();
    for _ in 0..3 {
        call(&mut pair, 0, b"question");
        pair.run(SECOND);
        let request = request_at(&mut pair, 1);
        pair.send(1, reply_to(&request, b"answer"));
        pair.run(60 * SECOND);
        assert_eq!(results(&mut pair, 0).len(), 1);
        pair.run(60 * SECOND);
    }
}
