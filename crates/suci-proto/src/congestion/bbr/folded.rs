//! What is written down of the state while nobody needs it.

use super::{Bbr, Bounds, Clumps, Look, Round, State};
use crate::fold::{Fold, Words, folds};

folds!(Bbr {
    mtu,
    window,
    state,
    round,
    rounds,
    bandwidth,
    min_rtt,
    min_rtt_at,
    usual_rtt,
    bounds,
    before,
    full_bandwidth,
    full_rounds,
    filled,
    cycle_began,
    cycle_round,
    cycle_wait,
    losses,
    clumps,
});
folds!(Look {
    since,
    least,
    sum,
    samples
});
folds!(Bounds {
    in_flight,
    bandwidth
});
folds!(Round {
    began,
    delivered,
    lost,
    lost_in_flight,
    marked,
    bandwidth,
    app_limited
});
folds!(Clumps {
    began,
    bytes,
    extra
});

impl Fold for State {
    fn fold(&self, to: &mut Words) {
        let number: u8 = match self {
            Self::Startup => 0,
            Self::Drain => 1,
            Self::Down => 2,
            Self::Cruise => 3,
            Self::Refill => 4,
            Self::Up { .. } => 5,
            Self::ProbeRtt { .. } => 6,
        };
        number.fold(to);
        match self {
            Self::Up { since, rounds } => {
                since.fold(to);
                rounds.fold(to);
            }
            Self::ProbeRtt { look } => look.fold(to),
            Self::Startup | Self::Drain | Self::Down | Self::Cruise | Self::Refill => {}
        }
    }

    fn unfold(from: &mut Words) -> Self {
        match u8::unfold(from) {
            1 => Self::Drain,
            2 => Self::Down,
            3 => Self::Cruise,
            4 => Self::Refill,
            5 => Self::Up {
                since: Fold::unfold(from),
                rounds: Fold::unfold(from),
            },
            6 => Self::ProbeRtt {
                look: Fold::unfold(from),
            },
            _ => Self::Startup,
        }
    }
}
