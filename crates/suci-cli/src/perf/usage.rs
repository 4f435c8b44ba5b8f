//! Processor time and processors.

use std::time::Instant;

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::error::{Context, Failure, Result};

/// The time that a process spent, all its threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Spent {
    /// Seconds that passed.
    pub(super) wall: f64,
    /// Processor seconds, in the program and in the kernel.
    pub(super) cpu: f64,
    /// Seconds of them in the kernel.
    pub(super) kernel: f64,
}

impl Spent {
    /// Adds the resources of another process, or of the same one in another round.
    pub(super) fn add(&mut self, other: Self) {
        self.wall += other.wall;
        self.cpu += other.cpu;
        self.kernel += other.kernel;
    }
}

/// A point in time from which the resources of this process are counted.
pub(super) struct Meter {
    begun: Instant,
    cpu: f64,
    kernel: f64,
}

impl Meter {
    pub(super) fn begin() -> Self {
        let (cpu, kernel) = (cpu_seconds(), kernel_seconds());
        Self {
            begun: Instant::now(),
            cpu,
            kernel,
        }
    }

    pub(super) fn spent(&self) -> Spent {
        let wall = self.begun.elapsed().as_secs_f64();
        let cpu = cpu_seconds() - self.cpu;
        // The kernel divides the time by samples, and corrects earlier ones: never more than all of
        // it, nor less than nothing.
        let kernel = (kernel_seconds() - self.kernel).clamp(0.0, cpu);
        Spent { wall, cpu, kernel }
    }
}

/// Processor seconds that this process has used, all threads.
#[expect(
    clippy::cast_precision_loss,
    reason = "seconds of processor time stay far below 2^52"
)]
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Seconds of the process in the kernel.
#[expect(
    clippy::cast_precision_loss,
    reason = "seconds of processor time stay far below 2^52"
)]
fn kernel_seconds() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the kernel writes a whole rusage there.
    let done = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    if done != 0 {
        // For this process it cannot fail.
        return 0.0;
    }
    // SAFETY: the call succeeded, so it is written.
    let time = unsafe { usage.assume_init() }.ru_stime;
    time.tv_sec as f64 + time.tv_usec as f64 * 1e-6
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn cpu_time_and_waiting_time_are_counted_apart() {
        let meter = Meter::begin();
        // Other tests of this process only add to the resources used.
        while meter.spent().cpu < 0.02 {
            std::hint::spin_loop();
        }
        std::thread::sleep(Duration::from_millis(20));
        let spent = meter.spent();
        assert!(spent.cpu >= 0.02, "{spent:?}");
        assert!(spent.wall >= 0.02, "{spent:?}");
        assert!((0.0..=spent.cpu).contains(&spent.kernel), "{spent:?}");
    }

    #[test]
    fn system_calls_are_spent_in_the_kernel() {
        let meter = Meter::begin();
        let zero = std::fs::File::open("/dev/zero").unwrap();
        let mut buffer = vec![0; 1 << 20];
        let end = Instant::now() + Duration::from_secs(20);
        while meter.spent().kernel < 0.02 {
            std::io::Read::read_exact(&mut &zero, &mut buffer).unwrap();
            assert!(Instant::now() < end, "{:?}", meter.spent());
        }
    }
}
