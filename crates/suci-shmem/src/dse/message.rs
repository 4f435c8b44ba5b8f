//! The message module: brings messages of the process module to other nodes, on a channel of the
//! node.

use super::deliver;
use super::modules::MessageModule;
use crate::arguments::check;
use crate::fabric::node;
use crate::fatal;
use crate::runtime::runtime;
use std::ffi::{c_int, c_void};
use std::time::Duration;
use suci::{ChannelId, Message, OutgoingMessage};

/// The channel of the messages.
pub(crate) const CHANNEL: ChannelId = ChannelId(1);

/// The functions of this module.
pub(super) const DEFAULT: MessageModule = MessageModule {
    begin: Some(begin),
    send: Some(send),
};

/// The channel is there with the node.
extern "C" fn begin() {}

/// Sends a message. Waits while the queue to the node is full.
///
/// # Safety
/// `message` has `length` bytes.
unsafe extern "C" fn send(to: c_int, message: *const c_void, length: usize) {
    check(message, length, "message");
    let bytes: &[u8] = match length {
        0 => &[],
        // SAFETY: the caller's promise.
        length => unsafe { std::slice::from_raw_parts(message.cast(), length) },
    };
    let to = node(usize::try_from(to).unwrap_or(usize::MAX));
    let message = OutgoingMessage::new(bytes.to_vec()).channel(CHANNEL);
    if let Err(error) = runtime().node().send_timeout(to, message, Duration::MAX) {
        fatal!("{error}");
    }
}

/// Hands a message of another node over.
pub(crate) fn on_message(message: &Message) {
    let from = c_int::try_from(message.from.0).unwrap_or(-1);
    deliver(from, message.payload.as_ref());
}
