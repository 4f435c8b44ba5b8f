//! Processor time and processors.

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::error::{Context, Failure, Result};

/// Processor seconds that this process has used, all threads, user and system.
#[expect(
    clippy::cast_precision_loss,
    reason = "seconds of processor time stay far below 2^52"
)]
pub(super) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Keeps this thread, and those it starts from now on, on one processor.
pub(super) fn pin(processor: usize) -> Result<()> {
    if processor >= CpuSet::MAX_CPU {
        return Err(Failure::new(format!(
            "--pin {processor}: processors have numbers below {}",
            CpuSet::MAX_CPU
        )));
    }
    let mut set = CpuSet::new();
    set.set(processor);
    let remedy = "name processors that `nproc --all` counts, from 0";
    sched_setaffinity(None, &set).context(format_args!("--pin {processor} ({remedy})"))
}
