//! Two sealed engines and a network that the input commands: see `world.rs`. Their keys change
//! their phase every 5 s and after 1,024 packets, are rotated, revoked and made anew.
//!
//! The network may change packets and correct their checksums: every promise holds all the same.
//! No number is sealed twice under one key.
#![no_main]

mod world;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| world::run(data, true));
