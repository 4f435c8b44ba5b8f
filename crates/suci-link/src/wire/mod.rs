//! The wire format, version 1. PROTOCOL.md is its specification; only this module knows the bytes.
//!
//! Here received bytes become, once, types that cannot hold invalid values: a user of a [`Frame`]
//! only checks what depends on state. All data is borrowed from the datagram; a claimed length
//! never causes an allocation.

mod ack;
mod contiguous;
mod crc;
mod frag;
mod frame;
mod frame_batch;
mod handshake;
mod header;
mod reader;
mod sequential_headers;
mod template;
#[cfg(test)]
mod tests;
mod tlv;
pub mod varint;

pub use ack::{Ack, AckRanges, EcnCounts, put_ack};
pub use contiguous::{ContiguousPackets, Messages};
pub use crc::expected as checksum;
pub use crc::{Crc, seal, seal_gathered};
pub use frag::{Frag, FragHead, Rts, Start};
pub use frame::PacketPart;
pub use frame::{
    Blocked, CLOSE_FINISHED, CLOSE_LEAVING, CLOSE_REVOKED, CLOSE_USER, Close, Credit, Frame,
    Frames, close_code, frames,
};
pub use frame_batch::FrameBatch;
pub use frame_batch::{FrameShape, LONGEST};
pub use handshake::{
    Accept, COOKIE, COOKIE_LEN, Cookie, HELLO_LEN, Hello, Init, Refused, RefusedCode,
};
pub use header::{
    CrcScope, HEADER, Header, HeaderError, PLAIN_OVERHEAD, PacketType, SEALED_OVERHEAD,
    SealedHeader, handshake_context, is_data, open, open_other_version, peek_index, peek_number,
    peek_tag, put_header, tail,
};
pub use reader::{Malformed, Reader};
pub use sequential_headers::SequentialHeaders;
pub use template::HeaderTemplate;
pub use tlv::{
    ALL_EXTENSIONS, EXTENSION_CHANNELS, EXTENSION_MODE, EXTENSION_SUSPENSION, Mode, Params,
};
