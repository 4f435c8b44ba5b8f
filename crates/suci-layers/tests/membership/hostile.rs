//! Members that lie, leave and die.

use std::net::SocketAddr;
use std::time::Duration;
use suci_layers::membership::{
    Change, Contact, JoinState, Membership, MembershipBody, MembershipMessage, Record, Settings,
    Status, cluster_number,
};
use suci_proto::time::Instant;
use suci_proto::types::{Incarnation, NodeId};

const OWN: NodeId = NodeId(0);
const LIAR: NodeId = NodeId(1);
const VICTIM: NodeId = NodeId(2);

struct World {
    member: Membership,
    now: Instant,
}

fn record(node: u32, process: u128, version: u64) -> Record {
    Record {
        node: NodeId(node),
        incarnation: Incarnation(process),
        version,
        status: Status::Alive,
        address: SocketAddr::from(([10, 0, 0, 1], 4000)),
    }
}

impl World {
    fn new(max_members: usize) -> Self {
        Self::with_seeds(max_members, &[])
    }

    fn with_seeds(max_members: usize, seeds: &[NodeId]) -> Self {
        let now = Instant::from_nanos(1);
        let settings = Settings {
            cluster: "test".into(),
            max_members,
            ..Settings::default()
        };
        let process = (OWN, Incarnation(7));
        let address = SocketAddr::from(([10, 0, 0, 9], 4000));
        Self {
            member: Membership::new(now, settings, process, address, seeds.iter().copied(), 1),
            now,
        }
    }

    fn tell(&mut self, from: NodeId, records: Vec<Record>, live: Option<Incarnation>) {
        let message = MembershipMessage {
            cluster: cluster_number("test"),
            observed: None,
            body: MembershipBody::Records(records),
        };
        let live = |node| live.filter(|_| node == VICTIM);
        self.member
            .on_message(self.now, from, &message.write(), live);
    }

    fn changes(&mut self) -> Vec<Change> {
        std::iter::from_fn(|| self.member.poll_change(|_| true)).collect()
    }

    /// Returns all messages that wait for a node.
    fn sent(&mut self, to: NodeId) -> Vec<MembershipBody> {
        let mut all = Vec::new();
        loop {
            self.now += Duration::from_millis(300);
            let polled = self
                .member
                .poll_message(self.now, |node| node == to, |_| None);
            let Some((_, bytes)) = polled else {
                return all;
            };
            all.push(MembershipMessage::read(&bytes).unwrap().body);
        }
    }
}

/// F02: invented nodes take bounded memory, and the first to go are those that are gone.
#[test]
fn f02_a_member_that_invents_nodes_fills_no_more_than_the_table() {
    let mut world = World::new(100);
    for first in (1..100_000).step_by(300) {
        let invented = (first..first + 300).map(|node| record(node, 1, 1));
        world.tell(LIAR, invented.collect(), None);
    }
    assert_eq!(world.member.members().len(), 100);
    assert!(world.member.counters().refused > 90_000);
    // The answers to it are bounded, too.
    let whole = MembershipMessage {
        cluster: cluster_number("test"),
        observed: None,
        body: MembershipBody::Range {
            first: 0,
            last: u32::MAX,
            records: Vec::new(),
        },
    };
    for _ in 0..1_000 {
        let now = world.now;
        (world.member).on_message(now, LIAR, &whole.write(), |_| None);
    }
    let owed: usize = world
        .sent(LIAR)
        .iter()
        .map(|body| match body {
            MembershipBody::Records(records) | MembershipBody::Range { records, .. } => {
                records.len()
            }
            _ => 0,
        })
        .sum();
    assert!(owed <= 200, "{owed}");
}

/// F12: an entry does not replace the address of a node whose session proves the contrary.
#[test]
fn f12_the_address_of_a_live_node_is_replaced_only_by_itself() {
    let live = Some(Incarnation(5));
    let mut world = World::new(100);
    world.tell(VICTIM, vec![record(2, 5, 1)], live);
    let forged = Record {
        address: SocketAddr::from(([6, 6, 6, 6], 666)),
        ..record(2, 6, 9)
    };
    world.tell(LIAR, vec![forged], live);
    assert_eq!(*world.member.record(VICTIM).unwrap(), record(2, 5, 1));
    assert_eq!(world.member.counters().refused, 1);
    // The node is told, so that it contradicts, or shows that it is not there any more.
    assert_eq!(world.sent(VICTIM), [MembershipBody::Records(vec![forged])]);
    world.tell(
        VICTIM,
        vec![Record {
            version: 2,
            ..forged
        }],
        live,
    );
    assert_eq!(world.member.record(VICTIM).unwrap().version, 2);
    // Without a session the newest record counts, until the node itself contradicts.
    world.tell(LIAR, vec![record(2, 8, 3)], None);
    assert_eq!(
        world.member.record(VICTIM).unwrap().incarnation,
        Incarnation(8)
    );
}

#[test]
fn a_version_that_leaves_no_room_to_refute_is_refused() {
    let mut world = World::new(100);
    world.tell(VICTIM, vec![record(2, 5, 1)], None);
    for version in [u64::MAX, 1 << 33] {
        let dead = Record {
            status: Status::Failed,
            ..record(2, 5, version)
        };
        world.tell(LIAR, vec![dead], None);
    }
    assert_eq!(
        world.changes(),
        [Change::Joined(VICTIM, record(2, 5, 1).address)]
    );
    // The same about this member itself.
    world.tell(LIAR, vec![record(0, 3, u64::MAX)], None);
    let own = world.member.record(OWN).unwrap();
    assert_eq!((own.version, own.incarnation), (1, Incarnation(7)));
}

#[test]
fn a_member_that_is_told_dead_says_that_it_lives() {
    let mut world = World::new(100);
    let own = *world.member.record(OWN).unwrap();
    for (status, version) in [(Status::Suspect, 2), (Status::Failed, 3), (Status::Left, 4)] {
        let version_told = version - 1;
        let told = Record {
            status,
            version: version_told,
            ..own
        };
        world.tell(LIAR, vec![told], None);
        let expected = Record { version, ..own };
        assert_eq!(*world.member.record(OWN).unwrap(), expected);
        assert_eq!(world.sent(LIAR), [MembershipBody::Records(vec![expected])]);
    }
    assert_eq!(world.changes(), []);
}

#[test]
fn records_of_no_use_are_refused() {
    let mut world = World::new(100);
    let at = |text: &str| Record {
        address: text.parse().unwrap(),
        ..record(3, 1, 1)
    };
    let useless = ["0.0.0.0:4000", "10.0.0.1:0", "224.0.0.1:4000", "[::]:4000"];
    world.tell(LIAR, useless.map(at).to_vec(), None);
    let dead = Record {
        status: Status::Failed,
        ..record(4, 1, 1)
    };
    world.tell(LIAR, vec![dead], None);
    assert_eq!(world.member.members().len(), 1);
    assert_eq!(world.changes(), []);
    for bytes in [&[][..], &[9; 40], &[0; 70_000]] {
        world.member.on_message(world.now, LIAR, bytes, |_| None);
    }
    assert_eq!(world.member.counters().dropped, 3);
}

#[test]
fn a_process_that_took_a_members_place_does_not_keep_it_alive() {
    let mut world = World::new(100);
    world.tell(VICTIM, vec![record(2, 5, 1)], None);
    for _ in 0..30 {
        world.now += Duration::from_secs(1);
        let other = Contact::Up(Incarnation(9));
        world.member.on_contact(world.now, VICTIM, other);
        world.member.on_time(world.now);
    }
    assert_eq!(world.changes().last(), Some(&Change::Failed(VICTIM)));
}

#[test]
fn a_member_does_not_doubt_itself() {
    let (own, other) = (Incarnation(7), Incarnation(9));
    for contact in [
        Contact::Silent(None),
        Contact::Ended(Some(own)),
        Contact::Up(other),
    ] {
        let mut world = World::new(100);
        for _ in 0..5_000 {
            world.now += Duration::from_secs(1);
            world.member.on_contact(world.now, OWN, contact);
            world.member.on_time(world.now);
        }
        let status = world.member.record(OWN).map(|record| record.status);
        assert_eq!(status, Some(Status::Alive), "{contact:?}");
        assert_eq!(world.changes(), []);
    }
}

/// The port of a member that left is closed before all have heard of it.
#[test]
fn a_member_that_left_has_not_failed_because_its_process_ended() {
    let left = Record {
        status: Status::Left,
        ..record(2, 5, 1)
    };
    for (told, expected) in [
        (true, Change::Left(VICTIM)),
        (false, Change::Failed(VICTIM)),
    ] {
        let mut world = World::new(100);
        world.tell(VICTIM, vec![record(2, 5, 1)], None);
        world.changes();
        let ended = Contact::Ended(Some(Incarnation(5)));
        world.member.on_contact(world.now, VICTIM, ended);
        world.now += Duration::from_millis(300);
        if told {
            world.tell(LIAR, vec![left], None);
        }
        world.now += Duration::from_millis(300);
        world.member.on_contact(world.now, VICTIM, ended);
        assert_eq!(world.changes(), [expected]);
        // Where that comes late, the failure is put right, once.
        world.tell(LIAR, vec![left], None);
        world.tell(LIAR, vec![left], None);
        let late = [Change::Left(VICTIM)];
        assert_eq!(world.changes(), late[usize::from(told)..]);
    }
}

/// It has no session with the only other member that it knows so far.
#[test]
fn a_member_that_leaves_soon_after_it_joined_tells_its_seed() {
    const SEED: NodeId = NodeId(3);
    let mut world = World::with_seeds(100, &[SEED]);
    world.member.on_time(world.now);
    assert!(matches!(
        world.sent(SEED)[..],
        [MembershipBody::Digest { .. }]
    ));
    world.tell(SEED, vec![record(2, 5, 1)], None);
    world.now += Duration::from_secs(2);
    world.member.on_time(world.now);
    world.member.leave(world.now);
    let told = world.sent(SEED);
    let [MembershipBody::Records(records)] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(
        records.iter().map(|it| it.status).collect::<Vec<_>>(),
        [Status::Left]
    );
}

/// Its seed learned of it, and compares tables before it answers.
#[test]
fn a_member_whose_table_equals_that_of_its_seed_joined() {
    const SEED: NodeId = NodeId(3);
    let mut world = World::with_seeds(100, &[SEED]);
    let own = record(SEED.0, 5, 1);
    world.member.on_time(world.now);
    let sent = world.sent(SEED);
    let [MembershipBody::Digest { own: joining, .. }] = sent[..] else {
        panic!("{sent:?}");
    };
    let settings = Settings {
        cluster: "test".into(),
        ..Settings::default()
    };
    let process = (SEED, own.incarnation);
    let mut seed = Membership::new(world.now, settings, process, own.address, [], 1);
    let message = |body| MembershipMessage {
        cluster: cluster_number("test"),
        observed: None,
        body,
    };
    let told = message(MembershipBody::Records(vec![joining]));
    seed.on_message(world.now, OWN, &told.write(), |_| None);
    seed.on_time(world.now);
    let (_, digest) = seed
        .poll_message(world.now, |_| true, |_| None)
        .expect("it compares tables with its new neighbour");
    assert_eq!(world.member.join_state(), JoinState::Waiting);
    world.member.on_message(world.now, SEED, &digest, |_| None);
    assert_eq!(world.member.join_state(), JoinState::Joined);
}
