//! The messages of one-sided operations (docs/protocol-layers.md, section 16).

use super::error::{RemoteError, RemoteErrorKind};
use super::layout::{Extent, Form, InvalidLayout, Layout, MAX_EXTENTS};
use super::memory::{AtomicOp, Width};
use super::region::{RegionId, Rights};
use suci_proto::limits::MAX_USER_HEADER;
use suci_proto::types::{ChannelId, Kind};
use suci_proto::wire::{Malformed, Reader, varint};

/// The channel of requests.
pub const REQUESTS: ChannelId = ChannelId(4 << 24);

/// The channel of replies. Their memory credit is apart from that of requests, so that a reply
/// never waits behind a request.
pub const REPLIES: ChannelId = ChannelId(5 << 24);

const PUT: Kind = Kind(16);
const GET: Kind = Kind(17);
const ATOMIC: Kind = Kind(18);
const FLUSH: Kind = Kind(19);
const DONE: Kind = Kind(32);
const DATA: Kind = Kind(33);
const VALUE: Kind = Kind(34);
const ERROR: Kind = Kind(35);

/// Bits of the first byte of a put's header.
const FORM: u8 = 3;
const STRIDED: u8 = 1;
const EXTENTS: u8 = 2;
const SIGNAL: u8 = 3 << 2;
const SIGNAL_SET: u8 = 1 << 2;
const SIGNAL_ADD: u8 = 2 << 2;
const FENCED: u8 = 1 << 4;

/// Bits of the first byte of an atomic operation's header.
const OP: u8 = 7;
const WIDE: u8 = 1 << 3;

/// The longest header: a put of extents with a signal.
const LONGEST_HEADER: usize =
    1 + varint::MAX + 8 + varint::MAX * (1 + 2 * MAX_EXTENTS) + varint::MAX * 2 - WASTED;

/// Bytes by which the sum above exceeds what can be: the region takes at most 5 bytes, the number
/// of extents 1.
const WASTED: usize = (varint::MAX - 5) + (varint::MAX - 1);

const _: () = assert!(LONGEST_HEADER <= MAX_USER_HEADER, "each request has room");

/// An update of a 64-bit integer after the data of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// The integer's offset in the region.
    pub offset: u64,
    /// The update.
    pub update: SignalUpdate,
}

/// How a signal changes its integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalUpdate {
    /// The integer becomes this number.
    Set(u64),
    /// This number is added.
    Add(u64),
}

impl Signal {
    const fn value(self) -> u64 {
        match self.update {
            SignalUpdate::Set(value) | SignalUpdate::Add(value) => value,
        }
    }

    pub(super) const fn op(self) -> AtomicOp {
        match self.update {
            SignalUpdate::Set(value) => AtomicOp::Set(value),
            SignalUpdate::Add(value) => AtomicOp::Add(value),
        }
    }
}

/// A request, without the data of a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Reads or changes bytes of a region.
    Access(Access),
    /// Asks for an answer when everything before is applied.
    Flush,
}

/// A request that touches a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The region.
    pub region: RegionId,
    /// Its key.
    pub key: u64,
    /// The action.
    pub action: Action,
}

/// The use that a request makes of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Writes the payload.
    Put {
        /// The places of the bytes.
        layout: Layout,
        /// The update that follows.
        signal: Option<Signal>,
        /// No byte of it may be visible before all earlier requests of its sender are applied.
        fenced: bool,
    },
    /// Reads bytes.
    Get {
        /// The places of the bytes.
        layout: Layout,
    },
    /// Applies an atomic operation to an integer.
    Atomic {
        /// The integer's offset.
        offset: u64,
        /// The integer's size.
        width: Width,
        /// The operation.
        op: AtomicOp,
    },
}

impl Action {
    /// Returns the number of bytes that its message carries.
    fn payload(&self) -> u64 {
        match self {
            Self::Put { layout, .. } => layout.total(),
            Self::Get { .. } | Self::Atomic { .. } => 0,
        }
    }

    /// Returns the same action, with a fence before it if it is a put.
    pub(super) fn with_fence(self, fenced: bool) -> Self {
        match self {
            Self::Put { layout, signal, .. } => Self::Put {
                layout,
                signal,
                fenced,
            },
            other => other,
        }
    }

    /// Returns the rights that it needs.
    pub(super) fn rights(&self) -> Rights {
        match self {
            Self::Put {
                signal: Some(_), ..
            } => Rights::WRITE | Rights::ATOMIC,
            Self::Put { .. } => Rights::WRITE,
            Self::Get { .. } => Rights::READ,
            Self::Atomic { .. } => Rights::ATOMIC,
        }
    }

    /// Returns the lowest offset and the number of bytes, for reports.
    pub(super) fn place(&self) -> (u64, u64) {
        match self {
            Self::Put { layout, .. } | Self::Get { layout } => (layout.start(), layout.total()),
            Self::Atomic { offset, width, .. } => (*offset, width.bytes()),
        }
    }
}

impl From<InvalidLayout> for Malformed {
    fn from(error: InvalidLayout) -> Self {
        Self(error.0)
    }
}

impl Request {
    /// Parses the header of a message of `total` bytes.
    ///
    /// # Errors
    /// It is no request.
    pub fn read(kind: Kind, header: &[u8], total: u64) -> Result<Self, Malformed> {
        let mut reader = Reader::new(header);
        let request = match kind {
            PUT => Self::Access(read_put(&mut reader)?),
            GET => Self::Access(read_get(&mut reader)?),
            ATOMIC => Self::Access(read_atomic(&mut reader)?),
            FLUSH => Self::Flush,
            _ => return Err(Malformed("unknown kind of request")),
        };
        let payload = match &request {
            Self::Access(access) => access.action.payload(),
            Self::Flush => 0,
        };
        if !reader.is_empty() || total != payload {
            return Err(Malformed("a request of another length"));
        }
        Ok(request)
    }

    /// Returns the kind of its message.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Flush => FLUSH,
            Self::Access(access) => match access.action {
                Action::Put { .. } => PUT,
                Action::Get { .. } => GET,
                Action::Atomic { .. } => ATOMIC,
            },
        }
    }

    /// Returns the header of its message.
    #[must_use]
    pub fn header(&self) -> Vec<u8> {
        match self {
            Self::Access(access) => access.header(),
            Self::Flush => Vec::new(),
        }
    }
}

impl Access {
    /// Returns the report that it breaks this rule.
    pub(super) fn error(&self, kind: RemoteErrorKind) -> RemoteError {
        let (offset, length) = self.action.place();
        RemoteError {
            kind,
            region: self.region,
            offset,
            length,
        }
    }

    fn header(&self) -> Vec<u8> {
        let mut header = vec![self.action.bits()];
        varint::put(&mut header, self.region.0.into());
        header.extend_from_slice(&self.key.to_le_bytes());
        match &self.action {
            Action::Put { layout, signal, .. } => {
                put_layout(&mut header, layout);
                if let Some(signal) = signal {
                    varint::put(&mut header, signal.offset);
                    varint::put(&mut header, signal.value());
                }
            }
            Action::Get { layout } => put_layout(&mut header, layout),
            Action::Atomic { offset, width, op } => {
                varint::put(&mut header, *offset);
                for operand in operands(*op).1.into_iter().flatten() {
                    varint::put(&mut header, operand & width.max());
                }
            }
        }
        header
    }
}

impl Action {
    /// Returns the first byte of its header.
    fn bits(&self) -> u8 {
        match self {
            Self::Put {
                layout,
                signal,
                fenced,
            } => {
                let signal = signal.map_or(0, |signal| match signal.update {
                    SignalUpdate::Set(_) => SIGNAL_SET,
                    SignalUpdate::Add(_) => SIGNAL_ADD,
                });
                let fence = if *fenced { FENCED } else { 0 };
                form_bits(layout) | signal | fence
            }
            Self::Get { layout } => form_bits(layout),
            Self::Atomic { width, op, .. } => {
                let wide = if *width == Width::Bits64 { WIDE } else { 0 };
                operands(*op).0 | wide
            }
        }
    }
}

fn read_put(reader: &mut Reader<'_>) -> Result<Access, Malformed> {
    let (bits, region, key) = read_access(reader, FORM | SIGNAL | FENCED)?;
    let layout = read_layout(reader, bits & FORM)?;
    let signal = match bits & SIGNAL {
        0 => None,
        kind => Some(read_signal(reader, kind)?),
    };
    let action = Action::Put {
        layout,
        signal,
        fenced: bits & FENCED != 0,
    };
    Ok(Access {
        region,
        key,
        action,
    })
}

fn read_signal(reader: &mut Reader<'_>, kind: u8) -> Result<Signal, Malformed> {
    let (offset, value) = (reader.varint()?, reader.varint()?);
    let update = match kind {
        SIGNAL_SET => SignalUpdate::Set(value),
        SIGNAL_ADD => SignalUpdate::Add(value),
        _ => return Err(Malformed("unknown signal")),
    };
    Ok(Signal { offset, update })
}

fn read_get(reader: &mut Reader<'_>) -> Result<Access, Malformed> {
    let (bits, region, key) = read_access(reader, FORM)?;
    let layout = read_layout(reader, bits)?;
    let action = Action::Get { layout };
    Ok(Access {
        region,
        key,
        action,
    })
}

fn read_atomic(reader: &mut Reader<'_>) -> Result<Access, Malformed> {
    let (bits, region, key) = read_access(reader, OP | WIDE)?;
    let width = match bits & WIDE {
        0 => Width::Bits32,
        _ => Width::Bits64,
    };
    let offset = reader.varint()?;
    let op = read_op(reader, bits & OP, width)?;
    let action = Action::Atomic { offset, width, op };
    Ok(Access {
        region,
        key,
        action,
    })
}

fn read_op(reader: &mut Reader<'_>, number: u8, width: Width) -> Result<AtomicOp, Malformed> {
    let mut operand = || {
        let operand = reader.varint()?;
        let fits = operand <= width.max();
        fits.then_some(operand)
            .ok_or(Malformed("an operand longer than its integer"))
    };
    Ok(match number {
        0 => AtomicOp::Fetch,
        1 => AtomicOp::Set(operand()?),
        2 => AtomicOp::Add(operand()?),
        3 => AtomicOp::And(operand()?),
        4 => AtomicOp::Or(operand()?),
        5 => AtomicOp::Xor(operand()?),
        6 => AtomicOp::Swap(operand()?),
        _ => AtomicOp::CompareSwap {
            expected: operand()?,
            new: operand()?,
        },
    })
}

/// Returns the number of an atomic operation, and its operands.
const fn operands(op: AtomicOp) -> (u8, [Option<u64>; 2]) {
    match op {
        AtomicOp::Fetch => (0, [None, None]),
        AtomicOp::Set(operand) => (1, [Some(operand), None]),
        AtomicOp::Add(operand) => (2, [Some(operand), None]),
        AtomicOp::And(operand) => (3, [Some(operand), None]),
        AtomicOp::Or(operand) => (4, [Some(operand), None]),
        AtomicOp::Xor(operand) => (5, [Some(operand), None]),
        AtomicOp::Swap(operand) => (6, [Some(operand), None]),
        AtomicOp::CompareSwap { expected, new } => (7, [Some(expected), Some(new)]),
    }
}

/// Reads what most requests begin with: their bits, of which no other than `allowed` may be set,
/// the region and its key.
fn read_access(reader: &mut Reader<'_>, allowed: u8) -> Result<(u8, RegionId, u64), Malformed> {
    let bits = reader.u8()?;
    if bits & !allowed != 0 {
        return Err(Malformed("unknown bits of a request"));
    }
    let region = reader.varint32("a region above 2^32 - 1")?;
    Ok((bits, RegionId(region), reader.u64()?))
}

fn read_layout(reader: &mut Reader<'_>, form: u8) -> Result<Layout, Malformed> {
    let layout = match form {
        0 => Layout::contiguous(reader.varint()?, reader.varint()?),
        STRIDED => {
            let (offset, element, stride) = (reader.varint()?, reader.varint()?, reader.varint()?);
            let count = reader.varint32("a count above 2^32 - 1")?;
            Layout::strided(offset, element, stride, count)
        }
        EXTENTS => {
            let count = usize::from(reader.u8()?);
            let mut extents = Vec::new();
            for _ in 0..count.min(MAX_EXTENTS + 1) {
                let (offset, length) = (reader.varint()?, reader.varint()?);
                extents.push(Extent { offset, length });
            }
            Layout::extents(&extents)
        }
        _ => return Err(Malformed("unknown form of a layout")),
    };
    Ok(layout?)
}

const fn form_bits(layout: &Layout) -> u8 {
    match layout.form() {
        Form::Contiguous(_) => 0,
        Form::Strided { .. } => STRIDED,
        Form::Extents(_) => EXTENTS,
    }
}

fn put_layout(header: &mut Vec<u8>, layout: &Layout) {
    match layout.form() {
        Form::Contiguous(extent) => put_extent(header, *extent),
        Form::Strided {
            offset,
            element,
            stride,
            count,
        } => {
            for field in [*offset, *element, *stride, u64::from(*count)] {
                varint::put(header, field);
            }
        }
        Form::Extents(extents) => {
            header.push(u8::try_from(extents.len()).unwrap_or(u8::MAX));
            for extent in extents {
                put_extent(header, *extent);
            }
        }
    }
}

fn put_extent(header: &mut Vec<u8>, extent: Extent) {
    varint::put(header, extent.offset);
    varint::put(header, extent.length);
}

/// A reply, without the data of a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The request, or everything before the flush, is applied.
    Done,
    /// The payload has the bytes.
    Data,
    /// The atomic operation is applied.
    Value {
        /// The integer before.
        before: u64,
    },
    /// The request was not applied.
    Error {
        /// The reason. Of a flush: the reason of the first request that failed.
        error: RemoteError,
        /// How many requests failed. Of a flush: those before it that asked for no reply.
        count: u64,
    },
}

impl Reply {
    /// Parses the header of a message of `total` bytes.
    ///
    /// # Errors
    /// It is no reply.
    pub fn read(kind: Kind, header: &[u8], total: u64) -> Result<Self, Malformed> {
        let mut reader = Reader::new(header);
        let reply = match kind {
            DONE => Self::Done,
            DATA => Self::Data,
            VALUE => Self::Value {
                before: reader.varint()?,
            },
            ERROR => Self::Error {
                error: read_error(&mut reader)?,
                count: reader.varint()?,
            },
            _ => return Err(Malformed("unknown kind of reply")),
        };
        if !reader.is_empty() || (total > 0 && kind != DATA) {
            return Err(Malformed("a reply of another length"));
        }
        Ok(reply)
    }

    /// Returns the kind of its message.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Done => DONE,
            Self::Data => DATA,
            Self::Value { .. } => VALUE,
            Self::Error { .. } => ERROR,
        }
    }

    /// Returns the header of its message.
    #[must_use]
    pub fn header(&self) -> Vec<u8> {
        let mut header = Vec::new();
        match self {
            Self::Done | Self::Data => {}
            Self::Value { before } => varint::put(&mut header, *before),
            Self::Error { error, count } => {
                header.push(error.kind as u8);
                let region = u64::from(error.region.0);
                for field in [region, error.offset, error.length, *count] {
                    varint::put(&mut header, field);
                }
            }
        }
        header
    }
}

fn read_error(reader: &mut Reader<'_>) -> Result<RemoteError, Malformed> {
    let kind = RemoteErrorKind::from_number(reader.u8()?);
    Ok(RemoteError {
        kind: kind.ok_or(Malformed("unknown error"))?,
        region: RegionId(reader.varint32("a region above 2^32 - 1")?),
        offset: reader.varint()?,
        length: reader.varint()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest request, of which the constant above is the length.
    #[test]
    fn the_longest_request_fits_the_header_of_a_message() {
        let extent = Extent {
            offset: u64::MAX - (1 << 43),
            length: 1 << 43,
        };
        let request = Request::Access(Access {
            region: RegionId(u32::MAX),
            key: u64::MAX,
            action: Action::Put {
                layout: Layout::extents(&[extent; MAX_EXTENTS]).unwrap(),
                signal: Some(Signal {
                    offset: u64::MAX,
                    update: SignalUpdate::Add(u64::MAX),
                }),
                fenced: true,
            },
        });
        let header = request.header();
        let lengths = MAX_EXTENTS * (varint::MAX - varint::size(extent.length));
        assert_eq!(header.len() + lengths, LONGEST_HEADER);
        let total = extent.length * MAX_EXTENTS as u64;
        assert_eq!(Request::read(PUT, &header, total), Ok(request));
    }
}
