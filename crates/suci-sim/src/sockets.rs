//! Programs with sockets: each listens, connects to others, sends, reads, and closes in one of
//! several manners.
//!
//! The program of one node may ask for connections only, and never confirm them.
//!
//! A program looks at a socket only when the layer says that it changed, or when a time of its own
//! has come. So a change of which nobody is told leaves a program that waits for ever.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use suci_layers::sockets::{
    AcceptError, Address, ConnectionFailure, MIN_WINDOW, Packet, Received, SendRefused,
    SharedSockets, SocketId, SocketKind, SocketService, Sockets, channel,
};
use suci_proto::time::{Duration, Instant, nanos};
use suci_proto::types::NodeId;
use suci_proto::{Engine, Event, Outgoing, Port};

use crate::options::SocketPlan;
use crate::oracle::sockets::{End, SharedSocketOracle, check_left, content};
use crate::oracle::{Kind, Verdict, Violation, broken};
use crate::packet::ProcId;
use crate::rng::Rng;

/// The ports of the two listeners of each node.
const LISTENERS: [(u16, SocketKind); 2] = [(7, SocketKind::Messages), (8, SocketKind::Stream)];

/// Longest message. Sizes are drawn so that each power of two is as likely as the next.
const LONGEST: u64 = 300_000;

/// Bytes that one call offers at most.
pub const OFFERED: u64 = 100_000;

/// Connections with each listener that a silent node asks for at once, at most.
const ASKED: usize = 10;

/// The wait after a last connection failed.
const RETRY: Duration = Duration::from_millis(100);

/// The table, which no thread shares. It notes what each single change does.
#[derive(Debug, Default)]
struct Table {
    sockets: RefCell<Sockets>,
    /// Sockets that changed, and those that were open at some time.
    changed: RefCell<BTreeSet<SocketId>>,
    opened: RefCell<BTreeSet<SocketId>>,
}

impl SharedSockets for Table {
    fn serve<T>(&self, change: impl FnOnce(&mut Sockets) -> T) -> T {
        let mut sockets = self.sockets.borrow_mut();
        let result = change(&mut sockets);
        while let Some(id) = sockets.poll_changed() {
            self.changed.borrow_mut().insert(id);
            if sockets.status(id) == Some(Ok(())) {
                self.opened.borrow_mut().insert(id);
            }
        }
        result
    }
}

impl Table {
    /// Returns true if the layer ever had the socket open, whether or not its program saw that.
    fn was_open(&self, id: SocketId) -> bool {
        self.opened.borrow().contains(&id)
    }
}

/// How a program ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Ends its direction after its last message, and closes after the end of the other one.
    Orderly,
    /// Closes after its last message.
    Closes,
    /// Closes at this time, whatever happens then.
    Abandons(Instant),
}

/// One end of a connection.
#[derive(Debug)]
struct HeldSocket {
    number: usize,
    end: End,
    kind: SocketKind,
    manner: Manner,
    /// Messages to send.
    left: u32,
    /// Length of the message under way, and how much of it is sent.
    message: Option<(u64, u64)>,
    /// Bytes of the direction that were sent.
    sent: u64,
    was_open: bool,
    shut: bool,
    got_end: bool,
    /// The pause after each part that is read.
    pause: Duration,
    /// The end of the present pause.
    reads_at: Option<Instant>,
    /// The node to which it is the last connection of this process.
    last_to: Option<u32>,
}

/// The result of a look at a socket.
enum Look {
    Keep,
    Close,
}

/// A listener, or a port at which one is to be opened again.
#[derive(Debug)]
struct Listening {
    port: u16,
    kind: SocketKind,
    id: Option<SocketId>,
    /// When it is closed, or opened again.
    changes_at: Option<Instant>,
}

/// The sockets of one process.
#[derive(Debug)]
pub struct SocketProgram {
    process: ProcId,
    node: u32,
    /// The node that confirms and answers nothing, if there is one: this one has no sockets then.
    silent: Option<u32>,
    table: Table,
    service: SocketService,
    oracle: SharedSocketOracle,
    plan: SocketPlan,
    rng: Rng,
    listeners: Vec<Listening>,
    sockets: BTreeMap<SocketId, HeldSocket>,
    /// Sockets that changed.
    ready: BTreeSet<SocketId>,
    /// Connections to open.
    left: u32,
    next_at: Instant,
    /// Nodes to which a last connection must succeed, and when it is tried.
    last: BTreeMap<u32, Instant>,
    /// Faults are over: it makes haste.
    hurries: bool,
    /// The process closes.
    closing: bool,
    /// Bytes that its closed sockets dropped, as the oracle was told.
    dropped: u64,
}

impl SocketProgram {
    /// Returns the program of a process and its node; `silent` is the node that confirms nothing.
    #[must_use]
    pub fn new(
        (process, node): (ProcId, u32),
        silent: Option<u32>,
        seed: u64,
        plan: SocketPlan,
        oracle: SharedSocketOracle,
        now: Instant,
    ) -> Self {
        let mut program = Self {
            process,
            node,
            silent,
            table: Table::default(),
            service: SocketService::default(),
            oracle,
            plan,
            rng: Rng::new(seed, 0x7000 + u64::from(process)),
            listeners: Vec::new(),
            sockets: BTreeMap::new(),
            ready: BTreeSet::new(),
            left: plan.connections,
            next_at: now,
            last: BTreeMap::new(),
            hurries: false,
            closing: false,
            dropped: 0,
        };
        program.oracle.lock().process_started(node, now);
        if program.is_silent() {
            program.oracle.lock().note_silent();
            return program;
        }
        for (port, kind) in LISTENERS {
            let id = program.listen(port, kind);
            let closes = program.rng.chance(plan.closes_listener);
            let changes_at = closes.then(|| now + program.wait());
            program.listeners.push(Listening {
                port,
                kind,
                id,
                changes_at,
            });
        }
        program
    }

    fn is_silent(&self) -> bool {
        self.silent == Some(self.node)
    }

    /// Returns a pause of the program.
    fn wait(&mut self) -> Duration {
        Duration::from_nanos(self.rng.scale(1_000, nanos(self.plan.gap).max(2_000)))
    }

    fn listen(&mut self, port: u16, kind: SocketKind) -> Option<SocketId> {
        let backlog = self.rng.index(1, self.plan.backlog + 1);
        // There are far fewer sockets than a table may have.
        self.table
            .serve(|table| table.listen(port, kind, backlog))
            .ok()
    }

    /// Opens no more connections but one last to each of `nodes`, and makes haste.
    pub fn wind_up(&mut self, now: Instant, nodes: &[u32]) {
        self.hurries = true;
        if self.is_silent() {
            // Others succeed all the same.
            (self.left, self.next_at) = (1, now);
            return;
        }
        self.left = 0;
        let answering = nodes.iter().filter(|node| Some(**node) != self.silent);
        self.last = answering.map(|node| (*node, now)).collect();
        for listener in &mut self.listeners {
            let closed = listener.id.is_none();
            listener.changes_at = closed.then_some(now);
        }
        for (id, socket) in &mut self.sockets {
            socket.pause = Duration::ZERO;
            socket.reads_at = None;
            if let Manner::Abandons(_) = socket.manner {
                socket.manner = Manner::Orderly;
            }
            self.ready.insert(*id);
        }
    }

    /// Ends all sockets, since the process closes.
    pub fn close(&mut self, engine: &mut Engine, now: Instant) {
        self.closing = true;
        self.oracle
            .lock()
            .process_stopped(self.process, self.node, now);
        self.table.serve(Sockets::give_up);
        self.serve(engine, now);
    }

    /// Notes an event of the engine.
    pub fn event(&self, event: &Event, now: Instant) {
        let mut oracle = self.oracle.lock();
        match event {
            Event::Up { node, .. } => oracle.up(self.node, node.0, now),
            Event::Ended { node, .. } => oracle.trouble(self.node, node.0, now),
            Event::Lost { node, .. } => {
                oracle.trouble(self.node, node.0, now);
                oracle.lost(self.node, node.0, now);
            }
            _ => {}
        }
    }

    /// Returns true if it has said its last word.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let said = self.left == 0 && self.last.is_empty() && self.sockets.is_empty();
        self.closing || said && self.count_left() == (0, 0)
    }

    /// Returns the sockets in the table beside listeners, and the bytes promised to peers.
    fn count_left(&self) -> (usize, u64) {
        let listeners = self.listeners.iter().filter(|it| it.id.is_some()).count();
        let table = self.table.sockets.borrow();
        (table.count() - listeners, table.promised())
    }

    /// Returns the time at which it has something to do.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Instant> {
        if self.closing {
            return None;
        }
        let own = (self.left > 0).then_some(self.next_at);
        let sockets = self.sockets.values().filter_map(|socket| {
            let abandons = match socket.manner {
                Manner::Abandons(at) => Some(at),
                _ => None,
            };
            abandons.into_iter().chain(socket.reads_at).min()
        });
        let listeners = self.listeners.iter().filter_map(|it| it.changes_at);
        own.into_iter()
            .chain(sockets)
            .chain(listeners)
            .chain(self.last.values().copied())
            .min()
    }

    /// Returns the time at which the layer has something to do.
    #[must_use]
    pub fn serves_at(&self) -> Option<Instant> {
        self.service.due()
    }

    /// Serves the layer, as a driver does before it sends.
    pub fn serve(&mut self, engine: &mut Engine, now: Instant) {
        if self.is_silent() {
            while engine.poll_port(Port::Sockets).is_some() {}
            return;
        }
        let left = self.table.serve(|table| table.has_output());
        if left || self.service.has_work(engine, now) {
            // A driver stops after a while and goes on in its next cycle.
            let mut turns = self.rng.range(1, 40);
            self.service.serve(&self.table, engine, now, || {
                turns = turns.saturating_sub(1);
                turns > 0
            });
        }
        self.ready.append(&mut self.table.changed.borrow_mut());
        let dropped = self.table.serve(|table| table.dropped());
        let more = dropped - core::mem::replace(&mut self.dropped, dropped);
        self.oracle.lock().drops(self.node, more);
    }

    /// Does what is due, as a program does.
    ///
    /// # Errors
    /// The promise that broke.
    pub fn run(&mut self, engine: &mut Engine, now: Instant, nodes: &[u32]) -> Verdict {
        if self.closing {
            return Ok(());
        }
        if self.is_silent() {
            self.ask(engine, now, nodes);
            return Ok(());
        }
        self.change_listeners(now);
        self.connect_some(now, nodes);
        for (id, socket) in &mut self.sockets {
            if socket.reads_at.is_some_and(|at| at <= now) {
                socket.reads_at = None;
                self.ready.insert(*id);
            }
            if matches!(socket.manner, Manner::Abandons(at) if at <= now) {
                self.ready.insert(*id);
            }
        }
        for id in core::mem::take(&mut self.ready) {
            if self.listeners.iter().any(|it| it.id == Some(id)) {
                self.accept(id, now)?;
            } else if let Some(mut socket) = self.sockets.remove(&id) {
                match self.look(id, &mut socket, now)? {
                    Look::Keep => {
                        self.sockets.insert(id, socket);
                    }
                    Look::Close => self.close_socket(id, &socket, now),
                }
            }
        }
        self.serve(engine, now);
        match self.table.serve(|table| table.malformed()) {
            0 => Ok(()),
            _ => broken(
                Kind::Socket,
                "a peer sent what its connection does not permit",
            ),
        }
    }

    /// Asks each node for connections, if it is time. A silent node does.
    fn ask(&mut self, engine: &mut Engine, now: Instant, nodes: &[u32]) {
        if self.left == 0 || self.next_at > now {
            return;
        }
        self.left -= 1;
        self.next_at = now + self.wait();
        let asked = self.plan.backlog.min(ASKED) as u64;
        for node in nodes.iter().filter(|node| **node != self.node) {
            for (number, (target, kind)) in (0..asked).flat_map(|it| LISTENERS.map(|to| (it, to))) {
                let from = SocketId(u64::from(self.left) * ASKED as u64 + number);
                let (kind, tag, user_header) = Packet::Open {
                    from,
                    source: 1,
                    target,
                    kind,
                    window: MIN_WINDOW,
                }
                .write();
                let open = Outgoing {
                    channel: channel(from),
                    tag,
                    kind,
                    user_header,
                    payload: Bytes::new(),
                    notify: false,
                    token: 0,
                    deadline: None,
                };
                // A question that finds no room is not asked.
                let _ = engine.send(now, NodeId(*node), open);
            }
        }
    }

    /// Checks that nothing is left but the listeners.
    ///
    /// # Errors
    /// Something is.
    pub fn check_left(&self) -> Verdict {
        match self.closing {
            true => Ok(()),
            false => check_left(self.node, self.count_left()),
        }
    }

    fn change_listeners(&mut self, now: Instant) {
        for index in 0..self.listeners.len() {
            let Some(listener) = self.listeners.get(index) else {
                continue;
            };
            if listener.changes_at.is_none_or(|at| at > now) {
                continue;
            }
            let (port, kind) = (listener.port, listener.kind);
            let (id, changes_at) = match listener.id {
                Some(id) => {
                    self.table.serve(|table| table.close(id));
                    self.oracle.lock().unheard(self.node, port, now);
                    (None, Some(now + self.wait()))
                }
                None => {
                    let again = !self.hurries && self.rng.chance(500_000);
                    let at = again.then(|| now + self.wait());
                    (self.listen(port, kind), at)
                }
            };
            if let Some(listener) = self.listeners.get_mut(index) {
                (listener.id, listener.changes_at) = (id, changes_at);
            }
        }
    }

    fn accept(&mut self, listener: SocketId, now: Instant) -> Verdict {
        let port = self.listeners.iter().find(|it| it.id == Some(listener));
        let Some((port, kind)) = port.map(|it| (it.port, it.kind)) else {
            return Ok(());
        };
        loop {
            let accepted = self.table.serve(|table| table.accept(listener));
            let (id, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(AcceptError::Pending) => return Ok(()),
                Err(AcceptError::NotListening) => {
                    return broken(Kind::Socket, "a listener does not listen");
                }
            };
            let own = (self.process, self.node);
            let number = self.oracle.lock().accepted(own, port, peer)?;
            let mut socket = self.socket((number, End::Server), kind, now);
            socket.was_open = true;
            self.sockets.insert(id, socket);
            self.ready.insert(id);
        }
    }

    /// Draws what a program does with a connection.
    fn socket(
        &mut self,
        (number, end): (usize, End),
        kind: SocketKind,
        now: Instant,
    ) -> HeldSocket {
        let manner = match self.rng.range(0, 100) {
            _ if self.hurries => Manner::Orderly,
            0..60 => Manner::Orderly,
            60..85 => Manner::Closes,
            _ => Manner::Abandons(now + self.wait()),
        };
        let slow = !self.hurries && self.rng.chance(self.plan.slow);
        let left = match kind {
            SocketKind::Messages => self.rng.range(0, u64::from(self.plan.messages) + 1),
            SocketKind::Stream => self.rng.range(0, 2),
        };
        HeldSocket {
            number,
            end,
            kind,
            manner,
            left: u32::try_from(left).unwrap_or(1),
            message: None,
            sent: 0,
            was_open: false,
            shut: false,
            got_end: false,
            pause: if slow { self.wait() } else { Duration::ZERO },
            reads_at: None,
            last_to: None,
        }
    }

    /// Opens the connections that are due.
    fn connect_some(&mut self, now: Instant, nodes: &[u32]) {
        if self.left > 0 && self.next_at <= now {
            let burst = self.rng.range(1, u64::from(self.plan.burst) + 1);
            for _ in 0..burst.min(u64::from(self.left)) {
                let to = nodes.get(self.rng.index(0, nodes.len())).copied();
                self.connect(to.unwrap_or(self.node), None, now);
                self.left -= 1;
            }
            self.next_at = now + self.wait();
        }
        let due = self.last.iter().filter(|(_, at)| **at <= now);
        let due: Vec<_> = due.map(|(node, _)| *node).collect();
        for node in due {
            self.last.remove(&node);
            self.connect(node, Some(node), now);
        }
    }

    fn connect(&mut self, to: u32, last_to: Option<u32>, now: Instant) {
        let (target, kind) = self.rng.pick(&LISTENERS);
        let port = self.oracle.lock().next_port(self.node);
        let peer = Address {
            node: NodeId(to),
            port: target,
        };
        let opened = self
            .table
            .serve(|table| table.connect(now, port, peer, kind));
        // There are far fewer sockets than a table may have.
        let Ok(id) = opened else { return };
        let own = (self.process, self.node);
        let number = self
            .oracle
            .lock()
            .connects(own, port, (to, target), kind, now);
        let mut socket = self.socket((number, End::Client), kind, now);
        socket.last_to = last_to;
        self.sockets.insert(id, socket);
    }

    fn close_socket(&mut self, id: SocketId, socket: &HeldSocket, now: Instant) {
        self.table.serve(|table| table.close(id));
        let held = (socket.number, socket.end);
        let gives_up = !socket.was_open && !self.table.was_open(id);
        self.oracle.lock().closes(self.process, held, gives_up);
        if let Some(node) = socket.last_to.filter(|_| !socket.got_end) {
            self.last.insert(node, now + RETRY);
        }
    }

    /// Reads, sends and ends as the socket allows.
    fn look(
        &mut self,
        id: SocketId,
        socket: &mut HeldSocket,
        now: Instant,
    ) -> Result<Look, Violation> {
        let held = (socket.number, socket.end);
        if let Manner::Abandons(at) = socket.manner
            && at <= now
        {
            return Ok(Look::Close);
        }
        match self.table.serve(|table| table.status(id)) {
            None => return Ok(Look::Keep),
            Some(Ok(())) => socket.was_open = true,
            Some(Err(failure)) if !socket.was_open => {
                self.oracle.lock().fails(held, failure, now);
                return Ok(Look::Close);
            }
            Some(Err(_)) => {}
        }
        if let Look::Close = self.read(id, socket, now)? {
            return Ok(Look::Close);
        }
        self.send(id, socket, now)?;
        if socket.left > 0 || socket.message.is_some() {
            return Ok(Look::Keep);
        }
        if socket.manner == Manner::Closes {
            return Ok(Look::Close);
        }
        if !socket.shut && socket.manner == Manner::Orderly {
            socket.shut = true;
            // It may have failed, which the program reads then.
            let done = self.table.serve(|table| table.shutdown(id));
            if done.is_ok() {
                self.oracle.lock().shuts(held);
            }
        }
        match socket.got_end && socket.shut {
            true => Ok(Look::Close),
            false => Ok(Look::Keep),
        }
    }

    /// Takes what arrived: all, or one part if the program is slow.
    fn read(
        &mut self,
        id: SocketId,
        socket: &mut HeldSocket,
        now: Instant,
    ) -> Result<Look, Violation> {
        let held = (socket.number, socket.end);
        while !socket.got_end && socket.reads_at.is_none() {
            match self.table.serve(|table| table.take(id)) {
                Ok(Received::Data { bytes, last }) => {
                    self.oracle.lock().received(held, &bytes, last)?;
                    socket.reads_at = (!socket.pause.is_zero()).then(|| now + socket.pause);
                }
                Ok(Received::End) => {
                    self.oracle.lock().ended(held)?;
                    socket.got_end = true;
                }
                // It looks again when the layer says so.
                Ok(Received::Pending) => break,
                Err(failure) => {
                    self.oracle.lock().fails(held, failure, now);
                    return Ok(Look::Close);
                }
            }
        }
        Ok(Look::Keep)
    }

    /// Sends as much as there is room for.
    fn send(&mut self, id: SocketId, socket: &mut HeldSocket, now: Instant) -> Verdict {
        let held = (socket.number, socket.end);
        while !socket.shut {
            let (length, done) = match socket.message {
                Some(message) => message,
                None if socket.left == 0 => return Ok(()),
                None => {
                    socket.left -= 1;
                    // Only a message may be empty.
                    let least = u64::from(socket.kind == SocketKind::Stream);
                    let length = (self.rng.scale(1, LONGEST) - 1).max(least);
                    self.oracle.lock().begins(held, length);
                    (length, 0)
                }
            };
            let offered = (length - done).min(OFFERED);
            let is_last = socket.kind == SocketKind::Messages && done + offered == length;
            let bytes = content(held, socket.sent, offered);
            socket.message = Some((length, done));
            match self.table.serve(|table| table.send(id, &bytes, is_last)) {
                Ok(accepted) => {
                    let accepted = accepted as u64;
                    self.oracle.lock().sent(held, accepted)?;
                    socket.sent += accepted;
                    let done = done + accepted;
                    socket.message = (done < length).then_some((length, done));
                }
                Err(SendRefused::Full) => return Ok(()),
                Err(SendRefused::Failed(failure)) => {
                    match failure {
                        ConnectionFailure::BrokenPipe => self.oracle.lock().broken_pipe(held)?,
                        failure => self.oracle.lock().fails(held, failure, now),
                    }
                    (socket.left, socket.message) = (0, None);
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use suci_proto::types::{SessionNumber, Source};
    use suci_proto::{Message, PortInput};

    use super::*;

    /// Carries the messages of one node's table to the other one.
    fn carry(from: (&Table, u32), to: &Table) {
        let mut messages = Vec::new();
        from.0.serve(|sockets| {
            sockets.transmit(|_, outgoing| {
                messages.push(outgoing.clone());
                true
            });
        });
        for (number, outgoing) in (0..).zip(messages) {
            let message = Message {
                channel: outgoing.channel,
                number,
                tag: outgoing.tag,
                kind: outgoing.kind,
                user_header: outgoing.user_header,
                payload: outgoing.payload.into(),
            };
            let (node, session) = (NodeId(from.1), SessionNumber(0));
            let input = PortInput::Message(Source { node, session }, message);
            to.serve(|sockets| sockets.on_input(Instant::ZERO, input));
        }
    }

    /// The layer opens a connection and loses it again before its program looks: the server may
    /// still accept it.
    #[test]
    fn a_connection_that_was_open_for_a_moment_was_not_given_up() {
        let (client, server) = (Table::default(), Table::default());
        let kind = SocketKind::Messages;
        let peer = Address {
            node: NodeId(2),
            port: 7,
        };
        server.serve(|table| table.listen(7, kind, 1)).unwrap();
        let connect = |table: &mut Sockets| table.connect(Instant::ZERO, 1_001, peer, kind);
        let id = client.serve(connect).unwrap();
        carry((&client, 1), &server);
        assert!(!client.was_open(id), "not answered yet");
        carry((&server, 2), &client);
        client.serve(|table| table.on_unknown(NodeId(2)));
        let status = client.serve(|table| table.status(id));
        assert!(matches!(status, Some(Err(_))), "{status:?}");
        assert!(client.was_open(id));
    }
}
