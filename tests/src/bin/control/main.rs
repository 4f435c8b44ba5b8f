//! Measures how long a small question to a parameter server waits while bulk moves.
//!
//! Three workers send gradients of 4 MiB to a server, which sends each of them 64 MiB of
//! parameters, again and again. A fifth process asks the server a question every millisecond. The
//! contenders take turns: a `Node`, a `SharedNode`, TCP with two sockets for each process, and
//! `spin`, which has no bulk: its four processes compute, and the server looks for questions all
//! the time. `spin` shows the cost of the scheduler alone for a server of one thread. Every other
//! turn has no questions, which gives the rate of bulk alone.
//!
//! `control [ROUNDS] [SECONDS]` prints one line for each contender: a name, then keys with values.

mod spin_side;
mod suci_side;
mod tcp_side;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const GRADIENT: usize = 4 << 20;
pub(crate) const PARAMETERS: usize = 64 << 20;
pub(crate) const QUESTION: &[u8; 11] = b"which step?";
const WORKERS: u32 = 3;
const CONTENDERS: [&str; 4] = ["node", "shared", "tcp", "spin"];

/// Time before questions and bytes count.
const WARM_UP: Duration = Duration::from_millis(500);

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(1);

/// Ticks of the processors' times in `/proc`, per second.
const TICKS: f64 = 100.0;

pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The role of one process in a turn.
pub(crate) struct Role {
    /// 0 the server, then the workers, then the asker.
    pub(crate) id: u32,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) seconds: f64,
    pub(crate) asks: bool,
}

impl Role {
    pub(crate) fn asker(&self) -> u32 {
        WORKERS + 1
    }

    /// Whether the turn that `began` then is over, also for processes that began a little later.
    pub(crate) fn is_over(&self, began: Instant) -> bool {
        began.elapsed() > 2 * WARM_UP + Duration::from_secs_f64(self.seconds)
    }
}

/// The bytes of bulk that a process received while they counted.
pub(crate) struct Count {
    began: Instant,
    seconds: f64,
    /// The time at which counting began, and the bytes received until then.
    first: Option<(Duration, u64)>,
    /// Bytes per second.
    rate: Option<f64>,
}

impl Count {
    pub(crate) fn new(role: &Role) -> Self {
        Self {
            began: Instant::now(),
            seconds: role.seconds,
            first: None,
            rate: None,
        }
    }

    /// Asks for the bytes `received` so far when counting begins and when it ends.
    pub(crate) fn look(&mut self, received: impl FnOnce() -> Outcome<u64>) -> Outcome<()> {
        let at = self.began.elapsed();
        match self.first {
            None if at > WARM_UP => self.first = Some((at, received()?)),
            Some((first, before)) if self.rate.is_none() => {
                let passed = (at - first).as_secs_f64();
                if passed > self.seconds {
                    self.rate = Some((received()? - before) as f64 / passed);
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn report(&self) {
        println!("rate {}", self.rate.unwrap_or(0.0));
    }
}

/// Asks with `ask`, again and again, and prints how long the answers took and how late each pause
/// ended, in microseconds.
pub(crate) fn ask_on(role: &Role, mut ask: impl FnMut() -> Outcome<()>) -> Outcome<()> {
    let began = Instant::now();
    let (mut times, mut late) = (Vec::new(), Vec::new());
    while began.elapsed() < WARM_UP + Duration::from_secs_f64(role.seconds) {
        let paused = Instant::now();
        std::thread::sleep(PAUSE);
        let awake = Instant::now();
        if role.asks {
            ask()?;
            if began.elapsed() > WARM_UP {
                times.push(awake.elapsed().as_micros());
                late.push((awake - paused).saturating_sub(PAUSE).as_micros());
            }
        }
    }
    for (name, times) in [("times", times), ("late", late)] {
        let words: Vec<String> = times.iter().map(u128::to_string).collect();
        println!("{name} {}", words.join(" "));
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == "role") {
        return play(&arguments[1..]);
    }
    let rounds = arguments.first().map_or(Ok(5), |word| word.parse())?;
    let seconds = arguments.get(1).map_or(Ok(2.0), |word| word.parse())?;
    measure(rounds, seconds)
}

/// `CONTENDER ID SECONDS ASKS ADDRESS...`
fn play(words: &[String]) -> Outcome<()> {
    let [contender, id, seconds, asks, addresses @ ..] = words else {
        return Err("role CONTENDER ID SECONDS ASKS ADDRESS...".into());
    };
    let addresses: Result<_, _> = addresses.iter().map(|word| word.parse()).collect();
    let role = Role {
        id: id.parse()?,
        addresses: addresses?,
        seconds: seconds.parse()?,
        asks: asks.parse()?,
    };
    match contender.as_str() {
        "spin" => spin_side::play(&role),
        "tcp" => tcp_side::play(&role),
        "node" => suci_side::play_node(&role),
        _ => suci_side::play_shared(&role),
    }?;
    if role.id == 0 {
        println!("delay {}", run_delay()?);
    }
    Ok(())
}

/// The time, in seconds, for which threads of this process were ready to run and did not run.
fn run_delay() -> Outcome<f64> {
    let mut nanos = 0.0;
    for task in std::fs::read_dir("/proc/self/task")? {
        // A thread may have ended meanwhile.
        let text = std::fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        let waited = text.split_whitespace().nth(1).unwrap_or("0");
        nanos += waited.parse::<f64>()?;
    }
    Ok(nanos / 1e9)
}

/// Waits until all processes are there.
pub(crate) fn await_start() -> Outcome<()> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(())
}

/// The results of one turn of a contender.
#[derive(Default)]
struct Turn {
    /// Microseconds until the answer, and from when a pause should have ended to when it did;
    /// sorted.
    times: Vec<u64>,
    late: Vec<u64>,
    /// Bulk delivered, in bytes per second, all processes together.
    rate: f64,
    /// Seconds for which the server was ready to run and did not.
    delay: f64,
    /// The part of the processors' time that others than these processes took.
    others: f64,
}

impl Turn {
    /// Takes a line that a process wrote.
    fn read(&mut self, line: &str) -> Outcome<()> {
        let mut words = line.split_whitespace();
        let name = words.next();
        let numbers = words.map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        let first = numbers.first().copied().unwrap_or(0.0);
        let mut sorted: Vec<u64> = numbers.iter().map(|&number| number as u64).collect();
        sorted.sort_unstable();
        match name {
            Some("times") => self.times = sorted,
            Some("late") => self.late = sorted,
            Some("rate") => self.rate += first,
            Some("delay") => self.delay = first,
            _ => {}
        }
        Ok(())
    }
}

struct Process {
    child: Child,
    input: ChildStdin,
}

impl Process {
    fn begin(contender: &str, role: &Role) -> Outcome<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["role", contender])
            .args([role.id.to_string(), role.seconds.to_string()])
            .arg(role.asks.to_string())
            .args(role.addresses.iter().map(ToString::to_string))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        Ok(Self { child, input })
    }

    /// Takes its output until it ends.
    fn read(&mut self, turn: &mut Turn) -> Outcome<()> {
        let output = self.child.stdout.take().ok_or("no output")?;
        for line in BufReader::new(output).lines() {
            turn.read(&line?)?;
        }
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(status.to_string().into())
        }
    }
}

/// Runs one turn of a contender. All processes end in it.
fn turn(contender: &str, seconds: f64, asks: bool) -> Outcome<Turn> {
    let count = WORKERS + 2;
    let addresses = (0..count).map(|_| free_address());
    let addresses = addresses.collect::<Outcome<Vec<_>>>()?;
    let begin = |id| {
        let addresses = addresses.clone();
        let role = Role {
            id,
            addresses,
            seconds,
            asks,
        };
        Process::begin(contender, &role)
    };
    let mut processes = (0..count).map(begin).collect::<Outcome<Vec<_>>>()?;
    let (mut turn, before) = (Turn::default(), processor_times()?);
    for process in &mut processes {
        writeln!(process.input, "go")?;
    }
    for process in &mut processes {
        let read = process.read(&mut turn);
        read.map_err(|error| format!("{contender}: {error}"))?;
    }
    let [busy, idle, ours] = processor_times()?;
    let (busy, idle, ours) = (busy - before[0], idle - before[1], ours - before[2]);
    turn.others = ((busy - ours) / (busy + idle)).max(0.0);
    Ok(turn)
}

/// An address with a port that is free for UDP and TCP. A process of the turn takes it at once.
fn free_address() -> Outcome<SocketAddr> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let address = socket.local_addr()?;
    drop(TcpListener::bind(address)?);
    Ok(address)
}

/// Seconds that all processors were busy, that they were idle, and that ended processes of this one
/// took.
fn processor_times() -> Outcome<[f64; 3]> {
    let numbers = |text: &str| -> Vec<f64> {
        let words = text.split_whitespace();
        words.map(|word| word.parse().unwrap_or(0.0)).collect()
    };
    let all = std::fs::read_to_string("/proc/stat")?;
    // The first line: its name, user, nice, system, idle, iowait, irq, softirq, steal.
    let all = numbers(all.lines().next().unwrap_or(""));
    let own = std::fs::read_to_string("/proc/self/stat")?;
    // Behind the name, which ends with a bracket, the 14th and 15th words are the times of
    // children.
    let own = numbers(own.rsplit(')').next().unwrap_or(""));
    let sum = |of: &[f64]| of.iter().sum::<f64>() / TICKS;
    let idle = sum(all.get(4..6).unwrap_or(&[]));
    let busy = sum(all.get(1..9).unwrap_or(&[])) - idle;
    Ok([busy, idle, sum(own.get(13..15).unwrap_or(&[]))])
}

fn percentile(sorted: &[u64], part: f64) -> f64 {
    let at = (sorted.len() as f64 * part) as usize;
    let at = at.min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(0) as f64
}

/// Least, median and most.
fn spread(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let at = |place: usize| sorted.get(place).copied().unwrap_or(0.0);
    [0, sorted.len() / 2, sorted.len().saturating_sub(1)].map(at)
}

fn measure(rounds: usize, seconds: f64) -> Outcome<()> {
    let mut all: Vec<Vec<(Turn, Turn)>> = CONTENDERS.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (contender, turns) in CONTENDERS.iter().zip(&mut all) {
            let alone = match *contender {
                "spin" => Turn::default(),
                _ => turn(contender, seconds, false)?,
            };
            turns.push((alone, turn(contender, seconds, true)?));
        }
    }
    println!(
        "five processes on {} processors, {rounds} rounds of {seconds} s; median (least to most)",
        std::thread::available_parallelism()?
    );
    for (contender, turns) in CONTENDERS.iter().zip(&all) {
        println!("{}", line(contender, turns, seconds));
    }
    Ok(())
}

/// One line of results of a contender: its turns without questions and with them.
fn line(contender: &str, turns: &[(Turn, Turn)], seconds: f64) -> String {
    let beside = |f: fn(&Turn) -> f64| spread(turns.iter().map(|(_, asked)| f(asked)));
    let [_, p50, _] = beside(|turn| percentile(&turn.times, 0.5));
    let [least, p99, most] = beside(|turn| percentile(&turn.times, 0.99));
    let [_, late, _] = beside(|turn| percentile(&turn.late, 0.99));
    let [_, delay, _] = beside(|turn| turn.delay);
    let [_, others, _] = beside(|turn| turn.others);
    let delay = delay / (seconds + 2.0 * WARM_UP.as_secs_f64());
    let mut text = format!(
        "{contender:6} p50_us {p50:.0} p99_us {p99:.0} ({least:.0} to {most:.0}) pause_late_p99_us {late:.0} \
         server_ready_not_running {delay:.2} other_processes {others:.2}"
    );
    if contender != "spin" {
        let [_, gbit, _] = beside(|turn| turn.rate * 8.0 / 1e9);
        let parts = turns.iter().map(|(alone, asked)| asked.rate / alone.rate);
        let [least, part, most] = spread(parts);
        text += &format!(" bulk_gbit {gbit:.2} of_lone_rate {part:.2} ({least:.2} to {most:.2})");
    }
    text
}
