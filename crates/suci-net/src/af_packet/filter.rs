//! The programs of classic BPF that choose among frames.

use std::net::SocketAddrV4;

use libc::sock_filter;

use crate::ethernet::frame;

/// Where a program of classic BPF finds the IP header, whatever the kernel put in front of it.
const NETWORK: i32 = libc::SKF_NET_OFF;

const fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

const fn load(size: u32, at: i32) -> sock_filter {
    statement(libc::BPF_LD | libc::BPF_ABS | size, at.cast_unsigned())
}

/// A filter that takes unfragmented UDP datagrams for `local` that came by one of two interfaces,
/// without a VLAN tag.
pub(super) fn filter(local: SocketAddrV4, interface: u32, loopback: u32) -> Vec<sock_filter> {
    let own = |field: i32| load(libc::BPF_W, libc::SKF_AD_OFF + field);
    let checks: [(sock_filter, &[u32]); 7] = [
        (own(libc::SKF_AD_IFINDEX), &[interface, loopback]),
        (own(libc::SKF_AD_PKTTYPE), &[libc::PACKET_HOST.into()]),
        (own(libc::SKF_AD_VLAN_TAG_PRESENT), &[0]),
        (
            load(libc::BPF_B, NETWORK),
            &[frame::VERSION_AND_LENGTH.into()],
        ),
        (
            load(libc::BPF_B, NETWORK + 9),
            &[frame::PROTOCOL_UDP.into()],
        ),
        (load(libc::BPF_W, NETWORK + 16), &[u32::from(*local.ip())]),
        (load(libc::BPF_H, NETWORK + 22), &[local.port().into()]),
    ];
    let drop = statement(libc::BPF_RET | libc::BPF_K, 0);
    let mut program = Vec::new();
    for (load, allowed) in checks {
        program.push(load);
        // Behind the last comparison comes the drop, and behind that the next check.
        for (place, value) in allowed.iter().enumerate() {
            let to_next_check = u8::try_from(allowed.len() - place).unwrap_or(u8::MAX);
            let compare = statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, *value);
            program.push(sock_filter {
                jt: to_next_check,
                ..compare
            });
        }
        program.push(drop);
    }
    // More fragments follow, or this is not the first.
    program.push(load(libc::BPF_H, NETWORK + 6));
    let fragment = statement(
        libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K,
        frame::FRAGMENT.into(),
    );
    program.push(sock_filter { jt: 1, ..fragment });
    program.push(crate::udp::sys::TAKE_ALL);
    program.push(drop);
    program
}

/// A program that chooses the socket of a group by byte 4 of the payload; shorter ones go to the
/// first.
pub(super) fn steering(sockets: u32) -> [sock_filter; 3] {
    const STEERING_BYTE: i32 = 4;
    [
        load(
            libc::BPF_B,
            NETWORK + frame::IP_AND_UDP as i32 + STEERING_BYTE,
        ),
        statement(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, sockets),
        statement(libc::BPF_RET | libc::BPF_A, 0),
    ]
}
