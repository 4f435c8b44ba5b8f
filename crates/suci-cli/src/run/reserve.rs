//! The sockets of a launch, and the book that names their addresses.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv6Addr, UdpSocket};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::{child, memory};
use crate::args::RunArgs;
use crate::error::{Context, Failure, Result};

/// The sockets and the book of a launch, before its first process starts.
pub(super) struct Reserved {
    /// The address book.
    pub(super) book: OwnedFd,
    /// A socket for each process.
    pub(super) sockets: Vec<UdpSocket>,
    /// Keeps others from the same ports of TCP, if that is wanted.
    pub(super) tcp_ports: Vec<OwnedFd>,
}

/// Binds a socket for each process, and writes the book that names them.
pub(super) fn reserve(args: &RunArgs) -> Result<Reserved> {
    let ip = args.address;
    let (mut text, mut sockets, mut tcp_ports) = (String::new(), Vec::new(), Vec::new());
    for (id, (socket, tcp)) in (0_u32..).zip(bind_all(ip, 0..args.processes.unwrap_or(0))?) {
        let address = socket.local_addr().context("a socket's address")?;
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{id} {address}");
        sockets.push(socket);
        if args.keeps_tcp_ports {
            tcp_ports.push(tcp);
        }
    }
    Ok(Reserved {
        book: memory::file(c"suci-book", text.as_bytes(), "the address book")?,
        sockets,
        tcp_ports,
    })
}

/// Binds a socket at `ip` for each of these processes, and keeps the same ports of TCP.
pub(super) fn bind_all(ip: IpAddr, ids: Range<u32>) -> Result<Vec<(UdpSocket, OwnedFd)>> {
    check_arrival(ip).map_err(|error| no_socket(ip, ids.start, &error))?;
    let bind = |id| free_port(ip).map_err(|error| no_socket(ip, id, &error));
    ids.map(bind).collect()
}

/// Says why process `id` gets no socket at `ip`, and the remedy of that cause.
fn no_socket(ip: IpAddr, id: u32, error: &io::Error) -> Failure {
    let remedy = match Errno::from_io_error(error) {
        Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT | Errno::NETUNREACH | Errno::NETDOWN) => {
            Some(no_address(ip))
        }
        Some(Errno::ADDRINUSE) => Some(
            "all ports of net.ipv4.ip_local_port_range are taken: start fewer processes, or widen it, as root: \
             sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\""
                .to_owned(),
        ),
        other => child::scarce(other).map(str::to_owned),
    };
    let remedy = remedy.map(|remedy| format!("; {remedy}"));
    Failure::new(format!(
        "a UDP socket at {ip} for process {id}: {error}{}",
        remedy.unwrap_or_default()
    ))
}

/// The remedy where this machine does not have the address `ip`.
fn no_address(ip: IpAddr) -> String {
    const LISTED: &str = "name an address of this machine by --address (`ip address` lists them)";
    let other = IpAddr::V6(Ipv6Addr::LOCALHOST);
    match ip.is_loopback() && ip != other && UdpSocket::bind((other, 0)).is_ok() {
        true => format!("loopback has no such address here: add --address {other}"),
        false if ip.is_loopback() => {
            format!("start loopback, as root (`ip link set lo up`), or {LISTED}")
        }
        false => LISTED.to_owned(),
    }
}

/// Returns a socket at a port that is free for TCP, too, since `suci perf` talks over that. While
/// the second result is open, the kernel gives this port of TCP to nobody who does not ask for it.
fn free_port(ip: IpAddr) -> io::Result<(UdpSocket, OwnedFd)> {
    const TRIES: u32 = 16;
    let mut tries = 1;
    loop {
        let socket = UdpSocket::bind((ip, 0))?;
        let family = match ip {
            IpAddr::V4(_) => AddressFamily::INET,
            IpAddr::V6(_) => AddressFamily::INET6,
        };
        let tcp = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // A program that sets this, too, may then listen there.
        sockopt::set_socket_reuseaddr(&tcp, true)?;
        match rustix::net::bind(&tcp, &socket.local_addr()?) {
            Err(error) if tries == TRIES => return Err(error.into()),
            Err(_) => tries += 1,
            Ok(()) => return Ok((socket, tcp)),
        }
    }
}

/// Fails if packets do not arrive at an address of this machine: its interface may be down, which
/// binding does not tell.
fn check_arrival(ip: IpAddr) -> io::Result<()> {
    let itself = UdpSocket::bind((ip, 0))?;
    itself.connect(itself.local_addr()?)?;
    itself.send(&[0])?;
    itself.set_read_timeout(Some(Duration::from_secs(1)))?;
    match itself.recv(&mut [0]) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Errno::NETDOWN.into()),
        result => result.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_kept_port_of_tcp_serves_those_alone_who_ask_for_it() {
        let (udp, kept) = free_port(std::net::Ipv4Addr::LOCALHOST.into()).unwrap();
        let address = udp.local_addr().unwrap();
        let another = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        assert!(rustix::net::bind(&another, &address).is_err());
        let listener = TcpListener::bind(address).unwrap();
        drop((listener, kept));
        rustix::net::bind(&another, &address).unwrap();
    }

    /// Each cause has its own remedy, and no other's.
    #[test]
    fn the_error_of_a_socket_names_the_remedy_of_its_cause() {
        for (cause, remedy) in [
            (Errno::MFILE, "`ulimit -n`"),
            (Errno::NFILE, "fs.file-max"),
            (Errno::ADDRINUSE, "sysctl -w net.ipv4.ip_local_port_range="),
            (Errno::ADDRNOTAVAIL, "--address"),
            (Errno::AFNOSUPPORT, "--address"),
        ] {
            let ip = "192.0.2.1".parse().unwrap();
            let said = no_socket(ip, 7, &cause.into()).to_string();
            assert!(said.contains("at 192.0.2.1 for process 7: "), "{said}");
            assert!(said.contains(remedy), "{said}");
            assert_eq!(said.contains("ulimit"), cause == Errno::MFILE, "{said}");
        }
    }
}
