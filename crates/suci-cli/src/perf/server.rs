//! The side that is measured against.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

use suci::{AcceptPolicy, AddressBook, Node, NodeBuilder, NodeId};

use super::control::{Contender, Control, PATIENCE, Reply, Request, Round};
use super::suci_wire::{self, Suci};
use super::tcp::Tcp;
use super::udp::Udp;
use super::{fan, usage, work};
use crate::args::{PerfArgs, Prefer, Waiting};
use crate::error::{Context, Failure, Result, tell};
use crate::node;

/// Serves one client after the other, until interrupted.
pub(super) fn listen(args: &PerfArgs, address: SocketAddr) -> Result<()> {
    let listener = bind(address)?;
    let address = listener.local_addr().context("the listening socket")?;
    // Every measurement opens the UDP port anew: that it is taken should not be the first client's
    // news.
    drop(UdpSocket::bind(address).context(format_args!("UDP port of {address} ({IN_USE})"))?);
    node::check_security(&args.node, address)?;
    tell(format_args!(
        "suci perf: serving at {address} (UDP and TCP); Ctrl-C ends it"
    ));
    loop {
        let open = |id| {
            node::builder(&args.node)
                .id(id)
                .listen(address)
                .book(AddressBook::new())
        };
        if let Err(failure) = serve(&listener, open) {
            tell(format_args!(
                "suci perf: a measurement was broken off: {failure}"
            ));
        }
    }
}

/// Serves the node 0 of a launch.
pub(super) fn launched(args: &PerfArgs, address: SocketAddr) -> Result<()> {
    let listener = bind(address)?;
    // The environment says which ID, book and socket.
    serve(&listener, |_| node::builder(&args.node))
}

fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).context(format_args!("TCP port of {address} ({IN_USE})"))
}

const IN_USE: &str =
    "stop whatever uses the port, or name an address of this machine and a free port";

/// Serves one client.
fn serve(listener: &TcpListener, open: impl Fn(NodeId) -> NodeBuilder) -> Result<()> {
    let (stream, _) = listener.accept().context("waiting for a client")?;
    let mut control = Control::over(stream)?;
    let done = Session::begin(listener, &mut control, open).and_then(|session| match session {
        Some(mut session) => session.rounds(listener, &mut control),
        None => Ok(()),
    });
    if let Err(failure) = &done {
        // If the client is gone, it cannot hear the reply; that needs no further report.
        let _ = control.say(&Reply::Failed(failure.to_string()));
    }
    done
}

/// The settings and sockets of one client's session.
struct Session {
    node: Node,
    caller: NodeId,
    /// The caller and its other servers.
    peers: Vec<NodeId>,
    wait: Waiting,
    tcp: Option<Tcp>,
}

impl Session {
    fn begin(
        listener: &TcpListener,
        control: &mut Control,
        open: impl Fn(NodeId) -> NodeBuilder,
    ) -> Result<Option<Self>> {
        let (id, caller, wait, pin, payload_checksum, others) = match control
            .hear(Some(PATIENCE))?
        {
            Some(Request::Hello {
                node,
                caller,
                wait,
                pin,
                payload_checksum,
                others,
            }) => (
                NodeId(node),
                NodeId(caller),
                wait,
                pin,
                payload_checksum,
                others,
            ),
            Some(other) => return Err(Failure::new(format!("the client began with {other:?}"))),
            None => return Ok(None),
        };
        if let Some(processor) = pin {
            usage::pin(processor)?;
        }
        let mut node = open(id)
            .accept(AcceptPolicy::Anyone)
            .wait(suci_wire::wait(wait))
            .payload_checksum(payload_checksum)
            .open()?;
        node::warn("perf", node.warning());
        let (udp, tcp) = (
            node.local_addr(),
            listener.local_addr().context("the listening socket")?,
        );
        if udp != tcp {
            return Err(Failure::new(format!(
                "UDP at {udp} but TCP at {tcp}: name one address for both"
            )));
        }
        let mut peers = vec![caller];
        for (other, address) in others {
            node.add_peer(NodeId(other), address)?;
            peers.push(NodeId(other));
        }
        control.say(&Reply::Ready)?;
        Ok(Some(Self {
            node,
            caller,
            peers,
            wait,
            tcp: None,
        }))
    }

    fn rounds(&mut self, listener: &TcpListener, control: &mut Control) -> Result<()> {
        while let Some(request) = control.hear(None)? {
            match request {
                Request::Hello { .. } => return Err(Failure::new("the client began twice")),
                Request::Tcp => {
                    self.tcp = Some(Tcp::new(data_connection(listener, control)?, self.wait)?);
                    control.say(&Reply::Ready)?;
                }
                Request::Round(round) => self.round(control, &round)?,
            }
        }
        // The client has hung up: it is through, and closes its node by itself.
        let _ = self.node.close(node::CLOSING);
        Ok(())
    }

    fn round(&mut self, control: &mut Control, round: &Round) -> Result<()> {
        if round.size > crate::args::MAX_SIZE {
            return Err(Failure::new(format!(
                "{} bytes were asked for, more than is possible",
                round.size
            )));
        }
        let most = usize::try_from(crate::args::MAX_DATA).unwrap_or(usize::MAX);
        if !(1..=most).contains(&round.data) {
            return Err(Failure::new(format!(
                "{} messages before an answer were asked for: 1 to {most} are possible",
                round.data
            )));
        }
        let payload = work::payload(work::longest(round.workload, round.size));
        let account = match round.contender {
            Contender::Suci => {
                self.prefer(round.prefer)?;
                control.say(&Reply::Go { udp_port: None })?;
                if round.workload.is_of_all() {
                    let (until, data) = (fan::Until::Told(self.caller), round.data);
                    let Self { node, peers, .. } = self;
                    fan::exchange(node, peers, until, round.workload, &payload, data)?
                } else {
                    let mut wire = Suci::new(&mut self.node, self.caller);
                    work::server(&mut wire, round.workload, &payload, control)?
                }
            }
            Contender::Tcp => {
                control.say(&Reply::Go { udp_port: None })?;
                let wire = self
                    .tcp
                    .as_mut()
                    .ok_or_else(|| Failure::new("a TCP round without a connection"))?;
                work::server(wire, round.workload, &payload, control)?
            }
            Contender::Udp => {
                let mut wire = self.udp(control, round)?;
                work::server(&mut wire, round.workload, &payload, control)?
            }
        };
        control.say(&Reply::Done(account))
    }

    /// Sets the mode of traffic to the caller. A caller that did not connect yet gets it in the
    /// next round: the first one only warms up.
    fn prefer(&mut self, prefer: Prefer) -> Result<()> {
        let peer = self.node.peer(self.caller);
        let mode = prefer.into();
        match peer.configure(move |options| options.mode = mode) {
            Err(suci::Error::UnknownPeer(_)) => Ok(()),
            configured => Ok(configured?),
        }
    }

    fn udp(&self, control: &mut Control, round: &Round) -> Result<Udp> {
        let port = round
            .udp_port
            .ok_or_else(|| Failure::new("a UDP round without a port"))?;
        let remote = SocketAddr::new(control.peer().ip(), port);
        let socket: UdpSocket = Udp::bind(remote)?;
        let own = socket.local_addr().context("a raw UDP socket")?.port();
        let wire = Udp::new(socket, remote, self.wait)?;
        control.say(&Reply::Go {
            udp_port: Some(own),
        })?;
        Ok(wire)
    }
}

/// Returns the client's second connection, which waits already.
fn data_connection(listener: &TcpListener, control: &Control) -> Result<TcpStream> {
    let (stream, peer) = listener
        .accept()
        .context("waiting for the client's second connection")?;
    if peer.ip() == control.peer().ip() {
        Ok(stream)
    } else {
        Err(Failure::new(format!(
            "{peer} called during a measurement: one client at a time"
        )))
    }
}
