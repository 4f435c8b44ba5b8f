//! Losses that prove to be none.

use crate::recovery::{Content, Recovery};

/// Decides whether the controller's reactions to losses may be undone. If packets are late again
/// and again, the next congestion event begins before the losses of the last one prove spurious.
/// Such events overlap: when all their losses prove spurious, all reactions are undone together. A
/// confirmed loss leaves the reactions as they are.
#[derive(Debug, Default)]
pub(super) struct CongestionUndo {
    /// The count of confirmed losses at the first of the events that may be undone.
    since: Option<u64>,
}

impl CongestionUndo {
    /// Notes that packets were declared lost. Returns whether this event overlaps the ones before,
    /// whose reactions may still be undone.
    pub(super) fn on_losses(&mut self, recovery: &Recovery<impl Content>) -> bool {
        let confirmed = Some(recovery.confirmed());
        let overlaps = self.since == confirmed;
        self.since = confirmed;
        overlaps
    }

    /// Notes that a packet declared lost arrived after all. Returns true if that was the last of
    /// those losses.
    pub(super) fn on_spurious(&mut self, recovery: &Recovery<impl Content>) -> bool {
        let refuted = self.since == Some(recovery.confirmed()) && recovery.doubtful() == 0;
        if refuted {
            self.since = None;
        }
        refuted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::{AckDelays, AckSummary, SentKind, Sink};
    use crate::time::{Duration, Instant};
    use crate::types::PacketNumber;
    use core::ops::RangeInclusive;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Nothing {}

    impl Content for Nothing {}

    struct Nobody;

    impl<T> Sink<T> for Nobody {
        fn acked(&mut self, _: RangeInclusive<PacketNumber>, _: &[T]) {}
        fn lost(&mut self, _: RangeInclusive<PacketNumber>, _: &[T]) {}
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn send(recovery: &mut Recovery<Nothing>, numbers: RangeInclusive<u64>, millis: u64) {
        let kind = SentKind {
            eliciting: true,
            path_probe: false,
            control: false,
        };
        numbers.for_each(|number| recovery.on_sent(number..=number, at(millis), 1_000, kind, &[]));
    }

    fn ack(
        recovery: &mut Recovery<Nothing>,
        millis: u64,
        ranges: &[RangeInclusive<u64>],
    ) -> AckSummary {
        let ranges = ranges.iter().cloned();
        recovery
            .on_ack(at(millis), AckDelays::default(), ranges, &mut Nobody)
            .unwrap()
    }

    #[test]
    fn losses_of_overlapping_events_are_refuted_together() {
        let (mut recovery, mut undo) = (
            Recovery::new(0, Duration::from_millis(100)),
            CongestionUndo::default(),
        );
        send(&mut recovery, 0..=3, 0);
        assert_eq!(ack(&mut recovery, 100, &[3..=3]).lost.packets, 1);
        assert!(!undo.on_losses(&recovery), "the first");
        send(&mut recovery, 4..=7, 110);
        assert_eq!(ack(&mut recovery, 210, &[5..=7]).lost.packets, 3);
        assert!(undo.on_losses(&recovery), "the last one's loss is in doubt");
        assert_eq!(ack(&mut recovery, 215, &[0..=0]).spurious, 1);
        assert!(!undo.on_spurious(&recovery), "those of the second stand");
        assert_eq!(ack(&mut recovery, 220, &[4..=4, 0..=2]).spurious, 3);
        assert!(undo.on_spurious(&recovery));
        assert!(!undo.on_spurious(&recovery), "once");
    }

    #[test]
    fn a_confirmed_loss_keeps_the_reactions() {
        let (mut recovery, mut undo) = (
            Recovery::new(0, Duration::from_millis(100)),
            CongestionUndo::default(),
        );
        send(&mut recovery, 0..=3, 0);
        ack(&mut recovery, 100, &[3..=3]);
        assert!(!undo.on_losses(&recovery));
        send(&mut recovery, 4..=4, 9_000);
        ack(&mut recovery, 9_100, &[4..=4]);
        assert_eq!((recovery.doubtful(), recovery.confirmed()), (2, 1));
        assert!(!undo.on_losses(&recovery), "1 and 2 are a new event");
        assert_eq!(ack(&mut recovery, 9_110, &[1..=2]).spurious, 2);
        assert!(undo.on_spurious(&recovery));
    }
}
