//! A node that sends to itself, beside a model of what its program must be told: random verbs, and
//! a program that takes messages and events now and then.

use super::SECOND;
use bytes::Bytes;
use std::collections::BTreeSet;
use suci_proto::time::{Duration, Instant};
use suci_proto::types::{ChannelId, Incarnation, Kind, NodeId, SessionNumber, Source};
use suci_proto::{
    Config, Engine, Event, Identity, Message, MessageOutcome, Outcome, Outgoing, Priority,
    SendError, Side,
};

const RUNS: u64 = 400;
const STEPS: usize = 400;
const OWN: NodeId = NodeId(9);

/// The generator xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % bound
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// An accepted message. Its tag and token are its position among all.
#[derive(Debug)]
struct Sent {
    session: SessionNumber,
    channel: ChannelId,
    number: u64,
    notify: bool,
    expires: Option<Instant>,
    /// Cancelled or refused by its program.
    withdrawn: bool,
    received: bool,
    told: Option<Outcome>,
}

impl Sent {
    /// Returns true if it need not arrive.
    fn may_be_void(&self, now: Instant) -> bool {
        self.withdrawn || self.expires.is_some_and(|at| at <= now)
    }
}

struct Model {
    seed: u64,
    random: Random,
    now: Instant,
    engine: Engine,
    sent: Vec<Sent>,
    /// Sessions below this one have ended, and the program was told.
    over: SessionNumber,
    /// Classes of channels in which the program waits for room.
    wants_room: BTreeSet<u8>,
    suspended: bool,
    ends: u64,
}

impl Model {
    fn new(seed: u64) -> Self {
        let config = Config {
            memory: 2 << 20,
            max_message: 128 << 10,
            send_queue: 256 << 10,
            ..Config::default()
        };
        let identity = Identity {
            node: OWN,
            incarnation: Incarnation(1),
        };
        let now = Instant::ZERO + SECOND;
        Self {
            seed,
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            now,
            engine: Engine::new(config, identity, [7; 32], 8 << 20, now).unwrap(),
            sent: Vec::new(),
            over: SessionNumber(0),
            wants_room: BTreeSet::new(),
            suspended: false,
            ends: 0,
        }
    }

    fn send(&mut self) {
        let lengths = [0, 40, 40, 1_000, 20_000, 100_000, 200_000];
        let length = lengths[self.random.below(lengths.len() as u64) as usize];
        let token = self.sent.len() as u64;
        let deadline = self.random.percent(20);
        let message = Outgoing {
            channel: ChannelId(self.random.below(4) as u32),
            tag: token,
            kind: Kind::USER,
            user_header: Bytes::from(vec![3; self.random.below(3) as usize]),
            payload: Bytes::from(vec![token as u8; length]),
            notify: self.random.percent(50),
            token,
            deadline: deadline.then(|| Duration::from_millis(self.random.below(2_000))),
        };
        let (channel, notify, deadline) = (message.channel, message.notify, message.deadline);
        let number = match self.engine.send(self.now, OWN, message) {
            Ok(number) => number,
            Err(SendError::WouldBlock(message)) => {
                let class = self.engine.want_room(OWN, &message).unwrap();
                self.wants_room.insert(class);
                return;
            }
            Err(SendError::Suspended { by, .. }) => return assert_eq!(by, Side::Here),
            Err(SendError::Closing(_) | SendError::Unread(_)) => return,
            Err(error) => panic!("seed {}: {error}", self.seed),
        };
        self.sent.push(Sent {
            session: self.engine.session(OWN).unwrap(),
            channel,
            number,
            notify,
            expires: deadline.map(|after| self.now + after),
            withdrawn: false,
            received: false,
            told: None,
        });
    }

    fn cancel(&mut self) {
        let recent = (self.sent.len() as u64).min(20);
        if recent == 0 {
            return;
        }
        let at = self.sent.len() - 1 - self.random.below(recent) as usize;
        let sent = &mut self.sent[at];
        let count = self.engine.cancel(OWN, sent.channel, at as u64).unwrap();
        if count == 0 {
            return;
        }
        assert!(
            count == 1 && !sent.received && sent.told.is_none() && !sent.withdrawn,
            "seed {}: cancelled {sent:?}",
            self.seed
        );
        sent.withdrawn = true;
    }

    fn act(&mut self) {
        let class = self.random.below(8) as u8;
        let channel = ChannelId(self.random.below(4) as u32);
        match self.random.below(100) {
            0..50 => self.send(),
            50..60 => self.cancel(),
            60..63 => self.engine.suspend(OWN).unwrap(),
            63..68 => self.engine.resume(OWN).unwrap(),
            68 => _ = self.engine.reset(self.now, OWN).unwrap(),
            69 => _ = self.engine.close_peer(self.now, OWN, SECOND).unwrap(),
            70 => {
                let priority = Priority::new(class, 1).unwrap();
                let set = self.engine.set_channel_priority(OWN, channel, priority);
                set.unwrap();
            }
            71..85 => self.now += Duration::from_millis(self.random.below(300)),
            _ => {
                let most = self.random.below(30);
                self.read(most);
            }
        }
        self.turn();
    }

    /// Runs a driver cycle, in which no packet may leave.
    fn turn(&mut self) {
        let (now, engine) = (self.now, &mut self.engine);
        engine.begin_cycle(now);
        if engine.next_timeout().is_some_and(|at| at <= now) {
            engine.handle_timeout(now);
        }
        assert!(engine.poll_transmit(now, 64).is_none(), "a packet leaves");
        engine.audit(now).unwrap();
    }

    /// The program takes up to `most` messages, and all events before, between and after them.
    fn read(&mut self, most: u64) {
        for _ in 0..most {
            self.events();
            let Some((source, message)) = self.engine.recv() else {
                return;
            };
            self.received(source, &message);
        }
        self.events();
    }

    fn events(&mut self) {
        while let Some(event) = self.engine.poll_event() {
            self.event(event);
        }
    }

    fn received(&mut self, source: Source, message: &Message) {
        let (seed, now) = (self.seed, self.now);
        let at = message.tag as usize;
        let (before, rest) = self.sent.split_at_mut(at);
        let sent = &mut rest[0];
        assert_eq!((source.node, source.session), (OWN, sent.session));
        assert_eq!(
            (message.channel, message.number),
            (sent.channel, sent.number)
        );
        assert!(message.payload.iter().all(|byte| *byte == at as u8));
        let fits = matches!(sent.told, None | Some(Outcome::Delivered));
        assert!(
            fits && !sent.received && !sent.withdrawn && source.session >= self.over,
            "seed {seed}: {sent:?} is received"
        );
        sent.received = true;
        let stream = (sent.session, sent.channel);
        let missing = before
            .iter()
            .filter(|it| (it.session, it.channel) == stream && !it.received)
            .find(|it| !it.may_be_void(now));
        assert!(missing.is_none(), "seed {seed}: {missing:?} is passed over");
    }

    fn tell(&mut self, token: u64, outcome: Outcome) {
        let sent = &mut self.sent[token as usize];
        assert!(
            sent.told.is_none() && (outcome == Outcome::Delivered || !sent.received),
            "seed {}: {outcome:?} of {sent:?}",
            self.seed
        );
        // All that was passed on is acknowledged at once.
        assert_ne!(outcome, Outcome::Unknown, "seed {}: {sent:?}", self.seed);
        sent.told = Some(outcome);
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Delivered { token, .. } => self.tell(token, Outcome::Delivered),
            Event::NotDelivered { token, .. } => self.tell(token, Outcome::NotDelivered),
            Event::Writable { class, .. } => {
                assert!(self.wants_room.remove(&class), "seed {}", self.seed);
            }
            Event::Suspended { by, .. } | Event::Resumed { by, .. } => {
                let suspends = matches!(event, Event::Suspended { .. });
                let before = core::mem::replace(&mut self.suspended, suspends);
                assert!(by == Side::Here && before != suspends, "seed {}", self.seed);
            }
            Event::Incoming {
                channel,
                number,
                tag,
                ..
            } => match self.random.percent(30) {
                true => {
                    self.engine.refuse(OWN, channel, number, 5).unwrap();
                    self.sent[tag as usize].withdrawn = true;
                }
                false => self.engine.accept(OWN, channel, number, None).unwrap(),
            },
            Event::Ended {
                session,
                sessions,
                outcomes,
                ..
            } => self.ended(session, sessions, &outcomes),
            other => panic!("seed {}: {other:?}", self.seed),
        }
    }

    /// The end comes after the last message of its session, and tells what became of the others.
    fn ended(&mut self, session: SessionNumber, sessions: u32, outcomes: &[MessageOutcome]) {
        assert_eq!(session.0 + 1 - sessions, self.over.0, "seed {}", self.seed);
        for outcome in outcomes {
            self.tell(outcome.token, outcome.outcome);
        }
        let ended = self.sent.iter().filter(|sent| {
            (self.over..=session).contains(&sent.session) && !sent.may_be_void(self.now)
        });
        for sent in ended {
            let failed = sent.told == Some(Outcome::NotDelivered);
            let told = sent.told.is_some() || !sent.notify;
            let untold = sessions > 1 && !sent.notify;
            assert!(
                told && (sent.received != failed || untold),
                "seed {}: {sent:?} at the end of its session",
                self.seed
            );
        }
        self.over = session.next();
        self.suspended = false;
        self.ends += 1;
    }

    /// The program takes everything: nothing may be left.
    fn finish(&mut self) {
        self.engine.resume(OWN).unwrap();
        for _ in 0..200 {
            self.now += Duration::from_millis(20);
            self.turn();
            self.read(u64::MAX);
        }
        let (now, seed) = (self.now, self.seed);
        assert_eq!(self.engine.queue_len(OWN), (0, 0), "seed {seed}");
        assert!(
            self.wants_room.is_empty(),
            "seed {seed}: never told of room"
        );
        for sent in self.sent.iter().filter(|sent| sent.session >= self.over) {
            let settled = sent.told.is_some() || !sent.notify;
            let arrived = sent.received || sent.may_be_void(now);
            assert!(settled && arrived, "seed {seed}: {sent:?} at the end");
        }
        assert_eq!(self.engine.next_timeout(), None, "seed {seed}");
        self.engine.close(now, SECOND);
        self.turn();
        assert!(self.engine.is_closed(), "seed {seed}");
        self.read(u64::MAX);
    }
}

#[test]
fn a_program_is_told_the_truth_about_messages_to_itself() {
    let (mut messages, mut received, mut ends) = (0, 0, 0);
    for seed in 1..=RUNS {
        let mut model = Model::new(seed);
        for _ in 0..STEPS {
            model.act();
        }
        model.finish();
        messages += model.sent.len();
        received += model.sent.iter().filter(|sent| sent.received).count();
        ends += model.ends;
    }
    println!("figure: {received} of {messages} messages to itself received, {ends} sessions ended");
    assert!(received > messages / 4 && ends > RUNS, "too little happens");
}
