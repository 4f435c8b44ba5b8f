//! Membership: a process joins a cluster through one that is in it, and learns of all others.

use crate::book::shown;
use crate::error::Error;
use crate::opened::Fixed;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use suci_layers::membership::{JoinState, MAX_CLUSTER_NAME, Settings, SharedMembership, Status};
use suci_proto::types::{Incarnation, Layer, NodeId};
use suci_proto::{ConfigError, LinkState, LostCause, MemberState, RefusedReason};

/// Settings of a member of a cluster, for
/// [`NodeBuilder::membership`](crate::NodeBuilder::membership).
///
/// A process needs the ID and address of one member, its seed, and learns of all others. Seeds are
/// those named here and all nodes of the address book. A node without seeds, or whose only seed is
/// itself, begins a cluster. The first seed should have another one as its seed: after a restart it
/// would begin a cluster of its own otherwise, until a member of the old one finds it.
///
/// ```
/// use std::time::Duration;
/// use suci::{Event, Membership, Next, Node, NodeId};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let member = |id| Node::builder().id(NodeId(id)).listen(([127, 0, 0, 1], 0).into());
/// let mut first = member(1).membership(Membership::new("example")).open()?;
/// // Usually another process, which knows this address.
/// let seed = Membership::new("example").seed(first.id(), first.local_addr());
/// let mut second = member(2).membership(seed).open()?;
/// # let first = std::thread::spawn(move || {
/// assert!(matches!(first.next()?, Next::Event(Event::Up { .. })));
/// assert!(matches!(first.next()?, Next::Event(Event::MemberJoined { .. })));
/// # Ok::<_, suci::Error>(first)
/// # });
/// second.wait_joined(Duration::from_secs(10))?;
/// assert_eq!(second.members()?.len(), 2);
/// # first.join().unwrap()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    settings: Settings,
    seeds: Vec<(NodeId, SocketAddr)>,
}

impl Membership {
    /// A member of the cluster with this name, of 1 to 64 bytes. Nodes of clusters with different
    /// names tell each other nothing.
    #[must_use]
    pub fn new(cluster: impl Into<String>) -> Self {
        let settings = Settings {
            cluster: cluster.into(),
            ..Settings::default()
        };
        Self {
            settings,
            seeds: Vec::new(),
        }
    }

    /// Adds a seed. All members may name the same seeds, a seed itself among them.
    #[must_use]
    pub fn seed(mut self, node: NodeId, address: SocketAddr) -> Self {
        self.seeds.push((node, address));
        self
    }

    /// Sets the time in which a member must answer that counts as lost, before it counts as failed.
    /// Default 5 s; it begins after the [silence
    /// timeout](crate::NodeBuilder::silence_timeout). It should be equal at all members.
    #[must_use]
    pub fn suspicion(mut self, time: Duration) -> Self {
        self.settings.suspicion = time;
        self
    }

    /// Sets the time after which a node that failed or left is forgotten. Default 1 h. The parts of
    /// a network that was divided for longer find each other only by their seeds.
    #[must_use]
    pub fn forget_after(mut self, time: Duration) -> Self {
        self.settings.forget_after = time;
        self
    }

    /// Sets the most nodes that are known, those included that failed or left. Default 16,384; each
    /// takes about 300 B, and what a peer of the book takes ([`NodeBuilder::max_peers`
    /// ](crate::NodeBuilder::max_peers)).
    #[must_use]
    pub fn max_members(mut self, count: usize) -> Self {
        self.settings.max_members = count;
        self
    }

    /// Returns the seeds that were named.
    pub(crate) fn seeds(&self) -> &[(NodeId, SocketAddr)] {
        &self.seeds
    }

    /// Returns the settings, if they are in range.
    pub(crate) fn settings(&self) -> Result<Settings, ConfigError> {
        let Settings {
            cluster,
            suspicion,
            max_members,
            ..
        } = &self.settings;
        let refused = |setting, value: &dyn std::fmt::Debug, allowed| ConfigError {
            setting,
            value: format!("{value:?}"),
            allowed,
        };
        if cluster.is_empty() || cluster.len() > MAX_CLUSTER_NAME {
            return Err(refused(
                "cluster",
                &shown(cluster),
                "a name of 1 to 64 bytes",
            ));
        }
        if suspicion.is_zero() {
            return Err(refused("suspicion", suspicion, "more than 0"));
        }
        if *max_members < 2 {
            return Err(refused("max_members", max_members, "at least 2"));
        }
        Ok(self.settings.clone())
    }
}

/// A member of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// Its node ID.
    pub node: NodeId,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its process.
    pub incarnation: Incarnation,
    /// Another member does not hear it: it counts as failed soon, unless it answers.
    pub is_suspect: bool,
}

/// A member that all drivers of a node share, and the cluster that it belongs to.
#[derive(Debug)]
pub(crate) struct OwnMembership {
    pub(crate) shared: SharedMembership,
    pub(crate) cluster: String,
}

impl OwnMembership {
    pub(crate) fn members(&self) -> Vec<Member> {
        let records = self.shared.members().into_iter();
        let member = records.map(|record| Member {
            node: record.node,
            address: record.address,
            incarnation: record.incarnation,
            is_suspect: record.status == Status::Suspect,
        });
        member.collect()
    }

    /// Returns whether the node joined; the error, if it cannot.
    pub(crate) fn has_joined(&self) -> Result<bool, Error> {
        match self.shared.join_state() {
            JoinState::Joined => Ok(true),
            JoinState::Waiting => Ok(false),
            JoinState::OtherCluster(seed, name) => Err(self.not_joined(format!(
                "seed {seed} belongs to cluster {name:?}: name that cluster, or another seed"
            ))),
            JoinState::Denied(seed) => Err(self.not_joined(format!("seed {seed} {}", denied()))),
        }
    }

    fn not_joined(&self, why: String) -> Error {
        let cluster = self.cluster.clone();
        Error::NotJoined { cluster, why }
    }

    /// Returns the error of a wait that came to its limit, given the states of the seeds.
    pub(crate) fn why_not(&self, states: &[(NodeId, Option<MemberState>)]) -> Error {
        let each = states.iter().map(|(node, state)| {
            let why = match self.shared.is_denied_by(*node) {
                true => denied(),
                false => why_not(*state),
            };
            format!("seed {node} {why}")
        });
        self.not_joined(each.collect::<Vec<_>>().join("; "))
    }
}

/// Says that a seed does not permit this node membership.
fn denied() -> String {
    let reason = RefusedReason::Layer(Layer::Membership);
    format!("answers, but {reason}")
}

/// Says why a seed did not let this node join.
fn why_not(state: Option<MemberState>) -> String {
    let Some(state) = state else {
        return "is unknown: add it to the book".into();
    };
    match (state.link, state.cause) {
        (LinkState::Up, _) => "answers, but not as a member: set membership there, too".into(),
        (_, LostCause::Refused(reason)) => format!("refuses: {reason}"),
        (_, LostCause::ProcessDied) => "has ended: start it, or name another seed".into(),
        (_, LostCause::Unreachable(_)) => {
            "cannot be reached: start it, or correct its address".into()
        }
        _ => "does not answer: start it, correct its address, or name another seed".into(),
    }
}

/// Returns the membership of a node.
pub(crate) fn of(fixed: &Fixed) -> Result<&Arc<OwnMembership>, Error> {
    fixed.membership.as_ref().ok_or(Error::Missing {
        missing: "the membership",
        remedy: "set membership when the node is built",
    })
}

/// Returns a node ID that no other node of a cluster is likely to have: of 1,000 nodes with such
/// IDs two have the same in 1 of 8,000 clusters.
pub(crate) fn random_id() -> Result<NodeId, Error> {
    let random = crate::sys::random().map_err(Error::io("asking the system for random bytes"))?;
    Ok(NodeId(u32::from_le_bytes(random)))
}
