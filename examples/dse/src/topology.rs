//! Which processes a TCP network connects, and the way of messages between others.

use std::collections::VecDeque;

/// The shape of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    /// Every process is connected to every other.
    Complete,
    /// Each process is connected to the ones before and after it.
    Chain,
    /// A binary tree whose root is process 0.
    Tree,
    /// A chain whose ends are connected.
    Ring,
    /// Rows and columns that are rings; as square as the number of processes allows.
    Torus,
}

impl Topology {
    /// The processes to which `rank` of `size` is connected, in order.
    pub(crate) fn neighbours(self, rank: usize, size: usize) -> Vec<usize> {
        let mut found: Vec<usize> = match self {
            Self::Complete => (0..size).collect(),
            Self::Chain => (rank.saturating_sub(1)..=rank + 1).collect(),
            Self::Tree => {
                let parent = rank.saturating_sub(1) / 2;
                vec![parent, 2 * rank + 1, 2 * rank + 2]
            }
            Self::Ring => vec![(rank + 1) % size, (rank + size - 1) % size],
            Self::Torus => {
                let columns = columns(size);
                let (row, column) = (rank / columns, rank % columns);
                let across = [(column + 1) % columns, (column + columns - 1) % columns];
                let down = [(rank + columns) % size, (rank + size - columns) % size];
                let across = across.map(|column| row * columns + column);
                [across, down].concat()
            }
        };
        found.retain(|&other| other != rank && other < size);
        found.sort_unstable();
        found.dedup();
        found
    }

    /// For each process the neighbour of `rank` that is first on a shortest way there. Each step
    /// brings a message nearer, so none goes in a circle.
    pub(crate) fn first_steps(self, rank: usize, size: usize) -> Vec<usize> {
        let mut first: Vec<Option<usize>> = vec![None; size];
        let mut waiting: VecDeque<usize> = VecDeque::new();
        for neighbour in self.neighbours(rank, size) {
            first[neighbour] = Some(neighbour);
            waiting.push_back(neighbour);
        }
        // Breadth first.
        while let Some(at) = waiting.pop_front() {
            for beyond in self.neighbours(at, size) {
                if beyond != rank && first[beyond].is_none() {
                    first[beyond] = first[at];
                    waiting.push_back(beyond);
                }
            }
        }
        first.into_iter().map(|step| step.unwrap_or(rank)).collect()
    }

    /// Returns true if some processes forward messages of others.
    pub(crate) fn forwards(self, size: usize) -> bool {
        (0..size).any(|rank| self.neighbours(rank, size).len() + 1 < size)
    }
}

/// The length of a torus's rows: the least divisor of `size` from its square root up.
fn columns(size: usize) -> usize {
    let is_fit = |columns: &usize| size.is_multiple_of(*columns) && columns * columns >= size;
    (1..=size).find(is_fit).unwrap_or(1)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const ALL: [Topology; 5] = [
        Topology::Complete,
        Topology::Chain,
        Topology::Tree,
        Topology::Ring,
        Topology::Torus,
    ];

    #[test]
    fn shapes_are_those_of_their_names() {
        let neighbours = |topology: Topology| topology.neighbours(1, 6);
        assert_eq!(neighbours(Topology::Complete), [0, 2, 3, 4, 5]);
        assert_eq!(neighbours(Topology::Chain), [0, 2]);
        assert_eq!(neighbours(Topology::Tree), [0, 3, 4]);
        assert_eq!(neighbours(Topology::Ring), [0, 2]);
        // Two rows of three.
        assert_eq!(neighbours(Topology::Torus), [0, 2, 4]);
        assert_eq!(Topology::Torus.neighbours(0, 9), [1, 2, 3, 6]);
    }

    #[test]
    fn every_way_ends_at_its_destination() {
        for topology in ALL {
            for size in 1..=12 {
                for (from, to) in (0..size).flat_map(|a| (0..size).map(move |b| (a, b))) {
                    let mut at = from;
                    let mut steps = 0;
                    while at != to {
                        at = topology.first_steps(at, size)[to];
                        steps += 1;
                        assert!(steps < size, "{topology:?}: {from} to {to} of {size}");
                    }
                }
            }
        }
    }

    #[test]
    fn connections_are_mutual() {
        for topology in ALL {
            for size in 1..=12 {
                for rank in 0..size {
                    let mutual = |&other: &usize| topology.neighbours(other, size).contains(&rank);
                    assert!(topology.neighbours(rank, size).iter().all(mutual));
                }
            }
        }
    }
}
