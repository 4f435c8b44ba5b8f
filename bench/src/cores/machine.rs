//! Processors, cache lines and locks in virtual time.
//!
//! Each thread has a processor of its own, and does one step after the other. Events are handled in
//! the order of their times, those of one time in the order in which they were made, so a run is
//! the same each time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::costs::Costs;

/// Picoseconds.
pub(super) type Time = u64;

/// Returns nanoseconds as time.
pub(super) fn time(nanoseconds: f64) -> Time {
    (nanoseconds * 1e3).round() as Time
}

/// One step of a thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// The processor works on what is its own.
    Work(Time),
    /// It writes a line that others write, too: this line comes from its last writer, to one
    /// processor at a time.
    Write(usize),
    /// As `Write`, by an atomic operation, which costs as much as a free lock.
    Count(usize),
    /// It takes a lock, and waits in order if another one has it.
    Lock(usize),
    Unlock(usize),
    /// The design changes its state in no time: it takes a packet from a port, and the like.
    Act(Act),
}

/// A change of the state of the design.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Act {
    /// Takes the first packet of a port.
    Take(usize),
    /// Passes a packet of a connection to another thread.
    Forward(usize, usize),
    /// Takes the first packet that others passed to this thread.
    Collect,
    /// A packet of a connection is done.
    Finish(usize),
}

#[derive(Clone, Copy, Debug)]
struct Line {
    writer: Option<usize>,
    free_at: Time,
}

#[derive(Debug)]
struct Lock {
    line: usize,
    holder: Option<usize>,
    queue: VecDeque<usize>,
}

/// The processors with their lines and locks.
#[derive(Debug)]
pub(super) struct Machine {
    costs: Costs,
    lines: Vec<Line>,
    locks: Vec<Lock>,
    events: BinaryHeap<Reverse<(Time, u64, usize)>>,
    made: u64,
    /// The time of the present event.
    pub(super) now: Time,
}

impl Machine {
    pub(super) fn new(costs: Costs) -> Self {
        Self {
            costs,
            lines: Vec::new(),
            locks: Vec::new(),
            events: BinaryHeap::new(),
            made: 0,
            now: 0,
        }
    }

    /// Adds a line. Returns its number.
    pub(super) fn line(&mut self) -> usize {
        self.lines.push(Line {
            writer: None,
            free_at: 0,
        });
        self.lines.len() - 1
    }

    /// Adds a lock. Returns its number.
    pub(super) fn lock(&mut self) -> usize {
        let line = self.line();
        self.locks.push(Lock {
            line,
            holder: None,
            queue: VecDeque::new(),
        });
        self.locks.len() - 1
    }

    /// A thread goes on at this time.
    pub(super) fn resume(&mut self, thread: usize, at: Time) {
        self.events.push(Reverse((at, self.made, thread)));
        self.made += 1;
    }

    /// Advances to the next event. Returns its thread, nothing if all wait.
    pub(super) fn next(&mut self) -> Option<usize> {
        let Reverse((at, _, thread)) = self.events.pop()?;
        self.now = at;
        Some(thread)
    }

    /// Begins a step of a thread, which goes on when the step is over.
    pub(super) fn begin(&mut self, thread: usize, step: Step) {
        let lock = time(self.costs.lock);
        match step {
            Step::Work(length) => self.resume(thread, self.now + length),
            Step::Write(line) => {
                let at = self.fetch(thread, line);
                self.resume(thread, at);
            }
            Step::Count(line) => {
                let at = self.fetch(thread, line);
                self.resume(thread, at + lock);
            }
            Step::Lock(lock) => self.take(thread, lock),
            Step::Unlock(lock) => self.release(thread, lock),
            // The design does it.
            Step::Act(_) => self.resume(thread, self.now),
        }
    }

    /// Brings a line to a processor. Returns when it is there.
    fn fetch(&mut self, thread: usize, line: usize) -> Time {
        let it = &mut self.lines[line];
        if it.writer == Some(thread) {
            return self.now;
        }
        let moves = it.writer.replace(thread).is_some();
        let taken = if moves { time(self.costs.line) } else { 0 };
        it.free_at = self.now.max(it.free_at) + taken;
        it.free_at
    }

    fn take(&mut self, thread: usize, lock: usize) {
        let it = &mut self.locks[lock];
        if it.holder.is_some() {
            it.queue.push_back(thread);
            return;
        }
        it.holder = Some(thread);
        let line = it.line;
        let at = self.fetch(thread, line) + time(self.costs.lock);
        self.resume(thread, at);
    }

    fn release(&mut self, thread: usize, lock: usize) {
        let it = &mut self.locks[lock];
        it.holder = it.queue.pop_front();
        if let Some(next) = it.holder {
            self.lines[it.line].writer = Some(next);
            self.resume(next, self.now + time(self.costs.line));
        }
        self.resume(thread, self.now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        lock: 1.0,
        line: 10.0,
        receive: 0.0,
        find: 0.0,
    };

    /// Runs the steps of each thread. Returns when each was done, in nanoseconds.
    fn run(machine: &mut Machine, steps: &[&[Step]]) -> Vec<Time> {
        let mut left: Vec<VecDeque<Step>> = steps
            .iter()
            .map(|it| it.iter().copied().collect())
            .collect();
        let mut done = vec![0; steps.len()];
        (0..steps.len()).for_each(|thread| machine.resume(thread, 0));
        while let Some(thread) = machine.next() {
            match left[thread].pop_front() {
                Some(step) => machine.begin(thread, step),
                None => done[thread] = machine.now / 1_000,
            }
        }
        done
    }

    #[test]
    fn a_line_goes_to_one_processor_at_a_time() {
        let mut machine = Machine::new(COSTS);
        let line = machine.line();
        let steps = [Step::Count(line), Step::Work(time(5.0)), Step::Count(line)];
        assert_eq!(run(&mut machine, &[&steps]), [7]);
        let mut machine = Machine::new(COSTS);
        let line = machine.line();
        let step: &[Step] = &[Step::Count(line)];
        assert_eq!(run(&mut machine, &[step, step, step]), [1, 11, 21]);
    }

    #[test]
    fn a_lock_serves_in_order() {
        let mut machine = Machine::new(COSTS);
        let lock = machine.lock();
        let work = Step::Work(time(5.0));
        let steps: &[Step] = &[Step::Lock(lock), work, Step::Unlock(lock)];
        assert_eq!(run(&mut machine, &[steps, steps, steps]), [6, 21, 36]);
    }
}
