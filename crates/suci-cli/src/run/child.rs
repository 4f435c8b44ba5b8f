//! One child process of a launch.

use std::ffi::OsString;
use std::io::{self, PipeReader};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpgid, getpgrp, getpid, getppid, pidfd_open, pidfd_send_signal,
    set_parent_process_death_signal,
};

use super::notices::{Notices, Outbox};
use crate::error::{Context, Result};

/// The facts about itself and the others that a process is given.
pub(super) struct ChildEnvironment<'a> {
    pub(super) id: u32,
    pub(super) size: u32,
    pub(super) book: &'a Path,
    pub(super) faults: Option<&'a str>,
    /// The key that the launcher made.
    pub(super) key: Option<&'a OwnedFd>,
}

/// A program that could not be started.
pub(super) struct Refused {
    pub(super) message: String,
    /// As shells return it: 127 for a program not found, 126 for one that cannot be run.
    pub(super) status: u8,
}

/// How a process ended.
pub(super) enum End {
    Well,
    Failed {
        /// The launcher's own exit status for it.
        status: u8,
        /// `exited with 3`
        how: String,
        /// By this signal.
        signal: Option<i32>,
    },
}

/// A process that was started and not reaped yet.
pub(super) struct Child {
    id: u32,
    process: std::process::Child,
    pidfd: OwnedFd,
    /// Notices to it about the others.
    outbox: Outbox,
}

impl Child {
    /// Starts the program with its socket, which the launcher then no longer holds. It will hear of
    /// the processes that end after this, and of those of `notices` that have ended for good.
    pub(super) fn start(
        program: &[OsString],
        environment: &ChildEnvironment<'_>,
        socket: UdpSocket,
        notices: &Notices,
        piped: bool,
    ) -> Result<Self, Refused> {
        let Some((name, args)) = program.split_first() else {
            return Err(Refused {
                message: "no program was named".to_owned(),
                status: 127,
            });
        };
        let id = environment.id;
        let pipe = notices.pipe_for(id);
        let (told, outbox) = pipe.map_err(|error| lacking("pipe", id, &error))?;
        let mut command = Command::new(name);
        command
            .args(args)
            .env("SUCI_ID", environment.id.to_string())
            .env("SUCI_SIZE", environment.size.to_string())
            .env("SUCI_BOOK", environment.book)
            .env("SUCI_FD", socket.as_raw_fd().to_string())
            .env(suci::env::NOTICES, told.as_raw_fd().to_string());
        match environment.faults {
            // Faults are for all operations, also between processes of one machine.
            Some(faults) => _ = command.env("SUCI_FAULTS", faults),
            None if std::env::var_os(suci::env::SHARED_MEMORY).is_none() => {
                command.env(suci::env::SHARED_MEMORY, "1");
            }
            None => {}
        }
        // A descriptor of its own: the launcher needs its key for processes that start later.
        let key = environment.key.map(OwnedFd::try_clone).transpose();
        let key = key.map_err(|error| lacking("key", id, &error))?;
        if let Some(key) = &key {
            command.env(
                suci::env::KEY_FILE,
                format!("/proc/self/fd/{}", key.as_raw_fd()),
            );
        }
        if environment.id > 0 {
            // Several readers of one input would each get a random part of it.
            command.stdin(Stdio::null());
        }
        if piped {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        prepare(&mut command, socket, told, key);
        let process = command.spawn().map_err(|error| refused(name, &error))?;
        let pid = Pid::from_child(&process);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| Refused {
            message: match scarce(Some(error)) {
                Some(remedy) => format!(
                    "a descriptor of process {}: {error}; {remedy}",
                    environment.id
                ),
                None => {
                    format!("pidfd_open for pid {pid:?}: {error}; Linux 5.3 or newer is needed")
                }
            },
            status: 1,
        })?;
        Ok(Self {
            id: environment.id,
            process,
            pidfd,
            outbox,
        })
    }

    /// Returns the notices to it about the others.
    pub(super) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Returns the same, to write some of it.
    pub(super) fn outbox_mut(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn pidfd(&self) -> &OwnedFd {
        &self.pidfd
    }

    /// Returns its output, if it was started with pipes; once.
    pub(super) fn take_output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.process.stdout.take(), self.process.stderr.take())
    }

    /// Sends a signal; one that has just ended does not mind.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.pidfd, signal);
    }

    /// Returns true if it is still in the launcher's process group. It was not reaped, so its ID is
    /// not used again.
    pub(super) fn is_in_group(&self) -> bool {
        getpgid(Some(Pid::from_child(&self.process))) == Ok(getpgrp())
    }

    /// Returns how it ended, if it did.
    pub(super) fn try_end(&mut self) -> Result<Option<End>> {
        let ended = self.process.try_wait();
        Ok(ended
            .context(format_args!("waiting for process {}", self.id))?
            .map(judge))
    }
}

fn judge(status: ExitStatus) -> End {
    if let Some(signal) = status.signal() {
        let status = u8::try_from(128 + signal).unwrap_or(u8::MAX);
        return End::Failed {
            status,
            how: format!("was killed by signal {signal}"),
            signal: Some(signal),
        };
    }
    match status.code() {
        Some(0) => End::Well,
        code => {
            let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
            End::Failed {
                status: code,
                how: format!("exited with {code}"),
                signal: None,
            }
        }
    }
}

/// Returns the remedy where a resource of the system has run out.
fn scarce(error: Option<Errno>) -> Option<&'static str> {
    match error? {
        Errno::MFILE => Some("start fewer processes, or raise `ulimit -n`"),
        Errno::NFILE => Some("start fewer processes, or raise fs.file-max (sysctl)"),
        Errno::AGAIN => Some("start fewer processes, or raise `ulimit -u`"),
        Errno::NOMEM => Some("start fewer processes: memory is short"),
        _ => None,
    }
}

/// A process cannot be started, since `thing` that it needs cannot be had.
fn lacking(thing: &str, id: u32, error: &io::Error) -> Refused {
    let remedy = scarce(Errno::from_io_error(error));
    let remedy = remedy.map(|remedy| format!("; {remedy}"));
    Refused {
        message: format!(
            "a {thing} for process {id}: {error}{}",
            remedy.unwrap_or_default()
        ),
        status: 1,
    }
}

fn refused(name: &OsString, error: &io::Error) -> Refused {
    let shown = name.to_string_lossy();
    if let Some(remedy) = scarce(Errno::from_io_error(error)) {
        // The program may be as good as any.
        return Refused {
            message: format!("\"{shown}\": {error}; {remedy}"),
            status: 1,
        };
    }
    let status = if error.kind() == io::ErrorKind::NotFound {
        127
    } else {
        126
    };
    let path = Path::new(name);
    let remedy = match path.components().count() == 1 && path.is_file() {
        true => format!("did you mean \"./{shown}\"?"),
        false => "name an executable file, by its path or in PATH".to_owned(),
    };
    let message = format!("\"{shown}\": {error}; {remedy}");
    Refused { message, status }
}

/// Lets the child alone inherit `socket`, the pipe `told` and `key`, and makes it end when the
/// launcher does.
///
/// The descriptors are opened to inheritance between fork and exec, in the child: were it done
/// here, a process started by another thread meanwhile would inherit it too.
fn prepare(command: &mut Command, socket: UdpSocket, told: PipeReader, key: Option<OwnedFd>) {
    let launcher = getpid();
    let before_exec = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(launcher) {
            // The launcher was gone before the line above; that signal will not come.
            return Err(io::Error::from_raw_os_error(Errno::SRCH.raw_os_error()));
        }
        fcntl_setfd(&socket, FdFlags::empty())?;
        fcntl_setfd(&told, FdFlags::empty())?;
        if let Some(key) = &key {
            fcntl_setfd(key, FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe work is allowed. The closure makes a few
    // bare system calls and builds errors from their numbers: it neither allocates, locks nor
    // unwinds.
    unsafe { command.pre_exec(before_exec) };
}
