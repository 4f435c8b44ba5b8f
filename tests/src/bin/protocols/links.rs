//! The protocols.

use super::Result;
use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::rc::Rc;
use std::time::{Duration, Instant};
use suci::active::{ActiveError, ActiveMessages};
use suci::{AcceptPolicy, Bytes, Error, Node, NodeId, WaitPolicy, env};

/// Longest datagram without IP fragments at an MTU of 1500.
const DATAGRAM: usize = 1472;

/// How long an end waits for the other.
const PATIENCE: Duration = Duration::from_secs(20);

/// The receive buffer that UDP asks for.
const BUFFER: usize = 4 << 20;

/// The end of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// At this address.
    Serve(SocketAddr),
    /// The server's address, and this end's.
    Call(SocketAddr, SocketAddr),
}

/// One end of a protocol.
pub(crate) trait Link {
    /// Sends a message.
    fn send(&mut self, message: &[u8]) -> Result<()>;
    /// Receives at least `least` bytes, and returns how many: 0 at the end.
    fn receive(&mut self, least: usize) -> Result<usize>;
    /// Tells the server that there is no more, and waits until it knows that if it can tell.
    fn end(&mut self) -> Result<()>;
    /// Tells the client that the server knows.
    fn part(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Opens a link: for a stream it sleeps while it waits, else it spins.
pub(crate) fn open(method: &str, way: Way, is_stream: bool) -> Result<Box<dyn Link>> {
    Ok(match method {
        "tcp" => Box::new(Tcp::open(way, is_stream)?),
        "udp" => Box::new(Udp::open(way, is_stream)?),
        "suci" => Box::new(Suci::open(way, is_stream)?),
        "fm" => Box::new(FastMessages::open(way, is_stream)?),
        _ => return Err(format!("no method {method}: there are tcp, udp, suci, fm").into()),
    })
}

fn ready() {
    println!("ready");
}

/// Repeats a call of a socket that spins while it would block.
fn spin<T>(mut call: impl FnMut() -> std::io::Result<T>) -> Result<T> {
    let mut begun = None;
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let begun = begun.get_or_insert_with(Instant::now);
                if begun.elapsed() > PATIENCE {
                    return Err("the other end is silent".into());
                }
            }
            result => return Ok(result?),
        }
    }
}

struct Tcp {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Tcp {
    fn open(way: Way, is_stream: bool) -> Result<Self> {
        let stream = match way {
            Way::Serve(at) => {
                let listener = TcpListener::bind(at)?;
                ready();
                listener.accept()?.0
            }
            Way::Call(at, _) => TcpStream::connect(at)?,
        };
        stream.set_nodelay(!is_stream)?;
        stream.set_nonblocking(!is_stream)?;
        Ok(Self {
            stream,
            buffer: vec![0; 64 << 10],
        })
    }
}

impl Link for Tcp {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        let mut rest = message;
        while !rest.is_empty() {
            let sent = spin(|| self.stream.write(rest))?;
            rest = rest.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    fn receive(&mut self, least: usize) -> Result<usize> {
        let mut received = 0;
        while received < least {
            // A question and its answer must not be read together.
            let room = if least > 1 {
                least - received
            } else {
                self.buffer.len()
            };
            let room = room.min(self.buffer.len());
            let into = self.buffer.get_mut(..room).unwrap_or_default();
            match spin(|| self.stream.read(into))? {
                0 => return Ok(0),
                length => received += length,
            }
        }
        Ok(received)
    }

    fn end(&mut self) -> Result<()> {
        Ok(self.stream.shutdown(Shutdown::Write)?)
    }
}

struct Udp {
    socket: UdpSocket,
    is_connected: bool,
    buffer: [u8; 2048],
}

impl Udp {
    fn open(way: Way, is_stream: bool) -> Result<Self> {
        let (own, peer) = match way {
            Way::Serve(at) => (at, None),
            Way::Call(at, own) => (own, Some(at)),
        };
        let socket = UdpSocket::bind(own)?;
        // Only root may pass the system's limit.
        let force = rustix::net::sockopt::set_socket_recv_buffer_size_force;
        if force(&socket, BUFFER).is_err() {
            rustix::net::sockopt::set_socket_recv_buffer_size(&socket, BUFFER)?;
        }
        socket.set_nonblocking(!is_stream)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        match peer {
            Some(peer) => socket.connect(peer)?,
            None => ready(),
        }
        Ok(Self {
            socket,
            is_connected: peer.is_some(),
            buffer: [0; 2048],
        })
    }
}

impl Link for Udp {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        for datagram in message.chunks(DATAGRAM) {
            spin(|| self.socket.send(datagram))?;
        }
        Ok(())
    }

    fn receive(&mut self, least: usize) -> Result<usize> {
        let mut received = 0;
        while received < least {
            let (length, from) = spin(|| self.socket.recv_from(&mut self.buffer))?;
            if !self.is_connected {
                self.socket.connect(from)?;
                self.is_connected = true;
            }
            if length == 0 {
                return Ok(0);
            }
            received += length;
        }
        Ok(received)
    }

    fn end(&mut self) -> Result<()> {
        // Some may be lost. The receiver goes at the first one.
        for _ in 0..20 {
            if self.socket.send(&[]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

const SERVER: NodeId = NodeId(0);
const CLIENT: NodeId = NodeId(1);

/// Opens the node of this end. Returns it with the ID of the other one.
fn open_node(way: Way, is_stream: bool) -> Result<(Node, NodeId)> {
    let (own, listen, peer) = match way {
        Way::Serve(at) => (SERVER, at, CLIENT),
        Way::Call(_, at) => (CLIENT, at, SERVER),
    };
    let mut builder = Node::builder()
        .id(own)
        .listen(listen)
        .accept(AcceptPolicy::Anyone)
        .allow_insecure_network();
    if !is_stream {
        builder = builder.wait(WaitPolicy::SPIN);
    }
    let mut node = builder.open()?;
    match way {
        Way::Serve(_) => ready(),
        Way::Call(..) if std::env::var_os(env::BOOK).is_some() => {}
        Way::Call(at, _) => node.add_peer(SERVER, at)?,
    }
    Ok((node, peer))
}

/// A node between others, which sends their packets on for ever.
pub(crate) fn forward(id: u32, at: SocketAddr) -> Result<()> {
    let builder = Node::builder().id(NodeId(id)).listen(at).forward(true);
    let builder = builder
        .accept(AcceptPolicy::Anyone)
        .allow_insecure_network();
    let mut node = builder.open()?;
    ready();
    loop {
        // With an event that was not taken, `poll` would not wait.
        node.events()?;
        node.poll(PATIENCE)?;
    }
}

struct Suci {
    node: Node,
    peer: NodeId,
}

impl Suci {
    fn open(way: Way, is_stream: bool) -> Result<Self> {
        let (node, peer) = open_node(way, is_stream)?;
        Ok(Self { node, peer })
    }
}

impl Link for Suci {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        match self.node.send_copy(self.peer, message) {
            Err(Error::WouldBlock { message, .. }) => {
                self.node.send_timeout(self.peer, *message, PATIENCE)?;
            }
            sent => drop(sent?),
        }
        Ok(())
    }

    fn receive(&mut self, _: usize) -> Result<usize> {
        let message = self.node.recv_timeout(PATIENCE)?;
        Ok(message.ok_or("the other end is silent")?.payload.len())
    }

    fn end(&mut self) -> Result<()> {
        self.send(&[])?;
        self.receive(1).map(drop)
    }

    fn part(&mut self) -> Result<()> {
        self.send(&[])?;
        Ok(self.node.flush(PATIENCE)?)
    }
}

/// The number of the handler that counts.
const COUNT: u16 = 1;

/// Active messages after Illinois Fast Messages, which `fm.h` offers to C.
struct FastMessages {
    node: Node,
    peer: NodeId,
    active: ActiveMessages<'static>,
    /// Bytes that arrived and were not told yet, and whether the other end is done.
    arrived: Rc<Cell<(usize, bool)>>,
}

impl FastMessages {
    fn open(way: Way, is_stream: bool) -> Result<Self> {
        let (node, peer) = open_node(way, is_stream)?;
        let arrived = Rc::new(Cell::new((0, false)));
        let mut active = ActiveMessages::new();
        let counted = Rc::clone(&arrived);
        active.set_handler(COUNT, move |_, message| {
            let (bytes, is_over) = counted.get();
            let length = message.payload.len();
            counted.set((bytes + length, is_over || length == 0));
        });
        Ok(Self {
            node,
            peer,
            active,
            arrived,
        })
    }
}

impl Link for FastMessages {
    fn send(&mut self, message: &[u8]) -> Result<()> {
        let mut payload = Bytes::copy_from_slice(message);
        loop {
            let sent = self
                .active
                .send(&mut self.node, self.peer, COUNT, &[], payload);
            match sent {
                Err(ActiveError::QueueFull { payload: back, .. }) => payload = back,
                sent => return Ok(sent?),
            }
            self.active.extract(&mut self.node, 1)?;
        }
    }

    fn receive(&mut self, _: usize) -> Result<usize> {
        while self.arrived.get() == (0, false) {
            let ran = self.active.extract_timeout(&mut self.node, 256, PATIENCE)?;
            if ran == 0 {
                return Err("the other end is silent".into());
            }
        }
        let (bytes, is_over) = self.arrived.get();
        self.arrived.set((0, is_over));
        Ok(bytes)
    }

    fn end(&mut self) -> Result<()> {
        self.send(&[])?;
        self.receive(1).map(drop)
    }

    fn part(&mut self) -> Result<()> {
        self.send(&[])?;
        Ok(self.node.flush(PATIENCE)?)
    }
}
