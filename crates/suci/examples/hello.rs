//! Two nodes greet each other: `cargo run -p suci --example hello`.
use std::time::Duration;
use suci::{AcceptPolicy, Error, Node, NodeId};

const SOON: Duration = Duration::from_secs(5);

fn main() -> Result<(), Error> {
    let (zero, one) = (NodeId(0), NodeId(1));
    let mut server = Node::builder()
        .id(zero)
        .accept(AcceptPolicy::Anyone)
        .open()?;
    let mut client = Node::builder().id(one).open()?;
    client.add_peer(zero, server.local_addr())?;
    let serving = std::thread::spawn(move || {
        let message = server.recv()?;
        server.send(message.from, [&message.payload[..], b" yourself"].concat())?;
        server.close(SOON)
    });
    client.send(zero, "hello")?;
    let answer = client.recv()?;
    println!("{}", String::from_utf8_lossy(&answer.payload));
    client.close(SOON)?;
    serving
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
