//! Packets to nodes behind others, and packets of others.

use super::{Context, Process, Train};
use crate::oracle::{Kind, Violation, broken};
use crate::packet::{Fate, Packet};
use crate::tap;
use suci_layers::routes::Behind;
use suci_proto::TransmitResult;
use suci_proto::time::Instant;
use suci_proto::types::{Ecn, NodeId};

impl Process {
    /// Takes the packets that neighbours sent on. Returns when a process that closes goes on.
    pub(super) fn serve_routes(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Result<Option<Instant>, Violation> {
        let Some(router) = &mut self.router else {
            return Ok(None);
        };
        let deliveries = router.serve(&mut self.engine, cx.now);
        let closes = router.go_on_closing(&mut self.engine, cx.now);
        for delivery in deliveries {
            match cx.carriage.unload(&delivery) {
                Some(packet) => {
                    let from = delivery.from;
                    self.hand(cx, cx.now, &[Packet { from, ..packet }])?;
                }
                None => broken(Kind::Modified, "a packet came by a route that nobody sent")?,
            }
        }
        Ok(closes)
    }

    /// Sends a train to a node behind others. Each packet goes to a neighbour, or is dropped.
    pub(super) fn transmit_routed(
        &mut self,
        cx: &mut Context<'_>,
        train: &Train,
        to: Behind,
    ) -> Result<usize, Violation> {
        let node = to.node;
        self.touched.push(node);
        let own = cx.nodes.get(self.host).copied().unwrap_or_default();
        let packets: Vec<_> = train.cut().collect();
        for bytes in &packets {
            let seen = tap::seen(bytes, cx.sealed);
            let carries = self.carried(cx, tap::target(bytes).or(Some(node.0)), &seen);
            let built_now = bytes.first() == Some(&tap::DATA);
            if built_now && self.hears_all(cx.now) {
                cx.oracle.check_flow(self.id, node.0, &carries)?;
            }
            cx.oracle
                .check_withdrawn(built_now.then_some(cx.now), &carries)?;
            cx.oracle.sent(&carries, true);
            *cx.order += 1;
            cx.trace.note(
                cx.now,
                6 ^ (bytes.len() as u64) << 8,
                format_args!(
                    "process {} -> behind others, {node}: packet {}, {} B: {}",
                    self.id,
                    *cx.order,
                    bytes.len(),
                    tap::Described(&seen)
                ),
            );
            cx.carriage.load(Packet {
                bytes: bytes.clone(),
                seen,
                from: Behind::by_route(NodeId(own)).address(),
                to: train.to,
                source: self.host,
                sender: self.id,
                sent_at: cx.now,
                order: *cx.order,
                ecn: Ecn::NotEct,
                carries,
                fate: Fate::default(),
            });
        }
        let result = TransmitResult::Sent(packets.len());
        self.engine.transmit_done(cx.now, result);
        if let Some(router) = &mut self.router {
            for bytes in &packets {
                router.originate(&mut self.engine, cx.now, to, bytes);
            }
        }
        Ok(packets.len())
    }
}
