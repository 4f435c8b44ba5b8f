//! Processes that join a cluster through a seed, leave it, and die.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use suci_tests::{MEMBERS, count, heavy};
use xtask::netns::Netns;

const MEMBER: &str = env!("CARGO_BIN_EXE_member");

/// Longest time until all know of a change: closed ports are noticed within the silence timeout,
/// members whose neighbours died later. It is generous for machines that others use.
const SETTLED: Duration = Duration::from_secs(60);

/// The last lines of a process: its address, then its members' number, their sum, and failures.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    address: String,
    members: (usize, u32),
    failed: usize,
}

struct Process {
    child: Child,
    state: Arc<Mutex<State>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    fn start(id: u32, seeds: &[(u32, String)]) -> Self {
        let mut command = Command::new(MEMBER);
        command.arg(id.to_string());
        for (seed, address) in seeds {
            command.args([&seed.to_string(), address]);
        }
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let words: Vec<_> = line.split(' ').collect();
                let number = |at: usize| words[at].parse::<u32>().unwrap();
                let mut state = shared.lock().unwrap();
                match words[0] {
                    "at" => state.address = words[1].into(),
                    _ => {
                        state.members = (number(1) as usize, number(2));
                        state.failed = number(3) as usize;
                    }
                }
            }
        });
        Self { child, state }
    }

    fn state(&self) -> State {
        self.state.lock().unwrap().clone()
    }

    fn address(&self) -> String {
        let end = Instant::now() + SETTLED;
        loop {
            let address = self.state().address;
            if !address.is_empty() {
                return address;
            }
            assert!(Instant::now() < end, "the process does not begin");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Lets processes leave, at the same time.
fn leave(processes: impl IntoIterator<Item = Process>) {
    let mut processes: Vec<_> = processes.into_iter().collect();
    for process in &mut processes {
        drop(process.child.stdin.take());
    }
    for process in &mut processes {
        assert!(process.child.wait().unwrap().success());
    }
}

/// Waits until all know exactly each other.
fn settle(all: &BTreeMap<u32, Process>, what: &str) {
    let began = Instant::now();
    let expected = (all.len(), all.keys().sum::<u32>());
    loop {
        let states = all.iter().map(|(id, it)| (*id, it.state().members));
        let wrong: Vec<_> = states.filter(|it| it.1 != expected).collect();
        if wrong.is_empty() {
            println!(
                "figure: {what}: all {} know it after {:?}",
                all.len(),
                began.elapsed()
            );
            return;
        }
        assert!(
            began.elapsed() < SETTLED,
            "{what}: {wrong:?}, not {expected:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn failures(all: &BTreeMap<u32, Process>) -> usize {
    all.values().map(|it| it.state().failed).sum()
}

/// F17: kill -9 of members, of the seed too, is told to all others; nobody who lives is told dead.
#[test]
fn f17_processes_join_leave_and_die_and_all_others_know() {
    let _alone = heavy();
    let processes = count(MEMBERS, 100);
    let netns = Netns::new().unwrap();
    netns.inside(|| come_and_go(processes)).unwrap();
}

fn come_and_go(count: u32) {
    let mut all = BTreeMap::new();
    all.insert(0, Process::start(0, &[]));
    let first = (0, all[&0].address());
    all.insert(1, Process::start(1, std::slice::from_ref(&first)));
    let seeds = [first, (1, all[&1].address())];
    for id in 2..count {
        all.insert(id, Process::start(id, &seeds[..1]));
    }
    settle(&all, "joins through one seed");
    let leaving: Vec<_> = (2..2 + count / 8)
        .map(|id| all.remove(&id).unwrap())
        .collect();
    leave(leaving);
    settle(&all, "leaves");
    assert_eq!(failures(&all), 0);
    // Dropping kills. The seed is among them.
    let dead = count / 8;
    for id in [0].into_iter().chain(count - dead + 1..count) {
        all.remove(&id).unwrap();
    }
    settle(&all, "deaths");
    assert_eq!(failures(&all), dead as usize * all.len());
    // All come back with other ports, by the second seed.
    for id in (0..count)
        .filter(|id| !all.contains_key(id))
        .collect::<Vec<_>>()
    {
        all.insert(id, Process::start(id, &seeds));
    }
    settle(&all, "starts by the second seed");
    assert_eq!(
        failures(&all),
        dead as usize * (all.len() - dead as usize - count as usize / 8)
    );
    leave(all.into_values());
}
