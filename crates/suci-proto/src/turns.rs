//! Whose turn it is: strict classes, and turns by weight within a class.
//!
//! One ring for each class and a bitmap of those that are not empty. The highest class that has
//! anything goes first, always. Within it, deficit round robin on bytes (Shreedhar and Varghese 1996):
//! whoever is first stays first until it sent its quantum, then stands at the end. What was sent
//! beyond a quantum, since a train or a packet is not divided, is owed the next time.
//!
//! Choosing takes constant time, but for one step each time that somebody is passed over who owes more
//! than a quantum; each such step was paid for by at least [`QUANTUM`] bytes that went before.

use crate::fold::{Fold, Words, folds};
use std::collections::VecDeque;

/// How many classes there are: the highest is 7.
pub const CLASSES: usize = 8;

/// Bytes that a weight of 1 stands for in each round; the default weight makes 64 KiB, about one train.
const QUANTUM: i32 = 4_096;

/// How urgent a destination or a channel is, compared with others of the same node or destination.
///
/// *Classes are strict*: while a higher class has anything that may be sent, a lower one sends nothing.
/// Whoever may not send (no credit, a full window, suspended) holds up nobody. *Within a class* everyone
/// has turns, and bytes are divided as the weights are; nobody starves.
///
/// ```
/// use suci_proto::Priority;
/// let urgent = Priority::new(6, Priority::DEFAULT.weight()).unwrap();
/// assert!(urgent.class() > Priority::default().class());
/// assert!(Priority::new(8, 1).is_err() && Priority::new(0, 0).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Priority {
    class: u8,
    weight: u8,
}

/// A class or weight out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("priority of class {class}, weight {weight}: classes are 0 to 7, weights 1 to 255")]
pub struct PriorityError {
    /// The class asked for.
    pub class: u8,
    /// The weight asked for.
    pub weight: u8,
}

impl Priority {
    /// What everything has that nobody named: class 3, weight 16.
    pub const DEFAULT: Self = Self {
        class: 3,
        weight: 16,
    };

    /// Class 0 (lowest) to 7 (highest), weight 1 to 255.
    ///
    /// # Errors
    /// [`PriorityError`]: out of range.
    pub const fn new(class: u8, weight: u8) -> Result<Self, PriorityError> {
        if (class as usize) < CLASSES && weight > 0 {
            Ok(Self { class, weight })
        } else {
            Err(PriorityError { class, weight })
        }
    }

    /// Its class, 0 to 7; higher goes first.
    #[must_use]
    pub const fn class(self) -> u8 {
        self.class
    }

    /// Its weight within the class, 1 to 255.
    #[must_use]
    pub const fn weight(self) -> u8 {
        self.weight
    }

    /// Bytes of one turn.
    const fn quantum(self) -> i32 {
        QUANTUM * self.weight as i32
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Places that have something to do, in the order of their turns.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    rings: [VecDeque<usize>; CLASSES],
    /// A bit for each ring that is not empty.
    occupied: u8,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    priority: Priority,
    /// Bytes left of its turn; below zero what it owes.
    left: i32,
    listed: bool,
}

/// Most have what nobody named: that is zero.
impl Fold for Priority {
    fn fold(&self, to: &mut Words) {
        (self.class ^ Self::DEFAULT.class).fold(to);
        (self.weight ^ Self::DEFAULT.weight).fold(to);
    }

    fn unfold(from: &mut Words) -> Self {
        Self {
            class: u8::unfold(from) ^ Self::DEFAULT.class,
            weight: u8::unfold(from) ^ Self::DEFAULT.weight,
        }
    }
}

folds!(Entry {
    priority,
    left,
    listed,
});

/// Only once [`Turns::rest`] found nobody listed.
impl Fold for Turns {
    fn fold(&self, to: &mut Words) {
        self.entries.fold(to);
    }

    fn unfold(from: &mut Words) -> Self {
        Self {
            entries: Fold::unfold(from),
            ..Self::default()
        }
    }
}

impl Turns {
    /// Changes what a place is worth. In its new class it begins at the end.
    pub(crate) fn set_priority(&mut self, place: usize, priority: Priority) {
        let listed = self.remove(place);
        self.entry(place).priority = priority;
        if listed {
            self.add(place);
        }
    }

    /// What a place is worth.
    pub(crate) fn priority(&self, place: usize) -> Priority {
        self.entries
            .get(place)
            .map_or(Priority::DEFAULT, |e| e.priority)
    }

    /// The place has something to do: it stands at the end of its class, unless it stands there already.
    #[inline]
    pub(crate) fn add(&mut self, place: usize) {
        if !self.is_listed(place) {
            self.list(place);
        }
    }

    fn list(&mut self, place: usize) {
        let entry = self.entry(place);
        entry.listed = true;
        let class = entry.priority.class;
        if let Some(ring) = self.rings.get_mut(usize::from(class)) {
            ring.push_back(place);
            self.occupied |= 1 << class;
        }
    }

    #[inline]
    pub(crate) fn is_listed(&self, place: usize) -> bool {
        self.entries.get(place).is_some_and(|e| e.listed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// The only place that has something to do.
    pub(crate) fn only(&self) -> Option<usize> {
        let ring = self.rings.get(self.occupied.checked_ilog2()? as usize)?;
        let alone = self.occupied.is_power_of_two() && ring.len() == 1;
        ring.front().copied().filter(|_| alone)
    }

    /// Whose turn it is.
    pub(crate) fn front(&mut self) -> Option<usize> {
        let ring = self
            .rings
            .get_mut(self.occupied.checked_ilog2()? as usize)?;
        loop {
            let place = *ring.front()?;
            let entry = self.entries.get_mut(place)?;
            if entry.left <= 0 {
                entry.left += entry.priority.quantum();
            }
            if entry.left > 0 {
                return Some(place);
            }
            ring.rotate_left(1);
        }
    }

    /// Whether nobody else of its class has something to do.
    pub(crate) fn is_front_alone(&self) -> bool {
        let ring = self.front_class().map(usize::from);
        ring.and_then(|class| self.rings.get(class))
            .is_some_and(|ring| ring.len() == 1)
    }

    /// Bytes that `place` may still send in its turn.
    pub(crate) fn left(&self, place: usize) -> i64 {
        self.entries
            .get(place)
            .map_or(0, |entry| i64::from(entry.left))
    }

    /// The class whose turn it is.
    pub(crate) fn front_class(&self) -> Option<u8> {
        self.occupied.checked_ilog2().map(|class| class as u8)
    }

    /// The first place sent `bytes`. When that was its turn, it stands at the end of its class.
    pub(crate) fn charge(&mut self, bytes: usize) {
        let Some(ring) = self
            .front_class()
            .and_then(|c| self.rings.get_mut(usize::from(c)))
        else {
            return;
        };
        let entry = ring.front().and_then(|place| self.entries.get_mut(*place));
        let Some(entry) = entry else { return };
        entry.left = entry
            .left
            .saturating_sub(i32::try_from(bytes).unwrap_or(i32::MAX));
        if entry.left <= 0 {
            ring.rotate_left(1);
        }
    }

    /// The first place sent `bytes`, and has nothing more to do.
    pub(crate) fn finish_front(&mut self, bytes: usize) {
        let ring = self.front_class().map(usize::from);
        let first = ring.and_then(|class| self.rings.get(class)?.front());
        if let Some(entry) = first.and_then(|place| self.entries.get_mut(*place)) {
            let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
            entry.left = entry.left.saturating_sub(bytes);
        }
        self.drop_front();
    }

    /// The first place had its turn, whatever is left of it, and stands at the end of its class.
    pub(crate) fn pass(&mut self) {
        let ring = self
            .front_class()
            .and_then(|c| self.rings.get_mut(usize::from(c)));
        if let Some(ring) = ring
            && ring.len() > 1
        {
            ring.rotate_left(1);
        }
    }

    /// The first place has nothing more to do. It forfeits what is left of its turn; what it owes stays.
    pub(crate) fn drop_front(&mut self) {
        let Some(class) = self.front_class() else {
            return;
        };
        let Some(ring) = self.rings.get_mut(usize::from(class)) else {
            return;
        };
        let place = ring.pop_front();
        if ring.is_empty() {
            self.occupied &= !emptied(class);
        }
        if let Some(entry) = place.and_then(|place| self.entries.get_mut(place)) {
            entry.listed = false;
            entry.left = entry.left.min(0);
        }
    }

    /// The place is given up: whoever has it next begins as everybody does.
    pub(crate) fn forget(&mut self, place: usize) {
        self.remove(place);
        *self.entry(place) = Entry::default();
    }

    /// The planted fault `resume-forgets-channel`: the first has no turn any more, and seems to have one.
    #[cfg(suci_plant)]
    pub(crate) fn plant_forgotten(&mut self) {
        if let Some(place) = self.front() {
            self.drop_front();
            self.entry(place).listed = true;
        }
    }

    /// Gives back what the rings needed when more stood in them. False if anybody does now.
    pub(crate) fn rest(&mut self) -> bool {
        if self.is_empty() {
            self.rings = Default::default();
        }
        self.is_empty()
    }

    /// Takes a place out wherever it stands; whether it stood anywhere. Not for the hot path.
    fn remove(&mut self, place: usize) -> bool {
        let entry = self.entry(place);
        let (class, listed) = (entry.priority.class, entry.listed);
        entry.listed = false;
        if listed && let Some(ring) = self.rings.get_mut(usize::from(class)) {
            ring.retain(|other| *other != place);
            if ring.is_empty() {
                self.occupied &= !(1 << class);
            }
        }
        listed
    }

    fn entry(&mut self, place: usize) -> &mut Entry {
        if place >= self.entries.len() {
            self.entries.resize(place + 1, Entry::default());
        }
        &mut self.entries[place]
    }
}

/// The bits of the rings that are empty once `class` is.
fn emptied(class: u8) -> u8 {
    let bit = 1 << class;
    #[cfg(suci_plant)]
    if crate::plant::active("class-starves-class") {
        // The class below is taken for empty too, and waits until somebody else comes to it.
        return bit | bit >> 1;
    }
    bit
}

#[cfg(test)]
mod tests;
