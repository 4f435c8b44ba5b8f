//! Nodes with a cluster key.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, builder, take};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use suci::security::{ClusterKey, KeyError, KeyFile, Keyring};
use suci::{EndReason, Error, Event, Node, NodeBuilder, NodeId, RefusedReason};

fn key(byte: u8) -> ClusterKey {
    ClusterKey::from_bytes(&[byte; 32])
}

fn ring(first: u8, second: u8) -> Keyring {
    Keyring::of_two(key(first), key(second))
}

/// Two nodes that know each other.
fn acquainted(a: NodeBuilder, b: NodeBuilder) -> (Node, Node) {
    let (mut a, mut b) = (a.open().unwrap(), b.open().unwrap());
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    (a, b)
}

/// The reasons that both name once the first sent a message to the second.
fn refusals(a: NodeBuilder, b: NodeBuilder) -> [RefusedReason; 2] {
    let (mut a, mut b) = acquainted(a, b);
    a.send(b.id(), "hello").unwrap();
    let said = [&mut a, &mut b].map(|node| {
        let end = Instant::now() + LONG;
        loop {
            assert!(Instant::now() < end, "node {} says nothing", node.id());
            match node.next_timeout(Duration::from_millis(10)).unwrap() {
                Some(suci::Next::Event(Event::Refused { reason, .. })) => return reason,
                Some(suci::Next::Message(message)) => panic!("received {message:?}"),
                _ => {}
            }
        }
    });
    assert_eq!(b.try_recv().unwrap().map(|message| message.payload), None);
    said
}

#[test]
fn nodes_with_one_key_talk() {
    let (mut a, mut b) = acquainted(
        builder(0).cluster_key(key(1)),
        builder(1).cluster_key(key(1)),
    );
    for length in [0, 1, 64, 1_400, 20_000, 3_000_000] {
        a.send(b.id(), vec![7; length]).unwrap();
        assert_eq!(take(&mut b).payload, vec![7; length]);
        b.send(a.id(), vec![8; length]).unwrap();
        assert_eq!(take(&mut a).payload, vec![8; length]);
    }
    a.close(LONG).unwrap();
    b.close(LONG).unwrap();
}

/// Carries datagrams between two nodes, each of which has the returned address for the other, and
/// keeps their bytes. It ends when nothing came for two seconds.
fn relay(ends: [SocketAddr; 2], socket: UdpSocket) -> JoinHandle<Vec<u8>> {
    socket
        .set_read_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    std::thread::spawn(move || {
        let (mut seen, mut buffer) = (Vec::new(), vec![0; 65_536]);
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let to = ends.into_iter().find(|end| *end != from).unwrap();
            socket.send_to(&buffer[..length], to).unwrap();
            seen.extend_from_slice(&buffer[..length]);
        }
        seen
    })
}

/// All bytes on the wire while node 0 sends `text` to node 1 and gets it back.
fn seen_on_the_wire(builders: [NodeBuilder; 2], text: &'static str) -> Vec<u8> {
    let [mut a, mut b] = builders.map(|builder| builder.open().unwrap());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let between = socket.local_addr().unwrap();
    let relay = relay([a.local_addr(), b.local_addr()], socket);
    a.add_peer(b.id(), between).unwrap();
    b.add_peer(a.id(), between).unwrap();
    a.send(b.id(), text).unwrap();
    assert_eq!(take(&mut b).payload, text);
    b.send(a.id(), text).unwrap();
    assert_eq!(take(&mut a).payload, text);
    a.close(LONG).unwrap();
    b.close(LONG).unwrap();
    relay.join().unwrap()
}

#[test]
fn messages_and_keys_are_nowhere_on_the_wire() {
    let text = "attack at dawn, attack at dawn";
    let holds = |seen: &[u8], part: &[u8]| seen.windows(part.len()).any(|bytes| bytes == part);
    let plain = seen_on_the_wire([builder(0), builder(1)], text);
    assert!(holds(&plain, b"attack at dawn"));
    let sealed = [0, 1].map(|id| builder(id).cluster_key(key(0xa5)));
    let sealed = seen_on_the_wire(sealed, text);
    assert!(sealed.len() > 500 && !holds(&sealed, b"attack"));
    assert!(!holds(&sealed, &[0xa5; 4]));
}

/// The secret of a key file, as digits and as bytes.
fn secret(file: &KeyFile) -> (String, Vec<u8>) {
    let text = fs::read_to_string(file.path()).unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("suci-key-1 "))
        .unwrap();
    let digits = line.split(' ').nth(1).unwrap().to_owned();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    let bytes = (0..digits.len()).step_by(2).map(byte).collect();
    (digits, bytes)
}

#[test]
fn no_output_holds_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let file = KeyFile::new(dir.path().join("cluster.key"));
    let keys = file.create().unwrap();
    let (digits, bytes) = secret(&file);
    let with_file = builder(0).key_file(file.path());
    let with_keys = builder(1).cluster_key(keys.clone());
    let mut shown = format!("{with_file:?} {with_keys:?} {keys:?} {file:?}");
    let (mut a, mut b) = acquainted(with_file, with_keys);
    a.send(b.id(), "hello").unwrap();
    take(&mut b);
    shown += &format!("{a:?} {b:?} {:?} {:?}", a.peers(), a.counters());
    // Statistics files are for this user alone, and hold no keys all the same.
    let own = suci::statistics::find().into_iter();
    let own: Vec<_> = own
        .filter(|found| found.pid == std::process::id())
        .collect();
    assert!(own.len() >= 2, "{own:?}");
    for found in own {
        // That of another test may be gone.
        let content = fs::read(found.path).unwrap_or_default();
        assert!(!content.windows(16).any(|part| part == &bytes[..16]));
    }
    fs::write(file.path(), format!("suci-key-1 {digits} 00000000\n")).unwrap();
    shown += &builder(2)
        .key_file(file.path())
        .open()
        .unwrap_err()
        .to_string();
    shown += &format!("{:?}", file.read());
    assert!(shown.contains(&keys.first().id().to_string()), "{shown}");
    assert!(
        !shown.contains(&digits[..16]) && !shown.contains(&digits[48..]),
        "{shown}"
    );
    let decimal = format!("{:?}", &bytes[..8]);
    assert!(!shown.contains(decimal.trim_matches(['[', ']'])), "{shown}");
}

#[test]
fn nodes_with_threads_talk_to_nodes_without() {
    let a = builder(0).cluster_key(key(1)).open_threads(2).unwrap();
    let mut b = builder(1).cluster_key(key(1)).open().unwrap();
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    a.send(b.id(), vec![1; 500_000]).unwrap();
    assert_eq!(take(&mut b).payload.len(), 500_000);
    a.set_keys(ring(2, 1)).unwrap();
    b.set_keys(ring(2, 1)).unwrap();
    a.set_keys(key(2)).unwrap();
    b.send(a.id(), "back").unwrap();
    assert_eq!(a.recv_timeout(LONG).unwrap().unwrap().payload, "back");
    b.set_keys(key(2)).unwrap();
    a.send(b.id(), "again").unwrap();
    assert_eq!(take(&mut b).payload, "again");
}

#[test]
fn different_keys_never_talk_and_both_sides_say_why() {
    let (a, b) = (
        builder(0).cluster_key(key(1)),
        builder(1).cluster_key(ring(2, 3)),
    );
    let said = refusals(a, b);
    assert_eq!(said, [RefusedReason::Key; 2]);
    let text = RefusedReason::Key.to_string();
    assert!(text.contains("key file"), "{text}");
}

#[test]
fn a_sealed_and_a_plain_node_never_talk_and_both_sides_say_why() {
    let sealed = || builder(0).cluster_key(key(1));
    assert_eq!(refusals(sealed(), builder(1)), [RefusedReason::Mode; 2]);
    assert_eq!(refusals(builder(1), sealed()), [RefusedReason::Mode; 2]);
}

/// During a rotation nodes have the new key, the old one, or both.
#[test]
fn any_common_key_suffices() {
    for (a, b) in [
        (ring(2, 1), Keyring::from(key(1))),
        (key(1).into(), ring(2, 1)),
        (ring(2, 1), ring(1, 2)),
        (ring(2, 1), key(2).into()),
        (ring(1, 2), key(2).into()),
    ] {
        let (mut a, mut b) = acquainted(builder(0).cluster_key(a), builder(1).cluster_key(b));
        a.send(b.id(), "hello").unwrap();
        assert_eq!(take(&mut b).payload, "hello");
    }
}

#[test]
fn a_node_whose_key_was_taken_out_is_heard_no_more() {
    let (mut a, mut b) = acquainted(
        builder(0).cluster_key(key(1)),
        builder(1).cluster_key(key(1)),
    );
    a.send(b.id(), "hello").unwrap();
    assert_eq!(take(&mut b).payload, "hello");
    b.set_keys(key(2)).unwrap();
    a.send(b.id(), "secret").unwrap();
    assert!(b.recv_timeout(Duration::from_secs(1)).unwrap().is_none());
    // The session is not over: with the new key the message arrives.
    a.set_keys(key(2)).unwrap();
    assert_eq!(take(&mut b).payload, "secret");
}

#[test]
fn the_keys_of_a_plain_node_cannot_be_changed() {
    let mut node = builder(0).open().unwrap();
    assert!(matches!(node.set_keys(key(1)), Err(Error::NotSealed)));
    let node = builder(1).open_threads(2).unwrap();
    assert!(matches!(node.set_keys(key(1)), Err(Error::NotSealed)));
}

#[test]
fn a_sealed_node_may_leave_loopback_and_a_plain_one_is_told_both_remedies() {
    let everywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let error = builder(0)
        .listen(everywhere)
        .open()
        .unwrap_err()
        .to_string();
    for part in [
        "suci keygen",
        "SUCI_KEY_FILE",
        "allow_insecure_network",
        "--plain",
    ] {
        assert!(error.contains(part), "{error}");
    }
    let node = builder(0).listen(everywhere).cluster_key(key(1)).open();
    let mut node = node.unwrap();
    node.add_peer(NodeId(1), "192.0.2.1:7000".parse().unwrap())
        .unwrap();
}

#[test]
fn a_key_file_that_others_can_read_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = KeyFile::new(dir.path().join("cluster.key"));
    file.create().unwrap();
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
    let error = builder(0).key_file(file.path()).open().unwrap_err();
    assert!(
        matches!(error, Error::Key(KeyError::OpenToOthers { .. })),
        "{error:?}"
    );
    assert!(error.to_string().contains("chmod 600"), "{error}");
}

/// Nodes that send to each other all the time while their file goes from one key to two, and to the
/// new one. Each has a copy of the file, as on a machine of its own, and gets the new one at
/// another time. `SUCI_TEST_NODES` nodes take part, 4 without it.
#[test]
fn a_key_that_is_changed_under_load_loses_nothing() {
    let said = std::env::var("SUCI_TEST_NODES").ok();
    let count: u32 = said.map_or(4, |said| said.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let master = KeyFile::new(dir.path().join("master"));
    let before = master.create().unwrap();
    let copy = |id: u32| dir.path().join(format!("copy-{id}"));
    let spread = || {
        for id in 0..count {
            let beside = dir.path().join("beside");
            fs::copy(master.path(), &beside).unwrap();
            fs::rename(&beside, copy(id)).unwrap();
            std::thread::sleep(Duration::from_millis(700));
        }
    };
    spread();
    let nodes: Vec<Node> = (0..count)
        .map(|id| builder(id).key_file(copy(id)).open().unwrap())
        .collect();
    let addresses: Vec<_> = nodes
        .iter()
        .map(|node| (node.id(), node.local_addr()))
        .collect();
    let over = Arc::new(AtomicBool::new(false));
    let programs: Vec<_> = nodes
        .into_iter()
        .map(|node| {
            let (addresses, over) = (addresses.clone(), over.clone());
            std::thread::spawn(move || exchange(node, &addresses, &over))
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    master.rotate().unwrap();
    spread();
    // Longer than the nodes take to notice.
    std::thread::sleep(Duration::from_secs(3));
    let after = master.retire().unwrap();
    spread();
    std::thread::sleep(Duration::from_secs(3));
    over.store(true, Ordering::Relaxed);
    let received = programs.into_iter().map(|program| program.join().unwrap());
    let received: Vec<u64> = received.collect();
    assert!(received.iter().all(|count| *count > 100), "{received:?}");
    assert_ne!(before.first(), after.first());
}

/// Sends numbered messages to all others until `over`, then one that ends. Returns the number of
/// messages received, each of which must be the next of its sender.
fn exchange(mut node: Node, addresses: &[(NodeId, SocketAddr)], over: &AtomicBool) -> u64 {
    let own = node.id();
    let others: Vec<NodeId> = addresses
        .iter()
        .map(|(id, _)| *id)
        .filter(|id| *id != own)
        .collect();
    for (id, address) in addresses.iter().filter(|(id, _)| *id != own) {
        node.add_peer(*id, *address).unwrap();
    }
    let (mut sent, mut ended) = (0_u64, 0);
    let mut expected = vec![0_u64; addresses.len()];
    let mut is_over = false;
    let end = Instant::now() + LONG * 2;
    while ended < others.len() || !is_over {
        assert!(
            Instant::now() < end,
            "node {own}: {expected:?}, {ended} ended"
        );
        if !is_over {
            is_over = over.load(Ordering::Relaxed);
            let text = if is_over {
                "end".to_owned()
            } else {
                sent.to_string()
            };
            for to in &others {
                node.send_timeout(*to, text.clone(), LONG).unwrap();
            }
            sent += 1;
        }
        while let Some(message) = node.recv_timeout(Duration::from_millis(1)).unwrap() {
            let next = &mut expected[message.from.0 as usize];
            if message.payload == "end" {
                ended += 1;
            } else {
                assert_eq!(message.payload, next.to_string(), "from {}", message.from);
                *next += 1;
            }
        }
    }
    node.flush(LONG).unwrap();
    for event in node.events().unwrap() {
        // A node that is done before this one closes its sessions.
        if let Event::Ended { reason, .. } = event {
            assert_eq!(reason, EndReason::Closed);
        }
    }
    node.close(LONG).unwrap();
    expected.iter().sum()
}
