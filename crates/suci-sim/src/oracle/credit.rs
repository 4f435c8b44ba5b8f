//! Credit that was given back is not used: after RETURN no message travels before a newer
//! generation came.

use std::collections::BTreeMap;

use suci_proto::time::Instant;

use super::{Kind, Violation, broken};
use crate::packet::{Packet, ProcId};
use crate::tap;

/// The generations that processes returned and were granted, as the wire shows.
#[derive(Debug, Default)]
pub(super) struct Returns {
    /// By sender, granter, index and tag: the newest generation returned, and in which packet of
    /// the run.
    returned: BTreeMap<(ProcId, ProcId, u32, u64), (u64, u64)>,
    /// By granter and sender: generations, and when the first credit of each arrived.
    granted: BTreeMap<(ProcId, ProcId), Vec<(u64, Instant)>>,
}

impl Returns {
    /// Checks a packet that reached the process `at`.
    pub(super) fn arrived(
        &mut self,
        now: Instant,
        at: ProcId,
        packet: &Packet,
    ) -> Result<(), Violation> {
        let Some(head) = tap::head(&packet.seen).filter(|head| head.first == tap::DATA) else {
            return Ok(());
        };
        // A sealed packet, whose tag is 0 here, does not tell connections with one index apart.
        if packet.fate.damaged || head.tag == 0 {
            return Ok(());
        }
        let said = tap::credit(&packet.seen);
        if let Some(generation) = said.granted {
            let granted = self.granted.entry((packet.sender, at)).or_default();
            if granted.iter().all(|(known, _)| *known != generation) {
                granted.push((generation, now));
            }
        }
        if packet.fate.hostile {
            // A repeated packet may come before the original: a grant in it counts.
            return Ok(());
        }
        let key = (packet.sender, at, head.index, head.tag);
        if let Some(generation) = said.returned {
            let newest = self
                .returned
                .entry(key)
                .or_insert((generation, packet.order));
            if generation > newest.0 {
                *newest = (generation, packet.order);
            }
        }
        let Some((generation, order)) = self.returned.get(&key) else {
            return Ok(());
        };
        let renewed = self.granted.get(&(at, packet.sender)).is_some_and(|all| {
            all.iter()
                .any(|(newer, since)| newer > generation && *since <= packet.sent_at)
        });
        if !said.parts || renewed || packet.order <= *order {
            return Ok(());
        }
        let sender = packet.sender;
        broken(
            Kind::Invariant,
            format!(
                "process {sender} returned generation {generation} to process {at} and sent on"
            ),
        )
    }
}
