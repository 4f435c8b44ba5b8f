//! One UDP socket of Linux, with segmentation offload (UDP_SEGMENT) and receive offload (UDP_GRO).
//!
//! It makes one system call for each train: `recvmsg`; and `sendmsg`, or `sendto` for one slice
//! without ancillary data. It receives into one buffer, which stays in the processor's cache.
//! docs/decisions/26-system-calls.md says why `sendmmsg` and several buffers are not used.

pub(crate) mod addr;
pub(crate) mod cmsg;
mod group;
mod options;
pub(crate) mod sys;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use self::addr::{Family, RawAddr};
use self::cmsg::{Control, RECV_CONTROL, SEND_CONTROL};
use self::options::Granted;
pub use self::options::UdpOptions;
use self::sys::Empty;
use crate::report::{QUOTED, Reports};
use crate::train::unmapped;
use crate::{
    Backend, Capabilities, Counters, Ecn, MAX_TRAIN_BYTES, MAX_TRAIN_SEGMENTS, Meta, Ready, Report,
    SendOutcome, Train,
};

/// Errors after which one `recv` returns to the caller. Each stands for one ICMP message, and a
/// flood of them must not hold the caller up.
const MAX_RECV_ERRORS: usize = 64;

/// Repetitions of a send after an error that may be the report of an earlier datagram. Another
/// report may come meanwhile.
const RETRIES: usize = 2;

/// A port to which nothing is sent; some port has to be named.
const DISCARD: u16 = 9;

/// A UDP socket of Linux.
///
/// IPv6 sockets bound to `::` also carry IPv4 unless [`UdpOptions::only_v6`] is set; IPv4
/// addresses then look the same as on an IPv4 socket.
///
/// ```
/// use suci_net::udp::{Udp, UdpOptions};
/// use suci_net::{Backend, Ecn, SendOutcome, Train};
///
/// # fn main() -> std::io::Result<()> {
/// let local = "127.0.0.1:0".parse().expect("an address");
/// let mut a = Udp::bind(local, &UdpOptions::default())?;
/// let mut b = Udp::bind(local, &UdpOptions { recv_buffer: 1 << 20, ..UdpOptions::default() })?;
/// let slices = [std::io::IoSlice::new(b"hello")];
/// assert_eq!(a.send(&Train::single(b.local_addr(), Ecn::NotEct, &slices))?, SendOutcome::Sent(1));
/// b.wait(None, false)?;
/// assert_eq!(b.recv(1, &mut |_, bytes| assert_eq!(bytes, b"hello"))?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Udp {
    socket: UdpSocket,
    local: SocketAddr,
    family: Family,
    granted: Granted,
    slot: Box<[u8]>,
    control: Box<Control<RECV_CONTROL>>,
    counters: Counters,
    reports: Reports,
    /// The socket may have more reports.
    unread_reports: bool,
}

/// The result of one receive.
enum Got {
    /// Number of datagrams handed on; 0 if they were damaged.
    Datagrams(usize),
    Nothing,
    /// A report about a datagram sent before.
    Report,
}

impl Udp {
    /// Opens and binds a socket. Port 0 lets the system choose.
    ///
    /// # Errors
    /// The system's error: `AddrInUse`, `AddrNotAvailable`, `PermissionDenied`, ...; `InvalidInput`
    /// for a receive slot of 0 or more than 65,536 bytes.
    pub fn bind(addr: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        Self::from_socket(options::open(addr, options)?, options)
    }

    /// Takes over a bound socket, for instance one that a launcher reserved. It is made blocking,
    /// with a receive timeout of one tick, and close-on-exec. An `OwnedFd` converts into a
    /// [`UdpSocket`].
    ///
    /// # Errors
    /// As [`Udp::bind`], and the system's error for a descriptor that is no bound UDP socket.
    pub fn from_socket(socket: UdpSocket, options: &UdpOptions) -> io::Result<Self> {
        if options.recv_slot == 0 || options.recv_slot > options::FULL_SLOT {
            let text = format!(
                "a receive slot of {} bytes: 1 to 65536 allowed",
                options.recv_slot
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let local = socket.local_addr()?;
        let family = if local.is_ipv4() {
            Family::V4
        } else {
            Family::V6
        };
        let granted = options::set_up(&socket, family, options)?;
        Ok(Self {
            socket,
            local,
            family,
            granted,
            slot: vec![0; options.recv_slot].into_boxed_slice(),
            control: Box::new(Control::new()),
            counters: Counters::default(),
            reports: Reports::default(),
            unread_reports: false,
        })
    }

    /// The same socket once more, with counters of its own.
    pub(crate) fn again(&self, options: &UdpOptions) -> io::Result<Self> {
        Self::from_socket(self.socket.try_clone()?, options)
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn control_for(
        &self,
        train: &Train<'_>,
        segments: usize,
        source: Option<IpAddr>,
    ) -> Control<SEND_CONTROL> {
        let mut control = Control::new();
        if let Some(source) = source {
            control.push_source(source);
        }
        // `admit` keeps a train of several segments below 64 KiB, so that the size fits.
        if segments > 1
            && let Ok(size) = u16::try_from(train.segment)
        {
            control.push(libc::SOL_UDP, libc::UDP_SEGMENT, &size.to_ne_bytes());
        }
        // Datagrams say that the path may mark them, unless told otherwise.
        if train.ecn != Ecn::Ect0 && self.granted.ecn {
            let class = libc::c_int::from(train.ecn.bits()).to_ne_bytes();
            if unmapped(train.dest).is_ipv4() {
                control.push(libc::SOL_IP, libc::IP_TOS, &class);
            } else {
                control.push(libc::SOL_IPV6, libc::IPV6_TCLASS, &class);
            }
        }
        control
    }

    /// Sends a train that is admitted, from `source` or from where the system chooses.
    fn send_from(
        &mut self,
        train: &Train<'_>,
        segments: usize,
        source: Option<IpAddr>,
        dest: &mut RawAddr,
    ) -> io::Result<usize> {
        let source = source.filter(|ip| ip.is_ipv4() == unmapped(train.dest).is_ipv4());
        let mut control = self.control_for(train, segments, source);
        self.counters.send_calls += 1;
        let mut result = sys::send(self.socket.as_fd(), dest, train.slices, &mut control);
        for _ in 0..RETRIES {
            // The error may be the report of an earlier datagram, to another peer. Then the kernel
            // did not try to send this train, and reading the report has cleared the error.
            if !may_be_report(&result) || self.take_reports() {
                break;
            }
            self.counters.send_calls += 1;
            result = sys::send(self.socket.as_fd(), dest, train.slices, &mut control);
        }
        result
    }

    /// Translates an error of `sendmsg`. Fails only if the socket itself is unusable.
    fn judge(
        &mut self,
        error: io::Error,
        train: &Train<'_>,
        segments: usize,
    ) -> io::Result<SendOutcome> {
        let code = error.raw_os_error().unwrap_or(0);
        match code {
            libc::EAGAIN | libc::ENOMEM => Ok(SendOutcome::Again),
            // A device dropped it: Linux says so to sockets that ask for error reports
            // (IP_RECVERR), and hides it from others. It is lost, like a datagram that any other
            // hop drops. The device may drop every packet of this size, so to keep the train and
            // try again might never end.
            libc::ENOBUFS => Ok(SendOutcome::Sent(segments)),
            libc::EMSGSIZE => Ok(SendOutcome::TooBig),
            libc::EBADF | libc::ENOTSOCK | libc::EFAULT => Err(error),
            libc::EIO if segments > 1 => Ok(self.without_gso()),
            libc::EINVAL if segments > 1 => Ok(match self.path_mtu(train.dest) {
                // Kernels before 6.9 say EINVAL where they mean EMSGSIZE, and any kernel says it
                // of a destination that it cannot even route: neither is the offload's fault.
                None => SendOutcome::Unreachable(error.kind()),
                Some(mtu) if mtu < train.segment => SendOutcome::TooBig,
                Some(_) => self.without_gso(),
            }),
            _ => Ok(SendOutcome::Unreachable(error.kind())),
        }
    }

    fn without_gso(&mut self) -> SendOutcome {
        self.granted.gso = false;
        self.counters.gso_refused += 1;
        SendOutcome::NoGso
    }

    fn count_sent(&mut self, train: &Train<'_>, segments: usize, outcome: SendOutcome) {
        let counters = &mut self.counters;
        match outcome {
            SendOutcome::Sent(_) => {
                counters.datagrams_sent += segments as u64;
                counters.bytes_sent += train.len as u64;
                counters.trains_sent += u64::from(segments > 1);
            }
            SendOutcome::Again => counters.again += 1,
            SendOutcome::TooBig => counters.too_big += 1,
            SendOutcome::Unreachable(_) => counters.unreachable += 1,
            SendOutcome::NoGso => {}
        }
    }

    fn recv_once(
        &mut self,
        empty: Empty,
        sink: &mut dyn FnMut(&Meta, &mut [u8]),
    ) -> io::Result<Got> {
        let mut from = RawAddr::empty();
        self.counters.recv_calls += 1;
        let fd = self.socket.as_fd();
        match sys::recv(fd, &mut self.slot, &mut from, &mut self.control, empty) {
            Ok(arrival) => Ok(Got::Datagrams(self.deliver(arrival, &from, sink))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Got::Nothing),
            Err(error) if is_unusable(&error) => Err(error),
            Err(_) => {
                // An ICMP report about an earlier datagram: the socket itself still works.
                self.counters.recv_errors += 1;
                self.take_reports();
                Ok(Got::Report)
            }
        }
    }

    /// Takes the reports of datagrams that were not delivered out of the socket. An error of any
    /// call tells that there is one. Returns whether one of them came from this host itself: the
    /// kernel reports here, too, that a datagram is too long for its first hop.
    fn take_reports(&mut self) -> bool {
        let mut own = false;
        for _ in 0..MAX_RECV_ERRORS {
            let (mut to, mut beginning) = (RawAddr::empty(), [0; QUOTED]);
            let fd = self.socket.as_fd();
            let control = &mut self.control;
            let taken = sys::recv(fd, &mut beginning, &mut to, control, Empty::Reports);
            let Ok(arrival) = taken else {
                self.unread_reports = false;
                return own;
            };
            let said = control.bytes.get(..control.len).and_then(cmsg::parse_error);
            let (Some(error), Some(to)) = (said, to.decode()) else {
                continue;
            };
            own |= !error.is_icmp;
            // Probes find the packet size that the path carries (RFC 8899), whatever ICMP says.
            if error.is_icmp && error.code != libc::EMSGSIZE {
                let kind = io::Error::from_raw_os_error(error.code).kind();
                let at_it = error.is_port && error.offender == Some(to.ip());
                let local = at_it && self.is_own(to.ip());
                let beginning = beginning.get(..arrival.len).unwrap_or_default();
                self.reports.push(Report::new(to, kind, local, beginning));
            }
        }
        self.unread_reports = true;
        own
    }

    /// Whether an address is this host's, and no packet from the network can have it as its source.
    /// Linux drops IPv4 packets whose source is an own address (`fib_validate_source`). Over IPv6
    /// it drops only those from `::1` (`ip6_rcv_core`), so no other IPv6 address is a proof.
    fn is_own(&self, ip: IpAddr) -> bool {
        if let IpAddr::V6(ip) = ip {
            return ip.is_loopback();
        }
        if ip.is_loopback() || ip == self.local.ip().to_canonical() {
            return true;
        }
        // The kernel answers itself from the address that it is asked at.
        let scratch = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok();
        let source = scratch.and_then(|scratch| {
            scratch.connect((ip, DISCARD)).ok()?;
            scratch.local_addr().ok()
        });
        source.is_some_and(|source| source.ip() == ip)
    }

    /// Hands the datagrams of one receive to the sink. Those that the slot cut are lost.
    fn deliver(
        &mut self,
        arrival: sys::Arrival,
        from: &RawAddr,
        sink: &mut dyn FnMut(&Meta, &mut [u8]),
    ) -> usize {
        let said = cmsg::parse(
            self.control
                .bytes
                .get(..self.control.len)
                .unwrap_or_default(),
        );
        let length = arrival.len.min(self.slot.len());
        let segment = said.segment.unwrap_or(arrival.len).max(1);
        let expected = match segment < arrival.len {
            true => arrival.len.div_ceil(segment),
            // Most trains have one datagram: nothing to divide.
            false => 1,
        };
        let Some(from) = from.decode().filter(|_| !arrival.control_cut) else {
            self.counters.truncated += expected as u64;
            return 0;
        };
        let meta = Meta {
            from,
            to: said.to,
            ecn: said.ecn,
            arrived: said.arrived,
            segment,
        };
        // Only the last of a train may be short, and only if nothing was cut off behind it.
        let (length, count) = if length == arrival.len {
            (length, expected)
        } else {
            let count = length / segment;
            (count * segment, count)
        };
        let bytes = self.slot.get_mut(..length).unwrap_or_default();
        if count > 0 {
            sink(&meta, bytes);
        }
        self.counters.truncated += expected.saturating_sub(count) as u64;
        self.counters.datagrams_received += count as u64;
        self.counters.bytes_received += length as u64;
        self.counters.trains_received += u64::from(expected > 1);
        count
    }
}

impl Backend for Udp {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            max_segments: if self.granted.gso {
                MAX_TRAIN_SEGMENTS
            } else {
                1
            },
            gro: self.granted.gro,
            ecn: self.granted.ecn,
            kernel_timestamps: self.granted.timestamps,
            recv_buffer: self.granted.recv_buffer,
            send_buffer: self.granted.send_buffer,
            block_limit: self.granted.block_limit,
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn send(&mut self, train: &Train<'_>) -> io::Result<SendOutcome> {
        let segments = train.segments();
        let max_segments = self.capabilities().max_segments;
        let outcome = match train.admit(max_segments)? {
            Some(outcome) => outcome,
            None => match RawAddr::encode(train.dest, self.family) {
                None => SendOutcome::Unreachable(io::ErrorKind::Unsupported),
                Some(mut dest) => {
                    let mut result = self.send_from(train, segments, train.source, &mut dest);
                    if train.source.is_some() && may_lack_source(&result) {
                        result = self.send_from(train, segments, None, &mut dest);
                    }
                    match result {
                        Ok(_) => SendOutcome::Sent(segments),
                        Err(error) => self.judge(error, train, segments)?,
                    }
                }
            },
        };
        self.count_sent(train, segments, outcome);
        Ok(outcome)
    }

    fn recv(&mut self, max: usize, sink: &mut dyn FnMut(&Meta, &mut [u8])) -> io::Result<usize> {
        let (mut count, mut errors) = (0, 0);
        if self.unread_reports {
            self.take_reports();
        }
        while count < max && errors < MAX_RECV_ERRORS {
            match self.recv_once(Empty::Return, sink)? {
                Got::Datagrams(some) => count += some,
                Got::Nothing => break,
                Got::Report => errors += 1,
            }
        }
        Ok(count)
    }

    fn recv_blocking(
        &mut self,
        sink: &mut dyn FnMut(&Meta, &mut [u8]),
    ) -> io::Result<Option<usize>> {
        Ok(match self.recv_once(Empty::Sleep, sink)? {
            Got::Datagrams(some) => Some(some),
            Got::Report => Some(0),
            Got::Nothing => None,
        })
    }

    fn next_report(&mut self) -> Option<Report> {
        self.reports.pop()
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<Ready> {
        self.counters.wait_calls += 1;
        sys::wait(self.socket.as_fd(), timeout, want_write)
    }

    /// Connects a scratch socket, which sends nothing, and reads the size that the route allows,
    /// with the sizes that ICMP taught the kernel.
    fn path_mtu(&self, dest: SocketAddr) -> Option<usize> {
        let dest = unmapped(dest);
        let (headers, level, name) = match dest {
            SocketAddr::V4(_) => (20 + 8, libc::SOL_IP, libc::IP_MTU),
            SocketAddr::V6(_) => (40 + 8, libc::SOL_IPV6, libc::IPV6_MTU),
        };
        let source = match (self.local.ip().to_canonical(), dest) {
            (IpAddr::V4(ip), SocketAddr::V4(_)) => IpAddr::V4(ip),
            (IpAddr::V6(ip), SocketAddr::V6(_)) => IpAddr::V6(ip),
            (_, SocketAddr::V4(_)) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            (_, SocketAddr::V6(_)) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let mut source = SocketAddr::new(source, 0);
        if let (SocketAddr::V6(to), SocketAddr::V6(from)) = (&mut source, self.local) {
            to.set_scope_id(from.scope_id());
        }
        let scratch = UdpSocket::bind(source).ok()?;
        scratch.connect(dest).ok()?;
        let mtu = sys::get_size(scratch.as_fd(), level, name).ok()?;
        Some(mtu.checked_sub(headers)?.min(MAX_TRAIN_BYTES))
    }

    fn counters(&self) -> Counters {
        // Kernels before 4.12 cannot tell; 0 is then the best answer.
        let recv_drops = sys::drops(self.socket.as_fd()).unwrap_or(0);
        Counters {
            recv_drops,
            ..self.counters
        }
    }

    fn charged(&mut self) -> Option<u64> {
        let charged = sys::charged(self.socket.as_fd()).ok()?;
        self.counters.recv_charged = charged;
        self.counters.recv_charged_max = self.counters.recv_charged_max.max(charged);
        Some(charged)
    }

    fn raw_fd(&self) -> Option<RawFd> {
        Some(self.socket.as_raw_fd())
    }
}

/// Errors that name the descriptor itself, so that trying again is pointless.
fn is_unusable(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::EINVAL)
    )
}

/// Whether the kernel may have refused the source address: this host lost it, or the route does not
/// take it.
fn may_lack_source(result: &io::Result<usize>) -> bool {
    let error = result.as_ref().err().and_then(io::Error::raw_os_error);
    matches!(
        error,
        Some(libc::EINVAL | libc::EADDRNOTAVAIL | libc::ENETUNREACH | libc::EHOSTUNREACH)
    )
}

/// Errors that a socket reports about earlier datagrams: those that the kernel makes of ICMP
/// messages (`icmp_err_convert`, `icmpv6_err_convert`).
fn may_be_report(result: &io::Result<usize>) -> bool {
    let Err(error) = result else { return false };
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::EHOSTDOWN
                | libc::ENONET
                | libc::ENOPROTOOPT
                | libc::EOPNOTSUPP
                | libc::EPROTO
                | libc::EACCES
                | libc::EMSGSIZE
        )
    )
}

#[cfg(test)]
mod tests;
