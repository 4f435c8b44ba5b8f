//! Running commands, and where the tree and its build results are.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Context, Failure, Result};

/// The root of the working tree.
#[must_use]
pub fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

/// The folder for cargo's output: `CARGO_TARGET_DIR`, or `target` in the tree.
#[must_use]
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// A binary of ours from the same build profile as the running program, for tests of crates
/// that do not own it.
///
/// # Errors
/// The binary has not been built: `cargo build -p suci-cli` comes before tests that use `suci`.
pub fn built(name: &str) -> Result<PathBuf> {
    // target/PROFILE/deps/TEST-HASH, or target/PROFILE/xtask.
    let own = std::env::current_exe()?;
    let beside = own.ancestors().skip(1).take(2).map(|dir| dir.join(name));
    let mut found = beside.filter(|path| path.is_file());
    found
        .next()
        .context(format!("{name} has not been built in this profile"))
}

/// `cargo` with `args`, in the root of the tree.
pub fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    // The outer `cargo run` describes xtask to its child; builds in here must not see that, or
    // their fingerprints would differ from those of the same command typed by hand.
    for (key, _) in std::env::vars_os() {
        let name = key.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR" {
            command.env_remove(&key);
        }
    }
    command
}

/// A command as one would type it.
#[must_use]
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Runs to the end with the output where ours goes.
///
/// # Errors
/// The program cannot be started, or ends unsuccessfully.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().context(shown(command))?;
    if status.success() {
        Ok(())
    } else {
        Err(ended(command, status))
    }
}

/// Runs to the end and returns the standard output.
///
/// # Errors
/// As [`run`]; the failure then holds the program's standard error.
pub fn capture(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .context(shown(command))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(format!(
        "{}: {}",
        ended(command, output.status),
        said.trim()
    )))
}

fn ended(command: &Command, status: ExitStatus) -> Failure {
    Failure::new(format!("`{}` ended with {status}", shown(command)))
}

/// Puts `command`, and the processes that it starts, in a process group of its own, for
/// [`Process::kill_group`].
pub fn in_group(command: &mut Command) -> &mut Command {
    command.process_group(0)
}

/// As [`in_group`]; the kernel runs it only on cores that no other process wants.
pub fn when_idle(command: &mut Command) -> &mut Command {
    // SAFETY: the code between fork and exec calls one function that is async-signal-safe, and
    // allocates nothing.
    unsafe {
        in_group(command).pre_exec(|| {
            let param = libc::sched_param { sched_priority: 0 };
            match libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const param) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        })
    }
}

/// Applies `work` to each of `items`, as many at a time as there are cores. Returns the results in
/// the order of the items.
///
/// # Errors
/// Those of `work`: the worker that met an error begins nothing more, the others go on.
pub fn side_by_side<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    at_once(thread::available_parallelism()?.get(), items, work)
}

/// The same with up to `most` at a time: for work that mostly waits.
///
/// # Errors
/// As for [`side_by_side`].
pub fn at_once<T: Sync, R: Send>(
    most: usize,
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let worker = || -> Result<Vec<(usize, R)>> {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else {
                return Ok(done);
            };
            done.push((at, work(item)?));
        }
    };
    let workers = most.min(items.len());
    let done = thread::scope(|scope| {
        let started: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        let ends = started.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_else(|_| Err(Failure::new("a thread panicked"))))
            .collect::<Result<Vec<_>>>()
    })?;
    let mut done: Vec<_> = done.into_iter().flatten().collect();
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// A child process that is killed (by its own pid, nothing else) when this is dropped, or when the
/// thread that started it ends, however it does.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts `command`.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn spawn(command: &mut Command) -> Result<Self> {
        let name = shown(command);
        Self::spawn_as(&name, command)
    }

    /// Starts `command`, which errors call `name`: for those whose command line tells readers
    /// nothing.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn spawn_as(name: &str, command: &mut Command) -> Result<Self> {
        die_with_parent(command);
        let child = command.spawn().context(name)?;
        Ok(Self {
            child,
            name: name.to_owned(),
        })
    }

    /// Its name in errors.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process ID.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The child itself, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits until `deadline` for a successful end.
    ///
    /// # Errors
    /// The deadline passed (the process is then killed), or it ended unsuccessfully.
    pub fn finish_by(&mut self, deadline: Instant) -> Result<()> {
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    return Err(Failure::new(format!("`{}` ended with {status}", self.name)));
                }
                None if Instant::now() >= deadline => {
                    self.kill();
                    return Err(Failure::new(format!("`{}` did not end in time", self.name)));
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// SIGKILL, then reaps the process. Harmless when it has already ended.
    pub fn kill(&mut self) {
        // Both fail only when the process is already gone, which is the aim.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM, upon which a program of ours removes its namespaces; SIGKILL if it has not ended
    /// within `time`.
    pub(crate) fn ask_to_end(&mut self, time: Duration) {
        if let Ok(pid) = i32::try_from(self.pid()) {
            // SAFETY: kill takes any numbers; the child is not reaped, so that no other process
            // has its number.
            unsafe { libc::kill(pid, libc::SIGTERM) };
        }
        // Whether it succeeded does not matter any more. A process that remains is killed.
        let _ = self.finish_by(Instant::now() + time);
    }

    /// SIGKILL to it and all that it started, if it was started [`in_group`].
    pub fn kill_group(&mut self) {
        if let Ok(group) = i32::try_from(self.pid()) {
            // SAFETY: kill takes any numbers; the child is not reaped, so that no other group has
            // its number.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
        self.kill();
    }
}

/// Has the kernel kill the process of `command` when the thread that started it is no more: a
/// program that is killed, or that a signal ends, drops nothing.
fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: the code between fork and exec calls two functions that are async-signal-safe, and
    // allocates nothing.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            // The parent may have ended before the line above.
            match u32::try_from(libc::getppid()) {
                Ok(now) if now == parent => Ok(()),
                _ => Err(std::io::Error::from_raw_os_error(libc::ESRCH)),
            }
        });
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn side_by_side_keeps_the_order_and_tells_of_a_failure() {
        let items: Vec<u32> = (0..100).collect();
        let double = |n: &u32| Ok(2 * n);
        let doubled: Vec<u32> = items.iter().map(|n| 2 * n).collect();
        assert_eq!(side_by_side(&items, double).unwrap(), doubled);
        let fails = |n: &u32| (*n != 50).then_some(()).context("fifty");
        let failure = side_by_side(&items, fails).unwrap_err();
        assert!(failure.to_string().contains("fifty"), "{failure}");
    }

    #[test]
    fn a_group_is_killed_with_what_its_leader_started() {
        let mut leader = Command::new("sh");
        let leader = leader.args(["-c", "sleep 60 & echo $!; wait"]);
        let mut leader = Process::spawn(when_idle(leader.stdout(Stdio::piped()))).unwrap();
        let mut output = leader.child().stdout.take().unwrap();
        let mut byte = [0];
        while std::io::Read::read(&mut output, &mut byte).unwrap() == 1 && byte != *b"\n" {}
        let begun = Instant::now();
        leader.kill_group();
        // The end of the output comes when no process is left that could write.
        assert_eq!(std::io::Read::read(&mut output, &mut byte).unwrap(), 0);
        assert!(begun.elapsed() < Duration::from_secs(30), "it slept on");
    }

    #[test]
    fn what_runs_when_idle_has_that_policy_and_its_children_too() {
        let script = "exec chrt -p $$";
        let mut inner = Command::new("sh");
        let said = capture(when_idle(inner.args(["-c", script]))).unwrap();
        assert!(said.contains("SCHED_IDLE"), "{said}");
    }

    #[test]
    fn a_child_does_not_outlive_whoever_started_it() {
        let start = || Process::spawn(Command::new("sleep").arg("60")).unwrap();
        let mut child = std::thread::spawn(start).join().unwrap();
        let end = child.finish_by(Instant::now() + Duration::from_secs(30));
        let why = end.unwrap_err().to_string();
        assert!(why.contains("signal: 9"), "{why}");
    }
}
