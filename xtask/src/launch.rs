//! Programs under `suci run`, for tests: which process has which ID, a kill of one, and how all
//! ended.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::{Context, Failure, Result};
use crate::exec::{self, Process};

/// Longer than any program in a test takes.
const LONG: Duration = Duration::from_secs(100);

/// The output of a program so far, and the thread that reads it.
#[derive(Debug)]
struct Printed {
    text: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
}

/// A launch that runs; ended when dropped.
#[derive(Debug)]
pub struct Launch {
    process: Process,
    out: Printed,
    err: Printed,
}

/// The end of a launch.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: i32,
    /// The standard output of its processes.
    pub out: String,
    /// Their standard error.
    pub err: String,
}

impl Launch {
    /// Starts `suci run -n processes options program args`. `suci` is from the build that the
    /// caller is from.
    ///
    /// # Errors
    /// `suci` has not been built, or cannot be started.
    pub fn start(processes: u32, options: &[&str], program: &Path, args: &[&str]) -> Result<Self> {
        let mut command = Command::new(exec::built("suci")?);
        command.args(["run", "-n", &processes.to_string()]);
        command.args(options).arg("--").arg(program).args(args);
        Self::begin(&mut command)
    }

    /// Starts one program, without `suci run`.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn begin(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::spawn(command)?;
        let child = process.child();
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let (out, err) = (out.context("no output")?, err.context("no error output")?);
        Ok(Self {
            process,
            out: Printed::by(out),
            err: Printed::by(err),
        })
    }

    /// Waits until a process has printed `text` to its error output.
    ///
    /// # Errors
    /// All ended before, or it takes too long.
    pub fn says(&mut self, text: &str) -> Result<()> {
        let begun = Instant::now();
        while !self.err.so_far().contains(text) {
            if begun.elapsed() > LONG || self.process.child().try_wait()?.is_some() {
                let said = self.err.so_far();
                return Err(Failure::new(format!("nobody said `{text}`: {said}")));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Kills process `id` by its pid, which is waited for.
    ///
    /// # Errors
    /// There is no such process, even after a while.
    pub fn kill(&self, id: u32) -> Result<()> {
        let pid = i32::try_from(self.pid_of(id)?).context("a pid")?;
        // SAFETY: kill takes any numbers; the launcher, which reaps it, was just seen to have this
        // child.
        match unsafe { libc::kill(pid, libc::SIGKILL) } {
            0 => Ok(()),
            _ => Err(Failure::new(format!("process {id} is gone"))),
        }
    }

    fn pid_of(&self, id: u32) -> Result<u32> {
        let wanted = format!("SUCI_ID={id}");
        let launcher = self.process.pid();
        let begun = Instant::now();
        while begun.elapsed() < LONG {
            let children = format!("/proc/{launcher}/task/{launcher}/children");
            let children = std::fs::read_to_string(children)?;
            let found = children.split_whitespace().find(|pid| {
                let environment = std::fs::read(format!("/proc/{pid}/environ"));
                let environment = environment.unwrap_or_default();
                let mut entries = environment.split(|&byte| byte == 0);
                entries.any(|entry| entry == wanted.as_bytes())
            });
            if let Some(pid) = found {
                return pid.parse().context("a pid");
            }
            thread::sleep(Duration::from_millis(10));
        }
        Err(Failure::new(format!("process {id} was not started")))
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// The program does not end.
    pub fn end(mut self) -> Result<Ended> {
        let begun = Instant::now();
        let status = loop {
            match self.process.child().try_wait()? {
                Some(status) => break status,
                None if begun.elapsed() > LONG => return Err(Failure::new("it goes on and on")),
                None => thread::sleep(Duration::from_millis(10)),
            }
        };
        Ok(Ended {
            status: status.code().context("ended by a signal")?,
            out: self.out.all()?,
            err: self.err.all()?,
        })
    }
}

impl Printed {
    /// Reads `from` to its end, beside the caller: a full pipe would stop the program.
    fn by(from: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let into = Arc::clone(&text);
        let reader = thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(std::io::Result::ok) {
                let mut text = into.lock().unwrap_or_else(PoisonError::into_inner);
                text.push_str(&line);
                text.push('\n');
            }
        });
        Self { text, reader }
    }

    fn so_far(&self) -> String {
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        text.clone()
    }

    /// Everything, when the program has ended.
    fn all(self) -> Result<String> {
        let Self { text, reader } = self;
        let read = reader.join();
        read.map_err(|_| Failure::new("a thread panicked"))?;
        let text = text.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(text.clone())
    }
}
