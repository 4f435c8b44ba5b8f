//! Networks of engines, and what tests want to know of them.

#[path = "../common/net.rs"]
mod common;

pub(crate) use common::{Net, Packet, address, id, message};

use suci_proto::time::Duration;
use suci_proto::types::{Ecn, NodeId};
use suci_proto::{Arrival, Config, Engine, Event, LostCause, Message, OptionsError, PeerOptions};

/// Two hosts with short send queues that know each other.
pub(crate) fn pair() -> Net {
    let config = |_| Config {
        send_queue: 1 << 16,
        ..Config::default()
    };
    let mut net = Net::new(2, config);
    net.send(0, id(1), message(b"hello"));
    net.send(1, id(0), message(b"hello"));
    net.run(Duration::from_secs(1));
    net.discard_events();
    net
}

/// The event that a peer is lost without a known cause.
pub(crate) fn lost(host: usize) -> Event {
    Event::Lost {
        node: id(host),
        cause: LostCause::NoAnswer,
    }
}

impl Net {
    pub(crate) fn engine(&mut self, host: usize) -> &mut Engine {
        &mut self.hosts[host].engine
    }

    /// Changes the options of `host`'s program for `node`.
    pub(crate) fn change(
        &mut self,
        host: usize,
        node: NodeId,
        change: impl FnOnce(&mut PeerOptions),
    ) -> Result<(), OptionsError> {
        let now = self.now;
        self.engine(host).change_options(now, node, change)
    }

    pub(crate) fn received(&mut self, host: usize) -> Vec<(NodeId, Message)> {
        std::mem::take(&mut self.hosts[host].received)
    }

    pub(crate) fn events(&mut self, host: usize) -> Vec<Event> {
        std::mem::take(&mut self.hosts[host].events)
    }

    /// Delivers a packet that no engine made, from any address.
    pub(crate) fn inject(&mut self, to: usize, (from, mut bytes): Packet) {
        let arrival = Arrival {
            to: None,
            from,
            ecn: Ecn::NotEct,
            at: self.now,
        };
        let now = self.now;
        self.hosts[to]
            .engine
            .handle_datagram(now, &arrival, &mut bytes);
        self.flush(to);
    }

    /// Lets time pass until `host`'s program has messages, and takes them.
    pub(crate) fn run_until_received(&mut self, host: usize) -> Vec<(NodeId, Message)> {
        for _ in 0..1_000_000 {
            let received = self.received(host);
            if !received.is_empty() {
                return received;
            }
            self.step(None);
        }
        panic!("no message came");
    }
}
