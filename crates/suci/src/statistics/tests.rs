use super::directory::{self, Process};
use super::layout::{MAX_PEERS, RECORD, head, node, peer};
use super::map::Map;
use super::publisher::busiest;
use super::*;
use std::collections::BTreeSet;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use suci_proto::time::Instant;
use suci_proto::types::Incarnation;
use suci_proto::wire::Mode;
use suci_proto::{Config, Engine, Identity, LinkState, WaitReason};

const NOW: Instant = Instant::from_nanos(1_000_000_000);

fn about() -> NodeInfo {
    NodeInfo {
        node: NodeId(7),
        local: "127.0.0.1:7007".parse().unwrap(),
    }
}

fn engine(peers: u32) -> Engine {
    let identity = Identity {
        node: NodeId(7),
        incarnation: Incarnation(1),
    };
    let mut engine = Engine::new(Config::default(), identity, [1; 32], 8 << 20, NOW).unwrap();
    for peer in 0..peers {
        let address: std::net::SocketAddr = "127.0.0.1:9".parse().unwrap();
        engine.add_peer(NOW, NodeId(100 + peer), address).unwrap();
    }
    engine
}

fn directory() -> (tempfile::TempDir, PathBuf) {
    let all = tempfile::tempdir().unwrap();
    let dir = all.path().join("suci");
    (all, dir)
}

/// A file with one publication of an engine with this many peers.
fn published(dir: &Path, peers: u32) -> (Publisher, StatFile) {
    let mut publisher = Publisher::within(dir, about(), NOW).unwrap();
    publisher.publish(NOW, &engine(peers), &suci_net::Counters::default());
    let file = StatFile::open(&publisher.path().unwrap()).unwrap();
    (publisher, file)
}

/// Every word of a record has one index, and comes back from it.
#[test]
fn a_record_holds_all_that_is_known_of_a_peer() {
    let numbers = |at: usize| 1_000 + at as u64;
    let mut words = vec![0; RECORD];
    words[peer::NODE] = 4_000_000_000;
    words[peer::LINK] = 3;
    words[peer::MODES] = 2 | 1 << 8;
    words[peer::WAITING] = 1 + WaitReason::Pacing as u64;
    for address in ["10.1.2.3:4567", "[fe80::1]:65535"] {
        let address = address.parse().unwrap();
        words[peer::ADDRESS..][..3].copy_from_slice(&layout::address_words(Some(address)));
        let (fields, waits) = (PEER_FIELDS.len(), 2 * WaitReason::COUNT);
        let filled = (peer::FIELDS..peer::FIELDS + fields).chain(peer::WAITS..peer::WAITS + waits);
        filled.for_each(|at| words[at] = numbers(at));
        // Yes or no, as a number.
        let is_flag = |field: &&str| *field == "marks_stopped";
        let flag = PEER_FIELDS.iter().position(|field| is_flag(&field.name));
        words[peer::FIELDS + flag.unwrap()] = 1;
        let stats = layout::peer_of(|at| words[at]).unwrap();
        assert_eq!(stats.node, NodeId(4_000_000_000));
        assert_eq!(
            (stats.link, stats.waiting),
            (LinkState::Lost, Some(WaitReason::Pacing))
        );
        assert_eq!(
            (stats.mode, stats.remote_mode),
            (Mode::Response, Mode::Throughput)
        );
        assert_eq!(stats.address, Some(address));
        let mut again = vec![0; RECORD];
        layout::put_peer(&stats, |at, word| again[at] = word);
        assert_eq!(words, again);
    }
}

#[test]
fn names_are_unique_within_their_table() {
    let unique = |names: Vec<&str>| {
        let count = names.len();
        assert_eq!(names.into_iter().collect::<BTreeSet<_>>().len(), count);
    };
    unique(PEER_FIELDS.iter().map(|field| field.name).collect());
    unique(NODE_FIELDS.iter().map(|field| field.name).collect());
    unique(SOCKET_FIELDS.iter().map(|field| field.name).collect());
}

/// The page that other programs are written by has every field at its index.
#[test]
fn the_documentation_is_the_layout() {
    let page = include_str!("../../../../docs/statistics.md");
    let mut wanted = Vec::new();
    let mut row = |word: usize, name: &str| wanted.push(format!("| {word} | `{name}` |"));
    for (field, index) in PEER_FIELDS.iter().zip(peer::FIELDS..) {
        row(index, field.name);
    }
    for (reason, index) in WaitReason::ALL.iter().zip((peer::WAITS..).step_by(2)) {
        row(index, reason.name());
    }
    for (field, index) in NODE_FIELDS.iter().zip(node::COUNTERS..) {
        row(index, field.name);
    }
    for (field, index) in SOCKET_FIELDS.iter().zip(node::SOCKET..) {
        row(index, field.name);
    }
    let missing: Vec<_> = wanted.iter().filter(|row| !page.contains(*row)).collect();
    assert!(
        missing.is_empty(),
        "docs/statistics.md has not: {missing:#?}"
    );
}

#[test]
fn what_is_published_is_read() {
    let (_all, dir) = directory();
    let (publisher, file) = published(&dir, 3);
    let read = file.read().unwrap();
    assert_eq!((read.pid, read.node), (std::process::id(), NodeId(7)));
    assert_eq!(read.address, Some(about().local));
    assert_eq!((read.peers_known, read.clock), (3, Duration::from_secs(1)));
    let peers: Vec<_> = read.peers.iter().map(|stats| stats.node.0).collect();
    assert_eq!(peers, [100, 101, 102]);
    assert!(read.published.elapsed().unwrap() < Duration::from_secs(60));
    assert!(!read.program.is_empty());

    let found = find_in(&dir);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].pid, found[0].node), (read.pid, NodeId(7)));
    drop(publisher);
    assert_eq!(find_in(&dir), []);
    // A reader that has it open still reads the last of it.
    assert_eq!(file.read().unwrap().peers_known, 3);
}

#[test]
fn a_file_shows_the_busiest_peers() {
    let (_all, dir) = directory();
    let (_publisher, file) = published(&dir, 1_000);
    let read = file.read().unwrap();
    assert_eq!((read.peers_known, read.peers.len()), (1_000, MAX_PEERS));
    let all = (0..1_000).map(|at| (u64::from(at * 7 % 1_000), NodeId(at)));
    let chosen = busiest(all.clone().collect(), MAX_PEERS);
    assert_eq!(chosen.len(), MAX_PEERS);
    let packets = |node: &NodeId| all.clone().find(|(_, other)| other == node).unwrap().0;
    assert!(
        chosen
            .iter()
            .map(packets)
            .all(|packets| packets >= 1_000 - 128)
    );
    assert_eq!(busiest(vec![(1, NodeId(1))], 9), [NodeId(1)]);
}

#[test]
fn files_and_directories_are_for_one_user() {
    let (_all, dir) = directory();
    let (publisher, _) = published(&dir, 1);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&publisher.path().unwrap()), 0o600);
}

/// Another user could have made the directory before us, or put a link where we would write.
#[test]
fn links_and_open_directories_are_not_used() {
    let (all, dir) = directory();
    let refused = |dir: &Path| Publisher::within(dir, about(), NOW).unwrap_err().kind();
    std::fs::create_dir(all.path().join("victim")).unwrap();
    symlink(all.path().join("victim"), &dir).unwrap();
    refused(&dir);
    assert_eq!(find_in(&dir), []);
    assert_eq!(
        std::fs::read_dir(all.path().join("victim"))
            .unwrap()
            .count(),
        0
    );

    std::fs::remove_file(&dir).unwrap();
    std::fs::create_dir(&dir).unwrap();
    std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(refused(&dir), io::ErrorKind::PermissionDenied);

    std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o700)).unwrap();
    let victim = all.path().join("victim/file");
    std::fs::write(&victim, "precious").unwrap();
    symlink(&victim, dir.join(file_name(std::process::id(), NodeId(7)))).unwrap();
    let publisher = Publisher::within(&dir, about(), NOW).unwrap();
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    drop(publisher);
    assert!(victim.exists());
}

#[test]
fn what_a_dead_process_left_is_removed() {
    let (_all, dir) = directory();
    let (publisher, _) = published(&dir, 1);
    let path = publisher.path().unwrap().to_owned();
    // The same process ID, but of a process that began at another time.
    let bytes = std::fs::read(&path).unwrap();
    drop(publisher);
    std::fs::write(&path, &bytes).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&1_u64.to_le_bytes(), 8 * head::STARTED as u64)
        .unwrap();
    assert!(!StatFile::open(&path).unwrap().may_live());
    let found = find_in(&dir);
    assert_eq!(found[0].open().unwrap_err().kind(), io::ErrorKind::NotFound);
    assert!(!path.exists());

    // A node that finds such a one under its own name goes on with a new one.
    std::fs::write(&path, &bytes).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&1_u64.to_le_bytes(), 8 * head::STARTED as u64)
        .unwrap();
    let (_publisher, file) = published(&dir, 2);
    assert_eq!(file.read().unwrap().peers_known, 2);
}

/// Files of live processes stay, also those of another namespace, whose processes cannot be seen.
#[test]
fn a_new_node_sweeps_after_the_dead() {
    let (_all, dir) = directory();
    let (publisher, _) = published(&dir, 1);
    let bytes = std::fs::read(publisher.path().unwrap()).unwrap();
    let write = |pid: u32, words: &[(usize, u64)]| {
        let mut bytes = bytes.clone();
        for (index, word) in words {
            bytes[8 * index..][..8].copy_from_slice(&word.to_le_bytes());
        }
        let path = dir.join(file_name(pid, NodeId(7)));
        std::fs::write(&path, bytes).unwrap();
        path
    };
    // No process has an ID above 2^22.
    let (nobody, other) = (u32::MAX, u32::MAX - 1);
    let dead = write(nobody, &[(head::PID, nobody.into())]);
    let foreign = write(other, &[(head::PID, other.into()), (head::NAMESPACE, 1)]);
    super::publisher::sweep(&dir);
    assert!(!dead.exists(), "left by the dead");
    assert!(foreign.exists() && publisher.path().unwrap().exists());
}

/// However many live on one machine.
#[test]
fn the_dead_are_found_behind_many_who_live() {
    let (_all, dir) = directory();
    let (publisher, _) = published(&dir, 1);
    let bytes = std::fs::read(publisher.path().unwrap()).unwrap();
    let living = std::process::id();
    (100..300).for_each(|id| {
        std::fs::write(dir.join(file_name(living, NodeId(id))), &bytes).unwrap();
    });
    let nobody = u32::MAX;
    let mut dead = bytes;
    dead[8 * head::PID..][..8].copy_from_slice(&u64::from(nobody).to_le_bytes());
    let paths = (7..14).map(|id| dir.join(file_name(nobody, NodeId(id))));
    let paths: Vec<_> = paths.collect();
    paths
        .iter()
        .for_each(|path| std::fs::write(path, &dead).unwrap());
    super::publisher::sweep(&dir);
    assert!(paths.iter().all(|path| !path.exists()));
    assert!(publisher.path().unwrap().exists());
}

/// Two nodes of one process and one name: the first keeps its file.
#[test]
fn a_living_nodes_file_is_left_alone() {
    let (_all, dir) = directory();
    let (_first, file) = published(&dir, 3);
    let error = Publisher::within(&dir, about(), NOW).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(file.read().unwrap().peers_known, 3);
}

/// About a process that cannot be seen from here nothing is known, least of all that it is dead.
#[test]
fn a_process_of_another_namespace_may_live() {
    let (own, here) = (Process::own(), directory::namespace());
    assert!(own.may_live(here));
    let started = own.started + 1;
    let dead = Process { started, ..own };
    assert!(!dead.may_live(here));
    // A process of another namespace, or one where /proc is missing here or was missing there.
    for namespace in [own.namespace + 1, 0] {
        assert!(Process { namespace, ..dead }.may_live(here));
    }
    assert!(dead.may_live(None));
    let unknown = Process {
        namespace: 0,
        ..dead
    };
    assert!(unknown.may_live(None), "0 is not where we are");
}

#[test]
fn statistics_lie_in_memory() {
    let memory = Path::new("/dev/shm");
    assert!(directory::is_in_memory(memory));
    assert!(
        !directory::is_in_memory(Path::new("/proc"))
            && !directory::is_in_memory(Path::new("/nowhere"))
    );
    for dir in directory::own() {
        assert!(dir.parent().is_some_and(directory::is_in_memory), "{dir:?}");
    }
}

#[test]
fn whatever_a_file_holds_reading_it_ends_in_numbers_or_an_error() {
    let (_all, dir) = directory();
    let (publisher, _) = published(&dir, 4);
    let good = std::fs::read(publisher.path().unwrap()).unwrap();
    let path = dir.join("1-1.stat");
    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        StatFile::open(&path).unwrap_err().kind()
    };
    for length in [0, 7, 8, 4_096, good.len() - 1] {
        assert_eq!(
            refused(&good[..length]),
            io::ErrorKind::InvalidData,
            "{length}"
        );
    }
    for index in [
        head::MAGIC,
        head::VERSION,
        head::HEADER,
        head::RECORD,
        head::CAPACITY,
        head::PID,
    ] {
        let mut bad = good.clone();
        bad[8 * index..][..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(refused(&bad), io::ErrorKind::InvalidData, "{index}");
    }
    // Directories and pipes neither.
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(StatFile::open(&path).is_err());

    // Any other words: a xorshift fills everything behind the fixed part.
    std::fs::remove_dir(&path).unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..200_u64 {
        let mut bad = good.clone();
        for word in bad[8 * head::OPENED..].chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let generation = if round % 4 == 0 { 1 } else { 2 * round };
        bad[8 * node::GENERATION..][..8].copy_from_slice(&generation.to_le_bytes());
        std::fs::write(&path, &bad).unwrap();
        let file = StatFile::open(&path).unwrap();
        match file.read() {
            Ok(read) => assert!(read.peers.len() <= MAX_PEERS && read.program.is_ascii()),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::InvalidData),
        }
        if generation % 2 == 1 {
            assert!(
                file.read().is_err(),
                "a record that is being written was taken"
            );
        }
    }
}

/// A reader never sees half of a change, however often its writer is at it.
#[test]
fn records_are_read_whole() {
    let (_all, dir) = directory();
    let file = directory::create(&dir, "1-1.stat").unwrap();
    let map = Map::new(&file, layout::WORDS).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let span = node::COUNTERS..node::COUNTERS + 24;
    std::thread::scope(|scope| {
        let (stop, writes) = (&stop, span.clone());
        scope.spawn(move || {
            for value in 1.. {
                map.change(node::GENERATION, |map| {
                    for at in writes.clone() {
                        map.put(at, value);
                        if at % 16 == 0 {
                            std::thread::yield_now();
                        }
                    }
                });
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        let mut seen = BTreeSet::new();
        let mut torn = None;
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while seen.len() < 20 && std::time::Instant::now() < end {
            let mut whole = Whole::default();
            let [before, now, after] = [(); 3].map(|()| words(&file).unwrap());
            whole.take(&before, &now, &after);
            if let Some(words) = whole.node {
                let values: BTreeSet<u64> = span.clone().map(|at| words.at(at)).collect();
                if values.len() != 1 {
                    torn = Some(values);
                    break;
                }
                seen.extend(values);
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(torn, None);
        assert!(seen.len() >= 20, "hardly ever whole");
    });
}

#[test]
fn publishing_is_due_ten_times_a_second_and_only_if_something_happened() {
    let (_all, dir) = directory();
    let mut publisher = Publisher::within(&dir, about(), NOW).unwrap();
    let mut engine = engine(1);
    assert!(publisher.is_due(NOW));
    publisher.publish(NOW, &engine, &suci_net::Counters::default());
    let later = NOW + Duration::from_millis(99);
    assert!(!publisher.is_due(later));
    assert_eq!(publisher.due_at(&engine), None);
    let from = "127.0.0.1:9".parse().unwrap();
    let ecn = suci_proto::types::Ecn::NotEct;
    let arrival = suci_proto::Arrival {
        to: None,
        from,
        ecn,
        at: later,
    };
    engine.handle_datagram(later, &arrival, &mut b"nonsense".to_vec());
    let due = NOW + Duration::from_millis(100);
    assert_eq!(publisher.due_at(&engine), Some(due));
    assert!(publisher.is_due(due));
}

#[test]
fn a_request_fits_its_word() {
    let (node, mode) = (NodeId(u32::MAX), Mode::Response);
    for number in [1, 0xff_ffff] {
        let request = Request { node, mode, number };
        assert_eq!(Request::of(request.word()), Some(request));
        assert_ne!(Request::next(request.word()), number);
        assert!((1..=0xff_ffff).contains(&Request::next(request.word())));
    }
    assert_eq!(Request::next(0), 1);
    for nothing in [0, 7, 3 << 32 | 1 << 40] {
        assert_eq!(Request::of(nothing), None);
    }
}

#[test]
fn a_node_does_what_is_asked_through_its_file() {
    let (_all, dir) = directory();
    let (mut publisher, file) = published(&dir, 0);
    let mut engine = engine(2);
    let mut modes = || {
        publisher.serve(NOW, &mut engine);
        publisher.publish(NOW, &engine, &suci_net::Counters::default());
        let read = file.read().unwrap();
        assert_eq!(read.asked, None);
        [read.peers[0].mode, read.peers[1].mode]
    };
    assert_eq!(modes(), [Mode::Adaptive; 2]);
    file.prefer(NodeId(101), Mode::Response).unwrap();
    let asked = file.read().unwrap().asked;
    assert_eq!(asked, Some((NodeId(101), Mode::Response)));
    assert_eq!(modes(), [Mode::Adaptive, Mode::Response]);
    file.prefer(NodeId(101), Mode::Throughput).unwrap();
    file.prefer(NodeId(100), Mode::Throughput).unwrap();
    assert_eq!(
        modes(),
        [Mode::Throughput, Mode::Response],
        "the last request wins"
    );
    file.prefer(NodeId(100), Mode::Adaptive).unwrap();
    assert_eq!(modes(), [Mode::Adaptive, Mode::Response]);
    file.prefer(NodeId(999), Mode::Response).unwrap();
    assert_eq!(modes(), [Mode::Adaptive, Mode::Response], "nobody");
}

#[test]
fn each_text_about_a_missing_file_is_a_sentence() {
    let text = |code| {
        let error = io::Error::from_raw_os_error(code);
        NoFile(vec![(PathBuf::from("/dev/shm/suci-0"), error)]).to_string()
    };
    let last = "name a directory in memory that is this user's by XDG_RUNTIME_DIR";
    let full = text(libc::ENOSPC);
    assert!(
        full.ends_with(&format!(": free memory there; or {last}")),
        "{full}"
    );
    let file = text(libc::ENOTDIR);
    assert!(file.ends_with(&format!(": remove it; or {last}")), "{file}");
    // No remedy stands before "or".
    let read_only = text(libc::EROFS);
    assert!(
        read_only.ends_with(&format!("(os error 30); {last}")),
        "{read_only}"
    );
}
