//! The calls of the collective operations of a run, and their results, which are computed one
//! member after the other.

use suci_layers::{Collective, Combine, Custom, Element, Kind, Max, Place, Sum, bytes_of};

use crate::rng::{Rng, mix};

/// Maximum number of bytes of one member's data. Sizes are drawn so that each power of two is as
/// likely as the next: some buffers go as one message, some as several, some in blocks.
const LONGEST: u64 = 200_000;

/// The place of a call among all of a run, the same at all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    /// The number of the group with which the members began.
    pub origin: u32,
    /// The times that the members agreed since.
    pub era: u32,
    /// The calls since they last did.
    pub index: u32,
}

/// The elements of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Elements {
    Bytes,
    Short,
    Word,
    Float,
}

/// The operation that combines elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Sum,
    Max,
    /// Composes affine functions of the program's own: not commutative.
    Compose,
}

/// The call of a collective operation, as all members of a group draw it.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The operation.
    pub kind: Kind,
    elements: Elements,
    how: How,
    /// The root's rank, before it is reduced to the number of members.
    root: u64,
    length: usize,
    /// Each member has its own length.
    varies: bool,
    content: u64,
}

/// An element as the oracle computes with it.
trait Sample: Element + PartialEq {
    fn of(word: u64) -> Self;
    fn sum(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn compose(self, other: Self) -> Self;
    fn combine(left: Self, right: Self) -> Self {
        left.compose(right)
    }
}

macro_rules! integers {
    ($($type:ty)*) => { $(
        impl Sample for $type {
            fn of(word: u64) -> Self {
                let bytes = word.to_le_bytes();
                bytes.first_chunk().map_or(0, |bytes| Self::from_le_bytes(*bytes))
            }
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn max(self, other: Self) -> Self {
                if self < other { other } else { self }
            }
            /// Two halves of the bits are the factor and the summand of a function.
            fn compose(self, other: Self) -> Self {
                let half = Self::BITS / 2;
                let low = Self::MAX >> half;
                let (a, b) = (self >> half, self & low);
                let (c, d) = (other >> half, other & low);
                let factor = a.wrapping_mul(c) & low;
                let summand = a.wrapping_mul(d).wrapping_add(b) & low;
                factor << half | summand
            }
        }
    )* };
}

integers!(u8 u16 u64);

impl Sample for f64 {
    /// Small whole numbers, whose sums are exact in any order.
    fn of(word: u64) -> Self {
        Self::from(u16::of(word))
    }
    fn sum(self, other: Self) -> Self {
        self + other
    }
    fn max(self, other: Self) -> Self {
        if self < other { other } else { self }
    }
    /// The first one, which is associative and not commutative.
    fn compose(self, _: Self) -> Self {
        self
    }
}

impl Call {
    /// Draws the call at this place of a run.
    #[must_use]
    pub fn draw(seed: u64, id: CallId) -> Self {
        let at = u64::from(id.origin) << 40 | u64::from(id.era) << 20 | u64::from(id.index);
        let mut rng = Rng::new(seed, 0x4000_0000_0000_0000 | at);
        let kinds = [
            Kind::Barrier,
            Kind::Broadcast,
            Kind::Reduce,
            Kind::Allreduce,
            Kind::Gather,
            Kind::Scatter,
            Kind::Allgather,
            Kind::AllToAll,
            Kind::Scan,
            Kind::ExclusiveScan,
        ];
        let elements = rng.pick(&[
            Elements::Bytes,
            Elements::Short,
            Elements::Word,
            Elements::Float,
        ]);
        let bytes = rng.scale(1, LONGEST);
        let size = match elements {
            Elements::Bytes => 1,
            Elements::Short => 2,
            Elements::Word | Elements::Float => 8,
        };
        Self {
            kind: rng.pick(&kinds),
            elements,
            how: rng.pick(&[How::Sum, How::Max, How::Compose]),
            root: rng.word(),
            length: usize::try_from(bytes / size).unwrap_or(0),
            varies: rng.chance(500_000),
            content: rng.word(),
        }
    }

    /// Returns the root's rank among this many members.
    fn root(&self, size: usize) -> usize {
        usize::try_from(self.root % size as u64).unwrap_or(0)
    }

    /// Returns the elements of the part of `length` at member `rank`, or for member `to`.
    fn part(&self, size: usize, rank: usize, to: usize) -> usize {
        let each = match self.kind {
            Kind::Gather | Kind::Allgather | Kind::AllToAll | Kind::Scatter => self.length / size,
            _ => return self.length,
        };
        match self.varies {
            true => (each * (1 + (rank * 5 + to * 3) % 4)) / 3,
            false => each,
        }
    }

    fn list<T: Sample>(&self, size: usize, rank: usize, to: usize) -> Vec<T> {
        let base = mix(self.content ^ (rank as u64) << 32 ^ (to as u64) << 48);
        let element = |at: u64| T::of(mix(base ^ at));
        (0..self.part(size, rank, to) as u64).map(element).collect()
    }

    /// Returns the part of the operation of a member.
    #[must_use]
    pub fn begin(&self, place: Place) -> Collective {
        match self.elements {
            Elements::Bytes => self.begin_with::<u8>(place),
            Elements::Short => self.begin_with::<u16>(place),
            Elements::Word => self.begin_with::<u64>(place),
            Elements::Float => self.begin_with::<f64>(place),
        }
    }

    fn begin_with<T: Sample>(&self, place: Place) -> Collective
    where
        Sum: suci_layers::Operation<T>,
        Max: suci_layers::Operation<T>,
    {
        let Place { rank, size } = place;
        let root = self.root(size);
        let own = bytes_of(&self.list::<T>(size, rank, 0));
        let combine = || match self.how {
            How::Sum => Combine::new::<T, _>(Sum),
            How::Max => Combine::new::<T, _>(Max),
            How::Compose => Combine::new::<T, _>(Custom(T::combine)),
        };
        let bytes = |rank, to| self.part(size, rank, to) * T::SIZE;
        let lengths: Vec<_> = (0..size).map(|rank| bytes(rank, 0)).collect();
        let work = match self.kind {
            Kind::Barrier => return Collective::barrier(place),
            Kind::Broadcast if rank == root => Collective::broadcast(place, root, own),
            Kind::Broadcast => Collective::broadcast(place, root, vec![0; own.len()]),
            Kind::Reduce => Collective::reduce(place, root, own, combine()),
            Kind::Allreduce => Collective::allreduce(place, own, combine()),
            Kind::Gather => Collective::gather(place, root, &lengths, own),
            Kind::Scatter => {
                let lists = (0..size).map(|rank| self.list::<T>(size, rank, 0));
                let all = bytes_of(&lists.collect::<Vec<_>>().concat());
                let all = if rank == root { all } else { Vec::new() };
                Collective::scatter(place, root, &lengths, all)
            }
            Kind::Allgather => Collective::allgather(place, &lengths, &own),
            Kind::AllToAll => {
                let sent: Vec<_> = (0..size).map(|to| bytes(rank, to)).collect();
                let received: Vec<_> = (0..size).map(|from| bytes(from, rank)).collect();
                let parts = (0..size).map(|to| self.list::<T>(size, rank, to));
                let all = bytes_of(&parts.collect::<Vec<_>>().concat());
                Collective::all_to_all(place, &sent, &received, &all)
            }
            Kind::Scan => Collective::scan(place, own, combine()),
            Kind::ExclusiveScan => Collective::exclusive_scan(place, own, combine()),
        };
        work.of_elements(T::NAME)
    }

    /// Returns the bytes that a member must have in the end, unless they do not matter.
    #[must_use]
    pub fn expected(&self, place: Place) -> Option<Vec<u8>> {
        match self.elements {
            Elements::Bytes => self.result::<u8>(place, |byte| vec![byte]),
            Elements::Short => self.result::<u16>(place, |word| word.to_le_bytes().to_vec()),
            Elements::Word => self.result::<u64>(place, |word| word.to_le_bytes().to_vec()),
            Elements::Float => self.result::<f64>(place, |float| float.to_le_bytes().to_vec()),
        }
    }

    fn result<T: Sample>(&self, place: Place, bytes: fn(T) -> Vec<u8>) -> Option<Vec<u8>> {
        let Place { rank, size } = place;
        let root = self.root(size);
        let of = |member: usize| self.list::<T>(size, member, 0);
        let combined = |members: core::ops::Range<usize>| {
            let pair = |left: Vec<T>, right: Vec<T>| {
                let pairs = left.into_iter().zip(right);
                let how = |(left, right): (T, T)| match self.how {
                    How::Sum => left.sum(right),
                    How::Max => left.max(right),
                    How::Compose => left.compose(right),
                };
                pairs.map(how).collect()
            };
            members.map(of).reduce(pair).unwrap_or_default()
        };
        let all = || (0..size).map(of).collect::<Vec<_>>().concat();
        let is_root = rank == root;
        let list = match self.kind {
            Kind::Barrier => Vec::new(),
            Kind::Broadcast => of(root),
            Kind::Reduce if is_root => combined(0..size),
            Kind::Reduce => return None,
            Kind::Allreduce => combined(0..size),
            Kind::Gather | Kind::Scatter if is_root => all(),
            Kind::Gather | Kind::Scatter => of(rank),
            Kind::Allgather => all(),
            Kind::AllToAll => {
                let parts = (0..size).map(|from| self.list::<T>(size, from, rank));
                parts.collect::<Vec<_>>().concat()
            }
            Kind::Scan => combined(0..rank + 1),
            Kind::ExclusiveScan if rank == 0 => of(0),
            Kind::ExclusiveScan => combined(0..rank),
        };
        Some(list.into_iter().flat_map(bytes).collect())
    }

    /// Returns true if no member has its result before all began.
    #[must_use]
    pub const fn awaits_all(&self) -> bool {
        matches!(
            self.kind,
            Kind::Barrier | Kind::Allreduce | Kind::Allgather | Kind::AllToAll
        )
    }
}
