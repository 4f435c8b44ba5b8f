//! Groups: the state of one at a member, and what a driver does to carry its operations on.
//!
//! A library makes a [`GroupState`] for each group, [begins](GroupState::begin) operations, and
//! lets each driver that serves members call [`ServedGroups::progress`] whenever something arrived.

mod failure;
mod over;
mod places;
mod shrink;
mod state;
#[cfg(test)]
mod tests;
mod turn;

pub use failure::{Failure, MemberFailure};
pub use places::GroupPlaces;
pub use shrink::{SHRUNK, ShrinkStep, Shrinking, ShrunkNumbers};
pub use state::{Carrier, Finished, GroupState, GroupWork, Host, Purpose};
pub use turn::ServedGroups;
