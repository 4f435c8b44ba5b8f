//! Frames as a packet socket takes and gives them: behind a header that says what the kernel or
//! the device has still to do (`struct virtio_net_hdr`).

use crate::ethernet::frame::{self, Addresses, Checksum, Datagrams, ETHERNET, IP, Said, TYPE_IPV4};
use crate::ethernet::own::{self, EtherType};
use crate::{MAX_TRAIN_BYTES, Train};

/// Bytes of the kernel's header.
const OFFLOAD: usize = 10;

/// Bytes in front of the payload.
pub(super) const HEADERS: usize = OFFLOAD + frame::HEADERS;

/// Bytes of the longest frame, with the headers.
pub(super) const LONGEST: usize = HEADERS + MAX_TRAIN_BYTES;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum is still to be computed.
const NEEDS_CHECKSUM: u8 = 1;
/// `VIRTIO_NET_HDR_F_DATA_VALID`: the checksum was found right.
const CHECKSUM_IS_RIGHT: u8 = 2;
/// `VIRTIO_NET_HDR_GSO_UDP_L4`: several datagrams, each but the last of `gso_size` bytes.
const UDP_SEGMENTS: u8 = 5;

/// Where the UDP checksum lies in the UDP header.
const CHECKSUM_AT: u16 = 6;

/// The headers of a frame that carries `train`, which has at most [`MAX_TRAIN_BYTES`].
pub(super) fn headers(addresses: &Addresses, train: &Train<'_>) -> [u8; HEADERS] {
    let is_train = train.segments() > 1;
    let segment = if is_train { train.segment } else { 0 };
    let mut out = [0; HEADERS];
    let (offload, rest) = out.split_at_mut(OFFLOAD);
    offload[0] = NEEDS_CHECKSUM;
    offload[1] = if is_train { UDP_SEGMENTS } else { 0 };
    // The kernel reads these in the byte order of the machine.
    let words = [
        (ETHERNET + frame::IP_AND_UDP) as u16,
        u16::try_from(segment).unwrap_or(u16::MAX),
        (ETHERNET + IP) as u16,
        CHECKSUM_AT,
    ];
    offload[2..].copy_from_slice(words.map(u16::to_ne_bytes).as_flattened());
    rest.copy_from_slice(&frame::headers(
        addresses,
        train.ecn,
        train.len,
        Checksum::Later,
    ));
    out
}

/// The headers of a frame of our own type. The kernel has nothing to do for it, and makes no
/// several frames of one.
pub(super) fn own_headers(
    ether_type: EtherType,
    addresses: &Addresses,
    train: &Train<'_>,
) -> [u8; OFFLOAD + own::HEADERS] {
    let mut out = [0; OFFLOAD + own::HEADERS];
    let (_, rest) = out.split_at_mut(OFFLOAD);
    rest.copy_from_slice(&own::headers(ether_type, addresses, train.ecn, train.len));
    out
}

/// Reads a frame that the filter let through, with the kernel's header. `None` if it is cut or its
/// checksum is wrong.
pub(super) fn read(frame: &[u8]) -> Option<Datagrams> {
    let (offload, frame) = frame.split_first_chunk::<OFFLOAD>()?;
    let [flags, kind, ..] = *offload;
    let is_ip = frame.get(12..ETHERNET) == Some(&TYPE_IPV4);
    let gso_size = usize::from(u16::from_ne_bytes([offload[4], offload[5]]));
    let said = Said {
        checked: flags & (NEEDS_CHECKSUM | CHECKSUM_IS_RIGHT) != 0,
        segment: (kind == UDP_SEGMENTS && gso_size > 0).then_some(gso_size),
    };
    let read = match is_ip {
        true => frame::read(frame, said)?,
        false => own::read(frame)?,
    };
    let bytes = read.bytes.start + OFFLOAD..read.bytes.end + OFFLOAD;
    Some(Datagrams { bytes, ..read })
}
