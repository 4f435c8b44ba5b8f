//! Ctrl-C.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::{Failure, tell};

/// The longest time for a process to tell the others that it ends. Expanding a single state can
/// take for ever.
const GRACE: Duration = Duration::from_secs(3);

/// Signals that end the work.
pub(crate) struct Interrupts {
    /// The one that came, or 0.
    caught: Arc<AtomicUsize>,
}

impl Interrupts {
    /// Catches them. A process that is `alone` has nothing to tidy up and ends at once, by a thread
    /// of its own: the expansion of a state is not interrupted. One of several asks
    /// [`Interrupts::check`] and tells the others; it ends after three seconds in any case.
    pub(crate) fn catch(alone: bool) -> std::io::Result<Self> {
        let caught = Arc::new(AtomicUsize::new(0));
        let (mut read, write) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM] {
            let number = usize::try_from(signal).unwrap_or(0);
            signal_hook::flag::register_usize(signal, Arc::clone(&caught), number)?;
            signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
        }
        let seen = Arc::clone(&caught);
        std::thread::spawn(move || {
            if read.read_exact(&mut [0]).is_err() {
                return;
            }
            if !alone {
                std::thread::sleep(GRACE);
            }
            tell("tableau: interrupted\n");
            std::process::exit(128 + i32::try_from(seen.load(Ordering::Relaxed)).unwrap_or(0));
        });
        Ok(Self { caught })
    }

    /// Fails when one came.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match u8::try_from(self.caught.load(Ordering::Relaxed)) {
            Ok(0) | Err(_) => Ok(()),
            Ok(signal) => Err(Failure::Signal(signal)),
        }
    }
}
