//! Engines whose programs are members of one group, and the network between them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use suci_layers::group::{
    Carrier, Failure, Finished, GroupState, GroupWork, Host, Purpose, ServedGroups, ShrinkStep,
    Shrinking, ShrunkNumbers,
};
use suci_layers::{Arguments, Collective, Kind, Knowledge};
use suci_proto::time::{Duration, Instant};
use suci_proto::types::{self, Ecn, Incarnation, NodeId};
use suci_proto::{Arrival, Config, Engine, Identity, Outgoing, SendError, TransmitResult};

const LATENCY: Duration = Duration::from_micros(50);

/// Longer than it takes to notice a silent member.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The number of the group.
const GROUP: u32 = 7;

pub(crate) type Group = Arc<GroupState<Quiet>>;
pub(crate) type Ended = Result<Finished, Failure<()>>;

/// No thread waits.
#[derive(Debug)]
pub(crate) struct Quiet;

impl Host for Quiet {
    type Error = ();

    fn settled(&self) {}
}

/// A member: its node, and the group that it is in.
pub(crate) struct Member {
    engine: Engine,
    served: ServedGroups<Quiet>,
    pub(crate) group: Group,
    shrunk: ShrunkNumbers,
    /// Its process has ended.
    ended: bool,
    /// Its messages to other members find no room.
    blocked: bool,
}

pub(crate) struct Network {
    now: Instant,
    pub(crate) members: Vec<Member>,
    /// In flight, by time of arrival: sender, receiver and bytes.
    wire: BTreeMap<(Instant, u64), (usize, usize, Vec<u8>)>,
    sequence: u64,
    /// Pairs whose packets are lost.
    cut: BTreeSet<(usize, usize)>,
}

fn address(member: usize) -> SocketAddr {
    (Ipv4Addr::new(10, 0, 0, 1), 4_000 + member as u16).into()
}

fn id(member: usize) -> NodeId {
    NodeId(member as u32)
}

fn start(count: usize, member: usize, incarnation: u128) -> Engine {
    let config = Config {
        max_datagram: 1_472,
        ..Config::default()
    };
    let identity = Identity {
        node: id(member),
        incarnation: Incarnation(incarnation),
    };
    let seed = [incarnation as u8; 32];
    let mut engine = Engine::new(config, identity, seed, 8 << 20, Instant::ZERO).unwrap();
    for other in (0..count).filter(|other| *other != member) {
        engine
            .add_peer(Instant::ZERO, id(other), address(other))
            .unwrap();
    }
    engine
}

/// A group as the member at `rank` makes it.
fn group(engine: &Engine, nodes: &[NodeId], rank: usize) -> Group {
    let state = |node: &NodeId| engine.member_state(*node);
    let sessions = nodes.iter().map(|node| state(node).map(|s| s.session));
    let sessions = sessions.map(Option::unwrap_or_default).collect();
    let nodes = nodes.to_vec();
    Arc::new(GroupState::new(
        GROUP,
        nodes,
        sessions,
        (rank, id(rank)),
        Quiet,
    ))
}

/// A member's engine, as groups use it.
struct Driven<'a> {
    engine: &'a mut Engine,
    now: Instant,
    blocked: bool,
}

impl Carrier<Quiet> for Driven<'_> {
    fn engine(&mut self) -> &mut Engine {
        self.engine
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn serves(&self, _: NodeId) -> bool {
        true
    }

    fn offer(&mut self, to: NodeId, message: Outgoing) -> Result<bool, ()> {
        if self.blocked {
            return Ok(false);
        }
        match self.engine.send(self.now, to, message) {
            Ok(_) => Ok(true),
            Err(SendError::WouldBlock(_) | SendError::Suspended { .. }) => Ok(false),
            Err(_) => Err(()),
        }
    }
}

impl Network {
    /// Makes members that have met: each has passed a barrier.
    pub(crate) fn new(count: usize) -> Self {
        let nodes: Vec<_> = (0..count).map(id).collect();
        let member = |rank: usize| {
            let engine = start(count, rank, rank as u128 + 1);
            Member {
                group: group(&engine, &nodes, rank),
                engine,
                served: ServedGroups::default(),
                shrunk: ShrunkNumbers::default(),
                ended: false,
                blocked: false,
            }
        };
        let mut new = Self {
            now: Instant::from_nanos(1_000_000_000),
            members: (0..count).map(member).collect(),
            wire: BTreeMap::new(),
            sequence: 0,
            cut: BTreeSet::new(),
        };
        (0..count).for_each(|rank| new.begin_barrier(rank).unwrap());
        new.run(LONG);
        assert!((0..count).all(|rank| matches!(new.result(rank), Some(Ok(_)))));
        new
    }

    /// Packets between members of the two lists are lost from now on.
    pub(crate) fn divide(&mut self, one: &[usize], other: &[usize]) {
        for a in one {
            for b in other {
                self.cut.extend([(*a, *b), (*b, *a)]);
            }
        }
    }

    /// The network is whole again.
    pub(crate) fn heal(&mut self) {
        self.cut.clear();
    }

    /// A member's process ends without a word.
    pub(crate) fn kill(&mut self, rank: usize) {
        self.members[rank].ended = true;
    }

    /// A launcher supervises the members: it would report each end.
    pub(crate) fn supervise(&mut self) {
        for member in &mut self.members {
            member.engine.set_supervised(0..=99, true);
        }
    }

    /// Each launcher reports that the member's process has ended.
    pub(crate) fn report_death(&mut self, rank: usize) {
        let now = self.now;
        for member in self.members.iter_mut().filter(|member| !member.ended) {
            member
                .engine
                .on_process_ended(now, id(rank), suci_proto::ProcessEnd::Replaced);
        }
    }

    /// A member's process starts anew, and calls the others.
    pub(crate) fn restart(&mut self, rank: usize) {
        let (count, now) = (self.members.len(), self.now);
        let mut engine = start(count, rank, rank as u128 + 100);
        for other in (0..count).filter(|other| *other != rank) {
            engine.await_member(now, id(other), true);
        }
        self.members[rank].engine = engine;
        self.members[rank].ended = false;
        self.members[rank].served = ServedGroups::default();
    }

    /// A member closes its node.
    pub(crate) fn close(&mut self, rank: usize) {
        let now = self.now;
        self.members[rank].engine.close(now, LONG);
    }

    pub(crate) fn begin_barrier(&mut self, rank: usize) -> Result<(), Failure<()>> {
        let place = self.members[rank].group.place();
        self.begin(rank, GroupWork::Collective(Collective::barrier(place)))
    }

    /// A member begins a gather of its rank at the member `root`.
    pub(crate) fn begin_gather(&mut self, rank: usize, root: usize) {
        let place = self.members[rank].group.place();
        let work = Collective::gather(place, root, &vec![1; place.size], vec![rank as u8]);
        self.begin(rank, GroupWork::Collective(work)).unwrap();
    }

    /// Each member drops the group, and makes another one of its number.
    pub(crate) fn renew(&mut self) {
        let nodes: Vec<_> = (0..self.members.len()).map(id).collect();
        for (rank, member) in self.members.iter_mut().enumerate() {
            member.group = group(&member.engine, &nodes, rank);
        }
    }

    /// A member's messages find no room from now on, or find it again.
    pub(crate) fn block(&mut self, rank: usize, blocked: bool) {
        self.members[rank].blocked = blocked;
        self.turn(rank);
    }

    /// A member says that it waits in a gather, the first operation of its group.
    pub(crate) fn ask(&mut self, rank: usize, to: usize, question: u64) {
        let arguments = Arguments {
            kind: Kind::Gather,
            root: 0,
            length: 0,
            checksum: 0,
        };
        let mut payload = 1_u64.to_le_bytes().to_vec();
        payload.push(Kind::Gather as u8);
        let message = Outgoing {
            channel: Purpose::Questions.channel(GROUP),
            tag: question,
            kind: types::Kind::USER,
            user_header: arguments.to_bytes().to_vec().into(),
            payload: payload.into(),
            notify: false,
            token: 0,
            deadline: None,
        };
        let member = &mut self.members[rank];
        member.engine.send(self.now, id(to), message).unwrap();
        self.turn(rank);
    }

    /// Takes the messages of another member that a member's group did not take. Returns their tags.
    pub(crate) fn answers(&mut self, rank: usize, from: usize) -> Vec<u64> {
        let channel = Purpose::Questions.channel(GROUP);
        let engine = &mut self.members[rank].engine;
        let next = || engine.recv_of_group(id(from), channel);
        std::iter::from_fn(next)
            .map(|(_, message)| message.tag)
            .collect()
    }

    /// A member begins an agreement on a value.
    pub(crate) fn begin_agree(&mut self, rank: usize, value: u64) -> Result<(), Failure<()>> {
        let work = self.members[rank].group.agreement(value, 0)?;
        self.begin(rank, GroupWork::Agreement(work))
    }

    fn begin(&mut self, rank: usize, work: GroupWork) -> Result<(), Failure<()>> {
        let member = &mut self.members[rank];
        member.group.begin(id(rank), work)?;
        // As after a second.
        member.group.watch();
        member.served.add(Arc::clone(&member.group));
        self.turn(rank);
        Ok(())
    }

    /// A member gives its operation up.
    pub(crate) fn give_up(&mut self, rank: usize) {
        let member = &mut self.members[rank];
        member.group.give_up(());
        member.served.add(Arc::clone(&member.group));
        self.turn(rank);
    }

    /// Takes a member's result, if there is one.
    pub(crate) fn result(&self, rank: usize) -> Option<Ended> {
        let group = &self.members[rank].group;
        let result = group.take_result()?;
        group.release();
        Some(result)
    }

    /// These members shrink the group. Returns those that have a new one, each with its members.
    pub(crate) fn shrink(&mut self, ranks: &[usize]) -> Vec<(usize, Vec<u32>)> {
        let mut shrinking = BTreeMap::new();
        for rank in ranks {
            let member = &self.members[*rank];
            let (shrink, step) = Shrinking::begin(member.group.number(), &member.shrunk);
            shrinking.insert(*rank, shrink);
            self.agree_to_shrink(*rank, step);
        }
        let mut shrunk = Vec::new();
        for _ in 0..8 {
            self.run(LONG);
            for (rank, shrink) in &mut shrinking {
                let Some(Ok(Finished::Agreed(known))) = self.result(*rank) else {
                    continue;
                };
                let member = &mut self.members[*rank];
                let step = shrink.next(known, &member.shrunk);
                let ShrinkStep::Done(known, number) = step else {
                    self.agree_to_shrink(*rank, step);
                    continue;
                };
                self.go_on(*rank, &known, number);
                let left = self.members[*rank].group.members();
                shrunk.push((*rank, left.iter().map(|node| node.0).collect()));
            }
        }
        shrunk
    }

    /// A member goes on with the group of this number, without those that failed.
    pub(crate) fn go_on(&mut self, rank: usize, known: &Knowledge, number: u32) {
        let member = &mut self.members[rank];
        let new = member.group.without(known, number, Quiet);
        member.served.add(std::mem::replace(&mut member.group, new));
        self.turn(rank);
    }

    fn agree_to_shrink(&mut self, rank: usize, step: ShrinkStep) {
        let ShrinkStep::Agree(value, number) = step else {
            panic!("{step:?}");
        };
        let work = self.members[rank].group.agreement(value, number).unwrap();
        self.begin(rank, GroupWork::Agreement(work)).unwrap();
    }

    /// Returns whether the member waits for nothing, and no message of its group is left.
    pub(crate) fn is_at_rest(&self, rank: usize) -> bool {
        let member = &self.members[rank];
        member.served.is_empty() && !member.engine.has_group_message()
    }

    /// Lets `span` pass.
    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        for _ in 0..100_000 {
            let there = self.members.iter().filter(|member| !member.ended);
            let timers = there.filter_map(|member| member.engine.next_timeout());
            let arrivals = self.wire.keys().map(|(at, _)| *at);
            let next = timers.chain(arrivals).min().filter(|at| *at <= end);
            let Some(next) = next else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            (0..self.members.len()).for_each(|rank| self.turn(rank));
        }
        panic!("no progress in virtual time");
    }

    /// One cycle of a member's driver.
    fn turn(&mut self, rank: usize) {
        let now = self.now;
        let due = self.wire.range(..=(now, u64::MAX));
        let due = due.filter(|(_, (_, to, _))| *to == rank);
        let due: Vec<_> = due.map(|(key, _)| *key).collect();
        let packets: Vec<_> = due.iter().filter_map(|at| self.wire.remove(at)).collect();
        let member = &mut self.members[rank];
        if member.ended {
            return;
        }
        member.engine.begin_cycle(now);
        for (from, _, mut bytes) in packets {
            let arrival = Arrival {
                to: None,
                from: address(from),
                ecn: Ecn::Ect0,
                at: now,
            };
            member.engine.handle_datagram(now, &arrival, &mut bytes);
        }
        member.engine.handle_timeout(now);
        member.served.progress(&mut Driven {
            engine: &mut member.engine,
            now,
            blocked: member.blocked,
        });
        while member.engine.poll_event().is_some() {}
        while let Some(query) = member.engine.poll_route() {
            member.engine.set_route_mtu(query, Some(1_472));
        }
        while let Some(transmit) = member.engine.poll_transmit(now, 64) {
            let mut bytes = Vec::new();
            transmit.copy_to(&mut bytes);
            let (segment, segments) = (transmit.segment, transmit.segments);
            let to = usize::from(transmit.dest.port() - 4_000);
            member
                .engine
                .transmit_done(now, TransmitResult::Sent(segments));
            for packet in bytes.chunks(segment) {
                self.sequence += 1;
                if !self.cut.contains(&(rank, to)) {
                    let at = (now + LATENCY, self.sequence);
                    self.wire.insert(at, (rank, to, packet.to_vec()));
                }
            }
        }
    }
}
