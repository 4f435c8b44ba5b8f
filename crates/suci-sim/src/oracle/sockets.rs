//! Sockets: each connection carries its bytes and messages in order, once, and whole or with an
//! error at both ends.
//!
//! Bytes tell connection, direction and position. Client ports name connections at the server, and
//! no node uses one twice in a run. So the oracle knows:
//!
//! * A connection is accepted once, by the listener that it names, and never after its client gave
//!   it up.
//! * Bytes arrive in order and once, messages with their boundaries. No more is on its way than the
//!   greatest window.
//! * The end of a direction comes after all of its bytes, and only if the sender ended it.
//! * A connection fails only because of something that happened to one of its nodes or to the
//!   session between them, or because its client waited for too long.
//! * In the end no program waits, and no socket is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use suci_layers::sockets::{
    Address, ConnectionFailure, LOST_TIMEOUT, MAX_WINDOW, OPEN_TIMEOUT, RefusedCode, SocketKind,
};
use suci_proto::RefusedReason;
use suci_proto::time::{Duration, Instant};

use super::{Kind, Verdict, Violation, broken};
use crate::packet::ProcId;
use crate::rng::mix;
use crate::sockets::OFFERED;

/// Longest time for which a question that asks for the process of a node goes on.
const SHARED_QUESTION: Duration = Duration::from_secs(1);

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The one that opened it.
    Client,
    /// The one that accepted it.
    Server,
}

impl End {
    /// Returns the other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// A program's end of a connection of this number.
pub type Held = (usize, End);

/// Returns `length` bytes of the direction that `sender` sends, from a position on.
#[must_use]
pub fn content(sender: Held, position: u64, length: u64) -> Vec<u8> {
    let stream = mix((sender.0 as u64) << 1 | u64::from(sender.1 == End::Client));
    let byte = |at: u64| mix(stream ^ (at / 8)).to_le_bytes()[(at % 8) as usize];
    (position..position + length).map(byte).collect()
}

/// The direction that one end sends.
#[derive(Debug, Default)]
struct Direction {
    /// Lengths of its messages.
    messages: Vec<u64>,
    /// Bytes that the sender's layer accepted, and bytes that the receiver's program took.
    accepted: u64,
    received: u64,
    /// The message that arrives, and how much of it did.
    index: usize,
    position: u64,
    /// The sender's program shut it down or closed its socket.
    ended: bool,
}

#[derive(Debug)]
struct Connection {
    nodes: [u32; 2],
    target: u16,
    kind: SocketKind,
    began: Instant,
    /// The client's program closed it before it was open.
    given_up: bool,
    accepted: bool,
    /// By sender.
    directions: [Direction; 2],
    closed: [bool; 2],
}

/// A time in which a node knows that another one does not answer.
#[derive(Debug)]
struct Silence {
    /// The one that asks, and the one that is silent.
    nodes: [u32; 2],
    from: Instant,
    until: Option<Instant>,
}

/// A failure of which the reason may be known later.
#[derive(Debug)]
struct Failed {
    held: Held,
    failure: ConnectionFailure,
    at: Instant,
}

/// The oracle of the sockets of a run.
#[derive(Debug, Default)]
pub struct SocketOracle {
    connections: Vec<Connection>,
    /// Connections by client node and port.
    by_port: BTreeMap<(u32, u16), usize>,
    /// The last port of each node that was used.
    ports: BTreeMap<u32, u16>,
    failed: Vec<Failed>,
    /// Bytes that closed sockets dropped, by node.
    dropped: BTreeMap<u32, u64>,
    /// The ends that programs of living processes hold.
    open: BTreeSet<(ProcId, Held)>,
    /// Nodes whose session ended or was lost, or of which one was gone (then both are the same).
    troubles: Vec<(u32, u32, Instant)>,
    silences: Vec<Silence>,
    /// Starts (true) and ends of the processes of nodes, in order.
    lives: Vec<(u32, Instant, bool)>,
    /// Listeners that were closed.
    unheard: Vec<(u32, u16, Instant)>,
    /// A node asks for connections of which nothing is known here, and confirms none.
    has_silent: bool,
}

/// The oracle, as the programs of all processes share it.
#[derive(Clone, Debug, Default)]
pub struct SharedSocketOracle(Arc<Mutex<SocketOracle>>);

impl SharedSocketOracle {
    /// Locks it.
    pub fn lock(&self) -> MutexGuard<'_, SocketOracle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wrong(held: Held, text: impl std::fmt::Display) -> Violation {
    let (kind, (number, end)) = (Kind::Socket, held);
    let text = format!("connection {number}, {end:?}: {text}");
    Violation { kind, text }
}

impl SocketOracle {
    /// Returns a port that the node's programs did not use yet.
    pub fn next_port(&mut self, node: u32) -> u16 {
        let port = self.ports.entry(node).or_insert(1_000);
        *port += 1;
        *port
    }

    /// Notes that a program connects. Returns the number of the connection.
    pub fn connects(
        &mut self,
        (process, node): (ProcId, u32),
        port: u16,
        (to, target): (u32, u16),
        kind: SocketKind,
        now: Instant,
    ) -> usize {
        let number = self.connections.len();
        self.connections.push(Connection {
            nodes: [node, to],
            target,
            kind,
            began: now,
            given_up: false,
            accepted: false,
            directions: Default::default(),
            closed: [false; 2],
        });
        self.by_port.insert((node, port), number);
        self.open.insert((process, (number, End::Client)));
        number
    }

    /// Judges an accepted connection. Returns its number.
    ///
    /// # Errors
    /// The promise that broke.
    pub fn accepted(
        &mut self,
        (process, node): (ProcId, u32),
        port: u16,
        peer: Address,
    ) -> Result<usize, Violation> {
        let known = self.by_port.get(&(peer.node.0, peer.port)).copied();
        let Some((number, connection)) =
            known.and_then(|number| Some((number, self.connections.get_mut(number)?)))
        else {
            let text = format!("node {node} accepts {peer:?}, which did not connect");
            return Err(Violation {
                kind: Kind::Socket,
                text,
            });
        };
        let held = (number, End::Server);
        if connection.given_up {
            return Err(wrong(held, "accepted after its client gave it up"));
        }
        if connection.accepted || connection.nodes[1] != node || connection.target != port {
            return Err(wrong(held, "accepted twice, or by another listener"));
        }
        connection.accepted = true;
        self.open.insert((process, held));
        Ok(number)
    }

    /// Notes that a program begins a message of this length; the only one of a stream.
    pub fn begins(&mut self, held: Held, length: u64) {
        if let Some(direction) = self.direction(held) {
            direction.messages.push(length);
        }
    }

    /// Notes that the layer accepted bytes.
    ///
    /// # Errors
    /// More are on their way than the greatest window, or than that and the end of a message. A
    /// closed socket that sends the rest of its last message drops what comes, so that two of them
    /// do not wait for each other: what its node dropped is on its way no more.
    pub fn sent(&mut self, held: Held, bytes: u64) -> Verdict {
        let mut most = MAX_WINDOW;
        if let Some(connection) = self.connections.get(held.0) {
            let receiver = held.1.other() as usize;
            if connection.kind == SocketKind::Messages {
                most += OFFERED;
            }
            if connection.closed[receiver] {
                let dropped = self.dropped.get(&connection.nodes[receiver]);
                most += dropped.copied().unwrap_or_default();
            }
        }
        let Some(direction) = self.direction(held) else {
            return Ok(());
        };
        direction.accepted += bytes;
        let under_way = direction.accepted - direction.received;
        match under_way > most {
            true => Err(wrong(held, format_args!("{under_way} B are on their way"))),
            false => Ok(()),
        }
    }

    /// Notes that closed sockets of a node's process dropped so many bytes.
    pub fn drops(&mut self, node: u32, bytes: u64) {
        *self.dropped.entry(node).or_default() += bytes;
    }

    fn direction(&mut self, (number, sender): Held) -> Option<&mut Direction> {
        let connection = self.connections.get_mut(number)?;
        connection.directions.get_mut(sender as usize)
    }

    /// Judges bytes that a program took; `last` if they end a message.
    ///
    /// # Errors
    /// The promise that broke.
    pub fn received(&mut self, (number, end): Held, bytes: &[u8], last: bool) -> Verdict {
        let sender = (number, end.other());
        let kind = self.connections.get(number).map(|it| it.kind);
        let Some(direction) = self.direction(sender) else {
            return Ok(());
        };
        let length = bytes.len() as u64;
        let expected = content(sender, direction.received, length);
        if bytes != expected || direction.received + length > direction.accepted {
            let text = format!("wrong bytes from {} on", direction.received);
            return Err(wrong((number, end), text));
        }
        direction.received += length;
        direction.position += length;
        let message = direction.messages.get(direction.index).copied();
        let ends = kind == Some(SocketKind::Messages) && message == Some(direction.position);
        if message.is_none_or(|message| direction.position > message) || ends != last {
            let (at, index) = (direction.position, direction.index);
            let text = format!("{message:?} B of message {index}: end at {at} is {last}");
            return Err(wrong((number, end), text));
        }
        if last {
            direction.index += 1;
            direction.position = 0;
        }
        Ok(())
    }

    /// Judges the end of the direction towards a program.
    ///
    /// # Errors
    /// Bytes are missing, or the sender did not end it.
    pub fn ended(&mut self, (number, end): Held) -> Verdict {
        let Some(direction) = self.direction((number, end.other())) else {
            return Ok(());
        };
        let (got, all) = (direction.received, direction.accepted);
        match direction.ended && got == all {
            true => Ok(()),
            false => Err(wrong(
                (number, end),
                format_args!("end after {got} of {all} B"),
            )),
        }
    }

    /// Judges that nothing can be sent because the peer closed.
    ///
    /// # Errors
    /// It did not.
    pub fn broken_pipe(&mut self, (number, end): Held) -> Verdict {
        let closed = |it: &Connection| it.closed[end.other() as usize];
        match self.connections.get(number).is_none_or(closed) {
            true => Ok(()),
            false => Err(wrong((number, end), "broken pipe, but the peer is open")),
        }
    }

    /// Notes that a program ends the direction that it sends.
    pub fn shuts(&mut self, held: Held) {
        if let Some(direction) = self.direction(held) {
            direction.ended = true;
        }
    }

    /// Notes that a program closes its socket; `gives_up` if it was not open yet.
    pub fn closes(&mut self, process: ProcId, held: Held, gives_up: bool) {
        self.shuts(held);
        self.open.remove(&(process, held));
        if let Some(connection) = self.connections.get_mut(held.0) {
            connection.closed[held.1 as usize] = true;
            connection.given_up |= gives_up;
        }
    }

    /// Notes a failure that a program sees. It is judged when all is known.
    pub fn fails(&mut self, held: Held, failure: ConnectionFailure, at: Instant) {
        self.failed.push(Failed { held, failure, at });
    }

    /// Notes that a node asks for connections and confirms none.
    pub fn note_silent(&mut self) {
        self.has_silent = true;
    }

    /// Notes that a program closed the listener at a port.
    pub fn unheard(&mut self, node: u32, port: u16, now: Instant) {
        self.unheard.push((node, port, now));
    }

    /// Notes that a process heard of trouble with another node.
    pub fn trouble(&mut self, node: u32, other: u32, now: Instant) {
        let (low, high) = (node.min(other), node.max(other));
        self.troubles.push((low, high, now));
    }

    /// Notes that a process heard that another node does not answer.
    pub fn lost(&mut self, node: u32, other: u32, now: Instant) {
        self.silences.push(Silence {
            nodes: [node, other],
            from: now,
            until: None,
        });
    }

    /// Notes that a process heard from another node.
    pub fn up(&mut self, node: u32, other: u32, now: Instant) {
        self.end_silences(|nodes| nodes == [node, other], now);
    }

    fn end_silences(&mut self, which: impl Fn([u32; 2]) -> bool, now: Instant) {
        let ended = |it: &&mut Silence| it.until.is_none() && which(it.nodes);
        for silence in self.silences.iter_mut().filter(ended) {
            silence.until = Some(now);
        }
    }

    /// Notes that a process of a node starts.
    pub fn process_started(&mut self, node: u32, now: Instant) {
        self.lives.push((node, now, true));
    }

    /// Notes that a process is gone, or closes.
    pub fn process_stopped(&mut self, process: ProcId, node: u32, now: Instant) {
        self.lives.push((node, now, false));
        self.troubles.push((node, node, now));
        self.end_silences(|nodes| nodes[0] == node, now);
        self.open.retain(|(of, _)| *of != process);
    }

    /// Returns the connections that were accepted, and the ends that failed.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let accepted = self.connections.iter().filter(|it| it.accepted);
        (accepted.count() as u64, self.failed.len() as u64)
    }

    /// Returns true if no program holds a socket.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.open.is_empty()
    }

    /// Judges the failures, and that no program waits.
    ///
    /// # Errors
    /// The promise that broke.
    pub fn finish(&self) -> Verdict {
        if let Some((process, held)) = self.open.first() {
            let connection = self.connections.get(held.0);
            return Err(wrong(
                *held,
                format_args!("process {process} waits for ever: {connection:?}"),
            ));
        }
        let unexplained = self.failed.iter().find(|failed| !self.explains(failed));
        let Some(failed) = unexplained else {
            return Ok(());
        };
        let connection = self.connections.get(failed.held.0);
        let text = format!(
            "{:?} at {:?} without a reason: {connection:?}",
            failed.failure, failed.at
        );
        Err(wrong(failed.held, text))
    }

    /// Returns true if a placeholder of the connection may have given way to one of another node.
    fn gives_way(&self, connection: &Connection) -> bool {
        let competes = |other: &Connection| {
            let same = (other.nodes[1], other.target) == (connection.nodes[1], connection.target);
            same && other.nodes[0] != connection.nodes[0]
        };
        !connection.accepted && (self.has_silent || self.connections.iter().any(competes))
    }

    /// Returns true if no process of a node ran at `at` or shortly before: a connection shares the
    /// question that an earlier one asked.
    fn was_absent(&self, node: u32, at: Instant) -> bool {
        let until = self.lives.iter().take_while(|(_, noted, _)| *noted <= at);
        let last = until.filter(|(of, ..)| *of == node).last();
        !last.is_some_and(|(_, noted, starts)| *starts && at.since(*noted) > SHARED_QUESTION)
    }

    /// Returns true if the process of a node closed at some time from `from` to `until`, or had
    /// begun to before: its listeners go first.
    fn was_closing(&self, node: u32, from: Instant, until: Instant) -> bool {
        let known = self.lives.iter().filter(|(of, ..)| *of == node);
        let stops_within =
            |&(_, at, starts): &(u32, Instant, bool)| !starts && (from..=until).contains(&at);
        let last = known.clone().take_while(|(_, at, _)| *at <= from).last();
        known.clone().any(stops_within) || last.is_some_and(|(.., starts)| !starts)
    }

    /// Returns true if the client's node knew that the other one does not answer, before the
    /// connection began and for all the time that it has then.
    fn was_silent(&self, connection: &Connection) -> bool {
        let end = connection.began + LOST_TIMEOUT;
        self.silences.iter().any(|it| {
            let lasted = it.until.is_none_or(|until| until >= end);
            it.nodes == connection.nodes && it.from <= connection.began && lasted
        })
    }

    /// Returns true if something happened that explains a failure.
    fn explains(&self, failed: &Failed) -> bool {
        let Some(connection) = self.connections.get(failed.held.0) else {
            return true;
        };
        let nodes = connection.nodes;
        let unheard = |&(node, port, at): &(u32, u16, Instant)| {
            // A restarted process listens again at once, so this is about listeners alone.
            node == nodes[1] && port == connection.target && at <= failed.at
        };
        let unheard = || !connection.accepted && self.unheard.iter().any(unheard);
        let troubled = |&(low, high, at): &(u32, u32, Instant)| {
            let concerned = nodes.contains(&low) && nodes.contains(&high);
            concerned && at >= connection.began
        };
        let troubled = || self.troubles.iter().any(troubled);
        match failed.failure {
            ConnectionFailure::Refused(RefusedCode::BacklogFull) => true,
            ConnectionFailure::Refused(RefusedCode::NoListener) => {
                let closes = || self.was_closing(nodes[1], connection.began, failed.at);
                unheard() || (!connection.accepted && closes())
            }
            ConnectionFailure::TimedOut => {
                let waited = |time| failed.at >= connection.began + time;
                let silent = || waited(LOST_TIMEOUT) && self.was_silent(connection);
                waited(OPEN_TIMEOUT) || troubled() || silent()
            }
            ConnectionFailure::Reset => {
                // The placeholder's time may be over, too.
                let late = !connection.accepted && failed.at >= connection.began + OPEN_TIMEOUT;
                late || unheard() || troubled() || self.gives_way(connection)
            }
            ConnectionFailure::NoProcess => {
                troubled() || self.was_absent(nodes[1], connection.began)
            }
            ConnectionFailure::Unreachable => troubled(),
            // The other node does not know yet that an earlier process of this one ended.
            ConnectionFailure::Rejected(RefusedReason::DuplicateNode) => {
                let restarted = |&(low, high, at): &(u32, u32, Instant)| {
                    low == high && nodes.contains(&low) && at <= failed.at
                };
                self.troubles.iter().any(restarted)
            }
            _ => false,
        }
    }
}

/// Checks that nothing is left of the sockets of a process but its listeners.
///
/// # Errors
/// Something is.
pub fn check_left(node: u32, (sockets, promised): (usize, u64)) -> Verdict {
    if (sockets, promised) == (0, 0) {
        return Ok(());
    }
    let text = format!("node {node}: {sockets} sockets and {promised} B are left");
    broken(Kind::Socket, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A listener that stays is no reason to refuse; a process that closes is one.
    #[test]
    fn only_a_closed_listener_or_process_refuses() {
        let at = |seconds: u64| Instant::ZERO + Duration::from_secs(seconds);
        let refused = |starts: &[u64], stops: &[u64], failed: u64| {
            let mut oracle = SocketOracle::default();
            let mut lives: Vec<_> = starts.iter().map(|second| (*second, true)).collect();
            lives.extend(stops.iter().map(|second| (*second, false)));
            lives.sort_unstable();
            for (second, starts) in lives {
                oracle.lives.push((2, at(second), starts));
            }
            let connection = oracle.connects((0, 1), 1_001, (2, 7), SocketKind::Stream, at(10));
            let held = (connection, End::Client);
            let failure = ConnectionFailure::Refused(RefusedCode::NoListener);
            oracle.closes(0, held, true);
            oracle.fails(held, failure, at(failed));
            oracle.finish().is_ok()
        };
        assert!(!refused(&[1], &[], 12), "it listens");
        assert!(!refused(&[1, 6], &[5], 12), "the next process listens");
        assert!(!refused(&[1], &[13], 12), "not yet");
        assert!(refused(&[1], &[11], 12), "closed meanwhile");
        assert!(refused(&[1], &[9], 12), "closing before");
    }
}
