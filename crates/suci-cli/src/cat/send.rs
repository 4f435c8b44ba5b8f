//! The end that reads standard input.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use suci::{Bytes, Draft, Error, Event, Message, Node, Outcome};

use super::progress::Progress;
use super::{Tag, count, counted};
use crate::args::CatArgs;
use crate::error::{Context, Failure, Result};
use crate::node::{self, CAT};

/// Bytes per message: the longest that the receiver need not be asked for first, which would cost a
/// round trip each.
const CHUNK: usize = 256 << 10;

/// How long one wait for room or news lasts, before events are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Sends everything, and returns when the other side has written it out.
pub(super) fn run(args: &CatArgs, address: SocketAddr) -> Result<()> {
    let mut node = node::caller(&args.node, address)?
        .config(|config| {
            config.give_up_after = args.give_up_after.max(config.silence_timeout);
            // Whoever waits for input wants to know that nobody is there any more.
            config.watch = true;
        })
        .open()?;
    node.add_peer(CAT, address)?;
    let mut sender = Sender {
        node,
        address,
        progress: Progress::new(args.quiet),
        answer: None,
    };
    sender.connect(args.connect_timeout)?;
    let done = sender.everything();
    sender.progress.finish();
    done?;
    // It has answered that it has everything: how the connection ends no longer matters.
    let _ = sender.node.close(node::CLOSING);
    Ok(())
}

struct Sender {
    node: Node,
    address: SocketAddr,
    progress: Progress,
    answer: Option<Message>,
}

impl Sender {
    fn connect(&mut self, limit: Duration) -> Result<()> {
        let end = Instant::now() + limit;
        self.node.connect(CAT)?;
        loop {
            for event in self.node.events()? {
                if matches!(event, Event::Up { .. }) {
                    return Ok(());
                }
                self.judge(&event)?;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let address = self.address;
                return Err(Failure::new(format!(
                    "nobody answered at {address} within {limit:?}: start `suci cat --listen {address}` \
                     there, check address and firewall, or raise --connect-timeout"
                )));
            }
            self.node.poll(left.min(LOOK))?;
        }
    }

    fn everything(&mut self) -> Result<()> {
        let input = std::io::stdin();
        while let Some(bytes) = self.next_chunk(input.as_fd())? {
            let length = bytes.len();
            self.send(Draft::new(bytes).tag(Tag::Data.number()))?;
            self.progress.add(length);
        }
        let total = self.progress.bytes();
        self.send(Draft::new(count(total)).tag(Tag::End.number()))?;
        loop {
            self.look()?;
            if let Some(answer) = self.answer.take() {
                let written = counted(&answer.payload)?;
                return if written == total {
                    Ok(())
                } else {
                    let address = self.address;
                    Err(Failure::new(format!(
                        "{address} wrote {written} of {total} bytes: send again, and see its error output"
                    )))
                };
            }
            self.node.poll(LOOK)?;
        }
    }

    /// The next bytes; nothing at the end. While there are none it listens to the other side, which may
    /// fail or go away meanwhile.
    fn next_chunk(&mut self, input: BorrowedFd<'_>) -> Result<Option<Bytes>> {
        let mut bytes = vec![0; CHUNK];
        loop {
            if !self.input_is_ready(input)? {
                self.node.poll(Duration::ZERO)?;
                self.look()?;
                continue;
            }
            match read(input, &mut bytes) {
                Ok(0) => return Ok(None),
                Ok(length) => {
                    bytes.truncate(length);
                    if length < CHUNK / 2 {
                        // A queue of small reads must not hold on to large buffers.
                        bytes.shrink_to_fit();
                    }
                    return Ok(Some(bytes.into()));
                }
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(error).context("standard input"),
            }
        }
    }

    /// Whether there is something to read. Waits until that or until the node has news.
    fn input_is_ready(&self, input: BorrowedFd<'_>) -> Result<bool> {
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let asked = |error: Errno| match error {
            Errno::INTR => Ok(0),
            error => Err(error).context("waiting for standard input"),
        };
        let mut alone = [PollFd::new(&input, PollFlags::IN)];
        if poll(&mut alone, Some(&at_once)).or_else(asked)? > 0 {
            return Ok(true);
        }
        let mut both = [
            PollFd::new(&input, PollFlags::IN),
            PollFd::new(&self.node, PollFlags::IN),
        ];
        poll(&mut both, None).or_else(asked)?;
        let [input, _] = &both;
        Ok(!input.revents().is_empty())
    }

    /// Waits for room if there is none.
    fn send(&mut self, mut draft: Draft) -> Result<()> {
        loop {
            match self.node.send_timeout(CAT, draft, LOOK) {
                Ok(_) => return self.look(),
                Err(Error::WouldBlock { message, .. }) => draft = *message,
                Err(error) => return Err(error.into()),
            }
            self.look()?;
        }
    }

    /// Takes what the other side said, and what became of it.
    fn look(&mut self) -> Result<()> {
        while let Some(message) = self.node.try_recv()? {
            match Tag::of(message.tag) {
                Some(Tag::Written) => self.answer = Some(message),
                Some(Tag::Failed) => {
                    let why = String::from_utf8_lossy(&message.payload).into_owned();
                    return Err(Failure::new(format!(
                        "{} could not write: {why}",
                        self.address
                    )));
                }
                Some(Tag::Busy) => {
                    let remedy = "wait for its end, or listen at another port";
                    return Err(Failure::new(format!(
                        "{} serves another sender: {remedy}",
                        self.address
                    )));
                }
                Some(Tag::Data | Tag::End) | None => {
                    let remedy = "see that suci cat --listen runs there";
                    return Err(Failure::new(format!(
                        "{} sends what a receiver does not: {remedy}",
                        self.address
                    )));
                }
            }
        }
        for event in self.node.events()? {
            self.judge(&event)?;
        }
        Ok(())
    }

    fn judge(&self, event: &Event) -> Result<()> {
        let address = self.address;
        match event {
            Event::Ended {
                reason, outcomes, ..
            } if self.answer.is_none() => {
                let unsure = outcomes
                    .iter()
                    .filter(|o| o.outcome != Outcome::Delivered)
                    .count();
                let why = node::ended(*reason);
                let parts = if unsure > 0 {
                    format!("; {unsure} messages were under way")
                } else {
                    String::new()
                };
                Err(Failure::new(format!(
                    "{address} has gone before it had everything: {why}{parts}; start both ends again"
                )))
            }
            Event::Refused { reason, .. } => Err(Failure::new(format!(
                "{address} refuses: {}",
                node::refused(*reason)
            ))),
            Event::Lost { .. } => {
                eprintln!("suci cat: {address} does not answer; still trying");
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
