//! The header of a packet, and the keys of a train.

use super::{End, Link};
use crate::recovery::Content;
use crate::security::{PhaseLimit, Readiness, Sealing};
use crate::time::Instant;
use crate::train::{Destination, Train};
use crate::types::{Ecn, PacketNumber};
use crate::wire::{
    CrcScope, HEADER, Header, PLAIN_OVERHEAD, PacketType, SEALED_OVERHEAD, SealedHeader, put_header,
};

impl<T: Content> Link<T> {
    /// Returns the bytes of each packet beside its frames.
    #[inline]
    pub(super) fn overhead(&self) -> usize {
        match self.sealing {
            None => PLAIN_OVERHEAD,
            Some(_) => SEALED_OVERHEAD,
        }
    }

    /// Begins a train of this connection's packets.
    pub(super) fn begin_train(&self, to: Destination, ecn: Ecn, train: &mut Train) {
        train.begin(to, ecn);
        if self.sealing.is_some() {
            train.will_be_sealed();
        }
    }

    /// Chooses the key of the next train. Returns false, and stops sending, if none may be used any
    /// more: the connection must be replaced.
    #[inline]
    pub fn prepare_keys(&mut self, now: Instant, limit: impl FnOnce() -> PhaseLimit) -> bool {
        let (Some(sealing), Some(number)) = (&mut self.sealing, self.numbers.peek()) else {
            return true;
        };
        match sealing.prepare(now, number, limit()) {
            Readiness::Ready => {}
            Readiness::Begins => self.pending.ping = true,
            Readiness::UsedUp => {
                self.numbers.use_up();
                return false;
            }
        }
        true
    }

    /// Writes the header of packet `number`.
    #[inline(always)]
    pub(super) fn write_header(&self, number: PacketNumber, train: &mut Train) {
        if let Some(sealing) = &self.sealing {
            return self.write_sealed_header(number, sealing, train);
        }
        let scope = match self.settings.payload_checksum {
            true => CrcScope::Datagram,
            false => CrcScope::Header,
        };
        put_header(train.head(), &self.header(number, scope));
    }

    #[inline(never)]
    fn write_sealed_header(&self, number: PacketNumber, sealing: &Sealing, train: &mut Train) {
        let header = self.sealed_header(number, sealing);
        train.head().extend_from_slice(&header);
    }

    /// Returns the header of the sealed packet `number`.
    pub fn sealed_header(&self, number: PacketNumber, sealing: &Sealing) -> [u8; HEADER] {
        let (index, phase) = (self.remote.index, sealing.phase());
        SealedHeader {
            index,
            number,
            phase,
        }
        .bytes()
    }

    /// Returns the header of the plain packet `number`.
    #[must_use]
    pub fn header(&self, number: PacketNumber, scope: CrcScope) -> Header {
        let End { index, tag } = self.remote;
        Header {
            kind: PacketType::Data,
            scope,
            index,
            number,
            tag,
        }
    }
}
