//! Finds receives for messages, and messages for receives, without walking lists.
//!
//! Receives whose patterns leave the same parts of a message open have the same *shape*: any node
//! or one, and the bits of the tag that do not count. All receives of a shape that admit a message
//! have the same key. So a search asks one hash table for each shape in use, of which programs have
//! few: mostly one, and one more for receives from any node.

use super::{Envelope, Pattern};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use suci_proto::types::{ChannelId, NodeId};

/// Maximum number of tables of an index that have no entry, or may be made anew. A program with
/// more shapes costs time, not memory.
const MAX_SPARE: usize = 8;

/// The parts of a message that a pattern leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    any_node: bool,
    ignore: u64,
}

impl Shape {
    /// The shape of patterns that admit messages with one envelope alone.
    const EXACT: Self = Self {
        any_node: false,
        ignore: 0,
    };

    const fn of(pattern: &Pattern) -> Self {
        Self {
            any_node: pattern.from.is_none(),
            ignore: pattern.ignore,
        }
    }

    /// Returns the key that all patterns of this shape have which admit the message.
    fn key(self, envelope: &Envelope) -> Key {
        Key {
            channel: envelope.channel,
            node: (!self.any_node).then_some(envelope.node),
            tag: envelope.tag & !self.ignore,
        }
    }
}

/// The parts of a message that patterns of one shape name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    channel: ChannelId,
    node: Option<NodeId>,
    tag: u64,
}

impl Key {
    const fn of(pattern: &Pattern) -> Self {
        Self {
            channel: pattern.channel,
            node: pattern.from,
            tag: pattern.tag & !pattern.ignore,
        }
    }
}

/// The entries of a key, oldest first: one number of each, which rise. Mostly there is one.
#[derive(Clone, Debug)]
enum Bin {
    One(u64),
    Many(VecDeque<u64>),
}

impl Bin {
    fn first(&self) -> Option<u64> {
        match self {
            Self::One(number) => Some(*number),
            Self::Many(numbers) => numbers.front().copied(),
        }
    }

    /// Appends a number that is higher than all before.
    fn push(&mut self, number: u64) {
        match self {
            Self::One(first) => *self = Self::Many(VecDeque::from([*first, number])),
            Self::Many(numbers) => numbers.push_back(number),
        }
    }

    /// Removes a number. Returns true if none is left.
    fn remove(&mut self, number: u64) -> bool {
        match self {
            Self::One(one) => *one == number,
            Self::Many(numbers) => {
                let at = numbers.partition_point(|other| *other < number);
                if numbers.get(at) == Some(&number) {
                    numbers.remove(at);
                }
                numbers.is_empty()
            }
        }
    }
}

/// The entries of one shape.
#[derive(Clone, Debug)]
struct ShapeTable {
    shape: Shape,
    bins: HashMap<Key, Bin>,
}

impl ShapeTable {
    fn new(shape: Shape) -> Self {
        let bins = HashMap::new();
        Self { shape, bins }
    }

    fn first(&self, key: &Key) -> Option<u64> {
        self.bins.get(key)?.first()
    }

    fn insert(&mut self, key: Key, number: u64) {
        match self.bins.entry(key) {
            Entry::Occupied(mut bin) => bin.get_mut().push(number),
            Entry::Vacant(free) => _ = free.insert(Bin::One(number)),
        }
    }

    fn remove(&mut self, key: Key, number: u64) {
        if let Entry::Occupied(mut bin) = self.bins.entry(key)
            && bin.get_mut().remove(number)
        {
            bin.remove();
        }
    }
}

/// Receives that wait for messages, by their numbers, which rise.
#[derive(Clone, Debug, Default)]
pub(super) struct PostedIndex(Vec<ShapeTable>);

impl PostedIndex {
    /// Adds a receive. Its number is higher than all before.
    pub(super) fn insert(&mut self, pattern: &Pattern, number: u64) {
        let shape = Shape::of(pattern);
        let at = self.0.iter().position(|table| table.shape == shape);
        let at = at.unwrap_or_else(|| {
            if self.0.len() >= MAX_SPARE {
                self.0.retain(|table| !table.bins.is_empty());
            }
            self.0.push(ShapeTable::new(shape));
            self.0.len() - 1
        });
        if let Some(table) = self.0.get_mut(at) {
            table.insert(Key::of(pattern), number);
        }
    }

    /// Returns the oldest receive that admits a message.
    pub(super) fn first(&self, envelope: &Envelope) -> Option<u64> {
        let tables = self.0.iter().filter(|table| !table.bins.is_empty());
        tables
            .filter_map(|table| table.first(&table.shape.key(envelope)))
            .min()
    }

    pub(super) fn remove(&mut self, pattern: &Pattern, number: u64) {
        let shape = Shape::of(pattern);
        if let Some(table) = self.0.iter_mut().find(|table| table.shape == shape) {
            table.remove(Key::of(pattern), number);
        }
    }
}

/// Messages that no receive has taken, by their numbers, which rise.
#[derive(Clone, Debug)]
pub(super) struct UnexpectedIndex {
    /// The table of exact patterns.
    exact: ShapeTable,
    /// Those of other shapes that were asked for, the one asked last in front.
    others: VecDeque<ShapeTable>,
}

impl Default for UnexpectedIndex {
    fn default() -> Self {
        Self {
            exact: ShapeTable::new(Shape::EXACT),
            others: VecDeque::new(),
        }
    }
}

impl UnexpectedIndex {
    /// Adds a message. Its number is higher than all before.
    pub(super) fn insert(&mut self, envelope: &Envelope, number: u64) {
        for table in self.tables() {
            table.insert(table.shape.key(envelope), number);
        }
    }

    pub(super) fn remove(&mut self, envelope: &Envelope, number: u64) {
        for table in self.tables() {
            table.remove(table.shape.key(envelope), number);
        }
    }

    /// Returns the oldest message that a pattern admits. `all` are the messages of the index,
    /// oldest first; they are read only if no search with this shape was made lately.
    pub(super) fn first(
        &mut self,
        pattern: &Pattern,
        all: impl Iterator<Item = (u64, Envelope)>,
    ) -> Option<u64> {
        let (shape, key) = (Shape::of(pattern), Key::of(pattern));
        if self.exact.bins.is_empty() {
            return None;
        }
        if shape == Shape::EXACT {
            return self.exact.first(&key);
        }
        let table = match self.others.iter().position(|table| table.shape == shape) {
            Some(at) => self.others.remove(at)?,
            None => {
                let mut table = ShapeTable::new(shape);
                all.for_each(|(number, envelope)| table.insert(shape.key(&envelope), number));
                self.others.truncate(MAX_SPARE - 1);
                table
            }
        };
        let found = table.first(&key);
        self.others.push_front(table);
        found
    }

    fn tables(&mut self) -> impl Iterator<Item = &mut ShapeTable> {
        core::iter::once(&mut self.exact).chain(&mut self.others)
    }
}
