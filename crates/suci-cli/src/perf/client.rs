//! The side that measures.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use suci::{Bytes, Node, NodeBuilder, NodeId};

use super::control::{self, Account, Contender, Control, Entrant, Reply, Request, Round};
use super::plot::Plot;
use super::report::{self, Report, Series};
use super::suci_wire::{self, Suci};
use super::tcp::Tcp;
use super::udp::Udp;
use super::{fan, mix, usage, work};
use crate::args::{PerfArgs, Prefer, Rival, Target, Waiting, Workload};
use crate::error::{Context, Failure, Result, tell};
use crate::node::{self, PERF};

/// Before the first round of a series each contender runs unmeasured for this long, to open windows
/// and warm caches.
const WARM_UP: Duration = Duration::from_millis(100);

/// Addresses of the servers.
pub(super) enum Servers<'a> {
    /// Named on the command line.
    Network(&'a [Target]),
    /// Started together with this process.
    Launched(&'a [(NodeId, SocketAddr)]),
}

/// Measures everything that was asked for.
pub(super) fn run(args: &PerfArgs, to: Servers<'_>) -> Result<()> {
    let plot = args.plot.as_deref().map(Plot::begin).transpose()?;
    let mut client = Client::new(args, to)?;
    let entrants = entrants(args);
    if entrants.iter().any(|e| e.contender == Contender::Tcp) {
        client.connect_tcp()?;
    }
    let mut report = Report::new(args.json, args.profile);
    'all: for workload in workloads(args, client.servers.len()) {
        let named: Vec<usize> = args.size.iter().flat_map(|s| s.0.clone()).collect();
        let sizes = if named.is_empty() {
            vec![default_size(workload)]
        } else {
            named
        };
        for size in sizes {
            for series in client.series(args, workload, size, &entrants)? {
                let is_read = report.print(&series)?;
                // The picture needs the rest.
                if !is_read && plot.is_none() {
                    break 'all;
                }
            }
        }
    }
    client.close()?;
    plot.map_or(Ok(()), |plot| plot.finish(report.rows()))
}

fn entrants(args: &PerfArgs) -> Vec<Entrant> {
    let suci = |prefer| Entrant {
        contender: Contender::Suci,
        prefer,
    };
    let mut entrants: Vec<_> = args.prefer.iter().copied().map(Some).map(suci).collect();
    if entrants.is_empty() {
        entrants.push(suci(None));
    }
    for rival in &args.vs {
        let contender = match rival {
            Rival::Tcp => Contender::Tcp,
            Rival::Udp => Contender::Udp,
        };
        let entrant = Entrant {
            contender,
            prefer: None,
        };
        if !entrants.contains(&entrant) {
            entrants.push(entrant);
        }
    }
    entrants
}

fn workloads(args: &PerfArgs, servers: usize) -> Vec<Workload> {
    if !args.workload.is_empty() {
        return args.workload.clone();
    }
    let mut all = vec![
        Workload::PingPong,
        Workload::Stream,
        Workload::StreamBatch,
        Workload::Rate,
        Workload::RateBatch,
        Workload::Mix,
        Workload::MixBatch,
    ];
    if servers > 1 {
        all.extend([
            Workload::Broadcast,
            Workload::NData,
            Workload::NDataBatch,
            Workload::AllToAll,
            Workload::AllToAllBatch,
        ]);
    }
    all
}

fn default_size(workload: Workload) -> usize {
    match workload {
        Workload::PingPong => 64,
        Workload::Stream | Workload::Broadcast => 1 << 20,
        // Such messages never fit one packet, and are worth collecting.
        Workload::StreamBatch => 1_472,
        Workload::NData | Workload::NDataBatch | Workload::AllToAll | Workload::AllToAllBatch => {
            1_024
        }
        Workload::Rate | Workload::RateBatch => 32,
        Workload::Mix | Workload::MixBatch => mix::LONGEST,
    }
}

struct Server {
    control: Control,
    id: NodeId,
    address: SocketAddr,
    tcp: Option<Tcp>,
}

struct Client {
    node: Node,
    servers: Vec<Server>,
    wait: Waiting,
    /// Messages to each server before it answers, where all do.
    data: usize,
}

/// Opens the control connections to servers that were named on the command line.
fn call_named(args: &PerfArgs, targets: &[Target], appear: Duration) -> Result<Vec<Control>> {
    let addresses = targets.iter().flat_map(Target::addresses);
    for address in addresses {
        node::check_security(&args.node, *address)?;
    }
    let call = |target: &Target| Control::call(target.addresses(), appear);
    targets.iter().map(call).collect()
}

impl Client {
    fn new(args: &PerfArgs, to: Servers<'_>) -> Result<Self> {
        let pins = args.pin.as_ref().map_or(&[][..], |pin| pin.0.as_slice());
        if let Some(processor) = pins.first() {
            usage::pin(*processor)?;
        }
        let wait = suci_wire::wait(args.wait);
        let appear = match to {
            Servers::Launched(_) => control::APPEAR,
            Servers::Network(_) => control::APPEAR_NAMED,
        };
        let payload_checksum = !args.no_payload_checksum;
        let open = |builder: NodeBuilder| {
            let builder = builder.wait(wait).payload_checksum(payload_checksum);
            builder.open()
        };
        let mut controls = Vec::new();
        let (node, known) = match to {
            Servers::Launched(known) => {
                for (_, address) in known {
                    controls.push(Control::call(&[*address], appear)?);
                }
                (open(node::builder(&args.node))?, known.to_vec())
            }
            Servers::Network(targets) => {
                controls = call_named(args, targets, appear)?;
                // Of several addresses of a name, that which answered.
                let addresses = controls.iter().map(Control::peer);
                let known: Vec<_> = (PERF.0..).map(NodeId).zip(addresses).collect();
                let first = known.first();
                let (_, first) =
                    first.ok_or_else(|| Failure::new("no server: name its address"))?;
                let mut node = open(node::caller(&args.node, *first)?)?;
                for (id, address) in &known {
                    node.add_peer(*id, *address)?;
                }
                (node, known)
            }
        };
        node::warn("perf", node.warning());
        let mut servers = Vec::new();
        for ((number, &(id, address)), mut control) in (1..).zip(&known).zip(controls) {
            let caller = node.id().0;
            let others = known.iter().filter(|(other, _)| *other != id);
            control.say(&Request::Hello {
                node: id.0,
                caller,
                wait: args.wait,
                pin: pins.get(number).or(pins.last()).copied(),
                payload_checksum,
                others: others.map(|(id, address)| (id.0, *address)).collect(),
            })?;
            expect_ready(&mut control)?;
            servers.push(Server {
                control,
                id,
                address,
                tcp: None,
            });
        }
        control::watch(servers.iter().map(|it: &Server| &it.control))?;
        Ok(Self {
            node,
            servers,
            wait: args.wait,
            data: usize::try_from(args.data).unwrap_or(usize::MAX),
        })
    }

    fn connect_tcp(&mut self) -> Result<()> {
        for server in &mut self.servers {
            let stream = TcpStream::connect(server.address)
                .context(format_args!("TCP {}", server.address))?;
            server.control.say(&Request::Tcp)?;
            expect_ready(&mut server.control)?;
            server.tcp = Some(Tcp::new(stream, self.wait)?);
        }
        Ok(())
    }

    /// Returns the number of servers that take part.
    fn receivers(&self, workload: Workload) -> usize {
        match workload.is_to_all() {
            true => self.servers.len(),
            false => 1,
        }
    }

    /// Runs all rounds of one workload and size, with one series for each contender that can take
    /// part.
    fn series(
        &mut self,
        args: &PerfArgs,
        workload: Workload,
        size: usize,
        entrants: &[Entrant],
    ) -> Result<Vec<Series>> {
        let payload = work::payload(work::longest(workload, size));
        let receivers = self.receivers(workload);
        let mut all = Vec::new();
        for &entrant in entrants {
            if entrant.contender != Contender::Suci && workload.is_of_all() {
                tell(format_args!(
                    "suci perf: no {} by {}: its servers do not know one another",
                    report::name(workload),
                    entrant.contender.name()
                ));
                continue;
            }
            if entrant.contender == Contender::Udp && !self.udp_can(workload, size)? {
                tell(format_args!(
                    "suci perf: no {} of {size} B by raw UDP: one datagram each, and nothing is sent again",
                    report::name(workload)
                ));
                continue;
            }
            let warm_up = WARM_UP.min(args.seconds);
            self.round(entrant, workload, &payload, warm_up)?;
            all.push(Series::new(workload, entrant, size, receivers));
        }
        for round in 0..args.rounds {
            let count = all.len();
            for turn in 0..count {
                // The order alternates: the last contender of one round is the first of the next,
                // so that none always follows another.
                let at = if round % 2 == 0 {
                    turn
                } else {
                    count - 1 - turn
                };
                let Some(series) = all.get_mut(at) else {
                    continue;
                };
                let (client, server) =
                    self.round(series.entrant, workload, &payload, args.seconds)?;
                series.add(&client, &server);
            }
        }
        Ok(all)
    }

    /// Returns whether raw UDP can take part: a client that waits for an answer must know that the
    /// server got the whole question, and every question.
    fn udp_can(&self, workload: Workload, size: usize) -> Result<bool> {
        match workload {
            Workload::PingPong => {}
            _ => return Ok(!workload.is_mix() && !workload.is_answered_by_all()),
        }
        let Some(server) = self.servers.first() else {
            return Ok(false);
        };
        let wire = Udp::new(Udp::bind(server.address)?, server.address, self.wait)?;
        Ok(size <= wire.room())
    }

    /// Runs one turn of one contender. Returns the counts of this side and of all servers together.
    fn round(
        &mut self,
        entrant: Entrant,
        workload: Workload,
        payload: &Bytes,
        time: Duration,
    ) -> Result<(Account, Account)> {
        let contender = entrant.contender;
        let receivers = self.receivers(workload);
        let mut sockets = Vec::new();
        for server in self.servers.iter_mut().take(receivers) {
            if contender == Contender::Suci {
                let peer = self.node.peer(server.id);
                let mode = entrant.prefer.unwrap_or(Prefer::Adaptive).into();
                peer.configure(move |options| options.mode = mode)?;
            }
            let (size, data) = (payload.len(), self.data);
            sockets.extend(begin(server, entrant, workload, size, data, self.wait)?);
        }
        let half = match contender {
            Contender::Suci => self.suci_half(workload, payload, time),
            Contender::Tcp => {
                let wires = self
                    .servers
                    .iter_mut()
                    .take(receivers)
                    .filter_map(|server| server.tcp.as_mut());
                match workload.is_answered_by_all() {
                    true => fan::n_data_by(wires, workload, payload, self.data, time),
                    false => fan::out(wires, workload, payload, time),
                }
            }
            Contender::Udp => fan::out(sockets.iter_mut(), workload, payload, time),
        };
        let mut account = half.map_err(|failure| self.reason(failure))?;
        let mut theirs = Account::default();
        for server in self.servers.iter_mut().take(receivers) {
            fan::add(&mut theirs, &finish(server)?);
        }
        // Where all send to all, each has sent and received as much as the client.
        let senders = if workload.is_of_all() { receivers } else { 1 };
        let sent = account.bytes.saturating_mul(fan::count([senders]));
        if contender != Contender::Udp && theirs.bytes != sent {
            let (arrived, name) = (theirs.bytes, contender.name());
            return Err(Failure::new(format!(
                "{name}: {arrived} bytes arrived of {sent}: report this as a bug"
            )));
        }
        if workload.is_of_all() {
            account.messages = account.messages.saturating_add(theirs.messages);
            account.bytes = account.bytes.saturating_add(theirs.bytes);
        }
        Ok((account, theirs))
    }

    /// Returns the reason that a server gave before it ended, or `failure`: other failures follow
    /// if a server is gone.
    fn reason(&mut self, failure: Failure) -> Failure {
        // The connections of a killed server end one after the other.
        std::thread::sleep(Duration::from_millis(50));
        let mut servers = self.servers.iter_mut();
        match servers.find(|server| server.control.has_hung_up()) {
            Some(server) => server.control.reply().err().unwrap_or(failure),
            None => failure,
        }
    }

    fn suci_half(
        &mut self,
        workload: Workload,
        payload: &Bytes,
        time: Duration,
    ) -> Result<Account> {
        let peers: Vec<NodeId> = self.servers.iter().map(|server| server.id).collect();
        match (workload, peers.first()) {
            (Workload::Broadcast, _) => fan::broadcast(&mut self.node, &peers, payload, time),
            (_, _) if workload.is_of_all() => {
                let until = fan::Until::Passed(time);
                fan::exchange(&mut self.node, &peers, until, workload, payload, self.data)
            }
            (_, _) if workload.is_answered_by_all() => {
                fan::n_data(&mut self.node, &peers, workload, payload, self.data, time)
            }
            (_, Some(&peer)) => work::client(
                &mut Suci::new(&mut self.node, peer),
                workload,
                payload,
                time,
            ),
            (_, None) => Err(Failure::new("no server: name its address")),
        }
    }

    fn close(mut self) -> Result<()> {
        // Servers close their nodes when their control connection ends.
        self.servers.clear();
        control::watch(std::iter::empty())?;
        Ok(self.node.close(node::CLOSING)?)
    }
}

fn expect_ready(control: &mut Control) -> Result<()> {
    match control.reply()? {
        Reply::Ready => Ok(()),
        other => Err(control.unexpected(&other)),
    }
}

/// Asks for a round; a socket for raw UDP comes of it.
fn begin(
    server: &mut Server,
    entrant: Entrant,
    workload: Workload,
    size: usize,
    data: usize,
    wait: Waiting,
) -> Result<Option<Udp>> {
    let Entrant { contender, prefer } = entrant;
    let socket = match contender {
        Contender::Udp => Some(Udp::bind(server.address)?),
        Contender::Suci | Contender::Tcp => None,
    };
    let port = |socket: &std::net::UdpSocket| socket.local_addr().map(|address| address.port());
    let udp_port = socket
        .as_ref()
        .map(port)
        .transpose()
        .context("a raw UDP socket")?;
    server.control.say(&Request::Round(Round {
        contender,
        workload,
        prefer: prefer.unwrap_or(Prefer::Adaptive),
        size,
        data,
        udp_port,
    }))?;
    match (server.control.reply()?, socket) {
        (
            Reply::Go {
                udp_port: Some(port),
            },
            Some(socket),
        ) => Udp::new(socket, SocketAddr::new(server.address.ip(), port), wait).map(Some),
        (Reply::Go { udp_port: None }, None) => Ok(None),
        (other, _) => Err(server.control.unexpected(&other)),
    }
}

fn finish(server: &mut Server) -> Result<Account> {
    match server.control.reply()? {
        Reply::Done(account) => Ok(account),
        other => Err(server.control.unexpected(&other)),
    }
}
