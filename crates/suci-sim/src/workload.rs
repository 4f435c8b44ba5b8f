//! The messages that simulated programs send, and their times.

use std::collections::VecDeque;

use suci_proto::time::{Duration, Instant, nanos};

use crate::content::MAX_PAYLOAD;
use crate::options::{Options, Traffic};
use crate::oracle::Spec;
use crate::packet::HostId;
use crate::rng::Rng;

/// The wait before a message that the engine refused is offered again.
const RETRY: Duration = Duration::from_millis(3);

/// How many of its last messages a program may cancel.
pub(crate) const RECENT: u8 = 16;

/// The kind of messages that answer others.
const ANSWER: u8 = 129;

/// Returns the nodes that a host's program talks to: its own may be one of them.
pub(crate) fn targets(options: &Options, nodes: &[u32], host: HostId, rng: &mut Rng) -> Vec<u32> {
    let own = nodes.get(host).copied();
    let mut others: Vec<u32> = nodes
        .iter()
        .take(options.nodes)
        .copied()
        .filter(|node| Some(*node) != own)
        .collect();
    if options.traffic.to_first {
        others.retain(|node| Some(node) == nodes.first());
    }
    while others.len() > options.traffic.fan_out {
        let drop = rng.index(0, others.len());
        others.swap_remove(drop);
    }
    // Numbers of their own: what else a seed draws stays.
    let mut itself = Rng::new(options.seed, 0x2000 + host as u64);
    if !options.traffic.to_first && itself.chance(options.traffic.to_itself) {
        others.extend(own);
    }
    others
}

/// The messages from one program to one node.
#[derive(Debug)]
struct Flow {
    to: u32,
    left: u32,
    next_at: Instant,
    pending: Option<Spec>,
    huge: bool,
    /// The message to repeat next, and how many times more.
    sequence: Option<(Spec, u64)>,
}

/// The plan of one program. It outlives its process: a successor continues it.
#[derive(Debug)]
pub struct Workload {
    flows: Vec<Flow>,
    traffic: Traffic,
    rng: Rng,
    replies: VecDeque<(u32, u32)>,
    stopped: bool,
}

/// The result of `send` for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The message has a number.
    Accepted,
    /// The message may be accepted later.
    Blocked,
    /// The message is never accepted.
    Refused,
}

impl Workload {
    /// Returns a program that talks to `targets`.
    #[must_use]
    pub fn new(seed: u64, host: usize, targets: &[u32], traffic: Traffic, start: Instant) -> Self {
        let mut rng = Rng::new(seed, 0x1000 + host as u64);
        let gap = nanos(traffic.gap);
        let flows = targets
            .iter()
            .map(|&to| Flow {
                to,
                left: traffic.messages,
                next_at: start + Duration::from_nanos(rng.range(0, gap.max(1))),
                pending: None,
                huge: traffic.huge_first,
                sequence: None,
            })
            .filter(|flow| flow.left > 0)
            .collect();
        Self {
            flows,
            traffic,
            rng,
            replies: VecDeque::new(),
            stopped: false,
        }
    }

    /// Says no more by itself; one last message goes to every node that it talks to, so that each
    /// connection is shown to be usable.
    pub fn wind_up(&mut self, now: Instant) {
        self.stopped = true;
        self.traffic.withdraw = 0;
        self.replies.clear();
        for flow in &mut self.flows {
            flow.left = 1;
            flow.pending = None;
            flow.huge = false;
            flow.sequence = None;
            flow.next_at = now;
        }
    }

    /// Starts the program of a new process, which sends at once.
    pub fn start_anew(&mut self, now: Instant) {
        for flow in &mut self.flows {
            flow.left = flow.left.max(1);
            flow.pending = None;
            flow.sequence = None;
            flow.next_at = now;
        }
    }

    /// Returns the nodes that it sends to.
    pub fn targets(&self) -> impl Iterator<Item = u32> + '_ {
        self.flows.iter().map(|flow| flow.to)
    }

    /// Notes a received message: some are answered, answers never.
    pub fn received(&mut self, from: u32, channel: u32, kind: u8) {
        if !self.stopped && kind != ANSWER && self.rng.chance(self.traffic.reply) {
            self.replies.push_back((from, channel));
        }
    }

    /// Returns true if an incoming message is refused.
    pub fn refuses(&mut self) -> bool {
        !self.stopped && self.rng.chance(self.traffic.refuse)
    }

    /// Draws a number from the program's own stream.
    pub fn draw(&mut self, low: u64, high: u64) -> u64 {
        self.rng.range(low, high)
    }

    /// Returns the time at which it wants to send next.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        let replies = (!self.replies.is_empty()).then_some(Instant::ZERO);
        self.flows
            .iter()
            .filter(|flow| flow.left > 0)
            .map(|flow| flow.next_at)
            .chain(replies)
            .min()
    }

    /// Offers everything that is due.
    pub fn run<E>(
        &mut self,
        now: Instant,
        mut send: impl FnMut(Spec) -> Result<Sent, E>,
    ) -> Result<(), E> {
        while let Some((to, channel)) = self.replies.pop_front() {
            let length = self.rng.range(0, 100);
            let spec = Spec {
                to,
                channel,
                length,
                header: 0,
                kind: ANSWER,
                tagged: true,
                notify: false,
                twin: false,
                deadline: None,
                cancel: None,
            };
            // An answer that finds no room is dropped: a program must not wait for its own reader.
            send(spec)?;
        }
        let Self {
            flows,
            traffic,
            rng,
            ..
        } = self;
        for flow in flows
            .iter_mut()
            .filter(|flow| flow.left > 0 && flow.next_at <= now)
        {
            let burst = rng.range(1, u64::from(traffic.burst) + 1);
            let mut wait = Duration::from_nanos(rng.scale(1_000, nanos(traffic.gap).max(2_000)));
            for _ in 0..burst.min(u64::from(flow.left)) {
                let spec = flow
                    .pending
                    .take()
                    .unwrap_or_else(|| draw(rng, traffic, flow));
                match send(spec)? {
                    Sent::Accepted => {
                        flow.left -= 1;
                        flow.huge = false;
                    }
                    Sent::Blocked => {
                        flow.pending = Some(spec);
                        wait = RETRY;
                        break;
                    }
                    Sent::Refused => {
                        flow.left -= 1;
                        wait = RETRY * 10;
                        break;
                    }
                }
            }
            flow.next_at = now + wait;
        }
        Ok(())
    }
}

/// Returns true if a message has a deadline, or cancels another.
fn withdraw(rng: &mut Rng, traffic: &Traffic) -> bool {
    traffic.withdraw > 0 && rng.chance(traffic.withdraw)
}

/// Draws the next message. Now and then it begins a sequence of messages that are alike, which the
/// library keeps as one while they wait.
fn draw(rng: &mut Rng, traffic: &Traffic, flow: &mut Flow) -> Spec {
    if let Some((spec, left)) = flow.sequence.take_if(|(_, left)| *left > 0) {
        flow.sequence = Some((spec, left - 1));
        return spec;
    }
    let total: u32 = traffic.sizes.iter().map(|(weight, ..)| weight).sum();
    let mut at = rng.range(0, u64::from(total.max(1)));
    let mut range = (0, 0);
    for &(weight, low, high) in &traffic.sizes {
        range = (low, high);
        if at < u64::from(weight) {
            break;
        }
        at -= u64::from(weight);
    }
    let largest = traffic
        .sizes
        .iter()
        .map(|(.., high)| *high)
        .max()
        .unwrap_or(0);
    let length = if flow.huge {
        largest
    } else {
        rng.range(range.0, range.1 + 1)
    };
    let header = if rng.chance(50_000) {
        rng.range(1, 256)
    } else {
        0
    };
    let kind = if rng.chance(100_000) {
        rng.range(130, 256)
    } else {
        128
    };
    let spec = Spec {
        to: flow.to,
        channel: u32::try_from(rng.range(0, u64::from(traffic.channels.max(1)))).unwrap_or(0),
        length: length.min(MAX_PAYLOAD),
        header: u8::try_from(header).unwrap_or(u8::MAX),
        kind: u8::try_from(kind).unwrap_or(u8::MAX),
        tagged: rng.chance(700_000),
        notify: rng.chance(traffic.notify),
        twin: false,
        deadline: withdraw(rng, traffic)
            .then(|| Duration::from_nanos(rng.scale(1_000, 3_000_000_000))),
        cancel: withdraw(rng, traffic)
            .then(|| u8::try_from(rng.scale(1, u64::from(RECENT))).unwrap_or(1) - 1),
    };
    if spec.tagged || spec.header > 0 || flow.huge || !rng.chance(150_000) {
        return spec;
    }
    let twin = Spec {
        twin: true,
        deadline: None,
        cancel: spec.cancel.filter(|_| rng.chance(100_000)),
        ..spec
    };
    flow.sequence = Some((twin, rng.range(1, 40)));
    twin
}
