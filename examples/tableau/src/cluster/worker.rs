//! A worker at work.

use std::time::{Duration, Instant};

use tableau::parallel::{HUB, Kind, Packet, Worker};

use super::counts::{self, RoundTrips};
use super::link::{Link, Received, malformed};
use super::{TICK, TURN};
use crate::Failure;
use crate::args::Args;
use crate::interrupt::Interrupts;

/// Expands states until the hub says that all is done.
pub(crate) fn work(args: &Args, workers: u32, interrupts: &Interrupts) -> Result<(), Failure> {
    let mut process = Process::new(Link::open(args, workers)?, workers);
    match process.run(interrupts) {
        Ok(()) => process.link.close(),
        Err(failure) => {
            process.link.stop(&failure);
            return Err(failure);
        }
    }
    Ok(())
}

struct Process {
    link: Link,
    worker: Worker,
    round_trips: RoundTrips,
    /// Time in which it had nothing to do.
    rested: Duration,
}

impl Process {
    fn new(link: Link, workers: u32) -> Self {
        let worker = Worker::new(link.node.id().0, workers);
        Self {
            link,
            worker,
            round_trips: RoundTrips::default(),
            rested: Duration::ZERO,
        }
    }

    fn run(&mut self, interrupts: &Interrupts) -> Result<(), Failure> {
        loop {
            interrupts.check()?;
            self.link.check()?;
            for _ in 0..TURN {
                let Some(message) = self.link.receive()? else {
                    break;
                };
                if message.kind == Kind::Bye && message.from == HUB {
                    return Ok(());
                }
                self.on(&message)?;
            }
            if self.link.is_clear()? && self.worker.work() {
                self.send()?;
                continue;
            }
            self.worker.rest();
            self.send()?;
            let begun = Instant::now();
            self.link.wait(TICK)?;
            self.rested += begun.elapsed();
        }
    }

    fn on(&mut self, message: &Received) -> Result<(), Failure> {
        let Received {
            from,
            kind,
            question,
            body,
        } = message;
        match kind {
            Kind::Count if *from == HUB => {
                let expanded = self.worker.expanded();
                let node = &self.link.node;
                let body = counts::told(node, expanded, self.rested, &self.round_trips)?;
                return self.link.send(Packet {
                    to: HUB,
                    kind: Kind::Counted,
                    question: *question,
                    body,
                });
            }
            Kind::Begin => self.round_trips.forget(),
            Kind::Numbers => self.round_trips.end(),
            _ => {}
        }
        let done = self.worker.on(*from, *kind, *question, body);
        done.map_err(|why| malformed(*from, *kind, &why))?;
        self.send()
    }

    fn send(&mut self) -> Result<(), Failure> {
        while let Some(packet) = self.worker.poll() {
            if packet.kind == Kind::Ask {
                self.round_trips.begin();
            }
            self.link.send(packet)?;
        }
        Ok(())
    }
}
