//! Planted faults: the model in the tests of this crate must find each. The simulator must find
//! four of them in builds with `--cfg suci_plant`: what the others leave behind, a time limit
//! removes before the simulator looks.

/// A mistake in the automaton.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Numbers of sockets are used again.
    ReusedIds,
    /// A CLOSE that crosses one's own is not taken for its answer.
    CrossingCloseIgnored,
    /// A late OPENED for a socket that is gone is not answered.
    LateOpenedIgnored,
    /// The peer's CLOSE drops data that the program has not read.
    CloseDropsUnread,
    /// The end of a session leaves the placeholders that it made.
    PlaceholdersOutliveSession,
    /// Messages that wait to be sent when a session ends go into the next one.
    OutputOutlivesSession,
    /// A connection may be accepted before the client confirmed it.
    AcceptedUnconfirmed,
}

#[cfg(test)]
impl Fault {
    pub(super) const ALL: [Self; 7] = [
        Self::ReusedIds,
        Self::CrossingCloseIgnored,
        Self::LateOpenedIgnored,
        Self::CloseDropsUnread,
        Self::PlaceholdersOutliveSession,
        Self::OutputOutlivesSession,
        Self::AcceptedUnconfirmed,
    ];
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Plants a fault in the tables that this thread uses.
#[cfg(test)]
pub(super) fn select(fault: Option<Fault>) {
    PLANTED.set(fault);
}

#[cfg(test)]
pub(super) fn is_planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Returns true if the simulator planted the fault.
#[cfg(all(suci_plant, not(test)))]
pub(super) fn is_planted(fault: Fault) -> bool {
    let name = match fault {
        Fault::ReusedIds => "socket-ids-reused",
        Fault::CrossingCloseIgnored => "crossing-close-ignored",
        Fault::CloseDropsUnread => "close-drops-unread",
        Fault::AcceptedUnconfirmed => "accepted-unconfirmed",
        Fault::LateOpenedIgnored
        | Fault::PlaceholdersOutliveSession
        | Fault::OutputOutlivesSession => return false,
    };
    suci_proto::plant::active(name)
}

#[cfg(not(any(suci_plant, test)))]
#[inline(always)]
pub(super) const fn is_planted(_: Fault) -> bool {
    false
}
