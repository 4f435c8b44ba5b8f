//! Groups: results, failures and agreements of all members, judged together.
//!
//! * The result of a collective operation is the one computed from all members' data. A barrier
//!   and all that need data of each member end for nobody before all began.
//! * An operation fails only because a member died, was lost to another or gave up. The member that
//!   the error names did, or another member reported it and has such an error itself.
//! * Members that agree, and are still there, agree on the same. A member is cut off only if half
//!   of the members are gone or silent.
//! * In the end no living member waits.
//!
//! Only the first process of a node is a member: the number of a group in which a member died may
//! not be used again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use suci_layers::group::MemberFailure;
use suci_layers::{Knowledge, Place};

use super::calls::{Call, CallId};
use super::{Kind, Verdict, broken};
use crate::packet::ProcId;

/// A group as the oracle knows it: its number, and its members by rank.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The number of the group.
    pub group: u32,
    /// The members.
    pub members: &'a [u32],
    /// The rank of this one.
    pub rank: usize,
}

impl Member<'_> {
    fn node(&self) -> u32 {
        self.name(self.rank)
    }

    fn name(&self, rank: usize) -> u32 {
        self.members.get(rank).copied().unwrap_or(u32::MAX)
    }
}

/// A member's result of an agreement.
#[derive(Debug)]
struct Agreed {
    value: u64,
    known: Knowledge,
}

/// The oracle of the groups of a run.
#[derive(Debug)]
pub struct GroupOracle {
    seed: u64,
    /// Members die or close, and nothing else happens to them.
    only_deaths: bool,
    /// The node of each first process.
    first: BTreeMap<ProcId, u32>,
    /// Nodes whose first process is there.
    alive: BTreeSet<u32>,
    /// Nodes whose first process is gone, closes, or left a group.
    left: BTreeSet<u32>,
    /// Nodes whose first process closes.
    closed: BTreeSet<u32>,
    /// By number the members of groups, as each of them has them.
    members: BTreeMap<u32, BTreeMap<u32, Vec<u32>>>,
    begun: BTreeMap<CallId, BTreeSet<u32>>,
    /// By group and node: the member that was named.
    failed: BTreeMap<(u32, u32), u32>,
    /// By group and node: the member of whose failure it told others, as one of these says.
    reported: BTreeMap<(u32, u32), u32>,
    /// By group and number of the agreement.
    contributions: BTreeMap<(u32, u64), BTreeMap<u32, u64>>,
    agreed: BTreeMap<(u32, u64), BTreeMap<u32, Agreed>>,
    /// Nodes of which others heard that they gave up.
    gave_up: BTreeSet<u32>,
    /// Members that wait, and for what.
    open: BTreeMap<(u32, u32), String>,
    completed: u64,
}

/// The oracle, as the programs of all processes share it.
#[derive(Clone, Debug)]
pub struct SharedGroups(Arc<Mutex<GroupOracle>>);

impl SharedGroups {
    /// Returns the oracle of a run. `only_deaths` says that members are lost only if they die.
    #[must_use]
    pub fn new(seed: u64, only_deaths: bool) -> Self {
        Self(Arc::new(Mutex::new(GroupOracle {
            seed,
            only_deaths,
            first: BTreeMap::new(),
            alive: BTreeSet::new(),
            left: BTreeSet::new(),
            closed: BTreeSet::new(),
            members: BTreeMap::new(),
            begun: BTreeMap::new(),
            failed: BTreeMap::new(),
            reported: BTreeMap::new(),
            contributions: BTreeMap::new(),
            agreed: BTreeMap::new(),
            gave_up: BTreeSet::new(),
            open: BTreeMap::new(),
            completed: 0,
        })))
    }

    /// Locks it.
    pub fn lock(&self) -> MutexGuard<'_, GroupOracle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GroupOracle {
    /// Notes the first process of a node.
    pub fn process_started(&mut self, process: ProcId, node: u32) {
        self.first.insert(process, node);
        self.alive.insert(node);
    }

    /// Notes that a process is gone.
    pub fn process_stopped(&mut self, process: ProcId) {
        if let Some(node) = self.first.get(&process) {
            self.alive.remove(node);
            self.left.insert(*node);
            self.open.retain(|(_, owner), _| owner != node);
        }
    }

    /// Notes that a process closes.
    pub fn closes(&mut self, process: ProcId) {
        self.closed.extend(self.first.get(&process));
        self.leaves(process);
    }

    /// Returns whether the first process of a node goes on.
    fn goes_on(&self, node: u32) -> bool {
        self.alive.contains(&node) && !self.closed.contains(&node)
    }

    /// Notes that a process gives an operation up, or takes part in a group no more.
    pub fn leaves(&mut self, process: ProcId) {
        self.left.extend(self.first.get(&process));
    }

    /// Returns whether the first process of a node started, and whether it is there.
    #[must_use]
    pub fn state(&self, node: u32) -> (bool, bool) {
        let started = self.first.values().any(|first| *first == node);
        (started, self.alive.contains(&node))
    }

    /// Returns the number of operations that ended.
    #[must_use]
    pub const fn completed(&self) -> u64 {
        self.completed
    }

    /// Notes that a member made a group.
    ///
    /// # Errors
    /// Another member of that number has other members.
    pub fn joined(&mut self, of: Member<'_>) -> Verdict {
        let mut named = self.members.remove(&of.group).unwrap_or_default();
        named.retain(|node, _| self.goes_on(*node));
        // Groups without common members may take the same number.
        let meets = |others: &&Vec<u32>| {
            let common = others.iter().any(|node| of.members.contains(node));
            common && *others != of.members
        };
        let other = named.values().find(meets).cloned();
        named.insert(of.node(), of.members.to_vec());
        self.members.insert(of.group, named);
        let Some(others) = other else {
            return Ok(());
        };
        let text = format!(
            "group {} is {:?} at node {} and {others:?} at another",
            of.group,
            of.members,
            of.node()
        );
        broken(Kind::Group, text)
    }

    /// Notes that a member waits.
    pub fn waits(&mut self, origin: u32, of: Member<'_>, text: String) {
        self.open.insert((origin, of.node()), text);
    }

    /// Notes that a member is done with a group and those that it became.
    pub fn done(&mut self, origin: u32, of: Member<'_>) {
        self.open.remove(&(origin, of.node()));
    }

    /// Notes that a member begins a call.
    pub fn began(&mut self, of: Member<'_>, id: CallId) {
        self.begun.entry(id).or_default().insert(of.node());
    }

    /// Judges the result of a call.
    ///
    /// # Errors
    /// The promise that broke.
    pub fn ended(&mut self, of: Member<'_>, id: CallId, data: &[u8]) -> Verdict {
        self.completed += 1;
        let call = Call::draw(self.seed, id);
        let place = Place {
            rank: of.rank,
            size: of.members.len(),
        };
        let began = self.begun.entry(id).or_default();
        let missing = of.members.iter().find(|node| !began.contains(node));
        if let Some(missing) = missing.filter(|_| call.awaits_all()) {
            let text = format!(
                "node {} is through {call:?} {id:?} before node {missing} began",
                of.node()
            );
            return broken(Kind::Group, text);
        }
        match call.expected(place) {
            Some(expected) if expected != data => {
                let at = expected.iter().zip(data).position(|(a, b)| a != b);
                let text = format!(
                    "node {}, {place:?}: {call:?} {id:?} has a wrong result: {} B, {} expected, wrong from {at:?} on",
                    of.node(),
                    data.len(),
                    expected.len()
                );
                broken(Kind::Group, text)
            }
            _ => Ok(()),
        }
    }

    /// Judges the failure of a call.
    ///
    /// # Errors
    /// The promise that broke.
    pub fn failed(
        &mut self,
        of: Member<'_>,
        id: CallId,
        named: u32,
        failure: MemberFailure,
    ) -> Verdict {
        self.completed += 1;
        let group = of.group;
        let sound = match failure {
            MemberFailure::Lost(_) | MemberFailure::Ended(_) | MemberFailure::Suspended => {
                !self.only_deaths || self.left.contains(&named) || !self.goes_on(of.node())
            }
            // It speaks of its session with another member, which need not have failed.
            MemberFailure::Outdated(_) => !self.only_deaths && named == of.node(),
            // No run denies a layer.
            MemberFailure::NotPermitted(_) => false,
            // Its own program may not have taken its result yet.
            MemberFailure::GaveUp => {
                self.gave_up.insert(named);
                true
            }
            MemberFailure::Reported(by) => {
                self.reported.insert((group, by.0), named);
                self.check_report(group, by.0)?;
                true
            }
            _ => false,
        };
        self.failed.entry((group, of.node())).or_insert(named);
        self.check_report(group, of.node())?;
        if sound {
            return Ok(());
        }
        let text = format!(
            "node {}: {id:?} of group {group} fails because of node {named}: {failure:?}",
            of.node()
        );
        broken(Kind::Group, text)
    }

    /// Notes that this member gave up an operation, or that its engine took no more messages.
    pub fn gave_up(&mut self, of: Member<'_>) {
        self.completed += 1;
        let node = of.node();
        self.failed.entry((of.group, node)).or_insert(node);
    }

    /// Checks that a member has the error of which it told others, once its program took it.
    fn check_report(&self, group: u32, by: u32) -> Verdict {
        let (told, own) = (
            self.reported.get(&(group, by)),
            self.failed.get(&(group, by)),
        );
        match (told, own) {
            (Some(told), Some(own)) if told != own => {
                let text = format!("node {by} told others of node {told}, its own error of {own}");
                broken(Kind::Group, text)
            }
            _ => Ok(()),
        }
    }

    /// Notes the value that a member contributes to an agreement.
    pub fn contributes(&mut self, of: Member<'_>, number: u64, value: u64) {
        let values = self.contributions.entry((of.group, number)).or_default();
        values.insert(of.node(), value);
    }

    /// Judges the result of an agreement: `None` if the member is excluded.
    ///
    /// # Errors
    /// The promise that broke.
    pub fn agreed(&mut self, of: Member<'_>, number: u64, known: Option<Knowledge>) -> Verdict {
        self.completed += 1;
        let (node, at) = (of.node(), (of.group, number));
        let wrong = |text: String| {
            let text = format!("agreement {number} of group {}: {text}", of.group);
            broken(Kind::Group, text)
        };
        let Some(known) = known else {
            return match self.only_deaths && !self.left.contains(&node) {
                true => wrong(format!("node {node} is excluded")),
                false => Ok(()),
            };
        };
        let gone = |rank: &usize| self.left.contains(&of.name(*rank));
        if self.only_deaths
            && let Some(rank) = known.failed.iter().find(|rank| !gone(rank))
        {
            return wrong(format!("node {node} counts node {} out", of.name(*rank)));
        }
        let values = self.contributions.entry(at).or_default();
        let (mut most, mut least) = (u64::MAX, u64::MAX);
        for (rank, other) in of.members.iter().enumerate() {
            let value = values.get(other).copied();
            let counts = !known.failed.contains(&rank);
            if counts && value.is_none() {
                return wrong(format!("node {node} counts node {other} in, which is not"));
            }
            least &= value.unwrap_or(u64::MAX);
            most &= value.filter(|_| counts).unwrap_or(u64::MAX);
        }
        if known.value & !most != 0 || known.value & least != least {
            return wrong(format!(
                "node {node} has the value {:x}, of {values:x?}, without {:?}",
                known.value, known.failed
            ));
        }
        let value = known.value;
        let agreed = Agreed { value, known };
        let mut all = self.agreed.remove(&at).unwrap_or_default();
        // Another group of this number has other members.
        all.retain(|other, _| self.goes_on(*other) || !of.members.contains(other));
        for (other, theirs) in &all {
            let counts = of.members.contains(other) && self.goes_on(node);
            if counts && (theirs.value, &theirs.known) != (agreed.value, &agreed.known) {
                return wrong(format!(
                    "node {node} has {:?}, node {other} {:?}",
                    agreed.known, theirs.known
                ));
            }
        }
        all.insert(node, agreed);
        self.agreed.insert(at, all);
        Ok(())
    }

    /// Judges that a member was cut off in an agreement.
    ///
    /// # Errors
    /// The promise that broke.
    pub fn cut_off(&mut self, of: Member<'_>, number: u64) -> Verdict {
        self.completed += 1;
        let gone = of.members.iter().filter(|node| self.left.contains(node));
        if self.only_deaths && self.goes_on(of.node()) && 2 * gone.count() < of.members.len() {
            let (node, group) = (of.node(), of.group);
            let text = format!("agreement {number} of group {group}: node {node} is cut off");
            return broken(Kind::Group, text);
        }
        Ok(())
    }

    /// Returns true if no living member waits.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.open.is_empty()
    }

    /// Checks that no living member waits.
    ///
    /// # Errors
    /// A member that waits for ever.
    pub fn finish(&self) -> Verdict {
        let silent = |(group, by): &&(u32, u32)| {
            self.alive.contains(by) && !self.failed.contains_key(&(*group, *by))
        };
        if let Some(node) = self.gave_up.difference(&self.left).next() {
            let text = format!("node {node} gave nothing up, but others heard so");
            return broken(Kind::Group, text);
        }
        if let Some((group, by)) = self.reported.keys().find(silent) {
            let text = format!("node {by} told others of a failure in group {group}, and had none");
            return broken(Kind::Group, text);
        }
        match self.open.iter().next() {
            Some(((origin, node), text)) => {
                let text = format!("node {node} waits for ever, group {origin}: {text}");
                broken(Kind::Group, text)
            }
            None => Ok(()),
        }
    }
}
