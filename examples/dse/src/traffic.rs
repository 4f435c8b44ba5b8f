//! Two patterns of the paper: bursts and ping-pong, of one process with another (1:1) or of several
//! with one (2:1 and so on).

use clap::Args;
use serde_json::json;
use suci::Bytes;

use crate::args::whole;
use crate::process::Process;
use crate::program::{Program, Told};
use crate::progress::Progress;
use crate::transport::{Result, Tag};

const DATA: Tag = Tag(40);
const ANSWER: Tag = Tag(41);

const ALONE: &str = "one process alone has no traffic to compare: leave out --check";

#[derive(Args)]
struct Load {
    /// The length of a message, in bytes
    #[arg(long, default_value = "1024", value_name = "BYTES", value_parser = whole(0, 16 << 20),
          allow_negative_numbers = true)]
    size: u32,
    /// Messages of each sender
    #[arg(long, default_value = "1000", value_name = "N", value_parser = whole(1, 100_000_000),
          allow_negative_numbers = true)]
    count: u32,
}

/// Messages and bytes that process 0 received.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) struct Received {
    messages: u64,
    bytes: u64,
}

/// The others send messages to process 0 as fast as they can
#[derive(Args)]
pub(crate) struct Burst {
    #[command(flatten)]
    load: Load,
}

/// The others exchange messages with process 0, each one at a time
#[derive(Args)]
pub(crate) struct PingPong {
    #[command(flatten)]
    load: Load,
}

impl Load {
    /// Process 0: receives everything, and does `with` the sender of each message.
    fn receive(
        &self,
        process: &mut Process,
        progress: &mut Progress,
        with: impl Fn(&mut Process, usize, Bytes) -> Result<()>,
    ) -> Result<Received> {
        let mut received = Received::default();
        let all = u64::from(self.count) * (process.size() as u64 - 1);
        while received.messages < all {
            let message = process.recv(None, DATA)?;
            received.messages += 1;
            received.bytes += message.payload.len() as u64;
            with(process, message.from, message.payload)?;
            if received.messages.is_multiple_of(256) {
                progress.show(received.messages, all);
            }
        }
        Ok(received)
    }

    fn check(size: usize) -> Result<()> {
        match size {
            0 | 1 => Err("start 2 processes or more: suci run -n 2 -- dse ...".into()),
            _ => Ok(()),
        }
    }

    fn tell(&self, name: &str, received: &Received) -> Told {
        let Received { messages, bytes } = received;
        Told {
            text: format!("{name}: {messages} messages, {bytes} bytes"),
            json: json!({
                "size": self.size, "count": self.count, "messages": messages, "bytes": bytes
            }),
        }
    }
}

impl Program for Burst {
    type Found = Received;

    fn check(&self, size: usize) -> Result<()> {
        Load::check(size)
    }

    fn parallel(&self, process: &mut Process, progress: &mut Progress) -> Result<Option<Received>> {
        if process.is_root() {
            let received = self.load.receive(process, progress, |_, _, _| Ok(()));
            return received.map(Some);
        }
        let payload = Bytes::from(vec![7; self.load.size as usize]);
        for _ in 0..self.load.count {
            process.send(0, DATA, payload.clone())?;
        }
        Ok(None)
    }

    fn sequential(&self, _: &mut Progress) -> Result<Received> {
        Err(ALONE.into())
    }

    fn tell(&self, received: &Received) -> Result<Told> {
        Ok(self.load.tell("burst", received))
    }
}

impl Program for PingPong {
    type Found = Received;

    fn check(&self, size: usize) -> Result<()> {
        Load::check(size)
    }

    fn parallel(&self, process: &mut Process, progress: &mut Progress) -> Result<Option<Received>> {
        if process.is_root() {
            let answer = |process: &mut Process, to, payload| process.send(to, ANSWER, payload);
            let received = self.load.receive(process, progress, answer);
            return received.map(Some);
        }
        let payload = Bytes::from(vec![7; self.load.size as usize]);
        for _ in 0..self.load.count {
            process.send(0, DATA, payload.clone())?;
            process.recv_from(0, ANSWER)?;
        }
        Ok(None)
    }

    fn sequential(&self, _: &mut Progress) -> Result<Received> {
        Err(ALONE.into())
    }

    fn tell(&self, received: &Received) -> Result<Told> {
        Ok(self.load.tell("ping-pong", received))
    }
}
