//! Ladders: one sender that always has something to send, over links that differ by one step from
//! their neighbours. Goodput must fall gently from rung to rung: a cliff between two of them is a
//! fault of the controller.

use suci_proto::time::Duration;
use suci_proto::{Config, ControllerChoice};

use crate::options::Options;
use crate::oracle::Spec;
use crate::scheduler::Scheduler;
use crate::workload::Sent;
use crate::world::{Failure, World};

/// How often the sender is offered more messages: it queues more than any path takes meanwhile.
const OFFER_EVERY: Duration = Duration::from_micros(500);

/// Length of a message in bytes.
const MESSAGE: u64 = 65_536;

/// One link and the traffic over it.
#[derive(Clone, Copy, Debug)]
pub struct Rung {
    /// Loss in parts per million of packets, in each direction.
    pub loss: u32,
    /// Least round trip of the path.
    pub round_trip: Duration,
    /// Rate of the link in bytes per second.
    pub rate: u64,
    /// Longest queue at that rate.
    pub queue: Duration,
    /// Receive buffer of each end in bytes, as the kernel charges.
    pub recv_buffer: u64,
    /// How busy both hosts are; `None` if their processes run whenever they want.
    pub scheduler: Option<Scheduler>,
    /// Controller of the sender.
    pub controller: ControllerChoice,
}

impl Rung {
    /// Returns a link of 1 Gbit/s with 4 ms of queue, and the largest receive buffer in use.
    #[must_use]
    pub fn gigabit(loss: u32, round_trip: Duration, controller: ControllerChoice) -> Self {
        Self {
            loss,
            round_trip,
            rate: 125_000_000,
            queue: Duration::from_millis(4),
            recv_buffer: 8 << 20,
            scheduler: None,
            controller,
        }
    }

    /// Bits per second that the receiver's program gets in the first `time` of a connection.
    ///
    /// # Errors
    /// The promise that broke.
    pub fn goodput(&self, seed: u64, time: Duration) -> Result<u64, Failure> {
        let mut world = self.world(seed);
        let end = world.now + time;
        let message = Spec {
            to: 2,
            channel: 0,
            length: MESSAGE,
            header: 0,
            kind: 128,
            tagged: false,
            notify: false,
            twin: false,
            deadline: None,
            cancel: None,
        };
        while world.now < end {
            // Until the engine has room for no more.
            while let Some((Sent::Accepted, _)) = world.send(0, message)? {}
            world.run_for(OFFER_EVERY)?;
        }
        let bits = u128::from(world.oracle.bytes()) * 8 * 1_000_000_000;
        Ok(u64::try_from(bits / time.as_nanos().max(1)).unwrap_or(u64::MAX))
    }

    fn world(&self, seed: u64) -> World {
        let mut options = Options::quiet(2);
        options.seed = seed;
        options.recv_buffer = self.recv_buffer;
        options.links.jitter = Duration::from_nanos(1);
        options.links.latency = self.round_trip / 2;
        options.links.rate = Some(self.rate);
        options.links.queue = self.queue;
        options.faults.loss = self.loss;
        options.computes = false;
        options.schedulers = vec![self.scheduler];
        options.configs = vec![Config {
            controller: self.controller,
            ..Config::default()
        }];
        let mut world = World::new(options, false);
        // Pairs differ in latency by their seed; rungs shall not.
        let drawn = world.network.round_trip(0, 1);
        world.network.links.latency = self
            .round_trip
            .mul_f64(0.5 * self.round_trip.as_secs_f64() / drawn.as_secs_f64());
        world
    }
}

/// The slowest, the median and the quickest of several seeds.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// Bits per second of the slowest.
    pub least: u64,
    /// Goodput of the median seed.
    pub median: u64,
    /// Goodput of the quickest seed.
    pub most: u64,
}

impl Spread {
    /// Sorts the figures of all seeds; all are 0 if there is none.
    #[must_use]
    pub fn of(mut figures: Vec<u64>) -> Self {
        figures.sort_unstable();
        let median = figures.get(figures.len() / 2).copied().unwrap_or(0);
        Self {
            least: figures.first().copied().unwrap_or(0),
            median,
            most: figures.last().copied().unwrap_or(0),
        }
    }
}
