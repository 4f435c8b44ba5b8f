//! The trace of a run: always hashed, so that two runs can be compared; printed when asked for.

use std::fmt::Arguments;

use suci_proto::time::Instant;

use crate::rng::mix;

/// The events of a run, in order: their hash, and whether to print them.
#[derive(Debug)]
pub struct Trace {
    hash: u64,
    print: bool,
}

impl Trace {
    /// Returns a trace that is only hashed, or printed too.
    #[must_use]
    pub fn new(print: bool) -> Self {
        Self { hash: 0, print }
    }

    /// Notes that something happened. `facts` goes into the hash, `text` only to the reader.
    pub fn note(&mut self, now: Instant, facts: u64, text: Arguments<'_>) {
        self.hash = mix(self.hash ^ mix(now.as_nanos() ^ mix(facts)));
        if self.print {
            let micros = now.as_nanos() / 1_000;
            println!("{:>6}.{:06} {text}", micros / 1_000_000, micros % 1_000_000);
        }
    }

    /// Returns a hash that is equal for equal runs.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}
