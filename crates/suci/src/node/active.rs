//! The calls that take active messages.

use super::Node;
use crate::driver::Driver;
use crate::error::Error;
use std::time::Duration;

impl Node {
    /// Does input and output, unless the node was closed.
    pub(crate) fn poll_for_active(&mut self) -> Result<(), Error> {
        let mut driver = self.enter()?;
        match self.closed {
            true if driver.engine.has_active() => Ok(()),
            true => Err(Error::Closed),
            false => driver.run_cycle(),
        }
    }

    /// Returns what `take` finds now. Input and output go on beside, and if it finds nothing, all
    /// is sent that handlers sent.
    pub(crate) fn take_active_now<M>(
        &mut self,
        take: impl FnOnce(&mut Driver) -> Option<M>,
    ) -> Result<Option<M>, Error> {
        let closed = self.closed;
        let mut driver = self.enter()?;
        // A handler may have computed for long.
        driver.show_life();
        let taken = take(&mut driver);
        match taken {
            _ if closed => {}
            Some(_) => driver.after_taking(1),
            None => driver.send_on(),
        }
        Ok(taken)
    }

    /// Waits until `take` finds an active message, for at most `limit`.
    pub(crate) fn take_active_within<M>(
        &mut self,
        limit: Duration,
        mut take: impl FnMut(&mut Driver) -> Option<M>,
    ) -> Result<Option<M>, Error> {
        self.take_within(Some(limit), |driver| Some((take(driver)?, 1)))
    }
}
