//! UDP datagrams in Ethernet frames that this module makes and reads itself, in memory that it
//! shares with the kernel (AF_XDP). The other end may be an ordinary UDP socket.
//!
//! A program of eBPF at the interface takes the port's datagrams out of what each receive queue
//! brings, and puts them into a socket of that queue. An ordinary UDP socket has the port beside
//! them, and carries what frames cannot:
//!
//! * the first train to a neighbour, and one each second, so that the kernel asks for the
//!   neighbour's Ethernet address, and keeps its answer fresh (RFC 826);
//! * trains to other networks, which go through a router, and to addresses of this host;
//! * what comes by another interface, in fragments, or with a VLAN tag.

mod bpf;
mod ring;
mod socket;

use std::fs;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::thread;
use std::time::Duration;

use self::bpf::{Attached, SocketMap};
use self::socket::{Put, Xsk};
use crate::ethernet::frame::{self, Addresses, Checksum, HEADERS, Said};
use crate::ethernet::interface::{Interface, Known};
use crate::train::unmapped;
use crate::udp::sys as kernel;
use crate::udp::{Udp, UdpOptions};
use crate::{Backend, Capabilities, Counters, MAX_SLICES, Meta, Ready, Report, SendOutcome, Train};

/// The least that the kernel's UDP charges for a datagram, in bytes: the measure of
/// [`Capabilities::recv_buffer`], by which peers are granted packets. A frame holds one packet,
/// whatever its size.
const LEAST_CHARGE: usize = 768;

/// Maximum number of frames of a queue to receive into.
const MOST_FRAMES: usize = 16_384;

/// Bytes of a frame at the usual MTU.
const ORDINARY_FRAME: usize = 1_500 + frame::ETHERNET;

/// Looks at the sockets that find frames, after which the UDP socket has its turn.
const LOOKS_BEFORE_UDP: u32 = 16;

/// How soon frames are tried again that the kernel did not take.
const AGAIN: Duration = Duration::from_millis(1);

/// UDP over Ethernet frames in memory shared with the kernel, IPv4.
///
/// Needs the capabilities `CAP_BPF`, `CAP_NET_ADMIN` and `CAP_NET_RAW` when it is opened, not
/// later. An interface serves one of them at a time.
#[derive(Debug)]
pub struct AfXdp {
    // The program leaves the interface before its sockets go away.
    _program: Attached,
    /// One for each receive queue. The first also sends.
    queues: Vec<Xsk>,
    /// Has the port, and carries what frames cannot.
    udp: Udp,
    /// Readable when one of the sockets is.
    any: OwnedFd,
    local: SocketAddrV4,
    interface: Interface,
    recv_buffer: usize,
    counters: Counters,
    looks: u32,
    is_full: bool,
}

impl AfXdp {
    /// Binds the UDP port at `addr`, an IPv4 address of an Ethernet interface. Port 0 lets the
    /// system choose.
    ///
    /// # Errors
    /// As [`Udp::bind`] and [`AfXdp::over`].
    pub fn bind(addr: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        Self::over(Udp::bind(addr, options)?, options)
    }

    /// Takes the datagrams for the port of `udp` out of what its interface receives.
    ///
    /// # Errors
    /// `PermissionDenied` without the capabilities; `InvalidInput` if the socket is not bound to
    /// one IPv4 address of this host other than loopback, or the interface's MTU exceeds 3,826;
    /// `Unsupported` if the interface is no Ethernet; `ResourceBusy` if it has another owner, who
    /// did not leave within half a second; else the system's error.
    pub fn over(udp: Udp, options: &UdpOptions) -> io::Result<Self> {
        let local = Interface::own_address(udp.local_addr())?;
        let interface = Interface::of(*local.ip(), udp.as_fd())?;
        let map = SocketMap::new(receive_queues(&interface.name())).map_err(explained)?;
        if interface.is_loopback {
            // Says first whether the kernel has such sockets, which `suci doctor` asks here.
            drop(Xsk::new(ORDINARY_FRAME, frames_of(0)).map_err(explained)?);
            let text = format!("{local} is loopback, which has no frames: use the UDP backend");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let granted = udp.capabilities().recv_buffer.min(options.recv_buffer);
        let frames = frames_of(granted);
        let (queues, program) = open(&map, &interface, local, frames).map_err(explained)?;
        let any = epoll(&udp, &queues)?;
        Ok(Self {
            _program: program,
            queues,
            any,
            local,
            interface,
            recv_buffer: granted.min(frames as usize * LEAST_CHARGE),
            udp,
            counters: Counters::default(),
            looks: 0,
            is_full: false,
        })
    }

    /// Sends a train to a neighbour, a frame for each segment.
    fn send_frames(&mut self, train: &Train<'_>, addresses: &Addresses) -> io::Result<SendOutcome> {
        let segment = train.segment.min(train.len);
        if segment + frame::IP_AND_UDP > self.interface.mtu {
            self.interface.ask_mtu(self.udp.as_fd())?;
            if segment + frame::IP_AND_UDP > self.interface.mtu {
                return Ok(SendOutcome::TooBig);
            }
        }
        let Some(socket) = self.queues.first_mut() else {
            return self.udp.send(train);
        };
        // The MTU may have been raised after the memory was divided into frames.
        if HEADERS + segment > socket.frame_size() {
            return Ok(SendOutcome::TooBig);
        }
        let mut headers = frame::headers(addresses, train.ecn, segment, Checksum::Absent);
        let mut bytes = Gathered::new(train);
        let (mut sent, mut left) = (0, train.len);
        for _ in 0..train.segments() {
            let length = segment.min(left);
            if length < segment {
                headers = frame::headers(addresses, train.ecn, length, Checksum::Absent);
            }
            let put = socket.put(HEADERS + length, |frame| {
                let (head, body) = frame.split_at_mut(HEADERS);
                head.copy_from_slice(&headers);
                bytes.fill(body);
            });
            if put == Put::Full {
                break;
            }
            sent += 1;
            left -= length;
        }
        Ok(match socket.flush() {
            Ok(calls) => {
                self.counters.send_calls += calls;
                match sent {
                    0 => SendOutcome::Again,
                    _ => SendOutcome::Sent(sent),
                }
            }
            Err(error) => match error.raw_os_error().unwrap_or(0) {
                libc::EBADF | libc::ENOTSOCK | libc::EFAULT => return Err(error),
                _ => SendOutcome::Unreachable(error.kind()),
            },
        })
    }

    fn count_sent(&mut self, train: &Train<'_>, outcome: SendOutcome) {
        let counters = &mut self.counters;
        match outcome {
            SendOutcome::Sent(segments) => {
                counters.datagrams_sent += segments as u64;
                counters.bytes_sent += train.len.min(segments * train.segment) as u64;
                counters.trains_sent += u64::from(segments > 1);
            }
            SendOutcome::Again => counters.again += 1,
            SendOutcome::TooBig => counters.too_big += 1,
            SendOutcome::Unreachable(_) => counters.unreachable += 1,
            SendOutcome::NoGso => {}
        }
    }

    /// Hands on the frames that the queues have, at most `max`. Returns how many.
    fn recv_frames(&mut self, max: usize, sink: &mut dyn FnMut(&Meta, &mut [u8])) -> usize {
        let Self {
            queues,
            interface,
            counters,
            ..
        } = self;
        let mut count = 0;
        for queue in queues {
            let mut looks = 0;
            while looks < max
                && queue.receive(&mut |frame| {
                    count += usize::from(deliver(frame, interface, counters, sink));
                })
            {
                looks += 1;
            }
            if looks > 0 {
                counters.recv_calls += 1;
                queue.refill();
            }
        }
        count
    }

    /// Whether frames wait in the ring that the kernel did not take.
    fn is_pending(&self) -> bool {
        self.queues.first().is_some_and(Xsk::is_pending)
    }

    fn flush_pending(&mut self) {
        if let Some(socket) = self.queues.first_mut()
            && socket.is_pending()
        {
            // A failure is no loss: the next flush tries again.
            self.counters.send_calls += socket.flush().unwrap_or(1);
        }
    }
}

/// Hands on the datagram of a frame. Returns false if it is damaged or forged.
fn deliver(
    frame: &mut [u8],
    interface: &Interface,
    counters: &mut Counters,
    sink: &mut dyn FnMut(&Meta, &mut [u8]),
) -> bool {
    // Between processes of one machine checksums are never finished, and there is no word of it.
    let said = Said {
        checked: true,
        segment: None,
    };
    let Some(read) = frame::read(frame, said) else {
        counters.truncated += 1;
        return false;
    };
    if interface.is_impossible(*read.from.ip()) {
        counters.recv_errors += 1;
        return false;
    }
    let meta = Meta {
        from: read.from.into(),
        to: None,
        ecn: read.ecn,
        arrived: None,
        segment: read.segment,
    };
    let bytes = frame.get_mut(read.bytes).unwrap_or_default();
    counters.datagrams_received += 1;
    counters.bytes_received += bytes.len() as u64;
    sink(&meta, bytes);
    true
}

impl Backend for AfXdp {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            recv_buffer: self.recv_buffer,
            kernel_timestamps: false,
            block_limit: None,
            ..self.udp.capabilities()
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.local.into()
    }

    fn send(&mut self, train: &Train<'_>) -> io::Result<SendOutcome> {
        let SocketAddr::V4(to) = unmapped(train.dest) else {
            return self.udp.send(train);
        };
        let near = self.interface.neighbour(*to.ip(), self.udp.as_fd());
        let outcome = match near {
            Known::Fresh(ethernet) if train.slices.len() <= MAX_SLICES => {
                if let Some(outcome) = train.admit(self.capabilities().max_segments)? {
                    return Ok(outcome);
                }
                let addresses = Addresses {
                    ethernet: (self.interface.ethernet, ethernet),
                    from: self.local,
                    to,
                };
                let outcome = self.send_frames(train, &addresses)?;
                self.count_sent(train, outcome);
                outcome
            }
            _ => self.udp.send(train)?,
        };
        self.is_full = outcome == SendOutcome::Again;
        Ok(outcome)
    }

    fn recv(&mut self, max: usize, sink: &mut dyn FnMut(&Meta, &mut [u8])) -> io::Result<usize> {
        self.flush_pending();
        let count = self.recv_frames(max, sink);
        self.looks += 1;
        if count > 0 && self.looks < LOOKS_BEFORE_UDP {
            return Ok(count);
        }
        self.looks = 0;
        Ok(count + self.udp.recv(max, sink)?)
    }

    fn next_report(&mut self) -> Option<Report> {
        self.udp.next_report()
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<Ready> {
        self.flush_pending();
        self.counters.wait_calls += 1;
        let soon = self.due_in().into_iter().chain(timeout).min();
        let readable = kernel::wait(self.any.as_fd(), soon, false)?.readable;
        Ok(Ready {
            readable,
            writable: want_write,
        })
    }

    fn path_mtu(&self, dest: SocketAddr) -> Option<usize> {
        self.udp.path_mtu(dest)
    }

    fn counters(&self) -> Counters {
        let mut all = self.udp.counters();
        all += Counters {
            recv_drops: self.queues.iter().map(Xsk::drops).sum(),
            ..self.counters
        };
        all
    }

    fn due_in(&self) -> Option<Duration> {
        (self.is_full || self.is_pending()).then_some(AGAIN)
    }

    fn raw_fd(&self) -> Option<RawFd> {
        Some(self.any.as_raw_fd())
    }
}

/// The bytes of a train, piece by piece.
struct Gathered<'a> {
    slices: &'a [io::IoSlice<'a>],
    /// Bytes of the first slice that were taken.
    taken: usize,
}

impl<'a> Gathered<'a> {
    fn new(train: &Train<'a>) -> Self {
        Self {
            slices: train.slices,
            taken: 0,
        }
    }

    /// Fills `out` with the next bytes.
    fn fill(&mut self, mut out: &mut [u8]) {
        while !out.is_empty()
            && let [first, rest @ ..] = self.slices
        {
            let left = first.get(self.taken..).unwrap_or_default();
            let (now, later) = out.split_at_mut(left.len().min(out.len()));
            now.copy_from_slice(left.get(..now.len()).unwrap_or_default());
            self.taken += now.len();
            out = later;
            if self.taken == first.len() {
                (self.slices, self.taken) = (rest, 0);
            }
        }
    }
}

/// Opens a socket for each receive queue, with so many frames each, and attaches the program. Waits
/// a little for queues that are in use: the kernel gives those of an owner that has just ended free
/// a while later.
fn open(
    map: &SocketMap,
    interface: &Interface,
    local: SocketAddrV4,
    frames: u32,
) -> io::Result<(Vec<Xsk>, Attached)> {
    const TRIES: u32 = 25;
    const PAUSE: Duration = Duration::from_millis(20);
    for _ in 1..TRIES {
        match open_now(map, interface, local, frames) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => thread::sleep(PAUSE),
            done => return done,
        }
    }
    open_now(map, interface, local, frames)
}

fn open_now(
    map: &SocketMap,
    interface: &Interface,
    local: SocketAddrV4,
    frames: u32,
) -> io::Result<(Vec<Xsk>, Attached)> {
    let longest = interface.mtu + frame::ETHERNET;
    let mut queues = Vec::new();
    for number in 0..map.queues() {
        let socket = Xsk::new(longest, frames)?;
        socket.bind(interface.index, number)?;
        map.set(number, socket.fd())?;
        queues.push(socket);
    }
    let program = bpf::attach(map, interface.index, interface.ethernet, local)?;
    Ok((queues, program))
}

/// How many frames to receive into a receive buffer of so many bytes is worth: a power of two.
fn frames_of(recv_buffer: usize) -> u32 {
    let frames = (recv_buffer / LEAST_CHARGE).clamp(512, MOST_FRAMES);
    // The next lower power of two.
    1_u32 << frames.ilog2()
}

/// How many receive queues an interface has.
fn receive_queues(name: &str) -> u32 {
    let all = fs::read_dir(format!("/sys/class/net/{name}/queues"));
    let names = all.into_iter().flatten().flatten();
    let receive = names.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"rx-"));
    u32::try_from(receive.count()).unwrap_or(1).max(1)
}

/// Says what the system's error means here.
fn explained(error: io::Error) -> io::Error {
    let (kind, text) = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => (
            io::ErrorKind::PermissionDenied,
            "AF_XDP needs the capabilities CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW: run `setcap \
             cap_bpf,cap_net_admin,cap_net_raw+ep PROGRAM` as root, or use the UDP backend",
        ),
        Some(libc::EBUSY) => (
            io::ErrorKind::ResourceBusy,
            "another program has the interface's XDP (`ip link` shows it): end it, or use the UDP \
             backend",
        ),
        Some(libc::EAFNOSUPPORT | libc::ENOSYS | libc::EOPNOTSUPP) => (
            io::ErrorKind::Unsupported,
            "this kernel or this interface has no AF_XDP: use the UDP backend",
        ),
        _ => return error,
    };
    io::Error::new(kind, text)
}

/// A descriptor that is readable when one of the sockets is.
fn epoll(udp: &Udp, queues: &[Xsk]) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call; the kernel answers with a new descriptor or an error.
    let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else has it.
    let any = unsafe { OwnedFd::from_raw_fd(fd) };
    for watched in [udp.as_fd()].into_iter().chain(queues.iter().map(Xsk::fd)) {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: 0,
        };
        let (epoll, add, watched) = (any.as_raw_fd(), libc::EPOLL_CTL_ADD, watched.as_raw_fd());
        // SAFETY: both descriptors are open, and the event outlives the call.
        if unsafe { libc::epoll_ctl(epoll, add, watched, &raw mut event) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(any)
}
