//! Bulk yields to what is urgent: `cargo run -p suci --example yield_to_urgent`.
//!
//! While a message waits for the urgent peer, the controller of the bulk peer pauses: the link, the
//! sockets and the processor are the urgent one's. Only the program knows which peer is which.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use suci::{AcceptPolicy, Decision, Error, Node, NodeId, Observation, Steer};

const URGENT: NodeId = NodeId(1);
const BULK: NodeId = NodeId(2);
const SOON: Duration = Duration::from_secs(10);
const TURN: Duration = Duration::from_millis(1);

/// The bulk peer's controller: it pauses while anything waits for the urgent peer, and looks again
/// soon.
fn yielding(urgent: Arc<AtomicU64>) -> impl Steer {
    move |_: &Observation| match urgent.load(Ordering::Relaxed) {
        0 => Decision::default(),
        _ => Decision {
            window: Some(0),
            again: Some(TURN),
            ..Decision::default()
        },
    }
}

/// The urgent peer's controller holds nothing back: it says what waits there.
fn watching(urgent: Arc<AtomicU64>) -> impl Steer {
    move |seen: &Observation| {
        urgent.store(seen.queued_messages, Ordering::Relaxed);
        Decision::default()
    }
}

fn main() -> Result<(), Error> {
    let urgent = Arc::new(AtomicU64::new(0));
    let mut node = Node::builder().id(NodeId(0)).open()?;
    let answering = serve(&mut node, URGENT)?;
    let taking = serve(&mut node, BULK)?;
    node.peer(URGENT).steer(watching(Arc::clone(&urgent)))?;
    node.peer(BULK).steer(yielding(Arc::clone(&urgent)))?;
    for _ in 0..32 {
        node.send(BULK, vec![0; 1 << 20])?;
    }
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        urgent.fetch_add(1, Ordering::Relaxed);
        let began = Instant::now();
        node.send(URGENT, "now")?;
        while node.recv()?.from != URGENT {}
        slowest = slowest.max(began.elapsed());
    }
    println!(
        "slowest urgent answer {slowest:?}, with {:?} of bulk behind it",
        node.peer(BULK).queue_len()?
    );
    node.close(SOON)?;
    for thread in [answering, taking] {
        let ended = thread.join();
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    }
    Ok(())
}

/// A node on a thread that takes what comes and answers short messages, until its peer closes.
fn serve(to: &mut Node, id: NodeId) -> Result<JoinHandle<Result<(), Error>>, Error> {
    let mut node = Node::builder().id(id).accept(AcceptPolicy::Anyone).open()?;
    to.add_peer(id, node.local_addr())?;
    Ok(std::thread::spawn(move || {
        while node.poll(SOON)? {
            while let Some(message) = node.try_recv()? {
                if message.payload.len() < 100 {
                    node.send(message.from, message.payload)?;
                }
            }
            if node
                .events()?
                .iter()
                .any(|event| matches!(event, suci::Event::Ended { .. }))
            {
                break;
            }
        }
        node.close(SOON)
    }))
}
