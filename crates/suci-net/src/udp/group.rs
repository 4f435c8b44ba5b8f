//! Several sockets at one port, and which datagram goes to which.
//!
//! The kernel lets sockets of one user share a port if all set `SO_REUSEPORT`, and asks a program
//! which of them a datagram is for. Ours takes byte 4 of the payload modulo the number of sockets,
//! and the kernel counts them in the order in which they were bound (`reuseport_add_sock` appends).
//!
//! **A second node at the port must be refused**, or two nodes would share datagrams meant for one.
//! So the first socket is bound without the option, which fails if another socket is at the port,
//! and sets the option afterwards; the others join. Another node does the same, and fails, since a
//! socket without the option cannot join. The kernel lets in a program of the same user that sets
//! the option itself, at any time. Its socket comes last in the order, where the kernel's program
//! never points, and gets nothing, unless it came between our own. So the port is checked once more
//! when all of ours are bound ([`is_ours_alone`]). (Clearing the option afterwards would keep all
//! others out, but the kernel then stops choosing. Only a socket bound to a more specific address
//! of the machine takes the datagrams sent there, as with every group.)
//!
//! **All must close together**: when a socket of a group is closed, the last one takes its place in
//! the order.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use socket2::SockRef;

use super::options::{self, UdpOptions};
use super::{Udp, sys};

/// Maximum number of sockets of a group: one for each value of a byte.
const MOST: usize = 256;

/// The byte of a datagram that names its socket.
const STEERING_BYTE: u32 = 4;

impl Udp {
    /// Makes this socket and others at its address a group, `count` in all. Each gets the datagrams
    /// whose byte 4 modulo `count` is its place in the list; shorter datagrams go to the first. A
    /// few may go elsewhere while the group is made. No other socket gets in, unless it belongs to
    /// the same user and asks for `SO_REUSEPORT`, and then it gets nothing. Close all at the same
    /// time.
    ///
    /// # Errors
    /// `InvalidInput` for a count of 0 or more than 256, or with [`UdpOptions::reuse_port`];
    /// `AddrInUse` if another socket got in; else the system's error, for instance that it cannot
    /// steer (Linux before 4.5).
    pub fn into_group(self, count: usize, options: &UdpOptions) -> io::Result<Vec<Self>> {
        let refused = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        if count == 0 || count > MOST {
            return refused("1 to 256 sockets can share a port");
        }
        if count == 1 {
            return Ok(vec![self]);
        }
        if options.reuse_port {
            return refused("sockets that share a port among themselves share it with no others");
        }
        let first = SockRef::from(&self.socket);
        first.set_reuse_port(true)?;
        let joining = UdpOptions {
            reuse_port: true,
            only_v6: self.local.is_ipv6() && first.only_v6()?,
            ..*options
        };
        let local = self.local;
        let mut group = vec![self];
        for _ in 1..count {
            let socket = options::open(local, &joining)?;
            // There is a group from the second on.
            if let [_] = &group[..] {
                steer(&socket, count)?;
            }
            group.push(Self::from_socket(socket, &joining)?);
        }
        if !is_ours_alone(local, count) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        Ok(group)
    }
}

/// Tells the kernel which socket of the group a datagram is for. A byte that it cannot read counts
/// as 0.
fn steer(socket: &impl AsFd, count: usize) -> io::Result<()> {
    let instruction = |code: u32, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    let program = [
        // A = the byte at this place of the UDP payload.
        instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, STEERING_BYTE),
        instruction(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, count as u32),
        instruction(libc::BPF_RET | libc::BPF_A, 0),
    ];
    sys::attach(
        socket.as_fd(),
        libc::SOL_SOCKET,
        libc::SO_ATTACH_REUSEPORT_CBPF,
        &program,
    )
}

/// Whether no more than `count` sockets are bound to exactly this address in the network namespace
/// of this thread, as far as the system tells.
fn is_ours_alone(local: SocketAddr, count: usize) -> bool {
    let table = if local.is_ipv4() {
        "/proc/thread-self/net/udp"
    } else {
        "/proc/thread-self/net/udp6"
    };
    let Ok(table) = std::fs::read_to_string(table) else {
        return true;
    };
    let name = name_in_table(local);
    // A line: place, local address, remote address, six more, inode. One may stand there twice if
    // others came or went while the table was read.
    let inode_at_it = |line: &'_ str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        (words.next() == Some(name.as_str())).then(|| words.nth(7).map(str::to_owned))
    };
    let inodes: BTreeSet<_> = table.lines().filter_map(inode_at_it).collect();
    inodes.len() <= count
}

/// An address as the kernel's tables write it: its words in the machine's own byte order.
fn name_in_table(local: SocketAddr) -> String {
    use std::fmt::Write as _;
    let mut name = String::new();
    let octets = match local {
        SocketAddr::V4(v4) => v4.ip().octets().to_vec(),
        SocketAddr::V6(v6) => v6.ip().octets().to_vec(),
    };
    for word in octets.chunks_exact(4) {
        let word = word.try_into().map_or(0, u32::from_ne_bytes);
        // Writing to a string does not fail.
        let _ = write!(name, "{word:08X}");
    }
    let _ = write!(name, ":{:04X}", local.port());
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backend, Ecn, SendOutcome, Train};
    use std::io::IoSlice;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
    use std::time::Duration;

    const SMALL: UdpOptions = UdpOptions {
        recv_buffer: 1 << 18,
        send_buffer: 1 << 18,
        gso: true,
        gro: true,
        reuse_port: false,
        only_v6: false,
        recv_slot: 65_536,
    };

    fn group(local: &str, count: usize) -> Vec<Udp> {
        let first = Udp::bind(local.parse().unwrap(), &SMALL).unwrap();
        first.into_group(count, &SMALL).unwrap()
    }

    /// Returns the place of the socket at which each value of byte 4 arrives.
    fn places(group: &mut [Udp], from: &str) -> Vec<(u8, usize)> {
        let mut at = group[0].local_addr();
        let from = UdpSocket::bind(from).unwrap();
        if at.ip().is_unspecified() {
            at.set_ip(match from.local_addr().unwrap().ip() {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        for byte in 0..=255 {
            from.send_to(&[9, 9, 9, 9, byte], at).unwrap();
        }
        let mut found = Vec::new();
        for (place, socket) in group.iter_mut().enumerate() {
            while socket
                .recv(64, &mut |meta, bytes| {
                    found.extend(meta.datagrams(bytes).map(|d| (d[4], place)));
                })
                .unwrap()
                > 0
            {}
        }
        found.sort_unstable();
        found
    }

    fn expected(count: usize) -> Vec<(u8, usize)> {
        (0..=255)
            .map(|byte| (byte, usize::from(byte) % count))
            .collect()
    }

    #[test]
    fn byte_4_names_the_socket_in_both_families() {
        for (local, from) in [
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("0.0.0.0:0", "127.0.0.1:0"),
            ("[::1]:0", "[::1]:0"),
            ("[::]:0", "[::1]:0"),
            ("[::]:0", "127.0.0.1:0"),
        ] {
            for count in [1, 2, 3, 4, 7] {
                let mut group = group(local, count);
                assert_eq!(group.len(), count);
                assert_eq!(
                    places(&mut group, from),
                    expected(count),
                    "{count} at {local}"
                );
            }
        }
    }

    #[test]
    fn what_is_too_short_goes_to_the_first() {
        let mut group = group("127.0.0.1:0", 3);
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        for length in 0..5 {
            from.send_to(&[255; 4][..length], group[0].local_addr())
                .unwrap();
        }
        let counts: Vec<_> = group
            .iter_mut()
            .map(|s| s.recv(64, &mut |_, _| ()).unwrap())
            .collect();
        assert_eq!(counts, [5, 0, 0]);
    }

    #[test]
    fn trains_arrive_whole_where_their_datagrams_belong() {
        let mut group = group("127.0.0.1:0", 2);
        let mut from = Udp::bind("127.0.0.1:0".parse().unwrap(), &SMALL).unwrap();
        let bytes = [1_u8; 3_000];
        let slices = [IoSlice::new(&bytes)];
        let train = Train {
            segment: 1_000,
            ..Train::single(group[0].local_addr(), Ecn::Ect0, &slices)
        };
        assert_eq!(from.send(&train).unwrap(), SendOutcome::Sent(3));
        assert_eq!(group[0].recv(64, &mut |_, _| ()).unwrap(), 0);
        assert_eq!(
            group[1]
                .recv(64, &mut |meta, _| assert_eq!(meta.segment, 1_000))
                .unwrap(),
            3
        );
    }

    /// Everything that can come to the port of a group: other nodes, of one thread or more, are
    /// refused; a socket that insists gets nothing.
    #[test]
    fn a_second_socket_on_the_port_is_refused_or_gets_nothing() {
        for (local, from) in [("127.0.0.1:0", "127.0.0.1:0"), ("[::]:0", "[::1]:0")] {
            let mut group = group(local, 3);
            let at = group[0].local_addr();
            let refused = Udp::bind(at, &SMALL).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
            let sharing = UdpOptions {
                reuse_port: true,
                ..SMALL
            };
            let mut insists = Udp::bind(at, &sharing).unwrap();
            assert_eq!(places(&mut group, from), expected(3));
            assert_eq!(insists.recv(1, &mut |_, _| ()).unwrap(), 0);
            drop(insists);
            assert_eq!(places(&mut group, from), expected(3));
        }
    }

    #[test]
    fn a_socket_that_joins_while_a_group_is_made_is_noticed() {
        let alone = Udp::bind("127.0.0.1:0".parse().unwrap(), &SMALL).unwrap();
        let at = alone.local_addr();
        assert!(is_ours_alone(at, 1));
        SockRef::from(&alone.socket).set_reuse_port(true).unwrap();
        let sharing = UdpOptions {
            reuse_port: true,
            ..SMALL
        };
        let _early = Udp::bind(at, &sharing).unwrap();
        let refused = alone.into_group(2, &SMALL).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        let alone = Udp::bind("[::1]:0".parse().unwrap(), &SMALL).unwrap();
        assert!(is_ours_alone(alone.local_addr(), 1) && !is_ours_alone(alone.local_addr(), 0));
    }

    #[test]
    fn a_port_is_free_again_when_all_are_closed() {
        let group = group("127.0.0.1:0", 4);
        let at = group[0].local_addr();
        drop(group);
        let group = Udp::bind(at, &SMALL)
            .unwrap()
            .into_group(2, &SMALL)
            .unwrap();
        assert!(group[1].local_addr() == at);
    }

    #[test]
    fn impossible_groups_are_refused() {
        let bind = || Udp::bind("127.0.0.1:0".parse().unwrap(), &SMALL).unwrap();
        for count in [0, 257] {
            let refused = bind().into_group(count, &SMALL).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        }
        let sharing = UdpOptions {
            reuse_port: true,
            ..SMALL
        };
        let refused = bind().into_group(2, &sharing).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }

    /// Each socket of a group blocks, wakes and tells its buffer like one alone.
    #[test]
    fn every_socket_of_a_group_is_set_up_like_one_alone() {
        let alone = Udp::bind("127.0.0.1:0".parse().unwrap(), &SMALL).unwrap();
        let mut group = group("127.0.0.1:0", 3);
        for socket in &mut group {
            assert_eq!(socket.capabilities(), alone.capabilities());
            assert!(
                !socket
                    .wait(Some(Duration::from_millis(1)), false)
                    .unwrap()
                    .readable
            );
            assert!(socket.recv_blocking(&mut |_, _| ()).unwrap().is_none());
        }
    }
}
