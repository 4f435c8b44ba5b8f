//! The program's steering functions, which tighten what the congestion controller allows. The
//! program knows which peer is urgent and which gets bulk data; the network does not.

pub use suci_link::link::Decision;
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
