//! Running seeds: safety first, with faults throughout; then liveness, with faults stopped.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use suci_proto::time::Instant;

use crate::options::Options;
use crate::oracle::{Kind, Violation};
use crate::profiles::{self, Profile};
use crate::report::Tally;
use crate::world::{Failure, World};

/// The result of one seed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The profile that it ran.
    pub profile: &'static str,
    /// Nodes.
    pub nodes: usize,
    /// Its numbers.
    pub tally: Tally,
    /// Equal for equal runs.
    pub trace: u64,
    /// The failure, if there was one.
    pub failure: Option<Failure>,
}

/// Runs one seed.
#[must_use]
pub fn run_seed(seed: u64, profile: Profile, nodes: Option<usize>, print: bool) -> Outcome {
    run(profiles::options(seed, profile, nodes), print)
}

/// Runs the options: faults, then none, then the final checks.
#[must_use]
pub fn run(options: Options, print: bool) -> Outcome {
    let (seed, profile, nodes) = (options.seed, options.profile, options.nodes);
    let mut world = World::new(options, print);
    let result = guarded(&mut world, |world| {
        world.run_until(Instant::ZERO + world.options.faults_for)?;
        world.mend();
        world.settle()
    });
    let result = result.and_then(|()| world.check_sealing());
    world.tally.handshakes = world.ledger.handshakes();
    world.tally.phases = world.ledger.phases();
    let sockets = world.sockets.lock().counts();
    (world.tally.connections, world.tally.connections_failed) = sockets;
    world.tally.matched = world.matching.lock().received();
    world.tally.messages = world.oracle.delivered();
    world.tally.accepted = world.oracle.accepted_count();
    world.tally.bytes = world.oracle.bytes();
    world.tally.ended = world.oracle.ended();
    world.tally.contacts = world.oracle.contacts();
    world.tally.withdrawn = world.oracle.withdrawn();
    world.tally.virtual_ms = world.now.as_nanos() / 1_000_000;
    let trace = world.trace.hash();
    Outcome {
        seed,
        profile,
        nodes,
        tally: world.tally,
        trace,
        failure: result.err(),
    }
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Calls `act`; a panic of the engine is a failure like any other.
fn guarded(
    world: &mut World,
    act: impl FnOnce(&mut World) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let result = panic::catch_unwind(AssertUnwindSafe(|| act(world)));
    result.unwrap_or_else(|payload| {
        let said = payload
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| payload.downcast_ref::<String>().cloned());
        let located = PANIC.with(|text| text.borrow_mut().take());
        let text = located.or(said).unwrap_or_else(|| "panic".into());
        Err(Failure {
            at: world.now,
            violation: Violation {
                kind: Kind::Panic,
                text,
            },
        })
    })
}

/// Keeps panics off the terminal: they are reported with their seed.
pub fn quiet_panics() {
    panic::set_hook(Box::new(|info| {
        PANIC.with(|text| *text.borrow_mut() = Some(info.to_string()));
    }));
}

/// The seeds to run, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// First seed.
    pub from: u64,
    /// One past the last.
    pub to: u64,
    /// Kind of run.
    pub profile: Profile,
    /// Number of nodes, if the seed does not choose.
    pub nodes: Option<usize>,
    /// Seeds at once.
    pub jobs: NonZeroUsize,
    /// Stop after the first failure.
    pub stop: bool,
    /// Print traces.
    pub print: bool,
}

/// Runs all seeds of a plan; `each` sees the outcomes in the order of the seeds, whatever the order
/// in which threads finish. Returns the sum and the number of failures.
pub fn run_plan(plan: &Plan, each: impl FnMut(&Outcome) + Send) -> (Tally, u64) {
    let next = AtomicU64::new(plan.from);
    let stopped = AtomicBool::new(false);
    let ordered = Mutex::new(OrderedOutcomes {
        due: plan.from,
        held: BTreeMap::new(),
        each,
        tally: Tally::default(),
        failed: 0,
    });
    thread::scope(|scope| {
        for _ in 0..plan.jobs.get() {
            scope.spawn(|| {
                while !stopped.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= plan.to {
                        return;
                    }
                    let outcome = run_seed(seed, plan.profile, plan.nodes, plan.print);
                    if outcome.failure.is_some() && plan.stop {
                        stopped.store(true, Ordering::Relaxed);
                    }
                    if let Ok(mut ordered) = ordered.lock() {
                        ordered.add(outcome);
                    }
                }
            });
        }
    });
    ordered
        .into_inner()
        .map_or((Tally::default(), 0), |mut ordered| {
            ordered.flush();
            (ordered.tally, ordered.failed)
        })
}

/// Puts outcomes back in order.
struct OrderedOutcomes<F> {
    due: u64,
    held: BTreeMap<u64, Outcome>,
    each: F,
    tally: Tally,
    failed: u64,
}

impl<F: FnMut(&Outcome)> OrderedOutcomes<F> {
    fn add(&mut self, outcome: Outcome) {
        self.held.insert(outcome.seed, outcome);
        while let Some(outcome) = self.held.remove(&self.due) {
            self.due += 1;
            self.tell(&outcome);
        }
    }

    fn flush(&mut self) {
        for outcome in core::mem::take(&mut self.held).into_values() {
            self.tell(&outcome);
        }
    }

    fn tell(&mut self, outcome: &Outcome) {
        self.tally.add(&outcome.tally);
        self.failed += u64::from(outcome.failure.is_some());
        (self.each)(outcome);
    }
}
