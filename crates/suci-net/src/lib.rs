//! Moves datagrams, knows no protocol.
//!
//! One trait, [`Backend`], and one module per way of moving bytes:
//!
//! * `udp` (Linux): the kernel fast path. Gathering `sendmsg` with segmentation offload, GRO,
//!   ECN, arrival times, and buffer sizes as the kernel charges them;
//! * `af_packet` (Linux): UDP datagrams in Ethernet frames of its own making;
//! * `af_xdp` (Linux): the same in memory shared with the kernel;
//! * [`udp_portable`]: what `std` and `socket2` offer on every system, one datagram per call;
//! * [`memory`]: a hub within the process, for tests and for programs without a network;
//! * [`fault`]: a wrapper around any backend that loses, duplicates, reorders, delays and corrupts
//!   packets, as a seed decides.
//!
//! A backend never blocks except in [`Backend::wait`] and [`Backend::recv_blocking`], never
//! allocates per packet in steady state, and reports everything that is not the caller's mistake as
//! a [`SendOutcome`] or a counter. An `Err` means that the backend itself is unusable (a closed
//! descriptor) or that the caller broke the contract of [`Train`].
//!
//! ```
//! use std::io::IoSlice;
//! use suci_net::{Backend, Ecn, SendOutcome, Train, memory::Hub};
//!
//! # fn main() -> std::io::Result<()> {
//! let hub = Hub::new(1 << 20);
//! let mut a = hub.endpoint("10.0.0.1:0".parse().expect("an address"))?;
//! let mut b = hub.endpoint("10.0.0.2:0".parse().expect("an address"))?;
//!
//! // Three datagrams of at most 1,000 bytes, gathered from two places.
//! let (head, body) = ([1; 16], [2; 2_400]);
//! let slices = [IoSlice::new(&head), IoSlice::new(&body)];
//! let train = Train {
//!     dest: b.local_addr(),
//!     source: None,
//!     ecn: Ecn::Ect0,
//!     segment: 1_000,
//!     slices: &slices,
//!     len: 2_416,
//! };
//! assert_eq!(a.send(&train)?, SendOutcome::Sent(3));
//!
//! b.wait(None, false)?;
//! let mut lengths = Vec::new();
//! b.recv(64, &mut |meta, bytes| {
//!     assert_eq!(meta.from, a.local_addr());
//!     lengths.extend(meta.datagrams(bytes).map(<[u8]>::len));
//! })?;
//! assert_eq!(lengths, [1_000, 1_000, 416]);
//! # Ok(())
//! # }
//! ```

#![deny(unsafe_op_in_unsafe_fn)]

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

#[cfg(target_os = "linux")]
pub mod af_packet;
#[cfg(target_os = "linux")]
pub mod af_xdp;
#[cfg(target_os = "linux")]
mod ethernet;
pub mod fault;
pub mod memory;
#[cfg(target_os = "linux")]
pub mod udp;
pub mod udp_portable;

mod report;
mod train;

pub use report::Report;
pub use train::TrainError;

/// Maximum number of segments in one train. Linux took 64 when `UDP_SEGMENT` was new (later kernels
/// take 128); asking for more would fail on the older ones, and 64 already fill a train of ordinary
/// packets.
pub const MAX_TRAIN_SEGMENTS: usize = 64;

/// Maximum number of bytes in one train or one datagram: an IPv4 total length of 65,535, less an IP
/// header of 20 and a UDP header of 8 bytes. The kernel builds a train as one such packet.
pub const MAX_TRAIN_BYTES: usize = 65_507;

/// Maximum number of slices in one train: `IOV_MAX` of Linux. Beyond it the kernel answers
/// `EMSGSIZE`, which would be mistaken for a path that shrank.
pub const MAX_SLICES: usize = 1024;

/// The abilities of a backend: asked once after opening, and again after [`SendOutcome::NoGso`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Maximum number of segments per train: 1 without segmentation offload, else at most
    /// [`MAX_TRAIN_SEGMENTS`].
    pub max_segments: usize,
    /// Whether the kernel hands up several datagrams at once.
    pub gro: bool,
    /// Whether ECN marks are sent and reported.
    pub ecn: bool,
    /// Whether the kernel reports [`Meta::arrived`].
    pub kernel_timestamps: bool,
    /// Receive buffer in bytes as the kernel charges them (`SO_RCVBUF` read back, on Linux the
    /// doubled value). Grant credit from this size, not from the size asked for.
    pub recv_buffer: usize,
    /// Send buffer in bytes, read back likewise.
    pub send_buffer: usize,
    /// Maximum time that [`Backend::recv_blocking`] sleeps; `None` where it does not sleep at all.
    pub block_limit: Option<Duration>,
}

/// One train: equal segments except the last, which may be shorter, to one destination.
///
/// Each segment becomes one datagram. `len` of 0 is one empty datagram.
#[derive(Debug, Clone, Copy)]
pub struct Train<'a> {
    /// The destination. IPv4 and IPv4-mapped IPv6 addresses mean the same.
    pub dest: SocketAddr,
    /// The address of this host to send from, as [`Meta::to`] reported it. If the socket no longer
    /// has it, or with `None`, the system chooses. Only the `udp` module uses it.
    pub source: Option<IpAddr>,
    /// Mark put on every segment.
    pub ecn: Ecn,
    /// Bytes per segment; the last one has the rest.
    pub segment: usize,
    /// The bytes of the whole train, in order, at most [`MAX_SLICES`] pieces cut anywhere.
    pub slices: &'a [IoSlice<'a>],
    /// Sum of the slices' lengths, at most [`MAX_TRAIN_BYTES`].
    pub len: usize,
}

/// The result of sending a train that passed the backend's checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum SendOutcome {
    /// Number of segments taken from the front of the train (at least one); the rest was not.
    Sent(usize),
    /// No room now (`EAGAIN`, `ENOMEM`; in [`udp_portable`] also `ENOBUFS`): keep the train and
    /// wait for writability. Not a loss. If the socket is writable at once, try a little later.
    Again,
    /// A segment exceeds the size that the path's first hop carries (`EMSGSIZE`): send smaller
    /// ones.
    TooBig,
    /// Segmentation offload was refused (`EIO`, `EINVAL`). Nothing was sent, `max_segments` is 1
    /// from now on, and the segments are to be sent singly.
    NoGso,
    /// The network refused (`ECONNREFUSED`, `ENETUNREACH`, `EPERM`, a destination this socket
    /// cannot reach). A hint, possibly about another peer: the train counts as sent and lost.
    Unreachable(io::ErrorKind),
}

/// The ECN field of the IP header (RFC 3168, section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Ecn {
    /// Not ECN-capable (00).
    #[default]
    NotEct,
    /// ECN-capable, ECT(0) (10).
    Ect0,
    /// ECN-capable, ECT(1) (01).
    Ect1,
    /// Congestion experienced (11).
    Ce,
}

impl Ecn {
    /// The mark in the two lowest bits of a traffic class byte; the others are ignored.
    #[must_use]
    pub const fn from_bits(traffic_class: u8) -> Self {
        match traffic_class & 0b11 {
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            0b11 => Self::Ce,
            _ => Self::NotEct,
        }
    }

    /// The two bits as they stand in the IP header.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0b00,
            Self::Ect1 => 0b01,
            Self::Ect0 => 0b10,
            Self::Ce => 0b11,
        }
    }
}

/// The properties of received datagrams, without their bytes. There may be several datagrams,
/// joined by the kernel; the properties hold for each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Sender. An IPv4-mapped address is given as the IPv4 address it stands for.
    pub from: SocketAddr,
    /// The address of this host that they were sent to. Only the `udp` module reports it, for a
    /// socket that is bound to a wildcard address.
    pub to: Option<IpAddr>,
    /// Mark it arrived with.
    pub ecn: Ecn,
    /// Time at which the kernel received it, by the wall clock, since 1970; `None` if unknown. To
    /// learn how long ago that was, read the clock once for many datagrams.
    pub arrived: Option<Duration>,
    /// Bytes of each datagram but the last, which may have fewer.
    pub segment: usize,
}

impl Meta {
    /// Splits `bytes`, which are all the datagrams together, into the datagrams.
    pub fn datagrams<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let empty = bytes.is_empty().then_some(bytes);
        empty.into_iter().chain(bytes.chunks(self.segment.max(1)))
    }
}

/// The result of [`Backend::wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ready {
    /// [`Backend::recv`] may find something.
    pub readable: bool,
    /// [`Backend::send`] may succeed. Only reported when asked for.
    pub writable: bool,
}

impl Ready {
    /// Whether there is anything to do.
    #[must_use]
    pub const fn any(self) -> bool {
        self.readable || self.writable
    }
}

/// Counts since the backend was opened. All count from 0; none is ever reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Calls that tried to send (system calls, or their equal in memory).
    pub send_calls: u64,
    /// Calls that tried to receive.
    pub recv_calls: u64,
    /// Calls that waited.
    pub wait_calls: u64,
    /// Datagrams handed to the network (each segment of a train counts).
    pub datagrams_sent: u64,
    /// Datagrams handed to the program.
    pub datagrams_received: u64,
    /// Payload bytes handed to the network.
    pub bytes_sent: u64,
    /// Payload bytes handed to the program.
    pub bytes_received: u64,
    /// Sends of more than one segment.
    pub trains_sent: u64,
    /// Receives that held more than one datagram.
    pub trains_received: u64,
    /// Datagrams dropped because they did not fit the receive slot, or their control data did not.
    pub truncated: u64,
    /// Datagrams dropped before the program could read them, mostly because the receive buffer
    /// was full. Linux keeps it in 32 bits, which wrap.
    pub recv_drops: u64,
    /// Bytes charged to the receive buffer when [`Backend::charged`] was last asked.
    pub recv_charged: u64,
    /// The most that it ever answered. (For several backends together: the sum of their values.)
    pub recv_charged_max: u64,
    /// Answers [`SendOutcome::Again`].
    pub again: u64,
    /// Answers [`SendOutcome::TooBig`].
    pub too_big: u64,
    /// Times segmentation offload was refused by the system (at most 1).
    pub gso_refused: u64,
    /// Answers [`SendOutcome::Unreachable`].
    pub unreachable: u64,
    /// Errors that the network reported to `recv` and that were swallowed as hints.
    pub recv_errors: u64,
    /// Faults made by a [`fault::Fault`] layer; all 0 without one.
    pub faults: fault::FaultCounters,
}

/// Adds the counts of another backend.
impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        // Naming every field, so that a new one cannot be forgotten.
        let Self {
            send_calls,
            recv_calls,
            wait_calls,
            datagrams_sent,
            datagrams_received,
            bytes_sent,
            bytes_received,
            trains_sent,
            trains_received,
            truncated,
            recv_drops,
            recv_charged,
            recv_charged_max,
            again,
            too_big,
            gso_refused,
            unreachable,
            recv_errors,
            faults,
        } = other;
        self.send_calls += send_calls;
        self.recv_calls += recv_calls;
        self.wait_calls += wait_calls;
        self.datagrams_sent += datagrams_sent;
        self.datagrams_received += datagrams_received;
        self.bytes_sent += bytes_sent;
        self.bytes_received += bytes_received;
        self.trains_sent += trains_sent;
        self.trains_received += trains_received;
        self.truncated += truncated;
        self.recv_drops += recv_drops;
        self.recv_charged += recv_charged;
        self.recv_charged_max += recv_charged_max;
        self.again += again;
        self.too_big += too_big;
        self.gso_refused += gso_refused;
        self.unreachable += unreachable;
        self.recv_errors += recv_errors;
        self.faults += faults;
    }
}

/// Something that moves datagrams.
///
/// Driving order: [`recv`](Self::recv) until it returns 0 or the caller has had enough, then
/// [`send`](Self::send), then [`wait`](Self::wait) or one's own epoll on
/// [`raw_fd`](Self::raw_fd), which has to respect [`due_in`](Self::due_in).
pub trait Backend: Send {
    /// Returns the abilities that this backend has now.
    fn capabilities(&self) -> Capabilities;

    /// The bound address, with the port the system chose.
    fn local_addr(&self) -> SocketAddr;

    /// Sends one train. Never blocks.
    ///
    /// # Errors
    /// `InvalidInput` holding a [`TrainError`] if the train breaks its contract; any other error
    /// means that the backend is unusable.
    fn send(&mut self, train: &Train<'_>) -> io::Result<SendOutcome>;

    /// Drains: hands at most `max` datagrams to `sink`, as slices borrowed for the call, which may
    /// change them (a sealed packet is decrypted in place). Those that
    /// the kernel joined come together ([`Meta::datagrams`]) and are never torn apart, so the last
    /// group may exceed `max`. Returns how many; 0 means that nothing is there. Never blocks.
    ///
    /// # Errors
    /// Only if the backend is unusable: reports of the network are counted and swallowed.
    fn recv(&mut self, max: usize, sink: &mut dyn FnMut(&Meta, &mut [u8])) -> io::Result<usize>;

    /// [`recv`](Self::recv) of one group that sleeps if nothing is there, for at most
    /// [`Capabilities::block_limit`], or until a signal. It is one system call, where waiting and
    /// receiving take two, and needs no precise timer, which costs a virtual machine more than the
    /// call itself. Returns how many datagrams it handed on; `None` if none came. 0 means that
    /// something came which is not handed on (a report of the network, a datagram that was cut):
    /// more may wait behind it.
    ///
    /// # Errors
    /// As `recv`.
    fn recv_blocking(
        &mut self,
        sink: &mut dyn FnMut(&Meta, &mut [u8]),
    ) -> io::Result<Option<usize>> {
        let count = self.recv(1, sink)?;
        Ok((count > 0).then_some(count))
    }

    /// Waits until something may be readable, or writable if `want_write`, at most `timeout`
    /// (`None`: for ever). It is for drivers of a backend that has no descriptor to wait on, as
    /// programs in memory and tests do. May return early with nothing ready, for instance after a
    /// signal.
    ///
    /// # Errors
    /// Only if the backend is unusable.
    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<Ready>;

    /// The next report of a datagram that was not delivered. `send` and `recv` notice them; a
    /// caller that never asks loses nothing but the hint. `None` where there is none, or the
    /// backend hears of none.
    fn next_report(&mut self) -> Option<Report> {
        None
    }

    /// The largest UDP payload that the route to `dest` allows as far as this host knows now, at
    /// most [`MAX_TRAIN_BYTES`]; `None` if unknown or unreachable. Costs a few system calls.
    fn path_mtu(&self, dest: SocketAddr) -> Option<usize>;

    /// Returns the counts so far.
    fn counters(&self) -> Counters;

    /// Bytes that the kernel charges to the receive buffer now: datagrams that wait to be read, and
    /// up to a quarter of the buffer that was read and is not given back yet. `None` if unknown.
    /// Costs a system call.
    fn charged(&mut self) -> Option<u64> {
        None
    }

    /// How soon this backend needs a call of `send`, `recv` or `wait` for its own sake, whatever
    /// arrives: a fault layer holds packets back. `None`: never. `wait` respects it by itself.
    fn due_in(&self) -> Option<Duration> {
        None
    }

    /// A descriptor that polls readable when `recv` may find something, for epoll. `None` where
    /// there is none.
    #[cfg(unix)]
    fn raw_fd(&self) -> Option<std::os::fd::RawFd>;
}

impl<B: Backend + ?Sized> Backend for Box<B> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn local_addr(&self) -> SocketAddr {
        (**self).local_addr()
    }

    fn send(&mut self, train: &Train<'_>) -> io::Result<SendOutcome> {
        (**self).send(train)
    }

    fn recv(&mut self, max: usize, sink: &mut dyn FnMut(&Meta, &mut [u8])) -> io::Result<usize> {
        (**self).recv(max, sink)
    }

    fn recv_blocking(
        &mut self,
        sink: &mut dyn FnMut(&Meta, &mut [u8]),
    ) -> io::Result<Option<usize>> {
        (**self).recv_blocking(sink)
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<Ready> {
        (**self).wait(timeout, want_write)
    }

    fn next_report(&mut self) -> Option<Report> {
        (**self).next_report()
    }

    fn path_mtu(&self, dest: SocketAddr) -> Option<usize> {
        (**self).path_mtu(dest)
    }

    fn counters(&self) -> Counters {
        (**self).counters()
    }

    fn charged(&mut self) -> Option<u64> {
        (**self).charged()
    }

    fn due_in(&self) -> Option<Duration> {
        (**self).due_in()
    }

    #[cfg(unix)]
    fn raw_fd(&self) -> Option<std::os::fd::RawFd> {
        (**self).raw_fd()
    }
}
