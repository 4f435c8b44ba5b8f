//! Messages over TCP connections in one of several topologies.
//!
//! Each message has a small header with destination, source and length. Where two processes are not
//! connected, those between forward it: by a thread, since their programs compute. In a complete
//! graph nobody forwards, so the program itself reads its sockets, without a hop between threads.

mod links;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use suci::Bytes;

use crate::topology::Topology;
use crate::transport::{Message, Result, Tag, Transport};
use links::{Link, Links, wait_for_input};

/// The longest wait for the connections at the start.
const STARTING: Duration = Duration::from_secs(20);

/// How often the accepting process looks whether a connection has come.
const LOOK: Duration = Duration::from_millis(1);

pub(crate) struct Tcp {
    rank: usize,
    size: usize,
    /// The program holds it while it sends or waits; the forwarding thread uses it in between.
    links: Arc<Mutex<Links>>,
    streams: Vec<Arc<TcpStream>>,
    forwarder: Option<JoinHandle<()>>,
}

impl Tcp {
    /// Connects process `rank` to its neighbours. `addresses` has those of all processes, each of
    /// which listens already.
    pub(crate) fn connect(
        topology: Topology,
        rank: usize,
        listener: &TcpListener,
        addresses: &[SocketAddr],
    ) -> Result<Self> {
        let size = addresses.len();
        let neighbours = topology.neighbours(rank, size);
        let mut streams = BTreeMap::new();
        // The higher of two ranks connects and says who it is.
        for (&lower, address) in neighbours.iter().zip(select(&neighbours, addresses)) {
            if lower < rank {
                let mut stream = TcpStream::connect_timeout(&address, STARTING)?;
                stream.write_all(&u16::try_from(rank)?.to_le_bytes())?;
                streams.insert(lower, stream);
            }
        }
        let until = Instant::now() + STARTING;
        while streams.len() < neighbours.len() {
            let (other, stream) = accept(listener, until)?;
            if other <= rank || !neighbours.contains(&other) || streams.contains_key(&other) {
                return Err(format!("process {other} must not connect to {rank}").into());
            }
            streams.insert(other, stream);
        }
        let mut links = Vec::new();
        for (other, stream) in streams {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            links.push(Link::new(other, Arc::new(stream)));
        }
        let streams: Vec<_> = links.iter().map(Link::stream).collect();
        let steps = topology.first_steps(rank, size);
        let links = Arc::new(Mutex::new(Links::new(rank, steps, links)));
        let forwarder = topology.forwards(size).then(|| {
            let (links, streams) = (Arc::clone(&links), streams.clone());
            thread::spawn(move || forward(&links, &streams))
        });
        Ok(Self {
            rank,
            size,
            links,
            streams,
            forwarder,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The addresses of `ranks`.
fn select(ranks: &[usize], addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let of = |rank: &usize| addresses.get(*rank).copied();
    ranks.iter().filter_map(of).collect()
}

/// Waits for a connection. Returns the rank that its process names, and the connection.
fn accept(listener: &TcpListener, until: Instant) -> Result<(usize, TcpStream)> {
    listener.set_nonblocking(true)?;
    while Instant::now() < until {
        match listener.accept() {
            Ok((mut stream, _)) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(STARTING))?;
                let mut rank = [0; 2];
                stream.read_exact(&mut rank)?;
                return Ok((u16::from_le_bytes(rank).into(), stream));
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => thread::sleep(LOOK),
            Err(error) => return Err(error.into()),
        }
    }
    Err("a process did not connect in time: see what it said".into())
}

/// Forwards messages of others while the program computes. While the program sends or waits, it has
/// the lock and forwards them itself. A failure ends the thread; the program meets it, too.
fn forward(links: &Mutex<Links>, streams: &[Arc<TcpStream>]) {
    loop {
        {
            let mut links = links.lock().unwrap_or_else(PoisonError::into_inner);
            if links.is_over || links.progress(false).and_then(|()| links.flush()).is_err() {
                return;
            }
        }
        if wait_for_input(streams).is_err() {
            return;
        }
    }
}

impl Transport for Tcp {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn send(&mut self, to: usize, tag: Tag, payload: Bytes) -> Result<()> {
        let mut links = self.lock();
        links.send(to, tag, &payload)?;
        links.flush()
    }

    fn recv(&mut self, _: Option<usize>) -> Result<Message> {
        let mut links = self.lock();
        loop {
            if let Some(message) = links.take() {
                // Kept bytes would otherwise wait until the forwarding thread looks again.
                links.flush()?;
                return Ok(message);
            }
            links.progress(true)?;
        }
    }

    fn try_recv(&mut self) -> Result<Option<Message>> {
        let mut links = self.lock();
        links.progress(false)?;
        links.flush()?;
        Ok(links.take())
    }

    fn close(&mut self) -> Result<()> {
        self.lock().close()
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        // The end of the connections wakes the forwarding thread, and tells the neighbours if this
        // process failed.
        for stream in &self.streams {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.lock().is_over = true;
        if let Some(forwarder) = self.forwarder.take() {
            let _ = forwarder.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::topology::tests::ALL;

    /// Runs `program` in `size` threads, each of which is a process of the network.
    fn run(topology: Topology, size: usize, program: impl Fn(&mut Tcp) + Send + Sync) {
        let listen = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let listeners: Vec<TcpListener> = (0..size).map(listen).collect();
        let addresses = listeners.iter().map(|one| one.local_addr().unwrap());
        let addresses: Vec<SocketAddr> = addresses.collect();
        thread::scope(|scope| {
            for (rank, listener) in listeners.iter().enumerate() {
                let (program, addresses) = (&program, &addresses);
                scope.spawn(move || {
                    let mut tcp = Tcp::connect(topology, rank, listener, addresses).unwrap();
                    program(&mut tcp);
                    tcp.close().unwrap();
                });
            }
        });
    }

    /// Each process sends to each other and receives from each other: in order, and complete.
    fn all_to_all(topology: Topology, size: usize, lengths: &[usize]) {
        run(topology, size, |tcp| {
            let rank = tcp.rank();
            for &length in lengths {
                for to in (0..size).filter(|&to| to != rank) {
                    let payload = vec![u8::try_from(rank * size + to).unwrap(); length];
                    tcp.send(to, Tag(7), payload.into()).unwrap();
                }
            }
            let mut counts = vec![0; size];
            for _ in 0..lengths.len() * (size - 1) {
                let message = tcp.recv(None).unwrap();
                let byte = u8::try_from(message.from * size + rank).unwrap();
                assert_eq!(message.payload.len(), lengths[counts[message.from]]);
                assert!(message.payload.iter().all(|&found| found == byte));
                assert_eq!(message.tag, Tag(7));
                counts[message.from] += 1;
            }
            assert_eq!(tcp.try_recv().unwrap(), None);
        });
    }

    #[test]
    fn each_topology_delivers_from_all_to_all() {
        for topology in ALL {
            for size in [1, 2, 3, 7, 8] {
                all_to_all(topology, size, &[0, 1, 1000, 20, 70_000]);
            }
        }
    }

    /// More than sockets hold: nobody may wait for one that waits itself.
    #[test]
    fn long_messages_do_not_block_a_ring() {
        for topology in [Topology::Complete, Topology::Ring] {
            all_to_all(topology, 4, &[6 << 20, 6 << 20]);
        }
    }

    /// A program that computes does not receive, but its process forwards.
    #[test]
    fn a_busy_program_forwards() {
        let done = std::sync::Barrier::new(2);
        run(Topology::Chain, 3, |tcp| match tcp.rank() {
            0 => {
                tcp.send(2, Tag(1), vec![5; 1 << 20].into()).unwrap();
                assert_eq!(&tcp.recv(Some(2)).unwrap().payload[..], b"got it");
                done.wait();
            }
            1 => {
                done.wait();
            }
            _ => {
                assert_eq!(tcp.recv(Some(0)).unwrap().payload.len(), 1 << 20);
                tcp.send(0, Tag(1), Bytes::from_static(b"got it")).unwrap();
            }
        });
    }

    #[test]
    fn a_process_that_fails_is_noticed_by_all() {
        let listeners = [0, 1, 2].map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        let addresses = listeners.each_ref().map(|one| one.local_addr().unwrap());
        thread::scope(|scope| {
            for (rank, listener) in listeners.iter().enumerate() {
                let addresses = &addresses;
                scope.spawn(move || {
                    let connected = Tcp::connect(Topology::Chain, rank, listener, addresses);
                    let mut tcp = connected.unwrap();
                    if rank > 0 {
                        let failure = tcp.recv(Some(0)).unwrap_err();
                        let expected = format!("process {} ended", rank - 1);
                        assert!(failure.to_string().contains(&expected), "{failure}");
                    }
                });
            }
        });
    }
}
