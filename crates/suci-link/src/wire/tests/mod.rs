//! Properties of every byte sequence and every value. The protocol's vectors are checked in
//! `tests/it/vectors.rs`.

mod acks;
mod both_ways;
mod frame_batches;
mod frames;
mod handshake;
mod header;
mod numbers;
mod sequential;

use super::*;
use crate::types::{ChannelId, Kind};
use proptest::prelude::*;

/// Bytes to borrow from in generated values.
static POOL: [u8; 4_096] = {
    let mut pool = [0; 4_096];
    let mut i = 0;
    while i < pool.len() {
        pool[i] = (i * 31 % 251) as u8;
        i += 1;
    }
    pool
};

/// Up to `longest` bytes.
fn slice(longest: usize) -> impl Strategy<Value = &'static [u8]> {
    (0..=longest, 0..1_000usize).prop_map(|(len, from)| &POOL[from..from + len])
}

/// Numbers of all magnitudes.
fn number() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64u32).prop_map(|(value, shift)| value >> shift)
}

fn channel() -> impl Strategy<Value = ChannelId> {
    (any::<u32>(), 0..32u32).prop_map(|(value, shift)| ChannelId(value >> shift))
}

fn message_kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::USER), any::<u8>().prop_map(Kind)]
}

fn credit() -> impl Strategy<Value = Credit> {
    (number(), number(), number(), number()).prop_map(|(generation, limit, control, memory)| {
        Credit {
            generation,
            limit,
            control,
            memory,
        }
    })
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        Just(Mode::Adaptive),
        Just(Mode::Throughput),
        Just(Mode::Response)
    ]
}
