//! One process of a parallel program: messages by sender and tag, and collective operations.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener};

use clap::ValueEnum;
use suci::Bytes;

use crate::over_suci::OverSuci;
use crate::tcp::Tcp;
use crate::topology::Topology;
use crate::transport::{Message, Result, Tag, Transport};

const BARRIER: Tag = Tag(1);
const BROADCAST: Tag = Tag(2);
const GATHER: Tag = Tag(3);

/// The way messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Choice {
    Suci,
    TcpComplete,
    TcpChain,
    TcpTree,
    TcpRing,
    TcpTorus,
}

impl Choice {
    fn topology(self) -> Option<Topology> {
        match self {
            Self::Suci => None,
            Self::TcpComplete => Some(Topology::Complete),
            Self::TcpChain => Some(Topology::Chain),
            Self::TcpTree => Some(Topology::Tree),
            Self::TcpRing => Some(Topology::Ring),
            Self::TcpTorus => Some(Topology::Torus),
        }
    }
}

/// The longest message of each class of the paper's table but the last, in bytes.
pub(crate) const CLASSES: [usize; 4] = [16, 32, 128, 1024];

/// Messages sent, by class of length: up to each of [`CLASSES`], and longer.
pub(crate) type Mix = [u64; 5];

pub(crate) struct Process {
    transport: Box<dyn Transport>,
    /// Messages that came before they were awaited.
    early: VecDeque<Message>,
    mix: Mix,
}

impl Process {
    /// Joins the processes that `suci run` started.
    pub(crate) fn join(choice: Choice) -> Result<Self> {
        let suci = OverSuci::open()?;
        let ip = suci.ip();
        let mut process = Self::over(Box::new(suci));
        let Some(topology) = choice.topology() else {
            return Ok(process);
        };
        // The processes tell each other by Suci where they listen. So no port is chosen beforehand.
        let listener = TcpListener::bind((ip, 0))?;
        let own = listener.local_addr()?.to_string();
        let mine = process.gather(own.into())?;
        let list: Vec<_> = mine
            .iter()
            .map(|one| String::from_utf8_lossy(one))
            .collect();
        let list = process.broadcast(list.join(" ").into())?;
        let list = String::from_utf8_lossy(&list);
        let addresses = list.split(' ').map(str::parse);
        let addresses: Vec<SocketAddr> = addresses.collect::<std::result::Result<_, _>>()?;
        let rank = process.rank();
        process.transport.close()?;
        let tcp = Tcp::connect(topology, rank, &listener, &addresses)?;
        Ok(Self::over(Box::new(tcp)))
    }

    fn over(transport: Box<dyn Transport>) -> Self {
        Self {
            transport,
            early: VecDeque::new(),
            mix: Mix::default(),
        }
    }

    pub(crate) fn rank(&self) -> usize {
        self.transport.rank()
    }

    pub(crate) fn size(&self) -> usize {
        self.transport.size()
    }

    /// Returns true for process 0, which has the result in the end.
    pub(crate) fn is_root(&self) -> bool {
        self.rank() == 0
    }

    /// The messages sent so far.
    pub(crate) fn mix(&self) -> Mix {
        self.mix
    }

    pub(crate) fn send(&mut self, to: usize, tag: Tag, payload: Bytes) -> Result<()> {
        let class = CLASSES.iter().position(|longest| payload.len() <= *longest);
        if let Some(count) = self.mix.get_mut(class.unwrap_or(CLASSES.len())) {
            *count += 1;
        }
        self.transport.send(to, tag, payload)
    }

    /// Waits for a message with this tag, of process `from` or, without it, of any.
    pub(crate) fn recv(&mut self, from: Option<usize>, tag: Tag) -> Result<Message> {
        let is_awaited = |message: &Message| {
            message.tag == tag && from.is_none_or(|awaited| awaited == message.from)
        };
        if let Some(at) = self.early.iter().position(is_awaited)
            && let Some(message) = self.early.remove(at)
        {
            return Ok(message);
        }
        loop {
            let message = self.transport.recv(from)?;
            if is_awaited(&message) {
                return Ok(message);
            }
            self.early.push_back(message);
        }
    }

    /// Waits for the next message of process `from` with this tag, and returns its payload.
    pub(crate) fn recv_from(&mut self, from: usize, tag: Tag) -> Result<Bytes> {
        Ok(self.recv(Some(from), tag)?.payload)
    }

    /// Returns a message with this tag if one is there.
    pub(crate) fn try_recv(&mut self, tag: Tag) -> Result<Option<Message>> {
        while let Some(message) = self.transport.try_recv()? {
            self.early.push_back(message);
        }
        let at = self.early.iter().position(|message| message.tag == tag);
        Ok(at.and_then(|at| self.early.remove(at)))
    }

    /// Blocks until all processes have begun it.
    pub(crate) fn barrier(&mut self) -> Result<()> {
        if self.is_root() {
            for from in 1..self.size() {
                self.recv_from(from, BARRIER)?;
            }
        } else {
            self.send(0, BARRIER, Bytes::new())?;
        }
        self.broadcast(Bytes::new()).map(drop)
    }

    /// Gives all processes the data of process 0, along a binomial tree.
    pub(crate) fn broadcast(&mut self, data: Bytes) -> Result<Bytes> {
        let (rank, size) = (self.rank(), self.size());
        // The lowest bit of a rank leads to the process that it hears from.
        let lowest = match rank {
            0 => size.next_power_of_two(),
            _ => 1 << rank.trailing_zeros(),
        };
        let data = match rank {
            0 => data,
            _ => self.recv_from(rank - lowest, BROADCAST)?,
        };
        let mut step = lowest / 2;
        while step > 0 {
            if rank + step < size {
                self.send(rank + step, BROADCAST, data.clone())?;
            }
            step /= 2;
        }
        Ok(data)
    }

    /// Collects the data of all processes, in the order of ranks, at process 0. Returns an empty
    /// list at the others.
    pub(crate) fn gather(&mut self, data: Bytes) -> Result<Vec<Bytes>> {
        if !self.is_root() {
            self.send(0, GATHER, data)?;
            return Ok(Vec::new());
        }
        let mut all = vec![data];
        for from in 1..self.size() {
            all.push(self.recv_from(from, GATHER)?);
        }
        Ok(all)
    }

    /// Combines the values that all processes give. Each gets the result.
    pub(crate) fn allreduce(&mut self, mine: f64, combine: fn(f64, f64) -> f64) -> Result<f64> {
        let all = self.gather(floats_to_bytes(&[mine]))?;
        let all = all.iter().flat_map(|one| bytes_to_floats(one));
        let result = all.reduce(combine).unwrap_or(mine);
        let result = self.broadcast(floats_to_bytes(&[result]))?;
        bytes_to_floats(&result)
            .next()
            .ok_or("an empty result".into())
    }

    /// Leaves the network.
    pub(crate) fn close(mut self) -> Result<()> {
        self.transport.close()
    }
}

pub(crate) fn floats_to_bytes(values: &[f64]) -> Bytes {
    let words: Vec<_> = values.iter().map(|value| value.to_le_bytes()).collect();
    words.into_flattened().into()
}

pub(crate) fn bytes_to_floats(bytes: &[u8]) -> impl ExactSizeIterator<Item = f64> {
    let (words, _) = bytes.as_chunks();
    words.iter().map(|word| f64::from_le_bytes(*word))
}

/// The numbers of all parts of a result, one part after the other.
pub(crate) fn joined(parts: &[Bytes]) -> Vec<f64> {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    let mut all = Vec::with_capacity(bytes / size_of::<f64>());
    for part in parts {
        all.extend(bytes_to_floats(part));
    }
    all
}

/// The part of `count` rows that process `rank` of `size` has: parts follow one another, and their
/// lengths differ by at most one.
pub(crate) fn part(count: usize, rank: usize, size: usize) -> std::ops::Range<usize> {
    count * rank / size..count * (rank + 1) / size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_rows() {
        for (count, size) in [(8, 3), (3, 3), (10, 4), (7, 1)] {
            let parts = (0..size).map(|rank| part(count, rank, size));
            assert!(parts.flatten().eq(0..count));
        }
    }
}
