//! Receiving packets of an established connection: what they tell about the peer, and what follows
//! from their frames for the session and the program. The link takes the frames themselves
//! ([`suci_link::link::Link::receive`]).

use super::end::Ending;
use super::{Closing, Peer};
use crate::credit::Shares;
use crate::event::{EndReason, Event, Side};
use crate::shared::{Notices, PortInput, Shared};
use suci_channels::message::NOT_PERMITTED;
use suci_channels::port::Port;
use suci_link::arrival::Arrival;
use suci_link::link::Heard;
use suci_link::time::Instant;
use suci_link::wire::{CLOSE_FINISHED, CLOSE_LEAVING, CLOSE_REVOKED, Close, ContiguousPackets};

impl Peer {
    /// Releases the grants of earlier connections, since a packet came on this one. Data on an INIT
    /// does not count: its sender goes on with the old connection until ACCEPT comes.
    #[inline(always)]
    pub(crate) fn release_previous(&mut self, shares: &mut Shares) {
        if let Some(connection) = &mut self.connection
            && !connection.previous.is_empty()
        {
            for mut previous in connection.previous.drain(..) {
                shares.release(&mut previous);
            }
        }
    }

    /// Takes the first of `packets`, an authentic one, and those that follow it and carry only
    /// messages. Ignores duplicates.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        packets: &mut ContiguousPackets<'_>,
        shared: &mut Shared,
    ) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let number = packets.number();
        if !connection.link.received.is_fresh(number) {
            shared.counters.duplicates += 1;
            self.traffic.duplicates += 1;
            return;
        }
        let is_newest = connection.link.received.highest() < Some(number);
        if is_newest {
            connection
                .link
                .path
                .heard_from(arrival.from, || shared.random(), now);
        }
        let previously_heard = self.life.last_heard();
        self.hear(now, shared);
        let Some((link, mut carried)) = self.carried(shared) else {
            return;
        };
        let (heard, outcome) = link.receive(now, arrival, is_newest, packets, &mut carried);
        let (emptied, suspensions) = (carried.emptied, carried.heard_suspensions);
        self.note_received(now, &heard, previously_heard, shared);
        for suspended in suspensions {
            self.tell_suspension(Side::There, suspended, shared);
        }
        match outcome {
            Err(error) => self.fail(now, error, shared),
            Ok(()) => self.after_frames(now, &heard, emptied, shared),
        }
    }

    /// Updates the records of the peer for packets that were received together.
    fn note_received(
        &mut self,
        now: Instant,
        heard: &Heard,
        previously_heard: Instant,
        shared: &mut Shared,
    ) {
        let followers = heard.packets.saturating_sub(1);
        #[cfg(test)]
        {
            shared.taken_together += followers;
        }
        if heard.acked {
            self.life.end_stream();
        }
        if heard.eliciting {
            let streamed = followers + u64::from(!heard.acked);
            self.life.on_streamed(streamed, previously_heard);
        }
        let (lost, spurious) = (u64::from(heard.lost), u64::from(heard.spurious));
        self.traffic.packets_received += heard.packets;
        self.traffic.bytes_received += heard.bytes;
        self.traffic.packets_lost += lost;
        self.traffic.spurious_losses += spurious;
        shared.counters.packets_lost += lost;
        shared.counters.spurious_losses += spurious;
        self.last_source = heard.moved.or(self.last_source);
        if let Some(connection) = &mut self.connection {
            connection.log_resized(now, &mut shared.log);
        }
    }

    /// Handles the effects of the frames, after the packet is recorded. `emptied`: the last
    /// outstanding message was acknowledged.
    fn after_frames(&mut self, now: Instant, heard: &Heard, emptied: bool, shared: &mut Shared) {
        if emptied {
            self.classifier.on_exchange(heard.message);
        }
        if heard.acked {
            self.consult(now);
            self.report_narrow(now, shared);
        }
        self.report_messages(shared);
        if let Some((close, until)) = heard.close {
            self.on_close(now, close, until, shared);
        } else if heard.close_acked && matches!(self.closing, Closing::Sent { .. }) {
            self.end(now, EndReason::ClosedHere, shared);
        }
    }

    /// Handles CLOSE: the session is over; the connection stays until then to acknowledge
    /// repetitions (F20).
    fn on_close(&mut self, now: Instant, close: Close, until: Instant, shared: &mut Shared) {
        if self.lingering.is_some() {
            return;
        }
        let ending = match close.code {
            CLOSE_FINISHED | CLOSE_LEAVING => Ending::ByPeer { sent: close.sent },
            CLOSE_REVOKED => Ending::For(EndReason::RevokedThere),
            code => Ending::For(EndReason::PeerProtocol(code)),
        };
        self.finish_session(now, ending, shared);
        if close.code == CLOSE_LEAVING {
            self.life.leave();
            self.last_is_dead = true;
        }
        self.lingering = Some(until);
    }

    /// Reports the outcomes of messages, messages that need a decision, and channels that are
    /// finished.
    #[inline(always)]
    pub(super) fn report_messages(&mut self, shared: &mut Shared) {
        self.report_completions(shared);
        self.report_incoming(shared);
        if self.session.inbox.has_finished() {
            self.list_events(&mut shared.notices);
        }
    }

    pub(super) fn report_completions(&mut self, shared: &mut Shared) {
        let node = self.node;
        while let Some(done) = self.session.outbox.poll_completion() {
            let (channel, number, token) = (done.channel, done.number, done.token);
            // Its group is over at the peer, which tells members so itself, or the peer does not
            // permit groups: the state of the member says so.
            if channel.is_of_group() {
                continue;
            }
            if let Some(reason) = done.reason
                && shared.notices.calls.refused(node, &done, reason)
            {
                self.session.open_calls = self.session.open_calls.saturating_sub(1);
                continue;
            }
            if let Some(reason) = done.reason
                && channel.is_handled()
                && Port::of(channel).hears_of_refusals()
                && shared.config.ports.has(Port::of(channel))
            {
                let input = PortInput::Refused {
                    node,
                    channel,
                    token,
                    reason,
                };
                shared.notices.tell_port(Port::of(channel), input);
                continue;
            }
            if channel.is_internal() {
                if done.reason == Some(NOT_PERMITTED) {
                    self.tell_denied(channel.layer(), &mut shared.notices);
                }
                continue;
            }
            let event = match done.reason {
                None => Event::Delivered {
                    node,
                    channel,
                    number,
                    token,
                },
                Some(reason) => Event::NotDelivered {
                    node,
                    channel,
                    number,
                    token,
                    reason,
                },
            };
            self.push_event(event, &mut shared.notices);
        }
        self.report_room(&mut shared.notices);
    }

    /// Tells the program if the send queue has room for which it waits.
    #[inline]
    pub(crate) fn report_room(&mut self, notices: &mut Notices) {
        if self.session.outbox.has_wanted_room() {
            self.list_events(notices);
        }
    }

    /// Tells the program of messages that need its decision.
    pub(crate) fn report_incoming(&mut self, shared: &mut Shared) {
        let node = self.node;
        while let Some(info) = self.session.inbox.poll_incoming() {
            if info.channel.carries_replies() {
                self.refuse_reply(&info, shared);
                continue;
            }
            if info.channel.is_of_group() {
                self.judge_for_group(&info, &shared.notices);
                continue;
            }
            let event = Event::Incoming {
                node,
                channel: info.channel,
                number: info.number,
                total: info.total,
                tag: info.tag,
                kind: info.kind,
                user_header: info.user_header,
            };
            self.push_event(event, &mut shared.notices);
        }
    }
}
