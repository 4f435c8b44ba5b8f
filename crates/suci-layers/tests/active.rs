//! The header of active messages: the protocol's test vectors, and any bytes.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../suci-proto/tests/it/page.rs"]
mod page;

use page::{Vector, hex, page, vectors};
use proptest::prelude::*;
use suci_layers::{ActiveHeader, MAX_WORDS};

fn explain(header: &ActiveHeader) -> String {
    let words = header.words().iter().map(|word| format!(" {word}"));
    format!("handler={}{}", header.handler(), words.collect::<String>())
}

#[test]
fn every_vector_means_what_the_page_says() {
    let mut refused = 0;
    for Vector { bytes, meaning, .. } in of_this_layer() {
        let Some(header) = ActiveHeader::read(&bytes) else {
            assert_eq!(meaning, "refused", "{}", hex(&bytes));
            refused += 1;
            continue;
        };
        assert_eq!(explain(&header), meaning, "{}", hex(&bytes));
        assert_eq!(hex(&header.write()), hex(&bytes), "{meaning}");
    }
    assert_eq!((of_this_layer().len(), refused), (7, 4));
}

fn of_this_layer() -> Vec<Vector> {
    let mut all = vectors(&page());
    all.retain(|vector| vector.kind == "active");
    all
}

#[test]
fn more_words_than_a_header_has_make_none() {
    assert_eq!(ActiveHeader::new(1, &[0; MAX_WORDS + 1]), None);
    let longest = ActiveHeader::new(1, &[9; MAX_WORDS]).unwrap();
    assert_eq!(ActiveHeader::read(&longest.write()), Some(longest));
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_written_again_as_they_were(
        bytes in prop::collection::vec(any::<u8>(), 0..255),
    ) {
        match ActiveHeader::read(&bytes) {
            Some(header) => prop_assert_eq!(&header.write()[..], &bytes[..]),
            None => prop_assert!(bytes.len() % 8 != 2 || bytes.len() > 66),
        }
    }
}
