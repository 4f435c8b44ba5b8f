//! Flows over one bottleneck: a drop-tail queue, a rate, a round trip, random losses, and hosts
//! that are slow to run, in virtual time.

use crate::congestion::{AckSample, Cause, CongestionEvent, Controller};
use crate::pacer::Pacer;
use crate::recovery::{AckDelays, RateSample, Rtt};
use crate::time::{Duration, Instant, nanos};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub(super) const MTU: u64 = 1_472;
/// Receivers wait this long for more to acknowledge.
const ACK_DELAY: Duration = Duration::from_millis(1);
/// Packets after which receivers wait no longer.
const ACK_EVERY: usize = 8;

/// The bottleneck.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Link {
    /// Bytes per second.
    pub(super) rate: u64,
    /// Round trip without any queue.
    pub(super) rtt: Duration,
    /// Packets that wait at most.
    pub(super) queue: u64,
    /// Packets waiting from which on arrivals are marked instead (RFC 3168); more than `queue`
    /// for never.
    pub(super) mark: u64,
    /// One in this many packets is lost at random; 0: none.
    pub(super) lose_one_in: u64,
    /// One in 64 acknowledgements is handled late by up to this, as by a process that was not
    /// scheduled.
    pub(super) stall: Duration,
    /// Each packet and each acknowledgement takes up to this longer; none overtakes another.
    pub(super) jitter: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) dropped: u64,
    pub(super) delivered: u64,
    pub(super) marked: u64,
    /// Sum of the waiting times of its packets in the queue, in nanoseconds.
    pub(super) waited: u64,
}

impl Counts {
    /// The mean waiting time of a packet in the queue.
    pub(super) fn queue(&self) -> Duration {
        Duration::from_nanos(self.waited / (self.sent - self.dropped).max(1))
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Start,
    Arrive {
        number: u64,
        marked: bool,
        ask: bool,
    },
    /// The receiver acknowledges its `nth` batch at last.
    Flush {
        nth: u64,
    },
    Ack {
        numbers: Vec<u64>,
        delay: Duration,
        marked: bool,
    },
    Wake,
    Timeout,
}

/// A packet in flight, and the state of rate measurement when it left.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    number: u64,
    sent_at: Instant,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
}

#[derive(Debug)]
struct Flow {
    controller: Box<dyn Controller>,
    pacer: Pacer,
    rtt: Rtt,
    /// Packets in flight, by ascending numbers.
    flight: VecDeque<InFlight>,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// Bytes sent since a packet last asked for an acknowledgement.
    since_ping: u64,
    /// When its last acknowledgement is handled.
    handled_at: Instant,
    next: u64,
    asleep_until: Option<Instant>,
    /// When something was last acknowledged.
    progress_at: Instant,
    timer_runs: bool,
    /// Received, not yet acknowledged.
    waiting: Vec<u64>,
    /// When the last packet that is under way arrives.
    arrives_at: Instant,
    last_arrival: Instant,
    batch: u64,
    marked: bool,
    /// Bytes left to send; most flows never end.
    data: u64,
    counts: Counts,
}

impl Flow {
    fn in_flight(&self) -> u64 {
        self.flight.len() as u64 * MTU
    }
}

#[derive(Debug)]
pub(super) struct Sim {
    link: Link,
    now: Instant,
    /// When the link will have sent all queued packets.
    free_at: Instant,
    flows: Vec<Flow>,
    events: BinaryHeap<Reverse<(Instant, u64, usize, Event)>>,
    serial: u64,
    chance: u64,
}

impl Sim {
    pub(super) fn new(link: Link) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        Self {
            link,
            now,
            free_at: now,
            flows: Vec::new(),
            events: BinaryHeap::new(),
            serial: 0,
            chance: 88_172_645_463_325_252,
        }
    }

    /// Adds a flow that begins `after` now and has `data` bytes to send.
    pub(super) fn add(&mut self, controller: Box<dyn Controller>, after: Duration, data: u64) {
        let begin = self.now + after;
        self.flows.push(Flow {
            controller,
            pacer: Pacer::new(begin, MTU as usize),
            rtt: Rtt::new(Duration::from_millis(100)),
            flight: VecDeque::new(),
            delivered: 0,
            delivered_at: begin,
            first_sent_at: begin,
            since_ping: 0,
            handled_at: begin,
            next: 0,
            asleep_until: None,
            progress_at: begin,
            timer_runs: false,
            waiting: Vec::new(),
            arrives_at: begin,
            last_arrival: begin,
            batch: 0,
            marked: false,
            data,
            counts: Counts::default(),
        });
        self.at(begin, self.flows.len() - 1, Event::Start);
    }

    /// Runs for `time` and returns the counts of each flow meanwhile.
    pub(super) fn run(&mut self, time: Duration) -> Vec<Counts> {
        let before: Vec<_> = self.flows.iter().map(|flow| flow.counts).collect();
        let end = self.now + time;
        while let Some(Reverse(first)) = self.events.peek()
            && first.0 <= end
        {
            let Some(Reverse((now, _, flow, event))) = self.events.pop() else {
                break;
            };
            self.now = now;
            self.handle(flow, event);
        }
        self.now = end;
        let during = |(flow, before): (&Flow, Counts)| Counts {
            sent: flow.counts.sent - before.sent,
            dropped: flow.counts.dropped - before.dropped,
            delivered: flow.counts.delivered - before.delivered,
            marked: flow.counts.marked - before.marked,
            waited: flow.counts.waited - before.waited,
        };
        self.flows.iter().zip(before).map(during).collect()
    }

    /// The smoothed round trip of a flow.
    pub(super) fn smoothed(&self, flow: usize) -> Duration {
        self.flows[flow].rtt.smoothed()
    }

    pub(super) fn window(&self, flow: usize) -> u64 {
        self.flows[flow].controller.window()
    }

    pub(super) fn set_link(&mut self, link: Link) {
        self.link = link;
    }

    /// Tells a flow that its path changed.
    pub(super) fn change_path(&mut self, flow: usize) {
        self.flows[flow].controller.on_path_changed(MTU as usize);
    }

    /// A pseudorandom number (xorshift), the same in every run.
    fn random(&mut self) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance
    }

    /// A random time up to `most`.
    fn up_to(&mut self, most: Duration) -> Duration {
        if most.is_zero() {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.random() % nanos(most))
    }

    fn at(&mut self, time: Instant, flow: usize, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((time, self.serial, flow, event)));
    }

    fn handle(&mut self, flow: usize, event: Event) {
        match event {
            Event::Start | Event::Wake => {}
            Event::Arrive {
                number,
                marked,
                ask,
            } => return self.arrive(flow, number, marked, ask),
            Event::Flush { nth } if nth == self.flows[flow].batch => return self.acknowledge(flow),
            Event::Flush { .. } => return,
            Event::Ack {
                numbers,
                delay,
                marked,
            } => self.acked(flow, &numbers, delay, marked),
            Event::Timeout => self.timeout(flow),
        }
        self.send(flow);
    }

    fn send(&mut self, index: usize) {
        loop {
            let (now, flow) = (self.now, &mut self.flows[index]);
            if flow.in_flight() + MTU > flow.controller.window() || flow.data < MTU {
                break;
            }
            if let Some(rate) = flow.controller.pacing_rate(&flow.rtt)
                && flow.pacer.budget(now, rate) < MTU
            {
                let next = flow.pacer.next_time(now, rate, MTU);
                if flow.asleep_until.is_none_or(|until| until <= now) {
                    flow.asleep_until = Some(next);
                    self.at(next, index, Event::Wake);
                }
                return;
            }
            flow.pacer.consume(MTU);
            let number = flow.next;
            flow.next += 1;
            flow.data -= MTU;
            if flow.flight.is_empty() {
                flow.delivered_at = now;
                flow.first_sent_at = now;
            }
            flow.flight.push_back(InFlight {
                number,
                sent_at: now,
                delivered: flow.delivered,
                delivered_at: flow.delivered_at,
                first_sent_at: flow.first_sent_at,
            });
            let in_flight = flow.in_flight();
            flow.controller.on_sent(now, MTU, in_flight);
            flow.counts.sent += 1;
            let window = flow.controller.window();
            let ask = in_flight + MTU > window || flow.since_ping + MTU > window / 4;
            flow.since_ping = if ask { 0 } else { flow.since_ping + MTU };
            self.enqueue(index, number, ask);
        }
        let flow = &mut self.flows[index];
        if !flow.flight.is_empty() && !flow.timer_runs {
            flow.timer_runs = true;
            let timeout = self.now + flow.rtt.pto(ACK_DELAY) * 2;
            self.at(timeout, index, Event::Timeout);
        }
    }

    /// Handles two probe timeouts without an acknowledgement: the end of a flight was lost.
    fn timeout(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let last_sent = flow.flight.back().map_or(self.now, |packet| packet.sent_at);
        let timeout = flow.progress_at.max(last_sent) + flow.rtt.pto(ACK_DELAY) * 2;
        flow.timer_runs = timeout > self.now;
        if flow.timer_runs {
            self.at(timeout, index, Event::Timeout);
        } else {
            self.lose_below(index, u64::MAX);
        }
    }

    /// Puts a packet into the bottleneck's queue, if there is room.
    fn enqueue(&mut self, flow: usize, number: u64, ask: bool) {
        let delay = nanos(self.free_at.since(self.now));
        let waiting = u128::from(delay) * u128::from(self.link.rate);
        let waiting = (waiting / 1_000_000_000) as u64 / MTU;
        if waiting >= self.link.queue {
            self.flows[flow].counts.dropped += 1;
            return;
        }
        let marked = waiting >= self.link.mark;
        self.flows[flow].counts.marked += u64::from(marked);
        self.flows[flow].counts.waited += delay;
        let transmission = Duration::from_nanos(MTU * 1_000_000_000 / self.link.rate);
        self.free_at = self.free_at.max(self.now) + transmission;
        if self.link.lose_one_in > 0 && self.random().is_multiple_of(self.link.lose_one_in) {
            self.flows[flow].counts.dropped += 1;
            return;
        }
        let arrive = Event::Arrive {
            number,
            marked,
            ask,
        };
        let due = self.free_at + self.link.rtt / 2 + self.up_to(self.link.jitter);
        let due = due.max(self.flows[flow].arrives_at);
        self.flows[flow].arrives_at = due;
        self.at(due, flow, arrive);
    }

    fn arrive(&mut self, index: usize, number: u64, marked: bool, ask: bool) {
        let flow = &mut self.flows[index];
        flow.counts.delivered += 1;
        flow.waiting.push(number);
        flow.marked |= marked;
        flow.last_arrival = self.now;
        if ask || flow.waiting.len() >= ACK_EVERY {
            self.acknowledge(index);
        } else if flow.waiting.len() == 1 {
            let nth = flow.batch;
            self.at(self.now + ACK_DELAY, index, Event::Flush { nth });
        }
    }

    fn acknowledge(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        let ack = Event::Ack {
            numbers: core::mem::take(&mut flow.waiting),
            delay: self.now.since(flow.last_arrival),
            marked: core::mem::take(&mut flow.marked),
        };
        flow.batch += 1;
        let stalled = self.link.stall > Duration::ZERO && self.random().is_multiple_of(64);
        let stall = if stalled {
            self.up_to(self.link.stall)
        } else {
            Duration::ZERO
        };
        let late = stall + self.up_to(self.link.jitter);
        // A host that did not run handles the packets that came meanwhile when it runs again.
        let due = (self.now + self.link.rtt / 2 + late).max(self.flows[index].handled_at);
        self.flows[index].handled_at = due;
        self.at(due, index, ack);
    }

    fn acked(&mut self, index: usize, numbers: &[u64], delay: Duration, marked: bool) {
        let (now, flow) = (self.now, &mut self.flows[index]);
        let in_flight_before = flow.in_flight();
        let Some(&largest) = numbers.last() else {
            return;
        };
        let Ok(at) = flow
            .flight
            .binary_search_by_key(&largest, |packet| packet.number)
        else {
            return;
        };
        let newest = flow.flight[at];
        let sent_at = newest.sent_at;
        let sample = now.since(sent_at);
        let delays = AckDelays {
            local: Duration::ZERO,
            reported: delay,
            max: ACK_DELAY,
        };
        let path = flow.rtt.update(sample, delays);
        // Nothing is reordered: an older packet that is not acknowledged is lost, or soon will be.
        let mut holes = Vec::new();
        while let Some(packet) = flow.flight.front().copied()
            && packet.number <= largest
        {
            flow.flight.pop_front();
            if numbers.binary_search(&packet.number).is_err() {
                holes.push(packet);
            }
        }
        holes
            .into_iter()
            .rev()
            .for_each(|packet| flow.flight.push_front(packet));
        flow.progress_at = now;
        if marked {
            let in_flight = flow.in_flight();
            flow.controller.on_congestion(
                now,
                &CongestionEvent {
                    cause: Cause::Ecn,
                    bytes_lost: 0,
                    largest_lost_sent_at: sent_at,
                    persistent: false,
                    in_flight,
                    overlaps: false,
                },
            );
        }
        let bytes = in_flight_before - flow.in_flight();
        flow.delivered += bytes;
        flow.delivered_at = now;
        flow.first_sent_at = flow.first_sent_at.max(sent_at);
        let sending = sent_at.since(newest.first_sent_at);
        let interval = sending.max(now.since(newest.delivered_at));
        let rate = RateSample {
            delivered: flow.delivered - newest.delivered,
            interval,
            app_limited: false,
        };
        flow.controller.on_ack(
            now,
            &AckSample {
                bytes,
                in_flight_before,
                in_flight: flow.in_flight(),
                delivered: flow.delivered,
                largest_sent_at: sent_at,
                rtt: &flow.rtt,
                path,
                rate: (!interval.is_zero()).then_some(rate),
                app_limited: false,
                paced: flow.asleep_until.is_some_and(|until| until > now),
            },
        );
        self.lose_below(index, largest.saturating_sub(2));
    }

    /// Declares packets in flight with numbers below `number` lost.
    fn lose_below(&mut self, index: usize, number: u64) {
        let flow = &mut self.flows[index];
        let (mut lost, mut last) = (0, None);
        while let Some(packet) = flow.flight.front().copied()
            && packet.number < number
        {
            flow.flight.pop_front();
            lost += MTU;
            last = Some(packet);
        }
        let Some(InFlight {
            sent_at: largest_lost_sent_at,
            ..
        }) = last
        else {
            return;
        };
        let in_flight = flow.in_flight();
        flow.data += lost;
        flow.controller.on_congestion(
            self.now,
            &CongestionEvent {
                cause: Cause::Loss,
                bytes_lost: lost,
                largest_lost_sent_at,
                persistent: false,
                in_flight,
                overlaps: false,
            },
        );
    }
}
