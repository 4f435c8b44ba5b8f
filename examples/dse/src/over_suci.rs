//! Messages over Suci: one UDP socket, whatever the number of processes.

use std::net::IpAddr;
use std::time::Duration;

use suci::{Bytes, EndReason, Event, Next, Node, NodeId, OutgoingMessage};

use crate::transport::{Message, Result, Tag, Transport};

/// A process that is silent for this long is dead: no other can go on without it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest wait for the slowest process.
const LONG: Duration = Duration::from_secs(3_600);

pub(crate) struct OverSuci {
    node: Node,
    size: usize,
    /// The reason why the session with each process ended, if it has.
    ended: Vec<Option<EndReason>>,
}

impl OverSuci {
    /// Joins the processes that `suci run` started. Without `suci run` this process is alone.
    pub(crate) fn open() -> Result<Self> {
        let mut builder = Node::builder().silence_timeout(PATIENCE).keep_alive();
        if suci::env::id()?.is_none() {
            builder = builder.id(NodeId(0));
        }
        let node = builder.give_up_after(PATIENCE).open()?;
        let size = usize::try_from(suci::env::size()?.unwrap_or(1))?;
        Ok(Self {
            node,
            size,
            ended: vec![None; size],
        })
    }

    /// The address of this host at which the node listens.
    pub(crate) fn ip(&self) -> IpAddr {
        self.node.local_addr().ip()
    }

    /// Returns the message, if it is one, or notes the end of a process.
    fn take(&mut self, next: Next) -> Result<Option<Message>> {
        match next {
            Next::Message(message) => Ok(Some(Message {
                from: usize::try_from(message.from.0)?,
                tag: Tag(u8::try_from(message.tag)?),
                payload: message.payload.into(),
            })),
            Next::Event(Event::Ended { node, reason, .. }) => {
                if let Some(ended) = self.ended.get_mut(usize::try_from(node.0)?) {
                    *ended = Some(reason);
                }
                Ok(None)
            }
            Next::Event(_) => Ok(None),
        }
    }

    /// Fails if `from`, or without it any process, has ended.
    fn check(&self, from: Option<usize>) -> Result<()> {
        let mut ended = self.ended.iter().enumerate();
        let missing = ended
            .find(|(rank, reason)| reason.is_some() && from.is_none_or(|awaited| awaited == *rank));
        match missing {
            Some((rank, Some(reason))) => Err(format!("process {rank} ended: {reason:?}").into()),
            _ => Ok(()),
        }
    }
}

impl Transport for OverSuci {
    fn rank(&self) -> usize {
        self.node.id().0 as usize
    }

    fn size(&self) -> usize {
        self.size
    }

    fn send(&mut self, to: usize, tag: Tag, payload: Bytes) -> Result<()> {
        let message = OutgoingMessage::new(payload).tag(tag.0.into());
        let to = NodeId(u32::try_from(to)?);
        self.node.send_timeout(to, message, LONG)?;
        Ok(())
    }

    fn recv(&mut self, from: Option<usize>) -> Result<Message> {
        loop {
            self.check(from)?;
            let next = self.node.next()?;
            if let Some(message) = self.take(next)? {
                return Ok(message);
            }
        }
    }

    fn try_recv(&mut self) -> Result<Option<Message>> {
        while let Some(next) = self.node.try_next()? {
            if let Some(message) = self.take(next)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    fn close(&mut self) -> Result<()> {
        Ok(self.node.close(LONG)?)
    }
}
