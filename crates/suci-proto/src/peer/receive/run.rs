//! A run: packets of messages that came together, taken together.
//!
//! The kernel hands up what came in a row as one (GRO). If these packets follow one another under
//! the next numbers and carry messages and nothing else, then what is asked of each packet has the
//! same answer for all: whose it is, whether it is new, what it moves. So only what they carry is
//! looked at one by one, and the books are kept once for all; where they are pieces of one long
//! message, only their bytes. Afterwards the books are what [`Peer::receive`] would have made of
//! the packets one after the other; that is what the test compares. Whatever carries anything else
//! goes the general way.

use crate::arrival::Arrival;
use crate::engine::Shared;
use crate::peer::Peer;
use crate::time::Instant;
use crate::wire::ContiguousPackets;

impl Peer {
    /// Takes packets of `run`, which came with the packet before them, as [`Peer::receive`] took
    /// that one just now. Returns how many.
    pub(crate) fn receive_run(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        run: &mut ContiguousPackets<'_>,
        shared: &mut Shared,
    ) -> u64 {
        let Some(connection) = &mut self.connection else {
            return 0;
        };
        let before = run.number();
        let newest = connection.received.highest() == Some(before);
        if !newest || connection.path.address() != arrival.from || self.lingering.is_some() {
            return 0;
        }
        let waiting = run.rest().len();
        let outcome = self.session.inbox.on_contiguous(run);
        let last = run.number();
        let count = last.saturating_sub(before);
        if count == 0 {
            return 0;
        }
        let bytes = waiting.saturating_sub(run.rest().len()) as u64;
        connection.traffic.packets_received += count;
        connection.traffic.bytes_received += bytes;
        connection.received.on_packets(
            before.saturating_add(1)..=last,
            arrival.at,
            true,
            arrival.ecn,
            now,
        );
        self.life.on_streamed(count, now);
        let first = before.saturating_add(1);
        shared
            .shares
            .on_drained(&mut connection.grant, first..=last, true, now);
        if let Err(error) = outcome {
            self.fail(now, error, shared);
        }
        count
    }
}
