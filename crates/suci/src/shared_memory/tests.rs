use super::link::Link;
use super::segment::{Segment, Use};
use super::{MappedRegions, SharedMemory, wire};
use crate::fork::OriginalProcess;
use crate::sys::local;
use std::io;
use std::os::unix::net::UnixListener;
use suci_layers::remote::{AtomicOp, Memory, Width};
use suci_proto::types::{Incarnation, NodeId};

#[test]
fn both_mappings_have_the_same_bytes() {
    let (owner, file) = Segment::create(100, Use::Change, false).unwrap();
    let other = Segment::open(&file, 100, Use::Change).unwrap();
    assert!(other.write(90, &[1, 2, 3]) && !other.write(98, &[1, 2, 3]));
    let mut bytes = [0; 4];
    assert!(owner.read(89, &mut bytes));
    assert_eq!(bytes, [0, 1, 2, 3]);
    let add = AtomicOp::Add(5);
    assert_eq!(owner.atomic(0, Width::Bits64, add), Some(0));
    assert_eq!(other.atomic(0, Width::Bits32, add), Some(5));
    assert!(!other.is_withdrawn());
    owner.withdraw();
    assert!(other.is_withdrawn());
    drop(owner);
    assert_eq!(other.atomic(0, Width::Bits64, AtomicOp::Fetch), Some(10));
}

#[test]
fn memory_that_others_only_read_cannot_be_mapped_to_write() {
    let (owner, file) = Segment::create(8, Use::Read, false).unwrap();
    Segment::open(&file, 8, Use::Change).unwrap_err();
    let other = Segment::open(&file, 8, Use::Read).unwrap();
    assert!(!other.write(0, &[1]) && other.atomic(0, Width::Bits64, AtomicOp::Set(1)).is_none());
    assert!(owner.write(0, &[1]));
    let mut byte = [0];
    assert!(other.read(0, &mut byte));
    assert_eq!(byte, [1]);
}

#[test]
fn a_file_that_could_become_shorter_is_not_mapped() {
    let file = local::memory_file(256).unwrap();
    Segment::open(&file, 128, Use::Change).unwrap_err();
    let (_owner, file) = Segment::create(100, Use::Change, false).unwrap();
    for wrong in [0, 200, 1 << 40, u64::MAX] {
        Segment::open(&file, wrong, Use::Change).unwrap_err();
    }
}

/// A process of another user may take the address first.
#[test]
fn a_listener_of_another_user_is_not_asked() {
    let (node, incarnation) = (NodeId(3), Incarnation(4));
    let address = wire::address(node, incarnation).unwrap();
    let bind = std::thread::spawn(move || {
        // The bare system call changes this thread alone.
        // SAFETY: no pointers are involved.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, -1, 65_534, -1) };
        assert_eq!(changed, 0, "run as root: the test acts as another user");
        UnixListener::bind_addr(&address).unwrap()
    });
    let _listener = bind.join().unwrap();
    let error = Link::open(node, incarnation).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn a_process_that_stops_sharing_is_noticed() {
    let (node, incarnation) = (NodeId(5), Incarnation(6));
    let process = OriginalProcess::new().unwrap();
    Link::open(node, incarnation).unwrap_err();
    let memory = SharedMemory::start(node, incarnation, process).unwrap();
    let link = Link::open(node, incarnation).unwrap();
    assert!(!link.has_ended());
    drop(memory);
    assert!(link.has_ended());
}

#[test]
fn a_session_that_ends_while_a_region_is_mapped_voids_it() {
    let process = OriginalProcess::new().unwrap();
    let (node, incarnation) = (NodeId(7), Incarnation(8));
    let memory = SharedMemory::start(node, incarnation, process).unwrap();
    let region = suci_layers::remote::RemoteRegion {
        node,
        region: suci_layers::remote::RegionId(0),
        key: 0,
    };
    let ends = || {
        memory.regions.forget(node);
        Some(incarnation)
    };
    assert!(memory.region(&region, ends).is_none());
    assert!(MappedRegions::read(&memory.regions).targets.is_empty());
    assert!(memory.region(&region, || Some(incarnation)).is_none());
    assert!(!MappedRegions::read(&memory.regions).targets.is_empty());
}
