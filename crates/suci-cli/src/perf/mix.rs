//! Requests and replies of the sizes that a distributed shared memory was seen to send (DSE): most
//! have a few bytes, some a page. Several are in flight. One by one, each request and each reply is
//! a message sent by itself; in batches, requests that came together are answered together.

use std::collections::VecDeque;
use std::time::Instant;

use suci::Bytes;

use super::control::PATIENCE;
use super::wire::{Mark, Received, Wire};
use super::work::Done;
use crate::args::Workload;
use crate::error::Result;

/// Requests under way.
const IN_FLIGHT: usize = 16;

/// The longest message of the mix.
pub(super) const LONGEST: usize = 8192;

/// Replies are not as long as the requests beside them.
const REPLIES: u32 = u32::MAX / 2;

/// Messages of the mix, one after the other, cut from one payload.
struct Messages {
    full: Bytes,
    index: u32,
}

impl Messages {
    /// Returns the requests of a client; `full` has [`LONGEST`] bytes.
    fn requests(full: &Bytes) -> Self {
        Self {
            full: full.clone(),
            index: 0,
        }
    }

    /// Returns the replies of a server.
    fn replies(full: &Bytes) -> Self {
        Self {
            full: full.clone(),
            index: REPLIES,
        }
    }

    fn next(&mut self) -> Bytes {
        let length = size(self.index).min(self.full.len());
        self.index = self.index.wrapping_add(1);
        self.full.slice(..length)
    }
}

/// Returns the size of a message: 60 % to 16 B, 20 % to 32, 18 % to 128, 0.3 % to 1 KiB, the rest
/// to [`LONGEST`].
fn size(index: u32) -> usize {
    // A bijection that spreads (splitmix's finalizer, cut to 32 bits): no generator to carry along.
    let mut hash = index.wrapping_mul(0x9e37_79b1);
    hash ^= hash >> 15;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    let (share, spread) = (hash % 1000, hash >> 10);
    let size = match share {
        0..600 => 1 + spread % 16,
        600..800 => 17 + spread % 16,
        800..980 => 33 + spread % 96,
        980..983 => 129 + spread % 896,
        _ => 1025 + spread % 7168,
    };
    usize::try_from(size).unwrap_or(LONGEST)
}

/// Runs the client until `end`, and until all requests are answered.
pub(super) fn ask<W: Wire>(
    wire: &mut W,
    workload: Workload,
    full: &Bytes,
    end: Instant,
) -> Result<Done> {
    let mut requests = Messages::requests(full);
    let mut asked = Done::default();
    let mut sent = VecDeque::with_capacity(IN_FLIGHT);
    let mut batch = Vec::with_capacity(IN_FLIGHT);
    let mut heard = Instant::now();
    loop {
        let now = Instant::now();
        if now < end || asked.messages == 0 {
            batch.clear();
            while sent.len() < IN_FLIGHT {
                let request = requests.next();
                asked.bytes = asked.bytes.saturating_add(length(&request));
                batch.push(request);
                sent.push_back(now);
            }
            send(wire, &batch, workload.is_batched())?;
        } else if sent.is_empty() {
            return Ok(asked);
        }
        let mut received = wire.recv()?;
        let now = Instant::now();
        if received.is_none() && now - heard >= PATIENCE {
            return Err(wire.silent());
        }
        while let Some(reply) = received {
            heard = now;
            asked.bytes = asked
                .bytes
                .saturating_add(u64::try_from(reply.length).unwrap_or(0));
            if let Some(begun) = sent.pop_front() {
                asked.messages += 1;
                let nanos = (now - begun).as_nanos();
                asked.nanos.push(u64::try_from(nanos).unwrap_or(u64::MAX));
            }
            received = if sent.is_empty() {
                None
            } else {
                wire.try_recv()?
            };
        }
    }
}

fn send<W: Wire>(wire: &mut W, messages: &[Bytes], together: bool) -> Result<()> {
    let mut all = messages.iter().map(|message| (message, Mark::Data));
    match together {
        true => wire.send_together(all),
        false => all.try_for_each(|(message, mark)| wire.send(message, mark)),
    }
}

/// The replies of a server, and how they are sent.
pub(super) struct Replies {
    messages: Messages,
    /// True if replies wait to be sent together.
    together: bool,
    batch: Vec<Bytes>,
}

impl Replies {
    pub(super) fn new(full: &Bytes, together: bool) -> Self {
        Self {
            messages: Messages::replies(full),
            together,
            batch: Vec::with_capacity(IN_FLIGHT),
        }
    }

    /// Sends the next reply, or keeps it if it may wait for others. Returns its length.
    pub(super) fn answer<W: Wire>(&mut self, wire: &mut W) -> Result<u64> {
        let reply = self.messages.next();
        let length = length(&reply);
        match self.together {
            true => self.batch.push(reply),
            false => wire.send(&reply, Mark::Data)?,
        }
        Ok(length)
    }

    /// Returns the next message, where replies go together: as long as more are here already they
    /// wait.
    pub(super) fn serve<W: Wire>(&mut self, wire: &mut W) -> Result<Option<Received>> {
        if self.batch.len() < IN_FLIGHT
            && let Some(received) = wire.try_recv()?
        {
            return Ok(Some(received));
        }
        if !self.batch.is_empty() {
            send(wire, &self.batch, true)?;
            self.batch.clear();
        }
        wire.recv()
    }
}

fn length(message: &Bytes) -> u64 {
    u64::try_from(message.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;
    use crate::error::Failure;

    /// Answers everything, and the last of it so late that the time is over.
    struct Late {
        unanswered: usize,
        end: Instant,
    }

    impl Wire for Late {
        fn send(&mut self, _: &Bytes, _: Mark) -> Result<()> {
            self.unanswered += 1;
            Ok(())
        }

        fn recv(&mut self) -> Result<Option<Received>> {
            match self.unanswered {
                0 => Err(Failure::new("nobody was asked anything")),
                _ => self.try_recv(),
            }
        }

        fn try_recv(&mut self) -> Result<Option<Received>> {
            self.unanswered -= 1;
            if self.unanswered == 0 {
                sleep(self.end.saturating_duration_since(Instant::now()));
            }
            Ok(Some(Received {
                mark: Mark::Data,
                length: 1,
            }))
        }

        fn silent(&mut self) -> Failure {
            Failure::new("silence")
        }

        fn packets(&mut self) -> Result<u64> {
            Ok(0)
        }
    }

    #[test]
    fn a_client_with_all_answers_waits_for_none_at_the_end() {
        let end = Instant::now() + Duration::from_millis(50);
        let mut wire = Late { unanswered: 0, end };
        let full = super::super::work::payload(LONGEST);
        let done = ask(&mut wire, Workload::Mix, &full, end).unwrap();
        assert_eq!(done.messages, IN_FLIGHT as u64);
    }

    /// The bench's contenders compute the same sizes, and assert the same sum.
    #[test]
    fn the_sizes_are_those_of_the_bench() {
        let fold = |sum: u32, index| {
            let size = u32::try_from(size(index)).unwrap();
            sum.wrapping_mul(31).wrapping_add(size)
        };
        assert_eq!((0..1000).fold(0, fold), 0x6d0b_f796);
    }

    #[test]
    fn the_sizes_are_those_of_the_paper() {
        let mut shares = [0_u32; 5];
        for index in (0..50_000).chain(REPLIES..REPLIES + 50_000) {
            let class = match size(index) {
                1..=16 => 0,
                17..=32 => 1,
                33..=128 => 2,
                129..=1024 => 3,
                1025..=LONGEST => 4,
                other => panic!("{other}"),
            };
            shares[class] += 1;
        }
        for (share, expected) in shares.into_iter().zip([60_000, 20_000, 18_000, 300, 1_700]) {
            assert!(share.abs_diff(expected) < expected / 5, "{shares:?}");
        }
    }
}
