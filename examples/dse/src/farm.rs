//! Tasks that processes take when they are ready: dynamic distribution.
//!
//! Process 0 hands out tasks and computes as well; it looks for requests while it computes.

use std::collections::VecDeque;

use suci::Bytes;

use crate::process::Process;
use crate::transport::{Result, Tag};

const TASK: Tag = Tag(10);
const RESULT: Tag = Tag(11);

/// The tasks, as process 0 sees them.
pub(crate) trait Tasks {
    /// The next task. `None` may change after another result.
    fn next(&mut self) -> Option<Bytes>;

    /// Takes the result of a task.
    fn take(&mut self, result: &[u8]) -> Result<()>;
}

/// A long computation calls this from time to time.
pub(crate) type Tick<'a> = &'a mut dyn FnMut() -> Result<()>;

/// Computes the result of a task.
pub(crate) type Compute<'a> = &'a dyn Fn(&[u8], Tick<'_>) -> Result<Bytes>;

/// Process 0: has all tasks computed.
pub(crate) fn hand_out(
    process: &mut Process,
    ready: &mut Ready,
    tasks: &mut dyn Tasks,
    compute: Compute<'_>,
) -> Result<()> {
    loop {
        serve(process, ready, tasks)?;
        if let Some(task) = tasks.next() {
            let result = compute(&task, &mut || serve(process, ready, tasks))?;
            tasks.take(&result)?;
        } else if ready.running > 0 {
            let message = process.recv(None, RESULT)?;
            ready.running -= 1;
            ready.places.push_back(message.from);
            tasks.take(&message.payload)?;
        } else {
            return Ok(());
        }
    }
}

/// Places for tasks at the other processes.
pub(crate) struct Ready {
    /// A process for each place that is free.
    places: VecDeque<usize>,
    /// Tasks at other processes.
    running: usize,
}

impl Ready {
    /// Each of the others has this many places. The second one spares it the wait for its next
    /// task.
    pub(crate) fn new(process: &Process, places: usize) -> Self {
        let others = 1..process.size();
        Self {
            places: std::iter::repeat_n(others, places).flatten().collect(),
            running: 0,
        }
    }
}

/// Takes results, and fills free places.
fn serve(process: &mut Process, ready: &mut Ready, tasks: &mut dyn Tasks) -> Result<()> {
    while let Some(message) = process.try_recv(RESULT)? {
        ready.running -= 1;
        ready.places.push_back(message.from);
        tasks.take(&message.payload)?;
    }
    while let Some(&to) = ready.places.front() {
        let Some(task) = tasks.next() else { break };
        process.send(to, TASK, task)?;
        ready.places.pop_front();
        ready.running += 1;
    }
    Ok(())
}

/// Process 0: tells the others that there will be no more tasks.
pub(crate) fn finish(process: &mut Process) -> Result<()> {
    for to in 1..process.size() {
        process.send(to, TASK, Bytes::new())?;
    }
    Ok(())
}

/// The other processes: computes tasks until there are no more.
pub(crate) fn work(process: &mut Process, compute: Compute<'_>) -> Result<()> {
    loop {
        let task = process.recv_from(0, TASK)?;
        if task.is_empty() {
            return Ok(());
        }
        let result = compute(&task, &mut || Ok(()))?;
        process.send(0, RESULT, result)?;
    }
}
