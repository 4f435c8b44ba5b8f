//! Receiving messages, and answering those that were announced.

use crate::entry::{Entry, Host, on_host};
use crate::error::Failure;
use crate::guard::guard;
use crate::handle::Handle;
use crate::lent::Loan;
use crate::limit::{self, Limit, Wanted};
use crate::message::{self, Batch, RawMessage};
use crate::pointer;
use std::ffi::{c_int, c_void};
use std::time::Duration;
use suci::{ChannelId, Error, Filter, Message, NodeId, ReceiveBuffer};

/// The next message.
struct One;

impl Wanted for One {
    type Item = Message;
    const HEARS_RELEASES: bool = false;

    #[inline]
    fn kept(&mut self, entry: &Entry) -> Option<Message> {
        entry.take_kept(None)
    }

    fn look(&mut self, host: Host<'_>) -> Result<Option<Message>, Error> {
        on_host!(host, node => node.try_recv())
    }

    #[inline]
    fn wait(&mut self, host: Host<'_>, _: &Entry, limit: Limit) -> Result<Option<Message>, Error> {
        match (limit, host) {
            (Limit::Never, host) => on_host!(host, node => node.recv()).map(Some),
            (limit, host) => on_host!(host, node => node.recv_timeout(limit.duration())),
        }
    }
}

/// Takes the next message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_recv(node: Handle, message: *mut RawMessage, timeout: i64) -> c_int {
    guard(|| {
        pointer::output(message, "message")?;
        let mut node = node.enter()?;
        let taken = limit::take(&mut node, timeout, &mut One)?;
        // SAFETY: as suci.h asks.
        unsafe { message::give(taken, message) };
        Ok(())
    })
}

/// All messages that are there, at most `most`, into a list.
struct Many<'a> {
    messages: &'a mut Vec<Message>,
    most: usize,
}

impl Many<'_> {
    fn take(&mut self, host: Host<'_>, limit: Duration) -> Result<Option<()>, Error> {
        let (messages, most) = (&mut *self.messages, self.most);
        let taken = on_host!(host, node => node.recv_many(messages, most, limit))?;
        Ok((taken > 0).then_some(()))
    }
}

impl Wanted for Many<'_> {
    type Item = ();
    const HEARS_RELEASES: bool = false;

    fn kept(&mut self, entry: &Entry) -> Option<()> {
        self.messages.push(entry.take_kept(None)?);
        Some(())
    }

    fn look(&mut self, host: Host<'_>) -> Result<Option<()>, Error> {
        self.take(host, Duration::ZERO)
    }

    fn wait(&mut self, host: Host<'_>, _: &Entry, limit: Limit) -> Result<Option<()>, Error> {
        self.take(host, limit.duration())
    }
}

/// Takes many messages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_recv_many(
    node: Handle,
    messages: *mut RawMessage,
    capacity: usize,
    count: *mut usize,
    timeout: i64,
) -> c_int {
    guard(|| {
        pointer::output(messages, "messages")?;
        pointer::output(count, "count")?;
        pointer::check_length::<RawMessage>(capacity, "messages")?;
        if capacity == 0 {
            return Err(Failure::argument("capacity is 0: give room for a message"));
        }
        let mut node = node.enter()?;
        let mut batch = Batch::take();
        let wanted = &mut Many {
            messages: &mut batch.messages,
            most: capacity,
        };
        if let Err(failure) = limit::take(&mut node, timeout, wanted) {
            batch.put_back();
            return Err(failure);
        }
        // SAFETY: as suci.h asks; the list has at most `capacity` messages.
        unsafe {
            pointer::put(count, batch.messages.len());
            batch.give(messages);
        }
        Ok(())
    })
}

/// `suci_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawFilter {
    pub(crate) flags: u32,
    pub(crate) node: u32,
    pub(crate) channel: u32,
    pub(crate) reserved: u32,
}

impl RawFilter {
    fn filter(self) -> Result<Filter, Failure> {
        let (node, channel) = (NodeId(self.node), ChannelId(self.channel));
        match (self.flags, self.reserved) {
            (1, 0) => Ok(node.into()),
            (2, 0) => Ok(channel.into()),
            (3, 0) => Ok((node, channel).into()),
            _ => {
                let text = "flags of suci_filter must be SUCI_FROM_NODE, SUCI_ON_CHANNEL or both, and reserved 0";
                Err(Failure::argument(text))
            }
        }
    }
}

/// The next message that a filter admits.
struct Admitted(Filter);

impl Wanted for Admitted {
    type Item = Message;
    const HEARS_RELEASES: bool = false;

    fn kept(&mut self, entry: &Entry) -> Option<Message> {
        entry.take_kept(Some(self.0))
    }

    fn look(&mut self, host: Host<'_>) -> Result<Option<Message>, Error> {
        on_host!(host, node => node.try_recv_from(self.0))
    }

    fn wait(&mut self, host: Host<'_>, _: &Entry, limit: Limit) -> Result<Option<Message>, Error> {
        match limit {
            Limit::Never => on_host!(host, node => node.recv_from(self.0)).map(Some),
            limit => on_host!(host, node => node.recv_from_timeout(self.0, limit.duration())),
        }
    }
}

/// Takes the next message that a filter admits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_recv_from(
    node: Handle,
    filter: *const RawFilter,
    message: *mut RawMessage,
    timeout: i64,
) -> c_int {
    guard(|| {
        pointer::output(message, "message")?;
        // SAFETY: as suci.h asks.
        let filter = unsafe { pointer::input(filter, "filter") }?.filter()?;
        let mut node = node.enter()?;
        let taken = limit::take(&mut node, timeout, &mut Admitted(filter))?;
        // SAFETY: as suci.h asks.
        unsafe { message::give(taken, message) };
        Ok(())
    })
}

/// The next message, copied into a buffer, and its length. A caller-driven node only.
struct Copied<'a>(&'a mut [u8]);

impl Copied<'_> {
    fn receive(&mut self, host: Host<'_>, limit: Limit) -> Result<Option<(usize, Message)>, Error> {
        match host {
            Host::Alone(node) => node.recv_into(self.0, limit.duration()),
            Host::Shared(_) => Ok(None),
        }
    }
}

impl Wanted for Copied<'_> {
    type Item = (usize, Message);
    const HEARS_RELEASES: bool = false;

    fn kept(&mut self, _: &Entry) -> Option<Self::Item> {
        None
    }

    fn look(&mut self, host: Host<'_>) -> Result<Option<Self::Item>, Error> {
        self.receive(host, Limit::Now)
    }

    fn wait(
        &mut self,
        host: Host<'_>,
        _: &Entry,
        limit: Limit,
    ) -> Result<Option<Self::Item>, Error> {
        self.receive(host, limit)
    }
}

/// Copies a message into a buffer, or has it kept.
fn copy(entry: &Entry, message: Message, buffer: &mut [u8]) -> Result<(usize, Message), Failure> {
    let (length, room) = (message.payload.len(), buffer.len());
    let Some(target) = buffer.get_mut(..length) else {
        entry.keep(message);
        let [length, buffer] = [length, room].map(|bytes| bytes as u64);
        return Err(Error::BufferTooShort { length, buffer }.into());
    };
    target.copy_from_slice(&message.payload);
    Ok((length, message))
}

/// Copies the next message into a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_recv_copy(
    node: Handle,
    buffer: *mut c_void,
    capacity: usize,
    message: *mut RawMessage,
    timeout: i64,
) -> c_int {
    guard(|| {
        pointer::output(message, "message")?;
        // SAFETY: as suci.h asks.
        let target = unsafe { pointer::bytes_mut(buffer, capacity, "buffer") }?;
        let mut node = node.enter()?;
        let (length, taken) = if node.entry().is_shared() {
            let taken = limit::take(&mut node, timeout, &mut One)?;
            copy(node.entry(), taken, target)?
        } else {
            limit::take(&mut node, timeout, &mut Copied(target))?
        };
        // SAFETY: as suci.h asks.
        unsafe {
            message::give(taken, message);
            (*message).set_payload(buffer, length);
        }
        Ok(())
    })
}

/// Accepts an announced message.
#[unsafe(no_mangle)]
pub extern "C" fn suci_accept(node: Handle, from: u32, channel: u32, number: u64) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        let (from, channel) = (NodeId(from), ChannelId(channel));
        on_host!(node.host(), node => node.accept(from, channel, number))
            .map_err(|error| Failure::from(error).about(from, channel, number))
    })
}

/// Accepts an announced message into memory of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_accept_into(
    node: Handle,
    from: u32,
    channel: u32,
    number: u64,
    buffer: *mut c_void,
    capacity: usize,
    cookie: u64,
) -> c_int {
    guard(|| {
        pointer::output(buffer, "buffer")?;
        pointer::check_length::<u8>(capacity, "buffer")?;
        let mut node = node.enter()?;
        let (from, channel) = (NodeId(from), ChannelId(channel));
        let loan = Loan::new(&node.entry().releases, cookie);
        // SAFETY: as suci.h asks: the memory is the library's alone if the call succeeds.
        let memory = ReceiveBuffer::from_owner(unsafe { loan.lend(buffer.cast(), capacity) });
        on_host!(node.host(), node => node.accept_into(from, channel, number, memory))
            .map_err(|error| Failure::from(error).about(from, channel, number))?;
        loan.accept();
        Ok(())
    })
}

/// Refuses an announced message.
#[unsafe(no_mangle)]
pub extern "C" fn suci_refuse(
    node: Handle,
    from: u32,
    channel: u32,
    number: u64,
    reason: u64,
) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        let (from, channel) = (NodeId(from), ChannelId(channel));
        on_host!(node.host(), node => node.refuse(from, channel, number, reason))
            .map_err(|error| Failure::from(error).about(from, channel, number))
    })
}
