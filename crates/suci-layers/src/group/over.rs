//! Groups that are over, whose members may not know it, and ask.

use super::state::{GroupState, Host, Purpose};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use suci_proto::types::{ChannelId, NodeId, SessionNumber};

/// The most members of all groups that are remembered, 1 MiB. Each failure ends a group, so a node
/// that runs for years would remember more and more.
const MOST_MEMBERS: usize = 1 << 16;

/// The groups whose questions nobody takes any more.
#[derive(Debug, Default)]
pub(super) struct OverGroups {
    /// The members of each group, and the sessions that it had with them, by number.
    groups: BTreeMap<u32, Vec<(NodeId, SessionNumber)>>,
    /// The numbers, in the order in which the groups ended.
    order: VecDeque<u32>,
    /// The number of members in all groups.
    members: usize,
    /// Members that are to hear that their sessions are over, with the number of the group.
    outdated: BTreeSet<(u32, NodeId)>,
}

impl OverGroups {
    /// Returns true if no member is to hear anything.
    pub(super) fn is_silent(&self) -> bool {
        self.outdated.is_empty()
    }

    /// Remembers a group that is over. The groups that ended first are forgotten if there are too
    /// many.
    pub(super) fn add<H: Host>(&mut self, group: &GroupState<H>) {
        if self.groups.contains_key(&group.number) {
            return;
        }
        let sessions = group.sessions.iter().copied();
        let members: Vec<_> = group.members.iter().copied().zip(sessions).collect();
        self.members += members.len();
        self.groups.insert(group.number, members);
        self.order.push_back(group.number);
        while self.members > MOST_MEMBERS
            && let Some(first) = self.order.pop_front()
        {
            let forgotten = self.groups.remove(&first).unwrap_or_default();
            self.members = self.members.saturating_sub(forgotten.len());
        }
    }

    /// A node asked on this channel in this session what keeps it waiting. If the session is later
    /// than the group's, the node hears that this one is over: it may have missed the end.
    pub(super) fn on_question(&mut self, node: NodeId, session: SessionNumber, channel: ChannelId) {
        let Some(number) = Purpose::group_of_questions(channel) else {
            return;
        };
        let mut members = self.groups.get(&number).into_iter().flatten();
        if members.any(|(member, ours)| *member == node && session > *ours) {
            self.outdated.insert((number, node));
        }
    }

    /// Calls `tell` for each member that is to hear that its session is over, with the number of
    /// the group. Those for which it returns false are to hear it later.
    pub(super) fn tell(&mut self, mut tell: impl FnMut(u32, NodeId) -> bool) {
        self.outdated.retain(|(number, node)| !tell(*number, *node));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Nobody;

    impl Host for Nobody {
        type Error = ();

        fn settled(&self) {}
    }

    fn group(number: u32, size: u32) -> GroupState<Nobody> {
        let members: Vec<_> = (0..size).map(NodeId).collect();
        let sessions = vec![SessionNumber(3); members.len()];
        GroupState::new(number, members, sessions, (0, NodeId(0)), Nobody)
    }

    /// Returns the groups of which node 1 hears that it is outdated, if it asks in all of them.
    fn told(over: &mut OverGroups, numbers: impl Iterator<Item = u32>) -> Vec<u32> {
        let session = SessionNumber(4);
        for number in numbers {
            over.on_question(NodeId(1), session, Purpose::Questions.channel(number));
        }
        let mut told = Vec::new();
        over.tell(|number, node| {
            assert_eq!(node, NodeId(1));
            told.push(number);
            true
        });
        assert!(over.is_silent());
        told
    }

    #[test]
    fn the_groups_that_ended_last_are_remembered() {
        let size = u32::try_from(MOST_MEMBERS).unwrap() / 8;
        let mut over = OverGroups::default();
        // The lowest number ends last.
        for number in (0..20).rev() {
            over.add(&group(number, size));
            over.add(&group(number, size));
        }
        assert_eq!(told(&mut over, 0..20), (0..8).collect::<Vec<_>>());
        over.add(&group(50, 3));
        assert_eq!(over.groups.len(), over.order.len());
        assert_eq!(over.groups.len(), 8);
        assert!(over.members <= MOST_MEMBERS);
    }

    #[test]
    fn only_members_that_ask_in_a_later_session_are_told() {
        let mut over = OverGroups::default();
        over.add(&group(5, 2));
        let questions = Purpose::Questions.channel(5);
        over.on_question(NodeId(1), SessionNumber(3), questions);
        over.on_question(NodeId(7), SessionNumber(4), questions);
        over.on_question(NodeId(1), SessionNumber(4), Purpose::Data.channel(5));
        assert!(over.is_silent());
        assert_eq!(told(&mut over, 5..6), [5]);
        over.on_question(NodeId(1), SessionNumber(4), questions);
        over.tell(|_, _| false);
        assert!(!over.is_silent(), "its queue was full");
    }
}
