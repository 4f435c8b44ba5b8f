//! Whether threads help. Judged only with `SUCI_TEST_STRICT`, on a machine that does nothing else;
//! in short otherwise.

use super::*;
use crate::Node;
use crate::clock::Clock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;
use suci_net::memory::{Hub, Memory};
use suci_proto::types::Incarnation;
use suci_proto::{Config, ControllerChoice, Engine, Identity};

/// Size of a receive buffer of the in-memory network: everything that is recorded fits.
const BUFFER: u64 = 4 << 30;
/// Peers of each thread. More threads have more peers in all, so that each thread does the same
/// work.
const PEERS: u32 = 8;
/// Messages of each peer in a burst, over two channels. A burst fits the caches, as data does that
/// the kernel has just copied. Packets recorded by the gigabyte would measure the memory instead.
const MESSAGES: u64 = 250;
const LENGTH: usize = 1_400;

/// The least time that a measurement takes in each thread, in as many bursts as that needs.
const LASTS: Duration = Duration::from_millis(500);

/// The first bursts do not count: in them the process gets its memory. In a virtual machine the
/// first use of a page costs more than the work that is measured.
const WARM_UP: usize = 40;

fn is_strict() -> bool {
    std::env::var_os("SUCI_TEST_STRICT").is_some()
}

fn address(port: u32) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], u16::try_from(port).unwrap()))
}

/// A driver over the in-memory network, for which no limit but those of the protocol matters.
fn driver(id: u32, backend: Memory) -> Driver {
    let identity = Identity {
        node: NodeId(id),
        incarnation: Incarnation(u128::from(id) + 1),
    };
    let config = Config {
        memory: 64 << 30,
        controller: ControllerChoice::Fixed { bytes: 1 << 30 },
        ..Config::default()
    };
    let seed = [u8::try_from(id).unwrap(); 32];
    let engine = Engine::new(config, identity, seed, BUFFER, Clock.now()).unwrap();
    Driver::new(engine, Box::new(backend), Arc::default())
}

/// Keeps this thread on the processor at `index` among those that the process may use.
fn pin(index: usize) {
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: a cpu_set_t is an array of bits, of which none set is a valid value.
    let mut own: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours and has the given size.
    assert_eq!(unsafe { libc::sched_getaffinity(0, size, &raw mut own) }, 0);
    // SAFETY: libc checks the number against the size of the set.
    let is_own = |processor: &usize| unsafe { libc::CPU_ISSET(*processor, &own) };
    let all = usize::try_from(libc::CPU_SETSIZE).unwrap();
    let Some(processor) = (0..all).filter(is_own).nth(index) else {
        assert!(!is_strict(), "{} processors are needed", index + 1);
        return;
    };
    // SAFETY: as above.
    let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: libc checks the number against the size of the set.
    unsafe { libc::CPU_SET(processor, &mut one) };
    // SAFETY: the set is ours and has the given size.
    let done = unsafe { libc::sched_setaffinity(0, size, &raw const one) };
    assert_eq!(done, 0);
}

/// A thread of a node and the peers that it serves. The reading thread has recorded its own input:
/// with a socket, memory of one thread is of no concern to another either.
struct Half {
    shard: Driver,
    peers: Vec<Driver>,
}

impl Half {
    /// Makes the half of `shard`, with its part of the peers of `threads` and their sessions up. As
    /// in a node, the opening thread makes the drivers, and each thread makes what it receives
    /// with: memory that one thread allocates for two may share cache lines.
    fn new(hub: &Hub, shard: Driver, number: usize, threads: usize) -> Self {
        let mut half = Self {
            shard,
            peers: Vec::new(),
        };
        let ids = 1..=PEERS * u32::try_from(threads).unwrap();
        for id in ids.filter(|id| owner(NodeId(*id), threads) == number) {
            half.meet(id, driver(id, hub.endpoint(address(id)).unwrap()));
        }
        half
    }

    fn meet(&mut self, id: u32, mut peer: Driver) {
        let (now, shard) = (Clock.now(), &mut self.shard);
        peer.engine
            .add_peer(now, NodeId(0), address(1_000))
            .unwrap();
        shard.engine.add_peer(now, NodeId(id), address(id)).unwrap();
        peer.offer(NodeId(0), OutgoingMessage::new("up").into_outgoing())
            .unwrap();
        let mut arrived = false;
        while !arrived || !peer.is_flushed() {
            peer.run_cycle().unwrap();
            shard.run_cycle().unwrap();
            arrived |= shard.take_message().is_some();
        }
        self.peers.push(peer);
    }

    /// Everything that the peers may send without hearing from the shard.
    fn record(&mut self) {
        let payload = Bytes::from(vec![7; LENGTH]);
        for peer in &mut self.peers {
            for number in 0..MESSAGES {
                let channel = ChannelId(u32::from(number % 2 == 0));
                let draft = OutgoingMessage::new(payload.clone()).channel(channel);
                peer.offer(NodeId(0), draft.into_outgoing()).unwrap();
            }
            peer.output_now().unwrap();
            while peer.tx_incomplete {
                peer.output_now().unwrap();
            }
        }
    }

    /// The receive path: takes all of it.
    fn take(&mut self) {
        let expected = self.peers.len() as u64 * MESSAGES;
        let (mut taken, mut idle) = (0, 0_u32);
        while taken < expected {
            self.shard.run_cycle().unwrap();
            let got = std::iter::from_fn(|| self.shard.take_message()).count() as u64;
            taken += got;
            idle = if got == 0 { idle + 1 } else { 0 };
            assert!(idle < 1_000_000, "{taken} of {expected} arrived");
        }
    }

    /// Lets the peers hear that everything has arrived.
    fn settle(&mut self) {
        while self.peers.iter().any(|peer| !peer.is_flushed()) {
            self.shard.run_cycle().unwrap();
            self.peers
                .iter_mut()
                .for_each(|peer| peer.run_cycle().unwrap());
        }
        assert_eq!(self.shard.backend_counters().recv_drops, 0);
    }
}

/// Messages per second that threads take of recorded input, one thread on each of `processors`.
struct Rates {
    /// Sum of the threads' own rates, each measured while the others work. It leaves out the wait
    /// for the end of a burst, which only recording needs.
    sum: f64,
    /// The rate if all wait for the slowest in each burst.
    together: f64,
}

/// A point at which threads wait for one another.
#[derive(Default)]
struct Meeting {
    come: AtomicUsize,
    /// Number of threads that have taken bursts for long enough.
    enough: AtomicUsize,
    /// A thread panicked and will not come.
    is_off: AtomicBool,
}

impl Meeting {
    /// Waits until `all` have come, without sleeping: to wake up takes longer than a burst.
    fn meet(&self, all: usize) {
        self.come.fetch_add(1, Ordering::AcqRel);
        while self.come.load(Ordering::Acquire) < all {
            assert!(
                !self.is_off.load(Ordering::Relaxed),
                "another thread panicked"
            );
            std::hint::spin_loop();
        }
    }
}

/// Calls the meetings off when its thread panics: other threads would wait there for ever.
struct MeetingGuard<'a>([&'a Meeting; 2]);

impl Drop for MeetingGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for meeting in self.0 {
                meeting.is_off.store(true, Ordering::Relaxed);
            }
        }
    }
}

#[test]
fn a_thread_that_panics_keeps_nobody_waiting() {
    let meeting = Meeting::default();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let _attendance = MeetingGuard([&meeting, &meeting]);
            panic!("on purpose");
        });
        let waits = scope.spawn(|| meeting.meet(2));
        assert!(other.join().is_err() && waits.join().is_err());
    });
}

/// Runs bursts until each thread has taken them for this long. The threads stop together.
fn rates(processors: &[usize], lasts: Duration) -> Rates {
    let (threads, warm_up) = (processors.len(), WARM_UP * usize::from(is_strict()));
    let (start, end) = (Meeting::default(), Meeting::default());
    let spent: Vec<Vec<Duration>> = std::thread::scope(|scope| {
        let hub = Hub::new(usize::try_from(BUFFER).unwrap()).with_mtu(1_472);
        let backends = hub.group(address(1_000), threads).unwrap();
        let shards: Vec<_> = backends
            .into_iter()
            .map(|backend| driver(0, backend))
            .collect();
        let indexed = shards.into_iter().zip(processors).enumerate();
        let workers: Vec<_> = indexed
            .map(|(index, (shard, processor))| {
                let (start, end, hub) = (&start, &end, hub.clone());
                scope.spawn(move || {
                    let _attendance = MeetingGuard([start, end]);
                    pin(*processor);
                    let mut half = Half::new(&hub, shard, index, threads);
                    let (mut all, mut lasted) = (Vec::new(), Duration::ZERO);
                    for number in 1.. {
                        half.record();
                        start.meet(threads * number);
                        let begun = Instant::now();
                        half.take();
                        let spent = begun.elapsed();
                        if number > warm_up {
                            let before = lasted;
                            lasted += spent;
                            all.push(spent);
                            let enough = before < lasts && lasted >= lasts;
                            end.enough.fetch_add(enough.into(), Ordering::Relaxed);
                        }
                        end.meet(threads * number);
                        // No thread raises the count before the next burst, at whose start all meet
                        // again.
                        let is_enough = end.enough.load(Ordering::Relaxed) == threads;
                        half.settle();
                        if is_enough {
                            break;
                        }
                    }
                    all
                })
            })
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join().unwrap());
        joined.collect()
    });
    let own: Vec<Duration> = spent.iter().map(|spent| spent.iter().sum()).collect();
    let bursts = spent.first().map_or(0, Vec::len);
    let slowest = |burst: usize| spent.iter().map(|spent| spent[burst]).max().unwrap();
    let together: Duration = (0..bursts).map(slowest).sum();
    let taken = (u64::from(PEERS) * MESSAGES * bursts as u64) as f64;
    Rates {
        sum: own.iter().map(|own| taken / own.as_secs_f64()).sum(),
        together: threads as f64 * taken / together.as_secs_f64(),
    }
}

/// Arithmetic per second of a thread on each of `processors`, the same for each: the machine's own
/// scaling.
fn bare_rate(processors: &[usize]) -> f64 {
    let seconds = |processor: usize| {
        pin(processor);
        let (begun, mut state) = (Instant::now(), processor as u64 + 1);
        for _ in 0..50_000_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        std::hint::black_box(state);
        begun.elapsed().as_secs_f64()
    };
    std::thread::scope(|scope| {
        let workers = processors
            .iter()
            .map(|at| scope.spawn(move || seconds(*at)));
        let workers: Vec<_> = workers.collect();
        let rates = workers
            .into_iter()
            .map(|worker| 1.0 / worker.join().unwrap());
        rates.sum()
    })
}

/// Time of all processors together, in ticks since boot: busy, idle, and taken by the hypervisor.
#[derive(Clone, Copy)]
struct Ticks {
    busy: u64,
    idle: u64,
    stolen: u64,
}

impl Ticks {
    fn now() -> Self {
        let all = std::fs::read_to_string("/proc/stat").unwrap();
        let times = all.lines().next().unwrap().split_ascii_whitespace().skip(1);
        let times: Vec<u64> = times.map(|ticks| ticks.parse().unwrap()).collect();
        let idle = times[3] + times[4];
        Self {
            busy: times.iter().take(8).sum::<u64>() - idle,
            idle,
            stolen: times[7],
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            // The time of waiting for input, counted as idle, may go back (proc_stat(5)).
            busy: self.busy.saturating_sub(before.busy),
            idle: self.idle.saturating_sub(before.idle),
            stolen: self.stolen.saturating_sub(before.stolen),
        }
    }
}

/// Waits until nothing else runs here: under a twentieth of the processors' time.
fn await_idle() {
    for _ in 0..100 {
        let before = Ticks::now();
        std::thread::sleep(Duration::from_millis(200));
        let Ticks { busy, idle, .. } = Ticks::now().since(before);
        if busy * 19 <= idle {
            return;
        }
    }
    panic!("the machine is not idle");
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

#[test]
fn the_receive_path_alone_scales_with_threads() {
    let (rounds, lasts) = if is_strict() {
        (9, LASTS)
    } else {
        (1, Duration::from_nanos(1))
    };
    let (mut ratios, mut together, mut bare, mut alone) = (vec![], vec![], vec![], vec![]);
    let before = Ticks::now();
    for round in 0..rounds {
        if is_strict() {
            await_idle();
        }
        // The order alternates. Processors need not be equally fast: one thread is measured on
        // either.
        let both_first = round % 2 == 1;
        let early = both_first.then(|| rates(&[0, 1], lasts));
        let ones = [0, 1].map(|processor| rates(&[processor], lasts).sum);
        let one = (ones[0] + ones[1]) / 2.0;
        let two = early.unwrap_or_else(|| rates(&[0, 1], lasts));
        ratios.push(two.sum / one);
        together.push(two.together / one);
        alone.push(one / 1e6);
        bare.push(2.0 * bare_rate(&[0, 1]) / (bare_rate(&[0]) + bare_rate(&[1])));
    }
    let Ticks { busy, stolen, .. } = Ticks::now().since(before);
    let all: Vec<_> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    let [ratio, together, bare, alone] = [ratios, together, bare, alone].map(median);
    println!(
        "figure: 2 threads {ratio:.2} x 1 (of {}; {together:.2} when both wait for the slower after each burst; arithmetic \
         alone {bare:.2}; the hypervisor took {:.1} % of the time in use), 1 thread takes {alone:.2} million messages of \
         {LENGTH} B per second",
        all.join(" "),
        100.0 * stolen as f64 / busy.max(1) as f64,
    );
    assert!(
        !is_strict() || ratio >= 1.9,
        "{ratio:.2} of 1.9: {}",
        all.join(" ")
    );
}

/// Messages per second that two senders get through to a node of `threads` threads, over loopback.
fn rate_of_two_senders(threads: usize, length: usize, time: Duration) -> f64 {
    let open = |id, threads| {
        let builder = Node::builder().id(NodeId(id));
        builder.statistics(false).open_threads(threads).unwrap()
    };
    let receiver = open(0, threads);
    let senders = [open(1, 1), open(2, 1)];
    for sender in &senders {
        receiver.add_peer(sender.id(), sender.local_addr()).unwrap();
        sender
            .add_peer(receiver.id(), receiver.local_addr())
            .unwrap();
    }
    let end = Instant::now() + time;
    let payload = Bytes::from(vec![7; length]);
    let mut taken = 0_u64;
    std::thread::scope(|scope| {
        for sender in &senders {
            let payload = payload.clone();
            scope.spawn(move || {
                while Instant::now() < end {
                    let _ =
                        sender.send_timeout(NodeId(0), payload.clone(), Duration::from_millis(50));
                }
            });
        }
        while Instant::now() < end {
            let message = receiver.recv_timeout(Duration::from_millis(50)).unwrap();
            taken += u64::from(message.is_some());
        }
    });
    senders
        .iter()
        .for_each(|sender| drop(sender.peer(NodeId(0)).reset()));
    taken as f64 / time.as_secs_f64()
}

#[test]
fn two_senders_to_one_and_two_threads() {
    let (rounds, time) = match is_strict() {
        true => (5, Duration::from_secs(1)),
        false => (1, Duration::from_millis(50)),
    };
    for (name, length) in [("64 B", 64), ("64 KiB", 64 << 10)] {
        let (mut ones, mut twos) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            if is_strict() {
                await_idle();
            }
            ones.push(rate_of_two_senders(1, length, time));
            twos.push(rate_of_two_senders(2, length, time));
        }
        let ratios = ones.iter().zip(&twos).map(|(one, two)| two / one).collect();
        let (one, two, ratio) = (median(ones), median(twos), median(ratios));
        println!("figure: {name}: {one:.0} and {two:.0} messages per second, {ratio:.2} x");
    }
}
