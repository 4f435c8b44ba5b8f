//! Two nodes greet each other: `cargo run -p suci --example hello`.
use std::time::Duration;
use suci::{Accept, Error, Node, NodeId};

fn main() -> Result<(), Error> {
    let mut server = Node::builder()
        .id(NodeId(0))
        .accept(Accept::Anyone)
        .open()?;
    let address = server.local_addr();
    let client = std::thread::spawn(move || -> Result<(), Error> {
        let mut node = Node::builder().id(NodeId(1)).open()?;
        node.add_peer(NodeId(0), address)?;
        node.send(NodeId(0), "hello from node 1")?;
        println!("{}", String::from_utf8_lossy(&node.recv()?.payload));
        node.close(Duration::from_secs(5))
    });
    let message = server.recv()?;
    println!("{}", String::from_utf8_lossy(&message.payload));
    server.send(
        message.from,
        format!("hello from node 0 to node {}", message.from),
    )?;
    server.close(Duration::from_secs(5))?;
    client.join().expect("the client thread runs to its end")
}
