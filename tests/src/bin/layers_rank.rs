//! One process of a measurement of one-sided and collective operations.
//!
//! `layers-rank WHAT BYTES ITERATIONS` is the process that `SUCI_ID`, `SUCI_SIZE` and `SUCI_BOOK`
//! name, unsealed. WHAT is `put` or `get` of BYTES, each complete at its target before the next
//! begins, `add` (fetch and add of 64 bits) or `atomics` (adds without a result, of which some are
//! under way at once), all by process 0 at process 1; or `barrier` or `allreduce` of BYTES of
//! doubles by all. Prints the seconds and the processor seconds of the iterations, after a tenth
//! more of them to warm up.

use std::error::Error;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use suci::group::{Group, Sum};
use suci::remote::{AtomicOp, RegionId, RemoteRegion, Rights, Width};
use suci::{Bytes, Node, NodeId, env};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The longest wait for a process that has not started yet.
const PATIENCE: Duration = Duration::from_secs(20);

const GROUP: u32 = 1;

/// Atomic operations without a result that are under way at once.
const BATCH: u32 = 64;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, bytes, iterations] = arguments.as_slice() else {
        return Err("layers-rank WHAT BYTES ITERATIONS".into());
    };
    let (bytes, iterations): (usize, u32) = (bytes.parse()?, iterations.parse()?);
    let processes = env::size()?.ok_or("SUCI_SIZE says how many processes there are")?;
    let mut node = Node::builder().allow_insecure_network().open()?;
    let members: Vec<NodeId> = (0..processes).map(NodeId).collect();
    let mut group = Group::new(&node, GROUP, &members)?;
    group.barrier(&mut node)?;
    let mut work = Work::new(what, &mut node, &mut group, bytes)?;
    work.repeat(&mut node, &mut group, iterations / 10)?;
    let (begun, cpu) = (Instant::now(), processor());
    work.repeat(&mut node, &mut group, iterations)?;
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), processor() - cpu);
    println!("{{\"seconds\":{seconds:.9},\"cpu_seconds\":{cpu:.9}}}");
    group.barrier(&mut node)?;
    Ok(node.close(PATIENCE)?)
}

fn processor() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// The operation of each iteration.
enum Work {
    Put(RemoteRegion, Bytes),
    Get(RemoteRegion, Vec<u8>),
    Add(RemoteRegion),
    Atomics(RemoteRegion),
    /// Another process uses this one's memory, until its barrier.
    Serve(#[expect(dead_code, reason = "it is there while this lives")] suci::remote::Region),
    Barrier,
    Allreduce(Vec<f64>),
}

impl Work {
    fn new(what: &str, node: &mut Node, group: &mut Group, bytes: usize) -> Result<Self> {
        match what {
            "barrier" => return Ok(Self::Barrier),
            "allreduce" => return Ok(Self::Allreduce(vec![1.0; bytes.div_ceil(8).max(1)])),
            "put" | "get" | "add" | "atomics" => {}
            _ => return Err("WHAT is put, get, add, atomics, barrier or allreduce".into()),
        }
        let rights = Rights::READ | Rights::WRITE | Rights::ATOMIC;
        let region = node.allocate_region(bytes.max(8), rights)?;
        // All learn the handle of process 1.
        let own = region.handle();
        let mut handle = [u64::from(own.region.0), own.key];
        group.broadcast(node, 1, &mut handle)?;
        let [number, key] = handle;
        let region_of_other = RemoteRegion {
            node: NodeId(1),
            region: RegionId(u32::try_from(number)?),
            key,
        };
        if node.id() != NodeId(0) {
            return Ok(Self::Serve(region));
        }
        Ok(match what {
            "put" => Self::Put(region_of_other, vec![7; bytes].into()),
            "get" => Self::Get(region_of_other, vec![0; bytes]),
            "atomics" => Self::Atomics(region_of_other),
            _ => Self::Add(region_of_other),
        })
    }

    fn repeat(&mut self, node: &mut Node, group: &mut Group, times: u32) -> Result<()> {
        for time in 0..times {
            match self {
                Self::Put(to, data) => {
                    let remote = node.remote();
                    remote.put(to, 0, data.clone())?;
                    remote.quiet()?;
                }
                Self::Get(from, into) => node.remote().get(from, 0, into)?,
                Self::Add(at) => _ = node.remote().fetch_add(at, 0, 1)?,
                Self::Atomics(at) => {
                    let (remote, one) = (node.remote(), AtomicOp::Add(1));
                    remote.atomic(at, 0, Width::Bits64, one)?;
                    if time % BATCH == BATCH - 1 {
                        remote.quiet()?;
                    }
                }
                Self::Serve(_) if time > 0 => break,
                Self::Serve(_) => {}
                Self::Barrier => group.barrier(node)?,
                Self::Allreduce(numbers) => {
                    numbers.fill(1.0);
                    group.allreduce(node, numbers, Sum)?;
                    if numbers.first() != Some(&(group.members().len() as f64)) {
                        return Err("the sum is wrong".into());
                    }
                }
            }
        }
        node.remote().quiet()?;
        // A process that serves waits here.
        Ok(group.barrier(node)?)
    }
}
