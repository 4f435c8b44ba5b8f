//! The bounds that several parts share, with their reasons. Other bounds are in their part's file.
//!
//! Relations between them are asserted at compile time at the end of the file.

use crate::time::Duration;

/// Protocol version in the upper half of byte 0.
pub const VERSION: u8 = 1;

/// Longest message: lengths and offsets fit 48 bits.
pub const MAX_MESSAGE: u64 = (1 << 48) - 1;

/// Longest user header of a message, in bytes: its length is one byte on the wire.
pub const MAX_USER_HEADER: usize = 255;

/// Largest UDP payload: 65,535 less IPv4 and UDP headers. Also the largest train that one
/// segmented send may carry.
pub const MAX_DATAGRAM: usize = 65_507;

/// Segments of one train: the kernel's UDP_MAX_SEGMENTS before 6.9 (64).
pub const MAX_SEGMENTS: usize = 64;

/// UDP payload that every path must carry: RFC 9000 section 14 gives the same floor.
pub const MIN_MTU: usize = 1_200;

/// UDP payload over Ethernet with IPv4: 1,500 - 20 - 8.
pub const ETHERNET_MTU: usize = 1_472;

/// Largest UDP payload by default, in bytes: eight fill a train, usual jumbo frames carry it, and
/// relays that read 8 KiB at a time pass it on.
pub const JUMBO_DATAGRAM: usize = 8_180;

/// Bytes that one full packet is charged in the receiver's socket buffer at MTU 1500 (true size).
pub const DATA_CHARGE: u64 = 2_304;

/// Bytes that a control packet of at most [`CONTROL_PACKET`] bytes is charged there.
pub const CONTROL_CHARGE: u64 = 832;

/// Longest packet that may go beyond the data limit: the kernel's smallest charge class.
pub const CONTROL_PACKET: usize = 128;

/// Ack ranges of one ACK frame.
pub const MAX_ACK_RANGES: usize = 32;

/// Ranges of received packet numbers that are remembered for acknowledging. Beyond so many the
/// lowest range is forgotten. If no ACK reported it, its sender retransmits; nothing is delivered
/// twice.
pub const MAX_TRACKED_RANGES: usize = 256;

/// Packet numbers that are remembered to detect duplicates once reordering is seen.
pub const DEDUP_WINDOW: u64 = 8_192;

/// One packet number in about this many is skipped, to catch acks of packets never sent.
pub const SKIP_INTERVAL: u64 = 4_096;

/// Bytes that a message counts beside its payload, so that empty ones are not free.
pub const MESSAGE_CHARGE: u64 = 64;

/// Shortest piece that a message is cut into. If a packet has less room than this, it stays unused.
///
/// It keeps the receiver's records small too: an honest sender leaves at most one gap in this many
/// bytes.
pub const MIN_PIECE: usize = 128;

/// Maximum number of channels that one peer may have open towards us in one session, and maximum
/// number of ranges of those that it finished.
pub const MAX_CHANNELS: u64 = 65_536;

/// Channels that every receiver lets a peer open, without announcing it.
pub const MIN_CHANNELS: u64 = 1_024;

/// Maximum number of bytes of memory that an open, idle channel costs each side, both directions
/// together.
pub const CHANNEL_MEMORY: u64 = 128;

/// Silence after which unused socket credit lapses for its sender (L); twice that for the receiver.
pub const CREDIT_LAPSE: Duration = Duration::from_secs(10);

/// While all numbers for control are used up, a packet goes nevertheless after this pause, another
/// after [`SECOND_PAUSE`], then one in each [`CREDIT_LAPSE`]. The receiver has room for the two of
/// each peer in the quarter of its buffer that is no budget.
pub const EXTRA_PAUSE: Duration = Duration::from_millis(250);

/// The pause before the second of these packets.
pub const SECOND_PAUSE: Duration = Duration::from_secs(1);

/// Longest acknowledgement delay that may be announced: a longer one would make probe timers
/// useless.
pub const LONGEST_ACK_DELAY: Duration = Duration::from_secs(10);

/// Longest Noise message in a handshake packet, in bytes.
pub const MAX_SEALED: usize = 1_024;

/// Packets that may be sealed in one key phase. With AES-GCM that gives an attacker an advantage of
/// at most 2^-57 for packets of [`JUMBO_DATAGRAM`] bytes and 2^-51 for the longest ones (blocks^2 /
/// 2^129, RFC 9001 appendix B).
pub const PHASE_PACKETS: u64 = 1 << 27;

/// Longest time of a key phase, from its first packet.
pub const PHASE_TIME: Duration = Duration::from_secs(600);

/// Forged packets after which the keys of a connection open nothing more. ChaCha20-Poly1305, the
/// weakest of the ciphers here, then gives a forger an advantage of at most 2^-57 with the longest
/// packets of 2^12 blocks (packets x blocks / 2^103, RFC 9001 section 6.6); AES-GCM permits 2^52.
pub const MAX_FORGERIES: u64 = 1 << 34;

/// How long a cookie is valid.
pub const COOKIE_LIFETIME: Duration = Duration::from_secs(15);

/// Memory credit that every receiver grants without announcing it, so that INIT may carry messages.
pub const RIDE_CREDIT: u64 = 1_024;

/// Messages up to this many bytes wait for memory credit, however long that takes. Longer ones may
/// be announced instead. Every receiver's window has room for several such messages.
pub const RTS_INSTEAD: u64 = 4_096;

/// Longest message of a group, in bytes. A receiver refuses longer ones that are announced.
pub const MAX_GROUP_MESSAGE: usize = 64 * 1024;

/// Memory credit of a session, in bytes, that its sender leaves to replies: the charge of the
/// longest message without RTS. The receiver takes replies even if its program takes no
/// messages, so this much always becomes free again.
pub const REPLY_RESERVE: u64 = MESSAGE_CHARGE + MAX_USER_HEADER as u64 + RTS_INSTEAD;

/// Memory credit of a session, in bytes, that its sender leaves to messages of groups, beside that
/// for replies: the charge of the longest one that waits for it. An operation takes the messages
/// that it awaits even if its program takes no others.
pub const GROUP_RESERVE: u64 = MESSAGE_CHARGE + MAX_USER_HEADER as u64 + GROUP_RTS_INSTEAD;

/// The bound of [`RTS_INSTEAD`] for messages of groups. It is lower, so that both reserves fit the
/// smallest window.
pub const GROUP_RTS_INSTEAD: u64 = 2_048;

/// The part of a channel's memory credit that a channel of a group gets: one of so many. So unread
/// messages of a few groups leave credit to those of others with the same member.
pub const GROUP_WINDOW_PART: u64 = 4;

/// Memory credit of a session, in bytes, that messages of programs do not use.
pub const RESERVES: u64 = REPLY_RESERVE + GROUP_RESERVE;

/// Maximum number of messages queued to one peer that are unacknowledged, or that follow an
/// unacknowledged one.
pub const MAX_QUEUED_MESSAGES: usize = 1 << 20;

/// Incarnations of one node whose next epoch is remembered after their sessions ended.
pub const MAX_RETIRED: usize = 8;

const _: () = {
    assert!(MIN_MTU <= ETHERNET_MTU && ETHERNET_MTU <= MAX_DATAGRAM);
    assert!(
        MAX_SEGMENTS * 1_000 <= MAX_DATAGRAM,
        "a train of usual packets fits one send"
    );
    assert!(DEDUP_WINDOW >= 8_192, "the published window");
    assert!(MAX_ACK_RANGES <= MAX_TRACKED_RANGES);
    assert!(CONTROL_PACKET < MIN_MTU);
    assert!(MIN_CHANNELS <= MAX_CHANNELS);
    assert!(MAX_SEALED < MIN_MTU, "INIT fits every path");
};
