//! The program's steering functions, which tighten what the congestion controller allows. The
//! program knows which peer is urgent and which gets bulk data; the network does not.

use suci_link::time::{Duration, Instant};

/// The state of a peer at the time of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The engine's clock.
    pub now: Instant,
    /// Smoothed round-trip time of the path. Without a connection it is zero, as are all further
    /// fields except the queue.
    pub rtt: Duration,
    /// Smallest round-trip time of the path that was seen; zero before any was.
    pub min_rtt: Duration,
    /// Bytes per second that the path delivered when last measured.
    pub delivery_rate: u64,
    /// Packets that arrived there with a congestion mark, as the peer counts them.
    pub marks: u64,
    /// Packets declared lost.
    pub losses: u64,
    /// Congestion window, in bytes.
    pub window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Packets that the peer still lets us send.
    pub socket_credit: u64,
    /// UDP payload per packet.
    pub packet: usize,
    /// Messages accepted and not yet acknowledged.
    pub queued_messages: u64,
    /// Their bytes.
    pub queued_bytes: u64,
}

/// The decision of a program's steering function. It can only tighten the limits of network and
/// receiver; the default adds none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Most bytes in flight. 0 pauses messages to the peer; any other number allows at least one
    /// packet in flight. Acknowledgements, probes and other packets that keep the connection alive
    /// go on in any case.
    pub window: Option<u64>,
    /// Most bytes per second; at least one packet is sent each second.
    pub pace: Option<u64>,
    /// Longest time that acknowledgements to this peer wait for a packet that carries them. A
    /// program that polls by itself acknowledges when it polls, even if that is earlier or later.
    pub ack_interval: Option<Duration>,
    /// Decide again after this time even if nothing is acknowledged; at least 1 ms.
    pub again: Option<Duration>,
}

/// Shortest [`Decision::again`]: the timer is meant for plans, not for pacing.
pub(crate) const MIN_AGAIN: Duration = Duration::from_millis(1);

/// While a steering function pauses messages, it is asked at least this often: no acknowledgement
/// comes that would cause it to be asked.
pub(crate) const PAUSED_AGAIN: Duration = Duration::from_millis(100);

/// A program's steering function of one peer.
///
/// It is called when it is installed, when the peer acknowledges something, and when
/// [`Decision::again`] is over. Each decision replaces the one before. It should be quick, and must
/// not panic: the engine waits for it, on the engine's thread. Any closure of this shape is a
/// steering function.
///
/// ```
/// use suci_proto::{Decision, Observation};
///
/// // At most half of the congestion window.
/// let gentle = |seen: &Observation| Decision {
///     window: Some(seen.window / 2),
///     ..Decision::default()
/// };
/// # fn install(_: impl suci_proto::Steer) {}
/// # install(gentle);
/// ```
pub trait Steer: Send {
    /// Decides anew.
    fn steer(&mut self, seen: &Observation) -> Decision;
}

impl<F: FnMut(&Observation) -> Decision + Send> Steer for F {
    fn steer(&mut self, seen: &Observation) -> Decision {
        self(seen)
    }
}

impl Decision {
    /// Returns the bytes that may be in flight in packets of `packet` bytes.
    pub(crate) fn window_for(&self, packet: u64) -> u64 {
        match self.window {
            None => u64::MAX,
            Some(0) => 0,
            Some(bytes) => bytes.max(packet),
        }
    }

    /// Returns the bytes per second in packets of `packet` bytes.
    pub(crate) fn pace_for(&self, packet: u64) -> Option<u64> {
        self.pace.map(|pace| pace.max(packet))
    }
}
