//! The address book: where nodes are.

use crate::error::{BookError, Error, NO_ZONE};
use crate::sys;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::fs::File;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use suci_layers::routes::{Behind, RouteError, Routes};
use suci_proto::Addresses;
use suci_proto::types::NodeId;

/// Longest book that is read, in bytes: a million entries, which is as many peers as a node may
/// have.
const LONGEST: u64 = 64 << 20;

/// How long a read of a pipe waits until another process opens its other end.
const WRITER: Duration = Duration::from_secs(5);

/// The nodes of a cluster and their addresses.
///
/// As a file: one node per line, `id address:port`, IPv6 addresses in brackets, comments from `#`
/// to the end of the line. Names are resolved when the book is read, and again, by a thread, while
/// their node is [lost](crate::Event::Lost). If a name has several addresses, peers try them in
/// turn, those of IPv6 and IPv4 alternately (RFC 8305, section 4). The node itself listens at the
/// first of them that it can use.
///
/// A line `7 via 3` says that node 7 is reached through node 3, which must
/// [forward](crate::NodeBuilder::forward); `7 via 3, 4` that packets take the way through 4 while 3
/// does not answer. With an address before it, `7 192.0.2.7:4000 via 3`, the nodes behind `via` and
/// node 7 itself use the address. `10..19 via 2` is for all of these nodes that have no line of
/// their own, `10.. via 2` for all from 10 on: to send to one of them, give it a line.
///
/// ```
/// # fn main() -> Result<(), suci::Error> {
/// let book = suci::AddressBook::parse("# two nodes\n0 127.0.0.1:4000\n1 [::1]:4000  # IPv6\n", "example")?;
/// assert_eq!(book.len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct AddressBook {
    entries: BTreeMap<NodeId, Entry>,
    taken: HashSet<SocketAddr>,
    routes: Routes,
    /// Lines of the file that routes were read from, by their first node and their last.
    route_lines: BTreeMap<(u32, u32), usize>,
    /// The file or variable that the book was read from; errors name it.
    source: Option<Arc<str>>,
}

#[derive(Clone, Debug)]
struct Entry {
    addresses: Addresses,
    /// The text that they come from, if it has a name in it that may stand for others later.
    name: Option<Arc<str>>,
    /// Line of the file that it was read from; `None` if the program entered it.
    line: Option<usize>,
}

/// Equal are those that say the same, wherever they have it from.
impl PartialEq for AddressBook {
    fn eq(&self, other: &Self) -> bool {
        let entries = |book: &Self| {
            book.iter()
                .map(|(node, _)| (node, book.addresses(node).to_vec()))
                .collect::<Vec<_>>()
        };
        entries(self) == entries(other) && self.routes == other.routes
    }
}

impl Eq for AddressBook {}

impl AddressBook {
    /// An empty book.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a file. Blocks for the file and for resolving names.
    ///
    /// # Errors
    /// [`BookError`], with file and line.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let bytes = read_bounded(path).map_err(|source| BookError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let source = path.display().to_string();
        let text = str::from_utf8(&bytes).map_err(|error| {
            let (before, after) = bytes.split_at(error.valid_up_to());
            let index = before.iter().filter(|&&byte| byte == b'\n').count();
            let byte = after.first().copied().unwrap_or_default();
            wrong(
                &source,
                index + 1,
                format!("byte 0x{byte:02X} is no text in UTF-8: save the file as such"),
            )
        })?;
        Self::parse(text, &source)
    }

    /// Reads a text; `source` stands before the line number in errors. Blocks for resolving names.
    ///
    /// # Errors
    /// [`BookError`], with source and line.
    pub fn parse(text: &str, source: &str) -> Result<Self, Error> {
        let mut book = Self {
            source: Some(source.into()),
            ..Self::default()
        };
        // Some editors begin files with an invisible mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            let line_number = index + 1;
            let entry = line.split('#').next().unwrap_or_default().trim();
            if !entry.is_empty() {
                book.enter_line(entry, line_number)
                    .map_err(|problem| wrong(source, line_number, problem))?;
            }
        }
        book.check_routes()?;
        Ok(book)
    }

    /// Enters what a line says: a node, a route, or both.
    fn enter_line(&mut self, entry: &str, line: usize) -> Result<(), String> {
        let (head, vias) = match split_at_via(entry) {
            Some((head, vias)) => (head, Some(vias)),
            None => (entry, None),
        };
        let is_placed = head.split_whitespace().count() > 1;
        if vias.is_none() || is_placed {
            let (node, addresses, name) = parse_entry(head)?;
            self.enter(node, addresses, name, Some(line))
                .map_err(|error| error.to_string())?;
        }
        let Some(vias) = vias else { return Ok(()) };
        let nodes = parse_nodes(head.split_whitespace().next().unwrap_or_default())?;
        let ends = (*nodes.start(), *nodes.end());
        let vias: Result<Vec<_>, _> = vias.split(',').map(|via| parse_node(via.trim())).collect();
        let added = self.routes.add(nodes, &vias?);
        added.map_err(|error| error.to_string())?;
        self.route_lines.insert(ends, line);
        Ok(())
    }

    /// Enters a route: these nodes are reached through the first of `vias` that answers. A single
    /// node may have an address, too, which the nodes of `vias` use.
    ///
    /// # Errors
    /// [`BookError::Route`] if one of the nodes has a route already, or `vias` are not 1 to 8
    /// different nodes. Loops and unknown nodes are found when the node is opened.
    pub fn add_route(&mut self, nodes: RangeInclusive<u32>, vias: &[NodeId]) -> Result<(), Error> {
        let route = |error: RouteError| BookError::Route {
            problem: error.to_string(),
        };
        Ok(self.routes.add(nodes, vias).map_err(route)?)
    }

    /// The nodes through which this one is reached, in the order in which they are tried; none if
    /// it has no route.
    #[must_use]
    pub fn route(&self, node: NodeId) -> Option<&[NodeId]> {
        match self.entries.contains_key(&node) {
            true => self.routes.of_single(node),
            false => self.routes.of(node),
        }
    }

    /// Checks that routes lead to nodes of the book, and that none leads back to itself.
    pub(crate) fn check_routes(&self) -> Result<(), BookError> {
        let singles = self.routes.singles();
        let singles = singles.map(|(node, vias)| (node.0..=node.0, vias));
        for (nodes, vias) in singles.chain(self.routes.ranges()) {
            let unknown =
                |via: &&NodeId| !self.entries.contains_key(via) && self.routes.of(**via).is_none();
            if let Some(via) = vias.iter().find(unknown) {
                let problem = format!("via {via}: the book has no node {via}; give its address");
                return Err(self.blame_route(&nodes, problem));
            }
        }
        let found = self
            .routes
            .find_loop(|node| self.entries.contains_key(&node));
        let Some(nodes) = found else { return Ok(()) };
        let mut way: Vec<_> = nodes.iter().map(NodeId::to_string).collect();
        way.extend(way.first().cloned());
        let problem = format!(
            "the routes lead in a loop: {}; let one of these nodes be reached by its address",
            way.join(" via ")
        );
        let mut all = nodes.iter();
        let single = all.find(|node| self.routes.of_single(**node).is_some());
        let mut ranges = self.routes.ranges().map(|(range, _)| range);
        let blamed = match single {
            Some(node) => Some(node.0..=node.0),
            None => ranges.find(|range| nodes.iter().any(|node| range.contains(&node.0))),
        };
        Err(self.blame_route(&blamed.unwrap_or(0..=0), problem))
    }

    /// An error about the route to these nodes, with file and line if it was read.
    fn blame_route(&self, nodes: &RangeInclusive<u32>, problem: String) -> BookError {
        let line = self.route_lines.get(&(*nodes.start(), *nodes.end()));
        match (&self.source, line) {
            (Some(source), Some(line)) => wrong(source, *line, problem),
            _ => BookError::Route { problem },
        }
    }

    /// Returns how node `own` reaches the others: its neighbours, and the routes of the rest. A
    /// node that is to be reached through `own` is a neighbour.
    pub(crate) fn seen_from(&self, own: NodeId) -> Result<(BTreeSet<NodeId>, Routes), BookError> {
        let mut routes = self.routes.clone();
        routes.remove(own);
        for (node, vias) in self.routes.singles() {
            if !vias.contains(&own) {
                continue;
            }
            if !self.entries.contains_key(&node) {
                let problem = format!(
                    "node {node} is reached through this one, {own}: give its address, as in \
                     \"{node} 192.0.2.7:4000 via {own}\""
                );
                return Err(self.blame_route(&(node.0..=node.0), problem));
            }
            routes.remove(node);
        }
        let placed = self.entries.keys().copied();
        let by_itself = |node: &NodeId| *node != own && routes.of_single(*node).is_none();
        Ok((placed.filter(by_itself).collect(), routes))
    }

    /// Enters a node.
    ///
    /// # Errors
    /// [`BookError::Duplicate`] if the node or the address is there already.
    pub fn add(&mut self, node: NodeId, address: SocketAddr) -> Result<(), Error> {
        Ok(self.enter(node, address.into(), None, None)?)
    }

    /// Enters a node with several addresses, of which the first 8 are tried in turn.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub(crate) fn add_all(&mut self, node: NodeId, addresses: &[SocketAddr]) -> Result<(), Error> {
        Ok(self.enter(node, addresses.iter().copied().collect(), None, None)?)
    }

    fn enter(
        &mut self,
        node: NodeId,
        addresses: Addresses,
        name: Option<Arc<str>>,
        line: Option<usize>,
    ) -> Result<(), BookError> {
        let addresses: Addresses = addresses.as_slice().iter().copied().map(unmapped).collect();
        if self.entries.contains_key(&node) {
            return Err(BookError::Duplicate {
                what: format!("node {node}"),
            });
        }
        for &address in addresses.as_slice() {
            // Port 0 is no address yet, so nodes may share it.
            if address.port() != 0 && !self.taken.insert(address) {
                return Err(BookError::Duplicate {
                    what: format!("address {address}"),
                });
            }
        }
        let entry = Entry {
            addresses,
            name,
            line,
        };
        self.entries.insert(node, entry);
        Ok(())
    }

    /// An error about the address of a node, with file and line if it was read.
    pub(crate) fn blame(&self, node: NodeId, error: Error) -> Error {
        let line = self.entries.get(&node).and_then(|entry| entry.line);
        match (&self.source, line) {
            (Some(source), Some(line)) => wrong(source, line, error.to_string()).into(),
            _ => error,
        }
    }

    /// The address of a node; of several the one that is tried first.
    #[must_use]
    pub fn get(&self, node: NodeId) -> Option<SocketAddr> {
        self.entries.get(&node)?.addresses.first()
    }

    /// All addresses of a node, in the order in which they are tried: more than one if it was
    /// entered by a name that has several, at most 8. None if the node is not there.
    #[must_use]
    pub fn addresses(&self, node: NodeId) -> &[SocketAddr] {
        let entry = self.entries.get(&node);
        entry.map_or(&[], |entry| entry.addresses.as_slice())
    }

    /// All nodes with an address, by ID, with the address that is tried first.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, SocketAddr)> + '_ {
        let entries = self.entries.iter();
        entries.filter_map(|(&node, entry)| Some((node, entry.addresses.first()?)))
    }

    /// The nodes that were entered by a name, each with its text.
    pub(crate) fn names(&self) -> impl Iterator<Item = (NodeId, Arc<str>)> + '_ {
        let entries = self.entries.iter();
        entries.filter_map(|(&node, entry)| Some((node, entry.name.clone()?)))
    }

    /// The file or variable that the book was read from, if it was.
    pub(crate) fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// The number of nodes with an address.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the book has no nodes with an address.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl std::fmt::Display for AddressBook {
    /// The text that [`AddressBook::parse`] reads.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let via = |vias: &[NodeId]| {
            let vias: Vec<_> = vias.iter().map(NodeId::to_string).collect();
            format!(" via {}", vias.join(", "))
        };
        for (node, address) in self.iter() {
            let route = self.routes.of_single(node).map(via);
            writeln!(f, "{node} {address}{}", route.unwrap_or_default())?;
        }
        for (node, vias) in self.routes.singles() {
            if !self.entries.contains_key(&node) {
                writeln!(f, "{node}{}", via(vias))?;
            }
        }
        for (nodes, vias) in self.routes.ranges() {
            match *nodes.end() {
                u32::MAX => write!(f, "{}..", nodes.start())?,
                last => write!(f, "{}..{last}", nodes.start())?,
            }
            writeln!(f, "{}", via(vias))?;
        }
        Ok(())
    }
}

/// An IPv4 address that was written as IPv6, as IPv4: else one address could be entered twice.
fn unmapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(ip) => SocketAddr::new(ip.into(), v6.port()),
            None => address,
        },
        SocketAddr::V4(_) => address,
    }
}

/// The error of a line with its place.
fn wrong(source: &str, line: usize, problem: String) -> BookError {
    let place = format!("{source}:{line}");
    BookError::Line { place, problem }
}

/// Reads the bytes of a file. An endless file, such as a device named by mistake, must not fill the
/// memory.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    Patient::open(path)?
        .take(LONGEST + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::other("longer than 64 MiB"));
    }
    Ok(bytes)
}

/// A file whose reader waits as long as a writer may still write to it.
struct Patient {
    file: File,
    /// A pipe on which nothing came yet; perhaps it has no writer.
    deserted: bool,
}

impl Patient {
    /// Opens a file. Opening a named pipe in the usual way would wait for its writer for ever, and
    /// nothing would say so.
    fn open(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        let options = options.read(true).custom_flags(libc::O_NONBLOCK);
        let file = options.open(path)?;
        let mut deserted = file.metadata()?.file_type().is_fifo();
        let end = Instant::now() + WRITER;
        while deserted && Instant::now() < end {
            let left = end.saturating_duration_since(Instant::now());
            deserted = !sys::sleep(file.as_raw_fd(), None, Some(left))?.input;
        }
        Ok(Self { file, deserted })
    }
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read(buffer) {
                // A writer is there, and slow.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.deserted = false;
                    sys::sleep(self.file.as_raw_fd(), None, None)?;
                }
                Ok(0) if self.deserted => {
                    return Err(io::Error::other("a pipe that nobody writes to"));
                }
                done => return done,
            }
        }
    }
}

fn parse_entry(entry: &str) -> Result<(NodeId, Addresses, Option<Arc<str>>), String> {
    let mut words = entry.split_whitespace();
    let (Some(id), Some(address), None) = (words.next(), words.next(), words.next()) else {
        return Err(format!(
            "\"{}\": write \"id address:port\", as in \"3 192.0.2.7:4000\"",
            shown(entry)
        ));
    };
    let node = parse_node(id)?;
    let addresses = parse_address(address)
        .map_err(|problem| format!("address \"{}\": {problem}", shown(address)))?;
    // Zones are names of this machine, which stay.
    let is_name = address.parse::<SocketAddr>().is_err() && !address.contains('%');
    Ok((node, addresses, is_name.then(|| address.into())))
}

fn parse_node(id: &str) -> Result<NodeId, String> {
    number(id).map(NodeId).ok_or_else(|| {
        let id = shown(id);
        format!("node ID \"{id}\": write a number from 0 to {}", u32::MAX)
    })
}

/// Returns the text before the word "via" and the text behind it. A name that begins with these
/// letters, or has them in it, is not that word.
fn split_at_via(entry: &str) -> Option<(&str, &str)> {
    entry.match_indices("via").find_map(|(at, via)| {
        let (head, vias) = (entry.get(..at)?, entry.get(at + via.len()..)?);
        let stands_alone = head.ends_with(char::is_whitespace)
            && (vias.is_empty() || vias.starts_with(char::is_whitespace));
        stands_alone.then(|| (head.trim(), vias))
    })
}

/// The nodes of a route: one, or all from one to another, both included, or all from one on.
fn parse_nodes(text: &str) -> Result<RangeInclusive<u32>, String> {
    let Some((first, last)) = text.split_once("..") else {
        let node = parse_node(text)?.0;
        return Ok(node..=node);
    };
    let last = match last {
        "" => u32::MAX,
        last => parse_node(last)?.0,
    };
    Ok(parse_node(first)?.0..=last)
}

/// The addresses, with port, of one host: one, or those of a name.
pub(crate) fn parse_address(text: &str) -> Result<Addresses, String> {
    let remedy = match text.contains('%') {
        true => NO_ZONE,
        false => "write address:port, as in 192.0.2.7:4000, [2001:db8::7]:4000 or name:4000",
    };
    let found = match text.parse() {
        Ok(address) => vec![address],
        // The system knows zones that are names, but no brackets.
        Err(_) if text.contains('%') => {
            let found = text.replace(['[', ']'], "").to_socket_addrs();
            found.map_err(|_| remedy.to_owned())?.collect()
        }
        // Without brackets the end of an IPv6 address cannot be told.
        Err(_) if text.rsplit_once(':').is_some_and(|it| it.0.contains(':')) => {
            return Err(remedy.to_owned());
        }
        Err(_) => {
            let found = text.to_socket_addrs();
            found
                .map_err(|error| format!("{error}; {remedy}"))?
                .collect()
        }
    };
    let usable = found.iter().copied().filter(|at| no_host(*at).is_none());
    let usable = by_turns(&usable.collect::<Vec<_>>());
    match (usable.first(), found.first()) {
        (Some(_), _) => Ok(usable),
        (None, Some(first)) => Err(no_host(*first).unwrap_or(remedy).to_owned()),
        (None, None) => Err(remedy.to_owned()),
    }
}

/// Addresses of both families alternately, beginning with that of the first, which the system
/// prefers.
fn by_turns(found: &[SocketAddr]) -> Addresses {
    let preferred = |at: &&SocketAddr| found.first().map(SocketAddr::is_ipv4) == Some(at.is_ipv4());
    let (mut first, mut second): (VecDeque<_>, VecDeque<_>) = found.iter().partition(preferred);
    let mut ordered = Vec::new();
    while let Some(address) = first.pop_front() {
        ordered.push(address);
        std::mem::swap(&mut first, &mut second);
        if first.is_empty() {
            std::mem::swap(&mut first, &mut second);
        }
    }
    ordered.into_iter().collect()
}

/// Returns the reason why no node can be at an address, seen from any host.
pub(crate) fn no_host(address: SocketAddr) -> Option<&'static str> {
    let ip = address.ip().to_canonical();
    if address.port() == 0 {
        Some("port 0 is nobody's; name the real port")
    } else if ip.is_unspecified() || ip.is_multicast() || ip == Ipv4Addr::BROADCAST {
        Some("it is not the address of one host; name the node's own")
    } else if Behind::at(address).is_some() {
        Some("it stands for a node behind others; write \"via\" and a neighbour")
    } else {
        None
    }
}

/// A number of digits alone.
pub(crate) fn number(text: &str) -> Option<u32> {
    // `parse` takes a sign as well.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// The beginning of a text from outside, without characters that would move a terminal.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 64;
    let beginning: String = text.chars().take(MOST).collect();
    let mut shown = beginning.escape_debug().to_string();
    if beginning.len() < text.len() {
        shown.push_str(&format!(".. of {} bytes", text.len()));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        AddressBook::parse(text, "book").unwrap_err().to_string()
    }

    #[test]
    fn reads_comments_blanks_and_both_families() {
        let text = "# cluster\n\n 0 127.0.0.1:4000\n7\t[::1]:4001 # seven\n";
        let book = AddressBook::parse(text, "book").unwrap();
        assert_eq!(book.get(NodeId(0)), Some("127.0.0.1:4000".parse().unwrap()));
        assert_eq!(book.get(NodeId(7)), Some("[::1]:4001".parse().unwrap()));
        assert_eq!(book.len(), 2);
        assert_eq!(
            AddressBook::parse(&book.to_string(), "again").unwrap(),
            book
        );
    }

    #[test]
    fn reads_routes() {
        let text = "1 127.0.0.1:1\n2 127.0.0.1:2 # forwards\n7 via 2, 1\n8 127.0.0.1:8 via 2\n\
                    10..19\tvia 2\n20.. via 7\n";
        let book = AddressBook::parse(text, "book").unwrap();
        let route = |node| book.route(NodeId(node)).unwrap_or_default().to_vec();
        let [one, two, seven] = [1, 2, 7].map(NodeId);
        assert_eq!((route(7), route(8)), (vec![two, one], vec![two]));
        assert_eq!(
            (route(9), route(10), route(19)),
            (vec![], vec![two], vec![two])
        );
        assert_eq!((route(20), route(u32::MAX)), (vec![seven], vec![seven]));
        assert_eq!((book.get(seven), book.len()), (None, 3));
        let again = AddressBook::parse(&book.to_string(), "again").unwrap();
        assert_eq!(again, book);
    }

    #[test]
    fn a_book_is_read_from_where_its_node_is() {
        let text = "1 127.0.0.1:1\n2 127.0.0.1:2\n8 127.0.0.1:8 via 2\n9 via 8";
        let book = AddressBook::parse(text, "book").unwrap();
        let neighbours = |own| {
            let (neighbours, _) = book.seen_from(NodeId(own)).unwrap();
            neighbours.iter().map(|node| node.0).collect::<Vec<_>>()
        };
        assert_eq!(neighbours(1), [2]);
        assert_eq!(neighbours(2), [1, 8]);
        assert_eq!(neighbours(9), [1, 2]);
        let said = book.seen_from(NodeId(8)).unwrap_err().to_string();
        assert!(
            said.starts_with("book:4: node 9 is reached through this one"),
            "{said}"
        );
    }

    #[test]
    fn wrong_routes_are_refused_with_their_line() {
        for (text, said) in [
            ("1 127.0.0.1:1\n7 via", "book:2: node ID \"\""),
            (
                "7 [100::%7]:1",
                "book:1: address \"[100::%7]:1\": it stands for a node behind others",
            ),
            ("1 127.0.0.1:1\n7 via1", "book:2: address \"via1\""),
            ("1 127.0.0.1:1\n7 via via", "book:2: node ID \"via\""),
            ("1 127.0.0.1:1\n7 via 1,", "book:2: node ID \"\""),
            ("1 127.0.0.1:1\nvia 1", "book:2: node ID \"via\""),
            ("7.. via 9", "book:1: the routes lead in a loop: 9 via 9"),
            ("7 via 9\n7..8 via 1\n1 127.0.0.1:1", "book:1: via 9"),
            ("7 via 3", "book:1: via 3: the book has no node 3"),
            ("7 via 7", "book:1: node 7 via itself"),
            (
                "1 127.0.0.1:1\n7 via 1, 1",
                "book:2: name 1 to 8 different nodes",
            ),
            (
                "1 127.0.0.1:1\n7 via 1\n7 via 1",
                "book:3: node 7 has a route already",
            ),
            (
                "1 127.0.0.1:1\n9..7 via 1",
                "book:2: the range has no nodes",
            ),
            ("1 127.0.0.1:1\n9..x via 1", "book:2: node ID \"x\""),
            (
                "1 127.0.0.1:1\n5..7 127.0.0.1:9 via 1",
                "book:2: node ID \"5..7\"",
            ),
            (
                "3 via 5\n5 via 3",
                "book:2: the routes lead in a loop: 5 via 3 via 5",
            ),
            (
                "1 127.0.0.1:1\n3 via 1, 5\n4.. via 3",
                "book:2: the routes lead in a loop",
            ),
        ] {
            let refused = refusal(text);
            assert!(refused.starts_with(said), "{text:?}: {refused}");
        }
    }

    #[test]
    fn families_take_turns_and_the_first_stays_first() {
        let all = |text: &str| -> Vec<SocketAddr> {
            text.split(' ').map(|at| at.parse().unwrap()).collect()
        };
        for (found, tried) in [
            ("[::1]:1 127.0.0.1:1", "[::1]:1 127.0.0.1:1"),
            (
                "[::1]:1 [::2]:1 127.0.0.1:1 [::1]:1",
                "[::1]:1 127.0.0.1:1 [::2]:1",
            ),
            (
                "127.0.0.1:1 127.0.0.2:1 127.0.0.3:1 [::1]:1",
                "127.0.0.1:1 [::1]:1 127.0.0.2:1 127.0.0.3:1",
            ),
        ] {
            assert_eq!(by_turns(&all(found)).as_slice(), all(tried), "{found}");
        }
        let many: Vec<_> = (1..100)
            .map(|port| SocketAddr::from(([127, 0, 0, 1], port)))
            .collect();
        assert_eq!(by_turns(&many).as_slice().len(), 8, "bounded");
    }

    #[test]
    fn a_name_has_all_its_addresses() {
        let book = AddressBook::parse("0 localhost:4000\n1 localhost:4001\n", "book").unwrap();
        let here: SocketAddr = "127.0.0.1:4000".parse().unwrap();
        assert!(book.addresses(NodeId(0)).contains(&here));
        assert!(
            book.addresses(NodeId(0))
                .iter()
                .all(|at| at.ip().is_loopback())
        );
        assert!(book.addresses(NodeId(7)).is_empty());
    }

    #[test]
    fn a_zone_is_a_name_or_a_number() {
        let text = "0 [fe80::1%lo]:4000\n1 [fe80::2%1]:4000\n";
        let book = AddressBook::parse(text, "book").unwrap();
        let zones = book.iter().map(|(_, address)| match address {
            SocketAddr::V6(address) => address.scope_id(),
            SocketAddr::V4(_) => 0,
        });
        assert_eq!(zones.collect::<Vec<_>>(), [1, 1]);
    }

    #[test]
    fn refuses_bad_lines_with_file_line_value_and_remedy() {
        for (text, place, value) in [
            ("0 127.0.0.1:1\nx 127.0.0.1:2", "book:2: ", "\"x\""),
            ("0 127.0.0.1", "book:1: ", "\"127.0.0.1\""),
            ("#\n#\n0 127.0.0.1:0", "book:3: ", "port 0"),
            ("0", "book:1: ", "\"0\""),
            ("0 127.0.0.1:1 2", "book:1: ", "write \"id address:port\""),
            ("4294967296 127.0.0.1:1", "book:1: ", "\"4294967296\""),
            ("0 ::1:1", "book:1: ", "\"::1:1\""),
            (
                "0 [fe80::1%nowhere]:1",
                "book:1: ",
                "an interface of this machine by name or number",
            ),
            ("+1 127.0.0.1:1", "book:1: ", "\"+1\""),
            ("0 0.0.0.0:1", "book:1: ", "\"0.0.0.0:1\": it is not"),
            ("0 [::]:1", "book:1: ", "name the node's own"),
            ("0 [::ffff:0.0.0.0]:1", "book:1: ", "not the address of one"),
            ("0 239.0.0.1:1", "book:1: ", "not the address of one"),
            ("0 [ff02::1]:1", "book:1: ", "not the address of one"),
            ("0 255.255.255.255:1", "book:1: ", "not the address of one"),
            ("\n0\0 127.0.0.1:1", "book:2: ", "\"0\\0\""),
            ("0 \u{1b}[2J:1", "book:1: ", "\"\\u{1b}[2J:1\""),
            ("0 \u{1b}[2J", "book:1: ", "\"\\u{1b}[2J\""),
            ("\u{7}", "book:1: ", "\"\\u{7}\""),
        ] {
            let said = refusal(text);
            assert!(
                said.starts_with(place) && said.contains(value),
                "{text:?} gave {said:?}"
            );
        }
    }

    #[test]
    fn a_long_text_is_shown_in_part() {
        let long = "x".repeat(100_000);
        for text in [&long, &format!("{long} 127.0.0.1:1"), &format!("0 {long}")] {
            let said = refusal(text);
            assert!(
                said.len() < 250 && said.contains("xxx.. of 100000 bytes\""),
                "{said}"
            );
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_named_with_file_and_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("book");
        std::fs::write(&path, b"0 127.0.0.1:1\n# caf\xC3\xA9\n1 caf\xE9:4000\n").unwrap();
        let said = AddressBook::read(&path).unwrap_err().to_string();
        let place = format!("{}:3: byte 0xE9 ", path.display());
        assert!(said.starts_with(&place), "{said}");
    }

    #[test]
    fn refuses_duplicates_with_file_and_line() {
        let said = refusal("1 127.0.0.1:1\n2 127.0.0.1:2\n1 127.0.0.1:3");
        assert!(
            said.starts_with("book:3: node 1 is entered twice"),
            "{said}"
        );
        let said = refusal("1 127.0.0.1:1\n2 127.0.0.1:1");
        assert!(
            said.starts_with("book:2: address 127.0.0.1:1 is entered twice"),
            "{said}"
        );
    }

    #[test]
    fn a_mark_at_the_beginning_and_dos_line_ends_are_no_part_of_an_entry() {
        let book =
            AddressBook::parse("\u{feff}0 127.0.0.1:1\r\n1 127.0.0.1:2\r\n", "book").unwrap();
        assert_eq!(book.to_string(), "0 127.0.0.1:1\n1 127.0.0.1:2\n");
    }

    #[test]
    fn one_address_in_two_spellings_is_a_duplicate() {
        let said = refusal("1 127.0.0.1:1\n2 [::ffff:127.0.0.1]:1");
        assert!(
            said.starts_with("book:2: address 127.0.0.1:1 is entered twice"),
            "{said}"
        );
    }

    #[test]
    fn a_book_without_end_is_refused() {
        let said = AddressBook::read("/dev/zero").unwrap_err().to_string();
        assert!(
            said.starts_with("address book /dev/zero: longer than 64 MiB; name "),
            "{said}"
        );
    }

    /// A pipe with a name, in a directory that goes with it.
    fn pipe() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        (dir, path)
    }

    #[test]
    fn a_pipe_that_nobody_writes_to_is_refused() {
        let (_dir, path) = pipe();
        let (told, said) = std::sync::mpsc::channel();
        // On a thread of its own, which a call that never returns keeps.
        std::thread::spawn(move || drop(told.send(AddressBook::read(path))));
        let said = said.recv_timeout(4 * WRITER).expect("it hangs");
        let said = said.unwrap_err().to_string();
        assert!(
            said.contains("pipe: a pipe that nobody writes to; "),
            "{said}"
        );
    }

    #[test]
    fn a_pipe_is_read_however_late_and_slowly_it_is_written() {
        use std::io::Write;
        let (_dir, path) = pipe();
        let to = path.clone();
        let writer = std::thread::spawn(move || {
            let pause = || std::thread::sleep(Duration::from_millis(100));
            pause();
            let mut to = File::options().write(true).open(to).unwrap();
            for piece in ["", "0 127.0.", "0.1:4000\n1 127.0.0.1:4001"] {
                pause();
                to.write_all(piece.as_bytes()).unwrap();
            }
        });
        let book = AddressBook::read(path).unwrap();
        writer.join().unwrap();
        assert_eq!(book.len(), 2);
        // The path is as process substitution names it. The writer is already gone here.
        let (from, mut to) = io::pipe().unwrap();
        to.write_all(b"5 127.0.0.1:4000").unwrap();
        drop(to);
        let book = AddressBook::read(format!("/dev/fd/{}", from.as_raw_fd())).unwrap();
        assert_eq!(book.len(), 1);
    }

    #[test]
    fn an_unreadable_file_is_named() {
        let said = AddressBook::read("/nonexistent/book")
            .unwrap_err()
            .to_string();
        assert!(
            said.starts_with("address book /nonexistent/book: "),
            "{said}"
        );
    }
}
