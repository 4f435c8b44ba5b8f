//! The end that writes standard output.

use std::fs::File;
use std::io;
use std::net::SocketAddr;

use suci::{Error, Event, Message, NodeId, OutgoingMessage, SharedNode};

use super::progress::Progress;
use super::{Death, LOOK, Tag, count, counted};
use crate::args::CatArgs;
use crate::error::{Context, Failure, Result, tell};
use crate::node::{self, CAT};
use crate::output::write_all;

/// Receives from the first that sends, until it has ended.
pub(super) fn run(args: &CatArgs, address: SocketAddr) -> Result<()> {
    // A receiver owes nothing, so nothing but watching would tell it that its sender is gone.
    let node = node::listener(&args.node, CAT, address)?
        .config(|config| node::watch(config, args.give_up_after))
        .open_threads(1)?;
    node::warn("cat", node.warning());
    super::part_when_signalled(&node)?;
    if address.port() == 0 {
        // Only this process knows which port the system chose.
        tell(format_args!("suci cat: receiving at {}", node.local_addr()));
    }
    let mut receiver = Receiver {
        node,
        from: None,
        turned_away: None,
        death: Death::default(),
        progress: Progress::new(args.quiet),
    };
    let done = receiver.everything();
    receiver.progress.finish();
    let (sender, draft) = match (&done, receiver.from) {
        (Err(Stop::Write(error)), Some(sender)) => (
            sender,
            OutgoingMessage::new(error.to_string()).tag(Tag::Failed.number()),
        ),
        (Ok(total), Some(sender)) => (
            sender,
            OutgoingMessage::new(count(*total)).tag(Tag::Written.number()),
        ),
        _ => return done.map(drop).map_err(Stop::into_failure),
    };
    let told = receiver
        .node
        .send(sender, draft)
        .and_then(|_| receiver.node.close(node::CLOSING));
    if let (Ok(_), Err(error)) = (&done, &told) {
        tell(format_args!(
            "suci cat: everything was written, but the sender may not know: {error}"
        ));
    }
    done.map(drop).map_err(Stop::into_failure)
}

/// Reason why receiving ended early.
enum Stop {
    /// Standard output is broken.
    Write(io::Error),
    Other(Failure),
}

impl Stop {
    fn into_failure(self) -> Failure {
        match self {
            Self::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => Failure::new(
                "standard output: the program that read it has gone; the sender was told",
            ),
            Self::Write(error) => {
                Failure::new(format!("standard output: {error}; the sender was told"))
            }
            Self::Other(failure) => failure,
        }
    }
}

impl<E: Into<Failure>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

struct Receiver {
    node: SharedNode,
    from: Option<NodeId>,
    /// The caller that was told last that another is served: once is enough.
    turned_away: Option<NodeId>,
    death: Death,
    progress: Progress,
}

impl Receiver {
    /// Writes as it comes; returns how many bytes at the end.
    fn everything(&mut self) -> Result<u64, Stop> {
        // Not `std::io::Stdout`: that would look for line ends in every byte.
        let output = std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned();
        let output = File::from(output.context("standard output")?);
        loop {
            // Events first: messages sent before a session's end are there by now.
            let events = self.node.events()?;
            while let Some(message) = self.node.try_recv()? {
                if let Some(total) = self.take(&message, &output)? {
                    return Ok(total);
                }
            }
            for event in &events {
                self.judge(event)?;
            }
            if self.death.is_sure() {
                let bytes = self.progress.bytes();
                return Err(Stop::Other(Failure::new(format!(
                    "the sender has gone before the end of its data, after {bytes} bytes: its process \
                     has ended; what was written is incomplete"
                ))));
            }
            let received = self.node.recv_timeout(LOOK);
            let received = received.or_else(|error| self.refuse(node::announced(error)?));
            if let Some(message) = received?
                && let Some(total) = self.take(&message, &output)?
            {
                return Ok(total);
            }
        }
    }

    /// Refuses a message that waits for an answer. Returns no message.
    fn refuse(&self, announced: node::Announced) -> Result<Option<Message>, Error> {
        let (from, channel, number) = announced;
        match self.node.refuse(from, channel, number, node::UNASKED) {
            Err(error) if node::is_of_node(&error) => Err(error),
            // The session may have ended meanwhile.
            _ => Ok(None),
        }
    }

    fn take(&mut self, message: &Message, output: &File) -> Result<Option<u64>, Stop> {
        if *self.from.get_or_insert(message.from) != message.from {
            if self.turned_away.replace(message.from) != Some(message.from) {
                // A caller that has gone is forgotten some time later.
                let stats = self.node.peer(message.from).stats().ok().flatten();
                let address = stats.and_then(|stats| stats.address);
                let whom = address.map_or_else(
                    || format!("node {}", message.from),
                    |address| address.to_string(),
                );
                tell(format_args!(
                    "suci cat: refused {whom}: another sender is served"
                ));
                let busy = OutgoingMessage::new("").tag(Tag::Busy.number());
                // If the peer does not take its answer, that does not matter.
                let _ = self.node.send(message.from, busy);
                let _ = self.node.peer(message.from).close(node::CLOSING);
            }
            return Ok(None);
        }
        match Tag::of(message.tag) {
            Some(Tag::Data) => {
                write_all(output, &message.payload).map_err(Stop::Write)?;
                self.progress.add(message.payload.len());
                Ok(None)
            }
            Some(Tag::End) => {
                let (sent, written) = (counted(&message.payload)?, self.progress.bytes());
                if sent == written {
                    Ok(Some(written))
                } else {
                    let text =
                        format!("{written} bytes arrived of {sent}: report this as a bug of suci");
                    Err(Failure::new(text).into())
                }
            }
            Some(Tag::Written | Tag::Failed | Tag::Busy) | None => {
                let remedy = "see that suci cat of the same release runs there";
                Err(Failure::new(format!("the sender says what no sender says: {remedy}")).into())
            }
        }
    }

    fn judge(&mut self, event: &Event) -> Result<()> {
        if Some(event.node()) == self.from {
            self.death.note(event);
        }
        if let Some(announced) = node::announced_by(event) {
            self.refuse(announced)?;
        }
        match event {
            Event::Ended { node, reason, .. } if Some(*node) == self.from => {
                let (bytes, why) = (self.progress.bytes(), node::ended(*reason));
                Err(Failure::new(format!(
                    "the sender has gone before the end of its data, after {bytes} bytes: {why}; \
                     what was written is incomplete"
                )))
            }
            Event::Refused { node, reason } if Some(*node) == self.from => {
                tell(format_args!(
                    "suci cat: the sender is out of reach: {reason}; still waiting"
                ));
                Ok(())
            }
            Event::Lost { node, .. } if Some(*node) == self.from => {
                tell(format_args!(
                    "suci cat: the sender is silent; still waiting"
                ));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
