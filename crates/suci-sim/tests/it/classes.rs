//! How soon a message of a higher class overtakes bulk: after one train of packets, once the
//! program's present call has ended, which takes a millisecond at most at either end.
//!
//! The programs are those of a parameter server. Host 0 sends each of three workers 72 MiB, in
//! messages of 4 MiB, and gets gradients of 4 MiB from each. Questions and answers cross that.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::scenario::{MS, SECOND, ok, spec, world};
use std::cell::RefCell;
use std::rc::Rc;
use suci_proto::limits::MAX_DATAGRAM;
use suci_proto::time::{Duration, Instant};
use suci_proto::{Config, ControllerChoice, Priority};
use suci_sim::options::{Options, Step};
use suci_sim::workload::Sent;
use suci_sim::world::World;

/// Bytes of the packets that leave as one train, at most.
const TRAIN: usize = MAX_DATAGRAM;

const WORKERS: usize = 3;
const PART: u64 = 4 << 20;
/// Parts of the model, which has 72 MiB.
const PARTS: usize = 18;

const BULK_CHANNEL: u32 = 0;
const URGENT_CHANNEL: u32 = 7;

/// The longest way of a packet through the network, and until its receiver is woken.
const WAY: Duration = Duration::from_micros(100);

/// The packets that left a host while an urgent message waited there.
#[derive(Debug, Default)]
struct Watch {
    /// The message and its sender's host, while none of it has left.
    waits: Option<(usize, u64)>,
    /// Bytes of other packets of that host since it was sent.
    before: usize,
    left_at: Option<Instant>,
}

/// The most that urgent messages waited for.
#[derive(Debug, Default)]
struct Worst {
    /// Bytes of other packets that left before it.
    before: usize,
    /// Time until it left.
    left: Duration,
    /// Time from then until its receiver's program had it.
    taken: Duration,
}

/// A parameter server whose questions and answers are in class `class`. Its programs call again at
/// once.
fn server(class: u8, seed: u64) -> (World, Rc<RefCell<Watch>>) {
    let mut options = Options::quiet(1 + WORKERS);
    options.seed = seed;
    options.computes = false;
    let send_queue = 2 * PART * PARTS as u64;
    options.configs = vec![Config {
        send_queue,
        ..Config::default()
    }];
    let priority = Priority::new(class, 16).unwrap();
    for worker in 1..=WORKERS {
        for (from, to) in [(0, worker), (worker, 0)] {
            let rank = Step::Rank(from, to, Some(URGENT_CHANNEL), priority);
            options.script.push((Duration::ZERO, rank));
        }
    }
    let mut world = world(options);
    let watch = Rc::new(RefCell::new(Watch::default()));
    let state = Rc::clone(&watch);
    world.filter = Some(Box::new(move |now, packet| {
        let mut watch = state.borrow_mut();
        if let Some((host, token)) = watch.waits
            && packet.source == host
        {
            if packet.carries.iter().any(|part| part.token == token) {
                watch.waits = None;
                watch.left_at = Some(now);
            } else {
                watch.before += packet.bytes.len();
            }
        }
        false
    }));
    (world, watch)
}

fn accepted(world: &mut World, from: usize, to: usize, channel: u32, length: u64) -> u64 {
    let node = u32::try_from(to + 1).unwrap();
    match world.send(from, spec(node, channel, length)) {
        Ok(Some((Sent::Accepted, token))) => token,
        other => panic!("it finds room: {other:?}"),
    }
}

/// A step of the iteration: the model to all, a gradient from all. Returns the tokens.
fn bulk(world: &mut World) -> Vec<u64> {
    let mut tokens = Vec::new();
    for worker in 1..=WORKERS {
        tokens.push(accepted(world, worker, 0, BULK_CHANNEL, PART));
        for _ in 0..PARTS {
            tokens.push(accepted(world, 0, worker, BULK_CHANNEL, PART));
        }
    }
    tokens
}

/// Sends an urgent message and runs until its receiver's program has it.
fn overtake(world: &mut World, watch: &RefCell<Watch>, from: usize, to: usize, worst: &mut Worst) {
    let sent_at = world.now;
    let token = accepted(world, from, to, URGENT_CHANNEL, 100);
    *watch.borrow_mut() = Watch {
        waits: Some((from, token)),
        ..Watch::default()
    };
    while !world.oracle.is_received(token) {
        ok(world.run_for(Duration::from_micros(5)));
        assert!(world.now < sent_at + SECOND, "it arrives");
    }
    let watch = watch.borrow();
    let left_at = watch.left_at.unwrap();
    worst.before = worst.before.max(watch.before);
    worst.left = worst.left.max(left_at.since(sent_at));
    worst.taken = worst.taken.max(world.now.since(left_at));
}

/// Questions of workers and their answers during a step of the iteration. Returns how many there
/// were.
fn ask(class: u8, seed: u64) -> (Worst, usize) {
    let (mut world, watch) = server(class, seed);
    // Windows grow.
    for _ in 0..2 {
        let tokens = bulk(&mut world);
        while !tokens.iter().all(|token| world.oracle.is_received(*token)) {
            ok(world.run_for(MS));
        }
    }
    let tokens = bulk(&mut world);
    let (mut worst, mut questions) = (Worst::default(), 0);
    ok(world.run_for(MS * 5));
    while !tokens.iter().all(|token| world.oracle.is_received(*token)) {
        let worker = 1 + questions % WORKERS;
        overtake(&mut world, &watch, worker, 0, &mut worst);
        overtake(&mut world, &watch, 0, worker, &mut worst);
        questions += 1;
        let pause = 37 * (questions as u64 % 11);
        ok(world.run_for(Duration::from_micros(pause)));
    }
    println!("figure: class {class}, seed {seed}: {questions} questions, {worst:?}");
    (worst, questions)
}

/// The hosts are slower than the network, so the drivers alone decide how long messages wait.
/// (Where bulk fills a link, an urgent message also waits for its own peer's congestion window.)
#[test]
fn a_higher_class_overtakes_bulk_within_a_train_and_a_millisecond() {
    for seed in 1..3 {
        let (worst, questions) = ask(6, seed);
        assert!(questions >= 40, "{questions} questions in the step");
        assert!(worst.before <= TRAIN, "{worst:?}");
        // Each end may be in a call when the message comes.
        assert!(worst.left <= MS, "{worst:?}");
        assert!(worst.taken <= MS + WAY, "{worst:?}");
    }
}

/// The bound means something: a message of the bulk's own class waits for more.
#[test]
fn a_message_of_the_same_class_waits_for_more_than_a_train() {
    let (worst, _) = ask(Priority::DEFAULT.class(), 1);
    assert!(worst.before > TRAIN, "{worst:?}");
}

/// The reserve for higher classes leaves room for two packets in the smallest window. With one in
/// flight the window would seem half unused, and stay as small as losses made it.
#[test]
fn a_small_window_grows_below_a_higher_class() {
    let mut options = Options::quiet(2);
    options.links.latency = MS * 40;
    options.configs = vec![Config {
        controller: ControllerChoice::Cubic,
        ..Config::default()
    }];
    let priority = Priority::new(6, 16).unwrap();
    let rank = Step::Rank(0, 1, Some(URGENT_CHANNEL), priority);
    options.script.push((Duration::ZERO, rank));
    let mut world = world(options);
    accepted(&mut world, 0, 1, URGENT_CHANNEL, 10);
    ok(world.run_for(SECOND));
    let until = world.now + SECOND * 3;
    world.filter = Some(Box::new(move |now, packet| {
        packet.source == 0 && now < until && packet.bytes.len() > 1_000
    }));
    let token = accepted(&mut world, 0, 1, BULK_CHANNEL, 400_000);
    ok(world.run_for(SECOND * 3));
    let begun = world.now;
    while !world.oracle.is_received(token) {
        ok(world.run_for(MS * 100));
        // With one packet in each round trip it takes 22 s.
        assert!(
            world.now.since(begun) < SECOND * 6,
            "the window stays small"
        );
    }
}
