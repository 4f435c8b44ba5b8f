//! Jacobi iteration: heat on a square plate, divided among 2 x 2 processes that exchange the edges of their parts.
//!
//! `suci run -n 4 halo 128 400` iterates 400 times on 128 x 128 points and compares the result with one process's.

use std::time::Duration;

use suci::{ChannelId, Draft, Error, Node, NodeId};

/// 2 x 2: processes 0 and 1 have the upper half of the plate, 0 and 2 the left one.
const PROCESSES: u32 = 4;

/// The channels: edges, the residuals of all, and the parts of the result.
const EDGES: ChannelId = ChannelId(1);
const RESIDUALS: ChannelId = ChannelId(2);
const RESULT: ChannelId = ChannelId(3);

/// After so many iterations all agree on how much the last one changed.
const ROUND: usize = 20;

/// How long anybody waits for the others.
const SOON: Duration = Duration::from_secs(30);

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |otherwise| arguments.next().map_or(Ok(otherwise), |word| word.parse());
    let (points, iterations) = (number(128)?, number(400)?);
    if suci::env::size()? != Some(PROCESSES) || points % 2 != 0 {
        return Err("needs 4 processes and an even number of points".into());
    }
    let mut node = Node::from_env()?;
    let mut part = Grid::new(points / 2, node.id().0 < 2);
    let mut residual = 0.0;
    for iteration in 1..=iterations {
        exchange(&mut node, &mut part)?;
        let change = part.step();
        if iteration % ROUND == 0 {
            residual = greatest(&mut node, change)?;
        }
    }
    if let Some(result) = gather(&mut node, &part)? {
        let mut alone = Grid::new(points, true);
        (0..iterations).for_each(|_| drop(alone.step()));
        if result != alone.inside() {
            return Err("the result differs from that of one process".into());
        }
        println!("{iterations} iterations, residual {residual:.2e}, the same as in one process");
    }
    node.close(SOON)?;
    Ok(())
}

/// Sends each neighbour the edge next to it and takes its edge, whichever of them is ahead.
fn exchange(node: &mut Node, part: &mut Grid) -> Result<(), Error> {
    let me = node.id().0;
    let beside = if me % 2 == 0 { Edge::Right } else { Edge::Left };
    let beyond = if me < 2 { Edge::Bottom } else { Edge::Top };
    let neighbours = [(NodeId(me ^ 1), beside), (NodeId(me ^ 2), beyond)];
    for (neighbour, edge) in neighbours {
        let draft = Draft::new(bytes(&part.edge(edge))).channel(EDGES);
        node.send(neighbour, draft)?;
    }
    for (neighbour, edge) in neighbours {
        let message = node.recv_from((neighbour, EDGES))?;
        part.set_frame(edge, &values(&message.payload));
    }
    Ok(())
}

/// The greatest of all processes' values: process 0 collects them and replies with the greatest.
fn greatest(node: &mut Node, mine: f64) -> Result<f64, Failure> {
    if node.id() != NodeId(0) {
        let draft = Draft::new(bytes(&[mine])).channel(RESIDUALS);
        let reply = node.call(NodeId(0), draft, SOON)?;
        return Ok(values(&reply.payload)
            .first()
            .copied()
            .ok_or("an empty reply")?);
    }
    let others = 1..PROCESSES;
    let requests = others.map(|other| node.recv_from((NodeId(other), RESIDUALS)));
    let requests = requests.collect::<Result<Vec<_>, Error>>()?;
    let theirs = requests.iter().flat_map(|request| values(&request.payload));
    let greatest = theirs.fold(mine, f64::max);
    for request in &requests {
        node.send(request.from, request.reply(bytes(&[greatest]))?)?;
    }
    Ok(greatest)
}

/// Puts all parts together in process 0.
fn gather(node: &mut Node, part: &Grid) -> Result<Option<Vec<f64>>, Error> {
    if node.id() != NodeId(0) {
        let draft = Draft::new(bytes(&part.inside())).channel(RESULT);
        node.send(NodeId(0), draft)?;
        return Ok(None);
    }
    let half = part.points;
    let mut whole = vec![0.0; PROCESSES as usize * half * half];
    for from in 0..PROCESSES {
        let inside = match from {
            0 => part.inside(),
            _ => values(&node.recv_from((NodeId(from), RESULT))?.payload),
        };
        let (above, left) = (from as usize / 2 * half, from as usize % 2 * half);
        for (row, line) in inside.chunks(half).enumerate() {
            let begin = (above + row) * 2 * half + left;
            whole[begin..begin + half].copy_from_slice(line);
        }
    }
    Ok(Some(whole))
}

#[derive(Clone, Copy)]
enum Edge {
    Top,
    Bottom,
    Left,
    Right,
}

/// A square of points with a frame of one point around it: the neighbours' edges, or the plate's border.
struct Grid {
    /// In a row, without the frame.
    points: usize,
    values: Vec<f64>,
}

impl Grid {
    /// All cold, but for the top border if it is the plate's.
    fn new(points: usize, is_at_top: bool) -> Self {
        let width = points + 2;
        let mut values = vec![0.0; width * width];
        if is_at_top {
            values[..width].fill(1.0);
        }
        Self { points, values }
    }

    /// Where the points of an edge stand in row 0 or column 0, the frame, or so many rows and columns inside.
    fn places(&self, edge: Edge, depth: usize) -> impl Iterator<Item = usize> + use<> {
        let (width, last) = (self.points + 2, self.points + 1 - depth);
        (1..=self.points).map(move |i| match edge {
            Edge::Top => depth * width + i,
            Edge::Bottom => last * width + i,
            Edge::Left => i * width + depth,
            Edge::Right => i * width + last,
        })
    }

    fn edge(&self, edge: Edge) -> Vec<f64> {
        let places = self.places(edge, 1);
        places.map(|place| self.values[place]).collect()
    }

    fn set_frame(&mut self, edge: Edge, values: &[f64]) {
        for (place, value) in self.places(edge, 0).zip(values) {
            self.values[place] = *value;
        }
    }

    /// Gives each point the mean of its neighbours. Returns the greatest change.
    fn step(&mut self) -> f64 {
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

    /// The points without the frame.
    fn inside(&self) -> Vec<f64> {
        let rows = self
            .values
            .chunks(self.points + 2)
            .skip(1)
            .take(self.points);
        rows.flat_map(|row| row[1..=self.points].to_vec()).collect()
    }
}

fn bytes(values: &[f64]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

fn values(payload: &[u8]) -> Vec<f64> {
    payload
        .as_chunks()
        .0
        .iter()
        .map(|bytes| f64::from_le_bytes(*bytes))
        .collect()
}
