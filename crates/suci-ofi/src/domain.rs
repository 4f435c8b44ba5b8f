//! Domains. Each has a node, which its endpoint, queues and vectors use.

use crate::abi::{FiOps, Fid, FidDomain, Info, OpsDomain, OpsMr, class};
use crate::code::{Code, Outcome, not_there, status};
use crate::counter::{self, Counter};
use crate::endpoint::{self, Endpoint};
use crate::fabric::{Fabric, Member};
use crate::handle::{self, header, lock};
use crate::info;
use crate::name::{LENGTH, Name};
use crate::queue::{self, Queue};
use crate::transfer::{Receive, Send};
use crate::vector::{self, Vector};
use core::ffi::{c_int, c_void};
use slab::Slab;
use std::collections::{HashMap, HashSet};
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use suci::matching::ReceiveId;
use suci::{AcceptPolicy, AddressBook, Error, Node, NodeId};

/// Ports that are tried if others take them first.
const TRIES: usize = 16;

/// The time that closing a domain waits until others have everything.
const PATIENCE: Duration = Duration::from_secs(5);

/// A domain.
pub(crate) struct Domain {
    core: Mutex<Core>,
    pub(crate) name: Name,
    _fabric: Member,
}

header!(FidDomain, class::DOMAIN, Arc<Domain>);

/// The state of a domain, under one lock: also a program whose threads break the rules that it
/// promised to keep finds it consistent.
pub(crate) struct Core {
    /// Nothing once it was closed.
    node: Option<Node>,
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) vectors: Slab<Vector>,
    pub(crate) queues: Slab<Queue>,
    pub(crate) counters: Slab<Counter>,
    /// Receives that are open.
    pub(crate) receives: HashMap<ReceiveId, Receive>,
    /// Sends that are not complete, by their tokens.
    pub(crate) sends: HashMap<u64, Send>,
    pub(crate) next_token: u64,
    /// Tokens of sends whose memory the node does not need any more.
    pub(crate) released: mpsc::Receiver<u64>,
    pub(crate) releases: mpsc::Sender<u64>,
    /// Nodes whose last session ended, or that are known to have died.
    pub(crate) gone: HashSet<NodeId>,
    /// Polls since the last that found something.
    pub(crate) idle_polls: u32,
}

impl Domain {
    /// Calls `work` with the state.
    pub(crate) fn enter<T>(&self, work: impl FnOnce(&mut Core) -> Outcome<T>) -> Outcome<T> {
        work(&mut lock(&self.core))
    }
}

impl Core {
    fn new(node: Node) -> Self {
        let (releases, released) = mpsc::channel();
        Self {
            node: Some(node),
            endpoint: None,
            vectors: Slab::new(),
            queues: Slab::new(),
            counters: Slab::new(),
            receives: HashMap::new(),
            sends: HashMap::new(),
            next_token: 1,
            released,
            releases,
            gone: HashSet::new(),
            idle_polls: 0,
        }
    }

    /// Returns the node, if it was not closed.
    pub(crate) fn node(&mut self) -> Outcome<&mut Node> {
        self.node.as_mut().ok_or(Code::OPBADSTATE)
    }

    /// Returns the endpoint, if it is enabled.
    pub(crate) fn enabled(&mut self) -> Outcome<&mut Endpoint> {
        match self.endpoint.as_mut() {
            Some(endpoint) if endpoint.is_enabled => Ok(endpoint),
            _ => Err(Code::OPBADSTATE),
        }
    }

    /// Has the node know where an endpoint is.
    pub(crate) fn add_peer(&mut self, name: Name) -> Outcome<()> {
        let node = self.node()?;
        match (node.id() == name.node, node.local_addr() == name.address) {
            (true, true) => return Ok(()),
            (true, false) => return Err(Code::ADDRINUSE),
            (false, _) => node.add_peer(name.node, name.address)?,
        }
        // Another process may be there now.
        self.gone.remove(&name.node);
        Ok(())
    }

    /// Closes the node for good: it uses no memory of the program any more.
    pub(crate) fn abandon_node(&mut self) {
        if let Some(mut node) = self.node.take() {
            // Others notice the end by themselves.
            _ = node.close(Duration::ZERO);
        }
        self.receives.clear();
        self.sends.clear();
    }
}

static OPS: FiOps = FiOps {
    size: size_of::<FiOps>(),
    close,
    bind: handle::no_bind,
    control: handle::no_control,
    ops_open: not_there,
    tostr: not_there,
    ops_set: not_there,
};

static DOMAIN_OPS: OpsDomain = OpsDomain {
    size: size_of::<OpsDomain>(),
    av_open: vector::open,
    cq_open: queue::open,
    endpoint: endpoint::open,
    scalable_ep: not_there,
    cntr_open: counter::open,
    poll_open: not_there,
    stx_ctx: not_there,
    srx_ctx: not_there,
    query_atomic: not_there,
    query_collective: not_there,
    endpoint2: endpoint::open2,
    xpu_ctx: not_there,
};

static MR_OPS: OpsMr = OpsMr {
    size: size_of::<OpsMr>(),
    reg: not_there,
    regv: not_there,
    regattr: not_there,
};

/// `fi_domain`.
///
/// # Safety
/// `info` is null or an information. `domain` is null or has room for a pointer.
pub(crate) unsafe fn open(
    fabric: &Arc<Fabric>,
    info: *const Info,
    domain: *mut *mut FidDomain,
    context: *mut c_void,
) -> Outcome<()> {
    // SAFETY: as the caller promises.
    let info = unsafe { info.as_ref() }.ok_or(Code::INVAL)?;
    if domain.is_null() {
        return Err(Code::INVAL);
    }
    let address = match info.src_addr.is_null() {
        true => info::default_address()?,
        // SAFETY: the address has as many bytes as the information says.
        false => unsafe { Name::read(info.src_addr, info.src_addrlen.min(LENGTH)) }?.address,
    };
    let node = open_node(address)?;
    let place = Arc::new(Domain {
        name: Name::new(node.local_addr()),
        core: Mutex::new(Core::new(node)),
        _fabric: fabric.enter(),
    });
    let header = FidDomain {
        fid: handle::fid(class::DOMAIN, context, &OPS),
        ops: &DOMAIN_OPS,
        mr: &MR_OPS,
    };
    // SAFETY: there is room, as the caller promises.
    unsafe { domain.write(handle::open(header, place)) };
    Ok(())
}

/// Opens a node at this address; at any free port if it names none. Its ID follows from the port,
/// which must therefore be known before.
fn open_node(address: SocketAddr) -> Outcome<Node> {
    let mut tries = 0;
    loop {
        let listen = match address.port() {
            0 => free_port(address)?,
            _ => address,
        };
        match open_node_at(listen) {
            Err(Error::AddressInUse { .. }) if address.port() == 0 && tries < TRIES => tries += 1,
            Err(Error::AddressInUse { .. }) => return Err(Code::ADDRINUSE),
            Err(error) => {
                // libfabric has no place for a text.
                eprintln!("suci: no node at {listen}: {error}");
                return Err(error.into());
            }
            Ok(node) => return Ok(node),
        }
    }
}

fn open_node_at(listen: SocketAddr) -> Result<Node, Error> {
    let builder = Node::builder()
        .id(Name::new(listen).node)
        .listen(listen)
        .book(AddressBook::default())
        .accept(AcceptPolicy::Anyone)
        .keep_alive();
    match info::is_insecure_allowed() {
        true => builder.allow_insecure_network().open(),
        false => builder.open(),
    }
}

/// Returns an address with a port that was free a moment ago.
fn free_port(address: SocketAddr) -> Outcome<SocketAddr> {
    let bound = UdpSocket::bind(address).and_then(|socket| socket.local_addr());
    bound.map_err(|error| Code(error.raw_os_error().unwrap_or(libc::EIO)))
}

unsafe extern "C" fn close(fid: *const Fid) -> c_int {
    let end = |domain: &Arc<Domain>| {
        domain.enter(|core| {
            let is_used = core.endpoint.is_some()
                || !(core.vectors.is_empty() && core.queues.is_empty() && core.counters.is_empty());
            if is_used {
                return Err(Code::BUSY);
            }
            if let Some(mut node) = core.node.take() {
                // Those that did not get everything have ended, or notice the end by themselves.
                _ = node.close(PATIENCE);
            }
            Ok(())
        })
    };
    // SAFETY: C passes an object of this provider, or null.
    status(unsafe { handle::close::<FidDomain>(fid, end) })
}
