//! `suci ping`: round trips.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use suci::{AddressBook, Bytes, Error, Event, Message, Node, NodeId, OutgoingMessage};

use crate::args::PingArgs;
use crate::error::{Context, Failure, Result, print, tell};
use crate::node;
use crate::signals::Signals;
use crate::stats::Samples;

/// Round trips unless the user names another number.
const ROUND_TRIPS: u64 = 10;

/// How often an answering node looks whether its clients are still there.
const LOOK: Duration = Duration::from_millis(500);

/// How long one wait for an answer lasts, before it is looked at whether anybody is there.
const ASK: Duration = Duration::from_millis(20);

/// Pings, or answers.
pub(crate) fn run(args: &PingArgs) -> Result<ExitCode> {
    if let Some(address) = args.listen {
        let builder = node::listener(&args.node, node::PING, address)?;
        let node = builder.forward(args.forward).open()?;
        tell(format_args!(
            "suci ping: answering at {}; Ctrl-C ends it",
            node.local_addr()
        ));
        return answer(node, AnswerEnd::Answers(args.count));
    }
    if let (Some(file), Some(id)) = (&args.book, args.id) {
        return from_book(args, file, NodeId(id));
    }
    match &args.target {
        Some(target) => to_address(args, target),
        None => launched(args),
    }
}

fn to_address(args: &PingArgs, target: &str) -> Result<ExitCode> {
    let addresses = crate::args::target(target).map_err(|problem| {
        let hint = "a node ID needs --book and --id";
        Failure::new(format!("\"{target}\": {problem}; {hint}"))
    })?;
    let several = addresses.addresses().len() > 1;
    let mut closed = BTreeSet::new();
    let call = |address, until| -> Result<Option<_>> {
        let mut node = node::caller(&args.node, address)?.open()?;
        node.add_peer(node::PING, address)?;
        let answers = !several || answers(&mut node, until)?;
        if !answers && node::is_absent(&node.peers()?, node::PING) {
            closed.insert(address);
        }
        Ok(answers.then_some((node, address)))
    };
    let limit = args.timeout;
    let remedy = "start suci ping --listen there, check address and firewall";
    let found = node::in_turn(&addresses, limit, call)?;
    let (mut node, address) = found.ok_or_else(|| {
        let all = addresses.addresses();
        let known = node::known_of_silence(closed.len() == all.len(), all);
        Failure::new(format!(
            "no answer from {target} within {limit:?}: {known}{remedy}"
        ))
    })?;
    let whom = Whom {
        peer: node::PING,
        name: address.to_string(),
        address: Some(address),
        remedy: remedy.to_owned(),
    };
    let trips = RecentTrips::watched(args)?;
    ping(args, &mut node, &whom, &trips)?;
    finish(node)
}

/// Returns true if a node answers before `until`. Ends earlier if its host says that none is there.
fn answers(node: &mut Node, until: Instant) -> Result<bool> {
    node.peer(node::PING).connect()?;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match node.event_timeout(left.min(ASK))? {
            Some(Event::Up { .. }) => return Ok(true),
            Some(Event::Refused { reason, .. }) => {
                return Err(Failure::new(format!("it refuses: {reason}")));
            }
            _ => {}
        }
        if left.is_zero() || node::is_absent(&node.peers()?, node::PING) {
            return Ok(false);
        }
    }
}

fn from_book(args: &PingArgs, file: &Path, id: NodeId) -> Result<ExitCode> {
    let book = AddressBook::read(file)?;
    if book.get(id).is_none() {
        return Err(Failure::new(format!(
            "node {id} is not in the book {}: add it, or name another --id",
            file.display()
        )));
    }
    let Some(target) = &args.target else {
        let builder = node::builder(&args.node).id(id).book(book);
        let node = builder.forward(args.forward).open()?;
        tell(format_args!(
            "suci ping: node {id} answering at {}; Ctrl-C ends it",
            node.local_addr()
        ));
        return answer(node, AnswerEnd::Answers(args.count));
    };
    let is_known = |peer: &NodeId| book.get(*peer).is_some() || book.route(*peer).is_some();
    let known = target.parse().ok().map(NodeId).filter(is_known);
    let peer = known.ok_or_else(|| {
        let remedy = match book.len() {
            0 => "it is empty".to_owned(),
            count => format!("name one of its {count} IDs"),
        };
        let file = file.display();
        Failure::new(format!(
            "{target:?} is no node of the book {file}: {remedy}"
        ))
    })?;
    let mut node = node::builder(&args.node).id(id).book(book).open()?;
    let whom = Whom {
        peer,
        name: format!("node {peer}"),
        address: None,
        remedy: format!(
            "start suci ping --id {peer} with the same --book there, check its address and firewall"
        ),
    };
    let trips = RecentTrips::watched(args)?;
    ping(args, &mut node, &whom, &trips)?;
    finish(node)
}

/// Runs under `suci run` or another launcher: node 0 pings the others in turn.
fn launched(args: &PingArgs) -> Result<ExitCode> {
    if suci::env::id()?.is_none() {
        let remedy = "name an address, or --listen ADDR to answer, or use suci run";
        return Err(Failure::new(format!("whom to ping is missing: {remedy}")));
    }
    let mut node = node::builder(&args.node).forward(args.forward).open()?;
    if node.id() != NodeId(0) {
        return answer(node, AnswerEnd::Gone(NodeId(0)));
    }
    let peers = node.peers()?;
    if peers.is_empty() {
        let remedy = "suci run -n 2 or more, or name an address";
        return Err(Failure::new(format!(
            "one process alone has nobody to ping: {remedy}"
        )));
    }
    let trips = RecentTrips::watched(args)?;
    for peer in peers.into_iter().map(|peer| peer.node) {
        let whom = Whom {
            peer,
            name: format!("node {peer}"),
            address: None,
            remedy: "see that its process runs suci ping too".to_owned(),
        };
        ping(args, &mut node, &whom, &trips)?;
    }
    finish(node)
}

fn finish(mut node: Node) -> Result<ExitCode> {
    node.close(node::CLOSING)?;
    Ok(ExitCode::SUCCESS)
}

/// When a node stops answering, unless it is interrupted.
enum AnswerEnd {
    /// After so many answers; `None`: never.
    Answers(Option<u64>),
    /// When this node has gone.
    Gone(NodeId),
}

/// Sends everything back where it came from.
fn answer(mut node: Node, until: AnswerEnd) -> Result<ExitCode> {
    let mut answers = 0;
    loop {
        let received = node.recv_timeout(LOOK);
        if let Some(message) =
            received.or_else(|error| refuse(&mut node, node::announced(error)?))?
        {
            let draft = OutgoingMessage::new(message.payload).tag(message.tag);
            match node.send(message.from, draft) {
                Ok(_) => answers += 1,
                Err(error) if node::is_of_node(&error) => return Err(error.into()),
                // A peer that asked for more than it takes back, permits no answer, suspended the
                // session or is gone has its own loss.
                Err(_) => {}
            }
        }
        if matches!(until, AnswerEnd::Answers(Some(most)) if answers >= most) {
            return finish(node);
        }
        for event in node.events()? {
            if let Some(announced) = node::announced_by(&event) {
                refuse(&mut node, announced)?;
            }
            match (event, &until) {
                (Event::Ended { node: peer, .. }, AnswerEnd::Gone(awaited)) if peer == *awaited => {
                    return finish(node);
                }
                _ => {}
            }
        }
    }
}

/// Refuses a message that waits for an answer. Returns no message.
fn refuse(node: &mut Node, announced: node::Announced) -> Result<Option<Message>, Error> {
    let (from, channel, number) = announced;
    match node.refuse(from, channel, number, node::UNASKED) {
        Err(error) if node::is_of_node(&error) => Err(error),
        // The session may have ended meanwhile.
        _ => Ok(None),
    }
}

/// The node that is pinged.
struct Whom {
    peer: NodeId,
    name: String,
    /// Its address, if the user named that.
    address: Option<SocketAddr>,
    /// The advice if it does not answer.
    remedy: String,
}

/// Round trips that are not reported yet.
struct RecentTrips {
    /// Name of the other node.
    name: String,
    size: usize,
    json: bool,
    /// In microseconds.
    times: Vec<f64>,
}

impl RecentTrips {
    /// Returns an empty report, which a signal that ends the command prints first.
    fn watched(args: &PingArgs) -> Result<Arc<Mutex<Self>>> {
        let trips = Arc::new(Mutex::new(Self {
            name: String::new(),
            size: args.size,
            json: args.json,
            times: Vec::new(),
        }));
        let (signals, watched) = (Signals::catch()?, Arc::clone(&trips));
        let work = move || {
            let signal = signals.wait();
            // Standard output may be stuck: the next signal need not wait for it.
            signals.release();
            let _ = lock(&watched).report();
            let _ = signal_hook::low_level::emulate_default_handler(signal.as_raw());
            // Reached only if that failed: the status that a shell would give for the signal.
            std::process::exit(128 + signal.as_raw());
        };
        let thread = std::thread::Builder::new().name("signals".into());
        thread.spawn(work).context("a thread for signals")?;
        Ok(trips)
    }

    /// Reports them, if there are any.
    fn report(&mut self) -> Result<()> {
        let Some(times) = Samples::new(std::mem::take(&mut self.times)) else {
            return Ok(());
        };
        let Self {
            name, size, json, ..
        } = self;
        let count = times.len();
        let (min, median, p99, max) = (
            times.min(),
            times.median(),
            times.quantile(0.99),
            times.max(),
        );
        if *json {
            let object = serde_json::json!({
                "target": name, "size": size, "count": count, "unit": "us",
                "min": min, "median": median, "p99": p99, "max": max,
            });
            print(format_args!("{object}"))
        } else {
            print(format_args!(
                "{name}: {count} round trips, min {min:.1} us, median {median:.1} us, p99 {p99:.1} us, max {max:.1} us"
            ))
        }
    }
}

fn lock(trips: &Mutex<RecentTrips>) -> MutexGuard<'_, RecentTrips> {
    // A time is added whole or not at all.
    trips.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pings a node, and reports the results, also after an early end.
fn ping(args: &PingArgs, node: &mut Node, whom: &Whom, trips: &Mutex<RecentTrips>) -> Result<()> {
    lock(trips).name.clone_from(&whom.name);
    let done = measure(args, node, whom, trips);
    let reported = lock(trips).report();
    done.and(reported)
}

fn measure(
    args: &PingArgs,
    node: &mut Node,
    whom: &Whom,
    trips: &Mutex<RecentTrips>,
) -> Result<()> {
    let (peer, name) = (whom.peer, &whom.name);
    let payload = Bytes::from(vec![0x5c; args.size]);
    for number in 0..args.count.unwrap_or(ROUND_TRIPS) {
        if number > 0 && !args.interval.is_zero() {
            std::thread::sleep(args.interval);
        }
        let begun = Instant::now();
        node.send(peer, OutgoingMessage::new(payload.clone()).tag(number))?;
        await_answer(args, node, whom, number)?;
        let time = micros(begun.elapsed());
        // Until the line is written: the report comes after it.
        let mut trips = lock(trips);
        trips.times.push(time);
        // Flooding prints no lines: otherwise writing them would be measured.
        if !args.json && !args.interval.is_zero() {
            let size = args.size;
            print(format_args!(
                "{size} B from {name}: number {number}, {time:.1} us"
            ))?;
        }
    }
    Ok(())
}

fn await_answer(args: &PingArgs, node: &mut Node, whom: &Whom, number: u64) -> Result<()> {
    let Whom {
        peer,
        name,
        address,
        remedy,
    } = whom;
    let (peer, limit) = (*peer, args.timeout);
    let mut left = limit;
    loop {
        let (begun, turn) = (Instant::now(), left.min(LOOK));
        let received = node.recv_timeout(turn)?;
        // If more time has passed, this process stood still: that is no silence of the other.
        left = left.saturating_sub(begun.elapsed().min(turn));
        if let Some(message) = received
            && (message.from, message.tag) == (peer, number)
        {
            return Ok(());
        }
        for event in node.events()? {
            match event {
                Event::Ended {
                    node: who, reason, ..
                } if who == peer => {
                    return Err(Failure::new(format!(
                        "{name} has gone: {}",
                        node::ended(reason)
                    )));
                }
                Event::Refused { node: who, reason } if who == peer => {
                    return Err(Failure::new(format!("{name} refuses: {reason}")));
                }
                _ => {}
            }
        }
        if left.is_zero() {
            let known =
                node::known_of_silence(node::is_absent(&node.peers()?, peer), address.as_slice());
            return Err(Failure::new(format!(
                "no answer from {name} within {limit:?}: {known}{remedy}"
            )));
        }
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
