//! Signals that end programs, as bytes in pipes: one `poll` waits for them and everything else.

use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendFlags, send};
use rustix::process::{Signal, getpid};

use crate::error::{Context, Result};

const ENDING: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// A signal that was caught.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caught {
    pub(crate) signal: Signal,
    /// True if the kernel sent it on behalf of the terminal; else a process did.
    pub(crate) by_kernel: bool,
}

/// The signals of a process that does not let them end it at once.
pub(crate) struct Signals {
    pipes: Vec<(Signal, UnixStream)>,
}

impl Signals {
    /// Catches them. Ignored signals are left alone: `nohup` ignores the terminal's end, which this
    /// program must survive, and a shell ignores Ctrl-C for its background commands.
    pub(crate) fn catch() -> Result<Self> {
        let mut pipes = Vec::new();
        for signal in ENDING {
            if is_ignored(signal) {
                continue;
            }
            let read = report(signal)?;
            pipes.push((signal, read));
        }
        Ok(Self { pipes })
    }

    /// Returns the pipes that become readable when a signal is caught.
    pub(crate) fn pipes(&self) -> impl ExactSizeIterator<Item = &UnixStream> {
        self.pipes.iter().map(|(_, pipe)| pipe)
    }

    /// Returns the signals caught since the last call, once per arrival.
    pub(crate) fn take(&self) -> Vec<Caught> {
        let mut caught = Vec::new();
        for (signal, pipe) in &self.pipes {
            let mut bytes = [0; 16];
            // An empty pipe is an error here, and means that no signal was caught.
            let count = (&mut &*pipe).read(&mut bytes).unwrap_or(0);
            caught.extend(bytes.iter().take(count).map(|byte| Caught {
                signal: *signal,
                by_kernel: *byte != 0,
            }));
        }
        caught
    }

    /// Lets them end the process at once again.
    pub(crate) fn release(self) {
        for (signal, _) in self.pipes {
            // SAFETY: the default action runs no code of ours.
            unsafe { libc::signal(signal.as_raw(), libc::SIG_DFL) };
        }
    }

    /// Sleeps until one is caught.
    pub(crate) fn wait(&self) -> Signal {
        self.wait_for(None)
    }

    /// Waits for a signal, or until `terminal` is gone, which counts as HUP.
    pub(crate) fn wait_beside(&self, terminal: impl AsFd) -> Signal {
        self.wait_for(Some(terminal.as_fd()))
    }

    fn wait_for(&self, terminal: Option<BorrowedFd<'_>>) -> Signal {
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        loop {
            if let Some(caught) = self.take().first() {
                return caught.signal;
            }
            let terminal = terminal.iter();
            let mut fds: Vec<_> = terminal
                .map(|fd| PollFd::new(fd, PollFlags::empty()))
                .collect();
            fds.extend(self.pipes().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            // Interrupted or not: everything to know is in the pipes.
            let _ = poll(&mut fds, None);
            if fds.iter().any(|fd| fd.revents().intersects(gone)) {
                return Signal::HUP;
            }
        }
    }
}

/// Catches a signal. Returns a pipe that gets a byte each time: 1 if the kernel sent the signal on
/// behalf of the terminal, else 0.
fn report(signal: Signal) -> Result<UnixStream> {
    let (read, write) = UnixStream::pair().context("a pipe for signals")?;
    read.set_nonblocking(true).context("a pipe for signals")?;
    let here = getpid();
    let tell = move |info: &libc::siginfo_t| {
        // A child between fork and exec has the handlers and pipes of its parent still.
        if getpid() != here {
            return;
        }
        let by_kernel = u8::from(info.si_code == libc::SI_KERNEL);
        // A pipe that is full says enough.
        let _ = send(
            &write,
            &[by_kernel],
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        );
    };
    // SAFETY: a handler may make calls that are async-signal-safe, and leave `errno` alone. This
    // one makes two system calls, which return their errors instead.
    unsafe { signal_hook_registry::register_sigaction(signal.as_raw(), tell) }
        .context("catching signals")?;
    Ok(read)
}

/// The kernel's signal that a child of this process has ended. Signals of children that end
/// together may be one.
pub(crate) struct ChildSignal(UnixStream);

impl ChildSignal {
    /// Catches it, even if this process was started with the signal ignored, so that the kernel
    /// would take its children away, or blocked.
    pub(crate) fn catch() -> Result<Self> {
        let pipe = report(Signal::CHILD)?;
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: `set` has the type that these calls read and write, and outlives them; to take a
        // signal out of the mask runs no code but the handler above.
        let done = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut())
        };
        match done {
            0 => Ok(Self(pipe)),
            error => Err(std::io::Error::from_raw_os_error(error)).context("the signal CHLD"),
        }
    }

    /// Returns the pipe that becomes readable when a child has ended.
    pub(crate) fn pipe(&self) -> &UnixStream {
        &self.0
    }

    /// Returns true if a child has ended since the last call.
    pub(crate) fn take(&self) -> bool {
        let mut bytes = [0; 1024];
        // An empty pipe is an error here. If more bytes wait than there is room for, the pipe stays
        // readable.
        (&mut &self.0).read(&mut bytes).is_ok_and(|count| count > 0)
    }
}

fn is_ignored(signal: Signal) -> bool {
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action, sigaction only writes the present one to `now`, which has its
    // type and is valid as zeros too, should the call fail.
    let now = unsafe {
        libc::sigaction(signal.as_raw(), std::ptr::null(), now.as_mut_ptr());
        now.assume_init()
    };
    now.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use rustix::process::kill_process;

    use super::*;

    #[test]
    fn a_signal_that_a_child_catches_before_exec_does_not_reach_the_parent() {
        let signals = Signals::catch().unwrap();
        let mut command = Command::new("true");
        // SAFETY: between fork and exec only async-signal-safe work is allowed: this is two system
        // calls.
        unsafe { command.pre_exec(|| Ok(kill_process(getpid(), Signal::INT)?)) };
        assert!(command.status().unwrap().success());
        assert!(signals.take().is_empty());
    }
}
