//! Invariants: they hold after every step, for all programs and networks.

use suci_proto::Engine;
use suci_proto::limits::MAX_DATAGRAM;
use suci_proto::time::Instant;
use suci_proto::types::NodeId;

use crate::node::Train;
use crate::oracle::{Kind, Violation, broken};
use crate::packet::ProcId;

/// Consecutive cycles that may find a timer due without anything coming of it. Timers are allowed
/// to be early, not to be early for ever.
const IDLE_CYCLES: u32 = 64;

/// Asks the engine about its limits: memory under the cap, in flight under every window, budget
/// never exceeded, no timer in the past.
///
/// # Errors
/// The limit that does not hold.
pub fn audit(engine: &Engine, now: Instant) -> Result<(), Violation> {
    engine.audit(now).map_err(|text| Violation {
        kind: Kind::Invariant,
        text,
    })
}

/// Checks the same for these peers alone, and for the state that all peers share.
///
/// # Errors
/// The limit that does not hold.
pub fn audit_peers(engine: &Engine, now: Instant, peers: &[NodeId]) -> Result<(), Violation> {
    engine.audit_peers(now, peers).map_err(|text| Violation {
        kind: Kind::Invariant,
        text,
    })
}

/// Returns the packets that the engine dropped because it had them, or has no use for their
/// connection or, in sealed mode, for its keys.
#[must_use]
pub fn refused(engine: &Engine, sealed: bool) -> u64 {
    let counters = engine.counters();
    let not_authentic = if sealed { counters.bad_checksum } else { 0 };
    counters.duplicates + counters.unknown_connection + not_authentic
}

/// Checks that a packet that came a second time was dropped and counted (F10).
///
/// # Errors
/// The packet was taken again.
pub fn repeated(refused: bool, order: u64) -> Result<(), Violation> {
    if refused {
        return Ok(());
    }
    broken(
        Kind::Twice,
        format!("packet {order} was taken a second time"),
    )
}

/// Checks that the kernel would take a train: equal segments except the last, and not too many.
///
/// # Errors
/// The fault of the train.
pub fn train(train: &Train, max_segments: usize) -> Result<(), Violation> {
    let (length, segment, segments) = (train.bytes.len(), train.segment, train.segments);
    let counted = if segment == 0 {
        0
    } else {
        length.div_ceil(segment)
    };
    if segments == 0 || counted != segments || segments > max_segments || length > MAX_DATAGRAM {
        let text = format!("a train of {length} B in {segments} segments of {segment} B");
        return broken(Kind::Invariant, text);
    }
    Ok(())
}

/// Returns the violation of an engine that sends without end while no time passes.
#[must_use]
pub fn endless(process: ProcId) -> Violation {
    Violation {
        kind: Kind::Invariant,
        text: format!("process {process} never stops sending"),
    }
}

/// Watches that timers which are due lead to something.
#[derive(Debug, Default)]
pub struct Progress {
    idle: u32,
}

impl Progress {
    /// Checks the progress after a drained cycle: `due` is the next timer, `worked` whether
    /// anything happened.
    ///
    /// # Errors
    /// The engine asks to be called at once, again and again, and does nothing then.
    pub fn check(
        &mut self,
        now: Instant,
        due: Option<Instant>,
        blocked: bool,
        worked: bool,
    ) -> Result<(), Violation> {
        if worked || blocked || due.is_none_or(|at| at > now) {
            self.idle = 0;
            return Ok(());
        }
        self.idle += 1;
        if self.idle < IDLE_CYCLES {
            return Ok(());
        }
        let text = format!(
            "a timer for {due:?} stays due at {now:?}, {} idle cycles",
            self.idle
        );
        broken(Kind::Invariant, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_that_stays_due_is_found() {
        let mut progress = Progress::default();
        let due = Some(Instant::from_nanos(5));
        let found = (0..=u64::from(IDLE_CYCLES)).any(|cycle| {
            progress
                .check(Instant::from_nanos(10 + cycle), due, false, false)
                .is_err()
        });
        assert!(found);
    }

    #[test]
    fn a_due_timer_that_leads_to_work_is_fine() {
        let mut progress = Progress::default();
        for cycle in 0..1_000 {
            let now = Instant::from_nanos(cycle);
            assert!(
                progress
                    .check(now, Some(Instant::ZERO), false, cycle % 2 == 0)
                    .is_ok()
            );
        }
    }
}
