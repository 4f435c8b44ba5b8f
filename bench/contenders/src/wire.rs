//! The operations that every contender offers.

/// An error that ends a measurement early, as a sentence.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// The purpose of a message: its first byte, so that contenders without tags can carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The message is measured.
    Data = 0,
    /// The client sends no more in this phase.
    Last = 1,
    /// The server has received everything.
    Done = 2,
    /// The message is measured, and the server answers it.
    Ask = 3,
}

impl Mark {
    pub(crate) fn of(message: &[u8]) -> Result<Self> {
        match message.first() {
            Some(0) => Ok(Self::Data),
            Some(1) => Ok(Self::Last),
            Some(2) => Ok(Self::Done),
            Some(3) => Ok(Self::Ask),
            other => Err(format!("a message that begins with {other:?}").into()),
        }
    }

    /// A message that is nothing else.
    pub(crate) fn message(self) -> [u8; 1] {
        [self as u8]
    }
}

/// A message received, read already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) mark: Mark,
    pub(crate) length: usize,
}

impl Received {
    /// Reads a message as a program would that uses it: every cache line once.
    pub(crate) fn touch(message: &[u8]) -> Result<Self> {
        let sum = message
            .iter()
            .step_by(64)
            .fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        std::hint::black_box(sum);
        Ok(Self {
            mark: Mark::of(message)?,
            length: message.len(),
        })
    }
}

/// A way to carry messages between two processes.
pub(crate) trait Wire {
    /// Takes a message, waiting for room. The first byte is its mark. May keep it until
    /// [`Wire::flush`]; `message` stays as it is for as long as the wire lives.
    fn send(&mut self, message: &'static [u8]) -> Result<()>;

    /// Sends the messages that were kept.
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// The next message.
    fn recv(&mut self) -> Result<Received>;

    /// The next message if it is here already, without asking the kernel.
    fn try_recv(&mut self) -> Result<Option<Received>> {
        Ok(None)
    }

    /// Makes sure that sent messages arrive although the process ends.
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}
