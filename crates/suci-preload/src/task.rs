//! Work that any thread may be asked to do: the reactor's, the node's, and those of the program.

use crate::interrupt;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

/// Work that is done when something changed.
pub(crate) trait Task: Send + Sync {
    /// Does what can be done without waiting.
    fn step(self: Arc<Self>);
}

type Queue = VecDeque<Arc<dyn Task>>;

thread_local! {
    /// Tasks that this thread runs, while it does. Functions that run at the end of a thread or of
    /// the process use it, too, so it has no destructor. It owns nothing when no task runs.
    static QUEUE: RefCell<ManuallyDrop<Option<Queue>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

/// Runs a task. If this thread runs one already, which woke this one, it runs after that one.
pub(crate) fn run(task: Arc<dyn Task>) {
    interrupt::uncancelled(|| run_uncancelled(task));
}

fn run_uncancelled(task: Arc<dyn Task>) {
    let is_nested = QUEUE.with_borrow_mut(|queue| match &mut **queue {
        Some(queue) => {
            queue.push_back(task);
            true
        }
        none => {
            *none = Some(VecDeque::from([task]));
            false
        }
    });
    if is_nested {
        return;
    }
    while let Some(task) = QUEUE.with_borrow_mut(|queue| queue.as_mut()?.pop_front()) {
        task.step();
    }
    drop(QUEUE.with_borrow_mut(|queue| queue.take()));
}

/// A state that one thread at a time works on. Others do not wait: the one that has it goes on.
#[derive(Debug)]
pub(crate) struct Serial<T> {
    state: Mutex<T>,
    again: AtomicBool,
}

impl<T> Serial<T> {
    pub(crate) const fn new(state: T) -> Self {
        Self {
            state: Mutex::new(state),
            again: AtomicBool::new(false),
        }
    }

    /// Uses the state, then calls `step` if another thread wanted that meanwhile.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R, step: impl FnMut(&mut T)) -> R {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work(&mut state);
        drop(state);
        fence(Ordering::SeqCst);
        if self.again.load(Ordering::Relaxed) {
            self.run(step);
        }
        result
    }

    /// Calls `step`, or has the thread do so that has the state.
    pub(crate) fn run(&self, mut step: impl FnMut(&mut T)) {
        self.again.store(true, Ordering::Relaxed);
        // Either this thread finds the state free, or the one that frees it finds the mark.
        fence(Ordering::SeqCst);
        while self.again.load(Ordering::Relaxed) {
            let Ok(mut state) = self.state.try_lock() else {
                return;
            };
            while self.again.swap(false, Ordering::AcqRel) {
                step(&mut state);
            }
            drop(state);
            fence(Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn no_call_is_lost() {
        const EACH: usize = 20_000;
        let (wanted, seen) = (AtomicUsize::new(0), Serial::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        wanted.fetch_add(1, Ordering::Relaxed);
                        seen.run(|seen| *seen = wanted.load(Ordering::Relaxed));
                    }
                });
            }
        });
        assert_eq!(seen.state.into_inner().unwrap(), 4 * EACH);
    }

    struct Nest(AtomicUsize, usize);

    impl Task for Nest {
        fn step(self: Arc<Self>) {
            let depth = self.0.fetch_add(1, Ordering::Relaxed);
            if depth < self.1 {
                run(Arc::<Self>::clone(&self));
                assert_eq!(self.0.load(Ordering::Relaxed), depth + 1, "ran at once");
            }
        }
    }

    #[test]
    fn tasks_that_wake_each_other_do_not_nest() {
        let nest = Arc::new(Nest(AtomicUsize::new(0), 100_000));
        run(Arc::<Nest>::clone(&nest));
        assert_eq!(nest.0.load(Ordering::Relaxed), 100_001);
    }
}
