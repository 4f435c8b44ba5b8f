//! Control frames that wait for a packet. Each slot holds a few of its kind at most, so that no
//! peer can make us queue more.

use crate::planted;
use std::net::SocketAddr;

/// Responses to challenges that may wait at once, on the path and elsewhere; further challenges go
/// unanswered (F04).
const MAX_RESPONSES: usize = 4;

/// Frames that the next suitable packet must carry.
#[derive(Debug, Default)]
pub struct Pending {
    /// PING is due: as a probe or keep-alive, or because another process claims the peer's ID.
    pub ping: bool,
    /// Probe packets allowed beyond the congestion window.
    pub probes: u32,
    /// The last of the probe packets must be a PING in a control packet: the others may be lost for
    /// their size.
    pub small_ping: bool,
    /// CREDIT is due: the peer sent BLOCKED, or the program took many messages.
    pub credit: bool,
    /// RECLAIM is due, for this generation.
    pub reclaim: Option<u64>,
    /// CLOSE is due.
    pub close: bool,
    /// Responses to challenges. Those from other addresses than the path's go back there.
    responses: Vec<(Option<SocketAddr>, u64)>,
}

impl Pending {
    /// Returns true if a question to the peer needs a packet at once.
    pub fn asks(&self) -> bool {
        self.ping || self.small_ping || self.reclaim.is_some() || self.close
    }

    /// Returns true if the answer to a challenge on the path needs a packet at once.
    pub fn answers(&self) -> bool {
        self.responses.iter().any(|(to, _)| to.is_none())
    }

    /// Returns true if anything waits for a packet.
    pub fn has_any(&self) -> bool {
        self.credit || self.asks() || !self.responses.is_empty()
    }

    /// Handles a CHALLENGE; `elsewhere` is its source address if that is not the path's.
    pub fn respond(&mut self, nonce: u64, elsewhere: Option<SocketAddr>) {
        let alike = |(to, _): &&(Option<_>, _)| to.is_some() == elsewhere.is_some();
        let room = self.responses.iter().filter(alike).count() < MAX_RESPONSES;
        // A challenge may be repeated.
        if (room || planted("challenges-unlimited"))
            && !self.responses.contains(&(elsewhere, nonce))
        {
            self.responses.push((elsewhere, nonce));
        }
    }

    /// Returns the address of the next response that does not go to the path, if one waits.
    pub fn responds_to(&self) -> Option<SocketAddr> {
        self.responses.iter().find_map(|(to, _)| *to)
    }

    /// Takes the responses to `to`, an address other than the path's; `None` is the path's.
    pub fn take_responses_to(&mut self, to: Option<SocketAddr>) -> impl Iterator<Item = u64> {
        self.responses
            .extract_if(.., move |(from, _)| *from == to)
            .map(|(_, nonce)| nonce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f04_challenges_beyond_the_cap_go_unanswered() {
        let mut pending = Pending::default();
        let from = SocketAddr::from(([10, 0, 0, 1], 7_000));
        for nonce in 0..100 {
            pending.respond(nonce, None);
            pending.respond(nonce, Some(from));
        }
        assert_eq!(pending.take_responses_to(None).count(), MAX_RESPONSES);
        assert_eq!(pending.take_responses_to(Some(from)).count(), MAX_RESPONSES);
        assert_eq!(pending.responds_to(), None);
    }
}
