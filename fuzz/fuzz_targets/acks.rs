//! Acknowledgement processing: any sequence of sends, acks, timeouts, drops and pauses must
//! agree with a naive model of it. The model is the one that the property test uses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use suci_proto::recovery::{
    AckDelays, AckSummary, Content, LossSummary, MAX_CONTROL, MAX_PACKET_THRESHOLD, MAX_REMEMBERED,
    MIN_PACKET_THRESHOLD, Recovery, SentKind, Sink, TimerAction,
};
use suci_proto::time::{Duration, Instant};
use suci_proto::types::{PacketNumber, ProtocolError};

#[path = "../../crates/suci-link/src/recovery/tests/model.rs"]
mod model;

fuzz_target!(|data: &[u8]| model::run(data));
