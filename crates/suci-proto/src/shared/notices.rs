//! Notices that the program and the layers did not take yet.

use super::Calls;
use super::input::PortInput;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use suci_channels::port::{PORTS, Port, Ports};
use suci_link::ranges::RangeSet;
use suci_link::types::{ChannelId, NodeId, SessionNumber};

/// Notices of all peers that the program and the layers did not take yet.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// The ports at which layers take their input.
    ports: Ports,
    /// Peers with events for the program, each once.
    pub(crate) peers_with_events: VecDeque<usize>,
    /// Number of announced messages, over all peers, of which no event and no receiving call told
    /// the program.
    pub(crate) unreported: usize,
    /// Messages were found to wait for a peer, a timer or the socket since the driver asked.
    pub(crate) found_waiting: bool,
    /// Peers whose suspension changed since the driver asked: at most every peer known, each once.
    pub(crate) resuspended: BTreeSet<NodeId>,
    /// Peers that were lost since the driver asked: at most every peer known, each once.
    pub(crate) lost: BTreeSet<NodeId>,
    /// Channels of groups that ended, by their numbers: messages that come there are dropped.
    /// Groups that are numbered one after the other take few ranges.
    pub(crate) ended_groups: RangeSet,
    /// Peers in the book whose messages on these channels were dropped, in which sessions, until
    /// somebody [asks](crate::Engine::poll_late_of_group). Bounded by the book and the groups that
    /// ended.
    pub(crate) late_of_groups: BTreeMap<(NodeId, ChannelId), SessionNumber>,
    pub(crate) calls: Calls,
    /// Input of each port that comes before the messages of present sessions.
    pub(crate) inputs: [VecDeque<PortInput>; PORTS],
}

impl Notices {
    pub(super) fn new(ports: Ports) -> Self {
        Self {
            ports,
            ..Self::default()
        }
    }

    /// Puts input at a port, if a layer takes it there.
    pub(crate) fn tell_port(&mut self, port: Port, input: PortInput) {
        if self.ports.has(port) {
            self.inputs[port as usize].push_back(input);
        }
    }

    /// Puts input at each port that hears of peers.
    pub(crate) fn tell_ports(&mut self, input: impl Fn() -> PortInput) {
        for port in Port::ALL.into_iter().filter(|port| port.hears_of_peers()) {
            self.tell_port(port, input());
        }
    }
}
