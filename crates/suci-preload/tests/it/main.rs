//! Unmodified programs under the preloaded library.

mod cluster;
mod loopback;
mod network;
