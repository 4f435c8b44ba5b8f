//! One process of a halo exchange as most parallel programs have it: a `send` and a `recv` for each
//! edge, and no computation.
//!
//! `halo-rank TRANSPORT PROCESSES RANK PORT EDGE ITERATIONS` is the process RANK of PROCESSES (a
//! power of two) on loopback, at PORT + RANK; TRANSPORT is `suci` or `tcp`. An iteration sends EDGE
//! bytes to the neighbour in the first dimension and a quarter of that to the neighbours in the
//! others, receives as much from each, and adds up one number over all processes by recursive
//! doubling. Prints the seconds and the processor seconds of the iterations, after a tenth more of
//! them to warm up.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use suci::{AddressBook, Bytes, ChannelId, Node, NodeId, OutgoingMessage};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The longest wait for a process that has not started yet, and for one message.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes of the number that all add up.
const NUMBER: usize = 8;

/// Messages to and from other processes, each sender's in order.
trait Transport {
    fn send(&mut self, to: usize, bytes: &[u8]) -> Result<()>;

    /// Receives the next message from one process, which has as many bytes as `into`.
    fn recv(&mut self, from: usize, into: &mut [u8]) -> Result<()>;
}

/// A connection to each neighbour, without Nagle's algorithm.
struct Tcp(Vec<Option<TcpStream>>);

impl Tcp {
    fn connect(rank: usize, processes: usize, at: impl Fn(usize) -> SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(at(rank))?;
        let mut streams: Vec<Option<TcpStream>> = (0..processes).map(|_| None).collect();
        for neighbour in neighbours(rank, processes) {
            let stream = if neighbour < rank {
                let mut stream = call(at(neighbour))?;
                stream.write_all(&[u8::try_from(rank)?])?;
                stream
            } else {
                continue;
            };
            streams[neighbour] = Some(stream);
        }
        for _ in neighbours(rank, processes).filter(|neighbour| *neighbour > rank) {
            let (mut stream, _) = listener.accept()?;
            let mut name = [0];
            stream.read_exact(&mut name)?;
            let place = streams.get_mut(usize::from(name[0]));
            *place.ok_or("an unknown process calls")? = Some(stream);
        }
        for stream in streams.iter().flatten() {
            stream.set_nodelay(true)?;
        }
        Ok(Self(streams))
    }

    fn stream(&mut self, other: usize) -> Result<&mut TcpStream> {
        let stream = self.0.get_mut(other).and_then(Option::as_mut);
        stream.ok_or_else(|| "not a neighbour".into())
    }
}

/// Connects to a process that may not listen yet.
fn call(to: SocketAddr) -> Result<TcpStream> {
    let end = Instant::now() + PATIENCE;
    loop {
        match TcpStream::connect(to) {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() > end => return Err(error.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

impl Transport for Tcp {
    fn send(&mut self, to: usize, bytes: &[u8]) -> Result<()> {
        Ok(self.stream(to)?.write_all(bytes)?)
    }

    fn recv(&mut self, from: usize, into: &mut [u8]) -> Result<()> {
        Ok(self.stream(from)?.read_exact(into)?)
    }
}

/// A node with its defaults.
struct Suci(Node);

impl Suci {
    fn open(rank: usize, processes: usize, at: impl Fn(usize) -> SocketAddr) -> Result<Self> {
        let mut book = AddressBook::new();
        for neighbour in neighbours(rank, processes) {
            book.add(id(neighbour)?, at(neighbour))?;
        }
        let builder = Node::builder().id(id(rank)?).book(book).listen(at(rank));
        Ok(Self(builder.open()?))
    }
}

impl Transport for Suci {
    fn send(&mut self, to: usize, bytes: &[u8]) -> Result<()> {
        let message = OutgoingMessage::new(Bytes::copy_from_slice(bytes));
        self.0.send(id(to)?, message)?;
        Ok(())
    }

    fn recv(&mut self, from: usize, into: &mut [u8]) -> Result<()> {
        let message = self
            .0
            .recv_from_timeout((id(from)?, ChannelId(0)), PATIENCE)?;
        let message = message.ok_or("a neighbour is silent")?;
        if message.payload.len() != into.len() {
            return Err("a message of another length".into());
        }
        into.copy_from_slice(&message.payload);
        Ok(())
    }
}

fn id(rank: usize) -> Result<NodeId> {
    Ok(NodeId(u32::try_from(rank)?))
}

/// The neighbours of a process in a hypercube, that of the first dimension first.
fn neighbours(rank: usize, processes: usize) -> impl Iterator<Item = usize> {
    (0..processes.trailing_zeros()).map(move |dimension| rank ^ (1 << dimension))
}

/// Sends and receives the edges, then adds up `number`.
fn iterate(
    transport: &mut dyn Transport,
    neighbours: &[usize],
    edge: &[u8],
    into: &mut [u8],
    number: f64,
) -> Result<f64> {
    let length = |at: usize| if at == 0 { edge.len() } else { edge.len() / 4 };
    for (at, neighbour) in neighbours.iter().enumerate() {
        transport.send(*neighbour, &edge[..length(at)])?;
    }
    for (at, neighbour) in neighbours.iter().enumerate() {
        transport.recv(*neighbour, &mut into[..length(at)])?;
    }
    let mut sum = number;
    for neighbour in neighbours {
        let mut theirs = [0; NUMBER];
        transport.send(*neighbour, &sum.to_le_bytes())?;
        transport.recv(*neighbour, &mut theirs)?;
        sum += f64::from_le_bytes(theirs);
    }
    Ok(sum)
}

/// Processor seconds of this process, all threads.
fn processor() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "seconds of a short run")]
    let seconds = time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9;
    seconds
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [transport, numbers @ ..] = arguments.as_slice() else {
        return Err("halo-rank TRANSPORT PROCESSES RANK PORT EDGE ITERATIONS".into());
    };
    let numbers: Vec<usize> = numbers
        .iter()
        .map(|it| it.parse())
        .collect::<std::result::Result<_, _>>()?;
    let [processes, rank, port, edge, iterations] = numbers[..] else {
        return Err("five numbers".into());
    };
    let port = u16::try_from(port)?;
    let at = |rank: usize| {
        let shift = u16::try_from(rank).unwrap_or(u16::MAX);
        SocketAddr::from((Ipv4Addr::LOCALHOST, port.saturating_add(shift)))
    };
    let mut transport: Box<dyn Transport> = match transport.as_str() {
        "tcp" => Box::new(Tcp::connect(rank, processes, at)?),
        "suci" => Box::new(Suci::open(rank, processes, at)?),
        other => return Err(format!("no transport {other}").into()),
    };
    let neighbours: Vec<usize> = neighbours(rank, processes).collect();
    let (sent, mut received) = (vec![1; edge], vec![0; edge]);
    let mut iterate = |count: usize| -> Result<()> {
        for _ in 0..count {
            let sum = iterate(&mut *transport, &neighbours, &sent, &mut received, 1.0)?;
            if sum != processes as f64 {
                return Err(format!("the sum is {sum}").into());
            }
        }
        Ok(())
    };
    iterate(iterations / 10)?;
    let (begun, cpu) = (Instant::now(), processor());
    iterate(iterations)?;
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), processor() - cpu);
    println!("{{\"seconds\":{seconds},\"cpu_seconds\":{cpu}}}");
    Ok(())
}
