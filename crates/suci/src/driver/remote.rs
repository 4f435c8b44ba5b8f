//! One-sided operations: hands messages to their layer, and sends what it has to send.

use super::Driver;
use crate::clock::Clock;
use std::time::Duration;
use suci_proto::{LostCause, Outgoing, RemoteInput, SendError};

/// Most messages of one cycle, and the time after which no more are handled. The next cycle is due
/// at once if there are more.
const BUDGET: usize = 256;
const TIME: Duration = Duration::from_micros(500);

/// The fate of a message that was offered to the engine.
enum Offered {
    Taken,
    Later,
    Never,
}

impl Driver {
    /// Serves other nodes' operations at this node, and takes the answers to this node's.
    #[cold]
    pub(super) fn serve_remote(&mut self) {
        let began = Clock.now();
        for _ in 0..BUDGET {
            if Clock.now().since(began) > TIME {
                break;
            }
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
            RemoteInput::Last(from, message) => layer.on_message(from.node, &message, true),
            RemoteInput::Message(from, message) => {
                layer.on_message(from.node, &message, false);
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
            // The target was told before the next session began.
            RemoteInput::Ended(node, ..) => layer.initiator.ended(node),
            RemoteInput::Lost(node, LostCause::ProcessDied) => layer.initiator.ended(node),
            // It may answer again.
            RemoteInput::Lost(..) => {}
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
        let mut offer = |to, message: &Outgoing| match engine.send(*now, to, message.clone()) {
            Ok(_) => Offered::Taken,
            Err(SendError::UnknownPeer(_) | SendError::Closed) => Offered::Never,
            // Room, channels or the session may come again.
            Err(_) => Offered::Later,
        };
        layer
            .target
            .transmit(|to, message| match offer(to, message) {
                Offered::Taken | Offered::Never => true,
                Offered::Later => false,
            });
        layer
            .initiator
            .transmit(|to, message| match offer(to, message) {
                Offered::Taken => true,
                Offered::Later => false,
                Offered::Never => {
                    gone.push(to);
                    true
                }
            });
        for node in gone {
            // No answer comes.
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
