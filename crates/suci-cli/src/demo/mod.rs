//! `suci demo`: a program for `suci run` that checks the library's promises, and reports the
//! result.
//!
//! First every node sends numbered messages of different lengths to every other and checks each
//! byte that it gets. Then node 0 broadcasts a file, from one buffer that all destinations share.
//! Compare the copies with another tool.

mod broadcast;
mod exchange;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use suci::{Event, Node, NodeId};

use crate::args::DemoArgs;
use crate::error::{Context, Failure, Result};
use crate::node;

/// The longest time for any step here.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long one wait lasts, before events are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Runs this node's part.
pub(crate) fn run(args: &DemoArgs) -> Result<ExitCode> {
    if suci::env::id()?.is_none() {
        return Err(Failure::new(
            "this is a program for suci run: suci run -n 4 suci demo",
        ));
    }
    // Before anything is sent: a file that cannot be read or written should fail before the
    // exchange.
    if let (Some(file), Some(into)) = (&args.file, &args.into) {
        broadcast::check(file, into)?;
    }
    let mut cluster = Cluster::new(node::builder(&args.node).open()?)?;
    exchange::run(&mut cluster, args.messages)?;
    if let (Some(file), Some(into)) = (&args.file, &args.into) {
        broadcast::run(&mut cluster, file, into)?;
    }
    cluster.node.close(node::CLOSING)?;
    Ok(ExitCode::SUCCESS)
}

/// This node and all others.
struct Cluster {
    node: Node,
    peers: Vec<NodeId>,
}

impl Cluster {
    fn new(node: Node) -> Result<Self> {
        let peers: Vec<_> = node.peers()?.into_iter().map(|peer| peer.node).collect();
        if peers.is_empty() {
            return Err(Failure::new(
                "one process alone has nobody to talk to: suci run -n 2 or more",
            ));
        }
        Ok(Self { node, peers })
    }

    /// Waits until there is something to do; fails when a peer is gone or nothing came for too
    /// long. Node 0 releases all others at the end, so any of them may end while this one waits for
    /// that.
    fn wait(&mut self, end: Instant) -> Result<()> {
        self.node.poll(LOOK)?;
        let first = NodeId(0);
        for event in self.node.events()? {
            if let Event::Ended {
                node: peer, reason, ..
            } = event
                && (peer == first || self.node.id() == first)
            {
                return Err(Failure::new(format!(
                    "node {peer} has gone: {}",
                    node::ended(reason)
                )));
            }
        }
        if Instant::now() >= end {
            let own = self.node.id();
            return Err(Failure::new(format!(
                "node {own}: the others were silent for {PATIENCE:?}"
            )));
        }
        Ok(())
    }

    /// Returns when every node has come here. Node 0 collects and releases; `early` ones it has
    /// met.
    fn meet(&mut self, tag: u64, early: usize) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        let first = NodeId(0);
        if self.node.id() != first {
            self.node
                .send(first, suci::OutgoingMessage::new("").tag(tag))?;
            self.expect(tag, 1, end)?;
            return Ok(());
        }
        self.expect(tag, self.peers.len().saturating_sub(early), end)?;
        for peer in self.peers.clone() {
            self.node
                .send(peer, suci::OutgoingMessage::new("").tag(tag))?;
        }
        Ok(())
    }

    fn expect(&mut self, tag: u64, count: usize, end: Instant) -> Result<()> {
        let mut met = 0;
        while met < count {
            match self.node.try_recv()? {
                Some(message) if message.tag == tag => met += 1,
                Some(message) => {
                    let (from, tag) = (message.from, message.tag);
                    return Err(Failure::new(format!(
                        "node {from} sent tag {tag} out of turn: a bug"
                    )));
                }
                None => self.wait(end)?,
            }
        }
        Ok(())
    }
}

/// Returns the most memory that this process ever had resident, in bytes.
fn peak_memory() -> Result<u64> {
    let path = "/proc/self/status";
    let text = std::fs::read_to_string(path).context(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|n| n.trim().parse::<u64>().ok());
    let kib = kib.ok_or_else(|| Failure::new(format!("{path}: no VmHWM in kB")))?;
    Ok(kib.saturating_mul(1024))
}
