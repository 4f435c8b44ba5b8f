//! Frames with a VLAN tag (IEEE 802.1Q) are none of the untagged interface's.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests")]

#[expect(dead_code, reason = "other tests use the rest")]
mod hosts;

use std::ffi::CStr;
use std::fs::File;
use std::io::Write as _;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

use hosts::{Host, pair};
use socket2::{Domain, Protocol, Socket, Type};
use suci_net::af_packet::{AfPacket, EtherType};
use suci_net::af_xdp::AfXdp;
use suci_net::udp::UdpOptions;
use suci_net::{Backend, Meta};

type Boxed = Box<dyn Backend>;

const FROM: &str = "10.77.0.1:7000";
const TO: &str = "10.77.0.2:7000";

/// A raw backend.
struct Raw {
    name: &'static str,
    open: fn() -> Boxed,
    /// Makes a frame that it takes, from the EtherType on.
    frame: fn(&[u8]) -> Vec<u8>,
}

const ALL: [Raw; 3] = [
    Raw {
        name: "af_packet",
        open: || packet(None),
        frame: datagram,
    },
    Raw {
        name: "ethernet",
        open: || packet(Some(EtherType::LOCAL_EXPERIMENTAL)),
        frame: own,
    },
    Raw {
        name: "af_xdp",
        open: || Box::new(AfXdp::bind(at(TO).into(), &UdpOptions::default()).unwrap()),
        frame: datagram,
    },
];

fn packet(ether_type: Option<EtherType>) -> Boxed {
    let at: SocketAddr = at(TO).into();
    Box::new(AfPacket::bind(at, ether_type, &UdpOptions::default()).unwrap())
}

fn at(text: &str) -> SocketAddrV4 {
    text.parse().unwrap()
}

/// The EtherType and what is behind it: IPv4 and UDP without a checksum.
fn datagram(payload: &[u8]) -> Vec<u8> {
    let (from, to) = (at(FROM), at(TO));
    let udp_length = 8 + payload.len() as u16;
    let mut ip = vec![0x45, 0];
    ip.extend((20 + udp_length).to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    ip.extend(from.ip().octets());
    ip.extend(to.ip().octets());
    let words = ip
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    let udp = [from.port(), to.port(), udp_length, 0].map(u16::to_be_bytes);
    [&[8, 0], &ip[..], udp.as_flattened(), payload].concat()
}

/// The EtherType and what is behind it, as section 22 of PROTOCOL.md has it.
fn own(payload: &[u8]) -> Vec<u8> {
    let (from, to) = (at(FROM), at(TO));
    let numbers = [payload.len() as u16, from.port(), to.port()].map(u16::to_be_bytes);
    let addresses = [from.ip().octets(), to.ip().octets()];
    let head = [0x88, 0xb5, 1, 0];
    [
        &head,
        numbers.as_flattened(),
        addresses.as_flattened(),
        payload,
    ]
    .concat()
}

/// A socket that sends whole frames by eth0.
fn cable(host: &Host) -> File {
    host.inside(|| {
        let (kind, all) = (Type::RAW, Protocol::from(0));
        let socket = Socket::new(Domain::PACKET, kind, Some(all)).unwrap();
        bind(&socket, c"eth0");
        File::from(OwnedFd::from(socket))
    })
}

fn bind(socket: &Socket, interface: &CStr) {
    // SAFETY: plain integers, for which all zero bits are valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    // SAFETY: the name is a string.
    address.sll_ifindex = unsafe { libc::if_nametoindex(interface.as_ptr()) } as i32;
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address outlives the call and is as long as said; the kernel only reads it.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    assert_eq!(bound, 0);
}

/// The Ethernet address of an interface.
fn ethernet_of(interface: &str) -> Vec<u8> {
    let mut show = Command::new("ip");
    let output = show
        .args(["-o", "link", "show", interface])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut words = text.split_whitespace();
    let address = words.find(|word| *word == "link/ether").and(words.next());
    let digits = address.unwrap().split(':');
    digits
        .map(|it| u8::from_str_radix(it, 16).unwrap())
        .collect()
}

/// Receives what comes within a while.
fn receive(backend: &mut dyn Backend) -> Vec<Vec<u8>> {
    let mut taken = Vec::new();
    let limit = Some(Duration::from_millis(300));
    while backend.wait(limit, false).unwrap().any() {
        let mut sink = |meta: &Meta, bytes: &mut [u8]| {
            taken.extend(meta.datagrams(bytes).map(<[u8]>::to_vec));
        };
        backend.recv(64, &mut sink).unwrap();
    }
    taken
}

#[test]
fn f12_tagged_frames_do_not_come_untagged() {
    for Raw { name, open, frame } in ALL {
        let [a, b] = pair(1_500);
        let mut to = b.inside(open);
        let ethernet = b.inside(|| ethernet_of("eth1"));
        let mut cable = cable(&a);
        let mut send = |tags: &[u8], payload: &[u8]| {
            let sender = [2, 0, 0, 0, 0, 1];
            let bytes = [&ethernet[..], &sender, tags, &frame(payload)].concat();
            cable.write_all(&bytes).unwrap();
        };
        for _ in 0..10 {
            send(&[], b"untagged");
            // And a provider's tag (IEEE 802.1ad) around another.
            send(&[0x81, 0, 0, 5], b"tagged");
            send(&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 5], b"tagged twice");
        }
        assert_eq!(receive(&mut *to), vec![b"untagged"; 10], "{name}");
    }
}
