//! Programs that steer: controllers of their own, changes of the network's, and manual
//! retransmission.

use crate::options::{Options, Step};
use crate::rng::Rng;
use suci_proto::time::{Duration, nanos};
use suci_proto::{ControllerChoice, Decision, Observation, Steer};

/// A program's decision about its traffic to another host's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Will {
    /// Another congestion controller.
    Controller(ControllerChoice),
    /// A controller of its own.
    Steer(Rein),
    /// Lost messages are sent again only when [`Will::Retransmit`] says so, or again by themselves.
    Manual(bool),
    /// Everything unacknowledged is sent again.
    Retransmit,
    /// At most this many bytes per second, or without a limit.
    Cap(Option<u64>),
}

/// Kinds of controllers that programs write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rein {
    /// Allows a part of the network's capacity, often less than a packet.
    Tight,
    /// Pauses now and then, without being woken up.
    Pauses,
    /// A slow pace.
    Slow,
    /// Acknowledgements at once.
    Prompt,
}

impl Rein {
    /// Makes the controller. It stays when faults end: whatever it decides, everything must arrive.
    #[must_use]
    pub fn make(self) -> Box<dyn Steer> {
        let mut asked = 0_u64;
        Box::new(move |seen: &Observation| {
            asked += 1;
            match self {
                Self::Tight => Decision {
                    window: Some(1 + seen.window / 8),
                    ..Decision::default()
                },
                Self::Pauses => Decision {
                    window: asked.is_multiple_of(32).then_some(0),
                    ..Decision::default()
                },
                Self::Slow => Decision {
                    pace: Some(4_000_000),
                    ..Decision::default()
                },
                Self::Prompt => Decision {
                    ack_interval: Some(Duration::ZERO),
                    again: Some(Duration::from_millis(50)),
                    ..Decision::default()
                },
            }
        })
    }
}

/// Returns a controller for a connection to begin with.
pub fn controller(rng: &mut Rng) -> ControllerChoice {
    rng.pick(&[
        ControllerChoice::Auto,
        ControllerChoice::Auto,
        ControllerChoice::Lan,
        ControllerChoice::Wan,
        ControllerChoice::Cubic,
        ControllerChoice::Fixed { bytes: 1 << 16 },
    ])
}

/// Draws the decisions of programs in a run, and their times.
pub fn draw(run: &mut Options, rng: &mut Rng) {
    for _ in 0..rng.range(1, 12) {
        let at = Duration::from_nanos(rng.range(0, nanos(run.faults_for)));
        let (host, other) = (rng.index(0, run.nodes), rng.index(0, run.nodes));
        let will = match rng.range(0, 4) {
            0 => Will::Controller(controller(rng)),
            1 => Will::Manual(rng.chance(700_000)),
            2 => Will::Retransmit,
            _ => Will::Steer(rng.pick(&[Rein::Tight, Rein::Pauses, Rein::Slow, Rein::Prompt])),
        };
        run.script.push((at, Step::Decide(host, other, will)));
    }
    // Drawn apart, so that earlier draws do not depend on it.
    let mut rng = Rng::new(run.seed, 7);
    for _ in 0..rng.range(0, 4) {
        let at = Duration::from_nanos(rng.range(0, nanos(run.faults_for)));
        let (host, other) = (rng.index(0, run.nodes), rng.index(0, run.nodes));
        let rate = rng.scale(1_000_000, 100_000_000);
        let cap = rng.chance(700_000).then_some(rate);
        run.script
            .push((at, Step::Decide(host, other, Will::Cap(cap))));
    }
}
