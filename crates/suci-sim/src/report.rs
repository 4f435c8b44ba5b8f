//! The results of a run, in numbers and words.

use std::fmt;

/// Faults injected, messages carried: of one run, or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs.
    pub seeds: u64,
    /// Messages accepted from programs.
    pub accepted: u64,
    /// Messages received by programs.
    pub messages: u64,
    /// Payload bytes received by programs.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Virtual time, in milliseconds.
    pub virtual_ms: u64,
    /// Runs with 100 nodes or more.
    pub big: u64,
    /// Sessions that ended, counted on each side.
    pub ended: u64,
    /// First messages between two processes that were judged by the time that they took.
    pub contacts: u64,
    /// Messages that their senders took back.
    pub withdrawn: u64,
    /// Handshakes and changes of key phases in sealed runs.
    pub handshakes: u64,
    /// See [`handshakes`](Self::handshakes).
    pub phases: u64,
    /// Connections of sockets that were accepted, and ends of connections that failed.
    pub connections: u64,
    /// See [`connections`](Self::connections).
    pub connections_failed: u64,
    /// Messages that receives took.
    pub matched: u64,
    /// Packets lost.
    pub lost: u64,
    /// Packets duplicated.
    pub duplicated: u64,
    /// Packets overtaken.
    pub reordered: u64,
    /// Packets held back for long.
    pub held: u64,
    /// Packets with bits flipped.
    pub flipped: u64,
    /// Packets marked by ECN.
    pub marked: u64,
    /// Packets dropped because they were marked as ECN-capable.
    pub marks_dropped: u64,
    /// Packets too long for the network.
    pub oversized: u64,
    /// Packets stopped by a partition.
    pub cut: u64,
    /// Packets to an address that leads nowhere.
    pub unroutable: u64,
    /// Packets that a slow link's queue had no room for.
    pub queue_full: u64,
    /// Packets that a receive buffer had no room for, excused.
    pub overrun_excused: u64,
    /// Trains that a socket did not take at once, or not segmented, or at all.
    pub refused_sends: u64,
    /// Processes from which the processor was taken while they read their sockets.
    pub interrupts: u64,
    /// Attackers' packets.
    pub hostile: u64,
    /// Processes killed.
    pub crashes: u64,
    /// Processes closed, sessions closed or given up.
    pub closes: u64,
    /// Sessions suspended.
    pub suspensions: u64,
    /// Processes stopped for a while, programs that stopped consuming.
    pub pauses: u64,
    /// Addresses changed.
    pub rebinds: u64,
    /// Second processes with a live node's ID.
    pub duplicate_ids: u64,
    /// Partitions begun.
    pub partitions: u64,
    /// Changes of the largest packet.
    pub mtu_changes: u64,
}

impl Tally {
    /// Returns the packets that the network lost, damaged, or made late.
    #[must_use]
    pub fn not_in_time(&self) -> u64 {
        let lost = self.lost
            + self.flipped
            + self.marks_dropped
            + self.oversized
            + self.cut
            + self.unroutable;
        lost + self.queue_full + self.held + self.reordered
    }

    /// Faults by kind.
    #[must_use]
    pub fn by_kind(&self) -> [(&'static str, u64); 22] {
        [
            ("lost", self.lost),
            ("duplicated", self.duplicated),
            ("reordered", self.reordered),
            ("held", self.held),
            ("flipped", self.flipped),
            ("marked", self.marked),
            ("marks-dropped", self.marks_dropped),
            ("oversized", self.oversized),
            ("cut", self.cut),
            ("unroutable", self.unroutable),
            ("queue-full", self.queue_full),
            ("overrun-excused", self.overrun_excused),
            ("sends-refused", self.refused_sends),
            ("interrupts", self.interrupts),
            ("hostile", self.hostile),
            ("crashes", self.crashes),
            ("closes", self.closes),
            ("suspensions", self.suspensions),
            ("pauses", self.pauses),
            ("rebinds", self.rebinds),
            ("duplicate-ids", self.duplicate_ids),
            ("partitions", self.partitions + self.mtu_changes),
        ]
    }

    /// Returns the number of all faults.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.by_kind().iter().map(|(_, count)| count).sum()
    }

    /// Adds another run's numbers.
    pub fn add(&mut self, other: &Self) {
        let Self {
            seeds,
            accepted,
            messages,
            bytes,
            packets,
            virtual_ms,
            big,
            ended,
            ..
        } = other;
        self.seeds += seeds;
        self.accepted += accepted;
        self.messages += messages;
        self.bytes += bytes;
        self.packets += packets;
        self.virtual_ms += virtual_ms;
        self.big += big;
        self.ended += ended;
        self.contacts += other.contacts;
        self.withdrawn += other.withdrawn;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.held += other.held;
        self.flipped += other.flipped;
        self.marked += other.marked;
        self.marks_dropped += other.marks_dropped;
        self.oversized += other.oversized;
        self.cut += other.cut;
        self.unroutable += other.unroutable;
        self.queue_full += other.queue_full;
        self.overrun_excused += other.overrun_excused;
        self.refused_sends += other.refused_sends;
        self.interrupts += other.interrupts;
        self.hostile += other.hostile;
        self.crashes += other.crashes;
        self.closes += other.closes;
        self.suspensions += other.suspensions;
        self.pauses += other.pauses;
        self.rebinds += other.rebinds;
        self.duplicate_ids += other.duplicate_ids;
        self.partitions += other.partitions;
        self.mtu_changes += other.mtu_changes;
        self.handshakes += other.handshakes;
        self.phases += other.phases;
        self.connections += other.connections;
        self.connections_failed += other.connections_failed;
        self.matched += other.matched;
    }

    /// Returns the numbers as one JSON object.
    #[must_use]
    pub fn json(&self, first: u64, failed: u64, wall_ms: u128) -> String {
        let faults: Vec<_> = self
            .by_kind()
            .iter()
            .map(|(kind, count)| format!("\"{kind}\":{count}"))
            .collect();
        format!(
            "{{\"first\":{first},\"seeds\":{},\"failed\":{failed},\"big\":{},\"messages\":{},\"accepted\":{},\"bytes\":{},\"packets\":{},\"sessions_ended\":{},\"connections\":{},\"faults\":{},\"by_kind\":{{{}}},\"virtual_ms\":{},\"wall_ms\":{wall_ms}}}",
            self.seeds,
            self.big,
            self.messages,
            self.accepted,
            self.bytes,
            self.packets,
            self.ended,
            self.connections,
            self.faults(),
            faults.join(","),
            self.virtual_ms,
        )
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} messages delivered, {} bytes, {} packets, {} taken back, {} sessions ended, {} contacts judged, {} faults (",
            self.messages,
            self.accepted,
            self.bytes,
            self.packets,
            self.withdrawn,
            self.ended,
            self.contacts,
            self.faults()
        )?;
        let mut first = true;
        for (kind, count) in self.by_kind().iter().filter(|(_, count)| *count > 0) {
            write!(f, "{}{kind} {count}", if first { "" } else { ", " })?;
            first = false;
        }
        write!(
            f,
            "), {}.{:03} s virtual",
            self.virtual_ms / 1_000,
            self.virtual_ms % 1_000
        )?;
        if self.handshakes > 0 {
            let (handshakes, phases) = (self.handshakes, self.phases);
            write!(f, ", {handshakes} handshakes, {phases} key phases")?;
        }
        if self.connections > 0 {
            let (all, failed) = (self.connections, self.connections_failed);
            write!(f, ", {all} connections, {failed} ends failed")?;
        }
        if self.matched > 0 {
            write!(f, ", {} messages matched", self.matched)?;
        }
        Ok(())
    }
}
