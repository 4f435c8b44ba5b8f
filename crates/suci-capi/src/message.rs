//! Received messages in the hands of C.
//!
//! A message stays in a batch, which all messages of one call share, until C releases it. So a call
//! allocates once for all its messages; batches of the thread are used again.

use crate::guard::contain;
use crate::pointer;
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use suci::Message;

/// `suci_message`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawMessage {
    pub(crate) payload: *const c_void,
    pub(crate) length: usize,
    pub(crate) user_header: *const c_void,
    pub(crate) tag: u64,
    pub(crate) number: u64,
    pub(crate) from: u32,
    pub(crate) session: u32,
    pub(crate) channel: u32,
    pub(crate) kind: u8,
    pub(crate) user_header_length: u8,
    pub(crate) is_request: u8,
    pub(crate) reserved: u8,
    /// The batch and the index in it; 0 is none.
    pub(crate) opaque: [u64; 2],
}

impl RawMessage {
    const RELEASED: Self = Self {
        payload: ptr::null(),
        length: 0,
        user_header: ptr::null(),
        tag: 0,
        number: 0,
        from: 0,
        session: 0,
        channel: 0,
        kind: 0,
        user_header_length: 0,
        is_request: 0,
        reserved: 0,
        opaque: [0; 2],
    };

    fn new(message: &Message, batch: *mut Batch, index: usize) -> Self {
        Self {
            payload: message.payload.as_ptr().cast(),
            length: message.payload.len(),
            user_header: message.user_header.as_ptr().cast(),
            tag: message.tag,
            number: message.number,
            from: message.from.0,
            session: message.session.0,
            channel: message.channel.0,
            kind: message.kind.0,
            // At most 255.
            user_header_length: message.user_header.len() as u8,
            is_request: message.is_request().into(),
            reserved: 0,
            opaque: [batch as u64, index as u64],
        }
    }

    /// Lets the payload be in memory of C, where it was copied.
    pub(crate) fn set_payload(&mut self, payload: *const c_void, length: usize) {
        (self.payload, self.length) = (payload, length);
    }
}

/// Messages that C has, and how many of them it has not released.
#[derive(Default)]
pub(crate) struct Batch {
    left: AtomicUsize,
    pub(crate) messages: Vec<Message>,
}

/// Batches that a thread keeps for its next calls, and the most messages of one of them.
const SPARE: usize = 16;
const LONGEST: usize = 256;

thread_local! {
    #[expect(clippy::vec_box, reason = "C has the address of a batch")]
    static SPARES: RefCell<Vec<Box<Batch>>> = const { RefCell::new(Vec::new()) };
}

impl Batch {
    /// Returns an empty batch.
    #[inline]
    pub(crate) fn take() -> Box<Self> {
        let spare = SPARES.try_with(|spares| spares.try_borrow_mut().ok()?.pop());
        spare.ok().flatten().unwrap_or_default()
    }

    /// Keeps an empty batch for the thread's next call.
    #[inline]
    pub(crate) fn put_back(self: Box<Self>) {
        if self.messages.capacity() > LONGEST {
            return;
        }
        let _ = SPARES.try_with(move |spares| {
            if let Ok(mut spares) = spares.try_borrow_mut()
                && spares.len() < SPARE
            {
                spares.push(self);
            }
        });
    }

    /// Hands all messages to C, which has to release each. There is at least one.
    ///
    /// # Safety
    /// There is room for as many at `raw`.
    #[inline]
    pub(crate) unsafe fn give(mut self: Box<Self>, raw: *mut RawMessage) {
        *self.left.get_mut() = self.messages.len();
        let batch = Box::into_raw(self);
        // SAFETY: the batch was just given up by its box, and lives until its last message is
        // released, which cannot be before this returns.
        let messages = unsafe { &(*batch).messages };
        for (index, message) in messages.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { raw.add(index).write(RawMessage::new(message, batch, index)) };
        }
    }
}

/// Hands one message to C.
///
/// # Safety
/// A value may be written to `raw`.
#[inline]
pub(crate) unsafe fn give(message: Message, raw: *mut RawMessage) {
    let mut batch = Batch::take();
    batch.messages.push(message);
    // SAFETY: the caller's promise.
    unsafe { batch.give(raw) };
}

/// Drops a message where it is. Returns its batch; null, if it was released before.
#[inline]
fn drop_message(raw: &mut RawMessage) -> *mut Batch {
    let [batch, index] = raw.opaque;
    *raw = RawMessage::RELEASED;
    let batch = batch as *mut Batch;
    if !batch.is_null() {
        // SAFETY: the struct came from `Batch::give` and was not released before, as suci.h asks:
        // the batch lives, and so does the message at this index. The vector does not change.
        unsafe { ptr::drop_in_place((*batch).messages.as_ptr().add(index as usize).cast_mut()) };
    }
    batch
}

/// Takes note that `count` messages of a batch were dropped.
///
/// # Safety
/// They were, and not counted before.
#[inline]
unsafe fn count_dropped(batch: *mut Batch, count: usize) {
    // SAFETY: the batch lives until its last message was counted. A thread that finds as many left
    // as it dropped is the only one that has any.
    unsafe {
        let left = &(*batch).left;
        if left.load(Ordering::Acquire) != count
            && left.fetch_sub(count, Ordering::Release) != count
        {
            return;
        }
    }
    fence(Ordering::Acquire);
    // SAFETY: all messages are dropped: nobody else has the batch.
    let mut batch = unsafe { Box::from_raw(batch) };
    // SAFETY: the messages were dropped where they are.
    unsafe { batch.messages.set_len(0) };
    batch.put_back();
}

/// Releases a message; nothing, if it is released.
#[inline]
pub(crate) fn release(raw: &mut RawMessage) {
    let batch = drop_message(raw);
    if !batch.is_null() {
        // SAFETY: the message was just dropped.
        unsafe { count_dropped(batch, 1) };
    }
}

/// Releases a message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_message_release(message: *mut RawMessage) {
    contain(|| {
        // SAFETY: as suci.h asks.
        if let Some(message) = unsafe { message.as_mut() } {
            release(message);
        }
    });
}

/// Releases many messages. Those of one batch that follow each other are counted together.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_message_release_many(messages: *mut RawMessage, count: usize) {
    contain(|| {
        if messages.is_null() || pointer::check_length::<RawMessage>(count, "messages").is_err() {
            return;
        }
        let (mut batch, mut dropped) = (ptr::null_mut(), 0);
        for index in 0..count {
            // SAFETY: as suci.h asks: there are `count` messages.
            let next = drop_message(unsafe { &mut *messages.add(index) });
            if next == batch {
                dropped += 1;
                continue;
            }
            if !batch.is_null() {
                // SAFETY: they were just dropped.
                unsafe { count_dropped(batch, dropped) };
            }
            (batch, dropped) = (next, 1);
        }
        if !batch.is_null() {
            // SAFETY: they were just dropped.
            unsafe { count_dropped(batch, dropped) };
        }
    });
}
