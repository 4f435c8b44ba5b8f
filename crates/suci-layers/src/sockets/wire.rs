//! The messages of sockets (docs/protocol-layers.md, "Sockets").

use super::{SocketId, SocketKind};
use bytes::Bytes;
use suci_proto::types::{ChannelId, Kind};
use suci_proto::wire::{Malformed, Reader, varint};

const OPEN: Kind = Kind(64);
const OPENED: Kind = Kind(65);
const REFUSED: Kind = Kind(66);
const CONFIRM: Kind = Kind(67);
const DATA: Kind = Kind(68);
const LAST: Kind = Kind(69);
const CREDIT: Kind = Kind(70);
const SHUTDOWN: Kind = Kind(71);
const CLOSE: Kind = Kind(72);
const CLOSED: Kind = Kind(73);
const RESET: Kind = Kind(74);

/// Channels that the sockets of two nodes share. A lost packet holds up those of its channel only.
const CHANNELS: u64 = 16;

/// Returns the channel of a connection that this socket opens.
#[must_use]
pub const fn channel(opener: SocketId) -> ChannelId {
    ChannelId::of_sockets((opener.0 % CHANNELS) as u32)
}

/// Why a node refuses a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusedCode {
    /// No listener is at the port.
    NoListener,
    /// As many connections wait for the listener's program as may.
    BacklogFull,
    /// The listener takes connections of the other kind.
    OtherKind,
    /// The node has no memory for another socket.
    NoMemory,
    /// A reason of a later version: its code.
    Other(u64),
}

impl RefusedCode {
    const fn code(self) -> u64 {
        match self {
            Self::NoListener => 1,
            Self::BacklogFull => 2,
            Self::OtherKind => 3,
            Self::NoMemory => 4,
            Self::Other(code) => code,
        }
    }

    const fn from_code(code: u64) -> Self {
        match code {
            1 => Self::NoListener,
            2 => Self::BacklogFull,
            3 => Self::OtherKind,
            4 => Self::NoMemory,
            _ => Self::Other(code),
        }
    }
}

/// A message of the layer, without the bytes that it carries. `to` is the receiver's socket, `from`
/// the sender's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Packet {
    /// The first step of opening.
    Open {
        /// The client's socket.
        from: SocketId,
        /// The client's port.
        source: u16,
        /// The server's port.
        target: u16,
        /// The content of the connection.
        kind: SocketKind,
        /// Bytes and charges that the server may send before it gets credit.
        window: u64,
    },
    /// The second step: there is room in the backlog.
    Opened {
        /// The client's socket.
        to: SocketId,
        /// The server's.
        from: SocketId,
        /// Bytes and charges that the client may send before it gets credit.
        window: u64,
    },
    /// There will be no connection.
    Refused {
        /// The client's socket.
        to: SocketId,
        /// The reason.
        code: RefusedCode,
    },
    /// The third step: the client still wants the connection.
    Confirm {
        /// The server's socket.
        to: SocketId,
        /// The client's.
        from: SocketId,
    },
    /// Bytes.
    Data {
        /// The receiver.
        to: SocketId,
        /// The sender.
        from: SocketId,
        /// They end a message.
        last: bool,
    },
    /// All that may be sent since the connection was opened.
    Credit {
        /// The receiver.
        to: SocketId,
        /// The limit, in bytes and charges.
        limit: u64,
    },
    /// The sender sends no more data.
    Shutdown {
        /// The receiver.
        to: SocketId,
        /// The sender.
        from: SocketId,
    },
    /// The sender's program closed its socket.
    Close {
        /// The receiver.
        to: SocketId,
        /// The sender.
        from: SocketId,
    },
    /// The answer to it.
    Closed {
        /// The receiver.
        to: SocketId,
    },
    /// The sender has no such socket, or gave it up.
    Reset {
        /// The receiver.
        to: SocketId,
    },
}

impl Packet {
    /// Returns the kind of the message, its tag, and its user header.
    #[must_use]
    pub fn write(self) -> (Kind, u64, Bytes) {
        let mut header = Vec::with_capacity(varint::MAX);
        let mut put = |field| varint::put(&mut header, field);
        let (kind, to) = match self {
            Self::Open {
                from,
                source,
                target,
                kind,
                window,
            } => {
                put(from.0);
                put(source.into());
                put(target.into());
                put(match kind {
                    SocketKind::Stream => 0,
                    SocketKind::Messages => 1,
                });
                put(window);
                (OPEN, SocketId(0))
            }
            Self::Opened { to, from, window } => {
                put(from.0);
                put(window);
                (OPENED, to)
            }
            Self::Refused { to, code } => {
                put(code.code());
                (REFUSED, to)
            }
            Self::Credit { to, limit } => {
                put(limit);
                (CREDIT, to)
            }
            Self::Closed { to } => (CLOSED, to),
            Self::Reset { to } => (RESET, to),
            Self::Confirm { to, from } => {
                put(from.0);
                (CONFIRM, to)
            }
            Self::Data { to, from, last } => {
                put(from.0);
                (if last { LAST } else { DATA }, to)
            }
            Self::Shutdown { to, from } => {
                put(from.0);
                (SHUTDOWN, to)
            }
            Self::Close { to, from } => {
                put(from.0);
                (CLOSE, to)
            }
        };
        (kind, to.0, header.into())
    }

    /// Reads a message of the layer.
    ///
    /// # Errors
    /// Its kind is none of the layer's, or its header has not the fields of its kind.
    pub fn read(kind: Kind, tag: u64, header: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(header);
        let to = SocketId(tag);
        let packet = match kind {
            OPEN => read_open(&mut reader)?,
            OPENED => Self::Opened {
                to,
                from: SocketId(reader.varint()?),
                window: reader.varint()?,
            },
            REFUSED => Self::Refused {
                to,
                code: RefusedCode::from_code(reader.varint()?),
            },
            CREDIT => Self::Credit {
                to,
                limit: reader.varint()?,
            },
            CLOSED => Self::Closed { to },
            RESET => Self::Reset { to },
            _ => {
                let from = SocketId(reader.varint()?);
                match kind {
                    CONFIRM => Self::Confirm { to, from },
                    DATA | LAST => Self::Data {
                        to,
                        from,
                        last: kind == LAST,
                    },
                    SHUTDOWN => Self::Shutdown { to, from },
                    CLOSE => Self::Close { to, from },
                    _ => return Err(Malformed("unknown kind of a socket's message")),
                }
            }
        };
        match reader.is_empty() {
            true => Ok(packet),
            false => Err(Malformed("bytes behind a socket's message")),
        }
    }

    /// Returns true if its sender names a socket of its own that expects an answer or a reset.
    pub(super) const fn from(self) -> Option<SocketId> {
        match self {
            Self::Opened { from, .. }
            | Self::Confirm { from, .. }
            | Self::Data { from, .. }
            | Self::Shutdown { from, .. }
            | Self::Close { from, .. } => Some(from),
            Self::Open { .. }
            | Self::Refused { .. }
            | Self::Credit { .. }
            | Self::Closed { .. }
            | Self::Reset { .. } => None,
        }
    }

    /// Returns the socket that it is for; `None` for [`Packet::Open`].
    pub(super) const fn to(self) -> Option<SocketId> {
        match self {
            Self::Open { .. } => None,
            Self::Opened { to, .. }
            | Self::Refused { to, .. }
            | Self::Confirm { to, .. }
            | Self::Data { to, .. }
            | Self::Credit { to, .. }
            | Self::Shutdown { to, .. }
            | Self::Close { to, .. }
            | Self::Closed { to }
            | Self::Reset { to } => Some(to),
        }
    }
}

fn read_open(reader: &mut Reader<'_>) -> Result<Packet, Malformed> {
    let from = SocketId(reader.varint()?);
    let mut port = || {
        let port = u16::try_from(reader.varint()?).map_err(|_| Malformed("a port above 65535"))?;
        match port {
            0 => Err(Malformed("port 0")),
            _ => Ok(port),
        }
    };
    Ok(Packet::Open {
        from,
        source: port()?,
        target: port()?,
        kind: match reader.varint()? {
            0 => SocketKind::Stream,
            1 => SocketKind::Messages,
            _ => return Err(Malformed("unknown kind of socket")),
        },
        window: reader.varint()?,
    })
}
