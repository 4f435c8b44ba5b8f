//! The outer packets of routes: the protocol's test vectors, and any bytes.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../suci-proto/tests/it/page.rs"]
mod page;

use page::{Vector, hex, page, vectors};
use proptest::prelude::*;
use suci_layers::routes::{MAX_HOPS, OuterHeader, PACKET};
use suci_proto::types::Kind;

fn explain(header: OuterHeader) -> String {
    let OuterHeader {
        destination,
        source,
        hops,
        turn,
    } = header;
    let channel = header.channel().0 & 0x00ff_ffff;
    format!("destination={destination} source={source} hops={hops} turn={turn} channel={channel}")
}

/// Reads kind and user header.
fn read(bytes: &[u8]) -> Option<OuterHeader> {
    let (kind, header) = bytes.split_first()?;
    OuterHeader::read(Kind(*kind), header).ok()
}

fn write(header: OuterHeader) -> Vec<u8> {
    [&[PACKET.0][..], &header.write()].concat()
}

#[test]
fn every_vector_means_what_the_page_says() {
    let mut all = vectors(&page());
    all.retain(|vector| vector.kind == "routes");
    let mut refused = 0;
    for Vector { bytes, meaning, .. } in &all {
        let Some(header) = read(bytes) else {
            assert_eq!(meaning, "refused", "{}", hex(bytes));
            refused += 1;
            continue;
        };
        assert_eq!(&explain(header), meaning, "{}", hex(bytes));
        assert_eq!(hex(&write(header)), hex(bytes), "{meaning}");
    }
    assert_eq!((all.len(), refused), (10, 6));
}

proptest! {
    #[test]
    fn what_can_be_read_is_written_alike(
        kind in 63..66u8,
        rest in proptest::collection::vec(any::<u8>(), 0..24),
    ) {
        let bytes = [&[kind][..], &rest].concat();
        if let Some(header) = read(&bytes) {
            prop_assert!((1..=MAX_HOPS).contains(&header.hops));
            prop_assert_eq!(read(&write(header)), Some(header));
        }
    }
}
