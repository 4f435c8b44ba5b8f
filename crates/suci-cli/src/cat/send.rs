//! The end that reads standard input.
//!
//! One thread reads and sends, and may block in either. The other thread listens, so that a
//! receiver that fails or goes away ends the command even while no input comes. The node has a
//! thread of its own besides: acknowledgements and retransmissions wait for neither.

use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::{Errno, read};
use suci::{Bytes, Error, Event, Message, Outcome, OutgoingMessage, SharedNode};

use super::progress::Progress;
use super::{Death, LOOK, Tag, count, counted};
use crate::args::{CatArgs, Target};
use crate::closed;
use crate::error::{Context, Failure, Result, tell};
use crate::node::{self, CAT};
use crate::output::wait;

/// Bytes per message: the longest that the receiver need not be asked for first, which would cost a
/// round trip each.
const CHUNK: usize = 256 << 10;

/// How long one wait for an answer lasts, before it is looked at whether anybody is there.
const ASK: Duration = Duration::from_millis(20);

/// How long the end of a connection that has done its work may take.
const PARTING: Duration = Duration::from_secs(2);

/// Sends everything, and returns when the other side has written it out.
pub(super) fn run(args: &CatArgs, target: &Target) -> Result<()> {
    closed::need_input()?;
    let limit = args.connect_timeout;
    let several = target.addresses().len() > 1;
    let call = |address, until| -> Result<Option<_>> {
        let sender = Sender::open(args, address)?;
        if sender.connect(until, several)? {
            return Ok(Some(sender));
        }
        // The message that asked is for nobody: closing would wait for its outcome.
        let _ = sender.node.close(Duration::ZERO);
        Ok(None)
    };
    let Some(sender) = node::in_turn(target, limit, call)? else {
        let all: Vec<_> = target
            .addresses()
            .iter()
            .map(SocketAddr::to_string)
            .collect();
        let all = all.join(" or ");
        let known = node::known_of_silence(false, target.addresses());
        return Err(Failure::new(format!(
            "nobody answered at {all} within {limit:?}: {known}start `suci cat --listen ADDR` there, check \
             address and firewall, or raise --connect-timeout"
        )));
    };
    node::warn("cat", sender.node.warning());
    super::part_when_signalled(&sender.node)?;
    let (node, progress) = (sender.node.clone(), Progress::new(args.quiet));
    let feeder = std::thread::Builder::new()
        .name("stdin".into())
        .spawn(move || feed(&node, progress))
        .context("a thread for standard input")?;
    let done = sender.listen(feeder);
    // After a failure the other side mostly is not there. A user who waits for the reason should
    // not wait for a parting.
    let patience = if done.is_ok() {
        sender.await_close();
        PARTING
    } else {
        super::GOODBYE
    };
    // Everything is decided: this only tells the other side, should it be there.
    let _ = sender.node.close(patience);
    done
}

/// Sends standard input; returns how many bytes there were.
fn feed(node: &SharedNode, mut progress: Progress) -> Result<u64> {
    let input = std::io::stdin();
    loop {
        let mut bytes = vec![0; CHUNK];
        match read(&input, &mut bytes) {
            Ok(0) => break,
            Ok(length) => {
                bytes.truncate(length);
                if length < CHUNK / 2 {
                    // A queue of small reads must not hold on to large buffers.
                    bytes.shrink_to_fit();
                }
                send(node, Bytes::from(bytes), Tag::Data)?;
                progress.add(length);
            }
            Err(Errno::INTR) => {}
            // Another process set it to non-blocking.
            Err(Errno::AGAIN) => wait(&input, PollFlags::IN).context("standard input")?,
            Err(error) => return Err(error).context("standard input"),
        }
    }
    progress.finish();
    let total = progress.bytes();
    send(node, count(total).into(), Tag::End)?;
    Ok(total)
}

/// Waits for room as long as it takes: whether the other side is still there is the listener's
/// business.
fn send(node: &SharedNode, payload: Bytes, tag: Tag) -> Result<()> {
    let mut draft = OutgoingMessage::new(payload).tag(tag.number());
    loop {
        match node.send_timeout(CAT, draft, LOOK) {
            Err(Error::WouldBlock { message, .. }) => draft = *message,
            done => return Ok(done?),
        }
    }
}

struct Sender {
    node: SharedNode,
    address: SocketAddr,
}

impl Sender {
    /// Opens a node that calls `address`.
    fn open(args: &CatArgs, address: SocketAddr) -> Result<Self> {
        // A command that waits for input must learn if its receiver is gone.
        let node = node::caller(&args.node, address)?
            .config(|config| node::watch(config, args.give_up_after))
            .open_threads(1)?;
        node.add_peer(CAT, address)?;
        Ok(Self { node, address })
    }

    /// Makes sure that a receiver is there before anything is read. The empty message asks. Returns
    /// false if none answered `until` then or, with `several` addresses, as soon as the receiver's
    /// host says that none is there.
    fn connect(&self, until: Instant, several: bool) -> Result<bool> {
        self.node
            .send(CAT, OutgoingMessage::new("").tag(Tag::Data.number()))?;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.node.event_timeout(left.min(ASK))? {
                Some(Event::Up { .. }) => return Ok(true),
                Some(event) => self.judge(&event)?,
                None if left.is_zero() => return Ok(false),
                None if several && node::is_absent(&self.node.peers()?, CAT) => return Ok(false),
                None => {}
            }
        }
    }

    /// Handles answers until everything is sent and the other side has written it.
    fn listen(&self, feeder: JoinHandle<Result<u64>>) -> Result<()> {
        let (mut feeder, mut total, mut written) = (Some(feeder), None, None);
        let mut death = Death::default();
        loop {
            // Events first: messages sent before a session's end are there by now.
            let events = self.node.events()?;
            if let Some(message) = self.node.recv_timeout(LOOK)? {
                written = Some(self.answer(&message)?);
            }
            for event in events.iter().filter(|_| written.is_none()) {
                self.judge(event)?;
                death.note(event);
            }
            if written.is_none() && death.is_sure() {
                let address = self.address;
                return Err(Failure::new(format!(
                    "{address} has gone before it had everything: its process has ended; start both \
                     ends again"
                )));
            }
            if let Some(ended) = feeder.take_if(|feeder| feeder.is_finished()) {
                let panicked = |_| {
                    Err(Failure::new(
                        "the thread that reads standard input panicked",
                    ))
                };
                total = Some(ended.join().unwrap_or_else(panicked)?);
            }
            let address = self.address;
            match (total, written) {
                (Some(total), Some(written)) if written == total => return Ok(()),
                (Some(total), Some(written)) => {
                    return Err(Failure::new(format!(
                        "{address} wrote {written} of {total} bytes: send again, and see its error output"
                    )));
                }
                _ => {}
            }
        }
    }

    /// Lets the other side close, so that it learns that its answer arrived.
    fn await_close(&self) {
        let end = Instant::now() + PARTING;
        while Instant::now() < end {
            match self.node.event_timeout(LOOK) {
                Ok(Some(Event::Ended { .. })) | Err(_) => break,
                Ok(_) => {}
            }
        }
    }

    /// Returns the number of bytes that the other side says it wrote.
    fn answer(&self, message: &Message) -> Result<u64> {
        let address = self.address;
        match Tag::of(message.tag) {
            Some(Tag::Written) => counted(&message.payload),
            Some(Tag::Failed) => {
                let why = String::from_utf8_lossy(&message.payload);
                Err(Failure::new(format!("{address} could not write: {why}")))
            }
            Some(Tag::Busy) => Err(Failure::new(format!(
                "{address} serves another sender: wait for its end, or listen at another port"
            ))),
            Some(Tag::Data | Tag::End) | None => Err(Failure::new(format!(
                "{address} sends what a receiver does not: see that suci cat --listen runs there"
            ))),
        }
    }

    fn judge(&self, event: &Event) -> Result<()> {
        let address = self.address;
        match event {
            Event::Ended {
                reason, outcomes, ..
            } => {
                let unsure = outcomes
                    .iter()
                    .filter(|o| o.outcome != Outcome::Delivered)
                    .count();
                let why = node::ended(*reason);
                let parts = if unsure > 0 {
                    format!("; {unsure} message(s) were under way")
                } else {
                    String::new()
                };
                Err(Failure::new(format!(
                    "{address} has gone before it had everything: {why}{parts}; start both ends again"
                )))
            }
            Event::Refused { reason, .. } => {
                Err(Failure::new(format!("{address} refuses: {reason}")))
            }
            Event::Lost { .. } => {
                let is_absent = node::is_absent(&self.node.peers()?, CAT);
                let known = node::known_of_silence(is_absent, &[address]);
                tell(format_args!(
                    "suci cat: {address} does not answer; {known}still trying"
                ));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
