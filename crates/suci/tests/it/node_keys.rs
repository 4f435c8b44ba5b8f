//! Nodes with keys of their own.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, builder, take};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use suci::group::{Group, GroupError, MemberFailure};
use suci::remote::{Cause, RemoteFailure, Rights};
use suci::security::{ClusterKey, KeyError, KeyFile, Keyring, NodeKey, PublicKeys};
use suci::sockets::{Address, SocketKind};
use suci::{
    AddressBook, EndReason, Error, Event, Layer, Membership, NOT_PERMITTED, Next, Node,
    NodeBuilder, NodeId, RefusedReason, SharedNode, Side,
};

fn key(byte: u8) -> NodeKey {
    NodeKey::from_bytes(&[byte; 32]).unwrap()
}

/// The text of a file of public keys: nodes, their keys and the words behind.
fn text(lines: &[(u32, u8, &str)]) -> String {
    let line = |(node, byte, layers): &(u32, u8, &str)| {
        format!("{node} {} {layers}\n", key(*byte).public())
    };
    lines.iter().map(line).collect()
}

fn public(lines: &[(u32, u8, &str)]) -> PublicKeys {
    PublicKeys::parse(&text(lines)).unwrap()
}

const BOTH: [(u32, u8, &str); 2] = [(0, 1, ""), (1, 2, "")];

/// A node with its own key, and the public keys of `lines`.
fn with_keys(id: u32, own: u8, lines: &[(u32, u8, &str)]) -> NodeBuilder {
    builder(id).node_keys(key(own), public(lines))
}

/// Two nodes that know each other.
fn acquainted(a: NodeBuilder, b: NodeBuilder) -> (Node, Node) {
    let (mut a, mut b) = (a.open().unwrap(), b.open().unwrap());
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    (a, b)
}

/// Serves both nodes until both had an event that `wanted` chooses, and returns what it found.
fn both_hear<T: Copy>(nodes: [&mut Node; 2], wanted: impl Fn(&Event) -> Option<T>) -> [T; 2] {
    let end = Instant::now() + LONG;
    let mut heard = [None, None];
    let mut nodes = nodes;
    loop {
        for (node, heard) in nodes.iter_mut().zip(&mut heard) {
            assert!(Instant::now() < end, "node {} hears nothing", node.id());
            match node.next_timeout(Duration::from_millis(10)).unwrap() {
                Some(Next::Event(event)) => *heard = heard.or(wanted(&event)),
                Some(Next::Message(message)) => panic!("received {message:?}"),
                None => {}
            }
        }
        if let [Some(one), Some(two)] = heard {
            return [one, two];
        }
    }
}

fn refusal(event: &Event) -> Option<RefusedReason> {
    match event {
        Event::Refused { reason, .. } => Some(*reason),
        _ => None,
    }
}

fn end(event: &Event) -> Option<EndReason> {
    match event {
        Event::Ended { reason, .. } => Some(*reason),
        _ => None,
    }
}

#[test]
fn nodes_that_know_each_others_keys_talk() {
    let (mut a, mut b) = acquainted(with_keys(0, 1, &BOTH), with_keys(1, 2, &BOTH));
    for length in [0, 64, 20_000, 1_000_000] {
        a.send(b.id(), vec![7; length]).unwrap();
        assert_eq!(take(&mut b).payload, vec![7; length]);
        b.send(a.id(), vec![8; length]).unwrap();
        assert_eq!(take(&mut a).payload, vec![8; length]);
    }
    a.close(LONG).unwrap();
    b.close(LONG).unwrap();
}

/// Node 2 is a member, and takes the ID of node 1.
#[test]
fn a_member_that_poses_as_another_is_heard_by_nobody_and_both_say_why() {
    let all = [(0, 1, ""), (1, 2, ""), (2, 3, "")];
    let posing = [(0, 1, ""), (1, 3, "")];
    let (mut a, mut b) = acquainted(with_keys(0, 1, &all), with_keys(1, 3, &posing));
    b.send(a.id(), "from node 1").unwrap();
    let said = both_hear([&mut a, &mut b], refusal);
    assert_eq!(said, [RefusedReason::NoNodeKeyHere, RefusedReason::NodeKey]);
    for reason in said {
        assert!(reason.to_string().contains("suci key public"), "{reason}");
    }
}

#[test]
fn a_node_with_its_own_key_and_others_never_talk_and_both_say_why() {
    let cluster = || builder(1).cluster_key(ClusterKey::from_bytes(&[2; 32]));
    let plain = || builder(1);
    for other in [cluster as fn() -> NodeBuilder, plain] {
        for first in [0, 1] {
            let (mut a, mut b) = acquainted(with_keys(0, 1, &BOTH), other());
            match first {
                0 => a.send(b.id(), "hello").unwrap(),
                _ => b.send(a.id(), "hello").unwrap(),
            };
            let said = both_hear([&mut a, &mut b], refusal);
            assert_eq!(said, [RefusedReason::Mode; 2]);
        }
    }
}

#[test]
fn a_key_that_is_taken_out_ends_its_session_and_both_say_why() {
    let (mut a, mut b) = acquainted(with_keys(0, 1, &BOTH), with_keys(1, 2, &BOTH));
    a.send(b.id(), "hello").unwrap();
    assert_eq!(take(&mut b).payload, "hello");
    a.set_node_keys(key(1), public(&[(0, 1, "")])).unwrap();
    let said = both_hear([&mut a, &mut b], end);
    assert_eq!(said, [EndReason::Revoked, EndReason::RevokedThere]);
    b.send(a.id(), "again").unwrap();
    let said = both_hear([&mut a, &mut b], refusal);
    assert_eq!(said, [RefusedReason::NoNodeKeyHere, RefusedReason::NodeKey]);
    a.set_node_keys(key(1), public(&BOTH)).unwrap();
    assert_eq!(take(&mut a).payload, "again");
}

#[test]
fn layers_that_a_node_may_not_use_are_typed_errors() {
    let lines = [(0, 1, ""), (1, 2, "sockets groups")];
    let (mut a, mut b) = acquainted(with_keys(0, 1, &lines), with_keys(1, 2, &BOTH));
    // Before the handshake b does not know.
    b.send(a.id(), "hello").unwrap();
    let end = Instant::now() + LONG;
    let reason = loop {
        assert!(Instant::now() < end);
        a.poll(Duration::ZERO).unwrap();
        match b.next_timeout(Duration::from_millis(10)).unwrap() {
            Some(Next::Event(Event::NotDelivered { reason, .. })) => break reason,
            Some(Next::Message(message)) => panic!("received {message:?}"),
            _ => {}
        }
    };
    assert_eq!(reason, NOT_PERMITTED);
    let error = b.send(a.id(), "hello").unwrap_err();
    let is_typed = matches!(
        error,
        Error::NotPermitted {
            layer: Layer::Messages,
            ..
        }
    );
    assert!(is_typed, "{error:?}");
    assert!(
        error.to_string().contains("add the word messages"),
        "{error}"
    );
    // a may use everything of b, and b may answer.
    a.send(b.id(), "hello").unwrap();
    assert_eq!(take(&mut b).payload, "hello");
    // More rights come within the session.
    a.set_node_keys(key(1), public(&BOTH)).unwrap();
    let end = Instant::now() + LONG;
    while b.send(a.id(), "permitted").is_err() {
        assert!(Instant::now() < end);
        a.poll(Duration::ZERO).unwrap();
        b.poll(Duration::ZERO).unwrap();
    }
    assert_eq!(take(&mut a).payload, "permitted");
}

/// The files of a node: its own key and the public ones.
struct Files {
    dir: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir }
    }

    fn public(&self) -> PathBuf {
        self.dir.path().join("public.keys")
    }

    fn own(&self, id: u32) -> KeyFile<NodeKey> {
        KeyFile::of_node(self.dir.path().join(format!("node{id}.key")))
    }

    fn write(&self, text: &str) {
        let beside = self.dir.path().join("beside");
        fs::write(&beside, text).unwrap();
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o644)).unwrap();
        fs::rename(beside, self.public()).unwrap();
    }

    fn builder(&self, id: u32) -> NodeBuilder {
        builder(id).node_key_files(self.own(id).path(), self.public())
    }
}

/// The lines of these nodes with these keys.
fn lines(of: &[(u32, &Keyring<NodeKey>)]) -> String {
    let mut text = String::from("# our nodes\n");
    for (id, keys) in of {
        keys.iter()
            .for_each(|key| text += &format!("{id} {}\n", key.public()));
    }
    text
}

/// A node changes its key while it talks, and is taken out of the file at last.
#[test]
fn changed_files_are_noticed() {
    let files = Files::new();
    let [zero, one] = [0, 1].map(|id| files.own(id).create().unwrap());
    files.write(&lines(&[(0, &zero), (1, &one)]));
    let (mut a, mut b) = acquainted(files.builder(0), files.builder(1));
    a.send(b.id(), "hello").unwrap();
    assert_eq!(take(&mut b).payload, "hello");
    let both = files.own(1).rotate().unwrap();
    files.write(&lines(&[(0, &zero), (1, &both)]));
    serve([&mut a, &mut b], Duration::from_secs(5));
    let new = files.own(1).retire().unwrap();
    files.write(&lines(&[(0, &zero), (1, &new)]));
    serve([&mut a, &mut b], Duration::from_secs(5));
    assert_eq!(a.counters().unwrap().protocol_errors, 0);
    files.write(&lines(&[(0, &zero)]));
    let said = both_hear([&mut a, &mut b], end);
    assert_eq!(said, [EndReason::Revoked, EndReason::RevokedThere]);
}

/// Has both send to each other for that time; nothing is lost.
fn serve([a, b]: [&mut Node; 2], time: Duration) {
    let until = Instant::now() + time;
    let mut sent = 0_u64;
    while Instant::now() < until {
        a.send(b.id(), sent.to_string()).unwrap();
        assert_eq!(take(b).payload, sent.to_string());
        b.send(a.id(), sent.to_string()).unwrap();
        assert_eq!(take(a).payload, sent.to_string());
        sent += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn files_that_others_could_use_are_refused_with_the_remedy() {
    let files = Files::new();
    let own = files.own(0).create().unwrap();
    files.write(&lines(&[(0, &own)]));
    files.builder(0).open().unwrap();
    let chmod = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    chmod(&files.public(), 0o664);
    let error = files.builder(0).open().unwrap_err();
    let is_named = matches!(
        error,
        Error::Key(KeyError::WritableByOthers { mode: 0o664, .. })
    );
    assert!(
        is_named && error.to_string().contains("chmod go-w"),
        "{error}"
    );
    chmod(&files.public(), 0o444);
    chmod(files.own(0).path(), 0o640);
    let error = files.builder(0).open().unwrap_err();
    let is_named = matches!(error, Error::Key(KeyError::OpenToOthers { .. }));
    assert!(is_named, "{error}");
    chmod(files.own(0).path(), 0o600);
    files.write("# nobody\n");
    let error = files.builder(0).open().unwrap_err().to_string();
    assert!(error.contains("there is no key"), "{error}");
    files.write(&format!("1 {}\n", key(2).public()));
    let error = files.builder(0).open().unwrap_err().to_string();
    let line = format!("0 {}", own.first().public());
    assert!(error.contains(&line), "{error}");
    // A key of a cluster is none of a node.
    let other = KeyFile::new(files.dir.path().join("cluster.key"));
    other.create().unwrap();
    let error = builder(0)
        .node_key_files(other.path(), files.public())
        .open();
    let error = error.unwrap_err().to_string();
    assert!(error.contains("suci-node-key-1"), "{error}");
}

#[test]
fn nodes_with_threads_change_their_keys_too() {
    let a = with_keys(0, 1, &BOTH).open_threads(2).unwrap();
    let mut b = with_keys(1, 2, &BOTH).open().unwrap();
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    a.send(b.id(), "hello").unwrap();
    assert_eq!(take(&mut b).payload, "hello");
    assert!(matches!(
        a.set_keys(ClusterKey::from_bytes(&[1; 32])),
        Err(Error::NotSealed)
    ));
    a.set_node_keys(key(1), public(&[(0, 1, "")])).unwrap();
    let until = Instant::now() + LONG;
    loop {
        assert!(Instant::now() < until);
        if let Some(Next::Event(Event::Ended { reason, .. })) =
            b.next_timeout(Duration::from_millis(10)).unwrap()
        {
            assert_eq!(reason, EndReason::RevokedThere);
            return;
        }
    }
}

/// A thread learns what a node may use after the program's call accepted the message.
#[test]
fn a_node_with_threads_hears_of_denied_layers() {
    let lines = [(0, 1, ""), (1, 2, "sockets")];
    let mut a = with_keys(0, 1, &lines).open().unwrap();
    let b = with_keys(1, 2, &BOTH).open_threads(1).unwrap();
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    for _ in 0..2 {
        b.send(a.id(), "hello").unwrap();
        let end = Instant::now() + LONG;
        let reason = loop {
            assert!(Instant::now() < end);
            a.poll(Duration::from_millis(5)).unwrap();
            if let Some(Next::Event(Event::NotDelivered { reason, .. })) =
                b.next_timeout(Duration::from_millis(5)).unwrap()
            {
                break reason;
            }
        };
        assert_eq!(reason, NOT_PERMITTED);
    }
}

/// Two nodes with threads, the second of which may use these layers of the first alone.
fn restricted(layers: &str) -> (SharedNode, SharedNode) {
    let lines = [(0, 1, ""), (1, 2, layers)];
    let a = with_keys(0, 1, &lines).open_threads(1).unwrap();
    let b = with_keys(1, 2, &BOTH).open_threads(1).unwrap();
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    (a, b)
}

/// The first operation begins before the handshake, the second one after it.
#[test]
fn denied_one_sided_operations_fail_with_their_cause() {
    let (a, b) = restricted("messages");
    let region = a.allocate_region(64, Rights::READ | Rights::WRITE).unwrap();
    let (remote, handle) = (b.remote().limit(LONG), region.handle());
    for _ in 0..2 {
        let failed = remote.get(&handle, 0, &mut [0; 8]).unwrap_err();
        let is_typed = matches!(
            &failed,
            RemoteFailure::Operation(error) if error.cause == Cause::NotPermitted
        );
        assert!(is_typed, "{failed:?}");
        remote.put(&handle, 0, vec![1; 8]).unwrap();
        let failed = remote.quiet().unwrap_err();
        assert!(
            failed.to_string().contains("the word one-sided"),
            "{failed}"
        );
    }
    let mut bytes = [9; 8];
    region.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 8]);
    // The other direction is permitted, also its answers.
    let there = b.allocate_region(64, Rights::READ | Rights::WRITE).unwrap();
    let (remote, handle) = (a.remote().limit(LONG), there.handle());
    remote.get(&handle, 0, &mut bytes).unwrap();
}

#[test]
fn denied_groups_fail_at_both_members() {
    let (a, b) = restricted("messages");
    let members = [a.id(), b.id()];
    let failure = |node: SharedNode, side: Side| {
        std::thread::spawn(move || {
            let mut group = Group::new(&node, 7, &members).unwrap();
            group.set_limit(LONG);
            let mut node = node;
            let failed = group.barrier(&mut node).unwrap_err();
            let is_typed = match &failed {
                GroupError::Member { failure, .. } => *failure == MemberFailure::NotPermitted(side),
                GroupError::Node(Error::NotPermitted { layer, .. }) => *layer == Layer::Groups,
                _ => false,
            };
            assert!(is_typed, "{failed:?}");
            node
        })
    };
    let both = [failure(a, Side::Here), failure(b, Side::There)];
    let both = both.map(|thread| thread.join().unwrap());
    drop(both);
}

/// Returns the layer whose denial `node` hears of, while the others are served.
fn denial(node: &mut Node, others: &mut [&mut Node]) -> Layer {
    let end = Instant::now() + LONG;
    loop {
        assert!(Instant::now() < end, "node {} hears nothing", node.id());
        for other in others.iter_mut() {
            other.poll(Duration::ZERO).unwrap();
        }
        if let Some(Next::Event(Event::Refused { reason, .. })) =
            node.next_timeout(Duration::from_millis(5)).unwrap()
        {
            let (layer, text) = (reason.denied_layer().unwrap(), reason.to_string());
            assert!(text.contains(&format!("add the word {layer}")), "{text}");
            return layer;
        }
    }
}

#[test]
fn a_member_that_is_denied_membership_hears_of_it() {
    let lines = [(0, 1, ""), (1, 2, "messages")];
    let member = |node: NodeBuilder, seed: Option<&Node>| {
        let cluster = Membership::new("example");
        let cluster = match seed {
            Some(seed) => cluster.seed(seed.id(), seed.local_addr()),
            None => cluster,
        };
        node.membership(cluster).open().unwrap()
    };
    let mut a = member(with_keys(0, 1, &lines), None);
    let mut b = member(with_keys(1, 2, &BOTH), Some(&a));
    assert_eq!(denial(&mut b, &mut [&mut a]), Layer::Membership);
    // It does not wait for what cannot come.
    let begun = Instant::now();
    let error = b.wait_joined(LONG).unwrap_err().to_string();
    assert!(begun.elapsed() < LONG);
    assert!(error.contains("add the word membership"), "{error}");
    // The right may come.
    a.set_node_keys(key(1), public(&BOTH)).unwrap();
    let end = Instant::now() + LONG;
    while b.wait_joined(Duration::from_millis(5)).is_err() {
        assert!(Instant::now() < end);
        a.poll(Duration::from_millis(5)).unwrap();
    }
    assert_eq!(b.members().unwrap().len(), 2);
}

/// Node 1 sends packets to node 2 over node 0, which does not permit that.
#[test]
fn a_node_that_is_denied_routes_hears_of_it() {
    let all = [(0, 1, ""), (1, 2, ""), (2, 3, "")];
    let lines = [(0, 1, ""), (1, 2, "messages"), (2, 3, "")];
    let mut a = with_keys(0, 1, &lines).forward(true).open().unwrap();
    let book = format!("0 {}\n2 via 0", a.local_addr());
    let book = AddressBook::parse(&book, "book").unwrap();
    let mut b = with_keys(1, 2, &all).book(book).open().unwrap();
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.send(NodeId(2), "hello").unwrap();
    assert_eq!(denial(&mut b, &mut [&mut a]), Layer::Routes);
}

#[test]
fn denied_sockets_fail_with_their_cause() {
    let (a, b) = restricted("messages");
    let server = a.sockets();
    let _listener = server
        .listen(server.bind(80).unwrap(), SocketKind::Stream, 4)
        .unwrap();
    let at = Address {
        node: a.id(),
        port: 80,
    };
    for _ in 0..2 {
        let client = b.sockets().connect(None, at, SocketKind::Stream).unwrap();
        let mut context = Context::from_waker(Waker::noop());
        let end = Instant::now() + LONG;
        let failed = loop {
            assert!(Instant::now() < end);
            match client.poll_connected(&mut context) {
                Poll::Ready(connected) => break connected.unwrap_err(),
                Poll::Pending => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        assert!(failed.to_string().contains("public keys"), "{failed}");
    }
}
