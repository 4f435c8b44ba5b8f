//! `libsuci-preload.so`: programs made for TCP use Suci's sockets between the nodes of a book,
//! unchanged. [docs/preload.md](../../../docs/preload.md) is the page for users.
//!
//! # How it works
//!
//! The program keeps its TCP sockets. Where one would reach another node, its other end is in this
//! process: a socket on the loopback interface. This library copies between it and a
//! [`SuciStream`](suci_sockets::SuciStream). So the kernel serves `dup`, `shutdown`, `sendfile`,
//! all options and the children of a fork. The usual calls that read, write and wait go past it
//! (`bytes.rs`):
//!
//! * **Writing**: the call gives its bytes to the stream, and its thread sends them. The kernel's
//!   socket takes them only while it still holds earlier ones, or if the peer does not read.
//! * **Waiting** (`poll`, `select`, `epoll_wait`, reads and writes that block): the thread serves
//!   the node. It sleeps on the node's socket and the program's descriptors together.
//! * **Reading**: what such a call received is *kept* in the stream for the call that reads it. All
//!   else that arrives is written to the kernel's socket, and so is what nobody reads within 2 ms.
//!   So a program that uses other calls misses nothing (`direct.rs`).
//!
//! * **connect** begins a Suci connection. Meanwhile the program's socket connects to a listener on
//!   loopback that drops what arrives, so it stays in `SYN_SENT`, and `poll` waits. If the Suci
//!   connection opens, a second socket at the listener's port connects to the program's one: both
//!   connect to each other (simultaneous open, RFC 9293, section 3.5), and the program's socket is
//!   writable at once. If not, the program's socket is shut down, which reports an error.
//! * **listen** also listens at the same port of this node. For each connection from there, a
//!   socket connects to the program's listener, which serves clients of TCP as ever.
//! * **getpeername**, **getsockname**, **accept** return addresses of nodes (`table.rs`). A process
//!   without the node, such as a worker or a program after `exec`, asks the one that has it.
//! * **fork**: the bytes go on in the parent. If it ends, a child with its listeners takes the node
//!   over.
//!
//! | file | content |
//! |---|---|
//! | `interpose.rs`, `bytes.rs`, `next.rs` | the functions that programs call, and those behind them |
//! | `direct.rs`, `calls.rs`, `waits.rs` | the way past the kernel: what is kept; reading and writing; waiting |
//! | `interrupt.rs` | threads that are cancelled in a call |
//! | `settings.rs` | which addresses belong to nodes |
//! | `process.rs` | the start; the node of this process, opened when needed; forks; the end |
//! | `connect.rs`, `door.rs` | connections to and from other nodes |
//! | `succession.rs` | which of a process and its forked children has the node |
//! | `question.rs` | what other processes ask the one with the node |
//! | `link.rs`, `reactor.rs`, `task.rs` | copying |
//! | `kernel.rs`, `address.rs`, `table.rs` | sockets of the kernel and their addresses |

mod address;
mod bytes;
mod calls;
mod connect;
mod direct;
mod door;
mod interpose;
mod interrupt;
mod kernel;
mod link;
mod next;
mod process;
mod question;
mod reactor;
mod settings;
mod succession;
mod table;
mod task;
mod waits;

/// Tells the user something on the standard error, if it is open.
fn tell(text: impl std::fmt::Display) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "suci-preload: {text}");
}
