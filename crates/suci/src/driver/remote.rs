//! One-sided operations: hands messages to their layer, and sends what it has to send.

use super::Driver;
use suci_proto::{LostCause, Outgoing, RemoteInput, SendError};

/// Most messages of one cycle. The next cycle is due at once if there are more.
const BUDGET: usize = 256;

impl Driver {
    /// Serves other nodes' operations at this node, and takes the answers to this node's.
    #[cold]
    pub(super) fn serve_remote(&mut self) {
        for _ in 0..BUDGET {
            // Taking a message may ask the layer where the next one goes, so the layer is locked
            // only afterwards.
            let Some(input) = self.engine.poll_remote() else {
                break;
            };
            self.on_remote(input);
        }
        self.send_remote();
    }

    fn on_remote(&mut self, input: RemoteInput) {
        let mut layer = self.places.remote();
        match input {
            RemoteInput::Message(from, message) => {
                layer.on_message(from.node, &message);
                if !layer.target.takes(from.node) {
                    self.engine.hold_remote(from.node, true);
                    self.remote_held.insert(from.node);
                }
            }
            RemoteInput::Refused {
                node,
                channel,
                token,
            } => {
                if channel.carries_remote() {
                    layer.initiator.undelivered(node, token);
                }
            }
            RemoteInput::Ended(node, ..) => layer.on_ended(node),
            RemoteInput::Lost(node, LostCause::ProcessDied) => layer.initiator.ended(node),
            // It may answer again.
            RemoteInput::Up(_) | RemoteInput::Lost(..) => {}
        }
    }

    /// Sends requests and answers, as far as the queues have room.
    pub(crate) fn send_remote(&mut self) {
        let Self {
            engine,
            places,
            now,
            remote_held,
            ..
        } = self;
        let (mut layer, mut gone) = (places.remote(), Vec::new());
        let mut send = |to, message: &Outgoing| match engine.send(*now, to, message.clone()) {
            Ok(_) => true,
            Err(SendError::WouldBlock(_) | SendError::Unread(_) | SendError::Suspended { .. }) => {
                false
            }
            Err(_) => {
                gone.push(to);
                true
            }
        };
        layer.target.transmit(&mut send);
        layer.initiator.transmit(&mut send);
        for node in gone {
            // It is unknown here now, so no answer comes.
            layer.initiator.ended(node);
        }
        remote_held.retain(|node| {
            let held = !layer.target.takes(*node);
            if !held {
                engine.hold_remote(*node, false);
            }
            held
        });
        self.remote_waits = layer.target.has_output() || layer.initiator.has_output();
    }
}
