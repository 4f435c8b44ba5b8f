//! `suci env`: what a process would find in its environment, in the place of a program.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;

use serde_json::{Value, json};
use suci::env::LauncherState;
use suci::{Error, Node, NodeId};

use crate::args::EnvArgs;
use crate::error::{self, Result};

/// The node that the environment describes.
struct Opened {
    id: NodeId,
    /// How many processes there are, if the launcher tells.
    size: Option<u32>,
    local: SocketAddr,
    peers: Vec<(NodeId, Option<SocketAddr>)>,
}

/// Looks for launchers, opens the node, and prints both. Fails if no node can be opened.
pub(crate) fn run(args: &EnvArgs) -> Result<ExitCode> {
    let launchers = suci::env::launchers();
    let opened = open();
    let text = match args.json {
        true => as_json(&launchers, &opened).to_string(),
        false => as_text(&launchers, &opened),
    };
    error::print(format_args!("{text}"))?;
    Ok(match opened {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// Does what a program's `Node::from_env` does.
fn open() -> Result<Opened, Error> {
    let node = Node::builder().statistics(false).open()?;
    let peers = node.peers()?.into_iter();
    Ok(Opened {
        id: node.id(),
        size: suci::env::size()?,
        local: node.local_addr(),
        peers: peers.map(|peer| (peer.node, peer.address)).collect(),
    })
}

/// The launcher that counts.
fn chosen(launchers: &[LauncherState]) -> Option<&'static str> {
    launchers.iter().find(|it| it.is_complete).map(|it| it.name)
}

fn state(launcher: &LauncherState, chosen: Option<&str>) -> &'static str {
    let LauncherState {
        problem,
        is_complete,
        ..
    } = launcher;
    match (is_complete, problem) {
        (true, _) if chosen == Some(launcher.name) => "used",
        (true, _) => "there",
        (false, Some(_)) => "broken",
        (false, None) => "absent",
    }
}

fn as_text(launchers: &[LauncherState], opened: &Result<Opened, Error>) -> String {
    let chosen = chosen(launchers);
    let mut text = String::new();
    // Writing into a string cannot fail.
    for launcher in launchers {
        let _ = write!(text, "{:7} {}", state(launcher, chosen), launcher.name);
        let mut before = ": ";
        if let Some(problem) = &launcher.problem {
            let _ = write!(text, "{before}{problem}");
            before = "; ";
        }
        for (name, value) in &launcher.variables {
            let _ = write!(text, "{before}{name}={value}");
            before = " ";
        }
        text.push('\n');
    }
    match opened {
        Err(error) => {
            let _ = write!(text, "no node: {error}");
        }
        Ok(opened) => {
            let size = opened
                .size
                .map(|size| format!(" of {size}"))
                .unwrap_or_default();
            let _ = write!(text, "node {}{size}, at {}", opened.id, opened.local);
            for (node, address) in &opened.peers {
                let address = address.map_or_else(|| "no address".to_owned(), |at| at.to_string());
                let _ = write!(text, "\n  node {node}: {address}");
            }
        }
    }
    text
}

fn as_json(launchers: &[LauncherState], opened: &Result<Opened, Error>) -> Value {
    let chosen = chosen(launchers);
    let launcher = |it: &LauncherState| {
        let variables: serde_json::Map<_, _> = it
            .variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_str().into()))
            .collect();
        json!({
            "name": it.name, "state": state(it, chosen), "variables": variables, "problem": it.problem,
        })
    };
    let peer = |(node, address): &(NodeId, Option<SocketAddr>)| json!({ "node": node.0, "address": address.map(|at| at.to_string()) });
    let node = opened.as_ref().ok().map(|it| {
        json!({
            "id": it.id.0, "size": it.size, "address": it.local.to_string(),
            "peers": it.peers.iter().map(peer).collect::<Vec<_>>(),
        })
    });
    json!({
        "launchers": launchers.iter().map(launcher).collect::<Vec<_>>(),
        "launcher": chosen,
        "node": node,
        "error": opened.as_ref().err().map(Error::to_string),
    })
}
