//! Packets that are not part of a train: challenges, MTU probes, the final CLOSE. Also the frames
//! that an INIT carries.

use super::data::write_data;
use super::{Contents, MAX_RIDING};
use crate::credit::ControlAllowance;
use crate::engine::Shared;
use crate::peer::Peer;
use crate::peer::connected::Connected;
use crate::peer::connection::Beginning;
use suci_link::limits;
use suci_link::recovery::SentKind;
use suci_link::security::Sealing;
use suci_link::time::Instant;
use suci_link::train::{Destination, Train};
use suci_link::types::Ecn;
use suci_link::wire::{Close, CrcScope, Frame, PLAIN_OVERHEAD, put_header, seal};

/// Copies of a final CLOSE packet, which is never retransmitted.
const FINAL_CLOSE_COPIES: u32 = 3;

/// The property of the path that a probe proves if it arrives. The loss of a probe is no sign of
/// congestion.
#[derive(Clone, Copy, Debug)]
pub(super) enum PathProbe {
    /// The path carries this many bytes of UDP payload.
    Size(usize),
    /// The path carries packets with ECN marks.
    Mark,
}

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
            shared.reply(accepted.to, accepted.bytes);
        }
        if let Some((to, bytes, sealing)) = self.final_close(code) {
            shared.reply_last(FINAL_CLOSE_COPIES, to, bytes, sealing);
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

impl Connected<'_> {
    /// Builds a packet for an address other than the path: the challenge to the address under
    /// validation, and responses to challenges that came from there. Returns true if it did.
    pub(super) fn build_path_validation(
        &mut self,
        now: Instant,
        train: &mut Train,
        shared: &mut Shared,
    ) -> bool {
        let connection = &mut *self.connection;
        let challenge = connection.link.path.challenge_due(now);
        let challenge = challenge.filter(|_| connection.link.may_ask());
        let validated = challenge.map(|(address, _)| address);
        let Some(to) = validated.or(connection.link.pending.responds_to()) else {
            return false;
        };
        let Some(number) = connection.link.numbers.peek() else {
            return false;
        };
        if !connection.link.may_elicit() {
            return false;
        }
        if let ControlAllowance::NotBefore(until) =
            connection.link.credit.may_send_control(number, now)
        {
            // No other control packet may be sent then either. The challenge is first when it may,
            // since the path may be dead.
            connection.link.control_at = Some(until);
            return false;
        }
        // It is unknown if ECN marks arrive there.
        connection
            .link
            .begin_train(connection.link.path.destination_at(to), Ecn::NotEct, train);
        train.begin_packet();
        connection.link.write_header(number, train);
        if let Some((_, nonce)) = challenge {
            let seldom = connection.link.credit.is_beyond_reserve(number, now);
            connection.link.path.challenge_sent(now, seldom);
            Frame::Challenge(nonce).put(train.head());
        }
        for nonce in connection.link.pending.take_responses_to(Some(to)) {
            Frame::Response(nonce).put(train.head());
        }
        let len = train.finish_packet(!shared.config.payload_checksum);
        let contents = Contents {
            eliciting: true,
            control: true,
            ..Contents::default()
        };
        self.record(now, number..=number, len, contents, &[], shared);
        true
    }

    /// Returns the path probe that is due, for larger packets or for ECN marks. There is none
    /// unless packets of messages are in flight.
    pub(super) fn path_probe_due(&self, now: Instant) -> Option<PathProbe> {
        let connection = &*self.connection;
        let size = connection.link.mtu.probe_due(now).map(PathProbe::Size);
        let probe = size.or(connection
            .link
            .ecn
            .trial_due(now)
            .then_some(PathProbe::Mark))?;
        let under_way = self.carries_data && connection.link.recovery.has_eliciting_in_flight();
        under_way.then_some(probe)
    }

    /// Builds a path probe: a packet larger than the path is known to carry (RFC 8899), or one with
    /// an ECN mark. Returns true if it did.
    pub(super) fn build_path_probe(
        &mut self,
        now: Instant,
        train: &mut Train,
        shared: &mut Shared,
    ) -> bool {
        let Some(probe) = self.path_probe_due(now) else {
            return false;
        };
        let connection = &mut *self.connection;
        let Some(number) = connection.link.numbers.peek() else {
            return false;
        };
        let size = match probe {
            PathProbe::Size(size) => size,
            PathProbe::Mark => limits::CONTROL_PACKET,
        };
        if !connection.link.credit.may_send_data(number, now)
            || connection.link.may_send(now, size as u64).is_err()
        {
            return false;
        }
        let mut ecn = connection.link.ecn_mark();
        match probe {
            PathProbe::Size(size) => connection.link.mtu.on_probe_sent(now, size),
            PathProbe::Mark => {
                connection.link.ecn.on_trial_sent(now);
                ecn = Ecn::Ect0;
            }
        }
        connection
            .link
            .begin_train(connection.link.destination(), ecn, train);
        train.begin_packet();
        connection.link.write_header(number, train);
        Frame::Ping.put(train.head());
        Frame::Padding(size.saturating_sub(train.packet_len())).put(train.head());
        let len = train.finish_packet(!shared.config.payload_checksum);
        let contents = Contents {
            eliciting: true,
            path_probe: true,
            ..Contents::default()
        };
        self.record(now, number..=number, len, contents, &[], shared);
        true
    }
}
