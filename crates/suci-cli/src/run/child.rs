//! One child process of a launch.

use std::ffi::OsString;
use std::io::{self, PipeReader};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStderr, ChildStdout, Command, Stdio};

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, Signal, WaitStatus, getpgid, getpgrp, getpid, getppid, kill_process,
    set_parent_process_death_signal,
};

use super::memory;
use super::notices::{Notices, Outbox};

/// The facts about itself and the others that a process is given.
pub(super) struct ChildEnvironment<'a> {
    pub(super) id: u32,
    pub(super) size: u32,
    pub(super) book: &'a OwnedFd,
    pub(super) faults: Option<&'a str>,
    /// The key that the launcher made.
    pub(super) key: Option<&'a OwnedFd>,
    /// It has no key, whatever the environment names.
    pub(super) plain: bool,
    /// It may read the launcher's standard input.
    pub(super) has_input: bool,
    /// Further variables.
    pub(super) variables: &'a [(String, String)],
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
    pid: Pid,
    output: (Option<ChildStdout>, Option<ChildStderr>),
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
        let variables = environment.variables.iter();
        command
            .args(args)
            .envs(variables.map(|(name, value)| (name, value)))
            .env("SUCI_ID", environment.id.to_string())
            .env("SUCI_SIZE", environment.size.to_string())
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
        if environment.plain {
            super::key::hide(&mut command);
        }
        // Descriptors of its own: the launcher needs its book and key for processes that start
        // later.
        let mut inherited = Vec::with_capacity(2);
        for (variable, thing, file) in [
            (suci::env::BOOK, "book", Some(environment.book)),
            (suci::env::KEY_FILE, "key", environment.key),
        ] {
            let Some(file) = file else { continue };
            let file = file.try_clone();
            let file = file.map_err(|error| lacking(thing, id, &error))?;
            command.env(variable, memory::path(&file));
            inherited.push(file);
        }
        if !environment.has_input {
            // Several readers of one input would each get a random part of it.
            command.stdin(Stdio::null());
        }
        if piped {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        prepare(&mut command, socket, told, inherited);
        let mut process = command.spawn().map_err(|error| refused(name, &error))?;
        Ok(Self {
            id: environment.id,
            pid: Pid::from_child(&process),
            output: (process.stdout.take(), process.stderr.take()),
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

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns its output, if it was started with pipes; once.
    pub(super) fn take_output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        std::mem::take(&mut self.output)
    }

    /// Sends a signal; one that has just ended does not mind. It was not reaped, so its ID is not
    /// used again.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = kill_process(self.pid, signal);
    }

    /// Returns true if it is still in the launcher's process group.
    pub(super) fn is_in_group(&self) -> bool {
        getpgid(Some(self.pid)) == Ok(getpgrp())
    }
}

/// Says how a process ended.
pub(super) fn judge(status: WaitStatus) -> End {
    if let Some(signal) = status.terminating_signal() {
        let status = u8::try_from(128 + signal).unwrap_or(u8::MAX);
        return End::Failed {
            status,
            how: format!("was killed by signal {signal}"),
            signal: Some(signal),
        };
    }
    match status.exit_status() {
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
pub(super) fn scarce(error: Option<Errno>) -> Option<&'static str> {
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

/// Lets the child alone inherit `socket`, the pipe `told` and these `files`, and makes it end when
/// the launcher does.
///
/// The descriptors are opened to inheritance between fork and exec, in the child: were it done
/// here, a process started by another thread meanwhile would inherit it too.
fn prepare(command: &mut Command, socket: UdpSocket, told: PipeReader, files: Vec<OwnedFd>) {
    let launcher = getpid();
    let before_exec = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(launcher) {
            // The launcher was gone before the line above; that signal will not come.
            return Err(io::Error::from_raw_os_error(Errno::SRCH.raw_os_error()));
        }
        fcntl_setfd(&socket, FdFlags::empty())?;
        fcntl_setfd(&told, FdFlags::empty())?;
        for file in &files {
            fcntl_setfd(file, FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe work is allowed. The closure makes a few
    // bare system calls and builds errors from their numbers: it neither allocates, locks nor
    // unwinds.
    unsafe { command.pre_exec(before_exec) };
}
