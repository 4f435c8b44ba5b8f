//! Packets that are not part of a train: challenges, MTU probes, the final CLOSE. Also the frames
//! that an INIT carries.

use super::MAX_RIDING;
use super::data::write_data;
use crate::peer::Peer;
use crate::peer::connection::Beginning;
use crate::shared::Shared;
use suci_link::limits;
use suci_link::recovery::SentKind;
use suci_link::security::Sealing;
use suci_link::time::Instant;
use suci_link::train::{Destination, Train};
use suci_link::wire::{Close, CrcScope, Frame, PLAIN_OVERHEAD, put_header, seal};

/// Copies of a final CLOSE packet, which is never retransmitted.
const FINAL_CLOSE_COPIES: u32 = 3;

impl Peer {
    /// Writes the frames of messages that an INIT carries, as many as fit the smallest path.
    pub(in crate::peer) fn write_ride(
        &mut self,
        now: Instant,
        ride: &mut Vec<u8>,
        beginning: &mut Beginning,
    ) {
        let mut train = Train::default();
        let mut frames = Vec::new();
        train.begin_packet();
        let size = PLAIN_OVERHEAD + MAX_RIDING;
        let written = write_data(&mut self.session.outbox, size, &mut train, &mut frames);
        self.traffic.bytes_resent += written.resent;
        let len = train.packet_len();
        if len == 0 {
            return;
        }
        train.finish_raw(ride);
        if let Some(number) = beginning.numbers.peek() {
            let kind = SentKind {
                eliciting: true,
                path_probe: false,
                control: false,
            };
            beginning
                .recovery
                .on_sent(number..=number, now, len, kind, &frames);
            let traffic = &mut self.traffic;
            traffic.packets_sent += 1;
            traffic.bytes_sent += (len + PLAIN_OVERHEAD) as u64;
        }
    }

    /// Sends the peer a final CLOSE outside of any session state. It is not retransmitted once the
    /// session is over, so several copies are sent at once; the peer drops the others as
    /// duplicates. If ACCEPT was not sent yet, it is sent first.
    pub(crate) fn send_final_close(&mut self, code: u64, shared: &mut Shared) {
        if let Some(accepted) = self.accepted.take_if(|accepted| accepted.due) {
            shared
                .replies
                .add(accepted.to, accepted.bytes, &mut shared.counters);
        }
        if let Some((to, bytes, sealing)) = self.final_close(code) {
            shared
                .replies
                .add_last(FINAL_CLOSE_COPIES, to, bytes, sealing, &mut shared.counters);
        }
    }

    /// Returns the final CLOSE, and the keys of the connection to seal it, which sends and receives
    /// nothing more.
    fn final_close(&mut self, code: u64) -> Option<(Destination, Vec<u8>, Option<Box<Sealing>>)> {
        let connection = self.connection.as_mut()?;
        let number = connection.link.numbers.peek()?;
        let mut bytes = Vec::with_capacity(limits::CONTROL_PACKET);
        let sealing = connection.link.sealing.take();
        match &sealing {
            None => put_header(
                &mut bytes,
                &connection.link.header(number, CrcScope::Datagram),
            ),
            Some(sealing) => {
                bytes.extend_from_slice(&connection.link.sealed_header(number, sealing))
            }
        }
        let sent = self.session.outbox.accepted();
        let received = self.session.inbox.received();
        Frame::Close(Close {
            code,
            sent,
            received,
        })
        .put(&mut bytes);
        match &sealing {
            None => seal(&mut bytes),
            // No other packet may have this number.
            Some(_) => connection.link.numbers.use_up(),
        }
        Some((connection.link.destination(), bytes, sealing))
    }
}
