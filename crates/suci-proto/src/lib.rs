//! The Suci protocol as pure state machines: no sockets, clocks, threads or global state.
//!
//! [`Engine`] composes all parts; its documentation states how to drive it. The parts take values
//! and `now` and return decisions; none of them sees the engine. [`credit`] says what the
//! receiver's socket buffer holds, [`timer`] who is due next. `suci-link` has those of one
//! connection ([`wire`], [`recovery`], [`congestion`] and others), `suci-channels` those of a
//! session's [`message`]s.
#![forbid(unsafe_code)]

mod addresses;
mod config;
mod counters;
pub mod credit;
mod engine;
mod error;
mod event;
mod event_rate;
mod filter;
mod handshake;
mod lease;
mod log;
mod options;
mod peer;
mod session_events;
mod shared;
mod steer;
pub mod timer;
mod transmit;
mod undelivered;

pub use suci_channels::message;
pub use suci_link::congestion::ControllerChoice;
#[cfg(suci_plant)]
pub use suci_link::plant;
pub use suci_link::{
    ack, congestion, limits, pacer, pmtu, ranges, recovery, security, time, types, wire,
};

pub use addresses::{Addresses, MAX_ADDRESSES};
pub use config::{AcceptPolicy, Config, ConfigError};
pub use counters::{
    Counters, LinkState, MemberState, PeerInfo, PeerStats, RouteCounters, RoutedPacket, Traffic,
};
pub use credit::ShareStats;
pub use engine::Engine;
pub use error::{IncomingError, OptionsError, PeerError, SendError};
pub use event::{
    EndReason, Event, LostCause, MessageOutcome, RefusedReason, Side, UNNUMBERED, Unreachable,
};
pub use filter::Filter;
pub use handshake::Renewal;
pub use lease::Lease;
pub use log::{DropReason, LogRecord};
pub use options::PeerOptions;
pub use session_events::SessionEvents;
pub use shared::{CallError, CallId, CallResult, Identity, MemberChange, PortInput, RouteQuery};
pub use steer::{Decision, Observation, Steer};
pub use suci_channels::message::{
    CANCELLED, Data, EXPIRED, LentMemory, Message, NOT_PERMITTED, Outcome, Outgoing, Place,
    PlacedBy, Placement, ReceiveBuffer, SMALL, SmallOutgoing, TOO_LONG, TOO_MANY_CHANNELS,
};
pub use suci_channels::port::{Port, Ports};
pub use suci_channels::scheduler::{CLASSES, Priority, PriorityError};
pub use suci_channels::waits::{WaitClock, WaitReason, Waited, Waits};
pub use suci_link::arrival::Arrival;
pub use suci_link::train::Transmit;
pub use transmit::{TX_BUDGET, TransmitResult};
pub use undelivered::{ProcessEnd, Undelivered};
