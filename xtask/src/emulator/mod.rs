//! A link emulator: two hosts (network namespaces) joined by a thread that reads packets from the
//! TUN device of one and writes them to that of the other. Real nodes and real TCP share the link.
//!
//! The link delays, limits, drops, reorders, duplicates, marks and translates packets as a [`Link`]
//! says, which may change at any time. Delays are exact from below: a packet never arrives earlier
//! than its link says. It may arrive later, when the machine has much else to do.
//!
//! ```no_run
//! use std::time::Duration;
//! use xtask::emulator::{Direction, Emulator, Link, Loss};
//! let slow = Direction {
//!     delay: Duration::from_millis(10),
//!     rate: Some(100_000_000),
//!     queue: Some(50_000),
//!     ..Direction::default()
//! };
//! let emulator = Emulator::start(&Link::symmetric(slow.clone()))?;
//! let mut server = emulator.pair().b.command("suci");
//! // From the third second on, one packet in a hundred is lost towards `b`.
//! let to_b = Direction { loss: Loss::Even(0.01), ..slow.clone() };
//! let lossy = Link { to_b, ..Link::symmetric(slow) };
//! emulator.change_at(Duration::from_secs(3), &lossy)?;
//! # Ok::<(), xtask::Failure>(())
//! ```

mod ip;
mod link;
mod pipe;
mod tun;

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub use link::{Alias, Direction, Ecn, Link, Loss, Reorder, SizeLimit};
pub use pipe::Counts;

use crate::error::{Context, Failure, Result};
use crate::netns::Pair;
use pipe::Pipe;

/// Packets read from one device before the other has its turn.
const BATCH: usize = 64;

/// Longest sleep: new orders are looked for this often.
const SLEEP: Duration = Duration::from_millis(5);

/// A priority above that of programs that are measured on the link: a late link would look like a
/// slow one.
const PRIORITY: i32 = 2;

/// The longest IP packet.
const LONGEST: usize = 65_535;

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// From `a` to `b`.
    ToB,
    /// From `b` to `a`.
    ToA,
}

/// The end of the link that a packet passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The packet was read from the sending host.
    Enters,
    /// The packet is about to be handed to the receiving host.
    Leaves,
}

/// A packet that passes one end of the link.
#[derive(Clone, Copy, Debug)]
pub struct Passage<'a> {
    /// When: not before the host sent it, and not after the other host receives it.
    pub at: Instant,
    /// The direction.
    pub way: Way,
    /// The end.
    pub stage: Stage,
    /// The IP packet.
    pub packet: &'a [u8],
}

/// Is shown every packet at both ends of the link, in the emulator's thread.
type Observer = Box<dyn FnMut(Passage<'_>) + Send>;

/// Counts of packets by their fate, in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// From `a` to `b`.
    pub to_b: Counts,
    /// From `b` to `a`.
    pub to_a: Counts,
}

/// A link that is to hold from a time on.
type Order = (Duration, Link);

/// Two hosts and the thread between them. All of it goes away when this is dropped.
pub struct Emulator {
    orders: Option<SyncSender<Order>>,
    thread: Option<JoinHandle<()>>,
    totals: Arc<Mutex<Totals>>,
    // The namespaces go last: the thread holds their devices.
    pair: Pair,
}

impl Emulator {
    /// Two new hosts with `link` between them.
    ///
    /// # Errors
    /// Not root, or the kernel refuses namespaces or TUN devices.
    pub fn start(link: &Link) -> Result<Self> {
        Self::observed(link, |_| {})
    }

    /// As [`Emulator::start`]; `observer` sees every packet.
    ///
    /// # Errors
    /// As for [`Emulator::start`].
    pub fn observed(
        link: &Link,
        observer: impl FnMut(Passage<'_>) + Send + 'static,
    ) -> Result<Self> {
        let (pair, devices) = Pair::joined_by(tun::open)?;
        let totals = Arc::default();
        // A sender waits until the thread has taken its order.
        let (orders, taken) = sync_channel(0);
        let hosts = [pair.a_addr(), pair.b_addr()];
        let mut worker = Worker {
            begun: Instant::now(),
            devices,
            hosts,
            link: Link::default(),
            pipes: [Pipe::new(1), Pipe::new(2)],
            observer: Box::new(observer),
            orders: taken,
            changes: Vec::new(),
            totals: Arc::clone(&totals),
        };
        worker.apply(link.clone());
        let thread = thread::Builder::new().name("emulator".into());
        let thread = thread.spawn(move || worker.run())?;
        Ok(Self {
            orders: Some(orders),
            thread: Some(thread),
            totals,
            pair,
        })
    }

    /// The two hosts. Their interface is a TUN device with an MTU of 1500 bytes.
    #[must_use]
    pub fn pair(&self) -> &Pair {
        &self.pair
    }

    /// The link is `link` for packets that enter after this returns. Waits a few milliseconds.
    ///
    /// # Errors
    /// The emulator's thread has ended, which only a failure of a device does.
    pub fn change(&self, link: &Link) -> Result<()> {
        self.change_at(Duration::ZERO, link)
    }

    /// The link is `link` from `at` on, a time since the start. Changes whose time has come apply
    /// at once. Waits a few milliseconds.
    ///
    /// # Errors
    /// As [`Emulator::change`].
    pub fn change_at(&self, at: Duration, link: &Link) -> Result<()> {
        let orders = self.orders.as_ref().context("the emulator was dropped")?;
        let sent = orders.send((at, link.clone()));
        sent.map_err(|_| Failure::new("the emulator has ended"))
    }

    /// Counts of packets by their fate, at most a few milliseconds old.
    #[must_use]
    pub fn totals(&self) -> Totals {
        *self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Emulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emulator")
            .field("pair", &self.pair)
            .field("totals", &self.totals())
            .finish_non_exhaustive()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // Without a sender the thread ends.
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            // The thread panics only if an observer does, which its owner sees.
            let _ = thread.join();
        }
    }
}

/// The state of the thread. Index 0 is `a` and the way to `b`, index 1 the other.
struct Worker {
    begun: Instant,
    devices: [File; 2],
    hosts: [Ipv4Addr; 2],
    link: Link,
    pipes: [Pipe; 2],
    observer: Observer,
    orders: Receiver<Order>,
    /// Links to come, the next one last.
    changes: Vec<Order>,
    totals: Arc<Mutex<Totals>>,
}

impl Worker {
    fn run(mut self) {
        be_punctual(PRIORITY);
        let mut buffer = vec![0; LONGEST];
        loop {
            match self.orders.try_recv() {
                Ok(order) => {
                    // Of two changes at one time, the first one ordered applies first.
                    let place = self.changes.partition_point(|(at, _)| *at > order.0);
                    self.changes.insert(place, order);
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return,
            }
            while let Some((_, link)) = self.changes.pop_if(|(at, _)| *at <= self.begun.elapsed()) {
                self.apply(link);
            }
            for from in [0, 1] {
                if self.read(from, &mut buffer).is_err() {
                    return;
                }
                self.deliver();
            }
            let [to_b, to_a] = [0, 1].map(|way: usize| self.pipes[way].counts);
            *self.totals.lock().unwrap_or_else(PoisonError::into_inner) = Totals { to_b, to_a };
            self.sleep();
        }
    }

    fn apply(&mut self, link: Link) {
        self.pipes[0].change(link.to_b.clone());
        self.pipes[1].change(link.to_a.clone());
        self.link = link;
    }

    /// Takes some packets that host `from` has sent.
    fn read(&mut self, from: usize, buffer: &mut [u8]) -> std::io::Result<()> {
        for _ in 0..BATCH {
            let length = match self.devices[from].read(buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            // After reading: the delay begins when the packet was surely sent.
            let at = Instant::now();
            let packet = &buffer[..length];
            self.show(at, from, Stage::Enters, packet);
            let now = at.duration_since(self.begun);
            if let Some(reply) = self.pipes[from].enter(now, packet.to_vec()) {
                // The router's packet has no delay: it may stand beside the sender.
                let _ = self.devices[from].write(&reply);
            }
        }
        Ok(())
    }

    /// Hands on packets that have arrived by now, both ways.
    fn deliver(&mut self) {
        for from in [0, 1] {
            let now = self.begun.elapsed();
            while let Some(mut packet) = self.pipes[from].leave(now) {
                if !self.translate(from, &mut packet) {
                    self.pipes[from].counts.unroutable += 1;
                    continue;
                }
                self.show(Instant::now(), from, Stage::Leaves, &packet);
                let written = self.devices[1 - from].write(&packet);
                let counts = &mut self.pipes[from].counts;
                match written {
                    Ok(_) => counts.delivered += 1,
                    Err(_) => counts.refused += 1,
                }
            }
        }
    }

    /// Passes the translators of both ends; returns false if no host has the destination.
    fn translate(&self, from: usize, packet: &mut [u8]) -> bool {
        let aliases = [self.link.alias_of_a, self.link.alias_of_b];
        if let Some(alias) = aliases[from] {
            ip::translate_source(packet, alias);
        }
        let to = 1 - from;
        aliases[to].is_none_or(|alias| ip::translate_destination(packet, alias, self.hosts[to]))
    }

    fn show(&mut self, at: Instant, from: usize, stage: Stage, packet: &[u8]) {
        let way = if from == 0 { Way::ToB } else { Way::ToA };
        (self.observer)(Passage {
            at,
            way,
            stage,
            packet,
        });
    }

    /// Until there is a packet to read, one to hand on, or a change.
    fn sleep(&self) {
        let dues = self.pipes.iter().filter_map(Pipe::next_due);
        let changes = self.changes.last().map(|(at, _)| *at);
        let next = dues.chain(changes).min();
        let now = self.begun.elapsed();
        let time = next.map_or(SLEEP, |next| next.saturating_sub(now).min(SLEEP));
        let mut waits = [0, 1].map(|at: usize| libc::pollfd {
            fd: self.devices[at].as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        });
        let timeout = libc::timespec {
            tv_sec: 0,
            tv_nsec: libc::c_long::from(time.subsec_nanos().cast_signed()),
        };
        // SAFETY: two valid entries, a valid time below a second, and no signal mask. Whatever the
        // call returns, the next round looks at everything.
        unsafe { libc::ppoll(waits.as_mut_ptr(), 2, &raw const timeout, std::ptr::null()) };
    }
}

/// Has the kernel run this thread, and threads that it starts, before ordinary ones, and wake it
/// exactly when it asked for; of two such threads the one of the higher `priority` (1 to 99) runs.
/// Without the right to that the link is later than it says, under load.
///
/// Programs that are compared with TCP on an emulated link need it, too: TCP is the kernel's and
/// does its work in the emulator's thread.
pub fn be_punctual(priority: i32) {
    let param = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: both calls concern this thread only; the parameter outlives its call.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        libc::sched_setscheduler(0, libc::SCHED_RR, &raw const param);
    }
}
