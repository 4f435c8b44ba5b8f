//! Helpers for commands that open a node.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use suci::{
    AddressBook, ChannelId, Config, EndReason, Error, Event, MessageNumber, Node, NodeBuilder,
    NodeId, PeerInfo, Warning,
};

use crate::args::{NodeArgs, Target};
use crate::error::{Context, Failure, Result, tell};

/// IDs of listeners: one per command, so that a caller learns when it reached another one.
pub(crate) const CAT: NodeId = NodeId(1);
pub(crate) const PING: NodeId = NodeId(2);
/// Servers of measurements count up from here.
pub(crate) const PERF: NodeId = NodeId(16);

/// How long a command waits at its end until its messages are acknowledged.
pub(crate) const CLOSING: Duration = Duration::from_secs(10);

/// The shortest silence that a node's settings allow to count as such.
const SHORTEST_SILENCE: Duration = Duration::from_millis(100);

/// Returns a node's settings from the options that all commands share.
pub(crate) fn builder(args: &NodeArgs) -> NodeBuilder {
    let mut builder = Node::builder();
    if args.plain {
        builder = builder.allow_insecure_network();
    }
    if let Some(file) = &args.key_file {
        builder = builder.key_file(file);
    }
    if let Some(faults) = args.faults {
        builder = builder.faults(faults);
    }
    if let Some(address) = args.metrics {
        builder = builder.metrics(address);
    }
    builder
}

/// Settings of a node that listens at `address` for any node, whatever the environment says.
pub(crate) fn listener(args: &NodeArgs, id: NodeId, address: SocketAddr) -> Result<NodeBuilder> {
    refuse_node_keys(args)?;
    let builder = builder(args)
        .id(id)
        .listen(address)
        .book(AddressBook::new());
    Ok(builder.accept(suci::AcceptPolicy::Anyone))
}

/// Refuses keys of nodes for a command whose caller takes an ID at random: no file of public keys
/// has a line for it.
fn refuse_node_keys(args: &NodeArgs) -> Result<()> {
    const NAME: &str = suci::env::NODE_KEY_FILE;
    let Some(file) = std::env::var_os(NAME).filter(|_| args.key_file.is_none()) else {
        return Ok(());
    };
    let problem = match file.to_string_lossy().trim().is_empty() {
        true => "it names no file: name one, or unset the variable",
        false => {
            "callers of an address have no ID to which the key of a node could belong: name a cluster's key \
             (--key-file), or give each node its ID (suci run; suci ping --book FILE --id N)"
        }
    };
    Err(Failure::new(format!(
        "{NAME}={}: {problem}",
        file.display()
    )))
}

/// Settings of a node with an ID of its own that calls `address`.
pub(crate) fn caller(args: &NodeArgs, address: SocketAddr) -> Result<NodeBuilder> {
    check_security(args, address)?;
    // A raw backend needs one interface: that by which packets to `address` leave.
    let local = match std::env::var_os(suci::env::BACKEND) {
        Some(_) => source_towards(address)?,
        None => local_for(address.ip()),
    };
    Ok(builder(args)
        .id(someone())
        .listen(SocketAddr::new(local, 0))
        .book(AddressBook::new()))
}

/// How long one of several addresses of a name may take to answer before the next one is tried. A
/// peer that is there answers in a few round trips.
const TURN: Duration = Duration::from_secs(1);

/// The pause after all addresses of a name were tried in vain.
const PAUSE: Duration = Duration::from_millis(50);

/// Tries the addresses of a host in turn until `call` returns a result for one of them. `call` gets
/// an address and the time until which it may wait for an answer; it returns nothing if none came.
/// Returns nothing after `limit`. Time for which this process stood still between two calls does
/// not count.
///
/// One socket seldom reaches addresses of both families, so each has a node of its own.
///
/// # Errors
/// The first one of the last round, if `call` failed for each address or the time is over.
pub(crate) fn in_turn<T>(
    target: &Target,
    limit: Duration,
    mut call: impl FnMut(SocketAddr, Instant) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let mut left = limit;
    let several = target.addresses().len() > 1;
    loop {
        let (mut first, mut failed) = (None, 0);
        for &address in target.addresses() {
            let turn = if several { left.min(TURN) } else { left };
            let begun = Instant::now();
            let called = call(address, begun + turn);
            left = left.saturating_sub(begun.elapsed().min(turn));
            match called {
                Ok(Some(done)) => return Ok(Some(done)),
                Ok(None) => {}
                Err(failure) => {
                    failed += 1;
                    first = first.or(Some(failure));
                }
            }
        }
        match first {
            Some(failure) if failed == target.addresses().len() || left.is_zero() => {
                return Err(failure);
            }
            _ if left.is_zero() => return Ok(None),
            _ => {
                std::thread::sleep(PAUSE);
                left = left.saturating_sub(PAUSE);
            }
        }
    }
}

/// A message that waits for the program's answer: its sender, channel and number.
pub(crate) type Announced = (NodeId, ChannelId, MessageNumber);

/// Why commands refuse such a message: none of them sends any.
pub(crate) const UNASKED: u64 = 1;

/// Returns the message that waits for an answer, as `error` says. A command that listens refuses it
/// and goes on: any caller can announce one.
pub(crate) fn announced(error: Error) -> Result<Announced, Error> {
    match error {
        Error::NeedsAnswer {
            from,
            channel,
            number,
            ..
        } => Ok((from, channel, number)),
        error => Err(error),
    }
}

/// Returns the message that `event` announces.
pub(crate) fn announced_by(event: &Event) -> Option<Announced> {
    match *event {
        Event::Incoming {
            node,
            channel,
            number,
            ..
        } => Some((node, channel, number)),
        _ => None,
    }
}

/// Returns true if the node itself failed, and not its dealings with one peer.
pub(crate) fn is_of_node(error: &Error) -> bool {
    matches!(
        error,
        Error::Closed | Error::Forked | Error::OwnThread | Error::ThreadGone(_) | Error::Io { .. }
    )
}

/// Returns true if no process has the port of the node `peer`.
pub(crate) fn is_absent(peers: &[PeerInfo], peer: NodeId) -> bool {
    peers.iter().any(|info| info.node == peer && info.absent)
}

/// Returns a clause about a peer at one of these addresses that does not answer, if its port is
/// closed or no route leads there.
pub(crate) fn known_of_silence(is_absent: bool, addresses: &[SocketAddr]) -> String {
    if is_absent {
        return "its port is closed; ".to_owned();
    }
    let failures: Vec<_> = addresses
        .iter()
        .filter_map(|address| source_towards(*address).err())
        .collect();
    match failures.first() {
        Some(failure) if failures.len() == addresses.len() => {
            format!("this host has no way there ({failure}); ")
        }
        _ => String::new(),
    }
}

/// Refuses a plain node beyond loopback that nobody asked for, and keys of nodes. Here rather than
/// when binding, so that the error names the address that was typed.
pub(crate) fn check_security(args: &NodeArgs, address: SocketAddr) -> Result<()> {
    refuse_node_keys(args)?;
    let sealed = args.key_file.is_some() || std::env::var_os(suci::env::KEY_FILE).is_some();
    if !args.plain && !sealed && !address.ip().to_canonical().is_loopback() {
        return Err(suci::Error::PlainOnNetwork { address }.into());
    }
    Ok(())
}

/// Returns a local address that reaches `remote`.
pub(crate) fn local_for(remote: IpAddr) -> IpAddr {
    match (remote.is_loopback(), remote) {
        (true, IpAddr::V4(_)) => Ipv4Addr::LOCALHOST.into(),
        (true, IpAddr::V6(_)) => Ipv6Addr::LOCALHOST.into(),
        (false, IpAddr::V4(_)) => Ipv4Addr::UNSPECIFIED.into(),
        (false, IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// Returns the address of this host from which the system sends packets to `remote`.
fn source_towards(remote: SocketAddr) -> Result<IpAddr> {
    // Sends nothing.
    let asked = UdpSocket::bind((local_for(remote.ip()), 0)).and_then(|socket| {
        socket.connect(remote)?;
        socket.local_addr()
    });
    Ok(asked.context(remote)?.ip())
}

/// Returns an ID that no listener has, and hardly any other caller.
pub(crate) fn someone() -> NodeId {
    let [a, b, c, d, ..] = RandomState::new().build_hasher().finish().to_le_bytes();
    NodeId(u32::from_le_bytes([a, b, c, d]) | 1 << 31)
}

/// Ends a session when its peer was silent for this long, even while nothing is outstanding.
pub(crate) fn watch(config: &mut Config, give_up_after: Duration) {
    // A peer must become lost before it is given up.
    config.silence_timeout = config
        .silence_timeout
        .min(give_up_after)
        .max(SHORTEST_SILENCE);
    config.give_up_after = give_up_after.max(config.silence_timeout);
    config.keep_alive = true;
}

/// Warns of a setting of the system that keeps a node from working well.
pub(crate) fn warn(command: &str, warning: Option<Warning>) {
    if let Some(warning) = warning {
        tell(format_args!("suci {command}: {warning}"));
    }
}

/// Returns an end of a session, as a person says it.
pub(crate) fn ended(reason: EndReason) -> String {
    match reason {
        EndReason::Closed => "it closed the connection".to_owned(),
        EndReason::CutShort { missing } => {
            format!("it closed the connection before {missing} of its messages had arrived")
        }
        EndReason::ClosedHere => "the connection was closed here".to_owned(),
        EndReason::Restarted => "its process was started anew".to_owned(),
        EndReason::Reset => "it was given up here".to_owned(),
        EndReason::PeerEnded => "it gave the connection up".to_owned(),
        EndReason::ProcessDied => "its process has ended".to_owned(),
        EndReason::Silent => "nothing was heard from it any more".to_owned(),
        EndReason::Revoked => "its key was taken out here, or it may use less".to_owned(),
        EndReason::RevokedThere => {
            "this node's key was taken out there, or this node may use less".to_owned()
        }
        EndReason::Protocol(error) => format!("it broke the protocol: {error:?}"),
        EndReason::PeerProtocol(code) => {
            format!("it says that we broke the protocol (code {code})")
        }
    }
}
