//! Errors of sockets.

use crate::error::Error;
use std::{fmt, io};
use suci_layers::sockets::{Address, ConnectionFailure, OpenError, PortError, RefusedCode};
use suci_proto::RefusedReason;

/// Why a call on a socket failed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// Another socket is bound to the port, or a connection joins the same two addresses.
    #[error("port {0} is in use: close its socket, or take another port (0 finds a free one)")]
    PortInUse(u16),
    /// All ephemeral ports are taken.
    #[error("no ephemeral port is free: close sockets, or bind to ports below 32768")]
    NoPort,
    /// The node's memory for sockets is promised to others, or there are too many.
    #[error("no memory for another socket: close some of them")]
    NoMemory,
    /// The listener was closed.
    #[error("the listener was closed")]
    NotListening,
    /// The connection failed.
    #[error(
        "connection with port {} of node {}: {}", .peer.port, .peer.node, FailureText(*.failure)
    )]
    Connection {
        /// The peer.
        peer: Address,
        /// The reason.
        failure: ConnectionFailure,
    },
    /// The node cannot serve the call.
    #[error(transparent)]
    Node(#[from] Error),
}

/// Says why a connection failed, and what helps.
struct FailureText(ConnectionFailure);

impl fmt::Display for FailureText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            ConnectionFailure::Refused(RefusedCode::NoListener) => {
                "refused: nobody listens at the port"
            }
            ConnectionFailure::Refused(RefusedCode::BacklogFull) => {
                "refused: as many connections wait there as its backlog takes; try again later"
            }
            ConnectionFailure::Refused(RefusedCode::OtherKind) => {
                "refused: one side is a stream, the other has messages"
            }
            ConnectionFailure::Refused(RefusedCode::NoMemory) => {
                "refused: the node has no memory for another socket; try again later"
            }
            ConnectionFailure::Refused(RefusedCode::Other(_)) => {
                "refused for a reason of a later version"
            }
            ConnectionFailure::NoProcess => "refused: no process answers at the node's address",
            ConnectionFailure::Rejected(reason) => {
                return write!(f, "the node refused this one: {reason}");
            }
            ConnectionFailure::NotAllowed => {
                "the node does not permit this node sockets: add the word sockets to this node's \
                 line in the file of public keys there"
            }
            ConnectionFailure::Unreachable => {
                "the node cannot be reached, or the address book lacks it"
            }
            ConnectionFailure::TimedOut => "the node did not answer in time",
            ConnectionFailure::Reset => {
                "reset: the peer gave it up, or its process or session ended"
            }
            ConnectionFailure::BrokenPipe => {
                "nothing can be sent any more: the peer or this side ended it"
            }
            ConnectionFailure::Closed => "the socket or its node was closed",
            ConnectionFailure::NotConnected => "not open yet",
        };
        f.write_str(text)
    }
}

/// Returns the kind of error for a node that refused this one.
const fn rejected(reason: RefusedReason) -> io::ErrorKind {
    match reason {
        // The engine tries again after these.
        RefusedReason::NoSocketCredit
        | RefusedReason::NoMemory
        | RefusedReason::TooManyPeers
        | RefusedReason::Unread
        | RefusedReason::NoSocketCreditHere
        | RefusedReason::NoMemoryHere => io::ErrorKind::TimedOut,
        _ => io::ErrorKind::PermissionDenied,
    }
}

impl SocketError {
    /// Returns the kind of error that programs with sockets of the system know.
    #[must_use]
    pub const fn kind(&self) -> io::ErrorKind {
        match self {
            Self::PortInUse(_) => io::ErrorKind::AddrInUse,
            Self::NoPort => io::ErrorKind::AddrNotAvailable,
            Self::NoMemory => io::ErrorKind::OutOfMemory,
            Self::NotListening => io::ErrorKind::InvalidInput,
            Self::Node(_) => io::ErrorKind::Other,
            Self::Connection { failure, .. } => match failure {
                ConnectionFailure::Refused(_) | ConnectionFailure::NoProcess => {
                    io::ErrorKind::ConnectionRefused
                }
                ConnectionFailure::Rejected(reason) => rejected(*reason),
                ConnectionFailure::NotAllowed => io::ErrorKind::PermissionDenied,
                ConnectionFailure::Unreachable => io::ErrorKind::HostUnreachable,
                ConnectionFailure::TimedOut => io::ErrorKind::TimedOut,
                ConnectionFailure::Reset => io::ErrorKind::ConnectionReset,
                ConnectionFailure::BrokenPipe => io::ErrorKind::BrokenPipe,
                ConnectionFailure::Closed | ConnectionFailure::NotConnected => {
                    io::ErrorKind::NotConnected
                }
            },
        }
    }

    pub(crate) const fn of_port(port: u16, error: PortError) -> Self {
        match error {
            PortError::InUse => Self::PortInUse(port),
            PortError::NoneFree => Self::NoPort,
        }
    }
}

impl From<OpenError> for SocketError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::NoMemory => Self::NoMemory,
            OpenError::Closed => Self::Node(Error::Closed),
        }
    }
}

impl From<SocketError> for io::Error {
    fn from(error: SocketError) -> Self {
        Self::new(error.kind(), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suci_proto::types::NodeId;

    #[test]
    fn a_node_that_refused_this_one_says_why() {
        let (node, port) = (NodeId(3), 80);
        let peer = Address { node, port };
        for (reason, kind, text) in [
            (
                RefusedReason::TooManyPeers,
                io::ErrorKind::TimedOut,
                "max_peers",
            ),
            (
                RefusedReason::DuplicateNode,
                io::ErrorKind::PermissionDenied,
                "another process has this node's ID",
            ),
            (
                RefusedReason::Version,
                io::ErrorKind::PermissionDenied,
                "protocol version",
            ),
        ] {
            let failure = ConnectionFailure::Rejected(reason);
            let error = SocketError::Connection { peer, failure };
            assert_eq!(error.kind(), kind);
            let said = error.to_string();
            assert!(said.contains("node 3") && said.contains(text), "{said}");
        }
    }
}
