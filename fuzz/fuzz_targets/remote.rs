//! Requests and replies of one-sided operations, made of arbitrary bytes. A
//! property test uses the same code.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/suci-layers/tests/remote/hostile/any_bytes.rs"]
mod any_bytes;

fuzz_target!(|data: &[u8]| any_bytes::run(data));
