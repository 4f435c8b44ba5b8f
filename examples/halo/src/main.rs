//! Jacobi iteration: heat on a square plate, divided among 2 x 2 processes. Each process exchanges
//! the halo of its part, the points around it, with its neighbours.
//!
//! `suci run -n 4 halo 128 400` iterates 400 times on 128 x 128 points and compares the result with
//! that of one process.

use std::process::ExitCode;
use std::time::Duration;

use suci::{ChannelId, Error, Node, NodeId, OutgoingMessage};

/// Processes 0 and 1 have the upper half of the plate, processes 0 and 2 the left half.
const PROCESSES: u32 = 4;

/// This process compares the result and collects the values that all have to know.
const ROOT: NodeId = NodeId(0);

/// The channels: halos, residuals, and parts of the result.
const HALOS: ChannelId = ChannelId(1);
const RESIDUALS: ChannelId = ChannelId(2);
const PARTS: ChannelId = ChannelId(3);

/// Iterations after which all processes learn the residual.
const INTERVAL: usize = 20;

/// A process that is silent for this long is dead: no other can go on without its part.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest wait for the slowest process.
const LONG: Duration = Duration::from_secs(600);

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let Err(failure) = run() else {
        return ExitCode::SUCCESS;
    };
    // In one piece: all processes write to the same pipe.
    let line = format!("halo: {failure}\n");
    eprint!("{line}");
    ExitCode::FAILURE
}

fn run() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(Ok(default), |word| word.parse());
    let (points, iterations) = (number(128)?, number(400)?);
    if suci::env::size()? != Some(PROCESSES) || points % 2 != 0 {
        return Err("start 4 processes, with an even number of points in a row".into());
    }
    let builder = Node::builder().silence_timeout(PATIENCE).keep_alive();
    let mut node = builder.give_up_after(PATIENCE).open()?;
    let mut part = Grid::new(points / 2, node.id().0 < 2);
    let mut residual = 0.0;
    for iteration in 1..=iterations {
        exchange(&mut node, &mut part)?;
        let change = part.iterate();
        if iteration % INTERVAL == 0 || iteration == iterations {
            residual = maximum(&mut node, change)?;
            if node.id() == ROOT {
                eprintln!("iteration {iteration} of {iterations}");
            }
        }
    }
    if let Some(result) = gather(&mut node, &part)? {
        let mut alone = Grid::new(points, true);
        let changes = (0..iterations).map(|_| alone.iterate());
        let expected = changes.last().unwrap_or_default();
        if bytes(&result) != bytes(&alone.inside()) || residual.to_bits() != expected.to_bits() {
            return Err("the result differs from that of one process".into());
        }
        println!("{iterations} iterations, residual {residual:.2e}, the same as in one process");
    }
    Ok(node.close(LONG)?)
}

/// Sends each neighbour the points next to it and receives its points, which are the halo there.
/// A neighbour may be an iteration ahead.
fn exchange(node: &mut Node, part: &mut Grid) -> Result<(), Error> {
    let borders = part.borders(node.id());
    for (neighbour, edge, _) in &borders {
        let edge: Vec<f64> = edge.iter().map(|at| part.values[*at]).collect();
        node.send(
            *neighbour,
            OutgoingMessage::new(bytes(&edge)).channel(HALOS),
        )?;
    }
    for (neighbour, _, halo) in &borders {
        let message = node.recv_from((*neighbour, HALOS))?;
        for (at, value) in halo.iter().zip(values(&message.payload)) {
            part.values[*at] = value;
        }
    }
    Ok(())
}

/// The maximum of the values that all processes give. Each process waits for it.
fn maximum(node: &mut Node, mine: f64) -> Result<f64, Error> {
    if node.id() != ROOT {
        let draft = OutgoingMessage::new(bytes(&[mine])).channel(RESIDUALS);
        let reply = node.call(ROOT, draft, LONG)?;
        return Ok(values(&reply.payload).into_iter().fold(mine, f64::max));
    }
    let others = (1..PROCESSES).map(NodeId);
    let requests = others.map(|other| node.recv_from((other, RESIDUALS)));
    let requests = requests.collect::<Result<Vec<_>, Error>>()?;
    let theirs = requests.iter().flat_map(|request| values(&request.payload));
    let maximum = theirs.fold(mine, f64::max);
    for request in &requests {
        node.send(request.from, request.reply(bytes(&[maximum]))?)?;
    }
    Ok(maximum)
}

/// Puts all parts together in the root. Returns `None` in the others.
fn gather(node: &mut Node, part: &Grid) -> Result<Option<Vec<f64>>, Error> {
    if node.id() != ROOT {
        node.send(
            ROOT,
            OutgoingMessage::new(bytes(&part.inside())).channel(PARTS),
        )?;
        return Ok(None);
    }
    let half = part.points;
    let mut whole = vec![0.0; 4 * half * half];
    for from in (0..PROCESSES).map(NodeId) {
        let inside = match from {
            ROOT => part.inside(),
            _ => values(&node.recv_from((from, PARTS))?.payload),
        };
        let (above, left) = (from.0 as usize / 2 * half, from.0 as usize % 2 * half);
        for (row, line) in inside.chunks(half).enumerate() {
            let begin = (above + row) * 2 * half + left;
            whole[begin..begin + half].copy_from_slice(line);
        }
    }
    Ok(Some(whole))
}

/// A square of points and its halo of one point on each side.
struct Grid {
    /// Points in a row, without the halo.
    points: usize,
    /// Row after row, with the halo.
    values: Vec<f64>,
}

impl Grid {
    /// All points are cold, except for the halo at the top of the plate.
    fn new(points: usize, is_at_top: bool) -> Self {
        let width = points + 2;
        let mut values = vec![0.0; width * width];
        if is_at_top {
            values[..width].fill(1.0);
        }
        Self { points, values }
    }

    /// Each neighbour of `node`, with the indices of the points next to it and of the halo there.
    fn borders(&self, node: NodeId) -> [(NodeId, Vec<usize>, Vec<usize>); 2] {
        let (points, width) = (self.points, self.points + 2);
        let column = |x| (1..=points).map(|y| y * width + x).collect();
        let row = |y| (1..=points).map(|x| y * width + x).collect();
        let last_or_first = |last| if last { (points, points + 1) } else { (1, 0) };
        let (edge, halo) = last_or_first(node.0.is_multiple_of(2));
        let beside = (NodeId(node.0 ^ 1), column(edge), column(halo));
        let (edge, halo) = last_or_first(node.0 < 2);
        let across = (NodeId(node.0 ^ 2), row(edge), row(halo));
        [beside, across]
    }

    /// Gives each point the mean of its four neighbours. Returns the greatest change.
    fn iterate(&mut self) -> f64 {
        let (old, width) = (self.values.clone(), self.points + 2);
        let mut greatest = 0.0_f64;
        for row in 1..=self.points {
            for at in row * width + 1..=row * width + self.points {
                let mean = (old[at - width] + old[at + width] + old[at - 1] + old[at + 1]) / 4.0;
                greatest = greatest.max((mean - old[at]).abs());
                self.values[at] = mean;
            }
        }
        greatest
    }

    /// The points without the halo.
    fn inside(&self) -> Vec<f64> {
        let rows = self.values.chunks(self.points + 2).skip(1);
        let rows = rows.take(self.points);
        rows.flat_map(|row| &row[1..=self.points])
            .copied()
            .collect()
    }
}

fn bytes(values: &[f64]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

fn values(payload: &[u8]) -> Vec<f64> {
    let (words, _) = payload.as_chunks();
    words.iter().map(|word| f64::from_le_bytes(*word)).collect()
}
