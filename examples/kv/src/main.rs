//! A key-value server and clients that come and go.
//!
//! `kv --listen 127.0.0.1:7000` serves; `kv 127.0.0.1:7000 500` is 500 clients, one task of tokio
//! each.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use suci::{AcceptPolicy, Bytes, Message, Next, Node, NodeId, SharedNode};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const SERVER: NodeId = NodeId(0);

/// Clients that are there at the same time, at most.
const AT_ONCE: usize = 16;

/// The longest wait for an answer.
const SOON: Duration = Duration::from_secs(10);

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    match words[..] {
        ["--listen", address] => runtime.block_on(serve(address.parse()?)),
        [address, clients] => runtime.block_on(visit(address.parse()?, clients.parse()?)),
        _ => Err("kv --listen ADDRESS, or kv ADDRESS CLIENTS".into()),
    }
}

/// Answers for ever.
async fn serve(address: SocketAddr) -> Result<(), Failure> {
    let builder = Node::builder().id(SERVER).listen(address);
    let node = builder.accept(AcceptPolicy::Anyone).open_threads(1)?;
    println!("listening at {}", node.local_addr());
    let mut store = HashMap::new();
    loop {
        let Next::Message(request) = node.next_async().await? else {
            continue;
        };
        if let Some(reply) = answer(&mut store, &request) {
            // A client that takes no replies, that left, or that made no call gets none; the others
            // do.
            let reply = request.reply(reply);
            if let Err(error) = reply.and_then(|reply| node.send(request.from, reply)) {
                eprintln!("no reply to {}: {error}", request.from);
            }
        }
    }
}

/// `KEY` asks for a value, `KEY=VALUE` sets one. The reply is the value that the key has now.
fn answer(store: &mut HashMap<String, Bytes>, request: &Message) -> Option<Bytes> {
    let text = std::str::from_utf8(&request.payload).ok()?;
    if let Some((key, value)) = text.split_once('=') {
        store.insert(key.to_owned(), Bytes::copy_from_slice(value.as_bytes()));
    }
    let key = text.split('=').next()?;
    Some(store.get(key).cloned().unwrap_or_default())
}

/// Runs this many clients, some at a time, each with a node of its own.
async fn visit(server: SocketAddr, clients: u32) -> Result<(), Failure> {
    let (places, cancelled) = (
        Arc::new(Semaphore::new(AT_ONCE)),
        Arc::new(AtomicU32::new(0)),
    );
    let mut tasks = JoinSet::new();
    for number in 1..=clients {
        let (places, cancelled) = (Arc::clone(&places), Arc::clone(&cancelled));
        tasks.spawn(async move {
            let _place = places.acquire().await?;
            let node = Node::builder().id(NodeId(number)).open_threads(1)?;
            node.add_peer(SERVER, server)?;
            be_client(&node, number, &cancelled).await?;
            node.close_async(SOON).await?;
            Ok::<(), Failure>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let cancelled = cancelled.load(Ordering::Relaxed);
    println!("{clients} clients, all answers right, {cancelled} calls cancelled");
    Ok(())
}

/// Sets values and reads them again. Gives up waiting for some answers: a future that is dropped
/// costs nothing.
async fn be_client(node: &SharedNode, number: u32, cancelled: &AtomicU32) -> Result<(), Failure> {
    for round in 0..4 {
        let (key, value) = (format!("client-{number}"), format!("round-{round}"));
        let set = node
            .call_async(SERVER, format!("{key}={value}"), SOON)
            .await?;
        let abandoned = node.call_async(SERVER, key.clone(), SOON);
        // The future is polled once, which never finds the reply, and dropped.
        tokio::select! {
            biased;
            _ = abandoned => {}
            () = std::future::ready(()) => drop(cancelled.fetch_add(1, Ordering::Relaxed)),
        }
        let read = node.call_async(SERVER, key, SOON).await?;
        if *set.payload != *value.as_bytes() || *read.payload != *value.as_bytes() {
            return Err(format!("client {number} read {:?}, not {value}", read.payload).into());
        }
    }
    Ok(())
}
