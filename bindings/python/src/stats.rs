//! Facts about peers, and counters.

use crate::names;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use suci::{
    ControllerChoice, Counters, PeerInfo, PeerOptions, PeerStats, SocketCounters, WaitReason,
};

/// Makes a dataclass of `suci._events` from values by name.
fn made<'py>(class: &str, values: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    names::events(values.py())?
        .getattr(class)?
        .call((), Some(values))
}

/// Puts fields into a dict under their names.
macro_rules! put {
    ($dict:expr, $from:expr, $($field:ident),+) => {
        $( $dict.set_item(pyo3::intern!($dict.py(), stringify!($field)), $from.$field)?; )+
    };
}

pub(crate) fn peer_info<'py>(py: Python<'py>, peer: &PeerInfo) -> PyResult<Bound<'py, PyAny>> {
    let values = PyDict::new(py);
    values.set_item("node", peer.node.0)?;
    values.set_item("address", peer.address.map(|address| address.to_string()))?;
    values.set_item("link", names::link(py, peer.link)?)?;
    put!(values, peer, known, absent);
    made("PeerInfo", &values)
}

pub(crate) fn member<'py>(py: Python<'py>, member: &suci::Member) -> PyResult<Bound<'py, PyAny>> {
    let values = PyDict::new(py);
    values.set_item("node", member.node.0)?;
    values.set_item("address", member.address.to_string())?;
    put!(values, member, is_suspect);
    made("Member", &values)
}

pub(crate) fn peer_stats<'py>(py: Python<'py>, stats: &PeerStats) -> PyResult<Bound<'py, PyAny>> {
    let values = PyDict::new(py);
    values.set_item("node", stats.node.0)?;
    values.set_item("address", stats.address.map(|address| address.to_string()))?;
    values.set_item("link", names::link(py, stats.link)?)?;
    values.set_item("rtt", stats.rtt.as_secs_f64())?;
    values.set_item("min_rtt", stats.min_rtt.as_secs_f64())?;
    values.set_item("rtt_variance", stats.rtt_variance.as_secs_f64())?;
    values.set_item("mode", names::mode(stats.mode))?;
    values.set_item("remote_mode", names::mode(stats.remote_mode))?;
    values.set_item("waiting", stats.waiting.map(WaitReason::name))?;
    put!(
        values,
        stats,
        suspended_here,
        suspended_there,
        congestion_window,
        in_flight,
        mtu,
        socket_credit,
        queued_messages,
        queued_bytes
    );
    let traffic = PyDict::new(py);
    put!(
        traffic,
        stats.traffic,
        packets_sent,
        bytes_sent,
        packets_received,
        bytes_received,
        messages_sent,
        message_bytes_sent,
        messages_received,
        message_bytes_received,
        bytes_resent,
        acks_sent,
        packets_lost,
        spurious_losses,
        probes,
        duplicates
    );
    values.set_item("traffic", traffic)?;
    let waits = PyDict::new(py);
    for reason in WaitReason::ALL {
        let waited = stats.waits.get(reason);
        if waited.times > 0 {
            waits.set_item(reason.name(), (waited.nanos as f64 / 1e9, waited.times))?;
        }
    }
    values.set_item("waits", waits)?;
    made("PeerStats", &values)
}

pub(crate) fn peer_options<'py>(
    py: Python<'py>,
    options: &PeerOptions,
) -> PyResult<Bound<'py, PyAny>> {
    let values = PyDict::new(py);
    values.set_item("mode", names::mode(options.mode))?;
    let priority = options.priority;
    values.set_item("priority", (priority.class(), priority.weight()))?;
    match options.controller {
        ControllerChoice::Fixed { bytes } => values.set_item("controller", bytes)?,
        ControllerChoice::Auto => values.set_item("controller", "auto")?,
        ControllerChoice::Lan => values.set_item("controller", "lan")?,
        ControllerChoice::Wan => values.set_item("controller", "wan")?,
        ControllerChoice::Cubic => values.set_item("controller", "cubic")?,
    }
    values.set_item("silence_timeout", options.silence_timeout.as_secs_f64())?;
    values.set_item("give_up_after", options.give_up_after.as_secs_f64())?;
    put!(values, options, rate_cap, keep_alive, manual_retransmission);
    made("PeerOptions", &values)
}

pub(crate) fn counters<'py>(py: Python<'py>, counters: &Counters) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    put!(
        dict,
        counters,
        datagrams_in,
        bytes_in,
        packets_out,
        bytes_out,
        trains_out,
        messages_sent,
        messages_received,
        malformed,
        wrong_version,
        bad_checksum,
        unknown_connection,
        duplicates,
        handshake_rejected,
        hello_unanswered,
        unknown_sent,
        protocol_errors,
        packets_lost,
        spurious_losses,
        probes,
        socket_full,
        too_big,
        unreachable,
        payload_copied,
        overcharged,
        suspensions,
        gaps,
        misdirected,
        misdirected_dropped,
        late_replies
    );
    Ok(dict)
}

pub(crate) fn socket_counters<'py>(
    py: Python<'py>,
    counters: &SocketCounters,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    put!(
        dict,
        counters,
        send_calls,
        recv_calls,
        wait_calls,
        datagrams_sent,
        datagrams_received,
        bytes_sent,
        bytes_received,
        trains_sent,
        trains_received,
        truncated,
        recv_drops,
        recv_charged,
        recv_charged_max,
        again,
        too_big,
        gso_refused,
        unreachable,
        recv_errors
    );
    Ok(dict)
}
