//! Processes that other launchers than `suci run` start: a process manager that speaks PMI-1, and
//! Slurm's variables.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use suci::{Node, NodeId};

/// Tells `the_child` which part it plays.
const ROLE: &str = "SUCI_TEST_ROLE";

/// No step of a test takes longer.
const LONG: Duration = Duration::from_secs(60);

/// A command that plays `role`, with these variables.
fn child(role: &str, variables: &[(&str, String)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "the_child", "--nocapture"])
        .env(ROLE, role)
        .env("SUCI_LAUNCH_TIMEOUT", "60");
    command.envs(variables.iter().map(|(name, value)| (*name, value)));
    command
}

/// Lets the command alone inherit a descriptor.
fn inherit(command: &mut Command, fd: OwnedFd) {
    // SAFETY: fcntl may be called between fork and exec. The closure owns the descriptor.
    unsafe {
        command.pre_exec(move || {
            libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, 0);
            Ok(())
        })
    };
}

fn succeeded(output: &Output) -> String {
    let (said, told) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{said}{told}");
    said.into_owned()
}

#[test]
fn the_child() {
    match std::env::var(ROLE).as_deref() {
        Ok("ring") => ring(),
        Ok("refuse") => {
            let error = Node::from_env().unwrap_err().to_string();
            let again = Node::from_env().unwrap_err().to_string();
            assert_eq!(error, again, "the launcher is asked once");
            println!("refused: {error}");
        }
        // Started as an ordinary test: nothing to do.
        _ => {}
    }
}

/// Greets the next process, and waits for the greeting of the one before.
fn ring() {
    let own = suci::env::id().unwrap().unwrap();
    let mut node = Node::from_env().unwrap();
    let size = suci::env::size().unwrap().unwrap();
    assert_eq!(node.id(), own);
    assert_eq!(node.peers().unwrap().len(), size as usize - 1);
    let next = NodeId((own.0 + 1) % size);
    node.send(next, "hello").unwrap();
    let message = node.recv_timeout(LONG).unwrap().unwrap();
    assert_eq!((message.from.0 + 1) % size, own.0);
    node.flush(LONG).unwrap();
    node.close(LONG).unwrap();
    let at = node.local_addr();
    drop(node);
    // Another node of the process has the same place.
    let again = Node::from_env().unwrap();
    assert_eq!((again.id(), again.local_addr()), (own, at));
    println!("node {own} of {size}");
}

/// The store of a process manager, and its barrier.
struct Manager {
    values: Mutex<BTreeMap<String, String>>,
    barrier: Barrier,
}

impl Manager {
    fn new(size: usize) -> Arc<Self> {
        Arc::new(Self {
            values: Mutex::default(),
            barrier: Barrier::new(size),
        })
    }

    /// Serves a process until it ends. Returns the last command.
    fn serve(&self, stream: impl Read + Write) -> String {
        let mut stream = BufReader::new(stream);
        let mut last = String::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).unwrap_or(0) == 0 {
                return last;
            }
            let words: BTreeMap<_, _> = line
                .split_whitespace()
                .filter_map(|word| word.split_once('='))
                .collect();
            last = words["cmd"].to_owned();
            let answer = match words["cmd"] {
                "init" => "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1".to_owned(),
                "get_my_kvsname" => "cmd=my_kvsname rc=0 kvsname=space".to_owned(),
                "put" => {
                    let (key, value) = (words["key"].to_owned(), words["value"].to_owned());
                    self.values.lock().unwrap().insert(key, value);
                    "cmd=put_result rc=0 msg=success".to_owned()
                }
                "barrier_in" => {
                    self.barrier.wait();
                    "cmd=barrier_out rc=0".to_owned()
                }
                "get" => format!(
                    "cmd=get_result rc=0 value={}",
                    self.values.lock().unwrap()[words["key"]]
                ),
                "finalize" => "cmd=finalize_ack rc=0".to_owned(),
                other => panic!("{other}"),
            };
            stream
                .get_mut()
                .write_all(format!("{answer}\n").as_bytes())
                .unwrap();
        }
    }
}

type Running = (JoinHandle<Output>, JoinHandle<String>);

fn ended(all: Vec<Running>) {
    let size = all.len();
    for (rank, (process, manager)) in all.into_iter().enumerate() {
        let said = succeeded(&process.join().unwrap());
        assert!(said.contains(&format!("node {rank} of {size}\n")), "{said}");
        assert_eq!(manager.join().unwrap(), "finalize");
    }
}

#[test]
fn processes_of_a_manager_with_inherited_sockets_reach_each_other() {
    let manager = Manager::new(3);
    let all = (0..3).map(|rank| {
        let (own, other) = UnixStream::pair().unwrap();
        let own: OwnedFd = own.into();
        let variables = [
            ("PMI_FD", own.as_raw_fd().to_string()),
            ("PMI_RANK", rank.to_string()),
            ("PMI_SIZE", "3".to_owned()),
        ];
        let mut command = child("ring", &variables);
        inherit(&mut command, own);
        let process = std::thread::spawn(move || {
            let output = command.output().unwrap();
            // Its end of the pair, which would keep the manager waiting.
            drop(command);
            output
        });
        let manager = Arc::clone(&manager);
        (process, std::thread::spawn(move || manager.serve(other)))
    });
    ended(all.collect());
}

#[test]
fn processes_of_a_manager_with_a_port_reach_each_other() {
    let manager = Manager::new(3);
    let all = (0..3).map(|rank| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let variables = [
            ("PMI_PORT", listener.local_addr().unwrap().to_string()),
            ("PMI_ID", rank.to_string()),
        ];
        let mut command = child("ring", &variables);
        let manager = Arc::clone(&manager);
        let serve = move || {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream);
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            assert_eq!(line, format!("cmd=initack pmiid={rank}\n"));
            let told =
                format!("cmd=initack\ncmd=set size=3\ncmd=set rank={rank}\ncmd=set debug=0\n");
            lines.get_mut().write_all(told.as_bytes()).unwrap();
            manager.serve(lines.into_inner())
        };
        (
            std::thread::spawn(move || command.output().unwrap()),
            std::thread::spawn(serve),
        )
    });
    ended(all.collect());
}

#[test]
fn a_garbled_answer_of_the_manager_is_told() {
    let (own, other) = UnixStream::pair().unwrap();
    let own: OwnedFd = own.into();
    let variables = [
        ("PMI_FD", own.as_raw_fd().to_string()),
        ("PMI_RANK", "0".to_owned()),
        ("PMI_SIZE", "1".to_owned()),
    ];
    let mut command = child("refuse", &variables);
    inherit(&mut command, own);
    let manager = std::thread::spawn(move || {
        let mut line = String::new();
        BufReader::new(&other).read_line(&mut line).unwrap();
        (&other).write_all(b"HTTP/1.1 400 Bad Request\r\n").unwrap();
        other
    });
    let said = succeeded(&command.output().unwrap());
    let part = "refused: PMI: the process manager answered \"HTTP/1.1 400 Bad Request\\r\"";
    assert!(said.contains(part), "{said}");
    manager.join().unwrap();
}

/// Variables of a job step with 2 tasks on this host.
fn step(rank: u32, port: u16) -> Vec<(&'static str, String)> {
    let (rank, port) = (rank.to_string(), port.to_string());
    let all = [
        ("SLURM_JOB_ID", "17"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_STEP_NODELIST", "localhost"),
        ("SLURM_STEP_TASKS_PER_NODE", "2"),
        ("SLURM_STEP_NUM_TASKS", "2"),
        ("SLURM_NODEID", "0"),
        ("SLURM_PROCID", &rank),
        ("SLURM_LOCALID", &rank),
        ("SUCI_PORT", &port),
    ];
    all.map(|(name, value)| (name, value.to_owned())).into()
}

#[test]
fn tasks_of_slurm_compute_where_the_others_are() {
    let dir = tempfile::tempdir().unwrap();
    let key = suci::security::KeyFile::new(dir.path().join("key"));
    key.create().unwrap();
    // Two ports in a row that nobody has.
    let port = (20_000..30_000).step_by(2).find(|port| {
        let is_free = |port: u16| UdpSocket::bind(("::", port)).is_ok();
        is_free(*port) && is_free(port + 1)
    });
    let port = port.unwrap();
    let refused =
        |variables: &[(&str, String)]| succeeded(&child("refuse", variables).output().unwrap());
    let said = refused(&step(0, port));
    assert!(
        said.contains("refused: Slurm: the processes cannot exchange keys"),
        "{said}"
    );
    let with_key = |rank, port| {
        let mut variables = step(rank, port);
        variables.push(("SUCI_KEY_FILE", key.path().display().to_string()));
        variables
    };
    let taken = UdpSocket::bind(("::", port)).unwrap();
    let said = refused(&with_key(0, port));
    let part = format!("refused: Slurm: UDP port {port} of this host is taken: set SUCI_PORT");
    assert!(said.contains(&part), "{said}");
    drop(taken);
    let running: Vec<_> = (0..2)
        .map(|rank| {
            let mut command = child("ring", &with_key(rank, port));
            std::thread::spawn(move || command.output().unwrap())
        })
        .collect();
    for (rank, process) in running.into_iter().enumerate() {
        let said = succeeded(&process.join().unwrap());
        assert!(said.contains(&format!("node {rank} of 2\n")), "{said}");
    }
}

#[test]
fn what_is_missing_is_told_where_no_launcher_is_complete() {
    for (variables, part) in [
        (
            &[("SLURM_PROCID", "0")][..],
            "Slurm: SLURM_PROCID is set, and SLURM_STEP_NODELIST",
        ),
        (
            &[("PMIX_RANK", "0")],
            "PMIx: PMIX_RANK is set, and PMIX_NAMESPACE is not",
        ),
        (
            &[("PMI_RANK", "2"), ("PMI_SIZE", "2")],
            "PMI: PMI_RANK=2: not below PMI_SIZE=2",
        ),
        (
            &[("PMI_RANK", "1"), ("PMI_SIZE", "2")],
            "neither PMI_FD nor PMI_PORT is",
        ),
        (
            &[("JOB_COMPLETION_INDEX", "0")],
            "Kubernetes: JOB_COMPLETION_INDEX=0 is set, and SUCI_SIZE is not",
        ),
    ] {
        let variables: Vec<_> = variables
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        let said = succeeded(&child("refuse", &variables).output().unwrap());
        assert!(said.contains(part), "{said}");
    }
}
