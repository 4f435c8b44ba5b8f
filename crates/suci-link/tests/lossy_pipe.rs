//! Two links over a pipe that loses packets carry numbers, and nothing else of Suci takes part.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use suci_link::arrival::Arrival;
use suci_link::congestion::ControllerChoice;
use suci_link::link::{
    Agreed, Cargo, Consignee, End, Fate, Held, Link, LinkSettings, Numbers, Recorded, Written,
};
use suci_link::recovery::{Content, Recovery};
use suci_link::time::{Duration, Instant};
use suci_link::train::Train;
use suci_link::types::{ChannelId, Ecn, ProtocolError};
use suci_link::wire::{self, ContiguousPackets, Credit, Frame, Mode, Params};

type Sent = Recorded<Number>;

const COUNT: u64 = 20_000;
const LATENCY: Duration = Duration::from_millis(2);

/// The numbers to send, and those that came.
#[derive(Default)]
struct Load {
    unsent: VecDeque<u64>,
    arrived: BTreeSet<u64>,
    random: u64,
}

/// A number that a packet carried.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Number(u64);

impl Content for Number {}
impl Fate<Number> for Load {
    fn acked(&mut self, _: &Number) {}

    fn lost(&mut self, number: &Number) {
        self.unsent.push_back(number.0);
    }
}

impl Cargo<Number> for Load {
    type Wait = Held;

    fn is_sendable(&mut self) -> bool {
        !self.unsent.is_empty()
    }

    fn write(&mut self, size: usize, train: &mut Train, sent: &mut Vec<Sent>) -> Written {
        while let Some(&limit) = self.unsent.front() {
            let channel = ChannelId(0);
            let frame = Frame::MaxChannel { channel, limit };
            if train.packet_len() + frame.size() > size {
                break;
            }
            frame.put(train.head());
            sent.push(Recorded::Cargo(Number(limit)));
            self.unsent.pop_front();
        }
        Written::default()
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005) + 1;
        self.random >> 16
    }
}

impl Consignee<Number> for Load {
    fn on_frame(&mut self, frame: &Frame<'_>) -> Result<(), ProtocolError> {
        if let Frame::MaxChannel { limit, .. } = frame {
            self.arrived.insert(*limit);
        }
        Ok(())
    }
}

/// Connects one end, whose numbers end in `own`, with the other.
fn link(own: u64, other: u64) -> Link<Number> {
    let end = |tag| End { index: 0, tag };
    let agreed = Agreed {
        local: end(own),
        remote: end(other),
        params: Params::default(),
        grant: Credit {
            limit: 1 << 40,
            ..Credit::default()
        },
        answered: Instant::ZERO,
        first: 0,
        address: SocketAddr::from(([127, 0, 0, 1], 7_000)).into(),
        keys: None,
        numbers: Numbers::new(0, own),
        recovery: Recovery::new(0, LATENCY),
        mode: Mode::Adaptive,
    };
    let (controller, settings) = (ControllerChoice::default(), LinkSettings::default());
    Link::new(agreed, controller, settings, Instant::ZERO)
}

/// Sends all that may go now; returns the datagrams that the pipe does not lose.
fn transmit(now: Instant, link: &mut Link<Number>, load: &mut Load) -> Vec<Vec<u8>> {
    let (mut train, mut frames, mut sent) = (Train::default(), Vec::new(), Vec::new());
    link.on_timeout(now, true, load);
    loop {
        link.fill(now, 16, false, load, &mut train, &mut frames);
        if !train.is_pending() {
            break sent;
        }
        while let Some(packet) = train.view(1) {
            let datagram = packet.slices().collect::<Vec<_>>().concat();
            train.taken(1);
            if !load.random().is_multiple_of(10) {
                sent.push(datagram);
            }
        }
    }
}

#[test]
fn numbers_arrive_over_a_pipe_that_loses_a_tenth() {
    let mut ends = [(1, 2), (2, 1)].map(|(own, other)| (link(own, other), Load::default()));
    ends[0].1.unsent = (0..COUNT).collect();
    let (mut now, mut pipe) = (Instant::ZERO, VecDeque::new());
    while (ends[1].1.arrived.len() as u64) < COUNT {
        for (at, (link, load)) in ends.iter_mut().enumerate() {
            let sent = transmit(now, link, load).into_iter();
            pipe.extend(sent.map(|datagram| (now + LATENCY, 1 - at, datagram)));
        }
        let deadlines = [ends[0].0.deadline(), ends[1].0.deadline()];
        let arrives = pipe.front().map(|(at, _, _)| *at);
        now = now.max(deadlines.into_iter().chain(arrives).min().unwrap_or(now));
        assert!(now < Instant::ZERO + Duration::from_secs(20), "at {now:?}");
        while let Some((_, at, datagram)) = pipe.pop_front_if(|(at, _, _)| *at <= now) {
            let (link, load) = &mut ends[at];
            let arrival = Arrival {
                from: link.path.address(),
                to: None,
                ecn: Ecn::NotEct,
                at: now,
            };
            let number = wire::open(&datagram).map_or(u64::MAX, |(header, _)| header.number);
            let is_newest = link.received.highest() < Some(number);
            let mut packets = ContiguousPackets::new(number, &datagram, &[]);
            let (_, taken) = link.receive(now, &arrival, is_newest, &mut packets, load);
            taken.unwrap();
        }
    }
}
