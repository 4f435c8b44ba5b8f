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
        let here = getpid();
        for signal in ENDING {
            if is_ignored(signal) {
                continue;
            }
            let (read, write) = UnixStream::pair().context("a pipe for signals")?;
            read.set_nonblocking(true).context("a pipe for signals")?;
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
            // SAFETY: a handler may make calls that are async-signal-safe, and leave `errno` alone.
            // This one makes two system calls, which return their errors instead.
            unsafe { signal_hook_registry::register_sigaction(signal.as_raw(), tell) }
                .context("catching signals")?;
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

/// Makes ended children waitable, even if this process was started with SIGCHLD ignored: then the
/// kernel would take its children away.
pub(crate) fn notice_children() -> Result<()> {
    // SAFETY: the default action for CHLD runs no code of ours.
    let before = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    if before == libc::SIG_ERR {
        return Err(std::io::Error::last_os_error()).context("the signal CHLD");
    }
    Ok(())
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
