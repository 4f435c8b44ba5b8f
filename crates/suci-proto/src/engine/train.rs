//! Datagrams that the kernel handed up as one.

use super::Engine;
use crate::arrival::Arrival;
use crate::time::Instant;
use crate::wire::ContiguousPackets;

impl Engine {
    /// Takes datagrams of one sender that arrived in a row, each of `segment` bytes but the last,
    /// which may be shorter: as [`Engine::handle_datagram`] would take one after the other, in less
    /// time where they carry messages.
    pub fn handle_train(&mut self, now: Instant, arrival: &Arrival, segment: usize, bytes: &[u8]) {
        let segment = segment.max(1);
        let mut rest = bytes;
        loop {
            let first = rest
                .split_off(..segment.min(rest.len()))
                .unwrap_or_default();
            if let Some(key) = self.take(now, arrival, first)
                && !rest.is_empty()
                && let Some(mut run) = ContiguousPackets::after(first, rest)
            {
                self.take_run(now, arrival, key, &mut run);
                rest = run.rest();
            }
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Takes what follows a packet of the peer `key` in a run.
    fn take_run(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        key: usize,
        run: &mut ContiguousPackets<'_>,
    ) {
        let waiting = run.rest().len();
        if let Some(peer) = self.peers.get_mut(key) {
            let count = peer.receive_run(now, arrival, run, &mut self.shared);
            #[cfg(test)]
            {
                self.shared.in_runs += count;
            }
            let counters = &mut self.shared.counters;
            counters.datagrams_in += count;
            counters.bytes_in += waiting.saturating_sub(run.rest().len()) as u64;
            if count > 0 {
                self.on_received(key);
            }
        }
    }
}
