//! An urgent message waits for one train and one batch of datagrams, not for a whole poll or
//! output.

use super::*;
use suci_proto::Priority;
use suci_proto::types::ChannelId;

const CONTROL: ChannelId = ChannelId(1);

/// As [`settled`], where the first driver's window has grown and channel 1 is urgent on both sides.
fn with_control() -> (Driver, Arc<Mutex<Script>>, Driver) {
    let (mut a, script, mut b) = settled();
    let urgent = Priority::new(6, 16).unwrap();
    for (driver, peer) in [(&mut a, 1), (&mut b, 0)] {
        let engine = &mut driver.engine;
        engine
            .set_channel_priority(NodeId(peer), CONTROL, urgent)
            .unwrap();
    }
    push(&mut a, 1, vec![1; 2_000_000].into());
    until(&mut a, &mut b, |_, b| b.take_message().is_some());
    until(&mut a, &mut b, |a, b| is_settled(a) && is_settled(b));
    script.lock().unwrap().attempts.clear();
    script.lock().unwrap().order.clear();
    (a, script, b)
}

fn push(from: &mut Driver, to: u32, message: OutgoingMessage) {
    from.push(NodeId(to), message).unwrap();
}

fn urgent(text: &'static str) -> OutgoingMessage {
    OutgoingMessage::new(text).channel(CONTROL)
}

/// Returns how many trains were tried since its last call.
fn trains(script: &Mutex<Script>) -> usize {
    std::mem::take(&mut script.lock().unwrap().attempts).len()
}

/// A received message of a higher class reaches the program before bulk is sent. That lasts only a
/// while, since the program may not take it.
#[test]
fn bulk_is_not_sent_before_the_program_has_its_urgent_message() {
    for (question, comes_first) in [(urgent("question"), true), ("question".into(), false)] {
        let (mut a, script, mut b) = with_control();
        push(&mut b, 0, question);
        b.output_now().unwrap();
        (0..20).for_each(|_| push(&mut a, 1, vec![1; 20_000].into()));
        a.run_cycle().unwrap();
        assert_eq!(trains(&script) == 0, comes_first);
        assert!(a.has_message());
        if comes_first {
            assert!(a.tx_incomplete && a.hold_number().is_some());
            std::thread::sleep(Duration::from_millis(2));
            a.run_cycle().unwrap();
            assert_ne!(trains(&script), 0, "it leaves the message there");
        }
        assert!(a.take_message().is_some());
        until(&mut a, &mut b, |a, b| {
            b.take_message();
            a.is_flushed()
        });
    }
}

/// If the last output left something, the driver first polls the socket; an urgent answer is
/// sent before that.
#[test]
fn an_urgent_answer_waits_for_no_look_at_the_socket() {
    for (answer, goes_first) in [(urgent("answer"), true), ("answer".into(), false)] {
        let (mut a, script, mut b) = with_control();
        (0..20).for_each(|_| push(&mut a, 1, vec![1; 20_000].into()));
        script.lock().unwrap().slow_trains = 3 * STALE;
        a.output_now().unwrap();
        assert!(a.tx_incomplete);
        script.lock().unwrap().order.clear();
        let mut send = |message| {
            a.send(None, 6, |a| a.push(NodeId(1), message)).unwrap();
        };
        send(answer);
        let first = script.lock().unwrap().order.first().copied();
        assert_eq!(first, Some(if goes_first { "train" } else { "poll" }));
        script.lock().unwrap().slow_trains = Duration::ZERO;
        until(&mut a, &mut b, |a, b| {
            b.take_message();
            a.is_flushed()
        });
    }
}

#[test]
fn only_what_is_urgent_is_sent_before_the_look() {
    let (mut a, script, mut b) = with_control();
    (0..20).for_each(|_| push(&mut a, 1, vec![1; 20_000].into()));
    a.output_urgent().unwrap();
    assert_eq!(trains(&script), 0);
    push(&mut a, 1, urgent("now"));
    a.output_urgent().unwrap();
    assert_eq!(trains(&script), 1);
    a.output_urgent().unwrap();
    assert_eq!(trains(&script), 0);
    until(&mut a, &mut b, |a, b| {
        b.take_message();
        a.is_flushed()
    });
}

/// A handle has something urgent for the thread: a poll ends after a batch, and an output after a
/// train.
#[test]
fn an_interrupt_waits_for_one_batch_and_one_train() {
    let (mut a, script, mut b) = with_control();
    exchange(&mut a, &mut b, 200, |_, _| {});
    let count = input::BULK + 2;
    exchange(&mut a, &mut b, count, |a, b| {
        let end = Deadline::after(Duration::from_secs(30));
        let sent = b.engine.counters().packets_out + count as u64;
        while b.engine.counters().packets_out < sent {
            assert!(!end.is_over(), "the window holds them all");
            b.run_cycle().unwrap();
        }
        a.interrupt.store(true, Ordering::Relaxed);
        let taken = long_poll(a, &script, Follows::Output, Duration::ZERO);
        assert_eq!(taken, input::BULK);
        assert!(a.last_poll.cut_short, "the next poll is due at once");
        a.interrupt.store(false, Ordering::Relaxed);
    });
    trains(&script);
    (0..20).for_each(|_| push(&mut a, 1, vec![1; 20_000].into()));
    a.interrupt.store(true, Ordering::Relaxed);
    a.output_now().unwrap();
    assert!(a.tx_incomplete);
    assert_eq!(trains(&script), 1);
    a.interrupt.store(false, Ordering::Relaxed);
    until(&mut a, &mut b, |a, b| {
        b.take_message();
        a.is_flushed()
    });
}
