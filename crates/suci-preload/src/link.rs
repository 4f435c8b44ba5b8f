//! A connection with another node: opening, then copying in both directions.

use crate::connect::{Program, errno_of};
use crate::direct::{self, Buffers, Keeping};
use crate::door::{Call, Target};
use crate::kernel::{self, Silence};
use crate::reactor::Reactor;
use crate::table::Entry;
use crate::task::{self, Serial, Task};
use std::cell::RefCell;
use std::ffi::c_int;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use suci::{Bytes, SharedNode};
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
    pub(crate) number: u64,
    reactor: Arc<Reactor>,
    phase: Serial<Phase>,
    /// The listener that it came by.
    target: Option<Target>,
    is_drained: AtomicBool,
    /// The process ends.
    is_closed: AtomicBool,
    /// The kernel has news about this library's end.
    has_news: AtomicBool,
    /// Whether what arrives waits for a call of the program.
    pub(crate) keeping: Keeping,
}

/// The result of a call that goes past the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// So many bytes were copied.
    Bytes(usize),
    /// The call would have to wait.
    None,
    /// The kernel's socket has to be asked.
    Kernel,
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
    /// The bytes that were written to the kernel for the program.
    pushed: u64,
    /// The node sends nothing more, and the program was told.
    is_finished: bool,
    /// The program's bytes go through the kernel until that is empty.
    is_kernels: bool,
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
            pushed: 0,
            is_finished: false,
            is_kernels: false,
            entry,
        }
    }

    /// Copies until both directions have to wait. Returns true when the connection is over.
    fn copy(&mut self, cx: &mut Context<'_>, link: &Arc<Link>) -> io::Result<bool> {
        if self.call.is_some() && kernel::is_connected(&self.kernel) {
            self.call = None;
            self.entry.connected();
            if self.is_finished {
                self.tell_end()?;
            }
        }
        // More may wait in the kernel behind bytes that had to wait here.
        let goes_on = self.send_waiting(cx);
        if link.has_news.swap(false, Ordering::AcqRel) || goes_on {
            self.copy_out(cx)?;
        }
        self.copy_in(cx, link)?;
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

    /// Sends bytes for the node that had to wait. Returns true if none are left of some.
    fn send_waiting(&mut self, cx: &mut Context<'_>) -> bool {
        let waiting = std::mem::take(&mut self.outgoing);
        let sent = self.send(cx, &waiting);
        self.outgoing = waiting.slice(sent..);
        !waiting.is_empty() && self.outgoing.is_empty()
    }

    /// Copies what the program wrote to the kernel.
    fn copy_out(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let copied = SCRATCH.try_with(|scratch| self.read_all(cx, &mut scratch.borrow_mut()));
        // The thread's end may need a step, too.
        copied.unwrap_or_else(|_| self.read_all(cx, &mut room()))
    }

    fn read_all(&mut self, cx: &mut Context<'_>, scratch: &mut [u8]) -> io::Result<()> {
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

    /// Copies what came from the node, unless it is kept for a call of the program.
    fn copy_in(&mut self, cx: &mut Context<'_>, link: &Arc<Link>) -> io::Result<()> {
        let keeping = &link.keeping;
        while self.fetch(cx)? {
            if keeping.keeps(self.pushed) {
                keeping.keep();
                direct::list(link);
                return Ok(());
            }
            match (&self.kernel).write(&self.incoming) {
                Ok(written) => {
                    self.pushed += written as u64;
                    drop(self.incoming.split_to(written));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        keeping.release();
        Ok(())
    }

    /// Takes the next part of what came from the node, if none is left. Returns false if nothing is
    /// there.
    fn fetch(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        if !self.incoming.is_empty() {
            return Ok(true);
        }
        if self.is_finished {
            return Ok(false);
        }
        match self.stream.poll_read_bytes(cx, MOST) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(bytes)) if bytes.is_empty() => {
                self.is_finished = true;
                self.tell_end()?;
                Ok(false)
            }
            Poll::Ready(Ok(bytes)) => {
                self.incoming = bytes;
                Ok(true)
            }
            Poll::Ready(Err(error)) => {
                self.reset();
                Err(error)
            }
        }
    }

    /// Copies what came from the node to a call of the program.
    fn receive(
        &mut self,
        cx: &mut Context<'_>,
        link: &Arc<Link>,
        to: &mut Buffers<'_>,
    ) -> io::Result<Passed> {
        let keeping = &link.keeping;
        if self.call.is_some() || !keeping.is_level(self.pushed) {
            return Ok(Passed::Kernel);
        }
        let mut received = 0;
        while !to.is_full() {
            match self.fetch(cx) {
                Ok(true) => {}
                Ok(false) => break,
                // The next call meets it, too.
                Err(_) if received > 0 => break,
                Err(error) => return Err(error),
            }
            let copied = to.fill(&self.incoming);
            drop(self.incoming.split_to(copied));
            received += copied;
        }
        // Either more is kept, or the connection is told of the next arrival.
        match self.fetch(cx) {
            // The next call meets an error, too.
            Ok(true) if keeping.is_kernels() => drop(self.copy_in(cx, link)),
            Ok(true) => {
                keeping.keep();
                keeping.go_on();
                direct::list(link);
            }
            Ok(false) => keeping.release(),
            Err(error) if received == 0 => return Err(error),
            Err(_) => keeping.release(),
        }
        Ok(match received {
            0 if self.is_finished => Passed::Kernel,
            0 => Passed::None,
            received => Passed::Bytes(received),
        })
    }

    /// Sends bytes of a call of the program for its socket `fd`, after all that it wrote to the
    /// kernel.
    fn transmit(&mut self, cx: &mut Context<'_>, fd: c_int, bytes: &[u8]) -> io::Result<Passed> {
        if self.call.is_some() || self.is_drained() {
            return Ok(Passed::Kernel);
        }
        self.send_waiting(cx);
        // Bytes that are in the kernel come first.
        if self.has_bytes_in_kernel(fd) {
            self.copy_out(cx)?;
            kernel::acknowledge(&self.kernel);
            if self.outgoing.is_empty() && self.has_bytes_in_kernel(fd) {
                // They stay there until the program lets them go (`TCP_CORK`), so it cannot wait.
                return Ok(Passed::Kernel);
            }
        }
        if !self.outgoing.is_empty() {
            let waits = !self.is_kernels;
            return Ok(if waits { Passed::None } else { Passed::Kernel });
        }
        self.is_kernels = false;
        Ok(match self.send(cx, bytes) {
            _ if self.is_broken => Passed::Kernel,
            0 => Passed::None,
            sent => Passed::Bytes(sent),
        })
    }

    /// Returns true if the kernel has bytes that the program wrote to its socket `fd`. First the
    /// program's end is asked: what this end has acknowledged is there. No call is known that left
    /// them: `sendfile`, a child or a copy of the descriptor may have.
    fn has_bytes_in_kernel(&self, fd: c_int) -> bool {
        kernel::is_sending(fd) || kernel::unread(&self.kernel) > 0
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
        let socket = opening.program.socket;
        let link = Self::new(reactor, reactor.number(), None, Phase::Opening(opening));
        direct::enter(socket, &link);
        task::run(link);
    }

    /// Makes a connection from another node, which runs next.
    pub(crate) fn admitted(
        reactor: &Arc<Reactor>,
        call: Call,
        stream: SuciStream,
        kernel: TcpStream,
        entry: Entry,
    ) -> io::Result<Arc<Self>> {
        let number = reactor.number();
        reactor.watch(number, &kernel)?;
        let target = call.target();
        let flow = Flow::new(stream, kernel, Some(call), entry);
        Ok(Self::new(reactor, number, Some(target), Phase::Open(flow)))
    }

    fn new(reactor: &Arc<Reactor>, number: u64, target: Option<Target>, phase: Phase) -> Arc<Self> {
        let link = Arc::new(Self {
            number,
            reactor: Arc::clone(reactor),
            // The program cannot write before a connection is open.
            is_drained: AtomicBool::new(matches!(phase, Phase::Opening(_))),
            phase: Serial::new(phase),
            target,
            is_closed: AtomicBool::new(false),
            has_news: AtomicBool::new(true),
            keeping: Keeping::new(),
        });
        reactor.keep(link.number, Arc::clone(&link));
        link
    }

    /// Returns the node that carries the connection.
    pub(crate) fn node(&self) -> &SharedNode {
        &self.reactor.node
    }

    /// Notes that the kernel has news about this library's end, and acts on them.
    pub(crate) fn on_news(self: Arc<Self>) {
        self.has_news.store(true, Ordering::Release);
        task::run(self);
    }

    /// Copies what came from the node to a call of the program.
    pub(crate) fn receive(self: &Arc<Self>, to: &mut Buffers<'_>) -> Passed {
        self.pass(|flow, cx| flow.receive(cx, self, to))
    }

    /// Sends bytes of a call of the program for its socket `fd`.
    pub(crate) fn transmit(self: &Arc<Self>, fd: c_int, bytes: &[u8]) -> Passed {
        self.pass(|flow, cx| flow.transmit(cx, fd, bytes))
    }

    /// Lets the program send through the kernel, until that is empty.
    pub(crate) fn leave_to_kernel(self: &Arc<Self>) {
        self.pass(|flow, _| {
            flow.is_kernels = true;
            Ok(Passed::None)
        });
    }

    fn pass(
        self: &Arc<Self>,
        pass: impl FnOnce(&mut Flow, &mut Context<'_>) -> io::Result<Passed>,
    ) -> Passed {
        let waker = Waker::from(Arc::clone(self));
        let mut cx = Context::from_waker(&waker);
        let passed = self.phase.with(
            |phase| match phase {
                Phase::Open(flow) => pass(flow, &mut cx),
                Phase::Opening(_) | Phase::Over => Ok(Passed::Kernel),
            },
            |phase| self.advance(phase),
        );
        passed.unwrap_or_else(|_| {
            // The next step meets the same error, and ends the connection.
            task::run(Arc::<Self>::clone(self));
            Passed::Kernel
        })
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
            match (flow.copy(&mut cx, self), &self.target) {
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
        self.keeping.release();
        direct::forget(self);
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
