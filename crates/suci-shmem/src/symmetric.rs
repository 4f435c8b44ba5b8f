//! The interface for programs in Rust.

use crate::fabric::Place;
use crate::fatal;
use crate::heap::ALIGNMENT;
use crate::runtime::{Runtime, TEAM_WORLD, init, runtime};
use crate::wait::until;
use std::fmt;
use std::marker::PhantomData;
use suci::group::{Combination, Element};
use suci::remote::{AtomicOp, Width};

/// The processes of a program, of which this is one.
///
/// The calls are those of OpenSHMEM, with its meaning: all processes begin, allocate, free and
/// combine in the same order. As in C, a call that fails prints a message and ends all processes:
/// it names memory or a process that does not exist, or a process died.
///
/// ```
/// use sma::Shmem;
///
/// let shmem = Shmem::init();
/// let next = (shmem.my_pe() + 1) % shmem.n_pes();
/// let ring = shmem.allocate::<u64>(8);
/// ring.put(next, 0, &[7, shmem.my_pe() as u64]);
/// ring.fetch_add(0, 2, 1);
/// shmem.barrier_all();
/// let mut values = [0; 3];
/// ring.get(shmem.my_pe(), 0, &mut values);
/// assert_eq!(values[0], 7);
/// shmem.free(ring);
/// ```
#[derive(Clone, Copy)]
pub struct Shmem {
    runtime: &'static Runtime,
}

impl fmt::Debug for Shmem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shmem")
            .field("my_pe", &self.my_pe())
            .field("n_pes", &self.n_pes())
            .finish()
    }
}

impl Shmem {
    /// Begins, with the processes that `suci run` started, or alone. Blocks until all do so; later
    /// calls return at once. Threads may share the value.
    #[must_use]
    pub fn init() -> Self {
        const MULTIPLE: i32 = 3;
        init(MULTIPLE);
        Self { runtime: runtime() }
    }

    /// This process's number, from 0.
    #[must_use]
    pub fn my_pe(&self) -> usize {
        self.runtime.fabric.me
    }

    /// The number of processes.
    #[must_use]
    pub fn n_pes(&self) -> usize {
        self.runtime.fabric.size
    }

    /// Allocates `length` zeros in each process. Blocks until all do so. Ends the program if the
    /// heap has no room; the variable `SHMEM_SYMMETRIC_SIZE` gives it more.
    #[must_use]
    pub fn allocate<T: Element>(&self, length: usize) -> Symmetric<T> {
        let bytes = length.saturating_mul(T::SIZE);
        let first = self.runtime.allocate(bytes.max(1), ALIGNMENT);
        if first.is_null() {
            fatal!("no room for {bytes} bytes in the heap: set SHMEM_SYMMETRIC_SIZE to more");
        }
        let memory = Symmetric {
            runtime: self.runtime,
            place: self.runtime.fabric.place_of(first.addr(), bytes),
            length,
            element: PhantomData,
        };
        let zeros = vec![0; bytes];
        self.runtime.fabric.write(memory.place, 0, &zeros);
        self.barrier_all();
        memory
    }

    /// Frees memory in each process. Blocks until all do so.
    pub fn free<T>(&self, memory: Symmetric<T>) {
        let first = self.runtime.fabric.pointer(memory.place);
        self.runtime.free(first);
    }

    /// Waits until all operations of this process are complete, and until all processes call it.
    pub fn barrier_all(&self) {
        self.runtime.barrier_all();
    }

    /// Waits until all operations of this process are complete.
    pub fn quiet(&self) {
        self.runtime.fabric.quiet();
    }

    /// Orders operations at each process: later ones are not visible before earlier ones. Does not
    /// wait.
    pub fn fence(&self) {
        self.runtime.fabric.fence();
    }

    /// Combines the elements at equal places of all processes' data; all get the result.
    pub fn reduce<T: Element>(&self, data: &mut [T], operation: impl Combination<T>) {
        let team = self.runtime.find_team(TEAM_WORLD);
        if let Some(team) = team.filter(|team| team.members.size() > 1) {
            team.run(self.runtime.node(), |group, node| {
                group.allreduce(node, data, operation)
            });
        }
    }
}

/// Elements in the symmetric heap of each process.
pub struct Symmetric<T> {
    runtime: &'static Runtime,
    place: Place,
    length: usize,
    element: PhantomData<T>,
}

impl<T> fmt::Debug for Symmetric<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Symmetric")
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

impl<T: Element> Symmetric<T> {
    /// The number of elements in each process.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The offset in bytes of `count` elements from `at` on. Ends the program if there are none.
    fn offset(&self, at: usize, count: usize) -> usize {
        match at.checked_add(count) {
            Some(end) if end <= self.length => at * T::SIZE,
            _ => fatal!(
                "{count} elements at {at} of {}: stay within them",
                self.length
            ),
        }
    }

    /// Copies elements to the place `at` of the process `pe`. Returns at once; `quiet` and barriers
    /// wait until they are there.
    pub fn put(&self, pe: usize, at: usize, elements: &[T]) {
        let offset = self.offset(at, elements.len());
        let mut bytes = vec![0; elements.len() * T::SIZE];
        for (place, element) in bytes.chunks_exact_mut(T::SIZE).zip(elements) {
            element.write(place);
        }
        let fabric = &self.runtime.fabric;
        match pe == fabric.me {
            true => fabric.write(self.place, offset, &bytes),
            false => fabric.put_at(pe, self.place, offset, bytes),
        }
    }

    /// Copies elements from the place `at` of the process `pe`. Blocks until they are here.
    pub fn get(&self, pe: usize, at: usize, elements: &mut [T]) {
        let offset = self.offset(at, elements.len());
        let mut bytes = vec![0; elements.len() * T::SIZE];
        let fabric = &self.runtime.fabric;
        match pe == fabric.me {
            true => fabric.read(self.place, offset, &mut bytes),
            false => fabric.get_at(pe, self.place, offset, &mut bytes),
        }
        for (element, bytes) in elements.iter_mut().zip(bytes.chunks_exact(T::SIZE)) {
            *element = T::read(bytes);
        }
    }

    /// Blocks until the element `at` of this process fulfils a condition, and returns it.
    pub fn wait_until(&self, at: usize, condition: impl Fn(&T) -> bool) -> T {
        let offset = self.offset(at, 1);
        let mut bytes = vec![0; T::SIZE];
        until(|| {
            self.runtime.fabric.read(self.place, offset, &mut bytes);
            Some(T::read(&bytes)).filter(&condition)
        })
    }
}

impl Symmetric<u64> {
    /// Applies an atomic operation to the element `at` of `pe`. Blocks until the value from before
    /// is here, and returns it.
    pub fn fetch_atomic(&self, pe: usize, at: usize, op: AtomicOp) -> u64 {
        let offset = self.offset(at, 1);
        let fabric = &self.runtime.fabric;
        fabric.fetch_atomic_at(pe, self.place, offset, Width::Bits64, op)
    }

    /// Adds to the element `at` of `pe`. Returns it as it was before.
    pub fn fetch_add(&self, pe: usize, at: usize, value: u64) -> u64 {
        self.fetch_atomic(pe, at, AtomicOp::Add(value))
    }
}
