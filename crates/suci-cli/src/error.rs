//! One error for the whole command: a sentence for the person at the terminal, and an exit status.

use std::fmt;
use std::io::{self, Write};

use crate::output;

/// Reason why a command failed. The sentence names the thing, its value and the remedy.
#[derive(Debug)]
pub(crate) struct Failure(String);

/// The result of a command or a part of it.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// Returns a failure that says `message`.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

impl From<suci::Error> for Failure {
    fn from(error: suci::Error) -> Self {
        Self(error.to_string())
    }
}

/// Puts the operation that failed in front of an error.
pub(crate) trait Context<T> {
    /// Prefixes an error with `what`.
    fn context(self, what: impl fmt::Display) -> Result<T>;
}

impl<T, E: fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| Failure(format!("{what}: {error}")))
    }
}

/// Says something to the person at the terminal. A terminal that has gone, or a log on a full disk,
/// must not end the work, as `eprintln` would by panicking.
pub(crate) fn tell(what: fmt::Arguments<'_>) {
    tell_in_one_piece(&format!("{what}\n"));
}

/// Writes `text` to standard error, which has no buffer: a text written in pieces would mix with
/// the output of other processes.
pub(crate) fn tell_in_one_piece(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints lines of results, the last without its end: past the library's buffer, which loses lines
/// where standard output does not block.
pub(crate) fn print(line: fmt::Arguments<'_>) -> Result<()> {
    let written = output::write_all(io::stdout(), format!("{line}\n").as_bytes());
    written.context("standard output")
}

/// Prints a result to standard output, for results that come one by one over a long time. Returns
/// false if the reader is gone: a reader that ends early, as `head` does, is no failure.
pub(crate) fn print_for_reader(line: fmt::Arguments<'_>) -> Result<bool> {
    match output::write_all(io::stdout(), format!("{line}\n").as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).context("standard output"),
    }
}
