//! Processes put to their neighbours, count at process 0, and add up their numbers:
//! `suci run -n 4 target/debug/examples/ring`.

use sma::Shmem;
use sma::group::Sum;

fn main() {
    let shmem = Shmem::init();
    let (me, n) = (shmem.my_pe(), shmem.n_pes());
    let memory = shmem.allocate::<u64>(16);

    // Each tells the next one its number, and waits for that of the one before.
    memory.put((me + 1) % n, 0, &[me as u64 + 1]);
    let before = memory.wait_until(0, |number| *number != 0) - 1;
    assert_eq!(before, ((me + n - 1) % n) as u64);

    // All count at process 0.
    for _ in 0..100 {
        memory.fetch_add(0, 1, 1);
    }
    shmem.barrier_all();
    let mut count = [0];
    memory.get(0, 1, &mut count);
    assert_eq!(count, [100 * n as u64]);

    let mut sums = [me as u64, 1];
    shmem.reduce(&mut sums, Sum);
    assert_eq!(sums, [(n * (n - 1) / 2) as u64, n as u64]);
    if me == 0 {
        println!("{n} processes counted to {}", count[0]);
    }
    shmem.free(memory);
}
