//! Names of peers, which are looked up again while a peer is lost: its process may run elsewhere by
//! then.
//!
//! A lookup may block for many seconds, so a thread does it, one name at a time. It starts with the
//! first lookup and ends with the node.

use crate::book::{self, AddressBook};
use crate::reach::reachable;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;
use suci_proto::time::Instant;
use suci_proto::types::NodeId;
use suci_proto::{Addresses, Engine, LinkState};

/// How soon the name of a peer that is still lost is looked up again.
const AGAIN: Duration = Duration::from_secs(10);

/// The least time between the beginnings of two lookups, of any names: many peers may be lost at
/// once.
const PACE: Duration = Duration::from_millis(100);

/// Looks up the addresses of a name; returns nothing if they cannot be found.
type LookUp = fn(&str) -> Option<Addresses>;

/// The thread that looks names up.
#[derive(Debug)]
struct Resolver {
    names: Sender<Arc<str>>,
    found: Receiver<Option<Addresses>>,
}

/// The peers of a driver that the book names.
#[derive(Debug)]
pub(crate) struct Names {
    names: BTreeMap<NodeId, Arc<str>>,
    /// Time of the next lookup for each lost peer.
    due: BTreeMap<NodeId, Instant>,
    /// The peer whose name is being looked up.
    asked: Option<NodeId>,
    /// The next lookup begins then at the earliest.
    next_at: Instant,
    resolver: Option<Resolver>,
    look_up: LookUp,
    beyond_loopback: bool,
    local: SocketAddr,
}

impl Names {
    /// The names of those peers of the book that `serves` selects; nothing if none of them has a
    /// name.
    pub(crate) fn of(
        book: &AddressBook,
        serves: impl Fn(NodeId) -> bool,
        beyond_loopback: bool,
        local: SocketAddr,
    ) -> Option<Self> {
        let names: BTreeMap<_, _> = book.names().filter(|(node, _)| serves(*node)).collect();
        (!names.is_empty()).then(|| Self {
            names,
            due: BTreeMap::new(),
            asked: None,
            next_at: Instant::ZERO,
            resolver: None,
            look_up: |name| book::parse_address(name).ok(),
            beyond_loopback,
            local,
        })
    }

    /// The program entered an address of this peer, or removed it: its name counts no more.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.names.remove(&node);
    }

    /// Begins a lookup if one is due, and enters the result of the last one. Never blocks.
    pub(crate) fn renew(&mut self, now: Instant, engine: &mut Engine) {
        while let Some(node) = engine.poll_lost() {
            if self.names.contains_key(&node) {
                self.due.entry(node).or_insert(now);
            }
        }
        if let Some(node) = self.asked {
            match self.answer() {
                Ok(found) => self.enter(now, node, found, engine),
                Err(TryRecvError::Empty) => return,
                // The resolver panicked, or could not be started: the next name starts another one.
                Err(TryRecvError::Disconnected) => self.resolver = None,
            }
            self.asked = None;
        }
        if now < self.next_at {
            return;
        }
        let due = self.due.iter().find(|(_, at)| **at <= now);
        if let Some(node) = due.map(|(node, _)| *node) {
            self.next_at = now + PACE;
            self.ask(now, node, engine);
        }
    }

    fn answer(&self) -> Result<Option<Addresses>, TryRecvError> {
        let resolver = self.resolver.as_ref();
        resolver.map_or(Err(TryRecvError::Disconnected), |it| it.found.try_recv())
    }

    /// Has the name of a peer looked up, if it is lost still.
    fn ask(&mut self, now: Instant, node: NodeId, engine: &Engine) {
        let name = self.names.get(&node).filter(|_| is_lost(engine, node));
        let Some(name) = name.map(Arc::clone) else {
            self.due.remove(&node);
            return;
        };
        self.due.insert(node, now + AGAIN);
        if self.resolver.is_none() {
            self.resolver = start(self.look_up);
        }
        let resolver = self.resolver.as_ref();
        if resolver.is_some_and(|resolver| resolver.names.send(name).is_ok()) {
            self.asked = Some(node);
        }
    }

    /// Enters the addresses that a name stands for now, if they can be reached from here.
    fn enter(&self, now: Instant, node: NodeId, found: Option<Addresses>, engine: &mut Engine) {
        let current = self.names.contains_key(&node) && is_lost(engine, node);
        let Some(found) = found.filter(|_| current) else {
            return;
        };
        if let Ok(fit) = reachable(self.beyond_loopback, self.local, found.as_slice()) {
            // The table has it already.
            let _ = engine.add_peer(now, node, fit);
        }
    }

    #[cfg(test)]
    pub(crate) fn set_look_up(&mut self, look_up: LookUp) {
        self.look_up = look_up;
    }
}

fn is_lost(engine: &Engine, node: NodeId) -> bool {
    let stats = engine.peer_stats(node);
    engine.knows(node) && stats.is_some_and(|stats| stats.link == LinkState::Lost)
}

/// Starts the thread.
fn start(look_up: LookUp) -> Option<Resolver> {
    let (names, wanted) = channel::<Arc<str>>();
    let (told, found) = channel();
    let thread = std::thread::Builder::new().name("suci-resolver".into());
    let work = move || {
        while let Ok(name) = wanted.recv() {
            if told.send(look_up(&name)).is_err() {
                break;
            }
        }
    };
    thread.spawn(work).ok()?;
    Some(Resolver { names, found })
}

#[cfg(test)]
mod tests {
    use crate::{AddressBook, Event, Next, Node, NodeId};
    use std::net::{SocketAddr, UdpSocket};
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    /// Address of the peer now.
    static MOVED: OnceLock<SocketAddr> = OnceLock::new();

    fn node(id: u32, book: &str) -> Node {
        let book = AddressBook::parse(book, "book").unwrap();
        let builder = Node::builder().id(NodeId(id)).book(book);
        let listening = builder.listen("127.0.0.1:0".parse().unwrap());
        let second = Duration::from_secs(1);
        listening.silence_timeout(second).open().unwrap()
    }

    #[test]
    fn the_name_of_a_lost_peer_is_looked_up_again() {
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = nobody.local_addr().unwrap().port();
        let mut a = node(0, &format!("1 localhost:{port}\n"));
        let mut b = node(1, "");
        b.add_peer(a.id(), a.local_addr()).unwrap();
        MOVED.set(b.local_addr()).unwrap();
        let look_up = |name: &str| {
            assert!(name.starts_with("localhost:"));
            MOVED.get().map(|at| (*at).into())
        };
        a.enter()
            .unwrap()
            .names
            .as_mut()
            .unwrap()
            .set_look_up(look_up);
        a.send(b.id(), "found").unwrap();
        let (begun, mut lost) = (Instant::now(), false);
        let found = loop {
            if let Some(Next::Event(Event::Lost { .. })) =
                a.next_timeout(Duration::from_millis(50)).unwrap()
            {
                lost = true;
            }
            if let Some(message) = b.try_recv().unwrap() {
                break message;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "lost: {lost}");
        };
        assert!(lost && found.payload == "found");
        // An address that the program entered is not replaced by one that its name stands for.
        a.add_peer(b.id(), b.local_addr()).unwrap();
        let driver = a.enter().unwrap();
        assert!(driver.names.as_ref().unwrap().names.is_empty());
    }
}
