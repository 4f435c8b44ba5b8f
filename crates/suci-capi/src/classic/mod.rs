//! The classic interface, `datagram.h`, on the nodes of `suci.h`.
//!
//! Like the library of the Suci papers it is polled: messages are queued beside the node until
//! `datagram_ready` hands them over as one batch, and `datagram_ready` alone takes messages from
//! the node. Each function has its text in the header.
//!
//! | part | content |
//! |---|---|
//! | `table` | sockets by handle, one call at a time |
//! | `socket` | one socket: what it keeps beside its node |
//! | `pending` | messages that the node did not accept yet |
//! | `packet` | messages in memory of the library |
//! | `lex` | reading the host table |

mod lex;
mod packet;
mod pending;
mod socket;
mod table;

use crate::entry::Entry;
use crate::errno::{answer, done, limit};
use crate::error::{self, Failure};
use crate::handle::{self, Handle};
use crate::options::NodeOptions;
use crate::{book, pointer, text};
use packet::Packet;
use pending::NOTIFY_FROM;
use socket::{Bounds, Socket};
use std::ffi::{c_char, c_int, c_long, c_void};
use std::net::SocketAddr;
use std::ptr;
use suci::{Mode, NodeId};
use table::SocketPointer;

/// `addressdb`.
#[repr(C)]
#[derive(Debug)]
pub struct AddressDb {
    book: Handle,
}

/// `DATAGRAM_MANUAL` and `DATAGRAM_ALLOW_INSECURE_NETWORK`.
const MANUAL: c_int = 1;
const ALLOW_INSECURE_NETWORK: c_int = 2;

// ---- results

/// As [`answer`], for functions that return a length or -1.
fn length(body: impl FnOnce() -> Result<usize, Failure>) -> isize {
    // No memory is longer.
    answer(-1, || {
        body().map(|length| isize::try_from(length).unwrap_or(isize::MAX))
    })
}

// ---- the host table

/// Reads the host table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn addressdb_lex(fp: *mut libc::FILE, db: *mut AddressDb) -> c_int {
    done(|| {
        pointer::output(db, "db")?;
        // SAFETY: as datagram.h asks.
        let book = unsafe { lex::read(fp) }?;
        let book = book::insert(book)?;
        // SAFETY: as datagram.h asks.
        unsafe { pointer::put(db, AddressDb { book }) };
        Ok(())
    })
}

/// Frees the host table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn addressdb_free(db: *mut AddressDb) -> c_int {
    done(|| {
        // SAFETY: as datagram.h asks.
        let freed = book::free(unsafe { pointer::input(db, "db") }?.book);
        // SAFETY: as datagram.h asks.
        unsafe {
            pointer::put(
                db,
                AddressDb {
                    book: Handle::default(),
                },
            )
        };
        freed
    })
}

// ---- the socket

/// Opens a socket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn datagram(
    db: *const AddressDb,
    myaddr: *const c_char,
    myport: c_int,
    myid: u32,
) -> SocketPointer {
    // SAFETY: as datagram.h asks.
    unsafe { datagram_open(db, myaddr, myport, myid, 0, ptr::null()) }
}

/// Returns the address that a socket is to have; nothing if its host table says it.
///
/// # Safety
/// As datagram.h asks.
unsafe fn own_address(myaddr: *const c_char, myport: c_int) -> Result<Option<SocketAddr>, Failure> {
    // SAFETY: the caller's promise.
    let Some(name) = unsafe { text::optional(myaddr, "myaddr") }? else {
        return match myport {
            0 => Ok(None),
            _ => Err(Failure::argument(format!(
                "myport is {myport} without myaddr: name both, or pass a null pointer and 0"
            ))),
        };
    };
    let port = u16::try_from(myport)
        .map_err(|_| Failure::argument(format!("myport is {myport}: pass 0 to 65535")))?;
    let text = match name.contains(':') {
        true => format!("[{name}]:{port}"),
        false => format!("{name}:{port}"),
    };
    text::numeric_address(&text).map(Some)
}

/// Opens a socket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn datagram_open(
    db: *const AddressDb,
    myaddr: *const c_char,
    myport: c_int,
    myid: u32,
    flags: c_int,
    options: *const NodeOptions,
) -> SocketPointer {
    answer(ptr::null_mut(), || {
        if flags & !(MANUAL | ALLOW_INSECURE_NETWORK) != 0 {
            let text = format!("flags are {flags:#x}: pass values of enum datagram_flag");
            return Err(Failure::argument(text));
        }
        // From now on forks are counted.
        handle::forks();
        // SAFETY: as datagram.h asks, for all pointers.
        let (db, options) = unsafe {
            let db = pointer::input(db, "db")?;
            (db, pointer::read(options, NodeOptions::default())?)
        };
        let bounds = Bounds {
            max_message: options.max_message,
            send_queue: options.send_queue,
        };
        if options.threads != 0 || bounds.max_message < NOTIFY_FROM as u64 {
            let text = format!(
                "a socket needs options with threads = 0 and max_message of at least {NOTIFY_FROM}, not {} and {}",
                options.threads, bounds.max_message
            );
            return Err(Failure::argument(text));
        }
        // SAFETY: as above.
        let (mut builder, address) = unsafe { (options.builder()?, own_address(myaddr, myport)?) };
        builder = builder.id(NodeId(myid)).book(book::copy(db.book)?);
        if let Some(address) = address {
            builder = builder.listen(address);
        }
        if flags & ALLOW_INSECURE_NETWORK != 0 {
            builder = builder.allow_insecure_network();
        }
        let node = Handle::insert(Entry::alone(builder.open()?)?)?;
        let socket = Socket::new(node, flags & MANUAL != 0, bounds)?;
        table::insert(Box::new(socket))
    })
}

/// Closes a socket.
#[unsafe(no_mangle)]
pub extern "C" fn datagram_close(sock: SocketPointer, sec: c_int, msec: c_int) -> c_int {
    done(|| {
        let limit = limit(sec, msec)?;
        match table::with(sock, |socket| socket.close(limit)) {
            Err(failure) if failure.code() == error::BUSY => Err(failure),
            closed => {
                drop(table::take(sock)?);
                closed
            }
        }
    })
}

/// Does input and output.
#[unsafe(no_mangle)]
pub extern "C" fn datagram_ready(sock: SocketPointer, sec: c_int, msec: c_int) -> c_int {
    answer(-1, || {
        let limit = limit(sec, msec)?;
        table::with(sock, |socket| socket.ready(limit)).map(c_int::from)
    })
}

/// Returns the node of a socket.
#[unsafe(no_mangle)]
pub extern "C" fn datagram_node(sock: SocketPointer) -> Handle {
    answer(Handle::default(), || {
        table::with(sock, |socket| Ok(socket.node()))
    })
}

/// Returns the text of this thread's last failure.
#[unsafe(no_mangle)]
pub extern "C" fn datagram_error() -> *const c_char {
    error::suci_last_error_message()
}

// ---- messages by copy

/// Chooses the destination of writes.
#[unsafe(no_mangle)]
pub extern "C" fn datagram_destination(destid: u32, sock: SocketPointer) -> c_int {
    done(|| table::with(sock, |socket| socket.set_destination(NodeId(destid))))
}

/// Queues a copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn datagram_write(
    sock: SocketPointer,
    buf: *const c_void,
    len: usize,
) -> isize {
    length(|| {
        // SAFETY: as datagram.h asks.
        let bytes = unsafe { pointer::bytes(buf, len, "buf") }?;
        table::with(sock, |socket| socket.write(bytes))?;
        Ok(len)
    })
}

/// Copies the next message out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn datagram_read(sock: SocketPointer, buf: *mut c_void, len: usize) -> isize {
    length(|| {
        pointer::check_length::<u8>(len, "buf")?;
        if len > 0 {
            pointer::output(buf, "buf")?;
        }
        let message = table::with(sock, |socket| socket.take_within(len))?;
        let bytes: &[u8] = &message.payload;
        if !bytes.is_empty() {
            // SAFETY: the message is at most `len` bytes, which datagram.h asks `buf` to have; the
            // message's memory is the library's.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), buf.cast(), bytes.len()) };
        }
        Ok(bytes.len())
    })
}

/// Returns the length of the next message.
#[unsafe(no_mangle)]
pub extern "C" fn datagram_length(sock: SocketPointer) -> isize {
    length(|| table::with(sock, |socket| socket.next_length()))
}

/// Tells the sender of the last message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn datagram_source(sock: SocketPointer, id: *mut u32) -> c_int {
    done(|| {
        let source = table::with(sock, |socket| socket.source())?;
        // SAFETY: as datagram.h asks.
        unsafe { pointer::give(id, source.0, "id") }
    })
}

// ---- packets

/// Makes a packet.
#[unsafe(no_mangle)]
pub extern "C" fn datagram_new_packet(sock: SocketPointer, size: usize) -> *mut Packet {
    answer(ptr::null_mut(), || {
        let id = table::with(sock, |socket| Ok(socket.id()))?;
        packet::new(size, id)
    })
}

/// Queues a list of packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn datagram_packet_put(
    sock: SocketPointer,
    list: *mut Packet,
    dest: u32,
) -> c_int {
    answer(-1, || {
        // SAFETY: as datagram.h asks.
        let messages = unsafe { packet::messages(list) }?;
        // At most `MOST_IN_LIST`.
        let count = messages.len() as c_int;
        table::with(sock, |socket| socket.put(NodeId(dest), messages))?;
        Ok(count)
    })
}

/// Takes the next message as a packet.
#[unsafe(no_mangle)]
pub extern "C" fn datagram_packet_get(sock: SocketPointer) -> *mut Packet {
    answer(ptr::null_mut(), || {
        let message = table::with(sock, Socket::take)?;
        Ok(packet::from_message(message))
    })
}

/// Tells whether the library reads the packet's bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn datagram_packet_busy(packet: *const Packet) -> c_int {
    // SAFETY: as datagram.h asks.
    answer(-1, || unsafe { packet::is_busy(packet) }.map(c_int::from))
}

/// Frees a list of packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn datagram_free_packet(list: *mut Packet) -> c_int {
    // SAFETY: as datagram.h asks.
    done(|| unsafe { packet::free(list) })
}

/// Acknowledges now.
#[unsafe(no_mangle)]
pub extern "C" fn ack_sync(sock: SocketPointer, id: u32) -> c_int {
    done(|| table::with(sock, |socket| socket.acknowledge(NodeId(id))))
}

// ---- the queue

/// Returns the number of messages that are not acknowledged.
#[unsafe(no_mangle)]
pub extern "C" fn datagram_queue_length(sock: SocketPointer, id: u32) -> c_long {
    answer(-1, || {
        let count = table::with(sock, |socket| socket.queue_length(NodeId(id)))?;
        Ok(c_long::try_from(count).unwrap_or(c_long::MAX))
    })
}

/// Sends everything again that is not acknowledged.
#[unsafe(no_mangle)]
pub extern "C" fn datagram_retransmission(sock: SocketPointer, destid: u32) -> c_int {
    done(|| table::with(sock, |socket| socket.retransmit(NodeId(destid))))
}

// ---- flow control

/// Tells how much a destination would take.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn datagram_getdestbuf(
    sock: SocketPointer,
    id: u32,
    size: *mut usize,
) -> c_int {
    done(|| {
        let window = table::with(sock, |socket| socket.remote_window(NodeId(id)))?;
        // SAFETY: as datagram.h asks.
        unsafe { pointer::give(size, usize::try_from(window).unwrap_or(usize::MAX), "size") }
    })
}

/// Prefers throughput.
#[unsafe(no_mangle)]
pub extern "C" fn datagram_through(sock: SocketPointer, id: u32) -> c_int {
    done(|| table::with(sock, |socket| socket.prefer(NodeId(id), Mode::Throughput)))
}

/// Prefers response.
#[unsafe(no_mangle)]
pub extern "C" fn datagram_rapid(sock: SocketPointer, id: u32) -> c_int {
    done(|| table::with(sock, |socket| socket.prefer(NodeId(id), Mode::Response)))
}

// ---- connections

/// Disconnects a node.
#[unsafe(no_mangle)]
pub extern "C" fn datagram_disconnect(sock: SocketPointer, id: u32) -> c_int {
    done(|| table::with(sock, |socket| socket.disconnect(NodeId(id))))
}

/// Reconnects a node.
#[unsafe(no_mangle)]
pub extern "C" fn datagram_reconnect(sock: SocketPointer, id: u32) -> c_int {
    done(|| table::with(sock, |socket| socket.reconnect(NodeId(id))))
}

/// Returns the state of a connection.
#[unsafe(no_mangle)]
pub extern "C" fn datagram_state(sock: SocketPointer, id: u32) -> c_int {
    answer(-1, || {
        table::with(sock, |socket| socket.connection(NodeId(id))).map(|state| state as c_int)
    })
}
