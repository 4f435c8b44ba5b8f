//! Verbs by which the program decides how messages flow to a peer.

use crate::driver::Driver;
use crate::error::Error;
use crate::node::Node;
use crate::shared::SharedNode;
use suci_proto::types::NodeId;
use suci_proto::{ControllerChoice, Steer};

impl Node {
    /// Which congestion controller decides for a peer from now on, in this connection and the next.
    /// It learns the path anew.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn set_controller(&mut self, node: NodeId, choice: ControllerChoice) -> Result<(), Error> {
        let mut turn = self.enter_open()?;
        known(node, turn.engine.set_controller(node, choice))?;
        turn.output()
    }

    /// The name of the congestion controller that decides for a peer now; nothing without a
    /// connection.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn controller(&self, node: NodeId) -> Result<Option<&'static str>, Error> {
        Ok(self.enter()?.engine.controller(node))
    }

    /// Installs the program's own controller of a peer, in place of the one before: it is asked at
    /// once, when the peer acknowledges something, and when it wanted to be asked again. It may
    /// only hold back what network and receiver would allow. It survives connections.
    /// `examples/yield_to_urgent.rs` has one.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn steer(&mut self, node: NodeId, steer: impl Steer + 'static) -> Result<(), Error> {
        self.set_steer(node, Some(Box::new(steer)))
    }

    /// Removes the program's controller of a peer.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn unsteer(&mut self, node: NodeId) -> Result<(), Error> {
        self.set_steer(node, None)
    }

    /// Messages to a peer take at most `bytes_per_second` of UDP payload from now on, what is sent
    /// again included, but at least a packet each second; `None`: whatever network and receiver
    /// take. Acknowledgements and signs of life go on in any case. What waits for it is counted as
    /// `cap` ([`Node::peer_stats`]).
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn set_rate_cap(
        &mut self,
        node: NodeId,
        bytes_per_second: Option<u64>,
    ) -> Result<(), Error> {
        let mut turn = self.enter_open()?;
        let now = turn.now();
        known(node, turn.engine.set_rate_cap(now, node, bytes_per_second))?;
        turn.output()
    }

    /// With `manual`, messages to a peer that were lost are sent again only by
    /// [`Node::retransmit`]; neither timers nor detected losses do it. The library still looks for
    /// signs of life. Switching back sends everything again that is not acknowledged.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn set_manual(&mut self, node: NodeId, manual: bool) -> Result<(), Error> {
        let mut turn = self.enter_open()?;
        known(node, turn.engine.set_manual(node, manual))?;
        turn.output()
    }

    /// Sends everything to a peer again that was sent and is not acknowledged, as far as flow
    /// control allows.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn retransmit(&mut self, node: NodeId) -> Result<(), Error> {
        let mut turn = self.enter_open()?;
        known(node, turn.engine.retransmit(node))?;
        turn.output()
    }

    fn set_steer(&mut self, node: NodeId, steer: Option<Box<dyn Steer>>) -> Result<(), Error> {
        let mut turn = self.enter_open()?;
        let now = turn.now();
        known(node, turn.engine.steer(now, node, steer))?;
        turn.output()
    }
}

impl SharedNode {
    /// As [`Node::set_controller`]; blocks for a turn of the thread.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn set_controller(&self, node: NodeId, choice: ControllerChoice) -> Result<(), Error> {
        known(
            node,
            self.ask(node, move |driver| {
                driver.engine.set_controller(node, choice)
            })?,
        )
    }

    /// As [`Node::controller`]; blocks for a turn of the thread.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn controller(&self, node: NodeId) -> Result<Option<&'static str>, Error> {
        self.ask(node, move |driver| driver.engine.controller(node))
    }

    /// As [`Node::steer`]; blocks for a turn of the thread, which calls the controller from then
    /// on.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn steer(&self, node: NodeId, steer: impl Steer + 'static) -> Result<(), Error> {
        self.set_steer(node, Some(Box::new(steer)))
    }

    /// As [`Node::unsteer`]; blocks for a turn of the thread.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn unsteer(&self, node: NodeId) -> Result<(), Error> {
        self.set_steer(node, None)
    }

    /// As [`Node::set_rate_cap`]; blocks for a turn of the thread.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn set_rate_cap(&self, node: NodeId, bytes_per_second: Option<u64>) -> Result<(), Error> {
        let set = move |driver: &mut Driver| {
            let now = driver.now();
            driver.engine.set_rate_cap(now, node, bytes_per_second)
        };
        known(node, self.ask(node, set)?)
    }

    /// As [`Node::set_manual`]; blocks for a turn of the thread.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn set_manual(&self, node: NodeId, manual: bool) -> Result<(), Error> {
        known(
            node,
            self.ask(node, move |driver| driver.engine.set_manual(node, manual))?,
        )
    }

    /// As [`Node::retransmit`]; blocks for a turn of the thread.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`].
    pub fn retransmit(&self, node: NodeId) -> Result<(), Error> {
        known(
            node,
            self.ask(node, move |driver| driver.engine.retransmit(node))?,
        )
    }

    fn set_steer(&self, node: NodeId, steer: Option<Box<dyn Steer>>) -> Result<(), Error> {
        known(
            node,
            self.ask(node, move |driver| {
                driver.engine.steer(driver.now(), node, steer)
            })?,
        )
    }
}

fn known(node: NodeId, known: bool) -> Result<(), Error> {
    known.then_some(()).ok_or(Error::UnknownPeer(node))
}
