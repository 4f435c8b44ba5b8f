//! Receives that take messages by tag and source.

use crate::entry::on_host;
use crate::error::{ARGUMENT, ENDED, Failure, INTERNAL, NOT_WAITING};
use crate::guard::guard;
use crate::handle::{Entered, Handle};
use crate::limit::{Limit, woken};
use crate::outgoing::{self, matching_channel};
use crate::pointer;
use std::ffi::c_int;
use std::ptr::NonNull;
use std::time::Duration;
use suci::matching::{
    Completion, Matched, MatchingError, MessageId, Pattern, Peeked, RawPart, ReceiveId,
};
use suci::{Error, NodeId};

/// `SUCI_MATCH_ANY_NODE`.
const ANY_NODE: u32 = 1;

/// `SUCI_MATCH_ANY_RECEIVE`.
const ANY_RECEIVE: u64 = u64::MAX;

/// `suci_match_pattern`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawPattern {
    pub(crate) tag: u64,
    pub(crate) ignore: u64,
    pub(crate) from: u32,
    pub(crate) channel: u32,
    pub(crate) flags: u32,
    pub(crate) reserved: u32,
}

impl RawPattern {
    fn checked(self) -> Result<Pattern, Failure> {
        if self.flags & !ANY_NODE != 0 || self.reserved != 0 {
            return Err(Failure::argument(format!(
                "flags {:#x} of suci_match_pattern are not known, or reserved is set: set others to 0",
                self.flags
            )));
        }
        let pattern = Pattern::tag(self.tag).ignoring(self.ignore);
        let pattern = pattern.on(matching_channel(self.channel)?);
        Ok(match self.flags & ANY_NODE {
            0 => pattern.from(NodeId(self.from)),
            _ => pattern,
        })
    }
}

/// `suci_match`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawMatch {
    pub(crate) receive: u64,
    pub(crate) message: u64,
    pub(crate) tag: u64,
    pub(crate) number: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) total: u64,
    pub(crate) from: u32,
    pub(crate) session: u32,
    pub(crate) channel: u32,
    pub(crate) kind: u8,
    pub(crate) released: u8,
    pub(crate) reserved: u8,
    pub(crate) user_header_length: u8,
    pub(crate) user_header: [u8; 256],
}

impl RawMatch {
    const NOTHING: Self = Self {
        receive: 0,
        message: 0,
        tag: 0,
        number: 0,
        offset: 0,
        length: 0,
        total: 0,
        from: 0,
        session: 0,
        channel: 0,
        kind: 0,
        released: 0,
        reserved: 0,
        user_header_length: 0,
        user_header: [0; 256],
    };

    fn set_header(&mut self, header: &[u8]) {
        for (to, from) in self.user_header.iter_mut().zip(header) {
            *to = *from;
        }
        // At most 255.
        self.user_header_length = header.len() as u8;
    }

    fn of_message(&mut self, matched: &Matched) {
        self.tag = matched.tag;
        self.number = matched.number;
        (self.offset, self.length) = (matched.offset, matched.length);
        self.total = matched.total;
        (self.from, self.session) = (matched.from.node.0, matched.from.session.0);
        self.channel = matched.channel.of_group_number();
        self.kind = matched.kind.0;
        self.set_header(&matched.user_header);
    }

    fn of_peeked(peeked: &Peeked) -> Self {
        let mut raw = Self {
            message: peeked.message.0,
            tag: peeked.tag,
            total: peeked.total,
            from: peeked.from.node.0,
            session: peeked.from.session.0,
            channel: peeked.channel.of_group_number(),
            kind: peeked.kind.0,
            ..Self::NOTHING
        };
        raw.set_header(&peeked.user_header);
        raw
    }
}

impl From<MatchingError> for Failure {
    fn from(error: MatchingError) -> Self {
        let text = error.to_string();
        match error {
            MatchingError::Node(error) => error.into(),
            MatchingError::NoSuchMessage(_) => Self::new(NOT_WAITING, text),
            MatchingError::Buffer(_) => Self::new(ARGUMENT, text),
            _ => Self::new(INTERNAL, text),
        }
    }
}

/// Returns the parts of a buffer.
///
/// # Safety
/// If `parts` is not null, it points to `count` of them.
unsafe fn raw_parts(parts: *const libc::iovec, count: usize) -> Result<Vec<RawPart>, Failure> {
    // SAFETY: the caller's promise.
    let parts = unsafe { outgoing::pieces(parts, count) }?;
    let part = |part: &libc::iovec| {
        pointer::check_length::<u8>(part.iov_len, "a part")?;
        if part.iov_len > 0 {
            pointer::output(part.iov_base, "a part")?;
        }
        let first = NonNull::new(part.iov_base.cast()).unwrap_or(NonNull::dangling());
        Ok((first, part.iov_len))
    };
    parts.iter().map(part).collect()
}

/// Waits for something.
fn wait<T>(
    node: &mut Entered,
    timeout: i64,
    mut wait: impl FnMut(&mut Entered, Duration) -> Result<Option<T>, Error>,
) -> Result<T, Failure> {
    match wait(node, Limit::new(timeout).duration()) {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(Failure::timed_out()),
        Err(Error::Woken) => {
            node.entry().take_woken();
            Err(woken())
        }
        Err(error) => Err(error.into()),
    }
}

/// Posts a receive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_match_post(
    node: Handle,
    pattern: *const RawPattern,
    parts: *const libc::iovec,
    count: usize,
    least: u64,
    receive: *mut u64,
) -> c_int {
    guard(|| {
        pointer::output(receive, "receive")?;
        // SAFETY: as suci.h asks.
        let pattern = unsafe { pointer::input(pattern, "pattern") }?.checked()?;
        // SAFETY: as suci.h asks.
        let parts = unsafe { raw_parts(parts, count) }?;
        let least = (least > 0).then_some(least);
        let mut node = node.enter()?;
        // SAFETY: as suci.h asks: the memory stays until the receive is over.
        let posted = on_host!(node.host(), node => unsafe {
            node.matching().post_raw(pattern, &parts, least)
        })?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(receive, posted.0) };
        Ok(())
    })
}

/// Takes the completion of a receive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_match_wait(
    node: Handle,
    receive: u64,
    result: *mut RawMatch,
    timeout: i64,
) -> c_int {
    guard(|| {
        pointer::output(result, "result")?;
        let mut node = node.enter()?;
        let Completion {
            receive,
            result: outcome,
            released,
        } = wait(&mut node, timeout, |node, limit| {
            on_host!(node.host(), node => match receive {
                ANY_RECEIVE => node.matching().next_completion(limit),
                one => node.matching().completion_of(ReceiveId(one), limit),
            })
        })?;
        let mut raw = RawMatch {
            receive: receive.0,
            released: released.into(),
            ..RawMatch::NOTHING
        };
        let failed = match outcome {
            Ok(matched) => {
                raw.of_message(&matched);
                None
            }
            Err(ended) => {
                raw.from = ended.node.0;
                let error = Error::Ended {
                    node: ended.node,
                    reason: ended.reason,
                };
                Some(Failure::from(error).with_code(ENDED))
            }
        };
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(result, raw) };
        failed.map_or(Ok(()), Err)
    })
}

/// Withdraws a receive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_match_cancel(
    node: Handle,
    receive: u64,
    cancelled: *mut bool,
) -> c_int {
    guard(|| {
        pointer::output(cancelled, "cancelled")?;
        let mut node = node.enter()?;
        let is_over = on_host!(node.host(), node => node.matching().cancel(ReceiveId(receive)))?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(cancelled, is_over) };
        Ok(())
    })
}

/// Looks for a message that no receive has taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_match_peek(
    node: Handle,
    pattern: *const RawPattern,
    result: *mut RawMatch,
    timeout: i64,
) -> c_int {
    // SAFETY: as suci.h asks.
    guard(|| unsafe { find(node, pattern, result, timeout, false) })
}

/// Keeps a message that no receive has taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_match_claim(
    node: Handle,
    pattern: *const RawPattern,
    result: *mut RawMatch,
    timeout: i64,
) -> c_int {
    // SAFETY: as suci.h asks.
    guard(|| unsafe { find(node, pattern, result, timeout, true) })
}

/// # Safety
/// As suci.h asks.
unsafe fn find(
    node: Handle,
    pattern: *const RawPattern,
    result: *mut RawMatch,
    timeout: i64,
    keeps: bool,
) -> Result<(), Failure> {
    pointer::output(result, "result")?;
    // SAFETY: the caller's promise.
    let pattern = unsafe { pointer::input(pattern, "pattern") }?.checked()?;
    let mut node = node.enter()?;
    let found = wait(&mut node, timeout, |node, limit| {
        on_host!(node.host(), node => match keeps {
            true => node.matching().claim(&pattern, limit),
            false => node.matching().peek(&pattern, limit),
        })
    })?;
    // SAFETY: the caller's promise.
    unsafe { pointer::put(result, RawMatch::of_peeked(&found)) };
    Ok(())
}

/// Receives a message that was claimed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_match_receive_claimed(
    node: Handle,
    message: u64,
    parts: *const libc::iovec,
    count: usize,
    receive: *mut u64,
) -> c_int {
    guard(|| {
        pointer::output(receive, "receive")?;
        // SAFETY: as suci.h asks.
        let parts = unsafe { raw_parts(parts, count) }?;
        let mut node = node.enter()?;
        // SAFETY: as suci.h asks: the memory stays until the receive is over.
        let posted = on_host!(node.host(), node => unsafe {
            node.matching().receive_claimed_raw(MessageId(message), &parts)
        })?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(receive, posted.0) };
        Ok(())
    })
}

/// Discards a message that was claimed.
#[unsafe(no_mangle)]
pub extern "C" fn suci_match_discard(node: Handle, message: u64) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        Ok(on_host!(node.host(), node => node.matching().discard(MessageId(message)))?)
    })
}

/// Tells of the messages that no receive has taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_match_unexpected(
    node: Handle,
    messages: *mut u64,
    bytes: *mut u64,
) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        let (count, held) = on_host!(node.host(), node => node.matching().unexpected());
        // SAFETY: as suci.h asks.
        unsafe {
            pointer::put(messages, count as u64);
            pointer::put(bytes, held);
        }
        Ok(())
    })
}
