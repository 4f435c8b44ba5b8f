//! The book, and which addresses belong to its nodes.

use crate::kernel::{self, Caller};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use suci::{AddressBook, NodeId, env};

/// The variable that allows packets without encryption beyond loopback.
pub(crate) const PLAIN: &str = "SUCI_PRELOAD_PLAIN";

/// The variables of the environment when the library was loaded: programs such as nginx clear it
/// before they listen.
#[derive(Debug)]
struct Environment {
    id: Result<Option<NodeId>, String>,
    book: Option<OsString>,
    allows_plain: bool,
    keys: Result<KeyFiles, String>,
}

/// The files of keys that the environment named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyFiles {
    Unnamed,
    /// The cluster's key.
    Cluster(OsString),
    /// The node's own key, and the public keys of all.
    Node(OsString, OsString),
}

impl KeyFiles {
    /// Returns the files that `value` names by the names of variables; else the variable that is
    /// wrong, and the remedy.
    fn named(value: impl Fn(&str) -> Option<OsString>) -> Result<Self, String> {
        let [cluster, own, public] = [env::KEY_FILE, env::NODE_KEY_FILE, env::PUBLIC_KEYS_FILE]
            .map(|name| {
                let path = value(name);
                match path
                    .as_ref()
                    .is_some_and(|path| path.to_string_lossy().trim().is_empty())
                {
                    true => Err(format!(
                        "{name} names no file: name one, or unset the variable"
                    )),
                    false => Ok(path),
                }
            });
        match (cluster?, own?, public?) {
            (None, None, None) => Ok(Self::Unnamed),
            (Some(file), None, None) => Ok(Self::Cluster(file)),
            (None, Some(own), Some(public)) => Ok(Self::Node(own, public)),
            _ => Err(format!(
                "set {}, or both {} and {}, and unset what is left",
                env::KEY_FILE,
                env::NODE_KEY_FILE,
                env::PUBLIC_KEYS_FILE
            )),
        }
    }
}

impl Environment {
    fn read() -> Self {
        Self {
            id: env::id().map_err(|error| error.to_string()),
            book: std::env::var_os(env::BOOK),
            allows_plain: std::env::var_os(PLAIN).is_some_and(|value| value == "1"),
            keys: KeyFiles::named(|name| std::env::var_os(name)),
        }
    }
}

static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();

/// Notes what the environment says now. Call it when the library is loaded.
pub(crate) fn note_environment() {
    ENVIRONMENT.get_or_init(Environment::read);
}

/// The settings of the environment.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) own: NodeId,
    pub(crate) book: AddressBook,
    pub(crate) allows_plain: bool,
    /// Wrong ones keep the node closed: it must not be plain instead.
    pub(crate) keys: Result<KeyFiles, String>,
    /// Addresses that belong to exactly one node; nothing for those of several.
    nodes: BTreeMap<IpAddr, Option<NodeId>>,
}

/// Locked while they are read.
static READING: Mutex<()> = Mutex::new(());

/// Waits until no thread reads the settings, and keeps all from it.
pub(crate) fn lock() -> MutexGuard<'static, ()> {
    READING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the settings. Without any, or with wrong ones, which the user is told, all stays TCP.
/// The first call reads the book, and blocks for the file and for resolving names.
pub(crate) fn get() -> Option<&'static Settings> {
    static SETTINGS: OnceLock<Option<Settings>> = OnceLock::new();
    if let Some(settings) = SETTINGS.get() {
        return settings.as_ref();
    }
    let _reading = lock();
    let settings = SETTINGS.get_or_init(|| {
        crate::process::inside(read).unwrap_or_else(|problem| {
            crate::tell(format!("{problem}. All connections are TCP"));
            None
        })
    });
    settings.as_ref()
}

fn read() -> Result<Option<Settings>, String> {
    let environment = ENVIRONMENT.get_or_init(Environment::read);
    let (own, path) = match (environment.id.clone()?, &environment.book) {
        (Some(own), Some(path)) => (own, path),
        (None, None) => return Ok(None),
        (None, Some(_)) => return Err(format!("{} is not set: set it to a node", env::ID)),
        (Some(_), None) => return Err(format!("{} is not set: set it to a book", env::BOOK)),
    };
    let book = AddressBook::read(path).map_err(|error| error.to_string())?;
    let mut settings = Settings::new(own, book, environment.allows_plain);
    settings.keys = environment.keys.clone();
    Ok(Some(settings))
}

impl Settings {
    pub(crate) fn new(own: NodeId, book: AddressBook, allows_plain: bool) -> Self {
        let mut nodes = BTreeMap::new();
        for (node, _) in book.iter() {
            for address in book.addresses(node) {
                match nodes.entry(address.ip().to_canonical()) {
                    Entry::Vacant(entry) => drop(entry.insert(Some(node))),
                    Entry::Occupied(mut entry) if *entry.get() != Some(node) => {
                        entry.insert(None);
                    }
                    Entry::Occupied(_) => {}
                }
            }
        }
        Self {
            own,
            book,
            allows_plain,
            keys: Ok(KeyFiles::Unnamed),
            nodes,
        }
    }

    /// Returns the other node at this address, if it has one alone.
    pub(crate) fn node_at(&self, ip: IpAddr) -> Option<NodeId> {
        let node = self.nodes.get(&ip.to_canonical()).copied().flatten()?;
        (node != self.own).then_some(node)
    }

    /// Returns true if clients on other nodes reach a listener at this address.
    pub(crate) fn is_reached_at(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        let own = self.book.addresses(self.own);
        ip.is_unspecified() || own.iter().any(|own| own.ip().to_canonical() == ip)
    }

    /// Returns the address of this host from which a client of another node is connected to a
    /// listener at `target`: one of this node, or else the one from which packets to other nodes
    /// leave. A program without this library sees it. It is none of loopback, unless the nodes are
    /// there, because programs trust those.
    pub(crate) fn source_for(&self, target: SocketAddr) -> io::Result<IpAddr> {
        let is_alike = |address: &&SocketAddr| {
            let ip = address.ip().to_canonical();
            ip.is_ipv4() == target.is_ipv4()
        };
        let own = self.book.addresses(self.own).iter().filter(is_alike);
        let mut own = own.map(|address| address.ip().to_canonical());
        if let Some(ip) = own.find(|ip| Caller::new(*ip, target).is_ok()) {
            return Ok(ip);
        }
        let nodes = self.book.iter().filter(|(node, _)| *node != self.own);
        let mut others = nodes.flat_map(|(node, _)| self.book.addresses(node));
        let other = others.find(is_alike);
        let source = other.and_then(|other| kernel::source_towards(*other).ok());
        source.ok_or_else(|| {
            let family = if target.is_ipv4() { "IPv4" } else { "IPv6" };
            let text = format!("the book has no address of {family} for it: enter one");
            io::Error::new(ErrorKind::AddrNotAvailable, text)
        })
    }

    /// Returns the address that programs are told of a node and a port: of the family of `like`, if
    /// the node has one.
    pub(crate) fn address_of(&self, node: NodeId, port: u16, like: IpAddr) -> SocketAddr {
        let mut all = self.book.addresses(node).iter().map(SocketAddr::ip);
        let same = all.clone().find(|ip| ip.is_ipv4() == like.is_ipv4());
        // Nodes that open connections are in the book.
        let ip = same.or_else(|| all.next()).unwrap_or(like);
        SocketAddr::new(ip, port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No wrong combination leads to a node without keys.
    #[test]
    fn keys_that_are_named_in_part_or_twice_are_told() {
        let named = |set: &[&str]| {
            KeyFiles::named(|name| set.contains(&name).then(|| OsString::from("file")))
        };
        let [cluster, own, public] = [env::KEY_FILE, env::NODE_KEY_FILE, env::PUBLIC_KEYS_FILE];
        let file = || OsString::from("file");
        assert_eq!(named(&[]), Ok(KeyFiles::Unnamed));
        assert_eq!(named(&[cluster]), Ok(KeyFiles::Cluster(file())));
        assert_eq!(named(&[own, public]), Ok(KeyFiles::Node(file(), file())));
        for set in [
            &[own][..],
            &[public],
            &[cluster, own],
            &[cluster, own, public],
        ] {
            assert!(
                named(set).is_err_and(|text| text.contains(cluster)),
                "{set:?}"
            );
        }
        let blank = KeyFiles::named(|name| (name == own).then(|| OsString::from(" ")));
        assert!(blank.is_err_and(|text| text.starts_with(own)));
    }

    fn settings(book: &str) -> Settings {
        Settings::new(NodeId(0), AddressBook::parse(book, "test").unwrap(), false)
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_of_one_other_node_is_its_own() {
        let settings = settings("0 192.0.2.1:7000\n1 192.0.2.2:7000\n2 [2001:db8::2]:7000\n");
        assert_eq!(settings.node_at(ip("192.0.2.2")), Some(NodeId(1)));
        assert_eq!(settings.node_at(ip("::ffff:192.0.2.2")), Some(NodeId(1)));
        assert_eq!(settings.node_at(ip("2001:db8::2")), Some(NodeId(2)));
        assert_eq!(settings.node_at(ip("192.0.2.1")), None, "this node");
        assert_eq!(settings.node_at(ip("192.0.2.3")), None, "no node");
    }

    #[test]
    fn an_address_of_several_nodes_is_no_nodes() {
        let settings = settings("0 192.0.2.1:7000\n1 192.0.2.2:7000\n2 192.0.2.2:7001\n");
        assert_eq!(settings.node_at(ip("192.0.2.2")), None);
    }

    #[test]
    fn clients_come_from_an_address_of_the_node_if_the_host_has_it() {
        let [v4, v6] = ["127.0.0.1:80", "[::1]:80"].map(|target| target.parse().unwrap());
        let here = settings("0 127.3.2.1:7000\n1 127.3.2.2:7000\n");
        assert_eq!(here.source_for(v4).unwrap(), ip("127.3.2.1"));
        let error = here.source_for(v6).unwrap_err().to_string();
        assert!(error.contains("IPv6"), "{error}");
        // The host does not have it, as behind NAT.
        let elsewhere = settings("0 192.0.2.1:7000\n1 127.3.2.2:7000\n");
        assert!(elsewhere.source_for(v4).unwrap().is_loopback());
    }

    #[test]
    fn other_nodes_reach_listeners_at_the_nodes_addresses() {
        let settings = settings("0 192.0.2.1:7000\n1 192.0.2.2:7000\n");
        assert!(settings.is_reached_at(ip("0.0.0.0")));
        assert!(settings.is_reached_at(ip("::")));
        assert!(settings.is_reached_at(ip("192.0.2.1")));
        assert!(!settings.is_reached_at(ip("127.0.0.1")));
    }
}
