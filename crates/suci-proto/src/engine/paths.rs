//! The packet sizes that the routes to other hosts carry, as far as the driver knows.

use super::Engine;
use crate::log::LogRecord;
use crate::shared::RouteQuery;

impl Engine {
    /// Returns the next route whose packet size the engine wants to know. Call it in each cycle:
    /// connections that begin in later cycles use the answers.
    pub fn poll_route(&mut self) -> Option<RouteQuery> {
        self.shared.paths.wanted.pop_front()
    }

    /// Answers a query: the route carries UDP payloads of `mtu` bytes; `None` if unknown.
    pub fn set_route_mtu(&mut self, query: RouteQuery, mtu: Option<usize>) {
        self.shared.paths.learn(query.address, mtu);
        let Some(key) = query.node.and_then(|node| self.peer_key(node)) else {
            return;
        };
        let now = self.last_run;
        let connection = self.peers.get_mut(key).and_then(|p| p.connection.as_mut());
        // The connection may go to another address by now.
        if let Some(connection) = connection.filter(|c| c.link.path.leads_to(&query.address)) {
            connection.link.begin_on_route(mtu, now);
            self.shared.log.add(now, || LogRecord::PacketSize {
                to: query.address,
                datagram: connection.link.mtu.current(),
            });
        }
        self.touch(key);
    }
}
