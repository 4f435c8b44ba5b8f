//! No part of the memory of a process holds a key that was taken out: neither heap nor stacks.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{LONG, builder, take};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use suci::Node;
use suci::security::{KeyFile, NodeKey, PublicKeysFile};

/// Tells `the_child` which part it plays, and where the files are.
const ROLE: &str = "SUCI_TEST_ROLE";
const DIRECTORY: &str = "SUCI_TEST_DIRECTORY";

/// Longer than two checks of a file, which are 2 s apart.
const NOTICED: Duration = Duration::from_secs(7);

/// Two nodes that talk to each other under keys, until those are others.
#[test]
fn the_child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let dir = std::env::var(DIRECTORY).unwrap();
    let file = |name: &str| format!("{dir}/{name}");
    let node = |id: u32| {
        let builder = builder(id);
        match role.as_str() {
            "file" => builder.key_file(file("0.key")),
            "program" => {
                let keys = KeyFile::new(file("0.key")).read().unwrap();
                builder.cluster_key(keys)
            }
            _ => builder.node_key_files(file(&format!("{id}.key")), file("public.keys")),
        }
    };
    let mut nodes = [0, 1].map(|id| node(id).open().unwrap());
    talk(&mut nodes);
    say("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    if role == "program" {
        for node in &mut nodes {
            let keys = KeyFile::new(file("0.key")).read().unwrap();
            node.set_keys(keys).unwrap();
        }
    }
    let end = Instant::now()
        + if role == "program" {
            LONG / 100
        } else {
            NOTICED
        };
    while Instant::now() < end {
        nodes.iter_mut().for_each(|node| drop(node.try_recv()));
        std::thread::sleep(Duration::from_millis(20));
    }
    talk(&mut nodes);
    say("changed");
    std::io::stdin().read_line(&mut line).unwrap();
}

fn say(word: &str) {
    println!("\nchild: {word}");
}

fn talk([a, b]: &mut [Node; 2]) {
    let (to, address) = (b.id(), b.local_addr());
    let _ = a.add_peer(to, address);
    let _ = b.add_peer(a.id(), a.local_addr());
    a.send(to, "x").unwrap();
    take(b);
}

/// A process of `the_child`, ended with this.
struct Running {
    process: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Running {
    fn new(role: &str, dir: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_child", "--nocapture"])
            .envs([(ROLE, role), (DIRECTORY, dir)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stdout.take().unwrap());
        Self { process, said }
    }

    fn await_word(&mut self, word: &str) {
        let mut lines = self.said.by_ref().lines();
        let wanted = format!("child: {word}");
        assert!(lines.any(|line| line.unwrap() == wanted), "no {word:?}");
    }

    fn go_on(&mut self) {
        let input = self.process.stdin.as_mut().unwrap();
        input.write_all(b"\n").unwrap();
    }

    /// How often each of the `secrets` is in memory that the process can write, and where.
    fn find(&self, secrets: &[Vec<u8>]) -> Vec<String> {
        let proc = format!("/proc/{}", self.process.id());
        let maps = fs::read_to_string(format!("{proc}/maps")).unwrap();
        let mut memory = File::open(format!("{proc}/mem")).unwrap();
        let mut found = Vec::new();
        for line in maps.lines().filter(|line| line.contains(" rw")) {
            let (range, _) = line.split_once(' ').unwrap();
            let (from, to) = range.split_once('-').unwrap();
            let [from, to] = [from, to].map(|hex| u64::from_str_radix(hex, 16).unwrap());
            let mut bytes = vec![0; usize::try_from(to - from).unwrap()];
            memory.seek(SeekFrom::Start(from)).unwrap();
            // Some kinds of memory cannot be read so.
            if memory.read_exact(&mut bytes).is_err() {
                continue;
            }
            for (number, secret) in secrets.iter().enumerate() {
                let first = secret[0];
                let starts = bytes.iter().enumerate().filter(|(_, byte)| **byte == first);
                let here = starts.filter(|(at, _)| bytes[*at..].starts_with(secret));
                found.extend(here.map(|(at, _)| format!("secret {number} at {at:#x} of {line}")));
            }
        }
        found
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The secrets of a key file: the bytes of its key, and their digits.
fn secrets(path: &str) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(path).unwrap();
    let line = text.lines().find(|line| line.starts_with("suci-")).unwrap();
    let digits = line.split(' ').nth(1).unwrap();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    let bytes = (0..digits.len()).step_by(2).map(byte).collect();
    vec![bytes, digits.as_bytes().to_vec()]
}

/// Makes a key file, or takes another key in its place as the holder of the file does.
fn new_key(path: &str, of_node: bool) {
    let exists = fs::exists(path).unwrap();
    match (of_node, exists) {
        (false, false) => drop(KeyFile::new(path).create().unwrap()),
        (true, false) => drop(KeyFile::of_node(path).create().unwrap()),
        (false, true) => {
            let file = KeyFile::new(path);
            file.rotate().unwrap();
            file.retire().unwrap();
        }
        (true, true) => {
            let file = KeyFile::of_node(path);
            file.rotate().unwrap();
            file.retire().unwrap();
        }
    }
}

#[test]
fn a_key_that_was_taken_out_is_nowhere_in_memory() {
    let mut searched = 0;
    for role in ["program", "file", "nodes"] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().to_str().unwrap().to_owned();
        let of_node = role == "nodes";
        let names = if of_node {
            &["0.key", "1.key"][..]
        } else {
            &["0.key"]
        };
        let change = || {
            names
                .iter()
                .for_each(|name| new_key(&format!("{dir}/{name}"), of_node));
            if of_node {
                let lines = (0..2_u32).map(|id| {
                    let keys = KeyFile::of_node(format!("{dir}/{id}.key")).read().unwrap();
                    let key: &NodeKey = keys.first();
                    format!("{id} {}\n", key.public())
                });
                let file = format!("{dir}/public.keys");
                fs::write(format!("{file}.new"), lines.collect::<String>()).unwrap();
                fs::rename(format!("{file}.new"), &file).unwrap();
                PublicKeysFile::new(file).read().unwrap();
            }
        };
        change();
        let old: Vec<_> = names
            .iter()
            .flat_map(|name| secrets(&format!("{dir}/{name}")))
            .collect();
        let mut running = Running::new(role, &dir);
        running.await_word("ready");
        if role != "nodes" {
            // Otherwise the search finds nothing whatever is there.
            assert!(
                !running.find(&old).is_empty(),
                "{role}: the key in use is not found"
            );
        }
        change();
        running.go_on();
        running.await_word("changed");
        let found = running.find(&old);
        assert!(found.is_empty(), "{role}: {found:#?}");
        searched += old.len();
    }
    println!("figure: {searched} forms of 4 keys that were taken out, none in memory");
}
