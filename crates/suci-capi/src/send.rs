//! Sending.

use crate::entry::{Host, on_host};
use crate::error::{self, Failure, NOT_ALL};
use crate::guard::guard;
use crate::handle::{Entered, Handle};
use crate::lent::{Loan, Releases};
use crate::limit::{self, Limit, Rest};
use crate::outgoing::{self, SendOptions};
use crate::pointer;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use suci::{Bytes, Error, NodeId, OutgoingMessage};

/// `SUCI_UNNUMBERED`.
const UNNUMBERED: u64 = u64::MAX;

/// `suci_outgoing`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BatchMessage {
    pub(crate) to: u32,
    pub(crate) reserved: u32,
    pub(crate) data: *const c_void,
    pub(crate) length: usize,
    pub(crate) options: *const SendOptions,
}

/// Sends a message without waiting. Returns its number.
fn try_send(host: Host<'_>, to: NodeId, message: OutgoingMessage) -> Result<u64, Error> {
    match host {
        Host::Alone(node) => node.send(to, message),
        Host::Shared(node) => node.send(to, message).map(|()| UNNUMBERED),
    }
}

/// Sends a copy of `bytes` without waiting. Returns the message's number.
#[inline]
fn try_send_copy(host: Host<'_>, to: NodeId, bytes: &[u8]) -> Result<u64, Error> {
    match host {
        Host::Alone(node) => node.send_copy(to, bytes),
        Host::Shared(node) => node.send_copy(to, bytes).map(|()| UNNUMBERED),
    }
}

/// Sends a message; waits where its queue is full. Returns its number.
pub(crate) fn within(
    node: &mut Entered,
    to: NodeId,
    message: OutgoingMessage,
    limit: Limit,
) -> Result<u64, Failure> {
    let rest = limit.start();
    let sent = try_send(node.host(), to, message);
    finish(node, to, sent, rest)
}

/// Goes on after the first try to send a message: waits, where its queue was full.
fn finish(
    node: &mut Entered,
    to: NodeId,
    sent: Result<u64, Error>,
    rest: Rest,
) -> Result<u64, Failure> {
    match sent {
        Ok(number) => Ok(number),
        Err(Error::WouldBlock { message, .. }) if rest.left() != Limit::Now => {
            wait_to_send(node, to, *message, rest)
        }
        Err(error) => Err(error.into()),
    }
}

#[cold]
fn wait_to_send(
    node: &mut Entered,
    to: NodeId,
    mut message: OutgoingMessage,
    rest: Rest,
) -> Result<u64, Failure> {
    loop {
        let limit = rest.left();
        let time = limit.duration();
        let sent = match node.host() {
            Host::Alone(node) => node.send_timeout(to, message, time),
            Host::Shared(node) => node.send_timeout(to, message, time).map(|()| UNNUMBERED),
        };
        match sent {
            Err(Error::WouldBlock { message: back, to }) => {
                let is_over = rest.left() == Limit::Now;
                // A wait that ended early was woken.
                if node.entry().take_woken() || !is_over {
                    return Err(limit::woken());
                }
                message = *back;
                if is_over {
                    let message = Box::new(message);
                    return Err(Error::WouldBlock { to, message }.into());
                }
            }
            done => return done.map_err(Failure::from),
        }
    }
}

/// Sends a copy of bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_send(
    node: Handle,
    to: u32,
    data: *const c_void,
    length: usize,
    timeout: i64,
) -> c_int {
    guard(|| {
        // SAFETY: as suci.h asks.
        let bytes = unsafe { pointer::bytes(data, length, "data") }?;
        outgoing::check_length(length)?;
        let (mut node, to) = (node.enter()?, NodeId(to));
        match try_send_copy(node.host(), to, bytes) {
            Ok(_) => Ok(()),
            failed => finish(&mut node, to, failed, Limit::new(timeout).start()).map(drop),
        }
    })
}

/// Sends a message of several pieces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_sendv(
    node: Handle,
    to: u32,
    pieces: *const libc::iovec,
    count: usize,
    options: *const SendOptions,
    timeout: i64,
    number: *mut u64,
) -> c_int {
    guard(|| {
        let (mut node, to) = (node.enter()?, NodeId(to));
        // SAFETY: as suci.h asks.
        let options = unsafe { SendOptions::of(options) }?;
        // SAFETY: as suci.h asks.
        let pieces = unsafe { outgoing::pieces(pieces, count) }?;
        // SAFETY: as suci.h asks.
        let (message, loan) = unsafe { options.draft_of(&node.entry().releases, pieces) }?;
        let given = within(&mut node, to, message, Limit::new(timeout))?;
        loan.into_iter().for_each(Loan::accept);
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(number, given) };
        Ok(())
    })
}

/// A message of a batch.
struct BatchItem<'a> {
    to: NodeId,
    bytes: &'a [u8],
    /// `None`: a plain copy of the bytes.
    options: Option<SendOptions>,
}

impl BatchItem<'_> {
    /// Returns the message, and the loan of its memory.
    ///
    /// # Safety
    /// As [`SendOptions::draft_of`].
    unsafe fn draft(
        &self,
        releases: &Arc<Releases>,
    ) -> Result<(OutgoingMessage, Option<Loan>), Failure> {
        let Some(options) = &self.options else {
            return Ok((Bytes::copy_from_slice(self.bytes).into(), None));
        };
        let piece = libc::iovec {
            iov_base: self.bytes.as_ptr().cast_mut().cast(),
            iov_len: self.bytes.len(),
        };
        // SAFETY: the caller's promise.
        unsafe { options.draft_of(releases, &[piece]) }
    }
}

/// Why a batch stopped.
enum Stop {
    Failed(Failure),
    /// A message was not taken.
    Refused(Error, NodeId, Option<Loan>),
}

/// Sends messages together until one is not taken. Counts them in `sent`.
///
/// # Safety
/// As [`SendOptions::draft_of`], for each of the messages that `item` gives.
unsafe fn send_together<'a>(
    node: &mut Entered,
    sent: &mut usize,
    count: usize,
    item: &impl Fn(usize) -> Result<BatchItem<'a>, Failure>,
) -> Result<(), Stop> {
    let releases = Arc::clone(&node.entry().releases);
    let mut send_all = |send: &mut dyn FnMut(&BatchItem<'a>) -> Result<Option<Loan>, Stop>| {
        while *sent < count {
            let item = item(*sent).map_err(Stop::Failed)?;
            let loan = send(&item)?;
            loan.into_iter().for_each(Loan::accept);
            *sent += 1;
        }
        Ok(())
    };
    match node.host() {
        Host::Alone(node) => {
            let sent = node.batch(|batch| {
                send_all(&mut |item| {
                    if item.options.is_none() {
                        let sent = batch.send_copy(item.to, item.bytes);
                        return taken(sent, item.to, None);
                    }
                    // SAFETY: the caller's promise.
                    let draft = unsafe { item.draft(&releases) };
                    let (message, loan) = draft.map_err(Stop::Failed)?;
                    taken(batch.send(item.to, message), item.to, loan)
                })
            });
            sent.unwrap_or_else(|error| Err(Stop::Failed(error.into())))
        }
        Host::Shared(node) => send_all(&mut |item| {
            // SAFETY: the caller's promise.
            let draft = unsafe { item.draft(&releases) };
            let (message, loan) = draft.map_err(Stop::Failed)?;
            taken(node.send(item.to, message), item.to, loan)
        }),
    }
}

/// Returns the loan of a message that was taken.
fn taken<T>(sent: Result<T, Error>, to: NodeId, loan: Option<Loan>) -> Result<Option<Loan>, Stop> {
    match sent {
        Ok(_) => Ok(loan),
        Err(error) => Err(Stop::Refused(error, to, loan)),
    }
}

/// Sends all messages that `item` gives; waits where a queue is full.
///
/// # Safety
/// As [`send_together`].
unsafe fn send_batch<'a>(
    node: Handle,
    count: usize,
    timeout: i64,
    accepted: *mut usize,
    item: impl Fn(usize) -> Result<BatchItem<'a>, Failure>,
) -> Result<(), Failure> {
    let mut sent = 0;
    let result = node.enter().and_then(|mut node| {
        let mut rest = None;
        loop {
            // SAFETY: the caller's promise.
            match unsafe { send_together(&mut node, &mut sent, count, &item) } {
                Ok(()) => return Ok(()),
                Err(Stop::Failed(failure)) => return Err(failure),
                Err(Stop::Refused(error, to, loan)) => {
                    let rest = *rest.get_or_insert_with(|| Limit::new(timeout).start());
                    finish(&mut node, to, Err(error), rest)?;
                    loan.into_iter().for_each(Loan::accept);
                    sent += 1;
                }
            }
        }
    });
    // SAFETY: as suci.h asks.
    unsafe { pointer::put(accepted, sent) };
    result
}

/// As [`send_batch`], for copies of bytes on channel 0: without what the other messages need.
///
/// # Safety
/// The pieces are readable. If `accepted` is not null, a number may be written there.
unsafe fn send_plain(
    node: Handle,
    to: NodeId,
    messages: &[libc::iovec],
    timeout: i64,
    accepted: *mut usize,
) -> Result<(), Failure> {
    let mut left = messages;
    let result = node.enter().and_then(|mut node| {
        let mut rest = None;
        loop {
            // SAFETY: the caller's promise.
            let refused = match unsafe { send_plain_together(node.host(), to, &mut left) }? {
                None => return Ok(()),
                Some(refused) => refused,
            };
            let rest = *rest.get_or_insert_with(|| Limit::new(timeout).start());
            finish(&mut node, to, Err(refused), rest)?;
            left = left.get(1..).unwrap_or_default();
        }
    });
    // SAFETY: the caller's promise.
    unsafe { pointer::put(accepted, messages.len() - left.len()) };
    result
}

/// Sends copies together until one is not taken, and returns why. `left` begins with that one then.
///
/// # Safety
/// The pieces are readable.
unsafe fn send_plain_together(
    host: Host<'_>,
    to: NodeId,
    left: &mut &[libc::iovec],
) -> Result<Option<Error>, Failure> {
    /// Sends each of the pieces by `send`.
    #[inline]
    unsafe fn send_each<T>(
        left: &mut &[libc::iovec],
        mut send: impl FnMut(&[u8]) -> Result<T, Error>,
    ) -> Result<Option<Error>, Failure> {
        while let Some((first, others)) = left.split_first() {
            // SAFETY: the caller's promise.
            let bytes = unsafe { outgoing::piece(first) }?;
            if let Err(refused) = send(bytes) {
                return Ok(Some(refused));
            }
            *left = others;
        }
        Ok(None)
    }
    match host {
        Host::Alone(node) => node.batch(|batch| {
            // SAFETY: the caller's promise.
            unsafe { send_each(left, |bytes| batch.send_copy(to, bytes)) }
        })?,
        // SAFETY: the caller's promise.
        Host::Shared(node) => unsafe { send_each(left, |bytes| node.send_copy(to, bytes)) },
    }
}

/// Sends many messages to one peer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_send_many(
    node: Handle,
    to: u32,
    messages: *const libc::iovec,
    count: usize,
    options: *const SendOptions,
    timeout: i64,
    accepted: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(accepted, 0) };
        // SAFETY: as suci.h asks.
        let messages = unsafe { pointer::items(messages, count, "messages") }?;
        // SAFETY: as suci.h asks.
        let options = unsafe { SendOptions::of(options) }?;
        if options.is_by_reference() {
            let text = "suci_send_many copies its messages: use suci_send_batch for SUCI_SEND_BY_REFERENCE";
            return Err(Failure::argument(text));
        }
        let to = NodeId(to);
        if options.is_plain() {
            // SAFETY: as suci.h asks.
            return unsafe { send_plain(node, to, messages, timeout, accepted) };
        }
        let options = Some(options);
        let item = |index: usize| {
            let none = || Failure::argument("no such message");
            // SAFETY: as suci.h asks.
            let bytes = unsafe { outgoing::piece(messages.get(index).ok_or_else(none)?) }?;
            Ok(BatchItem { to, bytes, options })
        };
        // SAFETY: as suci.h asks.
        unsafe { send_batch(node, count, timeout, accepted, item) }
    })
}

/// Sends messages to several peers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_send_batch(
    node: Handle,
    messages: *const BatchMessage,
    count: usize,
    timeout: i64,
    accepted: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(accepted, 0) };
        // SAFETY: as suci.h asks.
        let messages = unsafe { pointer::items(messages, count, "messages") }?;
        let item = |index: usize| {
            let none = || Failure::argument("no such message");
            let message = messages.get(index).ok_or_else(none)?;
            if message.reserved != 0 {
                return Err(Failure::argument(
                    "reserved of suci_outgoing is set: set it to 0",
                ));
            }
            // SAFETY: as suci.h asks.
            let bytes = unsafe { pointer::bytes(message.data, message.length, "data") }?;
            outgoing::check_length(bytes.len())?;
            // SAFETY: as suci.h asks.
            let options = unsafe { SendOptions::of(message.options) }?;
            Ok(BatchItem {
                to: NodeId(message.to),
                bytes,
                options: (!options.is_plain()).then_some(options),
            })
        };
        // SAFETY: as suci.h asks.
        unsafe { send_batch(node, count, timeout, accepted, item) }
    })
}

/// Sends one message to several peers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_broadcast(
    node: Handle,
    to: *const u32,
    peer_count: usize,
    pieces: *const libc::iovec,
    count: usize,
    options: *const SendOptions,
    results: *mut c_int,
) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        // SAFETY: as suci.h asks.
        let peers = unsafe { pointer::items(to, peer_count, "to") }?;
        let peers: Vec<NodeId> = peers.iter().copied().map(NodeId).collect();
        // SAFETY: as suci.h asks.
        let options = unsafe { SendOptions::of(options) }?;
        // SAFETY: as suci.h asks.
        let pieces = unsafe { outgoing::pieces(pieces, count) }?;
        // SAFETY: as suci.h asks.
        let (message, loan) = unsafe { options.draft_of(&node.entry().releases, pieces) }?;
        let each: Vec<Result<(), Error>> = match node.host() {
            Host::Alone(node) => {
                let all = node.broadcast(&peers, message)?;
                all.into_iter()
                    .map(|(_, result)| result.map(drop))
                    .collect()
            }
            Host::Shared(node) => {
                let all = node.broadcast(&peers, message)?;
                all.into_iter().map(|(_, result)| result).collect()
            }
        };
        if each.iter().any(Result::is_ok) {
            loan.into_iter().for_each(Loan::accept);
        }
        let mut first = None;
        for (index, result) in each.into_iter().enumerate() {
            let failure = result.err().map(Failure::from);
            if !results.is_null() {
                let code = failure.as_ref().map_or(error::OK, Failure::code);
                // SAFETY: as suci.h asks: there is room for one value for each peer.
                unsafe { results.add(index).write(code) };
            }
            first = first.or(failure);
        }
        match first {
            None => Ok(()),
            Some(failure) => Err(failure.with_code(NOT_ALL)),
        }
    })
}

/// Waits until everything is acknowledged.
#[unsafe(no_mangle)]
pub extern "C" fn suci_flush(node: Handle, timeout: i64) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        let limit = Limit::new(timeout).duration();
        let flushed = on_host!(node.host(), node => node.flush(limit));
        if matches!(flushed, Err(Error::Woken)) {
            node.entry().take_woken();
        }
        Ok(flushed?)
    })
}
