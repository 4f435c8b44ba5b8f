//! The contenders of Suci, with default settings.

use super::{Count, GRADIENT, Outcome, PARAMETERS, QUESTION, Role, ask_on, await_start};
use std::time::{Duration, Instant};
use suci::{
    AddressBook, Bytes, ChannelId, Error, Message, Node, NodeBuilder, NodeId, OutgoingMessage,
    PeerStats, Priority, SharedNode,
};

/// The channel for questions and answers.
const CONTROL: ChannelId = ChannelId(1);

const LONG: Duration = Duration::from_secs(60);

/// The operations that both kinds of nodes offer here.
trait Any {
    fn send(&mut self, to: NodeId, draft: OutgoingMessage) -> Result<(), Error>;
    fn wait(&mut self, limit: Duration) -> Result<Option<Message>, Error>;
    fn open_messages(&mut self, to: NodeId) -> Result<u64, Error>;
    fn stats(&mut self, of: NodeId) -> Result<Option<PeerStats>, Error>;
    fn make_urgent(&mut self, to: NodeId) -> Outcome<()>;

    /// Bytes that some peers sent so far, as far as they came.
    fn received(&mut self, peers: impl Iterator<Item = u32>) -> Outcome<u64> {
        let mut bytes = 0;
        for id in peers {
            let stats = self.stats(NodeId(id))?;
            bytes += stats.map_or(0, |stats| stats.traffic.bytes_received);
        }
        Ok(bytes)
    }
}

fn urgent() -> Outcome<Priority> {
    Ok(Priority::new(6, Priority::DEFAULT.weight())?)
}

impl Any for Node {
    fn send(&mut self, to: NodeId, draft: OutgoingMessage) -> Result<(), Error> {
        Node::send(self, to, draft).map(drop)
    }

    fn wait(&mut self, limit: Duration) -> Result<Option<Message>, Error> {
        self.recv_timeout(limit)
    }

    fn open_messages(&mut self, to: NodeId) -> Result<u64, Error> {
        Ok(self.peer(to).queue_len()?.0)
    }

    fn stats(&mut self, of: NodeId) -> Result<Option<PeerStats>, Error> {
        self.peer(of).stats()
    }

    fn make_urgent(&mut self, to: NodeId) -> Outcome<()> {
        Ok(self.peer(to).set_channel_priority(CONTROL, urgent()?)?)
    }
}

impl Any for SharedNode {
    fn send(&mut self, to: NodeId, draft: OutgoingMessage) -> Result<(), Error> {
        SharedNode::send(self, to, draft)
    }

    fn wait(&mut self, limit: Duration) -> Result<Option<Message>, Error> {
        self.recv_timeout(limit)
    }

    fn open_messages(&mut self, to: NodeId) -> Result<u64, Error> {
        Ok(self.peer(to).queue_len()?.0)
    }

    fn stats(&mut self, of: NodeId) -> Result<Option<PeerStats>, Error> {
        self.peer(of).stats()
    }

    fn make_urgent(&mut self, to: NodeId) -> Outcome<()> {
        Ok(self.peer(to).set_channel_priority(CONTROL, urgent()?)?)
    }
}

fn builder(role: &Role) -> Outcome<NodeBuilder> {
    let mut book = AddressBook::new();
    for (id, address) in (0..).zip(&role.addresses) {
        book.add(NodeId(id), *address)?;
    }
    Ok(Node::builder().id(NodeId(role.id)).book(book))
}

pub(crate) fn play_node(role: &Role) -> Outcome<()> {
    let mut node = builder(role)?.open()?;
    play(&mut node, role)?;
    // The others end at the same time and need not answer.
    let _ = node.close(Duration::from_millis(200));
    Ok(())
}

pub(crate) fn play_shared(role: &Role) -> Outcome<()> {
    let mut node = builder(role)?.open_threads(1)?;
    play(&mut node, role)?;
    let _ = node.close(Duration::from_millis(200));
    Ok(())
}

fn play(node: &mut impl Any, role: &Role) -> Outcome<()> {
    await_start()?;
    match role.id {
        0 => serve(node, role),
        id if id == role.asker() => ask(node, role),
        _ => work(node, role),
    }
}

/// Sends each worker its parameters again as soon as it has them, and answers questions.
fn serve(node: &mut impl Any, role: &Role) -> Outcome<()> {
    for id in 1..=role.asker() {
        node.make_urgent(NodeId(id))?;
    }
    let parameters = Bytes::from(vec![1; PARAMETERS]);
    let (mut count, began) = (Count::new(role), Instant::now());
    while !role.is_over(began) {
        if let Some(message) = node.wait(Duration::from_millis(1))?
            && message.channel == CONTROL
        {
            node.send(
                message.from,
                OutgoingMessage::new(message.payload).channel(CONTROL),
            )?;
        }
        for id in 1..role.asker() {
            if node.open_messages(NodeId(id))? == 0 {
                // A worker that has ended gets no more.
                let _ = node.send(NodeId(id), OutgoingMessage::new(parameters.clone()));
            }
        }
        count.look(|| node.received(1..role.asker()))?;
    }
    count.report();
    Ok(())
}

fn work(node: &mut impl Any, role: &Role) -> Outcome<()> {
    let gradient = Bytes::from(vec![1; GRADIENT]);
    let (mut count, began) = (Count::new(role), Instant::now());
    while !role.is_over(began) {
        if node.open_messages(NodeId(0))? == 0 {
            let _ = node.send(NodeId(0), OutgoingMessage::new(gradient.clone()));
        }
        node.wait(Duration::from_millis(1))?;
        count.look(|| node.received([0].into_iter()))?;
    }
    count.report();
    Ok(())
}

fn ask(node: &mut impl Any, role: &Role) -> Outcome<()> {
    node.make_urgent(NodeId(0))?;
    ask_on(role, || {
        node.send(
            NodeId(0),
            OutgoingMessage::new(&QUESTION[..]).channel(CONTROL),
        )?;
        let answer = node.wait(LONG)?.ok_or("no answer")?;
        match answer.channel {
            CONTROL => Ok(()),
            other => Err(format!("a message on {other:?}").into()),
        }
    })
}
