//! Packets that follow a packet of messages in its train.
//!
//! A packet that carried messages and nothing else shows that no acknowledgement, credit or answer
//! was due. Nothing becomes due at the same `now`, so the next packets also carry messages only,
//! until one must carry a PING, skip a number, or pass a limit. [`Link::permit_to_follow`] counts
//! these packets once.
//!
//! If the packet carried a piece of a large message, and no lost bytes wait, the message keeps its
//! turn until its part of the round is used or it ends. So the full packets up to that end are
//! built in one loop.
//!
//! The packets, and the state of the link afterwards, are the same as if [`Link::build_packet`] had
//! built each of them; the engine's tests compare both.

use super::build::{Contents, Permit};
use super::fill::Newest;
use super::{Cargo, Link, Recorded};
use crate::limits::MAX_DATAGRAM;
use crate::recovery::Content;
use crate::time::Instant;
use crate::train::{Following, Train};
use crate::wire::{HEADER, PLAIN_OVERHEAD};

impl<T: Content> Link<T> {
    /// Returns the permit of the packet behind the `newest`, if that one carried only messages and
    /// this one may, too: it skips no number, need not carry a PING, and passes no limit.
    pub(super) fn permit_to_follow(
        &mut self,
        now: Instant,
        newest: Newest,
        cargo: &mut impl Cargo<T>,
    ) -> Option<Permit> {
        if !newest.messages_only || !cargo.goes_on() {
            return None;
        }
        if cargo.is_outranked() != (self.reserve > 0) || self.pending.probes > 0 {
            return None;
        }
        let number = self.numbers.peek()?;
        let size = newest.len as u64;
        let count = match newest.more {
            Some(count) => count,
            None => {
                let paced = self.rate(now, size).map_or(u64::MAX, |rate| {
                    let budget = self.pacer.budget(now, rate);
                    budget.saturating_sub(self.reserve) / size
                });
                let credit = self.credit.data_allowance(number, now);
                let capped = cargo
                    .cap()
                    .map_or(u64::MAX, |cap| cap.budget(now, size) / size);
                paced
                    .min(credit.saturating_sub(1))
                    .min(self.packets_before_ping(size))
                    .min(capped)
                    .min(self.numbers.in_a_row())
            }
        };
        Some(Permit {
            number,
            size: newest.len,
            data: true,
            within_limit: true,
            more: Some(count.checked_sub(1)?),
        })
    }

    /// Adds full packets to `train`, up to `most` in all, with the next pieces of the message of
    /// which the newest packet carried a piece and nothing else. `permit` is that of the first of
    /// them. Returns how many more may follow, or `None` if none can be added.
    pub(super) fn build_pieces(
        &mut self,
        now: Instant,
        permit: Permit,
        most: usize,
        cargo: &mut impl Cargo<T>,
        train: &mut Train,
        frames: &mut Vec<Recorded<T>>,
    ) -> Option<u64> {
        let (size, may_follow) = (permit.size, permit.more?.saturating_add(1));
        let overhead = self.overhead();
        let room = most
            .min(MAX_DATAGRAM / size)
            .saturating_sub(train.segments());
        let most = usize::try_from(may_follow).unwrap_or(usize::MAX).min(room);
        let header = match self.sealing {
            None => PLAIN_OVERHEAD,
            Some(_) => HEADER,
        };
        let number = permit.number;
        let cut = cargo.cut(frames, size.saturating_sub(overhead), most, |cut| {
            train.follow(&Following {
                number,
                offset: cut.offset,
                len: cut.len,
                count: cut.count,
                lead: header + cut.lead,
            })
        })?;
        let numbers = number..=number.saturating_add(cut.count as u64 - 1);
        let contents = Contents {
            eliciting: true,
            data: true,
            ..Contents::default()
        };
        frames.clear();
        frames.push(Recorded::Cargo(cut.sent));
        self.record(now, numbers, size, contents, frames, cargo);
        Some(may_follow.saturating_sub(cut.count as u64))
    }
}
