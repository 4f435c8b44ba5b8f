//! Programs that are members of groups: each calls the same operations as the others, agrees with
//! them every few calls, and goes on without those that failed.

use std::collections::BTreeMap;
use std::sync::Arc;

use suci_layers::Knowledge;
use suci_layers::group::{
    Carrier, Failure, Finished, GroupPlaces, GroupState, GroupWork, Host, ServedGroups, ShrinkStep,
    Shrinking, ShrunkNumbers,
};
use suci_proto::time::{Duration, Instant, nanos};
use suci_proto::types::{NodeId, SessionNumber};
use suci_proto::{Engine, LinkState, Outgoing, PlacedBy, SendError};

use crate::options::GroupPlan;
use crate::oracle::calls::{Call, CallId};
use crate::oracle::groups::{Member, SharedGroups};
use crate::oracle::{Kind, Verdict, broken};
use crate::packet::ProcId;
use crate::rng::{Rng, mix};

/// The time after which a member has those watched that keep it waiting.
const WATCH_AFTER: Duration = Duration::from_secs(1);

/// The time between two looks for members that were not met yet.
const LOOK: Duration = Duration::from_millis(100);

/// Nothing waits for the results: programs look for them.
#[derive(Debug)]
pub struct NoSleepers;

impl Host for NoSleepers {
    type Error = GaveUp;

    fn settled(&self) {}
}

/// Why a program gives an operation up.
#[derive(Debug)]
pub enum GaveUp {
    /// Its time is over.
    TimedOut,
    /// Its engine takes no message any more.
    Refused(SendError),
}

/// An engine as groups use it.
struct DrivenEngine<'a> {
    engine: &'a mut Engine,
    now: Instant,
}

impl Carrier<NoSleepers> for DrivenEngine<'_> {
    fn engine(&mut self) -> &mut Engine {
        self.engine
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn serves(&self, _: NodeId) -> bool {
        true
    }

    fn offer(&mut self, to: NodeId, message: Outgoing) -> Result<bool, GaveUp> {
        match self.engine.send(self.now, to, message) {
            Ok(_) => Ok(true),
            Err(SendError::WouldBlock(_) | SendError::Suspended { .. }) => Ok(false),
            Err(error) => Err(GaveUp::Refused(error)),
        }
    }
}

/// The operation of a group that is under way.
#[derive(Debug)]
enum Stage {
    /// Not all members were met.
    Meets,
    /// The program computes until its next call.
    Computes,
    Calls,
    /// The members find out whether all calls since the last agreement ended well.
    Agrees,
    Shrinks(Shrinking),
    Done,
}

/// One process's part in a group, and in those that it becomes.
#[derive(Debug)]
struct Membership {
    origin: u32,
    members: Vec<u32>,
    state: Option<Arc<GroupState<NoSleepers>>>,
    stage: Stage,
    era: u32,
    index: u32,
    /// All calls since the last agreement ended well.
    is_well: bool,
    agreements: u64,
    /// When it does something by itself: begins, has others watched, or gives up.
    next_at: Option<Instant>,
    gives_up_at: Option<Instant>,
    /// Members for whose sessions it waits.
    awaited: Vec<NodeId>,
}

/// The groups of one process.
#[derive(Debug)]
pub struct GroupProgram {
    process: ProcId,
    node: u32,
    seed: u64,
    plan: GroupPlan,
    oracle: SharedGroups,
    rng: Rng,
    served: ServedGroups<NoSleepers>,
    places: Arc<GroupPlaces<NoSleepers>>,
    shrunk: ShrunkNumbers,
    memberships: Vec<Membership>,
    /// Faults are over: it makes haste.
    hurries: bool,
}

/// Returns the members of the groups of a run that `node` belongs to, by number.
fn groups_of(node: u32, seed: u64, plan: &GroupPlan, nodes: &[u32]) -> BTreeMap<u32, Vec<u32>> {
    let mut groups = BTreeMap::new();
    for number in 0..plan.groups {
        let mut rng = Rng::new(seed, 0x5000 + u64::from(number));
        let is_whole = rng.chance(700_000);
        let mut members: Vec<u32> = nodes.to_vec();
        members.retain(|_| is_whole || rng.chance(600_000));
        let turn = rng.index(0, members.len().max(1));
        members.rotate_left(turn);
        if members.contains(&node) {
            groups.insert(number, members);
        }
    }
    groups
}

impl GroupProgram {
    /// Returns the program of the first process of a node. `nodes` are all of the run.
    #[must_use]
    pub fn new(
        process: ProcId,
        node: u32,
        seed: u64,
        plan: GroupPlan,
        (nodes, oracle): (&[u32], SharedGroups),
        now: Instant,
    ) -> Self {
        oracle.lock().process_started(process, node);
        let groups = groups_of(node, seed, &plan, nodes);
        let membership = |(origin, members)| Membership {
            origin,
            members,
            state: None,
            stage: Stage::Meets,
            era: 0,
            index: 0,
            is_well: true,
            agreements: 0,
            next_at: Some(now),
            gives_up_at: None,
            awaited: Vec::new(),
        };
        let places = Arc::<GroupPlaces<NoSleepers>>::default();
        Self {
            process,
            node,
            seed,
            plan,
            oracle,
            rng: Rng::new(seed, 0x6000 + u64::from(process)),
            served: ServedGroups::new(Arc::clone(&places)),
            places,
            shrunk: ShrunkNumbers::default(),
            memberships: groups.into_iter().map(membership).collect(),
            hurries: false,
        }
    }

    /// Returns where the engine asks for the places of messages.
    #[must_use]
    pub fn placement(&self) -> PlacedBy {
        PlacedBy::new(self.places.clone())
    }

    /// Makes haste from now on, and gives nothing up.
    pub fn wind_up(&mut self, now: Instant) {
        self.hurries = true;
        for one in &mut self.memberships {
            one.gives_up_at = None;
            if matches!(one.stage, Stage::Computes) {
                one.next_at = Some(now);
            }
        }
    }

    /// Returns true if it is done with all groups.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let mut all = self.memberships.iter();
        all.all(|one| matches!(one.stage, Stage::Done))
    }

    /// Returns the time at which it has something to do.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Instant> {
        let mut times: Vec<_> = Vec::new();
        for one in &self.memberships {
            times.extend(one.next_at);
            times.extend(one.gives_up_at);
        }
        times.into_iter().min()
    }

    /// Carries operations on, as a driver does before it sends.
    pub fn serve(&mut self, engine: &mut Engine, now: Instant) {
        if !self.served.is_empty() || engine.has_late_of_group() {
            self.served.progress(&mut DrivenEngine { engine, now });
        }
    }

    /// Takes results and begins what is due, as a program does.
    ///
    /// # Errors
    /// The promise that broke.
    pub fn run(&mut self, engine: &mut Engine, now: Instant) -> Verdict {
        let mut memberships = core::mem::take(&mut self.memberships);
        let mut verdict = Ok(());
        for one in &mut memberships {
            while verdict.is_ok() && self.step(one, engine, now, &mut verdict) {}
        }
        self.memberships = memberships;
        verdict
    }

    /// Does one thing for a group. Returns false if there is nothing to do now.
    fn step(
        &mut self,
        one: &mut Membership,
        engine: &mut Engine,
        now: Instant,
        verdict: &mut Verdict,
    ) -> bool {
        let is_due = one.next_at.is_some_and(|at| at <= now);
        match &one.stage {
            Stage::Done => false,
            Stage::Meets => is_due && self.meet(one, engine, now, verdict),
            Stage::Computes => is_due && self.call(one, engine, now, verdict),
            _ => {
                let Some(state) = one.state.clone() else {
                    return false;
                };
                if let Some(result) = state.take_result() {
                    state.release();
                    one.gives_up_at = None;
                    *verdict = self.take(one, result, engine, now);
                    return true;
                }
                if one.gives_up_at.is_some_and(|at| at <= now) {
                    one.gives_up_at = None;
                    self.oracle.lock().leaves(self.process);
                    state.give_up(GaveUp::TimedOut);
                } else if is_due {
                    one.next_at = None;
                    if !state.watch() {
                        return false;
                    }
                } else {
                    return false;
                }
                self.served.add(state);
                self.serve(engine, now);
                true
            }
        }
    }

    /// Makes the group, once each member was met or is gone.
    fn meet(
        &mut self,
        one: &mut Membership,
        engine: &mut Engine,
        now: Instant,
        verdict: &mut Verdict,
    ) -> bool {
        for node in one.awaited.drain(..) {
            engine.await_member(now, node, false);
        }
        let mut sessions = Vec::new();
        for node in &one.members {
            let (started, is_alive) = self.oracle.lock().state(*node);
            let state = engine.member_state(NodeId(*node));
            match state.filter(|state| state.link == LinkState::Up) {
                _ if *node == self.node => sessions.push(SessionNumber::default()),
                // A session with its next process is none with a member.
                _ if started && !is_alive => sessions.push(SessionNumber(u32::MAX)),
                Some(state) if started => sessions.push(state.session),
                _ => {
                    engine.await_member(now, NodeId(*node), true);
                    one.awaited.push(NodeId(*node));
                }
            }
        }
        let rank = one.members.iter().position(|node| *node == self.node);
        if let (Some(rank), true) = (rank, sessions.len() == one.members.len()) {
            for node in one.awaited.drain(..) {
                engine.await_member(now, node, false);
            }
            let members = one.members.iter().copied().map(NodeId).collect();
            let own = (rank, NodeId(self.node));
            let state = GroupState::new(one.origin, members, sessions, own, NoSleepers);
            *verdict = self.enter(one, Arc::new(state), now);
            return true;
        }
        one.next_at = Some(now + LOOK);
        false
    }

    /// Goes on with a group.
    fn enter(
        &mut self,
        one: &mut Membership,
        state: Arc<GroupState<NoSleepers>>,
        now: Instant,
    ) -> Verdict {
        one.members = state.members().iter().map(|node| node.0).collect();
        let joined = self.oracle.lock().joined(member(one, &state));
        one.agreements = 0;
        one.is_well = true;
        one.state = Some(state);
        self.compute(one, now);
        joined
    }

    /// Computes until the next call.
    fn compute(&mut self, one: &mut Membership, now: Instant) {
        let gap = nanos(self.plan.gap).max(2_000);
        let gap = Duration::from_nanos(self.rng.scale(1_000, gap));
        one.stage = Stage::Computes;
        one.next_at = Some(if self.hurries { now } else { now + gap });
    }

    fn call(
        &mut self,
        one: &mut Membership,
        engine: &mut Engine,
        now: Instant,
        verdict: &mut Verdict,
    ) -> bool {
        let Some(state) = one.state.clone() else {
            return false;
        };
        if one.index >= self.plan.calls || !one.is_well {
            let extra = mix(self.seed ^ u64::from(self.node) << 32 ^ u64::from(one.era));
            let value = extra << 1 | u64::from(one.is_well);
            one.stage = Stage::Agrees;
            *verdict = self.agree(one, &state, (value, 0), engine, now);
            return true;
        }
        let id = call_id(one);
        let work = Call::draw(self.seed, id).begin(state.place());
        one.stage = Stage::Calls;
        self.oracle.lock().began(member(one, &state), id);
        *verdict = self.begin(one, &state, GroupWork::Collective(work), engine, now);
        true
    }

    /// Begins an agreement on a value and a number.
    fn agree(
        &mut self,
        one: &mut Membership,
        state: &Arc<GroupState<NoSleepers>>,
        (value, number): (u64, u32),
        engine: &mut Engine,
        now: Instant,
    ) -> Verdict {
        one.agreements += 1;
        let contributes = (one.agreements, value);
        self.oracle
            .lock()
            .contributes(member(one, state), contributes.0, contributes.1);
        match state.agreement(value, number) {
            Ok(work) => self.begin(one, state, GroupWork::Agreement(work), engine, now),
            Err(failure) => self.take(one, Err(failure), engine, now),
        }
    }

    fn begin(
        &mut self,
        one: &mut Membership,
        state: &Arc<GroupState<NoSleepers>>,
        work: GroupWork,
        engine: &mut Engine,
        now: Instant,
    ) -> Verdict {
        let text = format!("{:?}, {:?}", one.stage, call_id(one));
        self.oracle
            .lock()
            .waits(one.origin, member(one, state), text);
        one.next_at = Some(now + WATCH_AFTER);
        if !self.hurries && self.rng.chance(self.plan.gives_up) {
            let patience = Duration::from_nanos(self.rng.scale(100_000, 5_000_000_000));
            one.gives_up_at = Some(now + patience);
        }
        match state.begin(NodeId(self.node), work) {
            Ok(()) => {
                self.served.add(Arc::clone(state));
                self.serve(engine, now);
                Ok(())
            }
            Err(failure) => self.take(one, Err(failure), engine, now),
        }
    }

    /// Takes the result of an operation, and decides how to go on.
    fn take(
        &mut self,
        one: &mut Membership,
        result: Result<Finished, Failure<GaveUp>>,
        engine: &mut Engine,
        now: Instant,
    ) -> Verdict {
        let Some(state) = one.state.clone() else {
            return Ok(());
        };
        let id = call_id(one);
        let of = member(one, &state);
        let mut oracle = self.oracle.lock();
        match result {
            Ok(Finished::Data(data)) => {
                oracle.ended(of, id, &data)?;
                drop(oracle);
                one.index += 1;
                self.compute(one, now);
                Ok(())
            }
            Ok(Finished::Agreed(known)) => {
                oracle.agreed(of, one.agreements, Some(known.clone()))?;
                drop(oracle);
                self.after_agreement(one, &state, known, engine, now)
            }
            Err(Failure::Member { node, failure, .. }) => {
                oracle.failed(of, id, node.0, failure)?;
                drop(oracle);
                one.is_well = false;
                self.compute(one, now);
                Ok(())
            }
            Err(failure @ (Failure::Excluded | Failure::CutOff)) => {
                match failure {
                    Failure::CutOff => oracle.cut_off(of, one.agreements)?,
                    _ => oracle.agreed(of, one.agreements, None)?,
                }
                drop(oracle);
                self.leave(one, &state);
                Ok(())
            }
            // It gave a call up: it still agrees with the others, which wait for it then.
            Err(Failure::Here(_)) if matches!(one.stage, Stage::Calls) => {
                oracle.gave_up(of);
                oracle.leaves(self.process);
                drop(oracle);
                one.is_well = false;
                self.compute(one, now);
                Ok(())
            }
            Err(Failure::Here(_)) => {
                oracle.gave_up(of);
                drop(oracle);
                self.leave(one, &state);
                Ok(())
            }
            Err(Failure::Argument(problem)) => broken(Kind::Group, problem),
        }
    }

    /// This process takes part in the group no more.
    fn leave(&mut self, one: &mut Membership, state: &GroupState<NoSleepers>) {
        let mut oracle = self.oracle.lock();
        oracle.leaves(self.process);
        oracle.done(one.origin, member(one, state));
        one.stage = Stage::Done;
        one.next_at = None;
    }

    fn after_agreement(
        &mut self,
        one: &mut Membership,
        state: &Arc<GroupState<NoSleepers>>,
        known: Knowledge,
        engine: &mut Engine,
        now: Instant,
    ) -> Verdict {
        let step = match &mut one.stage {
            Stage::Shrinks(shrinking) => shrinking.next(known, &self.shrunk),
            _ if known.failed.is_empty() && known.value & 1 == 1 => {
                one.era += 1;
                one.index = 0;
                if one.era >= self.plan.eras {
                    self.oracle.lock().done(one.origin, member(one, state));
                    one.stage = Stage::Done;
                    one.next_at = None;
                } else {
                    self.compute(one, now);
                }
                return Ok(());
            }
            _ => {
                let (shrinking, step) = Shrinking::begin(state.number(), &self.shrunk);
                one.stage = Stage::Shrinks(shrinking);
                step
            }
        };
        match step {
            ShrinkStep::Agree(value, number) => {
                self.agree(one, state, (value, number), engine, now)
            }
            ShrinkStep::Done(known, number) => {
                one.era += 1;
                one.index = 0;
                let left = state.without(&known, number, NoSleepers);
                self.served.add(Arc::clone(state));
                self.serve(engine, now);
                self.enter(one, left, now)
            }
            ShrinkStep::NoNumber => broken(Kind::Group, "no number is left for a group"),
        }
    }
}

fn call_id(one: &Membership) -> CallId {
    CallId {
        origin: one.origin,
        era: one.era,
        index: one.index,
    }
}

fn member<'a>(one: &'a Membership, state: &GroupState<NoSleepers>) -> Member<'a> {
    Member {
        group: state.number(),
        members: &one.members,
        rank: state.place().rank,
    }
}
