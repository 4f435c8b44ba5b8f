//! The program's decision about a link's window and pace.

use crate::time::Duration;

/// The decision of a program's steering function. It can only tighten the limits of network and
/// receiver; the default adds none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Maximum number of bytes in flight. 0 pauses messages to the peer; any other number allows at
    /// least one packet in flight. Acknowledgements, probes and other packets that keep the
    /// connection alive go on in any case.
    pub window: Option<u64>,
    /// Maximum rate in bytes per second; at least one packet is sent each second.
    pub pace: Option<u64>,
    /// Longest time that acknowledgements to this peer wait for a packet that carries them. A
    /// program that polls by itself acknowledges when it polls, even if that is earlier or later.
    pub ack_interval: Option<Duration>,
    /// Decide again after this time even if nothing is acknowledged; at least 1 ms.
    pub again: Option<Duration>,
}

impl Decision {
    /// Returns the bytes that may be in flight in packets of `packet` bytes.
    pub fn window_for(&self, packet: u64) -> u64 {
        match self.window {
            None => u64::MAX,
            Some(0) => 0,
            Some(bytes) => bytes.max(packet),
        }
    }

    /// Returns the bytes per second in packets of `packet` bytes.
    pub fn pace_for(&self, packet: u64) -> Option<u64> {
        self.pace.map(|pace| pace.max(packet))
    }
}
