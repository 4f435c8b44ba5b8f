//! One process's node: packets out, packets in, and the events that end a run.

use std::time::Duration;

use suci::{
    Bytes, ChannelId, EndReason, Error, Event, Mode, Node, NodeId, OutgoingMessage, Priority,
};
use tableau::parallel::{HUB, Kind, Malformed, Packet};

use crate::Failure;
use crate::args::Args;

/// The channel for messages that only have to come some time.
const BULK: ChannelId = ChannelId(0);
/// The channel for messages for which a process waits.
const URGENT: ChannelId = ChannelId(1);

/// How long a process that ends waits until others take its last messages.
const FAREWELL: Duration = Duration::from_secs(2);

/// Longest reason that is passed on, in bytes.
const LONGEST_REASON: usize = 1_000;

/// Payload bytes on their way to one process from which on this one makes no more. Messages already
/// made are always taken, so that nothing is held up in the middle of a step.
const ENOUGH: u64 = 16 << 20;

/// A node among the others.
pub(super) struct Link {
    pub(super) node: Node,
    me: u32,
    workers: u32,
    patience: Duration,
    /// Whether the library is told which messages are urgent and which are bulk.
    modes: bool,
}

/// A message as it came.
pub(super) struct Received {
    pub(super) from: u32,
    pub(super) kind: Kind,
    pub(super) question: u64,
    pub(super) body: Bytes,
}

impl Link {
    /// Opens the node that `suci run` describes.
    pub(super) fn open(args: &Args, workers: u32) -> Result<Self, Failure> {
        let patience = Duration::from_secs(args.patience.into());
        let mut builder = Node::builder()
            .silence_timeout(patience)
            .give_up_after(patience)
            .send_queue(u64::MAX);
        if args.plain {
            builder = builder.allow_insecure_network();
        }
        if let Some(faults) = args.faults {
            builder = builder.faults(faults);
        }
        let node = builder.open().map_err(failure)?;
        let mut link = Self {
            me: node.id().0,
            node,
            workers,
            patience,
            modes: args.modes.are_on(),
        };
        link.prepare().map_err(failure)?;
        Ok(link)
    }

    /// Says how traffic flows, and connects to those whose end is this process's end.
    fn prepare(&mut self) -> Result<(), Error> {
        let urgent = Priority::new(6, Priority::DEFAULT.weight()).unwrap_or(Priority::DEFAULT);
        for peer in (HUB..=self.workers).filter(|&peer| peer != self.me) {
            let with_hub = peer == HUB || self.me == HUB;
            let peer = NodeId(peer);
            if self.modes {
                // Numbers are waited for; states are not.
                let mode = if with_hub {
                    Mode::Response
                } else {
                    Mode::Throughput
                };
                let peer = self.node.peer(peer);
                peer.configure(move |options| options.mode = mode)?;
                if with_hub {
                    peer.set_channel_priority(URGENT, urgent)?;
                }
            }
            if with_hub {
                let peer = self.node.peer(peer);
                peer.configure(|options| options.keep_alive = true)?;
                peer.connect()?;
            }
        }
        Ok(())
    }

    /// Sends a packet: puts it into the peer's queue, however full that is.
    pub(super) fn send(&mut self, packet: Packet) -> Result<(), Failure> {
        let channel = match self.modes && packet.kind.is_urgent() {
            true => URGENT,
            false => BULK,
        };
        let draft = OutgoingMessage::new(packet.body)
            .channel(channel)
            .kind(suci::Kind(packet.kind as u8))
            .tag(packet.question);
        let sent = self.node.send(NodeId(packet.to), draft);
        sent.map(|_| ()).map_err(failure)
    }

    /// Whether no other process is behind. Otherwise the work that makes more messages for them
    /// should rest; receiving goes on, so that two processes never wait for each other.
    pub(super) fn is_clear(&self) -> Result<bool, Failure> {
        for peer in (HUB..=self.workers).filter(|&peer| peer != self.me) {
            let (_, bytes) = self.node.peer(NodeId(peer)).queue_len().map_err(failure)?;
            if bytes > ENOUGH {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The next message, if one has come.
    pub(super) fn receive(&mut self) -> Result<Option<Received>, Failure> {
        let Some(message) = self.node.try_recv().map_err(failure)? else {
            return Ok(None);
        };
        let from = message.from.0;
        let Some(kind) = Kind::of(message.kind.0) else {
            return Err(misfit(from, "a message", &"of a kind that there is not"));
        };
        if kind == Kind::Stop {
            return Err(stopped(&message.payload));
        }
        Ok(Some(Received {
            from,
            kind,
            question: message.tag,
            body: message.payload.into(),
        }))
    }

    /// Blocks until something comes, for at most `limit`.
    pub(super) fn wait(&mut self, limit: Duration) -> Result<(), Failure> {
        self.node.poll(limit).map(|_| ()).map_err(failure)
    }

    /// Fails if a process has gone without which the work cannot be done.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        while let Some(event) = self.node.next_event().map_err(failure)? {
            match event {
                Event::Ended { node, reason, .. } => self.ended(node.0, reason)?,
                Event::Incoming { node, total, .. } => {
                    let why = format!("of {total} bytes, more than this process takes");
                    return Err(misfit(node.0, "a message", &why));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn ended(&self, peer: u32, reason: EndReason) -> Result<(), Failure> {
        let how = match reason {
            // If a worker closed, the hub knows it, too, and why.
            EndReason::Closed if peer != HUB && self.me != HUB => return Ok(()),
            EndReason::Closed | EndReason::PeerEnded => "ended before the work was done".to_owned(),
            EndReason::Silent => format!("has not answered for {} s", self.patience.as_secs()),
            EndReason::ProcessDied => "has ended before the work was done".to_owned(),
            EndReason::Restarted => "was started anew in the middle of the work".to_owned(),
            other => format!("cannot be talked to any more: {other:?}"),
        };
        Err(Failure::Run(format!("process {peer} {how}")))
    }

    /// Tells the processes that must know why this one ends, and ends.
    pub(super) fn stop(mut self, failure: &Failure) {
        let (kind, body) = match failure {
            // The user is told here, and no process is at fault.
            Failure::Problem(_) if self.me == HUB => (Kind::Bye, Vec::new()),
            Failure::Signal(signal) => (Kind::Stop, vec![*signal]),
            Failure::Problem(reason) | Failure::Run(reason) => {
                let reason = match self.me {
                    HUB => reason.clone(),
                    me => format!("process {me}: {reason}"),
                };
                (Kind::Stop, [&[0], reason.as_bytes()].concat())
            }
        };
        let all = if self.me == HUB {
            1..=self.workers
        } else {
            HUB..=HUB
        };
        // A process that has gone cannot be told.
        for to in all {
            let _ = self.send(Packet {
                to,
                kind,
                question: 0,
                body: body.clone(),
            });
        }
        self.close();
    }

    /// Ends in order.
    pub(super) fn close(mut self) {
        // Processes that do not answer now have ended, too.
        let _ = self.node.close(FAREWELL);
    }
}

/// Makes the error from the message of another process that ended the run.
fn stopped(body: &[u8]) -> Failure {
    match body.split_first() {
        Some((&signal @ 1.., _)) => Failure::Signal(signal.min(127)),
        Some((_, reason)) => {
            let reason = reason.get(..LONGEST_REASON).unwrap_or(reason);
            Failure::Run(String::from_utf8_lossy(reason).into_owned())
        }
        None => Failure::Run("another process ended the run".to_owned()),
    }
}

pub(super) fn failure(error: Error) -> Failure {
    Failure::Run(error.to_string())
}

/// Makes the error for a message that cannot be.
pub(super) fn misfit(from: u32, what: &str, why: &dyn std::fmt::Display) -> Failure {
    Failure::Run(format!(
        "process {from} sent {what} that cannot be: {why} (do all processes run the same program?)"
    ))
}

pub(super) fn malformed(from: u32, kind: Kind, why: &Malformed) -> Failure {
    misfit(from, &format!("{kind:?}"), why)
}
