//! Arbitrary bytes for targets and initiators. The fuzz target `remote` uses the same code.

#[path = "hostile/any_bytes.rs"]
mod any_bytes;

use proptest::prelude::*;

proptest! {
    #[test]
    fn arbitrary_requests_touch_nothing_else(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        any_bytes::run(&bytes);
    }
}
