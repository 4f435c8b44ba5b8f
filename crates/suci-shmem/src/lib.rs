//! OpenSHMEM 1.5: symmetric memory that all processes put to and get from, atomic operations,
//! collective operations of teams. On [`SharedNode`](suci::SharedNode), whose thread applies the
//! operations of others while the program computes.
//!
//! The interface is that of the specification, in C: `include/shmem.h`; this crate is `libsma.so`.
//! For programs in Rust there is [`Shmem`].
//!
//! | part | content |
//! |---|---|
//! | `c` | the functions of C |
//! | `dse` | DSE's interface in C: processes and global memory |
//! | `symmetric` | the interface for Rust |
//! | `runtime` | the one runtime of a process: memory, teams, contexts |
//! | `fabric` | memory of all processes: puts, gets, atomic operations |
//! | `pending` | non-blocking operations, until the next quiet |
//! | `domain` | which processes can share memory |
//! | `memory`, `heap` | this process's symmetric memory; its blocks |
//! | `team` | teams and active sets |
//! | `numbers` | element types that C has and Rust has not |
//! | `wait` | waits for a change of memory |
//! | `lock` | locks |
//! | `settings` | environment variables |
//! | `arguments` | checks of what C passes |
//! | `end` | ends of processes |

mod arguments;
mod c;
mod domain;
mod dse;
mod end;
mod fabric;
mod heap;
mod lock;
mod memory;
mod numbers;
mod pending;
mod runtime;
mod settings;
mod symmetric;
mod team;
mod wait;

pub use suci::group;
pub use suci::remote::AtomicOp;
pub use symmetric::{Shmem, Symmetric};
