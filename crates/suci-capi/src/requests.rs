//! Requests and replies.

use crate::entry::on_host;
use crate::error::Failure;
use crate::guard::guard;
use crate::handle::Handle;
use crate::lent::Loan;
use crate::limit::Limit;
use crate::message::{self, RawMessage};
use crate::outgoing::{self, SendOptions};
use crate::pointer;
use crate::send;
use std::ffi::c_int;
use suci::{Bytes, ChannelId, Data, Error, Kind, Message, NodeId, SessionNumber};

/// Sends a request and waits for its reply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_call(
    node: Handle,
    to: u32,
    pieces: *const libc::iovec,
    count: usize,
    options: *const SendOptions,
    timeout: i64,
    reply: *mut RawMessage,
) -> c_int {
    guard(|| {
        pointer::output(reply, "reply")?;
        let (mut node, to) = (node.enter()?, NodeId(to));
        // SAFETY: as suci.h asks.
        let options = unsafe { SendOptions::of(options) }?;
        // SAFETY: as suci.h asks.
        let pieces = unsafe { outgoing::pieces(pieces, count) }?;
        if options.is_by_reference() {
            return Err(Failure::argument(
                "suci_call copies its request: leave SUCI_SEND_BY_REFERENCE out",
            ));
        }
        // SAFETY: as suci.h asks.
        let (request, _) = unsafe { options.draft_of(&node.entry().releases, pieces) }?;
        let limit = Limit::new(timeout).duration();
        let result = on_host!(node.host(), node => node.call(to, request, limit));
        if matches!(result, Err(Error::Woken)) {
            node.entry().take_woken();
        }
        // SAFETY: as suci.h asks.
        unsafe { message::give(result?, reply) };
        Ok(())
    })
}

/// Sends the reply to a request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_reply(
    node: Handle,
    request: *const RawMessage,
    pieces: *const libc::iovec,
    count: usize,
    options: *const SendOptions,
    timeout: i64,
) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        // SAFETY: as suci.h asks.
        let raw = unsafe { pointer::input(request, "request") }?;
        // SAFETY: as suci.h asks.
        let options = unsafe { SendOptions::of(options) }?;
        // SAFETY: as suci.h asks.
        let pieces = unsafe { outgoing::pieces(pieces, count) }?;
        // The reply needs only these fields. The program may have released the payload.
        let request = Message {
            from: NodeId(raw.from),
            session: SessionNumber(0),
            channel: ChannelId(raw.channel),
            number: 0,
            tag: raw.tag,
            kind: Kind(raw.kind),
            user_header: Bytes::new(),
            payload: Data::new(),
        };
        // SAFETY: as suci.h asks.
        let (draft, loan) = unsafe { options.draft_of(&node.entry().releases, pieces) }?;
        let reply = request.reply(draft)?;
        send::within(&mut node, request.from, reply, Limit::new(timeout))?;
        loan.into_iter().for_each(Loan::accept);
        Ok(())
    })
}
