//! Congestion control: how many bytes may be in flight to one peer.
//!
//! A controller sees sizes, times and marks, never packets or peers. [`ControllerChoice`] lists the
//! controllers, and [`ControllerChoice::make`] makes them.
//!
//! Steps to a new controller:
//! 1. Implement [`Controller`] in a file of this folder: `fixed.rs` is the least of one, `cubic.rs`
//!    a skeleton, `lan.rs` one that goes by delay. A controller has no clock and no randomness. It
//!    uses only exactly rounded floating point (no `powf`, `exp`, `ln`); otherwise seeds do not
//!    replay on other machines. Its pace is an upper bound: while the window is not full,
//!    `link/cwnd_validation.rs` may lower it.
//! 2. Name it in [`ControllerChoice`] and make it in [`ControllerChoice::make`].
//! 3. Enter it in `CHOICES` of `tests/properties.rs`, which checks the bounds, and test it on the
//!    simulated bottleneck of `tests/link.rs`. Lists of choices also stand in
//!    `suci-proto/tests/it/steering.rs`, `engine/tests/packet_sequences.rs` and
//!    `tests/src/bin/subject`.
//! 4. Give it a number in the C library (`controller_code` and `controller` in
//!    `suci-capi/src/options.rs`, `enum suci_controller` in `suci.h` and `man/suci_node_open.3`),
//!    and a name in the Prolog binding (`bindings/prolog/c/values.c`) and in Python's
//!    (`settings.rs`, `stats.rs`, `_suci.pyi` and `_events.py` in `bindings/python`). Let the
//!    simulator draw it (`controller` in `suci-sim/src/steering.rs`), and `suci-ladder` too.
//! 5. Describe it in `docs/decisions/15-congestion-control.md`.

mod bbr;
mod choice;
mod controller;
mod cubic;
mod fixed;
mod hystart;
mod lan;
mod losses;

pub use bbr::Bbr;
pub use choice::{Auto, ControllerChoice};
use controller::pace;
pub use controller::{AckSample, Cause, CongestionEvent, Controller, initial_window};
pub use cubic::Cubic;
pub use fixed::Fixed;
pub use lan::Lan;

#[cfg(test)]
mod tests;
