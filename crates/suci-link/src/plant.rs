//! Planted faults, in test builds only (`--cfg suci_plant`): each breaks one rule, so that the
//! simulator and the tests on emulated links can show that they detect it.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Faults that the simulator finds. `suci-sim --list-plants` prints them, and `cargo xtask planted`
/// looks for each.
pub const NAMES: &[&str] = &[
    "dedup-off",
    "ack-off-by-one",
    "credit-not-moved-after-loss",
    "memory-credit-double",
    "window-never-reopened",
    "stale-incarnation",
    "overlap-overwrites",
    "retransmit-wrong-range",
    "pto-not-rearmed",
    "delivered-unacknowledged",
    "unlimited-grants",
    "class-starves-class",
    "lost-blocked",
    "reclaimed-credit-used",
    "idle-never-regains",
    "slots-never-freed",
    "resume-forgets-channel",
    "outcome-wrong-after-restart",
    "higher-epoch-ends-session",
    "void-delivered",
    "expires-early",
];

/// Faults that tests of real nodes find: `cargo xtask show networks --only planted`.
pub const OF_REAL_NODES: &[&str] = &["stale-clock", "marks-never-stop", "reserve-by-what-is-left"];

/// Faults of one-sided operations. The simulator finds them in its profile `remote`, and tests of
/// `suci-layers` do: `tests/remote/planted.rs`.
pub const OF_LAYERS: &[&str] = &[
    "region-key-unchecked",
    "fence-without-wait",
    "overlapping-puts-placed",
    "placement-after-withdrawal",
    "atomic-applied-twice",
];

/// Faults of the engine that the simulator finds in its profile `remote`.
pub const OF_PLACEMENT: &[&str] = &["placed-out-of-order"];

/// Faults of sealed mode that the simulator finds in its profile `sealed`.
pub const OF_SEALING: &[&str] = &[
    "unauthentic-taken",
    "sealed-after-restore",
    "phase-without-key",
];

/// Defences that the red team's attacks beat when they are gone (`tests/red-team`).
pub const OF_DEFENCES: &[&str] = &[
    "hello-keeps-peer",
    "cookie-sent-twice",
    "init-unbound",
    "sources-uncapped",
    "handshake-work-unlimited",
    "repetitions-read",
    "accepts-unlimited",
    "acks-unchecked",
    "gaps-unlimited",
    "memory-unchecked",
    "tag-unchecked",
    "hint-ends-session",
    "unknown-frames-skipped",
    "checksum-unchecked",
    "window-before-authentication",
    "challenges-unlimited",
    "length-not-pinned",
    "key-of-any-node",
    "layers-unchecked",
];

/// Faults of groups that the simulator finds in its profile `groups`.
pub const OF_GROUPS: &[&str] = &[
    "barrier-left-early",
    "member-counted-twice",
    "agreement-without-consent",
    "silence-is-death",
    "failure-not-told",
];

/// Faults of sockets that the simulator finds in its profile `sockets`. A model in the tests of
/// `suci-layers` finds these too, and three whose effects a time limit ends before the simulator
/// looks.
pub const OF_SOCKETS: &[&str] = &[
    "socket-ids-reused",
    "crossing-close-ignored",
    "close-drops-unread",
    "accepted-unconfirmed",
];

/// Faults of routes that the simulator finds in its profile `routes`.
pub const OF_ROUTES: &[&str] = &["forwarded-altered"];

/// Faults of membership that the simulator finds in its profile `members`.
pub const OF_MEMBERS: &[&str] = &["suspicion-unrefuted"];

static SELECTED: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Plants the fault `name` in every engine of this process; false if there is none of that name.
pub fn select(name: &str) -> bool {
    let found = all().position(|n| n == name);
    SELECTED.store(found.unwrap_or(usize::MAX), Ordering::Relaxed);
    found.is_some()
}

/// Returns true if the fault `name` is planted.
pub fn active(name: &str) -> bool {
    all().nth(SELECTED.load(Ordering::Relaxed)) == Some(name)
}

fn all() -> impl Iterator<Item = &'static str> {
    let engine = NAMES.iter().chain(OF_REAL_NODES).chain(OF_PLACEMENT);
    let layers = OF_LAYERS.iter().chain(OF_GROUPS);
    let others = OF_SEALING.iter().chain(OF_SOCKETS).chain(OF_ROUTES);
    let others = others.chain(OF_MEMBERS).chain(OF_DEFENCES);
    engine.chain(layers).chain(others).copied()
}
