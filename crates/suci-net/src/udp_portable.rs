//! UDP by `std` and `socket2` alone: works on every system they do, one datagram per call.
//!
//! Compared with the fast path, it lacks segmentation offload, GRO, ECN, arrival times, and the
//! don't-fragment bit, for which neither crate has a call. Since the system may thus fragment,
//! [`path_mtu`](Backend::path_mtu) answers `None`, and a probe that arrives proves nothing about
//! the path.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::train::unmapped;
use crate::{Backend, Capabilities, Counters, Ecn, Meta, Ready, SendOutcome, Train};

/// Anything that can arrive fits.
const SLOT: usize = 65_536;

/// Errors that one `recv` swallows before it gives the caller a turn.
const MAX_RECV_ERRORS: usize = 64;

/// How long a wait for writability lasts: neither crate can poll for it, and a UDP socket is
/// practically always writable again after a moment.
const WRITE_WAIT: Duration = Duration::from_millis(1);

/// Windows' `WSAEMSGSIZE`, which it also answers to a receive whose buffer is too small.
const WSAEMSGSIZE: i32 = 10_040;

/// Linux' and Android's `EMSGSIZE`, and that of the BSD family including macOS.
const EMSGSIZE: i32 = if cfg!(any(target_os = "linux", target_os = "android")) {
    90
} else {
    40
};

/// How to open a [`UdpPortable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortableOptions {
    /// Receive buffer to ask for, in bytes. Default 8 MiB; if the system refuses, half is tried,
    /// and so on.
    pub recv_buffer: usize,
    /// Send buffer to ask for likewise. Default 1 MiB.
    pub send_buffer: usize,
    /// Whether an IPv6 socket bound to `::` refuses IPv4. Default false.
    pub only_v6: bool,
}

impl Default for PortableOptions {
    fn default() -> Self {
        Self {
            recv_buffer: 8 << 20,
            send_buffer: 1 << 20,
            only_v6: false,
        }
    }
}

/// A UDP socket of any system.
#[derive(Debug)]
pub struct UdpPortable {
    socket: UdpSocket,
    local: SocketAddr,
    recv_buffer: usize,
    send_buffer: usize,
    slot: Box<[u8]>,
    /// Buffer in which slices are gathered: `std` sends from one piece only.
    gathered: Vec<u8>,
    counters: Counters,
}

impl UdpPortable {
    /// Opens and binds a socket. Port 0 lets the system choose.
    ///
    /// # Errors
    /// The system's error: `AddrInUse`, `AddrNotAvailable`, `PermissionDenied`, ...
    pub fn bind(addr: SocketAddr, options: &PortableOptions) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
        if addr.is_ipv6() {
            socket.set_only_v6(options.only_v6)?;
        }
        socket.bind(&addr.into())?;
        Self::from_socket(socket.into(), options)
    }

    /// Takes over a bound socket and makes it non-blocking.
    ///
    /// # Errors
    /// The system's error for a descriptor that is no bound UDP socket.
    pub fn from_socket(socket: UdpSocket, options: &PortableOptions) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        let reference = SockRef::from(&socket);
        enlarge(options.recv_buffer, |size| {
            reference.set_recv_buffer_size(size)
        });
        enlarge(options.send_buffer, |size| {
            reference.set_send_buffer_size(size)
        });
        let recv_buffer = reference.recv_buffer_size()?;
        let send_buffer = reference.send_buffer_size()?;
        Ok(Self {
            socket,
            local,
            recv_buffer,
            send_buffer,
            slot: vec![0; SLOT].into_boxed_slice(),
            gathered: Vec::new(),
            counters: Counters::default(),
        })
    }

    /// The one datagram of `train` in one piece, copied only if it is not already.
    fn datagram<'a>(gathered: &'a mut Vec<u8>, slices: &'a [IoSlice<'a>]) -> &'a [u8] {
        if let [one] = slices {
            return one;
        }
        gathered.clear();
        for slice in slices {
            gathered.extend_from_slice(slice);
        }
        gathered
    }

    /// The destination as this socket's family wants it, if it can reach it.
    fn dest(&self, dest: SocketAddr) -> Option<SocketAddr> {
        match (self.local, unmapped(dest)) {
            (SocketAddr::V6(_), SocketAddr::V4(v4)) => {
                Some(SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()))
            }
            (SocketAddr::V4(_), SocketAddr::V6(_)) => None,
            (_, dest) => Some(dest),
        }
    }

    /// Whether a datagram (or an error report) is there, waiting for it if the socket blocks.
    fn peek(&self) -> io::Result<bool> {
        let mut byte = [0_u8; 1];
        match self.socket.peek_from(&mut byte) {
            Ok(_) => Ok(true),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => Ok(false),
                // A report about an earlier datagram, which peeking consumed; or Windows says that
                // the datagram is longer than a byte.
                _ => Ok(true),
            },
        }
    }
}

impl Backend for UdpPortable {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            max_segments: 1,
            gro: false,
            ecn: false,
            kernel_timestamps: false,
            recv_buffer: self.recv_buffer,
            send_buffer: self.send_buffer,
            block_limit: None,
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn send(&mut self, train: &Train<'_>) -> io::Result<SendOutcome> {
        let outcome = match (train.admit(1)?, self.dest(train.dest)) {
            (Some(outcome), _) => outcome,
            (None, None) => SendOutcome::Unreachable(io::ErrorKind::Unsupported),
            (None, Some(dest)) => {
                let bytes = Self::datagram(&mut self.gathered, train.slices);
                loop {
                    self.counters.send_calls += 1;
                    match self.socket.send_to(bytes, dest) {
                        Ok(_) => break SendOutcome::Sent(1),
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => break judge(&error),
                    }
                }
            }
        };
        match outcome {
            SendOutcome::Sent(_) => {
                self.counters.datagrams_sent += 1;
                self.counters.bytes_sent += train.len as u64;
            }
            SendOutcome::Again => self.counters.again += 1,
            SendOutcome::TooBig => self.counters.too_big += 1,
            SendOutcome::Unreachable(_) => self.counters.unreachable += 1,
            SendOutcome::NoGso => {}
        }
        Ok(outcome)
    }

    fn recv(&mut self, max: usize, sink: &mut dyn FnMut(&Meta, &mut [u8])) -> io::Result<usize> {
        let (mut count, mut errors) = (0, 0);
        while count < max && errors < MAX_RECV_ERRORS {
            self.counters.recv_calls += 1;
            match self.socket.recv_from(&mut self.slot) {
                Ok((len, from)) => {
                    let bytes = self.slot.get_mut(..len).unwrap_or_default();
                    let meta = Meta {
                        to: None,
                        from: unmapped(from),
                        ecn: Ecn::NotEct,
                        arrived: None,
                        segment: len,
                    };
                    sink(&meta, bytes);
                    count += 1;
                    self.counters.datagrams_received += 1;
                    self.counters.bytes_received += len as u64;
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => break,
                    io::ErrorKind::Interrupted => {}
                    _ if error.raw_os_error() == Some(WSAEMSGSIZE) => {
                        self.counters.truncated += 1;
                        errors += 1;
                    }
                    // A report about some earlier datagram: a hint, not this socket's death.
                    _ => {
                        self.counters.recv_errors += 1;
                        errors += 1;
                    }
                },
            }
        }
        Ok(count)
    }

    /// Blocks in a peek with a time limit, since `std` has no poll. With `want_write` it lasts a
    /// millisecond at most and then calls the socket writable.
    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<Ready> {
        self.counters.wait_calls += 1;
        let timeout = match timeout {
            Some(timeout) if want_write => Some(timeout.min(WRITE_WAIT)),
            None if want_write => Some(WRITE_WAIT),
            other => other,
        };
        let mut readable = self.peek()?;
        if !readable && timeout != Some(Duration::ZERO) {
            self.socket.set_read_timeout(timeout)?;
            self.socket.set_nonblocking(false)?;
            let found = self.peek();
            self.socket.set_nonblocking(true)?;
            readable = found?;
        }
        Ok(Ready {
            readable,
            writable: want_write,
        })
    }

    fn path_mtu(&self, _dest: SocketAddr) -> Option<usize> {
        None
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    #[cfg(unix)]
    fn raw_fd(&self) -> Option<std::os::fd::RawFd> {
        use std::os::fd::AsRawFd;
        Some(self.socket.as_raw_fd())
    }
}

/// Translates an error of a send.
fn judge(error: &io::Error) -> SendOutcome {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => SendOutcome::Again,
        _ if is_no_buffers(error) => SendOutcome::Again,
        _ if matches!(error.raw_os_error(), Some(WSAEMSGSIZE | EMSGSIZE)) => SendOutcome::TooBig,
        kind => SendOutcome::Unreachable(kind),
    }
}

/// `ENOBUFS` of Linux, of the BSD family and of Windows, for which `ErrorKind` has no name.
fn is_no_buffers(error: &io::Error) -> bool {
    let code = if cfg!(windows) {
        10_055
    } else if cfg!(any(target_os = "linux", target_os = "android")) {
        105
    } else {
        55
    };
    error.raw_os_error() == Some(code)
}

/// Asks for `size`, and for half as long as the system refuses: macOS does instead of cutting.
fn enlarge(size: usize, set: impl Fn(usize) -> io::Result<()>) {
    let mut size = size.min(i32::MAX as usize / 2);
    while size >= 4096 && set(size).is_err() {
        size /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> UdpPortable {
        let local = "127.0.0.1:0".parse().unwrap();
        UdpPortable::bind(local, &PortableOptions::default()).unwrap()
    }

    #[cfg(unix)]
    #[test]
    fn a_wait_leaves_the_socket_non_blocking() {
        let mut udp = open();
        assert!(
            !udp.wait(Some(Duration::from_millis(1)), false)
                .unwrap()
                .any()
        );
        assert!(SockRef::from(&udp.socket).nonblocking().unwrap());
    }

    #[test]
    fn f25_an_icmp_report_is_swallowed() {
        // Connected elsewhere: keeps the port from others and refuses our datagrams.
        let deaf = UdpSocket::bind("127.0.0.1:0").unwrap();
        deaf.connect("127.0.0.1:1").unwrap();
        let mut udp = open();
        udp.socket.connect(deaf.local_addr().unwrap()).unwrap();
        udp.socket.send(&[1]).unwrap();
        let mut heard = 0;
        assert_eq!(udp.recv(9, &mut |_, _| heard += 1).unwrap(), 0);
        assert_eq!((heard, udp.counters().recv_errors), (0, 1));
    }

    #[test]
    fn f28_a_train_is_refused_where_there_is_no_offload() {
        let mut udp = open();
        let slices = [IoSlice::new(&[0; 20])];
        let single = Train::single(udp.local_addr(), Ecn::NotEct, &slices);
        let train = Train {
            segment: 10,
            ..single
        };
        assert_eq!(udp.send(&train).unwrap(), SendOutcome::NoGso);
        assert_eq!(udp.counters().send_calls, 0);
    }

    #[test]
    fn f26_no_buffers_is_again() {
        let code = if cfg!(windows) {
            10_055
        } else if cfg!(target_os = "linux") {
            105
        } else {
            55
        };
        assert_eq!(
            judge(&io::Error::from_raw_os_error(code)),
            SendOutcome::Again
        );
        assert_eq!(judge(&io::ErrorKind::WouldBlock.into()), SendOutcome::Again);
    }

    #[test]
    fn a_refused_wish_is_halved_until_granted() {
        let asked = std::cell::RefCell::new(Vec::new());
        enlarge(20_000, |size| {
            asked.borrow_mut().push(size);
            if size > 6_000 {
                Err(io::ErrorKind::InvalidInput.into())
            } else {
                Ok(())
            }
        });
        assert_eq!(*asked.borrow(), [20_000, 10_000, 5_000]);
    }
}
