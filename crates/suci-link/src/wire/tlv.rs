//! Parameters of the handshake: (type, length, value) triples, so that later versions can add some
//! that earlier ones skip.

use super::reader::{Malformed, Reader};
use super::varint;
use crate::limits::{
    LONGEST_ACK_DELAY, MAX_DATAGRAM, MAX_MESSAGE, MAX_SEALED, MIN_CHANNELS, MIN_MTU,
};
use crate::time::{Duration, nanos};
use crate::types::Layers;

const MAX_ACK_DELAY: u64 = 1;
const CHANNEL_MEMORY: u64 = 2;
const MAX_CHANNEL_COUNT: u64 = 3;
const MAX_MESSAGE_LENGTH: u64 = 4;
const MAX_DATAGRAM_SIZE: u64 = 5;
const PROGRESS: u64 = 6;
const MODE: u64 = 7;
const EXTENSIONS: u64 = 8;
const LAYERS: u64 = 9;
const NODE_KEYS: u64 = 10;
const SEALED: u64 = 16;

const UNATTENDED: u64 = 1;

/// Bit of the extension MODE.
pub const EXTENSION_MODE: u64 = 1;

/// Bit of the extension SUSPEND and RESUME.
pub const EXTENSION_SUSPENSION: u64 = 2;

/// Bit of the extension FIN and MAX_CHANNELS.
pub const EXTENSION_CHANNELS: u64 = 4;

/// All extensions of this library, which it announces.
pub const ALL_EXTENSIONS: u64 = EXTENSION_MODE | EXTENSION_SUSPENSION | EXTENSION_CHANNELS;

/// The mode of the traffic to a peer. It may change at any time and is announced to the peer, which
/// adapts to it too.
///
/// | | Adaptive | Throughput | Response |
/// |---|---|---|---|
/// | the receiver acknowledges without a PING | after 256 packets, or as its polls and `max_ack_delay` have it | after 1,024 packets or 2 ms, however often it polls | after 8 packets, by the next poll or after 500 µs |
/// | its share of the receiver's socket, when others want more too | normal | double | a quarter; never more than 16 packets |
/// | the sender asks for acknowledgements | in every quarter of its window; an exchange that fits the window need not | in every quarter, or up to half of it for 8 packets, and when a long queue has gone | in every eighth |
/// | the last packet that its window allows carries a PING | always | unless a PING is unanswered | always |
/// | a train fills the wire for at most | 50 µs | 50 µs | 25 µs |
/// | inside a batch messages leave | when the batch ends | when the batch ends | at once |
///
/// A request and its reply cost two packets in Adaptive and Response if the reply comes within the
/// time that an acknowledgement waits. In Throughput they do so too, if it comes within 2 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mode {
    /// The library decides: as Throughput while more than a window, or 1 MiB, has been queued for
    /// 20 ms, as Response (but for batches) after 16 messages of a few packets in a row that each
    /// were answered, in between else.
    #[default]
    Adaptive = 0,
    /// Few acknowledgements.
    Throughput = 1,
    /// Early acknowledgements, short trains.
    Response = 2,
}

impl Mode {
    /// Returns the mode with this number on the wire.
    ///
    /// # Errors
    /// There is none.
    pub const fn from_wire(value: u64) -> Result<Self, Malformed> {
        Ok(match value {
            0 => Self::Adaptive,
            1 => Self::Throughput,
            2 => Self::Response,
            _ => return Err(Malformed("unknown mode")),
        })
    }
}

/// Parameters that a node announces when a connection is made. Parameters that were read are within
/// the ranges given here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Longest time it lets a packet wait for its acknowledgement, up to [`LONGEST_ACK_DELAY`].
    pub max_ack_delay: Duration,
    /// Initial memory credit of every channel towards it, an absolute offset in message charges.
    pub channel_memory: u64,
    /// How many channels may be opened towards it until MAX_CHANNELS allows more, at least
    /// [`MIN_CHANNELS`].
    pub max_channels: u64,
    /// Longest message, in bytes, that it takes without a decision of its program, up to
    /// `MAX_MESSAGE`.
    pub max_message: u64,
    /// Largest UDP payload it can receive, `MIN_MTU` to `MAX_DATAGRAM`.
    pub max_datagram: usize,
    /// It sends no acknowledgements while its program computes, so silence does not show that it
    /// died.
    pub unattended: bool,
    /// Mode of its traffic.
    pub mode: Mode,
    /// Extensions it supports, one bit each: bit 0 MODE, bit 1 SUSPEND and RESUME, bit 2 FIN and
    /// MAX_CHANNELS.
    pub extensions: u64,
    /// The layers that its peer may use towards it.
    pub layers: Layers,
    /// It seals under the keys of nodes, not under that of the cluster.
    pub node_keys: bool,
    /// The Noise message of sealed mode, at most [`MAX_SEALED`] bytes; absent in plain mode.
    pub sealed: Option<Vec<u8>>,
}

impl Default for Params {
    /// Returns the values of parameters that are not announced.
    fn default() -> Self {
        Self {
            max_ack_delay: Duration::from_millis(25),
            channel_memory: 64 << 10,
            max_channels: MIN_CHANNELS,
            max_message: 64 << 10,
            max_datagram: MAX_DATAGRAM,
            unattended: false,
            mode: Mode::Adaptive,
            extensions: 0,
            layers: Layers::ALL,
            node_keys: false,
            sealed: None,
        }
    }
}

impl Params {
    /// Reads a list that starts with its length. Types ascend, so that no type comes twice and
    /// equal parameters have equal bytes; unknown ones are skipped.
    ///
    /// # Errors
    /// The list or a value runs past its end, types do not ascend, or a value is out of range.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut params = Self::default();
        let length = r.varint()?;
        let mut list = Reader::new(r.bytes(length)?);
        let mut last = None;
        while !list.is_empty() {
            let (kind, length) = (list.varint()?, list.varint()?);
            if last.is_some_and(|last| last >= kind) {
                return Err(Malformed("parameters not in ascending order"));
            }
            last = Some(kind);
            params.apply(kind, Reader::new(list.bytes(length)?))?;
        }
        // Its message authenticates the whole packet, at whose end it is.
        if params.sealed.is_some() && last != Some(SEALED) {
            return Err(Malformed("a parameter behind the handshake message"));
        }
        Ok(params)
    }

    fn apply(&mut self, kind: u64, mut value: Reader<'_>) -> Result<(), Malformed> {
        match kind {
            MAX_ACK_DELAY => self.max_ack_delay = Duration::from_nanos(value.varint()?),
            CHANNEL_MEMORY => self.channel_memory = value.varint()?,
            MAX_CHANNEL_COUNT => self.max_channels = value.varint()?.max(MIN_CHANNELS),
            MAX_MESSAGE_LENGTH => self.max_message = value.varint()?.min(MAX_MESSAGE),
            MAX_DATAGRAM_SIZE => {
                let size = usize::try_from(value.varint()?).unwrap_or(usize::MAX);
                self.max_datagram = size.min(MAX_DATAGRAM);
            }
            // Later versions may define more of these bits.
            PROGRESS => self.unattended = value.varint()? & UNATTENDED != 0,
            MODE => self.mode = Mode::from_wire(value.varint()?)?,
            EXTENSIONS => self.extensions = value.varint()?,
            LAYERS => self.layers = Layers::from_wire(value.varint()?),
            NODE_KEYS => self.node_keys = value.varint()? & 1 != 0,
            SEALED if value.remaining() <= MAX_SEALED => self.sealed = Some(value.rest().to_vec()),
            SEALED => return Err(Malformed("sealed parameter too long")),
            _ => {
                value.rest();
            }
        }
        if self.max_ack_delay > LONGEST_ACK_DELAY {
            return Err(Malformed("max_ack_delay out of range"));
        }
        if self.max_datagram < MIN_MTU {
            return Err(Malformed("max_datagram below the least MTU"));
        }
        if !value.is_empty() {
            return Err(Malformed("parameter longer than its value"));
        }
        Ok(())
    }

    /// Appends the list with its length. Omits values that equal the default.
    pub fn put(&self, buf: &mut Vec<u8>) {
        let mut list = Vec::with_capacity(64);
        let default = Self::default();
        let numbers = [
            (
                MAX_ACK_DELAY,
                nanos(self.max_ack_delay),
                nanos(default.max_ack_delay),
            ),
            (CHANNEL_MEMORY, self.channel_memory, default.channel_memory),
            (MAX_CHANNEL_COUNT, self.max_channels, default.max_channels),
            (MAX_MESSAGE_LENGTH, self.max_message, default.max_message),
            (
                MAX_DATAGRAM_SIZE,
                self.max_datagram as u64,
                default.max_datagram as u64,
            ),
            (PROGRESS, self.unattended.into(), 0),
            (MODE, self.mode as u64, 0),
            (EXTENSIONS, self.extensions, 0),
            (LAYERS, self.layers.to_wire(), default.layers.to_wire()),
            (NODE_KEYS, self.node_keys.into(), 0),
        ];
        for (kind, value, default) in numbers {
            if value != default {
                varint::put(&mut list, kind);
                varint::put(&mut list, varint::size(value) as u64);
                varint::put(&mut list, value);
            }
        }
        if let Some(sealed) = &self.sealed {
            varint::put(&mut list, SEALED);
            varint::put(&mut list, sealed.len() as u64);
            list.extend_from_slice(sealed);
        }
        varint::put(buf, list.len() as u64);
        buf.extend_from_slice(&list);
    }
}
