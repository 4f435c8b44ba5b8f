//! Sending what may go.

use super::{Driver, STALE};
use crate::error::Error;
use crate::statistics::Publisher;
use arrayvec::ArrayVec;
use std::io::{self, IoSlice};
use std::time::Duration;
use suci_net::{Backend, MAX_SLICES, SendOutcome, Train};
use suci_proto::time::Instant;
use suci_proto::types::Ecn;
use suci_proto::{Transmit, TransmitResult};

/// When the driver sends, which says how long that may go on before the program gets what arrived meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    /// The program waits for news.
    Wait,
    /// It called for something else, and may not call again for long.
    Call,
}

impl Occasion {
    fn longest(self) -> Duration {
        match self {
            Self::Wait => Duration::from_millis(1),
            Self::Call => Duration::from_millis(20),
        }
    }
}

/// Pieces of a train whose list is short: of a lone packet and a little more. The list for as many as a system call takes
/// has 16 KiB, and whatever is called from above it runs on a part of the stack that no cache holds.
const FEW: usize = 8;

impl Driver {
    /// Sends whatever may go.
    pub(crate) fn output(&mut self) -> Result<(), Error> {
        self.output_at(self.clock.now(), Occasion::Call)?;
        Ok(())
    }

    /// Sends whatever may go. What takes too long is left to the next wait, which does not sleep. Returns whether anything
    /// went, which takes time.
    pub(super) fn output_at(&mut self, now: Instant, occasion: Occasion) -> Result<bool, Error> {
        if self.gather.on_output(now) {
            self.engine.force_acks();
        }
        let mut busy = self.transmit(now, occasion)?;
        while let Some(query) = self.engine.poll_route() {
            let mtu = self.backend.path_mtu(query.address);
            self.engine.set_route_mtu(query, mtu);
            self.transmit(self.clock.now(), occasion)?;
            busy = true;
        }
        let due = |publisher: &Publisher| publisher.is_due(now);
        if self.outlook.publisher.as_ref().is_some_and(due) {
            self.publish(now, occasion)?;
            busy = true;
        }
        Ok(busy)
    }

    /// Sends what the last output left, or what has come up since: whoever takes a message makes room, of which its sender
    /// waits to hear. Nothing, if the socket is full. Returns whether there is an event now.
    pub(crate) fn send_rest(&mut self) -> Result<bool, Error> {
        if self.want_write || !self.engine.has_output() {
            return Ok(false);
        }
        self.output_at(self.clock.now(), Occasion::Wait)?;
        Ok(self.engine.has_event())
    }

    /// Shows the node's numbers, and does what was asked from outside. It takes longer than a message, so none waits for it.
    #[cold]
    fn publish(&mut self, now: Instant, occasion: Occasion) -> Result<(), Error> {
        if let Some(publisher) = &mut self.outlook.publisher {
            publisher.serve(now, &mut self.engine);
            publisher.publish(now, &self.engine, &self.backend.counters());
        }
        self.transmit(self.clock.now(), occasion)?;
        Ok(())
    }

    /// Each train has a time of its own: sending many takes milliseconds, which are not the network's. Meanwhile the socket is
    /// looked at: a window may take longer to send than to be acknowledged, and others may ask for something.
    fn transmit(&mut self, mut now: Instant, occasion: Occasion) -> Result<bool, Error> {
        self.want_write = false;
        self.left_off = false;
        let mut sent = false;
        let (began, unread) = (now, self.has_message());
        while let Some(result) = self.transmit_one(now)? {
            sent = true;
            match result {
                TransmitResult::Again => {
                    self.want_write = true;
                    break;
                }
                TransmitResult::NoGso => self.segments = self.backend.capabilities().max_segments,
                _ => {}
            }
            if !self.engine.has_output() {
                continue;
            }
            now = self.clock.now();
            if now.since(self.looked_at) <= STALE {
                continue;
            }
            self.bulk = true;
            now = self.look(now)?;
            let came = occasion == Occasion::Wait && !unread && self.has_message();
            self.left_off = came || now.since(began) > occasion.longest();
            if self.left_off {
                break;
            }
        }
        Ok(sent)
    }

    fn transmit_one(&mut self, now: Instant) -> Result<Option<TransmitResult>, Error> {
        let Some(transmit) = self.engine.poll_transmit(now, self.segments) else {
            return Ok(None);
        };
        let sent = send(&mut *self.backend, &mut self.spill, &transmit)
            .map_err(Error::io("sending to the socket"))?;
        let result = match sent {
            SendOutcome::Sent(segments) => TransmitResult::Sent(segments),
            SendOutcome::Again => TransmitResult::Again,
            SendOutcome::TooBig => TransmitResult::TooBig,
            SendOutcome::NoGso => TransmitResult::NoGso,
            SendOutcome::Unreachable(_) => TransmitResult::Unreachable,
        };
        self.engine.transmit_done(now, result);
        Ok(Some(result))
    }
}

/// Hands a gather list over as it is.
fn send(
    backend: &mut dyn Backend,
    spill: &mut Vec<u8>,
    transmit: &Transmit<'_>,
) -> io::Result<SendOutcome> {
    if transmit.pieces() <= FEW {
        gather::<FEW>(backend, spill, transmit)
    } else {
        gather::<MAX_SLICES>(backend, spill, transmit)
    }
}

/// The same with a list for at most `N` slices. A train of more than a system call takes is copied into `spill`: they are
/// all tiny then, so that copying costs little.
#[inline(never)]
fn gather<const N: usize>(
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
