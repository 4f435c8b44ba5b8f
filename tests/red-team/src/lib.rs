//! A red team: it speaks the wire format and attacks a live node while another node exchanges
//! messages with it. An attack fails if the promises hold: every message arrives once and
//! unchanged, no session but the attacker's ends, memory stays below its cap, newcomers come in.
//!
//! Every attack names the defence that stops it. In builds with `--cfg suci_plant` the defence can
//! be removed, and the attack must then succeed: `cargo xtask planted` does that.

mod attacks;
mod heap;
mod noise;
mod relay;
mod rogue;
mod scene;

pub use attacks::{ATTACKS, Attack};
pub use noise::{drain, make_noise};
pub use scene::Setting;

use std::time::Duration;

/// The counts of an attack that failed.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Hostile datagrams that were sent.
    pub hostile: u64,
    /// Messages that the honest node exchanged meanwhile, all of them.
    pub exchanged: u32,
    /// Bytes by which the heap of all nodes together grew.
    pub heap: usize,
    /// How long the slowest newcomer took for its first exchange, if one came.
    pub newcomer: Option<Duration>,
}

/// Returns an error with this text unless `holds`.
fn ensure(holds: bool, text: impl FnOnce() -> String) -> Result<(), String> {
    match holds {
        true => Ok(()),
        false => Err(text()),
    }
}

/// Turns any error into text.
fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
