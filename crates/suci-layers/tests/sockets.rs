//! The messages of sockets: PROTOCOL.md's test vectors, and any bytes.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

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

proptest! {
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
