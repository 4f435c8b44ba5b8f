//! One peer of a node.

use crate::arguments;
use crate::error::OrRaise;
use crate::node::Core;
use crate::settings::{Change, priority};
use crate::stats;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;
use std::time::Duration;
use suci::{ChannelId, Error, NodeId, Priority};

/// One peer of a node: Node.peer() gives it. It names the peer only; each call says whether the
/// node knows it. No call waits for the peer.
#[pyclass(frozen, module = "suci")]
pub(crate) struct Peer {
    core: Arc<Core>,
    id: NodeId,
}

impl Peer {
    pub(crate) fn new(core: Arc<Core>, id: NodeId) -> Self {
        Self { core, id }
    }

    /// Runs a call of the library, while other threads of the interpreter run.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(suci::Peer<'_>) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        py.detach(|| call(self.core.shared.peer(self.id)))
            .or_raise(py)
    }
}

fn channel(value: Option<&Bound<'_, PyAny>>) -> PyResult<ChannelId> {
    value.map_or(Ok(ChannelId(0)), |value| {
        arguments::channel(value, "channel")
    })
}

#[pymethods]
impl Peer {
    /// The peer's node ID.
    #[getter]
    fn id(&self) -> u32 {
        self.id.0
    }

    /// The options for the peer, as PeerOptions.
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let options = self.run(py, |peer| peer.options())?;
        stats::peer_options(py, &options)
    }

    /// Changes options of the peer; others stay. They are the fields of PeerOptions.
    #[pyo3(signature = (**options))]
    fn configure(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let mut changes = Vec::new();
        for (name, value) in options.into_iter().flatten() {
            changes.push(Change::new(&name.extract::<String>()?, &value)?);
        }
        self.run(py, move |peer| {
            peer.configure(move |options| {
                for change in changes {
                    change.apply(options);
                }
            })
        })
    }

    /// The known facts about the peer, as PeerStats; None if the node does not know it.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let known = self.run(py, |peer| peer.stats())?;
        known.map(|known| stats::peer_stats(py, &known)).transpose()
    }

    /// The congestion controller that decides now; None without a connection.
    fn controller(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        self.run(py, |peer| peer.controller())
    }

    /// Messages accepted and not yet acknowledged, and their bytes.
    fn queue_len(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        self.run(py, |peer| peer.queue_len())
    }

    /// How many messages of a channel, from its first in this session, are resolved.
    #[pyo3(signature = (channel=None))]
    fn delivered(&self, py: Python<'_>, channel: Option<&Bound<'_, PyAny>>) -> PyResult<u64> {
        let channel = self::channel(channel)?;
        self.run(py, |peer| peer.delivered(channel))
    }

    /// Bytes that the peer would take now as one message on the channel; 0 while it is not up.
    #[pyo3(signature = (channel=None))]
    fn remote_window(&self, py: Python<'_>, channel: Option<&Bound<'_, PyAny>>) -> PyResult<u64> {
        let channel = self::channel(channel)?;
        self.run(py, |peer| peer.remote_window(channel))
    }

    /// How urgent a channel is, in both directions: a class (0 to 7, higher goes first; 3 unless
    /// set) and a weight within it (1 to 255; 16).
    #[pyo3(signature = (channel, class_, weight=None))]
    fn set_channel_priority(
        &self,
        py: Python<'_>,
        channel: &Bound<'_, PyAny>,
        class_: &Bound<'_, PyAny>,
        weight: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let channel = self::channel(Some(channel))?;
        let usual = Priority::DEFAULT.weight().into_pyobject(py)?.into_any();
        let pair = (class_, weight.unwrap_or(&usual)).into_pyobject(py)?;
        let priority = priority(&pair)?;
        self.run(py, move |peer| peer.set_channel_priority(channel, priority))
    }

    /// Sends nothing more on the channel; the peer hears ChannelFinished after its last message.
    /// Returns False if it was finished before.
    fn finish_channel(&self, py: Python<'_>, channel: &Bound<'_, PyAny>) -> PyResult<bool> {
        let channel = self::channel(Some(channel))?;
        self.run(py, |peer| peer.finish_channel(channel))
    }

    /// Takes back the messages with this token of which nothing was sent. Returns how many.
    #[pyo3(signature = (token, channel=None))]
    fn cancel(
        &self,
        py: Python<'_>,
        token: &Bound<'_, PyAny>,
        channel: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let (token, channel) = (arguments::word(token, "token")?, self::channel(channel)?);
        self.run(py, |peer| peer.cancel(channel, token))
    }

    /// Opens a connection before there is anything to send. Sending does it by itself.
    fn connect(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |peer| peer.connect())
    }

    /// Holds back all messages to and from the peer until resume.
    fn suspend(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |peer| peer.suspend())
    }

    /// Undoes suspend.
    fn resume(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |peer| peer.resume())
    }

    /// Sends again what is not acknowledged: for the option manual_retransmission.
    fn retransmit(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |peer| peer.retransmit())
    }

    /// Closes the session in the background: waits until the peer has everything, for at most
    /// timeout seconds (5). Returns whether there is a session; the event Ended follows then.
    #[pyo3(signature = (timeout=None))]
    fn close(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        let patience = arguments::timeout(timeout)?.unwrap_or(Duration::from_secs(5));
        self.run(py, |peer| peer.close(patience))
    }

    /// Gives the session up at once. Returns whether there is one.
    fn reset(&self, py: Python<'_>) -> PyResult<bool> {
        self.run(py, |peer| peer.reset())
    }

    fn __repr__(&self) -> String {
        format!("<suci.Peer {} of node {}>", self.id, self.core.shared.id())
    }
}
