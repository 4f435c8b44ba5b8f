//! An echo server on sockets, and its clients.
//!
//! `sockets --listen 127.0.0.1:7000` serves bytes at port 7 and messages at port 8 of node 0.
//! `sockets 127.0.0.1:7000 1 100` is node 1, which opens 100 connections to each.
//! `sockets 127.0.0.1:7000 1 hold` opens one and waits for its end.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use suci::{AcceptPolicy, Node, NodeId, SharedNode};
use suci_sockets::{Address, MessageListener, MessageSocket, SuciListener, SuciStream};

const SERVER: NodeId = NodeId(0);
const BYTES: u16 = 7;
const MESSAGES: u16 = 8;

/// How long a client waits for its server.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes that a client sends on each connection.
const LENGTH: usize = 100_000;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["--listen", address] => serve(address.parse()?),
        [address, id, "hold"] => hold(&client(address, id)?),
        [address, id, count] => visit(&client(address, id)?, count.parse()?),
        _ => Err("sockets --listen ADDRESS, or sockets ADDRESS ID COUNT".into()),
    }
}

/// Opens a client's node, and waits for a server that starts at the same time: until it listens,
/// connections are refused.
fn client(address: &str, id: &str) -> Result<SharedNode, Failure> {
    let node = Node::builder().id(NodeId(id.parse()?)).open_threads(1)?;
    node.add_peer(SERVER, address.parse()?)?;
    let begun = Instant::now();
    // The port at which the server listens last.
    while let Err(error) = MessageSocket::connect(&node, at(MESSAGES)) {
        if error.kind() != ErrorKind::ConnectionRefused || begun.elapsed() > PATIENCE {
            return Err(error.into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(node)
}

/// Answers for ever, with a thread for each connection.
fn serve(address: SocketAddr) -> Result<(), Failure> {
    let builder = Node::builder().id(SERVER).listen(address);
    let node = builder.accept(AcceptPolicy::Anyone).open_threads(1)?;
    let bytes = SuciListener::bind(&node, BYTES)?;
    let messages = MessageListener::bind(&node, MESSAGES)?;
    println!("listening at {}", node.local_addr());
    thread::spawn(move || {
        for socket in messages.incoming() {
            thread::spawn(move || report(socket.peer_addr(), answer(&socket)));
        }
    });
    for stream in bytes.incoming() {
        thread::spawn(move || {
            let copied = io::copy(&mut &stream, &mut &stream);
            report(stream.peer_addr(), copied.map(drop));
        });
    }
    Ok(())
}

/// Sends each message back.
fn answer(socket: &MessageSocket) -> io::Result<()> {
    while let Some(message) = socket.recv()? {
        socket.send(&message)?;
    }
    Ok(())
}

fn report(peer: Address, result: io::Result<()>) {
    if let Err(error) = result {
        println!("node {}: {:?}", peer.node, error.kind());
    }
}

/// Opens this many connections of each kind, one after the other.
fn visit(node: &SharedNode, count: u32) -> Result<(), Failure> {
    for number in 0..count {
        let sent: Vec<u8> = (0..LENGTH).map(|at| (at as u32 ^ number) as u8).collect();
        if echo_bytes(node, &sent)? != sent {
            return Err("other bytes came back".into());
        }
        let socket = MessageSocket::connect(node, at(MESSAGES))?;
        socket.send(&sent)?;
        socket.send(b"")?;
        let answers = [socket.recv()?, socket.recv()?];
        if answers.map(|answer| answer.map_or(0, |answer| answer.len())) != [LENGTH, 0] {
            return Err("other messages came back".into());
        }
    }
    println!("{count} connections of each kind, all answers right");
    Ok(())
}

/// Writes and reads at once, since the server reads no more than it can send back.
fn echo_bytes(node: &SharedNode, sent: &[u8]) -> io::Result<Vec<u8>> {
    let stream = SuciStream::connect(node, at(BYTES))?;
    let mut came = Vec::new();
    thread::scope(|scope| {
        let writing = scope.spawn(|| {
            (&stream).write_all(sent)?;
            stream.shutdown(Shutdown::Write)
        });
        (&stream).read_to_end(&mut came)?;
        writing
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("panicked")))
    })?;
    Ok(came)
}

/// Opens a connection and waits until it ends.
fn hold(node: &SharedNode) -> Result<(), Failure> {
    let mut stream = SuciStream::connect(node, at(BYTES))?;
    stream.write_all(b"x")?;
    stream.read_exact(&mut [0])?;
    println!("connected");
    let ended = stream.read(&mut [0]);
    println!("ended: {:?}", ended.map_err(|error| error.kind()));
    Ok(())
}

const fn at(port: u16) -> Address {
    Address { node: SERVER, port }
}
