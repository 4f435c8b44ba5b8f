//! The builder, which starts a node from settings.

use crate::backend::BackendKind;
use crate::book::AddressBook;
use crate::budget::Budget;
use crate::clock::Clock;
use crate::driver::{Driver, MembershipPart, Publishers, RoutesPart, no_descriptor};
use crate::env;
use crate::error::{Error, bind_error};
use crate::fork::OriginalProcess;
use crate::job;
use crate::launcher::Launcher;
use crate::log;
use crate::matching::MatchingState;
use crate::membership::{self, Membership, OwnMembership};
use crate::metrics::Responder;
use crate::names::Names;
use crate::node::Node;
use crate::opened::{Fixed, Opened};
use crate::placement::Places;
use crate::reach::{check_exposure, check_listen, in_book, own_addresses, reachable};
use crate::security::{
    KeyChanges, KeyFile, KeySource, Keyring, NodeFiles, NodeKey, PublicKeys, PublicKeysFile,
    SharedKeys,
};
use crate::shared::{SharedNode, owner};
use crate::shared_memory::SharedMemory;
use crate::statistics::{NoFile, NodeInfo, Publisher, StatFile};
use crate::sys;
use crate::wait::WaitPolicy;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use suci_layers::group::ShrunkNumbers;
use suci_layers::membership::{Membership as Member, SharedMembership};
use suci_layers::remote::Regions;
use suci_layers::routes::{Behind, Router, RouterSettings, Routes, SharedRouter};
use suci_net::Backend;
use suci_net::fault::FaultSpec;
use suci_net::udp::{Udp, UdpOptions};
use suci_proto::types::{Incarnation, NodeId};
use suci_proto::wire::Mode;
use suci_proto::{
    AcceptPolicy, Config, ConfigError, ControllerChoice, Engine, Identity, PlacedBy, Ports,
};

/// Address at which a node listens if neither an address nor a book entry is given: a port that the
/// system chooses.
const ANYWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Peers are told apart by one byte.
const MOST_THREADS: usize = 256;

/// Memory that an engine needs.
const LEAST_MEMORY: u64 = 1 << 20;

/// Settings of a node to be opened. Every setting has a default. Missing ones are looked up in the
/// environment that `suci run` makes (`SUCI_ID`, `SUCI_BOOK`, `SUCI_FD`, `SUCI_NOTICES`), and asked
/// of other launchers ([`Node::from_env`]).
#[derive(Clone, Debug, Default)]
pub struct NodeBuilder {
    id: Option<NodeId>,
    listen: Option<SocketAddr>,
    book: Option<AddressBook>,
    book_file: Option<PathBuf>,
    config: Config,
    allow_insecure_network: bool,
    keys: Option<KeySource>,
    faults: Option<FaultSpec>,
    backend: Option<BackendKind>,
    udp: UdpOptions,
    wait: WaitPolicy,
    no_statistics: bool,
    metrics: Option<SocketAddr>,
    membership: Option<Membership>,
    shared_memory: Option<bool>,
    forward: bool,
    ignores_supervision: bool,
}

impl NodeBuilder {
    /// This node's ID, unique in the cluster. Default: `SUCI_ID`, or the rank under another
    /// launcher.
    #[must_use]
    pub fn id(mut self, id: NodeId) -> Self {
        self.id = Some(id);
        self
    }

    /// The local address. Default: the book's entry for this node; without a book, or with one from
    /// the environment that does not have the node, a port of 127.0.0.1 that the system chooses. A
    /// book that the program named, even an empty one, must have the node, or an address must be
    /// named here ([`Error::NotInBook`] otherwise): port 0 lets the system choose.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = Some(address);
        self
    }

    /// The address book. It needs no entry of this node if [`listen`](Self::listen) names the
    /// address. Default: `SUCI_BOOK`, which must have this node if its ID is that of `SUCI_ID`;
    /// else empty.
    #[must_use]
    pub fn book(mut self, book: AddressBook) -> Self {
        self.book = Some(book);
        self
    }

    /// The address book, to be read from this file by `open`.
    #[must_use]
    pub fn book_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.book_file = Some(path.into());
        self
    }

    /// Sets which nodes may open a session with this node. Default: only nodes of the book.
    #[must_use]
    pub fn accept(mut self, policy: AcceptPolicy) -> Self {
        self.config.accept = policy;
        self
    }

    /// Seals all packets under the cluster's key, or under one of two keys: the node talks only to
    /// nodes that have one of them ([`security`](crate::security)). Of several calls that name keys
    /// the last one counts. Default: the keys of [`key_file`](Self::key_file).
    #[must_use]
    pub fn cluster_key(mut self, keys: impl Into<Keyring>) -> Self {
        self.keys = Some(KeySource::Cluster(keys.into()));
        self
    }

    /// Seals all packets under the keys of this file, which `open` reads. The node notices within
    /// some seconds that the file changed; keep it on a local disk, since each check is a system
    /// call of the thread that serves the node. Default: the file that `SUCI_KEY_FILE` names;
    /// without it the node is plain, and listens on loopback only.
    #[must_use]
    pub fn key_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.keys = Some(KeySource::ClusterFile(KeyFile::new(path)));
        self
    }

    /// Seals all packets under the node's own key: the node talks only to nodes whose keys are
    /// among the public ones, and none of them can pose as another ([`security`](crate::security)).
    /// They must hold this node's key, too.
    #[must_use]
    pub fn node_keys(mut self, own: impl Into<Keyring<NodeKey>>, public: PublicKeys) -> Self {
        self.keys = Some(KeySource::Node(own.into(), public));
        self
    }

    /// As [`node_keys`](Self::node_keys), with the keys of two files, which `open` reads: the
    /// node's own key, and the public keys of all nodes. The node notices within some seconds that
    /// one changed. Default: the files that `SUCI_NODE_KEY_FILE` and `SUCI_PUBLIC_KEYS_FILE` name.
    #[must_use]
    pub fn node_key_files(mut self, own: impl Into<PathBuf>, public: impl Into<PathBuf>) -> Self {
        self.keys = Some(KeySource::NodeFiles(NodeFiles {
            own: KeyFile::of_node(own),
            public: PublicKeysFile::new(public),
        }));
        self
    }

    /// Allows a node without a key on addresses outside of loopback. Its packets have
    /// checksums, which find accidents, but nothing keeps attackers out: call this only for a
    /// trusted network. A node that has a key is sealed all the same.
    #[must_use]
    pub fn allow_insecure_network(mut self) -> Self {
        self.allow_insecure_network = true;
        self
    }

    /// Bytes of received data held for the program, over all peers, at most. Default 256 MiB, at
    /// least 1 MiB for each thread. Allow 128 KiB for each peer: newcomers are refused where no
    /// session can be promised its window.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.config.memory = bytes;
        self
    }

    /// Longest message that this node takes without asking the program, in bytes. Longer ones are
    /// announced, also those that are shorter than their sender's
    /// [`rts_threshold`](Self::rts_threshold), and raise
    /// [`Event::Incoming`](crate::Event::Incoming). At most half of `memory` (with several threads:
    /// of each one's part). Default 64 MiB, or that half if it is less.
    #[must_use]
    pub fn max_message(mut self, bytes: u64) -> Self {
        self.config.max_message = bytes;
        self
    }

    /// Bytes queued per peer on channels of one class before sending on these answers
    /// [`Error::WouldBlock`]. Each message counts its payload, its header and 64. Default 64 MiB. A
    /// single longer message is taken when the class has nothing else queued, and a group's in any
    /// case when that group has none queued. Bulk therefore never takes the room of an urgent
    /// channel ([`Peer::set_channel_priority`](crate::Peer::set_channel_priority)); a peer's queue
    /// holds at most this much for each of the eight classes that the program uses, and a message
    /// for each channel of a group. An acknowledged message
    /// that follows an unacknowledged one of its channel still counts: with all of its bytes if it
    /// has at most 256, otherwise with 64. `u64::MAX` lifts the limit, for a program that itself
    /// sends no more while [`Peer::queue_len`](crate::Peer::queue_len) says that a peer is behind;
    /// then only the number of messages is limited (a million in each class).
    #[must_use]
    pub fn send_queue(mut self, bytes: u64) -> Self {
        self.config.send_queue = bytes;
        self
    }

    /// Messages of this node that are longer than this ask the receiver first. The receiver's
    /// library agrees, when it has memory, to those within its own
    /// [`max_message`](Self::max_message). Default 256 KiB; 1 KiB to 1 MiB. Over a path with a long
    /// round trip the threshold is higher: what 8 Gbit/s carry in one round trip, at most 4 MiB.
    #[must_use]
    pub fn rts_threshold(mut self, bytes: u64) -> Self {
        self.config.rts_threshold = bytes;
        self
    }

    /// The most peers at once: as many nodes in the book, and as many that came by themselves or
    /// were connected at some time. Nodes of the book that never were connected keep no peer out.
    /// Default 16,384. Each of several threads has an equal part.
    #[must_use]
    pub fn max_peers(mut self, count: usize) -> Self {
        self.config.max_peers = count;
        self
    }

    /// Judges the silence of processes that a launcher supervises like that of others. Otherwise
    /// the limits of silence do not hold for them: `suci run` reports each end of a process, so
    /// that one which starts late or is stopped in a debugger is [`Quiet`](crate::Event::Quiet),
    /// and is never given up.
    #[must_use]
    pub fn ignore_supervision(mut self) -> Self {
        self.ignores_supervision = true;
        self
    }

    /// Silence after which a peer with something outstanding counts as lost. Default 10 s.
    #[must_use]
    pub fn silence_timeout(mut self, timeout: Duration) -> Self {
        self.config.silence_timeout = timeout;
        self
    }

    /// Silence after which a session ends. Default 5 min. A peer that goes on sending and never
    /// gives back credit when asked keeps its part of the receive buffer for as long, and for at
    /// least four minutes.
    #[must_use]
    pub fn give_up_after(mut self, timeout: Duration) -> Self {
        self.config.give_up_after = timeout;
        self
    }

    /// Whether CRC32C covers payloads too (default), or only headers. It always covers them over a
    /// [backend](Self::backend) that sends no UDP checksum.
    #[must_use]
    pub fn payload_checksum(mut self, on: bool) -> Self {
        self.config.payload_checksum = on;
        self
    }

    /// Leaves the node unserved while the program does not call it: no helper thread. Peers are
    /// told; they report it as [`Quiet`](crate::Event::Quiet) instead of lost, and never give it
    /// up. Each message that is sent outside a batch leaves at once, also in a
    /// burst ([`Node::send`](crate::Node::send)).
    #[must_use]
    pub fn unattended(mut self) -> Self {
        self.config.unattended = true;
        self
    }

    /// The mode of traffic to peers without a [`PeerOptions::mode`](crate::PeerOptions) of their
    /// own. Default [`Mode::Adaptive`](crate::Mode).
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.config.mode = mode;
        self
    }

    /// Notices the silence of idle peers too, by probing them.
    #[must_use]
    pub fn keep_alive(mut self) -> Self {
        self.config.keep_alive = true;
        self
    }

    /// The congestion controller with which connections begin. Default [`ControllerChoice::Auto`].
    /// Change it for one peer at run time by [`Peer::set_options`](crate::Peer::set_options).
    #[must_use]
    pub fn controller(mut self, choice: ControllerChoice) -> Self {
        self.config.controller = choice;
        self
    }

    /// Bytes per second of messages to each peer at most, in UDP payload, but at least a packet
    /// each second, however small that is. Default: no cap. For one peer it is changed at run time
    /// by [`Peer::set_options`](crate::Peer::set_options).
    #[must_use]
    pub fn rate_cap(mut self, bytes_per_second: u64) -> Self {
        self.config.rate_cap = Some(bytes_per_second);
        self
    }

    /// Every packet goes through a layer that loses, repeats, delays or damages some: for tests.
    /// Default: as the environment says ([`env::FAULTS`](crate::env::FAULTS)), else none.
    #[must_use]
    pub fn faults(mut self, spec: FaultSpec) -> Self {
        self.faults = Some(spec);
        self
    }

    /// How datagrams reach the network. Default: as the environment says
    /// ([`env::BACKEND`](crate::env::BACKEND)), else [`BackendKind::Udp`].
    #[must_use]
    pub fn backend(mut self, backend: BackendKind) -> Self {
        self.backend = Some(backend);
        self
    }

    /// How blocking calls wait. Default: [`WaitPolicy::Adaptive`].
    #[must_use]
    pub fn wait(mut self, wait: WaitPolicy) -> Self {
        self.wait = wait;
        self
    }

    /// Whether the node keeps its counters in a file in memory, where `suci stat` and `suci top`
    /// see them. The file has 100 KiB and is for this user alone. It is in `$XDG_RUNTIME_DIR/suci`,
    /// `/dev/shm/suci-UID` or `/tmp/suci-UID`, the first that is no disk, and goes away when the
    /// node is closed. Default: yes. Where no file can be made there is none, which is no error:
    /// the log has a warning with the reason, and [`check`](crate::statistics::check) tells it. See
    /// [`statistics`](crate::statistics).
    #[must_use]
    pub fn statistics(mut self, on: bool) -> Self {
        self.no_statistics = !on;
        self
    }

    /// Serves the node's counters at this TCP address (path `/metrics`) to Prometheus, by a thread
    /// of its own. Every host that reaches the address can read them. Default: nowhere.
    #[must_use]
    pub fn metrics(mut self, address: SocketAddr) -> Self {
        self.metrics = Some(address);
        self
    }

    /// Whether one-sided operations between this process and others of the same machine and user go
    /// through shared memory instead of the network, if both processes want that: on
    /// [regions](crate::Node::allocate_region) that the library allocates from then on, the first
    /// 128 of each node. Another process gets a region's memory only if it has a session with this
    /// node, and the region's key. The operations keep their results, errors and order; they take a
    /// small part of the time, and no time of the target. A region takes a descriptor, and at least
    /// a page. A thread of its own answers other processes. Default: as the environment says
    /// ([`env::SHARED_MEMORY`](crate::env::SHARED_MEMORY)), which `suci run` sets; else not.
    #[must_use]
    pub fn shared_memory(mut self, on: bool) -> Self {
        self.shared_memory = Some(on);
        self
    }

    /// Makes the node a member of a cluster: it joins through a seed, knows of all others
    /// ([`Node::members`](crate::Node::members)) and can send to them, and hears of members that
    /// join, leave or fail. Closing the node leaves the cluster. Default: no membership.
    ///
    /// Any process that knows the name of the cluster can become a member, so the node
    /// [accepts](Self::accept) anyone. Without an [`id`](Self::id) it has a random one. It should
    /// listen at an address that all members reach. At an unspecified one (`0.0.0.0`) the first
    /// member that it talks to tells it which that is.
    ///
    /// A node takes part when its program calls it, or its helper does: not if it is
    /// [`unattended`](Self::unattended).
    #[must_use]
    pub fn membership(mut self, membership: Membership) -> Self {
        self.membership = Some(membership);
        self
    }

    /// Whether the node sends on the packets of others, which reach each other through it: for
    /// nodes of its book, or for any, if it [accepts](Self::accept) anyone. Default: no. Messages
    /// stay between their two nodes; this node sees their packets, sealed if they are sealed. What
    /// finds no credit is dropped, and counted ([`Counters`](crate::Counters)); its sender repeats
    /// it. At most 11.3 MB wait for each neighbour.
    ///
    /// A program of a [`Node`](crate::Node) that forwards and calls [`poll`](crate::Node::poll)
    /// must take the events, too: while one waits, `poll` returns at once.
    #[must_use]
    pub fn forward(mut self, on: bool) -> Self {
        self.forward = on;
        self
    }

    /// The engine's settings as plain data, for those that have no method here. Whether
    /// acknowledgements wait for a poll is `open`'s decision.
    #[must_use]
    pub fn config(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// The socket's settings.
    #[must_use]
    pub fn udp(mut self, change: impl FnOnce(&mut UdpOptions)) -> Self {
        change(&mut self.udp);
        self
    }

    /// Opens a node that works when the program calls it. Blocks for reading the book, and under a
    /// launcher until all of its processes come to open theirs ([`Node::from_env`]).
    ///
    /// # Errors
    /// An error names the setting that is missing, out of range, in use or not allowed, and the
    /// remedy.
    pub fn open(mut self) -> Result<Node, Error> {
        self.config.ack_on_poll = true;
        Node::start(self.prepare(1)?)
    }

    /// Opens a node that `threads` I/O threads serve, 1 to 256; its handle can be cloned and used
    /// from everywhere.
    ///
    /// Each thread has a socket of its own at the node's port and serves an equal part of all node
    /// IDs: those whose lowest byte modulo `threads` is its index. So give the nodes of a cluster
    /// IDs in a row. More threads than processors, or than peers that are busy at once, gain
    /// nothing, and the messages of a single peer are one thread's work.
    ///
    /// [`memory`](Self::memory) and [`max_peers`](Self::max_peers) are the node's, and each thread
    /// has an equal part; [`max_message`](Self::max_message) can be at most half of a thread's part
    /// of the memory, and is that by default if 64 MiB are more. Receive and send buffers are those
    /// of each socket.
    ///
    /// # Errors
    /// As [`NodeBuilder::open`], and [`Error::Threads`].
    pub fn open_threads(self, threads: usize) -> Result<SharedNode, Error> {
        if !(1..=MOST_THREADS).contains(&threads) {
            return Err(Error::Threads(threads));
        }
        SharedNode::start(self.prepare(threads)?)
    }

    /// The reserved socket, which belongs to the node that the environment describes.
    fn reserved(&self, described: bool) -> Result<Option<UdpSocket>, Error> {
        match described && self.listen.is_none() {
            true => env::socket(),
            false => Ok(None),
        }
    }

    /// The launcher's pipe, for the node that the environment describes.
    fn launcher(&self, described: bool) -> Result<Option<Launcher>, Error> {
        match described {
            true => env::launcher(self.ignores_supervision),
            false => Ok(None),
        }
    }

    /// Prepares everything but the `count` threads.
    fn prepare(mut self, count: usize) -> Result<Opened, Error> {
        let process =
            OriginalProcess::new().map_err(Error::io("mapping the page that notices forks"))?;
        let described = self.id.is_none() || env::own_id().ok().flatten() == self.id;
        let (reserved, launcher) = (self.reserved(described)?, self.launcher(described)?);
        let id = self.take_id()?;
        if self.membership.is_some() {
            self.config.accept = AcceptPolicy::Anyone;
        }
        if self.faults.is_none() {
            self.faults = env::faults(id)?;
        }
        let regions = Regions::new();
        let matched = Arc::new(MatchingState::new(process));
        let mut config = self.part_of_config(count)?;
        let named = self.book.is_some() || self.book_file.is_some();
        let reserved = self.join_job()?.or(reserved);
        let mut book = self.take_book(id)?;
        self.add_seeds(&mut book)?;
        let placed = self.listen.is_some() || reserved.is_some() || book.get(id).is_some();
        let keys = self.take_keys(id)?;
        let beyond_loopback = self.allow_insecure_network || keys.is_some();
        let backends = self.open_sockets(reserved, &book, id, count, beyond_loopback)?;
        let local = backends.first().ok_or_else(no_descriptor)?.local_addr();
        check_exposure(beyond_loopback, local)?;
        if let Some(keys) = &keys {
            config.security = keys.security();
        }
        let identity = identity(id)?;
        let make = |backend| self.driver(&config, identity, backend, (&regions, &matched));
        let drivers: Result<Vec<_>, Error> = backends.into_iter().map(make).collect();
        let (mut drivers, budgets): (Vec<_>, Vec<_>) = drivers?.into_iter().unzip();
        let budget = budgets.into_iter().reduce(Budget::with);
        self.give_peers(&book, &identity, (local, beyond_loopback), &mut drivers)?;
        if let Some(first) = drivers.first_mut() {
            first.launcher = launcher;
        }
        let membership = self.become_member(&book, &identity, local, &mut drivers)?;
        if named && !placed {
            in_book(&book, id)?;
        }
        let publishers = self.publishers(NodeInfo { node: id, local }, count)?;
        for (driver, publishers) in drivers.iter_mut().zip(publishers) {
            driver.publishers = publishers;
            let changes = |keys: &Arc<_>| KeyChanges::new(Arc::clone(keys), Clock.now());
            driver.keys = keys.as_ref().map(changes);
        }
        let fixed = Fixed {
            id,
            local,
            budget: budget.ok_or_else(no_descriptor)?,
            process,
            wait: self.wait,
            regions,
            matched,
            beyond_loopback,
            shrunk_numbers: ShrunkNumbers::default(),
            membership,
            shared_memory: self.share_memory(&identity, process, &mut drivers)?,
        };
        Ok(Opened {
            fixed,
            drivers,
            config,
        })
    }

    /// Lets processes of this machine use memory in common, if that is wanted.
    fn share_memory(
        &self,
        identity: &Identity,
        process: OriginalProcess,
        drivers: &mut [Driver],
    ) -> Result<Option<Arc<SharedMemory>>, Error> {
        let wanted = self
            .shared_memory
            .map_or_else(env::shared_memory, |on| Ok(Some(on)))?;
        if wanted != Some(true) {
            return Ok(None);
        }
        let memory = SharedMemory::start(identity.node, identity.incarnation, process)?;
        for driver in drivers.iter_mut() {
            driver.mapped = Some(Arc::clone(&memory.regions));
        }
        if let Some(first) = drivers.first_mut() {
            first.inherited = memory.descriptors().into();
        }
        Ok(Some(Arc::new(memory)))
    }

    /// Returns the node's ID; a random one, if it is a member and has none.
    fn take_id(&self) -> Result<NodeId, Error> {
        match self.id.map_or_else(env::id, |id| Ok(Some(id)))? {
            Some(id) => Ok(id),
            None if self.membership.is_some() => membership::random_id(),
            None => Err(env::no_id()),
        }
    }

    /// Takes the book, and keys if there are none, from the launcher that gave the node its ID.
    /// Returns the socket at which the others know it.
    fn join_job(&mut self) -> Result<Option<UdpSocket>, Error> {
        let has_book = self.book.is_some() || self.book_file.is_some() || env::has_book();
        if self.id.is_some() || has_book || env::own_id()?.is_some() {
            return Ok(None);
        }
        let is_safe = self.allow_insecure_network || self.keys.is_some() || env::keys()?.is_some();
        Ok(job::join(self.listen, is_safe)?.map(|place| {
            self.book = Some(place.book);
            self.keys = self.keys.take().or(place.keys);
            place.socket
        }))
    }

    /// Takes the keys of the builder or of files; none if the node is plain.
    fn take_keys(&mut self, id: NodeId) -> Result<Option<Arc<SharedKeys>>, Error> {
        let source = match self.keys.take() {
            Some(source) => Some(source),
            None => env::keys()?,
        };
        let shared = source.map(|source| SharedKeys::new(id, source));
        Ok(shared.transpose()?.map(Arc::new))
    }

    /// Enters the seeds that the book does not have.
    fn add_seeds(&self, book: &mut AddressBook) -> Result<(), Error> {
        let seeds = self.membership.iter().flat_map(Membership::seeds);
        for (node, address) in seeds {
            if book.get(*node).is_none() {
                book.add(*node, *address)?;
            }
        }
        Ok(())
    }

    /// Makes the node a member, if it is to be one: one for all drivers.
    fn become_member(
        &self,
        book: &AddressBook,
        own: &Identity,
        local: SocketAddr,
        drivers: &mut [Driver],
    ) -> Result<Option<Arc<OwnMembership>>, Error> {
        let Some(membership) = &self.membership else {
            return Ok(None);
        };
        let settings = membership.settings()?;
        let cluster = settings.cluster.clone();
        let random = sys::random().map_err(Error::io("asking the system for random bytes"))?;
        let (now, random) = (Clock.now(), u64::from_le_bytes(random));
        let process = (own.node, own.incarnation);
        let seeds = book.iter().map(|(node, _)| node);
        let member = Member::new(now, settings, process, local, seeds, random);
        let shared = SharedMembership::new(now, member);
        let member = Arc::new(OwnMembership { shared, cluster });
        let count = drivers.len();
        for (index, driver) in drivers.iter_mut().enumerate() {
            let part = MembershipPart::new(Arc::clone(&member), index, count);
            driver.membership = Some(Box::new(part));
        }
        Ok(Some(member))
    }

    /// Gives the drivers the nodes of the book, and its routes.
    fn give_peers(
        &self,
        book: &AddressBook,
        own: &Identity,
        here: (SocketAddr, bool),
        drivers: &mut [Driver],
    ) -> Result<(), Error> {
        book.check_routes()?;
        let (neighbours, routes) = book.seen_from(own.node)?;
        enter_peers(book, own, here, drivers, &routes)?;
        let router = Router::new(RouterSettings {
            own: own.node,
            forwards: self.forward,
            anyone: self.config.accept == AcceptPolicy::Anyone,
            neighbours,
            routes,
        });
        let router = Arc::new(SharedRouter::new(router, drivers.len()));
        let count = drivers.len();
        for (index, driver) in drivers.iter_mut().enumerate() {
            let part = RoutesPart::new(Arc::clone(&router), index, count);
            driver.routes = Some(Box::new(part));
        }
        Ok(())
    }

    /// The settings of each of `count` engines: values for the whole node are divided.
    pub(crate) fn part_of_config(&self, count: usize) -> Result<Config, Error> {
        let mut config = self.config.clone();
        let parts = u64::try_from(count).unwrap_or(u64::MAX);
        config.memory /= parts;
        config.max_peers = config.max_peers.div_ceil(count);
        config.payload_checksum |= !self.backend_kind()?.has_checksum();
        let refused = |setting, value: &dyn std::fmt::Debug, allowed| ConfigError {
            setting,
            value: format!("{value:?}"),
            allowed,
        };
        if count > 1 && config.memory < LEAST_MEMORY {
            let allowed = "at least 1 MiB for each thread";
            return Err(refused("memory", &self.config.memory, allowed).into());
        }
        let most = config.memory / 2;
        if config.max_message > most {
            if config.max_message == Config::default().max_message {
                config.max_message = most;
            } else if count > 1 {
                let allowed = "at most half of each thread's part of memory";
                return Err(refused("max_message", &config.max_message, allowed).into());
            }
        }
        Ok(config)
    }

    /// Makes the statistics of each of `count` threads; the first thread's also answer Prometheus.
    fn publishers(&self, about: NodeInfo, count: usize) -> Result<Vec<Publishers>, Error> {
        let now = Clock.now();
        let trouble = Error::io("memory for the statistics that metrics are read from");
        let named = (!self.no_statistics).then(|| Publisher::new(about, now));
        let mut publisher = named.and_then(|made| {
            let tell = |error: &NoFile| log::no_statistics(about.node, error);
            made.inspect_err(tell).ok()
        });
        let mut responder = None;
        if let Some(address) = self.metrics {
            let path = publisher.as_ref().and_then(Publisher::path);
            let file = match path.and_then(|path| StatFile::open(&path).ok()) {
                Some(file) => file,
                None => {
                    let (anonymous, file) = Publisher::anonymous(about, now).map_err(&trouble)?;
                    publisher = Some(anonymous);
                    StatFile::over(file).map_err(&trouble)?
                }
            };
            responder = Some(Responder::new(address, file)?);
        }
        let parts = publisher.map(|publisher| publisher.divide(count));
        let parts = parts.into_iter().flatten().map(Some);
        let publishers = |publisher| Publishers {
            responder: responder.take(),
            publisher,
        };
        let all = parts.chain(std::iter::repeat_with(|| None));
        Ok(all.take(count).map(publishers).collect())
    }

    fn take_book(&mut self, id: NodeId) -> Result<AddressBook, Error> {
        if let Some(book) = self.book.take() {
            return Ok(book);
        }
        match self.book_file.take() {
            Some(path) => AddressBook::read(path),
            None => {
                let own = Some(id).filter(|_| self.id.is_none());
                Ok(env::book(own)?.unwrap_or_default())
            }
        }
    }

    fn backend_kind(&self) -> Result<BackendKind, Error> {
        let said = self.backend.map_or_else(env::backend, |it| Ok(Some(it)))?;
        Ok(said.unwrap_or_default())
    }

    fn open_sockets(
        &self,
        reserved: Option<UdpSocket>,
        book: &AddressBook,
        id: NodeId,
        count: usize,
        beyond_loopback: bool,
    ) -> Result<Vec<Box<dyn Backend>>, Error> {
        let mut options = self.udp;
        if let Some(most) = env::rmem_max()? {
            options.recv_buffer = options.recv_buffer.min(most);
        }
        let first = match reserved {
            Some(socket) => Udp::from_socket(socket, &options)
                .map_err(Error::io("setting the inherited socket up"))?,
            None => self.listen_at(book, id, &options, beyond_loopback)?,
        };
        self.backend_kind()?
            .open(first, count, &options, self.faults)
    }

    /// Takes the socket that systemd opened at the node's address, or binds one.
    fn listen_at(
        &self,
        book: &AddressBook,
        id: NodeId,
        options: &UdpOptions,
        beyond_loopback: bool,
    ) -> Result<Udp, Error> {
        let listen = self.listen.as_ref().map(std::slice::from_ref);
        let own = own_addresses(book, id);
        let named = listen.unwrap_or(&own);
        if let Some(socket) = env::activated(named)? {
            let trouble = Error::io("setting the socket of systemd up");
            return Udp::from_socket(socket, options).map_err(trouble);
        }
        let blame = |error| match listen.is_some() || named.is_empty() {
            true => error,
            false => book.blame(id, error),
        };
        let addresses = if named.is_empty() { &[ANYWHERE] } else { named };
        self.bind(addresses, options, blame, beyond_loopback)
    }

    /// Binds a socket at the first of these addresses at which that works; else returns the error
    /// of the first. `blame` names the entry that has an address that is not allowed.
    fn bind(
        &self,
        addresses: &[SocketAddr],
        options: &UdpOptions,
        blame: impl Fn(Error) -> Error,
        beyond_loopback: bool,
    ) -> Result<Udp, Error> {
        let mut first = None;
        for &address in addresses {
            let allowed =
                check_listen(address).and_then(|()| check_exposure(beyond_loopback, address));
            let bound = allowed.map_err(&blame).and_then(|()| {
                Udp::bind(address, options).map_err(|source| bind_error(address, source))
            });
            match bound {
                Ok(socket) => return Ok(socket),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(no_descriptor))
    }

    /// Makes the driver of one shard. All shards have one incarnation, since they are one node.
    fn driver(
        &self,
        config: &Config,
        identity: Identity,
        backend: Box<dyn Backend>,
        (regions, matched): (&Regions, &Arc<MatchingState>),
    ) -> Result<(Driver, Budget), Error> {
        backend.raw_fd().ok_or_else(no_descriptor)?;
        let seed = sys::random::<32>().map_err(Error::io("asking the system for random bytes"))?;
        let bytes = backend.capabilities().recv_buffer;
        let buffer = u64::try_from(bytes).unwrap_or(u64::MAX);
        let places = Arc::new(Places::new(regions.clone(), Arc::clone(matched)));
        let config = Config {
            placement: PlacedBy::new(places.clone()),
            ports: Ports::ALL,
            ..config.clone()
        };
        let mut engine = Engine::new(config, identity, seed, buffer, Clock.now())?;
        if engine.peer_limit() == 0 {
            // No peer would ever get an answer.
            return Err(Error::NoRoom { bytes });
        }
        if log::is_wanted() {
            engine.set_logging(true);
            log::opened(
                identity.node,
                backend.local_addr(),
                bytes,
                engine.peer_limit(),
            );
        }
        let budget = Budget::new(&self.udp, &*backend, &engine);
        Ok((Driver::new(engine, backend, places), budget))
    }
}

/// A new incarnation of node `id`.
fn identity(id: NodeId) -> Result<Identity, Error> {
    let random = sys::random().map_err(Error::io("asking the system for random bytes"))?;
    Ok(Identity {
        node: id,
        incarnation: Incarnation(u128::from_le_bytes(random)),
    })
}

/// Enters the others of the book, each into the engine that owns it.
fn enter_peers(
    book: &AddressBook,
    own: &Identity,
    (local, beyond_loopback): (SocketAddr, bool),
    drivers: &mut [Driver],
    routes: &Routes,
) -> Result<(), Error> {
    let count = drivers.len();
    for (node, _) in routes.singles() {
        if let Some(driver) = drivers.get_mut(owner(node, count)) {
            let address = Behind::by_route(node).address();
            driver.engine.add_peer(Clock.now(), node, address)?;
        }
    }
    let is_routed = |node: NodeId| routes.of_single(node).is_some();
    let is_other = |node: NodeId| node != own.node && !is_routed(node);
    for (node, _) in book.iter().filter(|(node, _)| is_other(*node)) {
        let addresses = reachable(beyond_loopback, local, book.addresses(node))
            .map_err(|error| book.blame(node, error))?;
        if let Some(driver) = drivers.get_mut(owner(node, count)) {
            driver.engine.add_peer(Clock.now(), node, addresses)?;
        }
    }
    for (index, driver) in drivers.iter_mut().enumerate() {
        let serves = |node| is_other(node) && owner(node, count) == index;
        driver.names = Names::of(book, serves, beyond_loopback, local);
    }
    Ok(())
}
