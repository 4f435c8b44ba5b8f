//! The workloads of `bench/contenders/c_over_rust.c` by the Rust library, in the same steps.
//!
//! ```text
//! c-over-rust server
//! c-over-rust client ADDRESS ping|large|many|single SECONDS
//! ```
//!
//! The server prints its address, and ends when the client says so. The client prints the
//! nanoseconds that a message took (of ping: a round trip). The first byte of a message says what
//! it is for.

use std::time::{Duration, Instant};

use suci::{AcceptPolicy, Bytes, Error, Node, NodeId};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const DATA: u8 = 0;
const ECHO: u8 = 1;
const LAST: u8 = 2;
const END: u8 = 3;

const SERVER: NodeId = NodeId(0);
const CLIENT: NodeId = NodeId(1);

const PING: usize = 64;
const LARGE: usize = 65_536;
const SMALL: usize = 32;
/// Messages that are sent together, and taken together at most.
const TOGETHER: usize = 2_048;
const TAKEN: usize = 256;
/// Messages between two looks at the clock.
const LOOK: usize = 256;

fn open_node(id: NodeId) -> Result<Node> {
    let builder = Node::builder().id(id).accept(AcceptPolicy::Anyone);
    Ok(builder.open()?)
}

/// Waits for room for a message that was not accepted.
fn finish(node: &mut Node, sent: std::result::Result<u64, Error>) -> Result<()> {
    match sent {
        Err(Error::WouldBlock { message, .. }) => {
            node.send_timeout(SERVER, *message, Duration::MAX)?;
        }
        sent => drop(sent?),
    }
    Ok(())
}

fn serve(node: &mut Node) -> Result<()> {
    let mut messages = Vec::with_capacity(TAKEN);
    let mut over = false;
    while !over {
        node.recv_many(&mut messages, TAKEN, Duration::MAX)?;
        for message in messages.drain(..) {
            let mark = *message.payload.first().ok_or("an empty message")?;
            if mark == DATA {
                continue;
            }
            over |= mark == END;
            node.send_copy(CLIENT, &message.payload)?;
        }
    }
    Ok(())
}

/// A message and its answer.
fn ask(node: &mut Node, bytes: &[u8]) -> Result<()> {
    let sent = node.send_copy(SERVER, bytes);
    finish(node, sent)?;
    node.recv()?;
    Ok(())
}

fn ping(node: &mut Node) -> Result<usize> {
    let mut bytes = [0; PING];
    bytes[0] = ECHO;
    ask(node, &bytes)?;
    Ok(1)
}

/// The library reads the program's memory.
fn large(node: &mut Node) -> Result<usize> {
    static BYTES: [u8; LARGE] = [DATA; LARGE];
    for _ in 0..LOOK / 4 {
        let sent = node.send(SERVER, Bytes::from_static(&BYTES));
        finish(node, sent)?;
    }
    Ok(LOOK / 4)
}

fn many(node: &mut Node) -> Result<usize> {
    static BYTES: [[u8; SMALL]; TOGETHER] = [[DATA; SMALL]; TOGETHER];
    let mut left = BYTES.iter();
    loop {
        let refused = node.batch(|batch| left.find_map(|it| batch.send_copy(SERVER, it).err()))?;
        match refused {
            Some(refused) => finish(node, Err(refused))?,
            None => return Ok(TOGETHER),
        }
    }
}

fn single(node: &mut Node) -> Result<usize> {
    for _ in 0..LOOK {
        let sent = node.send_copy(SERVER, &[DATA; SMALL]);
        finish(node, sent)?;
    }
    Ok(LOOK)
}

type Workload = fn(&mut Node) -> Result<usize>;

fn workload_of(name: &str) -> Result<Workload> {
    Ok(match name {
        "ping" => ping,
        "large" => large,
        "many" => many,
        "single" => single,
        _ => return Err(format!("no workload {name}").into()),
    })
}

/// Works for so long. Returns the nanoseconds of a message, when the server has all.
fn measure(node: &mut Node, work: Workload, seconds: f64) -> Result<f64> {
    let begun = Instant::now();
    let mut count = 0;
    while count == 0 || begun.elapsed().as_secs_f64() < seconds {
        count += work(node)?;
    }
    ask(node, &[LAST])?;
    Ok(begun.elapsed().as_secs_f64() / count as f64 * 1e9)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut node = match arguments[..] {
        ["server"] => {
            let mut node = open_node(SERVER)?;
            println!("{}", node.local_addr());
            serve(&mut node)?;
            node
        }
        ["client", address, workload, seconds] => {
            let (work, seconds) = (workload_of(workload)?, seconds.parse::<f64>()?);
            let mut node = open_node(CLIENT)?;
            node.add_peer(SERVER, address.parse()?)?;
            measure(&mut node, work, seconds / 3.0)?;
            println!("{:.3}", measure(&mut node, work, seconds)?);
            ask(&mut node, &[END])?;
            node
        }
        _ => return Err("c-over-rust server | client ADDRESS WORKLOAD SECONDS".into()),
    };
    Ok(node.close(Duration::from_secs(5))?)
}
