//! One-sided operations.

use super::Driver;

impl Driver {
    /// Serves other nodes' operations at this node, takes the answers to this node's, and sends.
    /// If more came than one call takes, the next cycle is due at once.
    #[cold]
    pub(crate) fn serve_remote(&mut self) {
        let served = self.places.remote.serve(&mut self.engine, self.now);
        self.remote_waits = served.waits;
    }
}
