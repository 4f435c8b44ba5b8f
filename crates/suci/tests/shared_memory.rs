//! One-sided operations through memory that processes have in common.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use suci::remote::{
    AtomicOp, Cause, Layout, MappedRegion, Region, RegionId, Remote, RemoteErrorKind,
    RemoteFailure, RemoteNode, RemoteRegion, Rights, Signal, SignalUpdate, Width,
};
use suci::{AddressBook, Node, NodeBuilder, NodeId, SharedNode};

/// Tells `the_child` which part it plays.
const ROLE: &str = "SUCI_TEST_ROLE";

/// Longer than anything here takes: a test that waits this long has failed.
const LONG: Duration = Duration::from_secs(30);

/// Bytes of the region of a target.
const BYTES: usize = 1 << 20;

const NOBODY: libc::uid_t = 65_534;

/// Node `id` on a port of its own.
fn builder(id: u32) -> NodeBuilder {
    let builder = Node::builder().id(NodeId(id)).book(AddressBook::new());
    builder.listen("127.0.0.1:0".parse().unwrap())
}

fn all() -> Rights {
    Rights::READ | Rights::WRITE | Rights::ATOMIC
}

/// Another process, which obeys orders of one line and answers with one.
struct Other {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Drop for Other {
    fn drop(&mut self) {
        // Most have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Other {
    fn start(role: &str, variables: &[(&str, String)]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_child", "--nocapture"]);
        command.env(ROLE, role).stdin(Stdio::piped());
        let variables = variables.iter().map(|(name, value)| (name, value));
        let mut process = command
            .envs(variables)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            orders: process.stdin.take().unwrap(),
            answers: BufReader::new(process.stdout.take().unwrap()),
            process,
        }
    }

    /// The next answer, which follows an equals sign: the test harness prints lines, too.
    fn answer(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let count = self.answers.read_line(&mut line).unwrap();
            assert!(count > 0, "the other process ended");
            if let Some((_, answer)) = line.split_once('=') {
                return answer.trim().to_owned();
            }
        }
    }

    fn order(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").unwrap();
        self.answer()
    }

    fn signal(&self, signal: libc::c_int) {
        let pid = libc::pid_t::try_from(self.process.id()).unwrap();
        // SAFETY: the process is this one's child, and not reaped.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    /// Stops the process. Operations that need it get no answer.
    fn stop(&self) {
        self.signal(libc::SIGSTOP);
        let pid = self.process.id();
        let stopped = || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            status
                .rsplit(')')
                .next()
                .unwrap()
                .trim_start()
                .starts_with('T')
        };
        while !stopped() {
            thread::yield_now();
        }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// A process with a region, and the names of both.
struct Target {
    process: Other,
    address: SocketAddr,
    region: RemoteRegion,
}

impl Target {
    /// Starts it at this address; it knows node 0 at another.
    fn start(at: &str, initiator: SocketAddr, more: &[(&str, String)]) -> Self {
        let mut variables = vec![
            ("AT", at.to_owned()),
            ("INITIATOR", initiator.to_string()),
            ("SUCI_SHARED_MEMORY", "1".to_owned()),
        ];
        variables.extend(more.iter().cloned());
        let mut process = Other::start("target", &variables);
        let line = process.answer();
        let words: Vec<_> = line.split(' ').collect();
        let [address, region, key] = words[..] else {
            panic!("{line}");
        };
        let region = RemoteRegion {
            node: NodeId(1),
            region: RegionId(region.parse().unwrap()),
            key: key.parse().unwrap(),
        };
        Self {
            process,
            address: address.parse().unwrap(),
            region,
        }
    }

    /// A shared node 0, and a target that it is connected to.
    fn with_initiator(share: bool, more: &[(&str, String)]) -> (SharedNode, Self) {
        let node = builder(0)
            .shared_memory(share)
            .silence_timeout(Duration::from_secs(1))
            .give_up_after(Duration::from_secs(2))
            .open_threads(1)
            .unwrap();
        let target = Self::start("127.0.0.1:0", node.local_addr(), more);
        node.add_peer(NodeId(1), target.address).unwrap();
        connect(&node.remote().limit(LONG), &target.region);
        (node, target)
    }

    fn read(&mut self, at: u64, length: usize) -> Vec<u8> {
        let bytes = self.process.order(&format!("read {at} {length}"));
        let bytes = bytes.split_terminator(' ');
        bytes.map(|byte| byte.parse().unwrap()).collect()
    }
}

/// Opens the session.
fn connect<N: RemoteNode>(remote: &Remote<'_, N>, region: &RemoteRegion) {
    remote.get(region, 0, &mut []).unwrap();
    remote.quiet().unwrap();
}

/// Maps a region, which may take longer while the machine is busy.
fn map<N: RemoteNode>(remote: &Remote<'_, N>, region: &RemoteRegion) -> MappedRegion {
    let end = Instant::now() + LONG;
    loop {
        if let Some(mapped) = remote.map(region).unwrap() {
            return mapped;
        }
        assert!(Instant::now() < end, "the region cannot be mapped");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn the_child() {
    match std::env::var(ROLE).as_deref() {
        Ok("target") => target(),
        Ok("adder") => adder(),
        // Started as an ordinary test: nothing to do.
        _ => {}
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap()
}

fn target() {
    if std::env::var_os("NOBODY").is_some() {
        // SAFETY: no pointers are involved.
        assert_eq!(unsafe { libc::setuid(NOBODY) }, 0);
    }
    let at = variable("AT").parse().unwrap();
    let node = builder(1).listen(at).open_threads(1).unwrap();
    for id in [0, 2] {
        // Node 2 calls by itself.
        let address = variable("INITIATOR").parse().unwrap();
        node.add_peer(NodeId(id), address).unwrap();
    }
    let rights = match std::env::var_os("READ_ONLY") {
        Some(_) => Rights::READ,
        None => all(),
    };
    let mut region = Some(node.allocate_region(BYTES, rights).unwrap());
    let handle = region.as_ref().unwrap().handle();
    println!("={} {} {}", node.local_addr(), handle.region, handle.key);
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let answer = obey(&node, &line, &mut region);
        println!("={answer}");
    }
}

fn obey(node: &SharedNode, line: &str, region: &mut Option<Region>) -> String {
    match line.split(' ').collect::<Vec<_>>()[..] {
        ["read", at, length] => {
            let mut bytes = vec![0; length.parse().unwrap()];
            let region = region.as_ref().unwrap();
            region.read(at.parse().unwrap(), &mut bytes).unwrap();
            bytes.iter().map(|byte| format!("{byte} ")).collect()
        }
        ["get", region, key] => {
            let region = RemoteRegion {
                node: NodeId(0),
                region: RegionId(region.parse().unwrap()),
                key: key.parse().unwrap(),
            };
            let mut bytes = [0; 8];
            let remote = node.remote().limit(LONG);
            remote.get(&region, 0, &mut bytes).unwrap();
            u64::from_ne_bytes(bytes).to_string()
        }
        ["wait", at] => {
            let (region, at) = (region.as_ref().unwrap(), at.parse().unwrap());
            let value = || region.atomic(at, Width::Bits64, AtomicOp::Fetch).ok();
            let changed = || value().filter(|value| *value != 0);
            println!("=waiting");
            node.wait_until(LONG, changed).unwrap().unwrap().to_string()
        }
        ["withdraw"] => {
            *region = None;
            String::new()
        }
        // A child that has all descriptors, and outlives this process for a while.
        // SAFETY: the child calls only what may be called after a fork.
        ["fork"] => match unsafe { libc::fork() } {
            0 => {
                // SAFETY: as above; no pointers are involved.
                unsafe { libc::sleep(10) };
                // SAFETY: ends the child without running anything that belongs to the parent.
                unsafe { libc::_exit(0) }
            }
            child => child.to_string(),
        },
        _ => panic!("{line}"),
    }
}

/// Adds to an integer over the network.
fn adder() {
    let node = builder(2).open_threads(1).unwrap();
    let region = RemoteRegion {
        node: NodeId(1),
        region: RegionId(variable("REGION").parse().unwrap()),
        key: variable("KEY").parse().unwrap(),
    };
    let address = variable("AT").parse().unwrap();
    node.add_peer(region.node, address).unwrap();
    let remote = node.remote().limit(LONG);
    assert!(remote.map(&region).unwrap().is_none());
    println!("=ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    for _ in 0..line.trim().parse().unwrap() {
        remote.fetch_add(&region, 8, 1).unwrap();
        let op = AtomicOp::Add(1);
        remote.atomic(&region, 20, Width::Bits32, op).unwrap();
    }
    remote.quiet().unwrap();
    println!("=done");
}

fn pattern(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8 ^ seed).collect()
}

/// All kinds of operations, on a target that does nothing.
fn operate<N: RemoteNode>(remote: &Remote<'_, N>, region: &RemoteRegion) {
    for (seed, length) in (1..).zip([0, 1, 7, 8, 4_096, 65_536, 300_001]) {
        let bytes = pattern(seed, length);
        remote.put_slice(region, 64, &bytes, None).unwrap();
        remote.quiet().unwrap();
        let mut got = vec![0; length];
        remote.get(region, 64, &mut got).unwrap();
        assert!(got == bytes, "{length} bytes");
    }
    let every_other = Layout::strided(64, 2, 4, 3).unwrap();
    let signal = Signal {
        offset: 16,
        update: SignalUpdate::Add(5),
    };
    remote.put(region, 64, vec![9; 12]).unwrap();
    let put = remote.put_layout(region, every_other.clone(), vec![1; 6], Some(signal));
    put.unwrap();
    remote.fence(region.node).unwrap();
    let mut bytes = [0; 12];
    remote.get(region, 64, &mut bytes).unwrap();
    assert_eq!(bytes, [1, 1, 9, 9, 1, 1, 9, 9, 1, 1, 9, 9]);
    let mut bytes = [0; 6];
    remote.get_layout(region, every_other, &mut bytes).unwrap();
    assert_eq!(bytes, [1; 6]);
    assert_eq!(remote.fetch_add(region, 16, 1).unwrap(), 5);
    assert_eq!(remote.compare_swap(region, 16, 6, 1 << 40).unwrap(), 6);
    let op = AtomicOp::Or(3);
    remote.atomic(region, 16, Width::Bits32, op).unwrap();
    let begun = remote.begin_fetch_atomic(region, 16, Width::Bits64, AtomicOp::Fetch);
    assert_eq!(remote.wait(begun.unwrap()).unwrap(), Some(1 << 40 | 3));
    remote.put(region, 16, vec![0; 8]).unwrap();
    remote.quiet().unwrap();
}

#[test]
fn operations_reach_a_target_that_is_stopped() {
    let (node, mut target) = Target::with_initiator(true, &[]);
    let region = target.region;
    let remote = node.remote().limit(LONG);
    let mapped = map(&remote, &region);
    assert_eq!(mapped.len(), BYTES as u64);
    target.process.stop();
    operate(&remote, &region);
    operate(&remote.context().unwrap(), &region);
    let local = node.allocate_region(200_000, all()).unwrap();
    let layout = |offset| Layout::contiguous(offset, 100_000).unwrap();
    let begun = remote.begin_get(&region, layout(64), &local, layout(3));
    remote.wait(begun.unwrap()).unwrap();
    let mut bytes = vec![0; 100_000];
    local.read(3, &mut bytes).unwrap();
    let mut expected = vec![0; 100_000];
    remote.get(&region, 64, &mut expected).unwrap();
    assert!(bytes == expected);
    // SAFETY: nobody writes these bytes now.
    let first = unsafe { mapped.as_ptr().add(64).read() };
    target.process.signal(libc::SIGCONT);
    assert_eq!(target.read(64, 1), [first]);
}

#[test]
fn a_node_without_threads_reaches_a_stopped_target_too() {
    let mut node = builder(0).shared_memory(true).open().unwrap();
    let mut target = Target::start("127.0.0.1:0", node.local_addr(), &[]);
    node.add_peer(NodeId(1), target.address).unwrap();
    let region = target.region;
    connect(&node.remote().limit(LONG), &region);
    map(&node.remote(), &region);
    // Such a node serves others in its calls, also in those that need no network.
    let mut lent = [5_u64; 2];
    // SAFETY: the bytes outlive the region, and nobody uses them meanwhile.
    let own = unsafe { node.lend_region(NonNull::from(&mut lent).cast(), 16, all()) };
    let handle = own.as_ref().unwrap().handle();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let order = format!("get {} {}", handle.region, handle.key);
            assert_eq!(target.process.order(&order), "5");
            over.store(true, Ordering::Relaxed);
        });
        while !over.load(Ordering::Relaxed) {
            node.remote().get(&region, 0, &mut [0; 8]).unwrap();
        }
    });
    drop(own);
    target.process.stop();
    operate(&node.remote().limit(LONG), &region);
    target.process.signal(libc::SIGCONT);
    assert_eq!(target.read(16, 8), [0; 8]);
}

#[test]
fn without_the_setting_at_both_ends_operations_take_the_network() {
    let off = [("SUCI_SHARED_MEMORY", "0".to_owned())];
    for (share, more) in [(false, &[][..]), (true, &off)] {
        let (node, target) = Target::with_initiator(share, more);
        let remote = node.remote();
        assert!(remote.map(&target.region).unwrap().is_none());
        operate(&remote.limit(LONG), &target.region);
        target.process.stop();
        let remote = node.remote().limit(Duration::from_millis(50));
        remote.fetch_add(&target.region, 8, 1).unwrap_err();
        target.process.signal(libc::SIGCONT);
    }
}

/// The errors that a program gets of a killed target: of the quiet after a put, and of a get.
fn after_a_kill(share: bool, forks: bool) -> (String, String) {
    let (node, mut target) = Target::with_initiator(share, &[]);
    let remote = node.remote().limit(LONG);
    assert_eq!(remote.map(&target.region).unwrap().is_some(), share);
    remote.put(&target.region, 0, vec![1; 8]).unwrap();
    remote.quiet().unwrap();
    let child = forks.then(|| target.process.order("fork"));
    target.process.kill();
    // The end of the target's process comes before this put, which a quiet must not call applied.
    remote.put(&target.region, 0, vec![2; 8]).unwrap();
    let quiet = remote.quiet().unwrap_err();
    let remote = node.remote().limit(Duration::from_secs(5));
    let end = Instant::now() + LONG;
    let get = loop {
        match remote.get(&target.region, 0, &mut [0; 8]) {
            Err(error) => break error,
            // The thread that watches the process has not noticed yet.
            Ok(()) => assert!(Instant::now() < end, "the dead target answers"),
        }
    };
    if let Some(child) = child {
        // SAFETY: the child sleeps; it is of this test.
        unsafe { libc::kill(child.parse().unwrap(), libc::SIGKILL) };
    }
    (kind(&quiet), kind(&get))
}

fn kind(failure: &RemoteFailure) -> String {
    match failure {
        RemoteFailure::Operation(error) => format!("{:?}", error.cause),
        other => other.to_string(),
    }
}

/// From now on each system call ends the calling thread.
fn forbid_system_calls() {
    let [ends, clock] = [libc::SYS_exit, libc::SYS_clock_gettime];
    let [ends, clock] = [ends, clock].map(|number| u32::try_from(number).unwrap());
    let step = |code: u32, yes, no, value| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt: yes,
        jf: no,
        k: value,
    };
    // The number of the call is the first word. The one that ends the thread by itself is allowed,
    // and the clock, which is one on few machines.
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, clock),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, ends),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        step(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_KILL_THREAD,
        ),
    ];
    let program = libc::sock_fprog {
        len: 5,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the program outlives the call.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            | libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            )
    };
    assert_eq!(done, 0);
}

/// Both take less than a microsecond, and so would a question to the system.
#[test]
fn a_put_and_its_quiet_make_no_system_call() {
    static DONE: AtomicBool = AtomicBool::new(false);
    let (node, target) = Target::with_initiator(true, &[]);
    let node: &'static SharedNode = Box::leak(Box::new(node));
    let region = target.region;
    thread::spawn(move || {
        let remote = node.remote();
        let _mapped = map(&remote, &region);
        let put = |round: u64| {
            remote
                .put_slice(&region, 8, &round.to_le_bytes(), None)
                .unwrap();
            remote.quiet().unwrap();
        };
        (0..100).for_each(put);
        forbid_system_calls();
        (0..10_000).for_each(put);
        DONE.store(true, Ordering::Release);
        // SAFETY: ends the thread, whose memory nobody needs; nothing waits for it.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    });
    let end = Instant::now() + LONG;
    while !DONE.load(Ordering::Acquire) {
        assert!(Instant::now() < end, "a system call ended the thread");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn f17_a_target_that_is_killed_is_reported_as_over_the_network() {
    let expected = after_a_kill(false, false);
    assert_eq!(expected.0, format!("{:?}", Cause::Ended));
    assert_eq!(after_a_kill(true, false), expected);
    // Its child still has the sockets.
    let (quiet, _) = after_a_kill(true, true);
    assert_eq!(quiet, expected.0);
}

#[test]
fn f14_a_process_with_the_same_number_has_other_memory() {
    let (node, mut first) = Target::with_initiator(true, &[]);
    let remote = node.remote().limit(LONG);
    map(&remote, &first.region);
    remote.put(&first.region, 0, vec![7; 8]).unwrap();
    remote.quiet().unwrap();
    first.process.kill();
    let at = first.address.to_string();
    let mut second = Target::start(&at, node.local_addr(), &[]);
    // The old handle reaches neither memory, once the session is with the new process.
    let end = Instant::now() + LONG;
    while let Err(error) = remote.get(&second.region, 0, &mut []) {
        assert!(Instant::now() < end, "{error}");
    }
    remote.put(&first.region, 0, vec![9; 8]).unwrap();
    let Err(RemoteFailure::Operation(error)) = remote.quiet() else {
        panic!("the old handle is valid");
    };
    assert!(
        matches!(error.cause, Cause::Remote(error) if error.kind == RemoteErrorKind::WrongKey),
        "{error}"
    );
    assert!(remote.map(&first.region).unwrap().is_none());
    assert_eq!(second.read(0, 8), [0; 8]);
    map(&remote, &second.region);
    remote.put(&second.region, 0, vec![3; 8]).unwrap();
    remote.quiet().unwrap();
    assert_eq!(second.read(0, 8), [3; 8]);
}

#[test]
fn a_region_that_was_withdrawn_takes_no_operation() {
    let (node, mut target) = Target::with_initiator(true, &[]);
    let remote = node.remote().limit(LONG);
    let mapped = map(&remote, &target.region);
    remote.put(&target.region, 0, vec![7; 8]).unwrap();
    target.process.order("withdraw");
    let error = remote.fetch_add(&target.region, 0, 1).unwrap_err();
    let RemoteFailure::Operation(error) = error else {
        panic!("{error}");
    };
    assert!(
        matches!(error.cause, Cause::Remote(error) if error.kind == RemoteErrorKind::Withdrawn),
        "{error}"
    );
    // The mapping of this process stays.
    // SAFETY: nobody writes these bytes.
    assert_eq!(unsafe { mapped.as_ptr().read() }, 7);
}

/// A change that no message tells of ends the target's wait for one.
#[test]
fn a_wait_for_a_change_notices_those_without_messages() {
    let (node, mut target) = Target::with_initiator(true, &[]);
    let remote = node.remote().limit(LONG);
    let _mapped = map(&remote, &target.region);
    assert_eq!(target.process.order("wait 64"), "waiting");
    thread::sleep(Duration::from_millis(50));
    let begun = Instant::now();
    assert_eq!(remote.fetch_add(&target.region, 64, 7).unwrap(), 0);
    assert_eq!(target.process.answer(), "7");
    assert!(begun.elapsed() < LONG / 2);
}

#[test]
fn rights_keys_and_bounds_hold() {
    let (node, target) = Target::with_initiator(true, &[("READ_ONLY", String::new())]);
    let (remote, region) = (node.remote().limit(LONG), target.region);
    map(&remote, &region);
    target.process.stop();
    remote.get(&region, 0, &mut [0; 8]).unwrap();
    target.process.signal(libc::SIGCONT);
    let refused = |failure: RemoteFailure| match failure {
        RemoteFailure::Operation(error) => match error.cause {
            Cause::Remote(error) => error.kind,
            _ => panic!("{error}"),
        },
        other => panic!("{other}"),
    };
    remote.put(&region, 0, vec![1; 8]).unwrap();
    let error = remote.quiet().unwrap_err();
    assert_eq!(refused(error), RemoteErrorKind::NoRight);
    let error = remote.fetch_add(&region, 0, 1).unwrap_err();
    assert_eq!(refused(error), RemoteErrorKind::NoRight);
    let error = remote.get(&region, BYTES as u64 - 1, &mut [0; 2]);
    assert_eq!(refused(error.unwrap_err()), RemoteErrorKind::OutOfBounds);
    let wrong = RemoteRegion {
        key: region.key ^ 1,
        ..region
    };
    assert!(remote.map(&wrong).unwrap().is_none());
    let error = remote.get(&wrong, 0, &mut [0; 8]).unwrap_err();
    assert_eq!(refused(error), RemoteErrorKind::WrongKey);
}

#[test]
fn a_process_of_another_user_takes_the_network() {
    // SAFETY: asks for a number.
    let user = unsafe { libc::geteuid() };
    assert_eq!(
        user, 0,
        "run as root: the test starts a process of another user"
    );
    let (node, mut target) = Target::with_initiator(true, &[("NOBODY", String::new())]);
    let remote = node.remote().limit(LONG);
    assert!(remote.map(&target.region).unwrap().is_none());
    remote.put(&target.region, 0, vec![7; 8]).unwrap();
    remote.quiet().unwrap();
    assert_eq!(target.read(0, 8), [7; 8]);
}

#[test]
fn atomics_of_both_paths_add_up() {
    const DIRECT: u64 = 100_000;
    const NETWORK: u64 = 2_000;
    let (node, target) = Target::with_initiator(true, &[]);
    let (remote, region) = (node.remote().limit(LONG), target.region);
    map(&remote, &region);
    let mut adder = Other::start(
        "adder",
        &[
            ("AT", target.address.to_string()),
            ("REGION", region.region.to_string()),
            ("KEY", region.key.to_string()),
        ],
    );
    assert_eq!(adder.answer(), "ready");
    writeln!(adder.orders, "{NETWORK}").unwrap();
    for _ in 0..DIRECT {
        remote.fetch_add(&region, 8, 1).unwrap();
        let op = AtomicOp::Add(1);
        remote.atomic(&region, 20, Width::Bits32, op).unwrap();
    }
    assert_eq!(adder.answer(), "done");
    assert_eq!(remote.fetch_add(&region, 8, 0).unwrap(), DIRECT + NETWORK);
    let narrow = remote.fetch_atomic(&region, 20, Width::Bits32, AtomicOp::Fetch);
    assert_eq!(narrow.unwrap(), DIRECT + NETWORK);
    let beside = remote.fetch_atomic(&region, 16, Width::Bits32, AtomicOp::Fetch);
    assert_eq!(beside.unwrap(), 0);
}

/// An operation does not overtake requests that are on their way to the target.
#[test]
fn operations_of_both_paths_keep_their_order() {
    let (node, target) = Target::with_initiator(true, &[]);
    let remote = node.remote().limit(LONG);
    map(&remote, &target.region);
    // The target refuses this one, over the network, when it runs again.
    target.process.stop();
    remote
        .put(&target.region, u64::MAX - 8, vec![1; 8])
        .unwrap();
    remote.put(&target.region, 0, vec![1; 8]).unwrap();
    let soon = node.remote().limit(Duration::from_millis(50));
    soon.get(&target.region, 0, &mut [0; 8]).unwrap_err();
    target.process.signal(libc::SIGCONT);
    let mut bytes = [0; 8];
    remote.get(&target.region, 0, &mut bytes).unwrap();
    assert_eq!(bytes, [1; 8]);
    // All are applied, as the answer said.
    target.process.stop();
    remote.get(&target.region, 0, &mut bytes).unwrap();
    target.process.signal(libc::SIGCONT);
    remote.quiet().unwrap_err();
}

#[test]
fn f24_a_child_neither_uses_nor_withdraws_the_memory() {
    let (node, mut target) = Target::with_initiator(true, &[]);
    let remote = node.remote().limit(LONG);
    map(&remote, &target.region);
    let own = node.allocate_region(64, all()).unwrap();
    // SAFETY: the child allocates next to nothing, and calls `_exit`.
    let child = match unsafe { libc::fork() } {
        0 => {
            let refused = remote.fetch_add(&target.region, 0, 1).is_err();
            drop(own);
            drop(node);
            // SAFETY: ends the child without running anything that belongs to the parent.
            unsafe { libc::_exit(i32::from(!refused)) }
        }
        child => child,
    };
    let mut status = 0;
    // SAFETY: `status` outlives the call; the child is this test's.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
    assert_eq!(target.read(0, 8), [0; 8]);
    target.process.stop();
    remote.fetch_add(&target.region, 0, 1).unwrap();
    target.process.signal(libc::SIGCONT);
    let itself = node.remote().limit(LONG);
    assert_eq!(itself.fetch_add(&own.handle(), 0, 1).unwrap(), 0);
    assert!(own.is_shared());
}

#[test]
fn huge_pages_are_taken_where_the_system_has_them() {
    let node: Node = builder(0).shared_memory(true).open().unwrap();
    let region = node.allocate_region_on_huge_pages(4 << 20, all()).unwrap();
    assert!(region.is_shared());
    assert!(region.bytes_on_huge_pages() <= 4 << 20);
    region.write((4 << 20) - 8, &[1; 8]).unwrap();
    let small = node.allocate_region(0, all()).unwrap();
    assert!(small.is_shared() && small.is_empty());
}
