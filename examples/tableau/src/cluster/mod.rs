//! The processes of a run that `suci run` started, and how they talk.
//!
//! The content of their messages is decided in [`tableau::parallel`]; here it is sent and received.

mod counts;
mod hub;
mod link;
mod worker;

use std::time::Duration;

pub(crate) use hub::{Coordinator, coordinate};
pub(crate) use worker::work;

/// How often a waiting process looks for signals, and for results of its other threads.
pub(crate) const TICK: Duration = Duration::from_millis(20);

/// Messages that are taken before a process looks at everything else again: signals, dead peers,
/// results of its other threads. More may come for as long as others work.
const TURN: usize = 256;

/// The role of this process.
pub(crate) enum Role {
    /// The only one.
    Alone,
    /// Process 0, which reads, gives numbers, and prints.
    Hub { workers: u32 },
    /// A process that expands states.
    Worker { me: u32, workers: u32 },
}

impl Role {
    /// Returns the role that `suci run` gives, if it started us.
    pub(crate) fn from_env() -> Result<Self, String> {
        let id = suci::env::id().map_err(|error| error.to_string())?;
        let size = suci::env::size().map_err(|error| error.to_string())?;
        Ok(match (id, size) {
            (Some(id), Some(size @ 2..)) if id.0 == tableau::parallel::HUB => {
                Self::Hub { workers: size - 1 }
            }
            (Some(id), Some(size @ 2..)) => Self::Worker {
                me: id.0,
                workers: size - 1,
            },
            _ => Self::Alone,
        })
    }

    /// Its name in messages to the user.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Alone => "tableau".to_owned(),
            Self::Hub { .. } => "tableau: process 0".to_owned(),
            Self::Worker { me, .. } => format!("tableau: process {me}"),
        }
    }
}
