//! The messages of sockets: the protocol's test vectors, and any bytes.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "sockets/any_bytes.rs"]
mod any_bytes;
#[path = "../../suci-proto/tests/it/page.rs"]
mod page;

use page::{Vector, hex, page, vectors};
use proptest::prelude::*;
use suci_layers::sockets::{Packet, RefusedCode, SocketKind};
use suci_proto::types::Kind;
use suci_proto::wire::{Reader, varint};

fn explain(packet: Packet) -> String {
    match packet {
        Packet::Open {
            from,
            source,
            target,
            kind,
            window,
        } => {
            let what = match kind {
                SocketKind::Stream => "stream",
                SocketKind::Messages => "messages",
            };
            format!(
                "open from={} source={source} target={target} what={what} window={window}",
                from.0
            )
        }
        Packet::Opened { from, window, .. } => format!("opened from={} window={window}", from.0),
        Packet::Refused { code, .. } => {
            let code = match code {
                RefusedCode::NoListener => 1,
                RefusedCode::BacklogFull => 2,
                RefusedCode::OtherKind => 3,
                RefusedCode::NoMemory => 4,
                RefusedCode::Other(code) => code,
            };
            format!("refused code={code}")
        }
        Packet::Confirm { from, .. } => format!("confirm from={}", from.0),
        Packet::Data { from, last, .. } => {
            let name = if last { "last" } else { "data" };
            format!("{name} from={}", from.0)
        }
        Packet::Credit { limit, .. } => format!("credit limit={limit}"),
        Packet::Shutdown { from, .. } => format!("shutdown from={}", from.0),
        Packet::Close { from, .. } => format!("close from={}", from.0),
        Packet::Closed { .. } => "closed".to_owned(),
        Packet::Reset { .. } => "reset".to_owned(),
    }
}

/// Reads kind, tag and user header.
fn read(bytes: &[u8]) -> Option<Packet> {
    let mut reader = Reader::new(bytes);
    let (kind, tag) = (reader.u8().ok()?, reader.varint().ok()?);
    Packet::read(Kind(kind), tag, reader.rest()).ok()
}

fn write(packet: Packet) -> Vec<u8> {
    let (kind, tag, header) = packet.write();
    let mut bytes = vec![kind.0];
    varint::put(&mut bytes, tag);
    bytes.extend(header);
    bytes
}

#[test]
fn every_vector_means_what_the_page_says() {
    let mut all = vectors(&page());
    all.retain(|vector| vector.kind == "sockets");
    let mut refused = 0;
    for Vector { bytes, meaning, .. } in &all {
        let Some(packet) = read(bytes) else {
            assert_eq!(meaning, "refused", "{}", hex(bytes));
            refused += 1;
            continue;
        };
        assert_eq!(&explain(packet), meaning, "{}", hex(bytes));
        assert_eq!(hex(&write(packet)), hex(bytes), "{meaning}");
    }
    assert_eq!((all.len(), refused), (18, 7));
}

/// A piece of [`any_bytes`]: an OPEN, a message with the number of its sender's socket, any
/// message, or a call.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    // A varint of one byte.
    let short = |field: u8| field << 1 | 1;
    let slot = || (0..12u8, 0..2u8);
    let open = (0..9u8, 7..9u8).prop_map(move |(from, port)| {
        // The kind that the listener at the port has.
        let fields = [from, 1, port, 8 - port, 60].map(short);
        (64, [&[0, 0], fields.as_slice()].concat())
    });
    let known = (prop_oneof![Just(67), 68..70u8, 71..73u8], slot(), 0..9u8)
        .prop_map(move |(kind, (slot, uses), from)| (kind, vec![slot, uses, short(from)]));
    let any = (64..76u8, proptest::collection::vec(any::<u8>(), 0..9));
    let call = (0..11u8, proptest::collection::vec(0..12u8, 0..4));
    let piece = prop_oneof![3 => open, 4 => known, 1 => any, 4 => call];
    (piece, 0..4u8).prop_map(|((what, body), node)| {
        [&[what, node, body.len() as u8], body.as_slice()].concat()
    })
}

proptest! {
    /// F04: whatever peers send, they make no more sockets than the program allows.
    #[test]
    fn f04_any_messages_keep_the_table_within_its_bounds(
        pieces in proptest::collection::vec(piece(), 0..60),
    ) {
        any_bytes::run(&pieces.concat());
    }

    #[test]
    fn what_can_be_read_is_written_alike(
        kind in 60..80u8,
        rest in proptest::collection::vec(any::<u8>(), 0..24),
    ) {
        let bytes = [&[kind][..], &rest].concat();
        if let Some(packet) = read(&bytes) {
            prop_assert_eq!(read(&write(packet)), Some(packet));
        }
    }
}
