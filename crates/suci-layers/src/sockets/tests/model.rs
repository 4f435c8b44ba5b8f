//! An exhaustive model: two nodes and their programs, in every order of their steps.
//!
//! A state has both tables, the messages on their way, and what both programs know. From each state
//! every possible step is tried: a call of a program, the arrival of the next message of a channel,
//! the end of the session, which each side hears of at its own time, a peer that does not answer, a
//! time that is over. States that were seen before end a branch.

use super::super::plant::{self, Fault};
use super::super::table::view::View;
use super::super::{
    Address, ConnectionFailure, MEMORY, MIN_WINDOW, Packet, Readiness, Received, SendRefused,
    SocketId, SocketKind, Sockets, channel,
};
use super::pair::source;
use bytes::Bytes;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use suci_proto::time::Instant;
use suci_proto::types::{ChannelId, NodeId, SessionNumber};
use suci_proto::{Data, EndReason, LostCause, Message, Outgoing, PortInput};

/// The result of [`Sockets::status`].
type Status = Option<Result<(), ConnectionFailure>>;

const PORT: u16 = 7;
const FIRST_CLIENT_PORT: u16 = 100;
const NOW: Instant = Instant::from_nanos(0);

/// The steps that programs may do in a run, and those that may happen to them.
#[derive(Clone, Copy, Debug, Default)]
struct Scenario {
    /// Connections that each side opens.
    connects: [u8; 2],
    /// Which side listens.
    listens: [bool; 2],
    backlog: usize,
    /// Messages that each end of a connection sends.
    sends: u8,
    /// Their length in bytes, 3 at least.
    length: usize,
    /// Windows are as small as they can be.
    scarce: bool,
    /// Programs may end their direction before they close.
    shutdown: bool,
    /// Listeners may be closed at any time.
    closes_listener: bool,
    /// How often the session may end.
    losses: u8,
    /// How often a peer may seem not to answer.
    silences: u8,
    /// The time of an attempt may be over.
    timeouts: bool,
}

/// A socket as its program knows it. It stays in the list when it was closed.
#[derive(Clone, Debug)]
struct Held {
    id: SocketId,
    /// The port of the client, which names the connection on both sides.
    tag: u16,
    client: bool,
    sent: u8,
    received: u8,
    /// Bytes of the next message.
    partial: usize,
    was_open: bool,
    shut: bool,
    closed: bool,
}

#[derive(Clone, Debug, Default)]
struct Program {
    listener: Option<SocketId>,
    sockets: Vec<Held>,
    connects: u8,
}

#[derive(Clone, Debug)]
struct State {
    tables: [Sockets; 2],
    programs: [Program; 2],
    /// Messages to each side by channel, each with the session in which it was sent.
    net: [BTreeMap<ChannelId, VecDeque<(u8, Outgoing)>>; 2],
    /// The session as each side knows it.
    session: [u8; 2],
    losses: u8,
    silences: u8,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Connect(usize),
    CloseListener(usize),
    Accept(usize),
    Send(usize, usize),
    Shutdown(usize, usize),
    Take(usize, usize),
    Close(usize, usize),
    Transmit(usize),
    Deliver(usize, ChannelId),
    Lose,
    Hear(usize),
    Silence(usize),
    Timeout(usize),
}

const fn node(side: usize) -> NodeId {
    NodeId(side as u32)
}

impl Scenario {
    /// Returns the bytes that are promised to others.
    const fn promised(&self) -> u64 {
        match self.scarce {
            true => MEMORY / 2,
            false => 0,
        }
    }

    fn message(&self, tag: u16, client: bool, number: u8) -> Vec<u8> {
        let mut bytes = vec![tag as u8, u8::from(client), number];
        bytes.resize(self.length, 0);
        bytes
    }
}

impl State {
    fn new(scenario: &Scenario) -> Self {
        let mut state = Self {
            tables: [Sockets::new(), Sockets::new()],
            programs: [Program::default(), Program::default()],
            net: [BTreeMap::new(), BTreeMap::new()],
            session: [0; 2],
            losses: 0,
            silences: 0,
        };
        for side in 0..2 {
            state.tables[side].memory.promised = scenario.promised();
            if scenario.listens[side] {
                let table = &mut state.tables[side];
                let listener = table.listen(PORT, SocketKind::Messages, scenario.backlog);
                state.programs[side].listener = Some(listener.unwrap());
            }
        }
        state
    }

    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        format!("{self:?}").hash(&mut hasher);
        hasher.finish()
    }

    /// Returns true if no message is on its way and no news is left.
    fn is_quiet(&self) -> bool {
        let sent = |side: usize| !self.tables[side].has_output() && self.net[side].is_empty();
        sent(0) && sent(1) && self.session[0] == self.session[1]
    }

    fn steps(&self, scenario: &Scenario) -> Vec<Step> {
        let mut steps = Vec::new();
        for side in 0..2 {
            let (program, table) = (&self.programs[side], &self.tables[side]);
            if program.connects < scenario.connects[side] {
                steps.push(Step::Connect(side));
            }
            if let Some(listener) = program.listener {
                if table.readiness(listener).readable {
                    steps.push(Step::Accept(side));
                }
                if scenario.closes_listener {
                    steps.push(Step::CloseListener(side));
                }
            }
            for (index, held) in program.sockets.iter().enumerate() {
                self.steps_of(scenario, side, index, held, &mut steps);
            }
            if table.has_output() {
                steps.push(Step::Transmit(side));
            }
            let due = |(session, _): &(u8, Outgoing)| *session <= self.session[side];
            let heads = self.net[side].iter();
            let due = heads.filter(|(_, queue)| queue.front().is_some_and(due));
            steps.extend(due.map(|(channel, _)| Step::Deliver(side, *channel)));
            if self.session[side] < self.losses {
                steps.push(Step::Hear(side));
            }
            if self.silences < scenario.silences {
                steps.push(Step::Silence(side));
            }
            if scenario.timeouts && table.next_timeout().is_some() {
                steps.push(Step::Timeout(side));
            }
        }
        if self.losses < scenario.losses {
            steps.push(Step::Lose);
        }
        steps
    }

    fn steps_of(
        &self,
        scenario: &Scenario,
        side: usize,
        index: usize,
        held: &Held,
        steps: &mut Vec<Step>,
    ) {
        if held.closed {
            return;
        }
        steps.push(Step::Close(side, index));
        let table = &self.tables[side];
        let ready = table.readiness(held.id);
        let is_open = table.status(held.id) == Some(Ok(()));
        if is_open && ready.writable && !held.shut && held.sent < scenario.sends {
            steps.push(Step::Send(side, index));
        }
        if is_open && scenario.shutdown && !held.shut {
            steps.push(Step::Shutdown(side, index));
        }
        if ready.readable {
            steps.push(Step::Take(side, index));
        }
    }

    fn apply(&mut self, scenario: &Scenario, step: Step) -> Result<(), String> {
        let before = self.readiness();
        let by_program = self.run(scenario, step)?;
        let mut changed = HashSet::new();
        for (side, table) in self.tables.iter_mut().enumerate() {
            while let Some(id) = table.poll_changed() {
                changed.insert((side, id));
            }
        }
        for side in 0..2 {
            for held in &mut self.programs[side].sockets {
                held.was_open |= self.tables[side].status(held.id) == Some(Ok(()));
            }
        }
        for (key, ready, status) in self.readiness() {
            let was = before.iter().find(|(other, ..)| *other == key);
            let (was_ready, was_status) =
                was.map_or((ready, status), |(_, ready, status)| (*ready, *status));
            let news = (ready.readable && !was_ready.readable)
                || (ready.writable && !was_ready.writable)
                || status != was_status;
            if news && !by_program && !changed.contains(&key) {
                return Err(format!("nobody is told of {key:?}"));
            }
        }
        self.check(scenario)
    }

    /// Returns the readiness of each socket that a program holds.
    fn readiness(&self) -> Vec<((usize, SocketId), Readiness, Status)> {
        let mut all = Vec::new();
        for (side, program) in self.programs.iter().enumerate() {
            let table = &self.tables[side];
            let open = program.sockets.iter().filter(|held| !held.closed);
            for id in open.map(|held| held.id).chain(program.listener) {
                all.push(((side, id), table.readiness(id), table.status(id)));
            }
        }
        all
    }

    /// Does a step. Returns true if a program did it.
    fn run(&mut self, scenario: &Scenario, step: Step) -> Result<bool, String> {
        match step {
            Step::Connect(side) => self.connect(side),
            Step::CloseListener(side) => {
                if let Some(listener) = self.programs[side].listener.take() {
                    self.tables[side].close(listener);
                }
            }
            Step::Accept(side) => self.accept(side)?,
            Step::Send(side, index) => {
                let held = &mut self.programs[side].sockets[index];
                let bytes = scenario.message(held.tag, held.client, held.sent);
                match self.tables[side].send(held.id, &bytes, true) {
                    Ok(length) if length == bytes.len() => held.sent += 1,
                    // The peer closed.
                    Err(SendRefused::Failed(ConnectionFailure::BrokenPipe)) => {}
                    other => return Err(format!("a writable socket takes {other:?}")),
                }
            }
            Step::Shutdown(side, index) => {
                let held = &mut self.programs[side].sockets[index];
                held.shut = true;
                let done = self.tables[side].shutdown(held.id);
                done.map_err(|failure| format!("shutdown: {failure:?}"))?;
            }
            Step::Take(side, index) => self.take(scenario, side, index)?,
            Step::Close(side, index) => {
                let held = &mut self.programs[side].sockets[index];
                held.closed = true;
                self.tables[side].close(held.id);
            }
            Step::Transmit(side) => self.transmit(side),
            Step::Deliver(side, channel) => {
                self.deliver(side, channel);
                return Ok(false);
            }
            Step::Lose => self.losses += 1,
            Step::Hear(side) => {
                self.session[side] += 1;
                let session = self.session[side];
                for queue in self.net[side].values_mut() {
                    queue.retain(|(sent_in, _)| *sent_in >= session);
                }
                self.net[side].retain(|_, queue| !queue.is_empty());
                let ended =
                    PortInput::Ended(node(1 - side), SessionNumber(0), EndReason::PeerEnded);
                self.tables[side].on_input(NOW, ended);
                return Ok(false);
            }
            Step::Silence(side) => {
                self.silences += 1;
                let lost = PortInput::Lost(node(1 - side), LostCause::NoAnswer);
                self.tables[side].on_input(NOW, lost);
                return Ok(false);
            }
            Step::Timeout(side) => {
                if let Some(at) = self.tables[side].next_timeout() {
                    self.tables[side].on_timeout(at);
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn connect(&mut self, side: usize) {
        let program = &mut self.programs[side];
        let tag = FIRST_CLIENT_PORT + 10 * side as u16 + u16::from(program.connects);
        program.connects += 1;
        let peer = Address {
            node: node(1 - side),
            port: PORT,
        };
        let id = self.tables[side].connect(NOW, tag, peer, SocketKind::Messages);
        program.sockets.push(Held {
            id: id.unwrap(),
            tag,
            client: true,
            sent: 0,
            received: 0,
            partial: 0,
            was_open: false,
            shut: false,
            closed: false,
        });
    }

    fn accept(&mut self, side: usize) -> Result<(), String> {
        let listener = self.programs[side].listener.unwrap();
        let (id, peer) = self.tables[side].accept(listener).unwrap();
        let tag = peer.port;
        let clients = &self.programs[1 - side].sockets;
        let client = clients.iter().find(|held| held.client && held.tag == tag);
        if !client.is_some_and(|client| client.was_open) {
            return Err(format!("{tag} was accepted, but its client never had it"));
        }
        let accepted = &self.programs[side].sockets;
        if accepted.iter().any(|held| held.tag == tag && !held.client) && self.losses == 0 {
            return Err(format!("{tag} was accepted twice"));
        }
        self.programs[side].sockets.push(Held {
            id,
            tag,
            client: false,
            sent: 0,
            received: 0,
            partial: 0,
            was_open: true,
            shut: false,
            closed: false,
        });
        Ok(())
    }

    fn take(&mut self, scenario: &Scenario, side: usize, index: usize) -> Result<(), String> {
        let held = &self.programs[side].sockets[index];
        let peer = &self.programs[1 - side].sockets;
        let sender = peer
            .iter()
            .rfind(|other| other.tag == held.tag && other.client != held.client);
        let sent = sender.map_or(0, |other| other.sent);
        match self.tables[side].take(held.id) {
            Ok(Received::Data { bytes, last }) => {
                let message = scenario.message(held.tag, !held.client, held.received);
                let expected = &message[held.partial..];
                let ends = bytes.len() == expected.len();
                if !expected.starts_with(&bytes) || last != ends {
                    return Err(format!("{} received {bytes:?}, not {expected:?}", held.tag));
                }
                let held = &mut self.programs[side].sockets[index];
                held.partial = if last { 0 } else { held.partial + bytes.len() };
                held.received += u8::from(last);
            }
            Ok(Received::End) if held.received != sent => {
                return Err(format!(
                    "{} of {sent} arrived before the end",
                    held.received
                ));
            }
            Ok(Received::End | Received::Pending) | Err(_) => {}
        }
        Ok(())
    }

    fn transmit(&mut self, side: usize) {
        let (net, session) = (&mut self.net[1 - side], self.session[side]);
        self.tables[side].transmit(|_, message| {
            let queue = net.entry(message.channel).or_default();
            queue.push_back((session, message.clone()));
            true
        });
        // The messages on their way arrive all the same.
        while self.tables[side].poll_withdrawn().is_some() {}
    }

    fn deliver(&mut self, side: usize, channel: ChannelId) {
        let Some(queue) = self.net[side].get_mut(&channel) else {
            return;
        };
        let Some((session, message)) = queue.pop_front() else {
            return;
        };
        if queue.is_empty() {
            self.net[side].remove(&channel);
        }
        if session == self.session[side] {
            let input = PortInput::Message(source(node(1 - side)), arrived(message));
            self.tables[side].on_input(NOW, input);
        }
    }

    fn check(&self, scenario: &Scenario) -> Result<(), String> {
        for table in &self.tables {
            let views = table.views();
            let waiting = |view: &&(SocketId, View)| {
                matches!(view.1, View::Placeholder | View::Unaccepted(_))
            };
            if views.iter().filter(waiting).count() > scenario.backlog {
                return Err("more wait than the backlog has room for".into());
            }
        }
        if !self.is_quiet() {
            return Ok(());
        }
        for side in 0..2 {
            let peer: BTreeMap<_, _> = self.tables[1 - side].views().into_iter().collect();
            for (id, view) in self.tables[side].views() {
                let ok = match view {
                    View::Listener => true,
                    View::Placeholder | View::Opening | View::Closing => false,
                    View::Open(remote) | View::Unaccepted(remote) => {
                        peer.get(&remote).and_then(|view| view.open_with()) == Some(id)
                    }
                    // The peer's program has not taken the first part.
                    View::Flushing(remote) => {
                        peer.get(&remote).and_then(|view| view.open_with()) == Some(id)
                            && self.tables[1 - side].readiness(remote).readable
                    }
                    View::Over => true,
                };
                if !ok {
                    return Err(format!("{id:?} of {side} is left {view:?} for ever"));
                }
            }
            let live = |view: &&(SocketId, View)| view.1.open_with().is_some();
            let is_live = self.tables[side].views().iter().any(|view| live(&view));
            if is_live != self.tables[side].has_live() {
                return Err(format!("{side} watches its peer wrongly"));
            }
            let program = &self.programs[side];
            let all_closed = program.sockets.iter().all(|held| held.closed);
            let table = &self.tables[side];
            if program.listener.is_none()
                && all_closed
                && !table.has_unsent()
                && (table.count() > 0 || table.promised() > scenario.promised())
            {
                return Err(format!("{side} closed all, and {} are left", table.count()));
            }
        }
        Ok(())
    }
}

fn arrived(message: Outgoing) -> Message {
    Message {
        channel: message.channel,
        number: 0,
        tag: message.tag,
        kind: message.kind,
        user_header: message.user_header,
        payload: Data::from(message.payload),
    }
}

/// Tries everything. Returns the number of states.
fn explore(scenario: &Scenario) -> Result<usize, String> {
    let first = State::new(scenario);
    let mut seen = HashSet::from([first.key()]);
    let mut open = vec![(first, Vec::new())];
    while let Some((state, trace)) = open.pop() {
        for step in state.steps(scenario) {
            let mut next = state.clone();
            let mut trace: Vec<Step> = trace.clone();
            trace.push(step);
            if let Err(error) = next.apply(scenario, step) {
                return Err(format!("{error}, after {trace:?}"));
            }
            if seen.insert(next.key()) {
                open.push((next, trace));
            }
        }
    }
    Ok(seen.len())
}

/// The scenarios, small enough to be explored wholly.
fn scenarios() -> [Scenario; 9] {
    let one = Scenario {
        connects: [1, 0],
        listens: [false, true],
        backlog: 1,
        sends: 1,
        length: 3,
        ..Scenario::default()
    };
    // Messages that exceed the window.
    let long = Scenario {
        length: MIN_WINDOW as usize + 200,
        scarce: true,
        ..one
    };
    [
        // Data and orderly ends, in any order.
        Scenario {
            shutdown: true,
            ..one
        },
        // The session ends twice.
        Scenario { losses: 2, ..one },
        // A time that is over, a listener that is closed, a peer that seems gone.
        Scenario {
            timeouts: true,
            closes_listener: true,
            silences: 1,
            sends: 0,
            ..one
        },
        // Crossing connects.
        Scenario {
            connects: [1, 1],
            listens: [true, true],
            sends: 0,
            ..one
        },
        // More connects than the backlog takes, and numbers that could be used again.
        Scenario {
            connects: [2, 0],
            closes_listener: true,
            sends: 0,
            ..one
        },
        Scenario {
            connects: [2, 0],
            backlog: 2,
            losses: 1,
            sends: 0,
            ..one
        },
        Scenario { losses: 1, ..long },
        Scenario {
            shutdown: true,
            ..long
        },
        Scenario {
            silences: 1,
            ..long
        },
    ]
}

#[test]
fn every_interleaving_keeps_the_promises() {
    for scenario in scenarios() {
        let states = explore(&scenario).unwrap_or_else(|error| panic!("{scenario:?}: {error}"));
        println!("{states} states of {scenario:?}");
        assert!(states > 500, "only {states} states of {scenario:?}");
    }
}

#[test]
fn the_model_finds_every_planted_fault() {
    for fault in Fault::ALL {
        plant::select(Some(fault));
        let found = scenarios()
            .iter()
            .find_map(|scenario| explore(scenario).err());
        plant::select(None);
        let found = found.unwrap_or_else(|| panic!("{fault:?} is not found"));
        println!("{fault:?}: {found}");
    }
}

#[test]
fn channels_are_shared() {
    assert_eq!(channel(SocketId(0)), channel(SocketId(16)));
    assert_ne!(channel(SocketId(0)), channel(SocketId(1)));
    let packet = Packet::Closed { to: SocketId(1) };
    assert_eq!(packet.write().2, Bytes::new());
}
