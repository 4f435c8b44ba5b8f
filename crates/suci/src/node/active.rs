//! The calls that take active messages.

use super::Node;
use crate::active::{ActiveCarrier, ActiveHost};
use crate::driver::Driver;
use crate::error::Error;
use std::time::Duration;
use suci_proto::types::{ChannelId, NodeId, Source};
use suci_proto::{Message, Outgoing};

impl ActiveCarrier for Driver {
    fn offer_active(&mut self, to: NodeId, message: Outgoing) -> Result<(), Error> {
        self.read_clock();
        self.offer(to, message).map(drop)
    }

    fn take_active(&mut self, only: Option<ChannelId>) -> Option<(Source, Message)> {
        self.take_active(only)
    }
}

impl ActiveHost for Node {
    fn send_active(&mut self, to: NodeId, message: Outgoing) -> Result<(), Error> {
        let mut driver = self.enter_to_send()?;
        let bytes = message.payload.len();
        let sent = driver.send(None, bytes, |driver| driver.push_active(to, message));
        sent.map(drop)
    }

    fn poll_for_active(&mut self) -> Result<(), Error> {
        let mut driver = self.enter()?;
        match self.closed {
            true if driver.engine.has_active() => Ok(()),
            true => Err(Error::Closed),
            false => driver.run_cycle(),
        }
    }

    fn take_active_now<M>(
        &mut self,
        take: impl FnOnce(&mut dyn ActiveCarrier) -> Option<M>,
    ) -> Result<Option<M>, Error> {
        let closed = self.closed;
        let mut driver = self.enter()?;
        // A handler may have computed for long.
        driver.show_life();
        let taken = take(&mut *driver as &mut Driver);
        match taken {
            _ if closed => {}
            Some(_) => driver.after_taking(1),
            None => driver.send_accepted_now(),
        }
        Ok(taken)
    }

    fn take_active_within<M>(
        &mut self,
        limit: Duration,
        mut take: impl FnMut(&mut dyn ActiveCarrier) -> Option<M>,
    ) -> Result<Option<M>, Error> {
        self.take_within(Some(limit), |driver| Some((take(driver)?, 1)))
    }
}
