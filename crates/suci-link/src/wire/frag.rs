//! FRAG: bytes of one message, and RTS: its announcement.

use super::frame::kind::FRAG;
use super::reader::{Malformed, Reader};
use super::varint;
use crate::limits::{MAX_MESSAGE, MAX_USER_HEADER};
use crate::types::{ChannelId, Kind, MessageNumber};

pub(super) const FIRST: u8 = 1;
pub(super) const END: u8 = 1 << 1;
pub(super) const LEN: u8 = 1 << 2;
pub(super) const TAG: u8 = 1 << 3;
const KIND: u8 = 1 << 4;
const USER_HEADER: u8 = 1 << 5;
const DESCRIPTION: u8 = TAG | KIND | USER_HEADER;
/// Frame types of which this bit is set are not FRAG.
pub(super) const RESERVED: u8 = 1 << 6;

const _: () = assert!(
    MAX_USER_HEADER == u8::MAX as usize,
    "its length is one byte"
);

/// The description of a message in its first fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start<'a> {
    /// Bytes of the message, at most [`MAX_MESSAGE`].
    pub total: u64,
    /// The program's tag.
    pub tag: u64,
    /// The message's kind.
    pub kind: Kind,
    /// The program's header, at most [`MAX_USER_HEADER`] bytes.
    pub user_header: &'a [u8],
}

/// A fragment as received. `offset + data.len()` is at most [`MAX_MESSAGE`] and, where the total is
/// known, at most that; data is empty only in a first fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frag<'a> {
    /// The message's channel.
    pub channel: ChannelId,
    /// The message's number in it.
    pub message: MessageNumber,
    /// Offset of `data` in the message.
    pub offset: u64,
    /// The last byte of `data` is the message's last.
    pub end: bool,
    /// The description, exactly if `offset` is 0.
    pub start: Option<Start<'a>>,
    /// The bytes.
    pub data: &'a [u8],
}

impl<'a> Frag<'a> {
    /// Returns the message's length, if this fragment tells it.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        match self.start {
            Some(start) => Some(start.total),
            None => self.end.then(|| self.end_offset()),
        }
    }

    /// Returns the offset in the message behind its data.
    #[must_use]
    pub fn end_offset(&self) -> u64 {
        // At most MAX_MESSAGE: `read` checked it.
        self.offset.saturating_add(self.data.len() as u64)
    }

    /// Returns true if it holds the whole message.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.start.is_some() && self.end
    }

    /// Returns everything but the data, for encoding.
    #[must_use]
    pub const fn head(&self) -> FragHead<'a> {
        let &Self {
            channel,
            message,
            offset,
            end,
            start,
            ..
        } = self;
        FragHead {
            channel,
            message,
            offset,
            end,
            start,
        }
    }

    /// Reads the fields after the frame type `bits`.
    #[inline(always)]
    pub(super) fn read(bits: u8, r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let channel = ChannelId(r.varint32("channel beyond 32 bits")?);
        let message = r.varint()?;
        let end = bits & END != 0;
        if bits & FIRST == 0 {
            if bits & DESCRIPTION != 0 {
                return Err(Malformed("description on a later fragment"));
            }
            let offset = r.varint()?;
            let data = data(bits, r)?;
            if offset == 0 || data.is_empty() {
                return Err(Malformed("later fragment at offset 0 or empty"));
            }
            offset
                .checked_add(data.len() as u64)
                .filter(|end| *end <= MAX_MESSAGE)
                .ok_or(Malformed("fragment beyond the longest message"))?;
            return Ok(Self {
                channel,
                message,
                offset,
                end,
                start: None,
                data,
            });
        }
        let claimed = if end { None } else { Some(r.varint()?) };
        let tag = if bits & TAG != 0 { r.varint()? } else { 0 };
        let kind = if bits & KIND != 0 {
            Kind(r.u8()?)
        } else {
            Kind::USER
        };
        let user_header = if bits & USER_HEADER != 0 {
            user_header(r)?
        } else {
            &[]
        };
        let data = data(bits, r)?;
        let len = data.len() as u64;
        let total = claimed.unwrap_or(len);
        if total > MAX_MESSAGE {
            return Err(Malformed("message too long"));
        }
        if !end && len >= total {
            return Err(Malformed(
                "first fragment covers its message but is not the end",
            ));
        }
        let start = Some(Start {
            total,
            tag,
            kind,
            user_header,
        });
        Ok(Self {
            channel,
            message,
            offset: 0,
            end,
            start,
            data,
        })
    }
}

#[inline(always)]
fn data<'a>(bits: u8, r: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    if bits & LEN == 0 {
        return Ok(r.rest());
    }
    let len = r.varint()?;
    r.bytes(len)
}

fn user_header<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    match r.u8()? {
        0 => Err(Malformed("user header announced but empty")),
        len => r.bytes(u64::from(len)),
    }
}

/// A fragment to be sent, without its data, which may lie elsewhere.
///
/// The caller keeps the rules of [`Frag`]: `start` exactly if `offset` is 0, `end` exactly if the
/// data reaches the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragHead<'a> {
    /// The message's channel.
    pub channel: ChannelId,
    /// The message's number in it.
    pub message: MessageNumber,
    /// Offset of the data in the message.
    pub offset: u64,
    /// The data ends the message.
    pub end: bool,
    /// The description, exactly if `offset` is 0.
    pub start: Option<Start<'a>>,
}

impl FragHead<'_> {
    /// Returns the bytes of everything before the data length.
    fn fixed_size(&self) -> usize {
        let numbers = 1 + varint::size(self.channel.0.into()) + varint::size(self.message);
        let Some(start) = &self.start else {
            return numbers + varint::size(self.offset);
        };
        let total = if self.end {
            0
        } else {
            varint::size(start.total)
        };
        let tag = if start.tag == 0 {
            0
        } else {
            varint::size(start.tag)
        };
        let kind = usize::from(start.kind != Kind::USER);
        let header = match start.user_header {
            [] => 0,
            bytes => 1 + bytes.len(),
        };
        numbers + total + tag + kind + header
    }

    /// Returns the bytes that [`put`](Self::put) appends: the frame without its data.
    #[must_use]
    pub fn size(&self, data_len: usize, last_in_packet: bool) -> usize {
        let len = if last_in_packet {
            0
        } else {
            varint::size(data_len as u64)
        };
        self.fixed_size() + len
    }

    /// Returns how many bytes of data fit into `room` together with this head, as the last frame of
    /// a packet; `None` if the head itself does not fit.
    ///
    /// A head that is not the `end` may be longer (it carries the total): a caller that has to cut
    /// the data calls this again with `end` off.
    #[must_use]
    pub fn capacity(&self, room: usize) -> Option<usize> {
        room.checked_sub(self.fixed_size())
    }

    /// Appends the frame up to its data. The caller must append the data: `data_len` bytes, and
    /// nothing after them if `last_in_packet`.
    pub fn put(&self, buf: &mut Vec<u8>, data_len: usize, last_in_packet: bool) {
        debug_assert_eq!(
            self.start.is_some(),
            self.offset == 0,
            "a description at offset 0 only"
        );
        debug_assert!(
            self.start.is_some() || data_len > 0,
            "an empty later fragment"
        );
        let description = self.start.as_ref().map_or(0, |start| start.bits() | FIRST);
        let end = if self.end { END } else { 0 };
        let len = if last_in_packet { 0 } else { LEN };
        let mut fields = varint::Fields::new(FRAG | description | end | len);
        fields.add(buf, self.channel.0.into());
        fields.add(buf, self.message);
        match &self.start {
            Some(start) => {
                debug_assert_eq!(
                    self.end,
                    start.total == data_len as u64,
                    "end means all of it"
                );
                if !self.end {
                    fields.add(buf, start.total);
                }
                if description & DESCRIPTION != 0 {
                    fields.put(buf);
                    start.put_described(buf);
                    fields = varint::Fields::NONE;
                }
            }
            None => fields.add(buf, self.offset),
        }
        if !last_in_packet {
            fields.add(buf, data_len as u64);
        }
        fields.put(buf);
    }
}

impl Start<'_> {
    fn bits(&self) -> u8 {
        let tag = if self.tag == 0 { 0 } else { TAG };
        let kind = if self.kind == Kind::USER { 0 } else { KIND };
        let header = if self.user_header.is_empty() {
            0
        } else {
            USER_HEADER
        };
        tag | kind | header
    }

    /// Appends the fields that [`bits`](Self::bits) announces.
    fn put_described(&self, buf: &mut Vec<u8>) {
        if self.tag != 0 {
            varint::put(buf, self.tag);
        }
        if self.kind != Kind::USER {
            buf.push(self.kind.0);
        }
        if !self.user_header.is_empty() {
            put_user_header(buf, self.user_header);
        }
    }
}

/// Appends length and bytes of a user header, cut to the longest that the length byte can express.
fn put_user_header(buf: &mut Vec<u8>, header: &[u8]) {
    debug_assert!(
        header.len() <= MAX_USER_HEADER,
        "the limit is checked when a message is sent"
    );
    let header = header.get(..MAX_USER_HEADER).unwrap_or(header);
    buf.push(header.len() as u8);
    buf.extend_from_slice(header);
}

/// RTS: announces a message whose bytes wait for the receiver's CTS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rts<'a> {
    /// The message's channel.
    pub channel: ChannelId,
    /// The message's number in it.
    pub message: MessageNumber,
    /// Bytes of the message, at most [`MAX_MESSAGE`].
    pub total: u64,
    /// The program's tag.
    pub tag: u64,
    /// The message's kind.
    pub kind: Kind,
    /// The program's header, at most [`MAX_USER_HEADER`] bytes.
    pub user_header: &'a [u8],
}

impl<'a> Rts<'a> {
    pub(super) fn read(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let channel = ChannelId(r.varint32("channel beyond 32 bits")?);
        let (message, total, tag) = (r.varint()?, r.varint()?, r.varint()?);
        if total > MAX_MESSAGE {
            return Err(Malformed("message too long"));
        }
        let kind = Kind(r.u8()?);
        let len = r.u8()?;
        let user_header = r.bytes(len.into())?;
        Ok(Self {
            channel,
            message,
            total,
            tag,
            kind,
            user_header,
        })
    }

    pub(super) fn put(&self, buf: &mut Vec<u8>) {
        self.varints()
            .into_iter()
            .for_each(|value| varint::put(buf, value));
        buf.push(self.kind.0);
        put_user_header(buf, self.user_header);
    }

    pub(super) fn size(&self) -> usize {
        let varints: usize = self.varints().into_iter().map(varint::size).sum();
        varints + 2 + self.user_header.len()
    }

    const fn varints(&self) -> [u64; 4] {
        [self.channel.0 as u64, self.message, self.total, self.tag]
    }
}
