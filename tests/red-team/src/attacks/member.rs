//! Attacks by a member, where each node has a key of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use suci::security::{Cipher, Keyring, NodeKey, PublicKeys};
use suci::{AcceptPolicy, EndReason, Event, Node, NodeId, SharedNode};
use suci_proto::security::{Handshakes, Security};
use suci_proto::types::ChannelId;

use super::session::{END, FIRST, fragment};
use crate::rogue::Rogue;
use crate::scene::{HONEST, LIMIT, Scene, Setting, VICTIM};
use crate::{Report, ensure, text};

/// The member that attacks. It may use nothing but messages.
const MEMBER: NodeId = NodeId(66);

/// How long the attackers knock.
const PATIENCE: Duration = Duration::from_secs(3);

fn key(of: NodeId) -> Result<NodeKey, String> {
    let byte = u8::try_from(of.0).map_err(text)?;
    NodeKey::from_bytes(&[byte; 32]).map_err(text)
}

/// The public keys that all nodes have.
fn public() -> Result<PublicKeys, String> {
    let line = |node: NodeId, layers| Ok(format!("{node} {} {layers}\n", key(node)?.public()));
    let lines = [line(VICTIM, ""), line(HONEST, ""), line(MEMBER, "messages")];
    let lines: Result<String, String> = lines.into_iter().collect();
    PublicKeys::parse(&lines?).map_err(|(at, problem)| format!("line {at}: {problem}"))
}

/// A victim with keys of nodes, beside the scene's.
fn victim() -> Result<SharedNode, String> {
    let builder = Node::builder().id(VICTIM);
    let builder = builder.accept(AcceptPolicy::Anyone).statistics(false);
    let builder = builder.node_keys(key(VICTIM)?, public()?);
    builder.open_threads(1).map_err(text)
}

/// The attacking member's handshakes.
fn handshakes() -> Result<Arc<dyn Handshakes>, String> {
    let own = Keyring::from(key(MEMBER)?);
    match public()?
        .security(MEMBER, &own, Cipher::ALL[0])
        .map_err(text)?
    {
        Security::Sealed(makes) => Ok(makes),
        Security::Plain => Err("keys seal".into()),
    }
}

/// A message of one byte on `channel`.
fn message(channel: ChannelId) -> Vec<u8> {
    fragment(FIRST | END, &[channel.0.into(), 0], &[7])
}

pub(super) fn impostor(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::new(setting)?;
    let (victim, makes) = (victim()?, handshakes()?);
    let at = victim.local_addr();
    // In its own name it comes in.
    Rogue::connect_with(at, MEMBER.0, Some(&makes), LIMIT)?;
    for _ in 0..3 {
        let posing = Rogue::connect_with(at, HONEST.0, Some(&makes), PATIENCE);
        scene.hostile += 1;
        ensure(posing.is_err(), || "a member came in as another".into())?;
        scene.exchange(5)?;
    }
    let peers = victim.peers().map_err(text)?;
    let known = peers.iter().any(|peer| peer.node == HONEST);
    ensure(!known, || "the victim keeps state for the impostor".into())?;
    scene.finish()
}

pub(super) fn denied_layer(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::new(setting)?;
    let (victim, makes) = (victim()?, handshakes()?);
    let mut rogue = Rogue::connect_with(victim.local_addr(), MEMBER.0, Some(&makes), LIMIT)?;
    rogue.send(&message(ChannelId(0)))?;
    let taken = victim.recv_timeout(LIMIT).map_err(text)?;
    ensure(taken.is_some(), || {
        "a permitted message is not taken".into()
    })?;
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        rogue.send(&message(ChannelId::of_sockets(1)))?;
        scene.hostile += 1;
        scene.exchange(1)?;
        let events = victim.events().map_err(text)?;
        let is_breach = |event: &Event| {
            let reason =
                EndReason::Protocol(suci::ProtocolError::NotPermitted(suci::Layer::Sockets));
            matches!(event, Event::Ended { reason: why, .. } if *why == reason)
        };
        if events.iter().any(is_breach) {
            return scene.finish();
        }
    }
    Err("the member uses a layer that is denied to it".into())
}
