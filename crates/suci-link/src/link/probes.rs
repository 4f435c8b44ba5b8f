//! Packets of their own that find out about paths: challenges, responses to them, and probes for
//! larger packets or ECN marks.

use super::build::Contents;
use super::{Cargo, Link};
use crate::credit::ControlAllowance;
use crate::limits::CONTROL_PACKET;
use crate::recovery::Content;
use crate::time::Instant;
use crate::train::Train;
use crate::types::Ecn;
use crate::wire::Frame;

/// The property of the path that a probe proves if it arrives. The loss of a probe is no sign of
/// congestion.
#[derive(Clone, Copy, Debug)]
enum PathProbe {
    /// The path carries this many bytes of UDP payload.
    Size(usize),
    /// The path carries packets with ECN marks.
    Mark,
}

impl<T: Content> Link<T> {
    /// Builds a packet for an address other than the path: the challenge to the address under
    /// validation, and responses to challenges that came from there. Returns true if it did.
    pub fn build_path_validation(
        &mut self,
        now: Instant,
        cargo: &mut impl Cargo<T>,
        train: &mut Train,
    ) -> bool {
        let challenge = self.path.challenge_due(now);
        let challenge = challenge.filter(|_| self.may_ask());
        let validated = challenge.map(|(address, _)| address);
        let Some(to) = validated.or(self.pending.responds_to()) else {
            return false;
        };
        let Some(number) = self.numbers.peek() else {
            return false;
        };
        if !self.may_elicit() {
            return false;
        }
        if let ControlAllowance::NotBefore(until) = self.credit.may_send_control(number, now) {
            // No other control packet may be sent then either. The challenge is first when it may,
            // since the path may be dead.
            self.control_at = Some(until);
            return false;
        }
        // It is unknown if ECN marks arrive there.
        self.begin_train(self.path.destination_at(to), Ecn::NotEct, train);
        train.begin_packet();
        self.write_header(number, train);
        if let Some((_, nonce)) = challenge {
            let seldom = self.credit.is_beyond_reserve(number, now);
            self.path.challenge_sent(now, seldom);
            Frame::Challenge(nonce).put(train.head());
        }
        for nonce in self.pending.take_responses_to(Some(to)) {
            Frame::Response(nonce).put(train.head());
        }
        let len = train.finish_packet(!self.settings.payload_checksum);
        let contents = Contents {
            eliciting: true,
            control: true,
            ..Contents::default()
        };
        self.record(now, number..=number, len, contents, &[], cargo);
        true
    }

    /// Returns the path probe that is due, for larger packets or for ECN marks. There is none
    /// unless packets are in flight.
    fn path_probe(&self, now: Instant) -> Option<PathProbe> {
        let size = self.mtu.probe_due(now).map(PathProbe::Size);
        let probe = size.or(self.ecn.trial_due(now).then_some(PathProbe::Mark))?;
        self.recovery.has_eliciting_in_flight().then_some(probe)
    }

    /// Returns true if a path probe is due, for which no timer is set.
    pub fn is_path_probe_due(&self, now: Instant) -> bool {
        self.path_probe(now).is_some()
    }

    /// Builds a path probe: a packet larger than the path is known to carry (RFC 8899), or one with
    /// an ECN mark. Returns true if it did. Call it while messages may go.
    pub fn build_path_probe(
        &mut self,
        now: Instant,
        cargo: &mut impl Cargo<T>,
        train: &mut Train,
    ) -> bool {
        let Some(probe) = self.path_probe(now) else {
            return false;
        };
        let Some(number) = self.numbers.peek() else {
            return false;
        };
        let size = match probe {
            PathProbe::Size(size) => size,
            PathProbe::Mark => CONTROL_PACKET,
        };
        if !self.credit.may_send_data(number, now) || self.may_send(now, size as u64).is_err() {
            return false;
        }
        let mut ecn = self.ecn_mark();
        match probe {
            PathProbe::Size(size) => self.mtu.on_probe_sent(now, size),
            PathProbe::Mark => {
                self.ecn.on_trial_sent(now);
                ecn = Ecn::Ect0;
            }
        }
        self.begin_train(self.destination(), ecn, train);
        train.begin_packet();
        self.write_header(number, train);
        Frame::Ping.put(train.head());
        Frame::Padding(size.saturating_sub(train.packet_len())).put(train.head());
        let len = train.finish_packet(!self.settings.payload_checksum);
        let contents = Contents {
            eliciting: true,
            path_probe: true,
            ..Contents::default()
        };
        self.record(now, number..=number, len, contents, &[], cargo);
        true
    }
}
