//! Routes: a node that is reached through others (docs/protocol-layers.md, "Routes").
//!
//! The packets of two nodes that cannot reach each other go from neighbour to neighbour. Each hop
//! is a message between ordinary peers, whose payload is the packet, unchanged: under the credit,
//! the checks and the encryption of that session. The engine of an end sees a peer at an
//! [address](Behind::address) that stands for its node ID, and knows nothing of the way.
//!
//! A [`Router`] decides where packets go. A [`SharedRouter`] runs it over engines.

mod address;
mod layer;
mod router;
mod table;
mod wire;

pub use address::Behind;
pub use layer::{Delivery, LOOK_EVERY, RoutedOutput, SharedRouter};
pub use router::{Hop, Router, RouterSettings, Step};
pub use table::{RouteError, Routes};
pub use wire::{CARRIED, MAX_HOPS, OuterHeader, PACKET};

#[cfg(test)]
mod tests;
