//! The programs of classic BPF that choose among frames.

use std::net::SocketAddrV4;

use libc::sock_filter;

use crate::ethernet::frame;
use crate::ethernet::own::{self, EtherType};

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

/// Loads what the kernel knows of a frame.
const fn known(field: i32) -> sock_filter {
    load(libc::BPF_W, libc::SKF_AD_OFF + field)
}

const DROP: sock_filter = statement(libc::BPF_RET | libc::BPF_K, 0);

/// Goes on behind the next `otherwise` statements unless `value` was loaded.
fn if_equal(value: u32, otherwise: usize) -> sock_filter {
    sock_filter {
        jf: u8::try_from(otherwise).unwrap_or(u8::MAX),
        ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value)
    }
}

/// A filter that takes unfragmented UDP datagrams for `local` that came by one of two interfaces,
/// without a VLAN tag; with `ether_type` also frames of that type that came by the first.
pub(super) fn filter(
    local: SocketAddrV4,
    interface: u32,
    loopback: u32,
    ether_type: Option<EtherType>,
) -> Vec<sock_filter> {
    let mut program = Vec::new();
    if let Some(ether_type) = ether_type {
        let mut own = at_this_host(&[interface]);
        own.extend(dropped_unless(&[
            (load(libc::BPF_B, NETWORK), &[own::VERSION.into()]),
            (load(libc::BPF_W, NETWORK + 12), &[u32::from(*local.ip())]),
            (load(libc::BPF_H, NETWORK + 6), &[local.port().into()]),
        ]));
        own.push(crate::udp::sys::TAKE_ALL);
        program.push(known(libc::SKF_AD_PROTOCOL));
        program.push(if_equal(ether_type.get().into(), own.len()));
        program.extend(own);
    }
    program.extend(at_this_host(&[interface, loopback]));
    program.extend(dropped_unless(&[
        (
            known(libc::SKF_AD_PROTOCOL),
            &[libc::ETH_P_IP.cast_unsigned()],
        ),
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
    ]));
    // More fragments follow, or this is not the first.
    program.push(load(libc::BPF_H, NETWORK + 6));
    let fragment = statement(
        libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K,
        frame::FRAGMENT.into(),
    );
    program.push(sock_filter { jt: 1, ..fragment });
    program.push(crate::udp::sys::TAKE_ALL);
    program.push(DROP);
    program
}

/// Statements that drop a frame unless it came to this host by one of the interfaces, without a
/// VLAN tag.
fn at_this_host(interfaces: &[u32]) -> Vec<sock_filter> {
    dropped_unless(&[
        (known(libc::SKF_AD_IFINDEX), interfaces),
        (known(libc::SKF_AD_PKTTYPE), &[libc::PACKET_HOST.into()]),
        (known(libc::SKF_AD_VLAN_TAG_PRESENT), &[0]),
    ])
}

/// Statements that drop a frame unless each value that is loaded is one of those allowed.
fn dropped_unless(checks: &[(sock_filter, &[u32])]) -> Vec<sock_filter> {
    let mut program = Vec::new();
    for &(load, allowed) in checks {
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
        program.push(DROP);
    }
    program
}

/// A program that chooses the socket of a group by byte 4 of the payload; shorter ones go to the
/// first.
pub(super) fn steering(sockets: u32, ether_type: Option<EtherType>) -> Vec<sock_filter> {
    const STEERING_BYTE: i32 = 4;
    let behind = |header: usize| load(libc::BPF_B, NETWORK + header as i32 + STEERING_BYTE);
    let mut program = Vec::new();
    if let Some(ether_type) = ether_type {
        program.push(known(libc::SKF_AD_PROTOCOL));
        program.push(if_equal(ether_type.get().into(), 2));
        program.push(behind(own::HEADER));
        program.push(statement(libc::BPF_JMP | libc::BPF_JA, 1));
    }
    program.push(behind(frame::IP_AND_UDP));
    program.push(statement(
        libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K,
        sockets,
    ));
    program.push(statement(libc::BPF_RET | libc::BPF_A, 0));
    program
}
