//! The fate of packets that were handed to the socket.

use crate::event::Unreachable;

/// The result of sending a [`Transmit`](suci_link::train::Transmit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransmitResult {
    /// The socket took this many segments, from the first.
    Sent(usize),
    /// The socket is full: nothing is lost, the same packets come again.
    Again,
    /// Larger than the route or interface allows.
    TooBig,
    /// Segmented sending was refused: the same bytes come again in single packets.
    NoGso,
    /// The system reports that the destination cannot be reached: the packets count as sent and
    /// lost.
    Unreachable(Unreachable),
}
