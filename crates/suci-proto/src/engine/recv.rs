//! Messages on their last step, to the program.

use super::Engine;
use crate::message::Message;
use crate::types::NodeId;

impl Engine {
    /// The next message for the program: those of peers of higher classes first, within a class peers in
    /// turn; likewise the channels of a peer. Taking it gives its sender memory credit back.
    pub fn recv(&mut self) -> Option<(NodeId, Message)> {
        let mut received = None;
        self.recv_some(1, &mut |from, message| received = Some((from, message)));
        received
    }

    /// As [`Engine::recv`] up to `most` times, for less. Returns how many messages `each` was given.
    pub fn recv_many(&mut self, most: usize, mut each: impl FnMut(NodeId, Message)) -> usize {
        let mut received = 0;
        while received < most {
            match self.recv_some(most - received, &mut each) {
                0 => break,
                some => received += some,
            }
        }
        received
    }

    /// The next messages of a peer: one if others have a turn after it, else what can be taken at once.
    #[inline]
    fn recv_some(&mut self, most: usize, each: &mut impl FnMut(NodeId, Message)) -> usize {
        while let Some(key) = self.readable.front() {
            let Some(peer) = self.peers.get_mut(key) else {
                self.readable.drop_front();
                continue;
            };
            let most = if self.readable.is_front_alone() {
                most
            } else {
                1
            };
            let (node, mut bytes) = (peer.node, 0);
            let received = peer.next_messages(most, &mut self.shared, &mut |message| {
                bytes += message.payload.len() as u64;
                each(node, message);
            });
            if peer.has_message() {
                self.readable.pass();
            } else {
                self.readable.drop_front();
            }
            self.dirty.add(key);
            if received > 0 {
                let traffic = peer.traffic_mut();
                traffic.messages_received += received as u64;
                traffic.message_bytes_received += bytes;
                self.shared.counters.messages_received += received as u64;
                return received;
            }
        }
        0
    }
}
