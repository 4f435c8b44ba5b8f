//! One-sided operations between nodes that a network in memory joins.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

// Planted faults are chosen for a whole process, so that no other test runs beside them.
#[cfg(not(suci_plant))]
mod atomics;
#[cfg(not(suci_plant))]
mod contexts;
#[cfg(not(suci_plant))]
mod direct;
#[cfg(not(suci_plant))]
mod hostile;
mod memory;
mod network;
#[cfg(not(suci_plant))]
mod operations;
#[cfg(not(suci_plant))]
mod order;
#[cfg(suci_plant)]
mod planted;
mod scenarios;
#[cfg(not(suci_plant))]
mod sessions;
#[cfg(not(suci_plant))]
mod vectors;
