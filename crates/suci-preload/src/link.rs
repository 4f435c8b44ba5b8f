//! A connection with another node: opening, then copying in both directions.

use crate::connect::{Program, errno_of};
use crate::door::{Call, Target};
use crate::kernel::{self, Silence};
use crate::reactor::Reactor;
use crate::table::Entry;
use crate::task::{self, Serial, Task};
use std::cell::RefCell;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use suci::Bytes;
use suci_sockets::SuciStream;

/// Bytes that one read takes of the program's: the most that one message of a stream carries.
const PART: usize = 64 << 10;

/// Bytes that are taken of the node's at once.
const MOST: usize = 1 << 20;

thread_local! {
    /// Where bytes pass through. Steps of one thread do not nest.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(room());
}

fn room() -> Vec<u8> {
    vec![0; PART]
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Link {
    number: u64,
    reactor: Arc<Reactor>,
    phase: Serial<Phase>,
    /// The listener that it came by.
    target: Option<Target>,
    is_drained: AtomicBool,
    /// The process ends.
    is_closed: AtomicBool,
}

#[derive(Debug)]
enum Phase {
    Opening(Opening),
    Open(Flow),
    Over,
}

/// A connection that the program waits for.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) stream: SuciStream,
    pub(crate) program: Program,
    pub(crate) silence: Silence,
    /// Taken when the connection opens.
    pub(crate) entry: Option<Entry>,
}

impl Opening {
    /// Answers the program, once the connection is open.
    fn answer(&mut self) -> io::Result<(TcpStream, Entry)> {
        let entry = self.entry.take().ok_or(ErrorKind::NotConnected)?;
        Ok((self.program.answer(&self.silence)?, entry))
    }
}

/// An open connection. Bytes go between a socket of the kernel, whose other end the program has,
/// and a stream.
#[derive(Debug)]
pub(crate) struct Flow {
    stream: SuciStream,
    kernel: TcpStream,
    /// Until the program's listener has room for it.
    call: Option<Call>,
    /// Bytes for the node.
    outgoing: Bytes,
    /// The program sends nothing more, and the node was told.
    is_ended: bool,
    /// The node takes nothing more: what the program sends is dropped.
    is_broken: bool,
    /// Bytes for the program.
    incoming: Bytes,
    /// The node sends nothing more, and the program was told.
    is_finished: bool,
    entry: Entry,
}

impl Flow {
    fn new(stream: SuciStream, kernel: TcpStream, call: Option<Call>, entry: Entry) -> Self {
        Self {
            stream,
            kernel,
            call,
            outgoing: Bytes::new(),
            is_ended: false,
            is_broken: false,
            incoming: Bytes::new(),
            is_finished: false,
            entry,
        }
    }

    /// Copies until both directions have to wait. Returns true when the connection is over.
    fn copy(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        if self.call.is_some() && kernel::is_connected(&self.kernel) {
            self.call = None;
            self.entry.connected();
            if self.is_finished {
                self.tell_end()?;
            }
        }
        let copied = SCRATCH.try_with(|scratch| self.copy_out(cx, &mut scratch.borrow_mut()));
        // The thread's end may need a step, too.
        copied.unwrap_or_else(|_| self.copy_out(cx, &mut room()))?;
        self.copy_in(cx)?;
        // Nothing else would tell that the program's end is gone.
        if self.is_ended {
            kernel::check(&self.kernel)?;
        }
        Ok(self.is_finished && self.is_drained())
    }

    /// Returns true if nothing goes to the node any more.
    const fn is_drained(&self) -> bool {
        self.is_ended || self.is_broken
    }

    /// Copies what the program wrote.
    fn copy_out(&mut self, cx: &mut Context<'_>, scratch: &mut [u8]) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.outgoing);
        let sent = self.send(cx, &waiting);
        self.outgoing = waiting.slice(sent..);
        while self.outgoing.is_empty() && !self.is_ended {
            let read = match (&self.kernel).read(scratch) {
                Ok(read) => scratch.get(..read).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if read.is_empty() {
                // It fails if the node takes nothing more.
                let _ = self.stream.shutdown(Shutdown::Write);
                self.is_ended = true;
                // The program may have closed its socket, and never hear from the node.
                kernel::ask_for_the_other_end(&self.kernel)?;
            }
            let sent = self.send(cx, read);
            self.outgoing = Bytes::copy_from_slice(read.get(sent..).unwrap_or_default());
        }
        Ok(())
    }

    /// Sends bytes to the node. Returns how many are done with.
    fn send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> usize {
        let mut sent = 0;
        while let Some(rest) = bytes.get(sent..)
            && !rest.is_empty()
            && !self.is_broken
        {
            match self.stream.poll_write(cx, rest) {
                Poll::Ready(Ok(more)) => sent += more,
                Poll::Ready(Err(_)) => self.is_broken = true,
                Poll::Pending => return sent,
            }
        }
        bytes.len()
    }

    /// Copies what came from the node.
    fn copy_in(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while !self.is_finished {
            if self.incoming.is_empty() {
                match self.stream.poll_read_bytes(cx, MOST) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(bytes)) if bytes.is_empty() => {
                        self.is_finished = true;
                        self.tell_end()?;
                    }
                    Poll::Ready(Ok(bytes)) => self.incoming = bytes,
                    Poll::Ready(Err(error)) => {
                        self.reset();
                        return Err(error);
                    }
                }
                continue;
            }
            match (&self.kernel).write(&self.incoming) {
                Ok(written) => drop(self.incoming.split_to(written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells the program that the node sends nothing more, once the kernel has connected: before,
    /// that would end its attempt.
    fn tell_end(&self) -> io::Result<()> {
        match self.call {
            None => self.kernel.shutdown(Shutdown::Write),
            Some(_) => Ok(()),
        }
    }

    /// Lets the program's calls fail. If the kernel still has bytes for it, which a reset would
    /// discard, they end as usual.
    fn reset(&self) {
        if kernel::unsent(&self.kernel) == 0 {
            kernel::reset(&self.kernel);
        }
    }
}

impl Link {
    /// Waits for a connection to another node, then copies.
    pub(crate) fn open(reactor: &Arc<Reactor>, opening: Opening) {
        Self::start(reactor, reactor.number(), None, Phase::Opening(opening));
    }

    /// Copies between a connection from another node and the program.
    pub(crate) fn copy(
        reactor: &Arc<Reactor>,
        call: Call,
        stream: SuciStream,
        kernel: TcpStream,
        entry: Entry,
    ) -> io::Result<()> {
        let number = reactor.number();
        reactor.watch(number, &kernel)?;
        let target = call.target();
        let flow = Flow::new(stream, kernel, Some(call), entry);
        Self::start(reactor, number, Some(target), Phase::Open(flow));
        Ok(())
    }

    fn start(reactor: &Arc<Reactor>, number: u64, target: Option<Target>, phase: Phase) {
        let link = Arc::new(Self {
            number,
            reactor: Arc::clone(reactor),
            // The program cannot write before a connection is open.
            is_drained: AtomicBool::new(matches!(phase, Phase::Opening(_))),
            phase: Serial::new(phase),
            target,
            is_closed: AtomicBool::new(false),
        });
        reactor.keep(link.number, Arc::clone(&link));
        task::run(link);
    }

    /// Returns true if nothing goes to the node any more.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_drained.load(Ordering::Acquire)
    }

    /// Closes the connection.
    pub(crate) fn close(self: Arc<Self>) {
        self.is_closed.store(true, Ordering::Release);
        task::run(self);
    }

    fn advance(self: &Arc<Self>, phase: &mut Phase) {
        let waker = Waker::from(Arc::clone(self));
        let mut cx = Context::from_waker(&waker);
        if let Phase::Opening(opening) = phase {
            let stream = opening.stream.clone();
            let connected = match stream.poll_connected(&mut cx) {
                Poll::Pending if !self.is_closed.load(Ordering::Acquire) => return,
                Poll::Pending => Err(ErrorKind::NetworkDown.into()),
                Poll::Ready(connected) => connected,
            };
            // The program may write as soon as it is answered.
            self.is_drained.store(false, Ordering::Release);
            let opened = connected.and_then(|()| {
                let (kernel, entry) = opening.answer()?;
                self.reactor.watch(self.number, &kernel)?;
                Ok(Flow::new(stream, kernel, None, entry))
            });
            match opened {
                Ok(flow) => *phase = Phase::Open(flow),
                Err(error) => opening.program.fail(errno_of(&error)),
            }
        }
        if let Phase::Open(flow) = phase
            && !self.is_closed.load(Ordering::Acquire)
        {
            match (flow.copy(&mut cx), &self.target) {
                (Ok(true), _) => {}
                (Ok(false), _) => {
                    self.is_drained.store(flow.is_drained(), Ordering::Release);
                    return;
                }
                (Err(error), Some(target)) if error.kind() == ErrorKind::ConnectionRefused => {
                    target.refused();
                }
                // The error of one end is told to the other one by closing.
                (Err(_), _) => {}
            }
        }
        *phase = Phase::Over;
        self.is_drained.store(true, Ordering::Release);
        self.reactor.forget(self.number);
    }
}

impl Task for Link {
    fn step(self: Arc<Self>) {
        self.phase.run(|phase| self.advance(phase));
    }
}

impl Wake for Link {
    fn wake(self: Arc<Self>) {
        task::run(self);
    }
}
