//! A table of sockets that gets arbitrary messages and calls. A property test uses the same code.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/suci-layers/tests/sockets/any_bytes.rs"]
mod any_bytes;

fuzz_target!(|data: &[u8]| any_bytes::run(data));
