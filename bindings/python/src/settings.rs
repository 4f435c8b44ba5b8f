//! The settings of a node, as keyword arguments.

use crate::arguments::{address, byte, choice, flag, node_id, path, seconds, text, word};
use crate::error::OrRaise;
use crate::names::MODES;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::net::SocketAddr;
use std::time::Duration;
use suci::{
    AcceptPolicy, AddressBook, ControllerChoice, Membership, Mode, NodeBuilder, NodeId,
    PeerOptions, Priority, SharedNode, WaitPolicy,
};

/// Opens a node of these settings.
pub(crate) fn open(
    py: Python<'_>,
    id: Option<&Bound<'_, PyAny>>,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<SharedNode> {
    let mut builder = suci::Node::builder();
    let (mut threads, mut cluster) = (1, Cluster::default());
    if let Some(id) = id {
        builder = builder.id(node_id(id, "id")?);
    }
    for (name, value) in settings.into_iter().flatten() {
        let name: String = name.extract()?;
        if name == "threads" {
            threads = usize::from(byte(&value, "threads")?);
        } else if !value.is_none() && !cluster.apply(&name, &value)? {
            builder = apply(builder, &name, &value)?;
        }
    }
    if let Some(membership) = cluster.membership()? {
        builder = builder.membership(membership);
    }
    py.detach(|| builder.open_threads(threads)).or_raise(py)
}

/// The settings of a member of a cluster.
#[derive(Default)]
struct Cluster {
    name: Option<String>,
    seeds: Vec<(NodeId, SocketAddr)>,
    suspicion: Option<Duration>,
}

impl Cluster {
    /// Takes a setting. Returns false if it is another one.
    fn apply(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        match name {
            "cluster" => self.name = Some(text(value, name)?.to_string_lossy().into_owned()),
            "suspicion" => self.suspicion = Some(seconds(value, name)?),
            "seeds" => {
                let seeds = value.cast::<PyDict>().map_err(|_| {
                    PyTypeError::new_err(
                        "seeds must be a dict of node IDs and addresses, such as {0: '10.0.0.1:7000'}",
                    )
                })?;
                for (node, at) in seeds {
                    let node = node_id(&node, "a key of seeds")?;
                    self.seeds
                        .push((node, address(&at, "an address of seeds")?));
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn membership(self) -> PyResult<Option<Membership>> {
        let Some(name) = self.name else {
            return match self.seeds.is_empty() && self.suspicion.is_none() {
                true => Ok(None),
                false => Err(PyValueError::new_err(
                    "seeds and suspicion are for members of a cluster: name it (cluster)",
                )),
            };
        };
        let mut membership = Membership::new(name);
        for (node, address) in self.seeds {
            membership = membership.seed(node, address);
        }
        if let Some(time) = self.suspicion {
            membership = membership.suspicion(time);
        }
        Ok(Some(membership))
    }
}

fn apply(builder: NodeBuilder, name: &str, value: &Bound<'_, PyAny>) -> PyResult<NodeBuilder> {
    const ACCEPT: [(&str, AcceptPolicy); 2] = [
        ("book", AcceptPolicy::Book),
        ("anyone", AcceptPolicy::Anyone),
    ];
    Ok(match name {
        "listen" => builder.listen(address(value, name)?),
        "book" => book(builder, value)?,
        "accept" => builder.accept(choice(value, name, &ACCEPT)?),
        "key_file" => builder.key_file(path(value, name)?),
        "node_key_files" => {
            let (own, public) = pair(value, name, "paths: the node's own key, the public keys")?;
            builder.node_key_files(path(&own, name)?, path(&public, name)?)
        }
        "allow_insecure_network" => match flag(value, name)? {
            true => builder.allow_insecure_network(),
            false => builder,
        },
        "memory" => builder.memory(word(value, name)?),
        "max_message" => builder.max_message(word(value, name)?),
        "send_queue" => builder.send_queue(word(value, name)?),
        "rts_threshold" => builder.rts_threshold(word(value, name)?),
        "max_peers" => builder.max_peers(size(value, name)?),
        "silence_timeout" => builder.silence_timeout(seconds(value, name)?),
        "give_up_after" => builder.give_up_after(seconds(value, name)?),
        "payload_checksum" => builder.payload_checksum(flag(value, name)?),
        "mode" => builder.mode(choice(value, name, &MODES)?),
        "keep_alive" => match flag(value, name)? {
            true => builder.keep_alive(),
            false => builder,
        },
        "controller" => builder.controller(controller(value)?),
        "rate_cap" => builder.rate_cap(word(value, name)?),
        _ => return apply_rare(builder, name, value),
    })
}

fn apply_rare(builder: NodeBuilder, name: &str, value: &Bound<'_, PyAny>) -> PyResult<NodeBuilder> {
    let wrong = |error: &dyn std::fmt::Display| PyValueError::new_err(format!("{name}: {error}"));
    Ok(match name {
        "wait" => builder.wait(wait(value)?),
        "statistics" => builder.statistics(flag(value, name)?),
        "metrics" => builder.metrics(address(value, name)?),
        "shared_memory" => builder.shared_memory(flag(value, name)?),
        "forward" => builder.forward(flag(value, name)?),
        "ignore_supervision" => match flag(value, name)? {
            true => builder.ignore_supervision(),
            false => builder,
        },
        "recv_buffer" => {
            let bytes = size(value, name)?;
            builder.udp(|udp| udp.recv_buffer = bytes)
        }
        "send_buffer" => {
            let bytes = size(value, name)?;
            builder.udp(|udp| udp.send_buffer = bytes)
        }
        "backend" => {
            let kind = text(value, name)?.to_string_lossy().parse();
            builder.backend(kind.map_err(|error| wrong(&error))?)
        }
        "faults" => {
            let spec = text(value, name)?.to_string_lossy().parse();
            builder.faults(spec.map_err(|error| wrong(&error))?)
        }
        _ => {
            return Err(PyTypeError::new_err(format!(
                "Node has no setting '{name}': help(suci.Node) lists them"
            )));
        }
    })
}

fn size(value: &Bound<'_, PyAny>, name: &str) -> PyResult<usize> {
    let number = word(value, name)?;
    Ok(usize::try_from(number).unwrap_or(usize::MAX))
}

fn pair<'py>(
    value: &Bound<'py, PyAny>,
    name: &str,
    means: &str,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let pair = value
        .cast::<PyTuple>()
        .ok()
        .and_then(|pair| pair.extract().ok());
    pair.ok_or_else(|| PyTypeError::new_err(format!("{name} must be a pair of {means}")))
}

/// Takes an address book: the path of a file, or a mapping of node IDs to addresses.
fn book(builder: NodeBuilder, value: &Bound<'_, PyAny>) -> PyResult<NodeBuilder> {
    let Ok(entries) = value.cast::<PyDict>() else {
        let file = path(value, "book").map_err(|_| {
            PyTypeError::new_err(
                "book must be the path of a file, or a dict of node IDs and addresses, such as {0: '10.0.0.1:7000'}",
            )
        })?;
        return Ok(builder.book_file(file));
    };
    let mut book = AddressBook::new();
    for (node, at) in entries {
        let node = node_id(&node, "a key of book")?;
        let at = address(&at, "an address of book")?;
        book.add(node, at).or_raise(value.py())?;
    }
    Ok(builder.book(book))
}

/// A controller's name, or the bytes of a fixed window.
pub(crate) fn controller(value: &Bound<'_, PyAny>) -> PyResult<ControllerChoice> {
    const NAMED: [(&str, ControllerChoice); 4] = [
        ("auto", ControllerChoice::Auto),
        ("lan", ControllerChoice::Lan),
        ("wan", ControllerChoice::Wan),
        ("cubic", ControllerChoice::Cubic),
    ];
    if value.extract::<u64>().is_ok() {
        let bytes = word(value, "controller")?;
        return Ok(ControllerChoice::Fixed { bytes });
    }
    choice(value, "controller", &NAMED)
}

fn wait(value: &Bound<'_, PyAny>) -> PyResult<WaitPolicy> {
    const NAMED: [(&str, WaitPolicy); 3] = [
        ("adaptive", WaitPolicy::Adaptive),
        ("sleep", WaitPolicy::Sleep),
        ("spin", WaitPolicy::SPIN),
    ];
    if value.extract::<f64>().is_ok() {
        return Ok(WaitPolicy::Spin(seconds(value, "wait")?));
    }
    choice(value, "wait", &NAMED)
}

/// A pair of class and weight.
pub(crate) fn priority(value: &Bound<'_, PyAny>) -> PyResult<Priority> {
    let (class, weight) = pair(
        value,
        "priority",
        "a class (0 to 7) and a weight (1 to 255)",
    )?;
    let (class, weight) = (byte(&class, "the class")?, byte(&weight, "the weight")?);
    Priority::new(class, weight).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A change of one of a peer's options.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    Mode(Mode),
    Priority(Priority),
    Controller(ControllerChoice),
    RateCap(Option<u64>),
    SilenceTimeout(Duration),
    GiveUpAfter(Duration),
    KeepAlive(bool),
    ManualRetransmission(bool),
}

impl Change {
    pub(crate) fn new(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(match name {
            "mode" => Self::Mode(choice(value, name, &MODES)?),
            "priority" => Self::Priority(priority(value)?),
            "controller" => Self::Controller(controller(value)?),
            "rate_cap" if value.is_none() => Self::RateCap(None),
            "rate_cap" => Self::RateCap(Some(word(value, name)?)),
            "silence_timeout" => Self::SilenceTimeout(seconds(value, name)?),
            "give_up_after" => Self::GiveUpAfter(seconds(value, name)?),
            "keep_alive" => Self::KeepAlive(flag(value, name)?),
            "manual_retransmission" => Self::ManualRetransmission(flag(value, name)?),
            _ => {
                return Err(PyTypeError::new_err(format!(
                    "a peer has no option '{name}': choose from mode, priority, controller, \
                     rate_cap, silence_timeout, give_up_after, keep_alive, manual_retransmission"
                )));
            }
        })
    }

    pub(crate) fn apply(self, options: &mut PeerOptions) {
        match self {
            Self::Mode(mode) => options.mode = mode,
            Self::Priority(priority) => options.priority = priority,
            Self::Controller(controller) => options.controller = controller,
            Self::RateCap(cap) => options.rate_cap = cap,
            Self::SilenceTimeout(time) => options.silence_timeout = time,
            Self::GiveUpAfter(time) => options.give_up_after = time,
            Self::KeepAlive(on) => options.keep_alive = on,
            Self::ManualRetransmission(on) => options.manual_retransmission = on,
        }
    }
}
