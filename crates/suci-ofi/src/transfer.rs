//! Sends and receives.

use crate::abi::{
    ADDR_UNSPEC, CLAIM, COMPLETION, DELIVERY_COMPLETE, DIRECTED_RECV, DISCARD, FiAddr, INJECT,
    INJECT_COMPLETE, MORE, MSG, MULTI_RECV, PEEK, RECV, REMOTE_CQ_DATA, SEND, TAGGED,
    TRANSMIT_COMPLETE,
};
use crate::code::{Code, Outcome};
use crate::domain::Core;
use crate::endpoint::Endpoint;
use crate::info::{INJECT_SIZE, IOV_LIMIT, MAX_MESSAGE};
use crate::queue::Done;
use core::ffi::c_void;
use std::ptr::NonNull;
use std::sync::mpsc;
use std::time::Duration;
use suci::matching::{MatchingError, Pattern, Peeked, RawPart};
use suci::{Bytes, NodeId, OutgoingMessage};

/// Sends of up to this many bytes are copied, and complete at once. Longer ones are read from the
/// program's memory, and complete when the receiver's library has them.
const COPIED: usize = 64 << 10;

/// The channels of matching of the two kinds of messages.
const MSG_CHANNEL: u32 = 0;
const TAGGED_CHANNEL: u32 = 1;

/// A receive that is open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive {
    pub(crate) context: usize,
    /// The address of its buffer.
    pub(crate) buffer: usize,
    /// Those of its completion.
    pub(crate) flags: u64,
    pub(crate) tag: u64,
    /// The node whose messages alone it admits.
    pub(crate) from: Option<NodeId>,
    pub(crate) is_reported: bool,
    pub(crate) takes_several: bool,
}

/// A send that is not complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Send {
    pub(crate) context: usize,
    pub(crate) flags: u64,
    pub(crate) is_reported: bool,
    /// The node does not need the program's memory any more.
    pub(crate) is_released: bool,
    /// The receiver has the message, or it never will.
    pub(crate) is_settled: bool,
    pub(crate) failure: Option<Code>,
}

/// A message to be sent.
pub(crate) struct Outgoing<'a> {
    pub(crate) parts: &'a [RawPart],
    pub(crate) to: FiAddr,
    /// None for an untagged one.
    pub(crate) tag: Option<u64>,
    pub(crate) data: Option<u64>,
    /// `FI_INJECT` and others.
    pub(crate) flags: u64,
    pub(crate) context: usize,
    /// The form without a completion.
    pub(crate) is_silent: bool,
}

/// A receive to be posted.
pub(crate) struct Incoming<'a> {
    pub(crate) parts: &'a [RawPart],
    pub(crate) from: FiAddr,
    /// The tag, and its bits that do not count; none for untagged messages.
    pub(crate) tag: Option<(u64, u64)>,
    pub(crate) flags: u64,
    pub(crate) context: usize,
}

/// The program's memory of a send, until the node has dropped it.
struct Borrowed {
    first: NonNull<u8>,
    length: usize,
    token: u64,
    releases: mpsc::Sender<u64>,
}

// SAFETY: the program leaves the memory as it is until the send is complete, so that any thread may
// read it.
unsafe impl std::marker::Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the program keeps the memory, which has as many bytes, until the send is
        // complete: that comes after this value was dropped, or after the node was closed.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.length) }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // The domain may be gone: then nobody waits for it.
        _ = self.releases.send(self.token);
    }
}

/// Checks the parts of a buffer that C names, and calls `work` with them.
///
/// # Safety
/// `iov` is null or has `count` elements.
pub(crate) unsafe fn with_parts<T>(
    iov: *const libc::iovec,
    count: usize,
    work: impl FnOnce(&[RawPart]) -> Outcome<T>,
) -> Outcome<T> {
    if count > IOV_LIMIT || (iov.is_null() && count > 0) {
        return Err(Code::INVAL);
    }
    let mut parts = [(NonNull::<u8>::dangling(), 0_usize); IOV_LIMIT];
    let parts = parts.get_mut(..count).unwrap_or_default();
    for (at, part) in parts.iter_mut().enumerate() {
        // SAFETY: there are as many, as the caller promises.
        let given = unsafe { &*iov.add(at) };
        *part = checked_part(given.iov_base, given.iov_len)?;
    }
    work(parts)
}

/// Checks a buffer that C names.
pub(crate) fn checked_part(first: *mut c_void, length: usize) -> Outcome<RawPart> {
    match NonNull::new(first.cast::<u8>()) {
        // No memory has more bytes.
        Some(first) if isize::try_from(length).is_ok() => Ok((first, length)),
        None if length == 0 => Ok((NonNull::dangling(), 0)),
        _ => Err(Code::INVAL),
    }
}

/// The completion data in the header of a message.
pub(crate) fn cq_data(header: &[u8]) -> Option<u64> {
    header.try_into().ok().map(u64::from_le_bytes)
}

fn channel(tagged: bool) -> (u32, u64) {
    match tagged {
        true => (TAGGED_CHANNEL, TAGGED),
        false => (MSG_CHANNEL, MSG),
    }
}

fn total(parts: &[RawPart]) -> Outcome<usize> {
    let add = |sum: usize, part: &RawPart| sum.checked_add(part.1);
    let total = parts.iter().try_fold(0, add).ok_or(Code::MSGSIZE)?;
    match total <= MAX_MESSAGE {
        true => Ok(total),
        false => Err(Code::MSGSIZE),
    }
}

/// Copies the parts of a buffer.
///
/// # Safety
/// Each part is readable.
unsafe fn copied(parts: &[RawPart], total: usize) -> Bytes {
    let mut bytes = Vec::with_capacity(total);
    for (first, length) in parts {
        // SAFETY: as the caller promises.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(first.as_ptr(), *length) });
    }
    bytes.into()
}

impl Core {
    // ---- sending

    /// Sends a message.
    ///
    /// # Safety
    /// The parts are readable, and stay so unchanged until the operation is complete; those of
    /// `FI_INJECT` and of silent messages during this call.
    pub(crate) unsafe fn send(&mut self, message: &Outgoing<'_>) -> Outcome<usize> {
        let known = INJECT | INJECT_COMPLETE | TRANSMIT_COMPLETE | DELIVERY_COMPLETE | COMPLETION;
        if message.flags & !(known | MORE | REMOTE_CQ_DATA) != 0 {
            return Err(Code::BADFLAGS);
        }
        let length = total(message.parts)?;
        let is_injected = message.is_silent || message.flags & INJECT != 0;
        if is_injected && length > INJECT_SIZE {
            return Err(Code::MSGSIZE);
        }
        let (channel, kind) = channel(message.tag.is_some());
        let endpoint = self.enabled()?;
        endpoint.check(kind | SEND)?;
        let is_reported = !message.is_silent && endpoint.reports_send(message.flags);
        let to = self.peer(message.to)?;
        let waits = message.flags & DELIVERY_COMPLETE != 0 && !message.is_silent;
        let is_borrowed = !is_injected && length > COPIED;
        // A message that is not accepted is dropped, which releases its token: each has its own.
        let token = self.next_token;
        self.next_token = token.wrapping_add(1);
        let payload = match message.parts {
            [(first, _)] if is_borrowed => Bytes::from_owner(Borrowed {
                first: *first,
                length,
                token,
                releases: self.releases.clone(),
            }),
            // SAFETY: as the caller promises.
            parts => unsafe { copied(parts, length) },
        };
        let is_copied = !is_borrowed || message.parts.len() != 1;
        let mut outgoing = OutgoingMessage::new(payload)
            .matched(channel)
            .tag(message.tag.unwrap_or(0));
        if let Some(data) = message.data {
            outgoing = outgoing.user_header(data.to_le_bytes().to_vec());
        }
        let is_pending = waits || !is_copied;
        if is_pending {
            outgoing = outgoing.notify(token);
        }
        self.node()?.send(to, outgoing)?;
        let send = Send {
            context: message.context,
            flags: kind | SEND,
            is_reported,
            is_released: is_copied,
            is_settled: false,
            failure: None,
        };
        match is_pending {
            true => _ = self.sends.insert(token, send),
            false => self.end_send(&send),
        }
        Ok(0)
    }

    /// The node at an address of the endpoint's vector, unless it is gone.
    fn peer(&mut self, address: FiAddr) -> Outcome<NodeId> {
        let vector = self.enabled()?.vector.ok_or(Code::NOAV)?;
        let vector = self.vectors.get(vector).ok_or(Code::NOAV)?;
        let node = vector.get(address)?.node;
        match self.gone.contains(&node) {
            true => Err(Code::HOSTUNREACH),
            false => Ok(node),
        }
    }

    // ---- receiving

    /// Posts a receive, or looks for a message.
    ///
    /// # Safety
    /// The parts are writable, and nobody uses them, until the receive is complete or cancelled.
    pub(crate) unsafe fn receive(&mut self, wanted: &Incoming<'_>) -> Outcome<usize> {
        let known = PEEK | CLAIM | DISCARD | COMPLETION | MULTI_RECV | MORE;
        if wanted.flags & !known != 0 {
            return Err(Code::BADFLAGS);
        }
        let (_, kind) = channel(wanted.tag.is_some());
        self.enabled()?.check(kind | RECV)?;
        if wanted.flags & PEEK != 0 {
            return self.peek(wanted);
        }
        if wanted.flags & CLAIM != 0 {
            // SAFETY: as the caller promises.
            return unsafe { self.receive_claimed(wanted) };
        }
        if wanted.flags & DISCARD != 0 {
            return Err(Code::BADFLAGS);
        }
        let (pattern, from) = self.pattern(wanted)?;
        let endpoint = self.enabled()?;
        let takes_several = wanted.flags & MULTI_RECV != 0;
        if takes_several && wanted.tag.is_some() {
            return Err(Code::BADFLAGS);
        }
        let room = total(wanted.parts)? as u64;
        // A buffer that is shorter than the least room takes one message.
        let least = takes_several.then(|| endpoint.least.clamp(1, room.max(1)));
        let is_reported = endpoint.reports_receive(wanted.flags);
        let node = self.node()?;
        // SAFETY: as the caller promises.
        let posted = unsafe { node.matching().post_raw(pattern, wanted.parts, least) };
        let receive = self.opened(wanted, from, is_reported, takes_several);
        self.receives.insert(posted.map_err(matching)?, receive);
        Ok(0)
    }

    fn opened(
        &self,
        wanted: &Incoming<'_>,
        from: Option<NodeId>,
        is_reported: bool,
        takes_several: bool,
    ) -> Receive {
        let first = wanted.parts.first().filter(|(_, length)| *length > 0);
        Receive {
            context: wanted.context,
            buffer: first.map_or(0, |(first, _)| first.as_ptr() as usize),
            flags: channel(wanted.tag.is_some()).1 | RECV,
            tag: wanted.tag.map_or(0, |(tag, _)| tag),
            from,
            is_reported,
            takes_several,
        }
    }

    /// The messages that a receive admits, and the node that alone it admits.
    fn pattern(&mut self, wanted: &Incoming<'_>) -> Outcome<(Pattern, Option<NodeId>)> {
        let (number, _) = channel(wanted.tag.is_some());
        let pattern = match wanted.tag {
            Some((tag, ignore)) => Pattern::tag(tag & !ignore).ignoring(ignore),
            None => Pattern::any(),
        };
        let pattern = pattern.on(number);
        let is_directed = self.enabled()?.caps & DIRECTED_RECV != 0;
        match is_directed && wanted.from != ADDR_UNSPEC {
            true => {
                let from = self.peer(wanted.from)?;
                Ok((pattern.from(from), Some(from)))
            }
            false => Ok((pattern, None)),
        }
    }

    /// Looks for a message, and reports it, or that there is none.
    fn peek(&mut self, wanted: &Incoming<'_>) -> Outcome<usize> {
        let (pattern, _) = self.pattern(wanted)?;
        let keeps = wanted.flags & (CLAIM | DISCARD) != 0;
        if wanted.flags & CLAIM != 0 && wanted.context == 0 {
            return Err(Code::INVAL);
        }
        let node = self.node()?;
        let found = match keeps {
            true => node.matching().claim(&pattern, Duration::ZERO),
            false => node.matching().peek(&pattern, Duration::ZERO),
        }?;
        let receive = self.opened(wanted, None, true, false);
        let mut done = Done {
            context: receive.context,
            flags: receive.flags,
            length: 0,
            buffer: 0,
            data: 0,
            tag: receive.tag,
            source: ADDR_UNSPEC,
            failure: Some((Code::NOMSG, 0)),
        };
        if let Some(found) = found {
            self.describe(&found, &mut done);
            if wanted.flags & DISCARD != 0 {
                self.node()?
                    .matching()
                    .discard(found.message)
                    .map_err(matching)?;
            } else if wanted.flags & CLAIM != 0 {
                let claimed = &mut self.enabled()?.claimed;
                claimed.insert(wanted.context, found.message);
            }
        }
        self.report(done);
        Ok(0)
    }

    fn describe(&self, found: &Peeked, done: &mut Done) {
        done.failure = None;
        done.length = usize::try_from(found.total).unwrap_or(usize::MAX);
        done.tag = found.tag;
        done.source = self.address_of(found.from.node);
        if let Some(data) = cq_data(&found.user_header) {
            done.data = data;
            done.flags |= REMOTE_CQ_DATA;
        }
    }

    /// Puts a completion into the queue of receives, without counting it.
    fn report(&mut self, done: Done) {
        let binding = self.endpoint.as_ref().and_then(|it| it.receiving);
        let queue = binding.and_then(|binding| self.queues.get_mut(binding.queue));
        if let Some(queue) = queue {
            queue.push(done);
        }
    }

    /// Receives or discards the message that was claimed under this context.
    ///
    /// # Safety
    /// As for [`receive`](Self::receive).
    unsafe fn receive_claimed(&mut self, wanted: &Incoming<'_>) -> Outcome<usize> {
        let endpoint = self.enabled()?;
        let claimed = endpoint.claimed.remove(&wanted.context);
        let claimed = claimed.ok_or(Code::INVAL)?;
        let is_reported = endpoint.reports_receive(wanted.flags);
        let node = self.node()?;
        if wanted.flags & DISCARD != 0 {
            node.matching().discard(claimed).map_err(matching)?;
            let receive = self.opened(wanted, None, is_reported, false);
            self.complete(
                RECV,
                is_reported,
                Done {
                    context: receive.context,
                    flags: receive.flags,
                    length: 0,
                    buffer: 0,
                    data: 0,
                    tag: receive.tag,
                    source: ADDR_UNSPEC,
                    failure: None,
                },
            );
            return Ok(0);
        }
        // SAFETY: as the caller promises.
        let posted = unsafe { node.matching().receive_claimed_raw(claimed, wanted.parts) };
        let receive = self.opened(wanted, None, is_reported, false);
        self.receives.insert(posted.map_err(matching)?, receive);
        Ok(0)
    }

    /// Withdraws the receive with this context.
    pub(crate) fn cancel(&mut self, context: usize) -> Outcome<usize> {
        let mut open = self.receives.iter();
        let found = open.find(|(_, receive)| receive.context == context);
        let id = *found.ok_or(Code::NOENT)?.0;
        // Otherwise its message is on the way to it, and its completion follows.
        if self.node()?.matching().cancel(id)? {
            self.fail_receive(id, Code::CANCELED);
        }
        Ok(0)
    }

    /// Ends what the endpoint has begun, so that the program's memory is its own again.
    pub(crate) fn end_operations(&mut self, patience: Duration) {
        let deadline = crate::progress::Deadline::after(patience);
        let open: Vec<_> = self.receives.keys().copied().collect();
        for id in open {
            let cancelled = self.node().and_then(|node| Ok(node.matching().cancel(id)?));
            if cancelled == Ok(true) {
                self.receives.remove(&id);
            }
        }
        while !(self.receives.is_empty() && self.sends.values().all(|send| send.is_released)) {
            self.progress();
            if deadline.is_over() || self.sleep(&deadline).is_err() {
                self.abandon_node();
            }
        }
        self.sends.clear();
        self.discard_unexpected();
    }

    /// Discards messages that no receive took, so that the next endpoint does not get them.
    fn discard_unexpected(&mut self) {
        for number in [MSG_CHANNEL, TAGGED_CHANNEL] {
            let pattern = Pattern::any().on(number);
            while let Ok(Some(found)) = self
                .node()
                .and_then(|node| Ok(node.matching().claim(&pattern, Duration::ZERO)?))
            {
                let discarded = self
                    .node()
                    .map(|node| node.matching().discard(found.message));
                if !matches!(discarded, Ok(Ok(()))) {
                    return;
                }
            }
        }
    }
}

impl Endpoint {
    /// Fails if the endpoint was opened without one of these capabilities.
    fn check(&self, caps: u64) -> Outcome<()> {
        match self.caps & caps == caps {
            true => Ok(()),
            false => Err(Code::OPNOTSUPP),
        }
    }
}

fn matching(error: MatchingError) -> Code {
    match error {
        MatchingError::Node(error) => error.into(),
        MatchingError::NoSuchMessage(_) => Code::NOMSG,
        _ => Code::INVAL,
    }
}
