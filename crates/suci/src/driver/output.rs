//! Sends output.

use super::Driver;
use crate::error::Error;
use crate::statistics::Publisher;
use arrayvec::ArrayVec;
use std::io::{self, IoSlice};
use suci_layers::routes::{Behind, CARRIED};
use suci_net::{Backend, MAX_SLICES, SendOutcome, Train};
use suci_proto::time::Instant;
use suci_proto::types::Ecn;
use suci_proto::{Port, Renewal, TX_BUDGET, Transmit, TransmitResult};

/// Slices of a train with a short list: a lone packet and a little more. The list for as many
/// slices as a system call takes has 16 KiB, and functions called from above it run on a part of
/// the stack that no cache holds.
const FEW: usize = 8;

impl Driver {
    /// Serves the one-sided operations that arrived, then sends all that may be sent. If it stops
    /// before, it is [`tx_incomplete`](Self::tx_incomplete), and the next cycle is due at once.
    /// Returns whether anything was sent, which takes time.
    pub(super) fn output(&mut self) -> Result<bool, Error> {
        if self.remote_waits || self.engine.has_port_input(Port::Remote) {
            self.serve_remote();
        }
        if self.has_membership_work() {
            self.serve_membership();
        }
        if self.has_socket_work() {
            self.serve_sockets();
        }
        self.match_arrived();
        let now = self.now;
        self.tx_incomplete = false;
        self.coalescer.on_output(now);
        if self.engine.output_yields(now) {
            self.end_tx();
            return Ok(false);
        }
        let mut busy = self.transmit()?;
        if busy && self.take_reports() {
            // Reports that sending noticed may require packets to be sent.
            self.transmit_now()?;
        }
        while let Some(query) = self.engine.poll_route() {
            let mtu = match Behind::at(query.address) {
                Some(_) => Some(CARRIED),
                None => self.backend.path_mtu(query.address),
            };
            self.engine.set_route_mtu(query, mtu);
            self.transmit_now()?;
            busy = true;
        }
        let due = |publisher: &Publisher| publisher.is_due(now);
        if self.publishers.publisher.as_ref().is_some_and(due) {
            self.publish(now)?;
            busy = true;
        }
        if self.engine.take_found_waiting() {
            self.held_up = true;
            self.coalescer.on_left_output();
        }
        self.write_log();
        Ok(busy)
    }

    /// Notes that output stops although more may be sent.
    fn end_tx(&mut self) {
        self.engine.end_tx(self.now);
        self.tx_incomplete = true;
        self.coalescer.on_left_output();
    }

    /// Leaves all output to the next call or the helper, as after an output that stopped early.
    pub(crate) fn leave_output(&mut self) {
        self.tx_incomplete = true;
        self.coalescer.on_left_output();
    }

    /// Sends only output that is more urgent than the rest of the last output, even if that waits
    /// for a poll of the socket.
    pub(crate) fn output_urgent(&mut self) -> Result<(), Error> {
        while !self.want_write && self.engine.has_urgent_output() {
            self.read_clock();
            match self.transmit_one()? {
                Some(TransmitResult::Again) => self.want_write = true,
                Some(_) => {}
                None => break,
            }
        }
        Ok(())
    }

    /// Whether there is more to send, now or as soon as a peer answers, a timer ends or the socket
    /// has room.
    pub(crate) fn has_unsent(&mut self) -> bool {
        self.held_up = self.held_up && self.engine.is_held_up();
        self.tx_incomplete || self.held_up
    }

    /// The number of the hold, if output may wait for the program's next call: messages that wait
    /// for more or are held up, or the rest of the last output.
    pub(crate) fn hold_number(&self) -> Option<u32> {
        let waits = self.tx_incomplete || self.held_up || self.coalescer.holds_messages();
        waits.then(|| self.coalescer.last_hold())
    }

    /// Sends output that has come up since the last one, such as memory credit for the sender of a
    /// message that the program took. Sends nothing if the socket is full, or if the last output
    /// stopped early: the next cycle does. Returns whether there is an event now.
    pub(crate) fn output_rest(&mut self) -> Result<bool, Error> {
        if self.want_write || self.tx_incomplete || !self.engine.has_output() {
            return Ok(false);
        }
        self.output_now()?;
        Ok(self.engine.has_event())
    }

    /// Publishes the node's counters, and serves requests of other processes. That takes longer
    /// than sending a message, so it comes after all output.
    #[cold]
    fn publish(&mut self, now: Instant) -> Result<(), Error> {
        let counters = self.backend_counters();
        if let Some(publisher) = &mut self.publishers.publisher {
            publisher.serve(now, &mut self.engine);
            publisher.publish(now, &self.engine, &counters);
        }
        self.transmit_now()
    }

    /// As [`Driver::transmit`], after something that took time.
    fn transmit_now(&mut self) -> Result<(), Error> {
        self.read_clock();
        self.transmit().map(drop)
    }

    /// Sends trains until none is left, the socket is full, or [`TX_BUDGET`] is over. Returns
    /// whether it sent any.
    ///
    /// The clock is read for each train: sending many takes milliseconds, which must not count as
    /// time on the network. Sending stops after [`TX_BUDGET`], because a window may take longer to
    /// send than to be acknowledged, and the program or a peer may have something urgent.
    fn transmit(&mut self) -> Result<bool, Error> {
        let mut sent = false;
        if self.tx_incomplete {
            return Ok(sent);
        }
        self.want_write = false;
        let began = self.now;
        while let Some(result) = self.transmit_one()? {
            sent = true;
            match result {
                TransmitResult::Again => {
                    self.want_write = true;
                    break;
                }
                TransmitResult::NoGso => {
                    self.max_segments = self.backend.capabilities().max_segments
                }
                _ => {}
            }
            if self.engine.has_output() {
                let now = self.read_clock();
                if now.since(began) > TX_BUDGET || self.is_interrupted() {
                    self.end_tx();
                    break;
                }
            }
        }
        Ok(sent)
    }

    fn transmit_one(&mut self) -> Result<Option<TransmitResult>, Error> {
        let now = self.now;
        if let Some(jumps) = &mut self.clock_jumps
            && jumps.jumped(now)
        {
            self.engine.renew_keys(now, Renewal::StopSealing);
        }
        let Some(transmit) = self.engine.poll_transmit(now, self.max_segments) else {
            return Ok(None);
        };
        if let Some(behind) = Behind::at(transmit.dest) {
            self.spill.clear();
            transmit.copy_to(&mut self.spill);
            let segment = transmit.segment;
            return Ok(Some(self.transmit_routed(behind, segment)));
        }
        let sent = send(&mut *self.backend, &mut self.spill, &transmit)
            .map_err(Error::io("sending to the socket"))?;
        let result = match sent {
            SendOutcome::Sent(segments) => TransmitResult::Sent(segments),
            SendOutcome::Again => TransmitResult::Again,
            SendOutcome::TooBig => TransmitResult::TooBig,
            SendOutcome::NoGso => TransmitResult::NoGso,
            SendOutcome::Unreachable(kind) => {
                TransmitResult::Unreachable(super::input::unreachable(kind))
            }
        };
        self.engine.transmit_done(now, result);
        Ok(Some(result))
    }
}

/// Hands a gather list to the backend, in a list of slices as short as possible.
fn send(
    backend: &mut dyn Backend,
    spill: &mut Vec<u8>,
    transmit: &Transmit<'_>,
) -> io::Result<SendOutcome> {
    if transmit.pieces() <= FEW {
        send_slices::<FEW>(backend, spill, transmit)
    } else {
        send_slices::<MAX_SLICES>(backend, spill, transmit)
    }
}

/// As [`send`], with a list of at most `N` slices. A train with more slices than a system call
/// takes is first copied into `spill`. Its slices are small, so the copy costs little.
#[inline(never)]
fn send_slices<const N: usize>(
    backend: &mut dyn Backend,
    spill: &mut Vec<u8>,
    transmit: &Transmit<'_>,
) -> io::Result<SendOutcome> {
    let mut slices = ArrayVec::<IoSlice<'_>, N>::new();
    let mut rest = transmit.slices();
    slices.extend(rest.by_ref().take(N).map(IoSlice::new));
    if rest.next().is_some() {
        spill.clear();
        transmit.copy_to(spill);
        slices.clear();
        slices.push(IoSlice::new(spill));
    }
    backend.send(&Train {
        dest: transmit.dest,
        source: transmit.source,
        ecn: ecn_out(transmit.ecn),
        segment: transmit.segment,
        slices: &slices,
        len: transmit.len,
    })
}

fn ecn_out(ecn: Ecn) -> suci_net::Ecn {
    match ecn {
        Ecn::NotEct => suci_net::Ecn::NotEct,
        Ecn::Ect0 => suci_net::Ecn::Ect0,
        Ecn::Ect1 => suci_net::Ecn::Ect1,
        Ecn::Ce => suci_net::Ecn::Ce,
    }
}
