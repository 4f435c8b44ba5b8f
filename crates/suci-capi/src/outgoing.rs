//! Messages to be sent, as C describes them.

use crate::error::Failure;
use crate::lent::{Loan, Releases};
use crate::pointer::{self, Growable};
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::time::Duration;
use suci::{Bytes, ChannelId, Error, Kind, OutgoingMessage};

/// `SUCI_SEND_NOTIFY`.
const NOTIFY: u32 = 1;
/// `SUCI_SEND_BY_REFERENCE`.
const BY_REFERENCE: u32 = 2;
/// `SUCI_SEND_MATCHED`.
const MATCHED: u32 = 4;

/// The most pieces of one message.
const MOST_PIECES: usize = 1_024;

/// The longest message, in bytes.
const MOST_BYTES: usize = (1 << 48) - 1;

/// Refuses a message that is longer than any may be, before memory for a copy of it is asked for:
/// where there is none, the process ends.
#[inline]
pub(crate) fn check_length(length: usize) -> Result<(), Failure> {
    match length {
        0..=MOST_BYTES => Ok(()),
        _ => Err(Error::TooLong {
            length: length as u64,
        }
        .into()),
    }
}

/// `suci_send_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SendOptions {
    pub(crate) size: u32,
    pub(crate) flags: u32,
    pub(crate) channel: u32,
    pub(crate) kind: u8,
    pub(crate) user_header_length: u8,
    pub(crate) reserved: u16,
    pub(crate) user_header: *const c_void,
    pub(crate) tag: u64,
    pub(crate) cookie: u64,
    pub(crate) deadline: i64,
}

impl Default for SendOptions {
    fn default() -> Self {
        Self {
            size: size_of::<Self>() as u32,
            flags: 0,
            channel: 0,
            kind: Kind::USER.0,
            user_header_length: 0,
            reserved: 0,
            user_header: std::ptr::null(),
            tag: 0,
            cookie: 0,
            deadline: -1,
        }
    }
}

// SAFETY: `repr(C)`, the size comes first, and integers and pointers take any bytes.
unsafe impl Growable for SendOptions {
    const NAME: &'static str = "suci_send_options";
    const SMALLEST: usize = 48;
}

impl SendOptions {
    /// Returns the options that C names, checked.
    ///
    /// # Safety
    /// If `options` is not null, it points to as many bytes as its first word says.
    pub(crate) unsafe fn of(options: *const Self) -> Result<Self, Failure> {
        // SAFETY: the caller's promise.
        let options = unsafe { pointer::read(options, Self::default()) }?;
        if options.flags & !(NOTIFY | BY_REFERENCE | MATCHED) != 0 || options.reserved != 0 {
            return Err(Failure::argument(format!(
                "flags {:#x} of suci_send_options are not known, or reserved is set: init the struct",
                options.flags
            )));
        }
        Ok(options)
    }

    /// Returns true if the message is nothing but a copy of the payload.
    pub(crate) fn is_plain(&self) -> bool {
        self.flags == 0
            && self.channel == 0
            && self.kind == Kind::USER.0
            && self.user_header_length == 0
            && self.tag == 0
            && self.cookie == 0
            && self.deadline < 0
    }

    pub(crate) fn is_by_reference(&self) -> bool {
        self.flags & BY_REFERENCE != 0
    }

    /// Returns the message of this payload.
    ///
    /// # Safety
    /// The user header has as many bytes as the options say.
    pub(crate) unsafe fn draft(&self, payload: Bytes) -> Result<OutgoingMessage, Failure> {
        let length = usize::from(self.user_header_length);
        // SAFETY: the caller's promise.
        let header = unsafe { pointer::bytes(self.user_header, length, "user_header") }?;
        let message = OutgoingMessage::new(payload);
        let message = match self.flags & MATCHED {
            0 => message.channel(ChannelId(self.channel)),
            _ => message.matched(matching_channel(self.channel)?),
        };
        let mut message = message
            .kind(Kind(self.kind))
            .tag(self.tag)
            .token(self.cookie);
        if !header.is_empty() {
            message = message.user_header(Bytes::copy_from_slice(header));
        }
        if self.flags & NOTIFY != 0 {
            message = message.notify(self.cookie);
        }
        if let Ok(deadline) = u64::try_from(self.deadline) {
            message = message.deadline(Duration::from_nanos(deadline));
        }
        Ok(message)
    }

    /// Returns the message of these pieces, and the loan of their memory.
    ///
    /// # Safety
    /// As [`SendOptions::draft`]; the pieces are readable, and stay as they are while they are
    /// lent.
    pub(crate) unsafe fn draft_of(
        &self,
        releases: &Arc<Releases>,
        pieces: &[libc::iovec],
    ) -> Result<(OutgoingMessage, Option<Loan>), Failure> {
        // SAFETY: the caller's promise.
        let (payload, loan) = unsafe { self.payload(releases, pieces) }?;
        // SAFETY: the caller's promise.
        Ok((unsafe { self.draft(payload) }?, loan))
    }

    /// Returns the payload that these pieces make, and the loan of its memory.
    ///
    /// # Safety
    /// The pieces are readable, and stay as they are while they are lent.
    unsafe fn payload(
        &self,
        releases: &Arc<Releases>,
        pieces: &[libc::iovec],
    ) -> Result<(Bytes, Option<Loan>), Failure> {
        let loan = || Loan::new(releases, self.cookie);
        if let [only] = pieces {
            // SAFETY: the caller's promise.
            let bytes = unsafe { piece(only) }?;
            if !self.is_by_reference() {
                return Ok((Bytes::copy_from_slice(bytes), None));
            }
            let loan = loan();
            // SAFETY: the caller's promise. The library only reads what it sends.
            let lent = unsafe { loan.lend(bytes.as_ptr().cast_mut(), bytes.len()) };
            return Ok((Bytes::from_owner(lent), Some(loan)));
        }
        let mut length = 0_usize;
        for piece in pieces {
            length = length.saturating_add(piece.iov_len);
        }
        pointer::check_length::<u8>(length, "the message")?;
        check_length(length)?;
        let mut joined = Vec::with_capacity(length);
        for each in pieces {
            // SAFETY: the caller's promise.
            joined.extend_from_slice(unsafe { piece(each) }?);
        }
        let loan = self.is_by_reference().then(|| {
            let loan = loan();
            // SAFETY: no bytes are lent, and a dangling pointer suffices for none.
            drop(unsafe { loan.lend(std::ptr::dangling_mut(), 0) });
            loan
        });
        Ok((joined.into(), loan))
    }
}

/// Returns the number of a channel of matching, if it is one.
pub(crate) fn matching_channel(channel: u32) -> Result<u32, Failure> {
    match channel <= ChannelId::LAST_USER.0 {
        true => Ok(channel),
        false => Err(Failure::argument(format!(
            "channel is {channel}: receives are on channels 0 to {}",
            ChannelId::LAST_USER.0
        ))),
    }
}

/// Returns the bytes of a piece.
///
/// # Safety
/// They are readable for `'a`.
pub(crate) unsafe fn piece<'a>(piece: &libc::iovec) -> Result<&'a [u8], Failure> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { pointer::bytes(piece.iov_base.cast_const(), piece.iov_len, "a piece") }?;
    check_length(bytes.len())?;
    Ok(bytes)
}

/// Returns the pieces of a message.
///
/// # Safety
/// If `pieces` is not null, it points to `count` of them.
pub(crate) unsafe fn pieces<'a>(
    pieces: *const libc::iovec,
    count: usize,
) -> Result<&'a [libc::iovec], Failure> {
    if count > MOST_PIECES {
        return Err(Failure::argument(format!(
            "{count} pieces of one message: at most {MOST_PIECES} are possible; join some"
        )));
    }
    // SAFETY: the caller's promise.
    unsafe { pointer::items(pieces, count, "pieces") }
}

/// Sets the defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_send_options_init_sized(
    options: *mut SendOptions,
    size: usize,
) -> c_int {
    // SAFETY: as suci.h asks.
    crate::guard::guard(|| unsafe { pointer::begin(options, size, SendOptions::default()) })
}
