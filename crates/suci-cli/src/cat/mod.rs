//! `suci cat`: bytes from here to there.
//!
//! The sender ends its data with a message that tells how many bytes there were; the receiver answers
//! when it has written them all. That answer, not an acknowledgement by the peer's library, decides
//! both exit statuses.

mod progress;
mod receive;
mod send;

use std::process::ExitCode;

use crate::args::CatArgs;
use crate::error::{Failure, Result};

/// Sends or receives.
pub(crate) fn run(args: &CatArgs) -> Result<ExitCode> {
    match (args.listen, args.to) {
        (Some(address), _) => receive::run(args, address)?,
        (None, Some(address)) => send::run(args, address)?,
        // clap asks for one of them.
        (None, None) => return Err(Failure::new("name an address, or --listen ADDR to receive")),
    }
    Ok(ExitCode::SUCCESS)
}

/// What a message means, in its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    /// The next bytes.
    Data,
    /// There are no more; the payload is how many there were.
    End,
    /// All written; the payload is how many.
    Written,
    /// Not all could be written; the payload says why.
    Failed,
    /// Somebody else is being served.
    Busy,
}

impl Tag {
    fn number(self) -> u64 {
        match self {
            Self::Data => 0,
            Self::End => 1,
            Self::Written => 2,
            Self::Failed => 3,
            Self::Busy => 4,
        }
    }

    fn of(number: u64) -> Option<Self> {
        let all = [
            Self::Data,
            Self::End,
            Self::Written,
            Self::Failed,
            Self::Busy,
        ];
        all.into_iter().find(|tag| tag.number() == number)
    }
}

/// A number as payload.
fn count(bytes: u64) -> Vec<u8> {
    bytes.to_le_bytes().to_vec()
}

/// A payload as number.
fn counted(payload: &[u8]) -> Result<u64> {
    let bytes = payload.try_into().map_err(|_| {
        Failure::new(format!(
            "the other side sent {} bytes for a number: use the same release",
            payload.len()
        ))
    })?;
    Ok(u64::from_le_bytes(bytes))
}
