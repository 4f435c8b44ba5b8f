//! The functions in C of sends and receives.

use crate::abi::{
    COMPLETION, FiAddr, FidEp, INJECT, Msg, MsgTagged, OpsMsg, OpsTagged, REMOTE_CQ_DATA,
};
use crate::code::{Code, Outcome, count};
use crate::handle;
use crate::transfer::{Incoming, Outgoing, checked_part, with_parts};
use core::ffi::c_void;
use suci::matching::RawPart;

pub(crate) static MSG_OPS: OpsMsg = OpsMsg {
    size: size_of::<OpsMsg>(),
    recv,
    recvv,
    recvmsg,
    send,
    sendv,
    sendmsg,
    inject,
    senddata,
    injectdata,
};

pub(crate) static TAGGED_OPS: OpsTagged = OpsTagged {
    size: size_of::<OpsTagged>(),
    recv: trecv,
    recvv: trecvv,
    recvmsg: trecvmsg,
    send: tsend,
    sendv: tsendv,
    sendmsg: tsendmsg,
    inject: tinject,
    senddata: tsenddata,
    injectdata: tinjectdata,
};

/// The memory of an operation, as C names it.
#[derive(Clone, Copy)]
enum Memory {
    One(*mut c_void, usize),
    Several(*const libc::iovec, usize),
}

impl Memory {
    const fn of(buffer: *const c_void, length: usize) -> Self {
        Self::One(buffer.cast_mut(), length)
    }

    /// Calls `work` with the parts, if they can be memory.
    ///
    /// # Safety
    /// A list has as many elements as it says, or is null.
    unsafe fn with<T>(self, work: impl FnOnce(&[RawPart]) -> Outcome<T>) -> Outcome<T> {
        match self {
            Self::One(first, length) => work(&[checked_part(first, length)?]),
            // SAFETY: as the caller promises.
            Self::Several(iov, count) => unsafe { with_parts(iov, count, work) },
        }
    }
}

/// The completion that a send asks for.
#[derive(Clone, Copy)]
enum Report {
    /// That of the endpoint's own flags.
    Usual,
    /// None, and the memory is the program's again when the call returns.
    Silent,
    /// That of these flags.
    Flags(u64),
}

/// Sends.
///
/// # Safety
/// C passes an object of this provider, or null, and memory as libfabric asks of it.
unsafe fn begin_send(
    ep: *const FidEp,
    memory: Memory,
    (to, tag): (FiAddr, Option<u64>),
    data: Option<u64>,
    report: Report,
    context: *mut c_void,
) -> isize {
    // SAFETY: as the caller promises.
    let sent = unsafe { handle::place(ep) }.and_then(|domain| {
        let send = |parts: &[RawPart]| {
            domain.enter(|core| {
                let flags = match report {
                    Report::Usual => core.enabled()?.send_flags,
                    Report::Silent => INJECT,
                    Report::Flags(flags) => flags,
                };
                let message = Outgoing {
                    parts,
                    to,
                    tag,
                    data,
                    flags,
                    context: context as usize,
                    is_silent: matches!(report, Report::Silent),
                };
                // SAFETY: as the caller promises.
                unsafe { core.send(&message) }
            })
        };
        // SAFETY: as the caller promises.
        unsafe { memory.with(send) }
    });
    count(sent)
}

/// Receives.
///
/// # Safety
/// As for [`begin_send`].
unsafe fn begin_receive(
    ep: *const FidEp,
    memory: Memory,
    from: FiAddr,
    tag: Option<(u64, u64)>,
    flags: Option<u64>,
    context: *mut c_void,
) -> isize {
    // SAFETY: as the caller promises.
    let received = unsafe { handle::place(ep) }.and_then(|domain| {
        let receive = |parts: &[RawPart]| {
            domain.enter(|core| {
                let own = core.enabled()?.receive_flags;
                // Tagged receives take one message.
                let own = if tag.is_some() { own & COMPLETION } else { own };
                let wanted = Incoming {
                    parts,
                    from,
                    tag,
                    flags: flags.unwrap_or(own),
                    context: context as usize,
                };
                // SAFETY: as the caller promises.
                unsafe { core.receive(&wanted) }
            })
        };
        // SAFETY: as the caller promises.
        unsafe { memory.with(receive) }
    });
    count(received)
}

/// The data of a message that has some.
const fn data_of(flags: u64, data: u64) -> Option<u64> {
    match flags & REMOTE_CQ_DATA != 0 {
        true => Some(data),
        false => None,
    }
}

unsafe extern "C" fn recv(
    ep: *const FidEp,
    buffer: *mut c_void,
    length: usize,
    _: *mut c_void,
    from: FiAddr,
    context: *mut c_void,
) -> isize {
    let memory = Memory::of(buffer, length);
    // SAFETY: as libfabric asks of the program.
    unsafe { begin_receive(ep, memory, from, None, None, context) }
}

unsafe extern "C" fn recvv(
    ep: *const FidEp,
    iov: *const libc::iovec,
    _: *mut *mut c_void,
    count: usize,
    from: FiAddr,
    context: *mut c_void,
) -> isize {
    let memory = Memory::Several(iov, count);
    // SAFETY: as libfabric asks of the program.
    unsafe { begin_receive(ep, memory, from, None, None, context) }
}

unsafe extern "C" fn recvmsg(ep: *const FidEp, message: *const Msg, flags: u64) -> isize {
    // SAFETY: C passes a message, or null.
    let Some(message) = (unsafe { message.as_ref() }) else {
        return count(Err(Code::INVAL));
    };
    let memory = Memory::Several(message.iov, message.iov_count);
    let (from, context) = (message.addr, message.context);
    let tag = None;
    // SAFETY: as libfabric asks of the program.
    unsafe { begin_receive(ep, memory, from, tag, Some(flags), context) }
}

unsafe extern "C" fn send(
    ep: *const FidEp,
    buffer: *const c_void,
    length: usize,
    _: *mut c_void,
    to: FiAddr,
    context: *mut c_void,
) -> isize {
    let memory = Memory::of(buffer, length);
    // SAFETY: as libfabric asks of the program.
    unsafe { begin_send(ep, memory, (to, None), None, Report::Usual, context) }
}

unsafe extern "C" fn sendv(
    ep: *const FidEp,
    iov: *const libc::iovec,
    _: *mut *mut c_void,
    count: usize,
    to: FiAddr,
    context: *mut c_void,
) -> isize {
    let memory = Memory::Several(iov, count);
    // SAFETY: as libfabric asks of the program.
    unsafe { begin_send(ep, memory, (to, None), None, Report::Usual, context) }
}

unsafe extern "C" fn sendmsg(ep: *const FidEp, message: *const Msg, flags: u64) -> isize {
    // SAFETY: C passes a message, or null.
    let Some(message) = (unsafe { message.as_ref() }) else {
        return count(Err(Code::INVAL));
    };
    let memory = Memory::Several(message.iov, message.iov_count);
    let to = (message.addr, None);
    let data = data_of(flags, message.data);
    let report = Report::Flags(flags);
    // SAFETY: as libfabric asks of the program.
    unsafe { begin_send(ep, memory, to, data, report, message.context) }
}

unsafe extern "C" fn inject(
    ep: *const FidEp,
    buffer: *const c_void,
    length: usize,
    to: FiAddr,
) -> isize {
    let (memory, none) = (Memory::of(buffer, length), std::ptr::null_mut());
    // SAFETY: as libfabric asks of the program.
    unsafe { begin_send(ep, memory, (to, None), None, Report::Silent, none) }
}

unsafe extern "C" fn senddata(
    ep: *const FidEp,
    buffer: *const c_void,
    length: usize,
    _: *mut c_void,
    data: u64,
    to: FiAddr,
    context: *mut c_void,
) -> isize {
    let memory = Memory::of(buffer, length);
    // SAFETY: as libfabric asks of the program.
    unsafe { begin_send(ep, memory, (to, None), Some(data), Report::Usual, context) }
}

unsafe extern "C" fn injectdata(
    ep: *const FidEp,
    buffer: *const c_void,
    length: usize,
    data: u64,
    to: FiAddr,
) -> isize {
    let (memory, none) = (Memory::of(buffer, length), std::ptr::null_mut());
    // SAFETY: as libfabric asks of the program.
    unsafe { begin_send(ep, memory, (to, None), Some(data), Report::Silent, none) }
}

unsafe extern "C" fn trecv(
    ep: *const FidEp,
    buffer: *mut c_void,
    length: usize,
    _: *mut c_void,
    from: FiAddr,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    let memory = Memory::of(buffer, length);
    // SAFETY: as libfabric asks of the program.
    unsafe { begin_receive(ep, memory, from, Some((tag, ignore)), None, context) }
}

unsafe extern "C" fn trecvv(
    ep: *const FidEp,
    iov: *const libc::iovec,
    _: *mut *mut c_void,
    count: usize,
    from: FiAddr,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    let memory = Memory::Several(iov, count);
    // SAFETY: as libfabric asks of the program.
    unsafe { begin_receive(ep, memory, from, Some((tag, ignore)), None, context) }
}

unsafe extern "C" fn trecvmsg(ep: *const FidEp, message: *const MsgTagged, flags: u64) -> isize {
    // SAFETY: C passes a message, or null.
    let Some(message) = (unsafe { message.as_ref() }) else {
        return count(Err(Code::INVAL));
    };
    let memory = Memory::Several(message.iov, message.iov_count);
    let (from, context) = (message.addr, message.context);
    let tag = Some((message.tag, message.ignore));
    // SAFETY: as libfabric asks of the program.
    unsafe { begin_receive(ep, memory, from, tag, Some(flags), context) }
}

unsafe extern "C" fn tsend(
    ep: *const FidEp,
    buffer: *const c_void,
    length: usize,
    _: *mut c_void,
    to: FiAddr,
    tag: u64,
    context: *mut c_void,
) -> isize {
    let memory = Memory::of(buffer, length);
    // SAFETY: as libfabric asks of the program.
    unsafe { begin_send(ep, memory, (to, Some(tag)), None, Report::Usual, context) }
}

unsafe extern "C" fn tsendv(
    ep: *const FidEp,
    iov: *const libc::iovec,
    _: *mut *mut c_void,
    count: usize,
    to: FiAddr,
    tag: u64,
    context: *mut c_void,
) -> isize {
    let memory = Memory::Several(iov, count);
    // SAFETY: as libfabric asks of the program.
    unsafe { begin_send(ep, memory, (to, Some(tag)), None, Report::Usual, context) }
}

unsafe extern "C" fn tsendmsg(ep: *const FidEp, message: *const MsgTagged, flags: u64) -> isize {
    // SAFETY: C passes a message, or null.
    let Some(message) = (unsafe { message.as_ref() }) else {
        return count(Err(Code::INVAL));
    };
    let memory = Memory::Several(message.iov, message.iov_count);
    let to = (message.addr, Some(message.tag));
    let data = data_of(flags, message.data);
    let report = Report::Flags(flags);
    // SAFETY: as libfabric asks of the program.
    unsafe { begin_send(ep, memory, to, data, report, message.context) }
}

unsafe extern "C" fn tinject(
    ep: *const FidEp,
    buffer: *const c_void,
    length: usize,
    to: FiAddr,
    tag: u64,
) -> isize {
    let (memory, none) = (Memory::of(buffer, length), std::ptr::null_mut());
    // SAFETY: as libfabric asks of the program.
    unsafe { begin_send(ep, memory, (to, Some(tag)), None, Report::Silent, none) }
}

unsafe extern "C" fn tsenddata(
    ep: *const FidEp,
    buffer: *const c_void,
    length: usize,
    _: *mut c_void,
    data: u64,
    to: FiAddr,
    tag: u64,
    context: *mut c_void,
) -> isize {
    let memory = Memory::of(buffer, length);
    // SAFETY: as libfabric asks of the program.
    unsafe {
        begin_send(
            ep,
            memory,
            (to, Some(tag)),
            Some(data),
            Report::Usual,
            context,
        )
    }
}

unsafe extern "C" fn tinjectdata(
    ep: *const FidEp,
    buffer: *const c_void,
    length: usize,
    data: u64,
    to: FiAddr,
    tag: u64,
) -> isize {
    let (memory, none) = (Memory::of(buffer, length), std::ptr::null_mut());
    // SAFETY: as libfabric asks of the program.
    unsafe {
        begin_send(
            ep,
            memory,
            (to, Some(tag)),
            Some(data),
            Report::Silent,
            none,
        )
    }
}
