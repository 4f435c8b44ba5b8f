//! Sockets in the manner of CDP, `cdp.h`, on those of `suci-sockets`.
//!
//! The interface has no handle: a process has one node. Each function has its text in the header.
//!
//! | part | content |
//! |---|---|
//! | `program` | the node of this process and the table of its sockets |
//! | `socket` | one socket, from its making to its end |

mod program;
mod socket;

use crate::errno::{answer, done};
use crate::error::{self, Failure};
use crate::{pointer, text};
use socket::Waiting;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use suci::NodeId;
use suci_sockets::Address;

/// `cdp_addr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CdpAddress {
    node: u32,
    port: u16,
}

impl From<Address> for CdpAddress {
    fn from(address: Address) -> Self {
        Self {
            node: address.node.0,
            port: address.port,
        }
    }
}

/// Allows addresses beyond loopback without a key.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_allow_insecure_network() -> c_int {
    done(program::allow_insecure_network)
}

/// Opens the node of this process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_init(
    node: c_int,
    ifv: *const *const c_char,
    ifi: c_int,
    forward: c_int,
) -> c_int {
    done(|| {
        let count = usize::try_from(ifi);
        let count = count.map_err(|_| Failure::argument(format!("ifi is {ifi}: pass 0 or 1")))?;
        if count > 1 {
            let text = format!("ifi is {ifi}: a node has one address, pass 0 or 1");
            return Err(Failure::argument(text));
        }
        // SAFETY: as cdp.h asks.
        let names = unsafe { pointer::items(ifv, count, "ifv") }?;
        // SAFETY: as cdp.h asks.
        let names = names
            .iter()
            .map(|name| unsafe { text::required(*name, "ifv[0]") });
        let listen = names.collect::<Result<Vec<_>, _>>()?;
        program::initialize(node, listen.first().copied(), forward != 0)
    })
}

/// Closes the node.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_end() -> c_int {
    done(program::end)
}

/// Enters another node.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_add_node(node: u32, address: *const c_char) -> c_int {
    done(|| {
        // SAFETY: as cdp.h asks.
        let address = unsafe { text::required(address, "address") }?;
        program::add_node(NodeId(node), address)
    })
}

/// Returns the node's address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_address(address: *mut c_char) -> c_int {
    done(|| {
        let local = program::address()?;
        // SAFETY: as cdp.h asks.
        unsafe { text::give_address(local, address) }
    })
}

/// Makes a socket.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_socket() -> c_int {
    answer(-1, program::socket)
}

/// Binds a socket to a port.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_bind(s: c_int, port: u16) -> c_int {
    done(|| {
        let node = program::node()?;
        program::find(s)?.bind(&node, port)
    })
}

/// Lets a socket take connections.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_listen(s: c_int, backlog: c_int) -> c_int {
    done(|| {
        let backlog = usize::try_from(backlog);
        let backlog =
            backlog.map_err(|_| Failure::argument("backlog is negative: pass 1 or more"))?;
        let node = program::node()?;
        program::find(s)?.listen(&node, backlog)
    })
}

/// Takes a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_accept(s: c_int, addr: *mut CdpAddress, nonblocking: c_int) -> c_int {
    answer(-1, || {
        let listener = program::find(s)?;
        let (socket, peer) = listener.accept(Waiting::of(nonblocking))?;
        let accepted = program::insert(socket)?;
        if !addr.is_null() {
            // SAFETY: as cdp.h asks.
            unsafe { pointer::put(addr, peer.into()) };
        }
        Ok(accepted)
    })
}

/// Connects a socket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_connect(s: c_int, addr: *const CdpAddress) -> c_int {
    done(|| {
        // SAFETY: as cdp.h asks.
        let &CdpAddress { node, port } = unsafe { pointer::input(addr, "addr") }?;
        let peer = Address {
            node: NodeId(node),
            port,
        };
        let node = program::node()?;
        program::find(s)?.connect(&node, peer)
    })
}

/// Sends a message, or bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_send(s: c_int, buf: *const c_void, len: usize) -> isize {
    answer(-1, || {
        // SAFETY: as cdp.h asks.
        let bytes = unsafe { pointer::bytes(buf, len, "buf") }?;
        // At most `isize::MAX`, as any slice has.
        Ok(program::find(s)?.send(bytes)?.cast_signed())
    })
}

/// Receives a message, or bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_recv(
    s: c_int,
    buf: *mut c_void,
    len: usize,
    nonblocking: c_int,
) -> isize {
    answer(-1, || {
        pointer::check_length::<u8>(len, "buf")?;
        if len > 0 {
            pointer::output(buf, "buf")?;
        }
        let bytes = program::find(s)?.recv(len, Waiting::of(nonblocking))?;
        // SAFETY: there are at most `len` bytes, which can be written as cdp.h asks.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), buf.cast(), bytes.len()) };
        Ok(bytes.len().cast_signed())
    })
}

/// Returns whether the last message has bytes left.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_more(s: c_int) -> c_int {
    answer(-1, || Ok(c_int::from(program::find(s)?.has_rest())))
}

/// Ends the direction towards the peer.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_shutdown(s: c_int) -> c_int {
    done(|| program::find(s)?.shutdown())
}

/// Closes a socket.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_close(s: c_int) -> c_int {
    done(|| program::remove(s))
}

/// Returns the descriptor of a socket.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_fd(s: c_int) -> c_int {
    answer(-1, || program::find(s)?.descriptor())
}

/// Sets an option.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_setopt(s: c_int, option: c_int, value: i64) -> c_int {
    done(|| program::find(s)?.set_option(option, value))
}

/// Returns the address of this end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_getsockname(s: c_int, addr: *mut CdpAddress) -> c_int {
    done(|| {
        let own = program::node()?.id();
        let address = program::find(s)?.local(own)?;
        // SAFETY: as cdp.h asks.
        unsafe { pointer::give(addr, address.into(), "addr") }
    })
}

/// Returns the address of the other end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_getpeername(s: c_int, addr: *mut CdpAddress) -> c_int {
    done(|| {
        let address = program::find(s)?.peer()?;
        // SAFETY: as cdp.h asks.
        unsafe { pointer::give(addr, address.into(), "addr") }
    })
}

/// Returns the text of this thread's last failure.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_error() -> *const c_char {
    error::suci_last_error_message()
}
