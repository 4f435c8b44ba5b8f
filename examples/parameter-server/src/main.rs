//! A parameter server: workers send gradients, process 0 adds them up and broadcasts the
//! parameters. A monitor, the last process, asks for the step meanwhile, on an urgent channel.
//!
//! `suci run -n 5 --tolerate-failures parameter-server 64 10` has three workers, 64 MiB of
//! parameters and 10 steps.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use suci::{
    Bytes, ChannelId, Error, Event, Message, Next, Node, NodeId, OutgoingMessage, Priority,
};

const SERVER: NodeId = NodeId(0);

/// The channel of questions, which overtake gradients and parameters.
const CONTROL: ChannelId = ChannelId(1);
const URGENT: u8 = 6;

/// Bytes of a gradient.
const GRADIENT: usize = 4 << 20;

/// After this much silence the others go on without a worker.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longer than any process waits.
const LONG: Duration = Duration::from_secs(600);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |otherwise| arguments.next().map_or(Ok(otherwise), |word| word.parse());
    let (size, steps) = (number(64)? << 20, number(10)?);
    let last = NodeId(suci::env::size()?.unwrap_or(2) - 1);
    // For each worker, one more message than the parameters may wait.
    let queue = 2 * size as u64;
    let builder = Node::builder().send_queue(queue).keep_alive();
    let mut node = builder
        .silence_timeout(PATIENCE / 2)
        .give_up_after(PATIENCE)
        .open()?;
    if node.id() == SERVER {
        let workers = (1..last.0).map(NodeId).collect();
        // Answers to the monitor go before parameters to the workers.
        let urgent = Priority::new(URGENT, Priority::DEFAULT.weight())?;
        node.peer(last)
            .configure(move |options| options.priority = urgent)?;
        serve(&mut node, size, steps, workers)?;
    } else if node.id() == last {
        monitor(&mut node, steps)?;
    } else {
        train(&mut node, size, steps)?;
    }
    node.close(LONG)?;
    Ok(())
}

/// Adds up the gradients of each step and broadcasts the parameters, until all steps are done and
/// the monitor knows it.
fn serve(node: &mut Node, size: usize, steps: usize, workers: Vec<NodeId>) -> Result<(), Error> {
    let mut server = Server {
        workers: workers.into_iter().collect(),
        gradients: BTreeMap::new(),
        step: 0,
        is_told: false,
    };
    let mut parameters = Bytes::from(vec![0; size]);
    while server.step < steps {
        while server
            .workers
            .iter()
            .any(|worker| !server.gradients.contains_key(worker))
        {
            server.handle(node)?;
        }
        let gradients = std::mem::take(&mut server.gradients);
        parameters = update(parameters, &gradients, server.step);
        server.step += 1;
        eprintln!("step {} of {steps}", server.step);
        let draft = OutgoingMessage::new(parameters.clone()).tag(server.step as u64);
        let workers: Vec<NodeId> = server.workers.iter().copied().collect();
        for (_, accepted) in node.broadcast(&workers, draft)? {
            accepted?;
        }
    }
    server.is_told = false;
    while !server.is_told {
        server.handle(node)?;
    }
    Ok(())
}

struct Server {
    /// The live workers.
    workers: BTreeSet<NodeId>,
    /// Their gradients of this step.
    gradients: BTreeMap<NodeId, Message>,
    step: usize,
    /// Whether the monitor was told this step.
    is_told: bool,
}

impl Server {
    /// Waits for one message or event.
    fn handle(&mut self, node: &mut Node) -> Result<(), Error> {
        match node.next()? {
            Next::Message(question) if question.channel == CONTROL => {
                node.send(question.from, question.reply(self.step.to_string())?)?;
                self.is_told = true;
            }
            Next::Message(gradient) => {
                self.gradients.insert(gradient.from, gradient);
            }
            Next::Event(Event::Ended { node, .. }) => {
                self.workers.remove(&node);
            }
            Next::Event(_) => {}
        }
        Ok(())
    }
}

/// The part of the parameters that the gradients of a step belong to.
fn part(size: usize, step: usize) -> std::ops::Range<usize> {
    let begin = step * GRADIENT % size;
    begin..size.min(begin + GRADIENT)
}

/// Adds the mean of the gradients. Workers have taken the parameters of the step before, or they
/// would have sent none: so the memory is not shared any more and is changed in place.
fn update(parameters: Bytes, gradients: &BTreeMap<NodeId, Message>, step: usize) -> Bytes {
    let mut parameters = parameters.try_into_mut().unwrap_or_else(Into::into);
    let part = part(parameters.len(), step);
    let share = 1.0 / gradients.len() as f32;
    for message in gradients.values() {
        let words = parameters[part.clone()].as_chunks_mut().0;
        for (word, more) in words.iter_mut().zip(message.payload.as_chunks().0) {
            let sum = f32::from_le_bytes(*word) + share * f32::from_le_bytes(*more);
            *word = sum.to_le_bytes();
        }
    }
    parameters.freeze()
}

/// Sends a gradient of ones in each step and checks the parameters that come back.
fn train(node: &mut Node, size: usize, steps: usize) -> Result<(), Box<dyn std::error::Error>> {
    let gradient = Bytes::from(1_f32.to_le_bytes().repeat(GRADIENT / 4));
    for step in 0..steps {
        node.send(SERVER, gradient.clone())?;
        let parameters = node
            .recv_timeout(LONG)?
            .ok_or("the server does not answer")?;
        let words = parameters.payload[part(size, step)].as_chunks().0;
        let times = (0..=step)
            .filter(|earlier| part(size, *earlier) == part(size, step))
            .count();
        let is_right = |word: &[u8; 4]| (f32::from_le_bytes(*word) - times as f32).abs() < 1e-3;
        if parameters.payload.len() != size || !words.iter().all(is_right) {
            return Err(format!("wrong parameters in step {step}").into());
        }
    }
    println!("node {}: all parameters right", node.id());
    Ok(())
}

/// Asks for the step again and again, and tells how long the answers took.
fn monitor(node: &mut Node, steps: usize) -> Result<(), Box<dyn std::error::Error>> {
    let urgent = Priority::new(URGENT, Priority::DEFAULT.weight())?;
    node.peer(SERVER).set_channel_priority(CONTROL, urgent)?;
    let (mut step, mut times) = (0, Vec::new());
    while step < steps {
        let begun = Instant::now();
        let question = OutgoingMessage::new("which step?").channel(CONTROL);
        let answer = node.call(SERVER, question, LONG)?;
        times.push(begun.elapsed());
        step = std::str::from_utf8(&answer.payload)?.parse()?;
        std::thread::sleep(Duration::from_millis(1));
    }
    times.sort_unstable();
    let (count, p99) = (times.len(), times[times.len() * 99 / 100]);
    println!("{steps} steps, {count} questions, 99th percentile {p99:.1?}");
    Ok(())
}
