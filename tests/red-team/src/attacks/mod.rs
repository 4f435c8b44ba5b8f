//! The attacks, and the defence that stops each.

mod handshake;
mod member;
mod path;
mod session;

use crate::scene::Setting;
use crate::{Report, text};

/// One attack.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// A name to select it by.
    pub name: &'static str,
    /// The damage that the attackers try to do.
    pub tries: &'static str,
    /// The planted fault that removes the defence, in plain and in sealed mode; `None` where there
    /// is nothing to attack in that mode.
    pub plants: [Option<&'static str>; 2],
    run: fn(Setting) -> Result<Report, String>,
}

impl Attack {
    /// Makes the attack in one mode. Returns what was seen if it failed. Takes seconds, or minutes
    /// with a large volume.
    ///
    /// # Errors
    /// The attack succeeded: what it broke.
    pub fn run(&self, setting: Setting) -> Result<Report, String> {
        (self.run)(setting)
    }

    /// Returns the planted fault that removes the defence in this mode, if the mode has the attack.
    #[must_use]
    pub fn plant(&self, sealed: bool) -> Option<&'static str> {
        let [plain, in_sealed] = self.plants;
        if sealed { in_sealed } else { plain }
    }

    /// Removes the defence of this attack in every node of this process.
    ///
    /// # Errors
    /// There is no such planted fault, or this build has none.
    pub fn remove_defence(&self, sealed: bool) -> Result<(), String> {
        let name = self.plant(sealed).ok_or("no such attack in this mode")?;
        #[cfg(suci_plant)]
        if suci::plant::select(name) {
            return Ok(());
        }
        Err(text(format_args!("this build cannot plant `{name}`")))
    }
}

/// The same fault in both modes.
const fn both(name: &'static str) -> [Option<&'static str>; 2] {
    [Some(name), Some(name)]
}

/// The faults by which packets that are not authentic are taken, in each mode.
const AUTHENTICITY: [Option<&str>; 2] = [Some("tag-unchecked"), Some("unauthentic-taken")];

/// Every attack.
pub const ATTACKS: &[Attack] = &[
    Attack {
        name: "spoofed-hellos",
        tries: "HELLOs from as many forged addresses and nodes leave state behind",
        plants: both("hello-keeps-peer"),
        run: handshake::spoofed_hellos,
    },
    Attack {
        name: "reflection",
        tries: "answers to a forged address are longer than what asked for them",
        plants: both("cookie-sent-twice"),
        run: handshake::reflection,
    },
    Attack {
        name: "forged-cookies",
        tries: "INITs with invented cookies open sessions",
        plants: both("init-unbound"),
        run: handshake::forged_cookies,
    },
    Attack {
        name: "slow-handshakes",
        tries: "HELLOs of one address, never followed by INIT, keep other strangers out",
        plants: both("sources-uncapped"),
        run: handshake::slow_handshakes,
    },
    Attack {
        name: "key-guessing",
        tries: "INITs with a good cookie and no key take processor time without bound",
        plants: [None, Some("handshake-work-unlimited")],
        run: handshake::key_guessing,
    },
    Attack {
        name: "repeated-inits",
        tries: "a recorded INIT, again and again, uses up what honest handshakes need",
        plants: [None, Some("repetitions-read")],
        run: handshake::repeated_inits,
    },
    Attack {
        name: "forged-accepts",
        tries: "ACCEPTs with the true token and a false message take key exchanges without bound",
        plants: [None, Some("accepts-unlimited")],
        run: handshake::forged_accepts,
    },
    Attack {
        name: "replay",
        tries: "a recorded session is sent again to the same process",
        plants: both("dedup-off"),
        run: path::replay,
    },
    Attack {
        name: "replay-to-restarted",
        tries: "a recorded session is sent to the process that came after",
        plants: both("init-unbound"),
        run: path::replay_to_restarted,
    },
    Attack {
        name: "noise",
        tries: "random bytes, and damaged copies of packets that go before them",
        plants: [Some("checksum-unchecked"), Some("unauthentic-taken")],
        run: path::noise,
    },
    Attack {
        name: "index-guessing",
        tries: "packets that close a session, for guessed connections",
        plants: AUTHENTICITY,
        run: path::index_guessing,
    },
    Attack {
        name: "forged-numbers",
        tries: "packets with numbers far ahead, not authentic, make the next honest ones look old",
        plants: both("window-before-authentication"),
        run: path::forged_numbers,
    },
    Attack {
        name: "forged-hints",
        tries: "UNKNOWN, REFUSED, COOKIE and ACCEPT in the peer's name, from its address",
        plants: both("hint-ends-session"),
        run: path::forged_hints,
    },
    Attack {
        name: "optimistic-acks",
        tries: "a peer acknowledges packets that were never sent",
        plants: both("acks-unchecked"),
        run: session::optimistic_acks,
    },
    Attack {
        name: "fragment-bomb",
        tries: "a peer sends a message in single bytes with gaps",
        plants: both("gaps-unlimited"),
        run: session::fragment_bomb,
    },
    Attack {
        name: "contradictory-lengths",
        tries: "a peer says two lengths of one message",
        plants: both("length-not-pinned"),
        run: session::contradictory_lengths,
    },
    Attack {
        name: "challenge-flood",
        tries: "a peer sends challenges and acknowledges no response",
        plants: both("challenges-unlimited"),
        run: session::challenge_flood,
    },
    Attack {
        name: "credit-overflow",
        tries: "a peer begins more messages than its memory credit allows",
        plants: both("memory-unchecked"),
        run: session::credit_overflow,
    },
    Attack {
        name: "foreign-session",
        tries: "a peer closes the session of another, under its own keys or tag",
        plants: AUTHENTICITY,
        run: session::foreign_session,
    },
    Attack {
        name: "unknown-frames",
        tries: "a peer sends frames that nobody announced",
        plants: both("unknown-frames-skipped"),
        run: session::unknown_frames,
    },
    Attack {
        name: "impostor",
        tries: "a member with a key of its own acts as another (a cluster key lets it)",
        plants: [None, Some("key-of-any-node")],
        run: member::impostor,
    },
    Attack {
        name: "denied-layer",
        tries: "a member sends on a layer that its public key's line does not name",
        plants: [None, Some("layers-unchecked")],
        run: member::denied_layer,
    },
];
