//! A program that leaves its node to a thread of the library, and only receives.

use std::collections::BTreeMap;
use std::sync::mpsc::TryRecvError;

use suci::{NodeBuilder, NodeId};

use crate::traffic::Inflow;
use crate::{PATIENCE, TURN};

pub(crate) fn run(builder: NodeBuilder) {
    let node = builder.open_threads(1).expect("a node");
    let commands = crate::commands();
    let mut incoming = BTreeMap::<NodeId, Inflow>::new();
    loop {
        match commands.try_recv().as_deref() {
            Ok("stat") => {
                let peers = node.peers().expect("peers").into_iter();
                let messages = |from| incoming.get(&from).map_or(0, |inflow| inflow.messages);
                let received: serde_json::Map<_, _> = peers
                    .map(|peer| (peer.node.to_string(), messages(peer.node).into()))
                    .collect();
                let socket = node.socket_counters().expect("socket counters");
                let stat =
                    serde_json::json!({ "received": received, "recv_drops": socket.recv_drops });
                println!("stat {stat}");
            }
            Ok("close") | Err(TryRecvError::Disconnected) => break,
            Ok(line) => panic!("unknown command {line}"),
            Err(TryRecvError::Empty) => {}
        }
        if let Some(message) = node.recv_timeout(TURN).expect("recv") {
            incoming.entry(message.from).or_default().take(&message);
        }
    }
    node.close(PATIENCE)
        .expect("everything arrives before the end");
}
