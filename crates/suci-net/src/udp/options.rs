//! Opening a socket and setting it up.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::addr::Family;
use super::sys;
use crate::Ecn;

/// How to open a [`Udp`](super::Udp).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpOptions {
    /// Receive buffer to ask for, in bytes. The kernel grants at most `net.core.rmem_max`, doubles
    /// it for its own overhead, and reports that in
    /// [`Capabilities::recv_buffer`](crate::Capabilities::recv_buffer). Default 8 MiB.
    pub recv_buffer: usize,
    /// Send buffer to ask for, in bytes, limited by `net.core.wmem_max`. It bounds the datagrams
    /// that wait in this host's queues before `Again`. Default 1 MiB: sixteen full trains.
    pub send_buffer: usize,
    /// Whether to send trains with `UDP_SEGMENT` if the kernel can. Default true.
    pub gso: bool,
    /// Whether to receive trains with `UDP_GRO` if the kernel can. Default true.
    pub gro: bool,
    /// Whether other sockets that set it too may share the port (`SO_REUSEPORT`). Default false.
    pub reuse_port: bool,
    /// Whether an IPv6 socket bound to `::` refuses IPv4. Default false.
    pub only_v6: bool,
    /// Bytes of the one receive buffer in user space, at most 65,536, which holds every datagram. A
    /// smaller one saves memory and stays in cache, but cuts larger datagrams, which then count as
    /// truncated and lost. Default 65,536.
    pub recv_slot: usize,
}

/// A receive slot that nothing can exceed.
pub(super) const FULL_SLOT: usize = 65_536;

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            recv_buffer: 8 << 20,
            send_buffer: 1 << 20,
            gso: true,
            gro: true,
            reuse_port: false,
            only_v6: false,
            recv_slot: FULL_SLOT,
        }
    }
}

/// The options that the kernel granted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Granted {
    pub(super) gso: bool,
    pub(super) gro: bool,
    pub(super) ecn: bool,
    pub(super) timestamps: bool,
    pub(super) recv_buffer: usize,
    pub(super) send_buffer: usize,
    pub(super) block_limit: Option<Duration>,
}

/// A bound socket, close-on-exec from its first moment so that no child inherits it.
pub(super) fn open(addr: SocketAddr, options: &UdpOptions) -> io::Result<UdpSocket> {
    let kind = Type::DGRAM.cloexec();
    let socket = Socket::new(Domain::for_address(addr), kind, Some(Protocol::UDP))?;
    if addr.is_ipv6() {
        socket.set_only_v6(options.only_v6)?;
    }
    if options.reuse_port {
        socket.set_reuse_port(true)?;
    }
    socket.bind(&addr.into())?;
    Ok(socket.into())
}

/// Sets up a bound socket, opened here or elsewhere.
pub(super) fn set_up(
    socket: &UdpSocket,
    family: Family,
    options: &UdpOptions,
) -> io::Result<Granted> {
    // Every call but one says by itself that it does not block.
    socket.set_nonblocking(false)?;
    let reference = socket2::SockRef::from(socket);
    reference.set_cloexec(true)?;
    if options.reuse_port {
        reference.set_reuse_port(true)?;
    }
    // The kernel cuts larger wishes to its limit without an error.
    reference.set_recv_buffer_size(options.recv_buffer.min(i32::MAX as usize / 2))?;
    reference.set_send_buffer_size(options.send_buffer.min(i32::MAX as usize / 2))?;
    let fd = socket.as_fd();
    never_fragment(fd, family)?;
    report_errors(fd, family);
    receive_destination(socket, family);
    let ecn = receive_class(fd, family) && send_class(fd, family);
    let on = |level, name| sys::set_int(fd, level, name, 1).is_ok();
    Ok(Granted {
        // 0 leaves single datagrams alone and tells whether the kernel knows the option.
        gso: options.gso && sys::set_int(fd, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok(),
        gro: if options.gro {
            on(libc::SOL_UDP, libc::UDP_GRO)
        } else {
            // A handed-over socket may have it on; a kernel without the option is off anyway.
            let _ = sys::set_int(fd, libc::SOL_UDP, libc::UDP_GRO, 0);
            false
        },
        ecn,
        timestamps: on(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS),
        recv_buffer: sys::get_size(fd, libc::SOL_SOCKET, libc::SO_RCVBUF)?,
        send_buffer: sys::get_size(fd, libc::SOL_SOCKET, libc::SO_SNDBUF)?,
        block_limit: block_limit(socket),
    })
}

/// Sets the time limit of receives that block, the shortest there is: the kernel rounds it up to
/// its tick, tells that, and keeps it to within one more. It keeps it only if nothing with a wrong
/// UDP checksum gets into the receive buffer: `udp_recvmsg` throws that away and begins its wait
/// anew (`csum_copy_err`, `goto try_again`), with the whole limit again, so that noise could hold
/// the caller for ever. A socket with a filter is spared that, since `udp_queue_rcv_one_skb` and
/// `udpv6_queue_rcv_one_skb` then look at the checksum before they queue anything.
fn block_limit(socket: &UdpSocket) -> Option<Duration> {
    if !sys::ensure_filter(socket.as_fd()) {
        return None;
    }
    socket
        .set_read_timeout(Some(Duration::from_micros(1)))
        .ok()?;
    let tick = socket.read_timeout().ok().flatten()?;
    Some(2 * tick)
}

/// Sets DF and ignores the kernel's estimate of the path, so that `EMSGSIZE` speaks of the first
/// hop only and probes beyond a stale estimate leave the host (RFC 8899, section 4.6).
fn never_fragment(fd: BorrowedFd<'_>, family: Family) -> io::Result<()> {
    let v4 = sys::set_int(
        fd,
        libc::SOL_IP,
        libc::IP_MTU_DISCOVER,
        libc::IP_PMTUDISC_PROBE,
    );
    match family {
        Family::V4 => v4,
        // On IPv6 sockets the IPv4 option serves mapped addresses; v6-only hosts may lack it.
        Family::V6 => {
            let probe = libc::IPV6_PMTUDISC_PROBE;
            sys::set_int(fd, libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER, probe)
        }
    }
}

/// Asks for a report of each datagram that the network or this host could not deliver: a socket
/// that is not connected hears of none otherwise. Without it nothing is lost but the hint, so a
/// refusal is no error.
fn report_errors(fd: BorrowedFd<'_>, family: Family) {
    // On IPv6 sockets the IPv4 option serves mapped addresses.
    let _ = sys::set_int(fd, libc::SOL_IP, libc::IP_RECVERR, 1);
    if family == Family::V6 {
        let _ = sys::set_int(fd, libc::SOL_IPV6, libc::IPV6_RECVERR, 1);
    }
}

/// Asks which address of this host every datagram was sent to, so that answers leave from there:
/// else the system chooses for a socket that is bound to a wildcard address. A refusal is no error.
fn receive_destination(socket: &UdpSocket, family: Family) {
    if !socket.local_addr().is_ok_and(|at| at.ip().is_unspecified()) {
        return;
    }
    // On IPv6 sockets the IPv6 option serves mapped addresses, too.
    let (level, name) = match family {
        Family::V4 => (libc::SOL_IP, libc::IP_PKTINFO),
        Family::V6 => (libc::SOL_IPV6, libc::IPV6_RECVPKTINFO),
    };
    let _ = sys::set_int(socket.as_fd(), level, name, 1);
}

/// Asks for the traffic class of every datagram. Whether ECN works for the socket's own family.
fn receive_class(fd: BorrowedFd<'_>, family: Family) -> bool {
    let v4 = sys::set_int(fd, libc::SOL_IP, libc::IP_RECVTOS, 1).is_ok();
    match family {
        Family::V4 => v4,
        Family::V6 => sys::set_int(fd, libc::SOL_IPV6, libc::IPV6_RECVTCLASS, 1).is_ok(),
    }
}

/// Lets every datagram say that the path may mark it instead of dropping it, which saves saying so
/// with each.
fn send_class(fd: BorrowedFd<'_>, family: Family) -> bool {
    let class = libc::c_int::from(Ecn::Ect0.bits());
    let v4 = sys::set_int(fd, libc::SOL_IP, libc::IP_TOS, class).is_ok();
    match family {
        Family::V4 => v4,
        Family::V6 => sys::set_int(fd, libc::SOL_IPV6, libc::IPV6_TCLASS, class).is_ok(),
    }
}
