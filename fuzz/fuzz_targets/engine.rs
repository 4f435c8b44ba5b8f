//! Two plain engines and a network that the input commands: see `world.rs`.
#![no_main]

mod world;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| world::run(data, false));
