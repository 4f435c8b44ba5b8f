//! A scheduler of peers or channels: strict classes, and deficit round robin by weight within a
//! class.
//!
//! A *place* is the index of a peer or channel. Each class has a ring, a circular list through the
//! entries themselves, and a bitmap tells which rings are not empty. Usually there is one place,
//! for which a queue would cost more than its turn. The highest class with a listed place is always
//! served first. Within a class, deficit round robin on bytes applies (Shreedhar and Varghese
//! 1996): the first place stays first until it sent its quantum, then moves to the end. A train or
//! packet is not divided, so bytes sent beyond a quantum are subtracted from the next one.
//!
//! Choosing takes constant time, plus one step for each place that is skipped because it owes more
//! than a quantum. At least [`QUANTUM`] bytes sent before pay for each such step.

/// How many classes there are: the highest is 7.
pub const CLASSES: usize = 8;

/// Bytes of each round for a weight of 1; the default weight makes 64 KiB, about one train.
const QUANTUM: i32 = 4_096;

/// The priority of a destination or a channel among others of the same node or destination.
///
/// *Classes are strict*: while a higher class has anything that may be sent, a lower one sends
/// nothing. A peer or channel that may not send (no credit, a full window, suspended) delays no
/// other. *Within a class* all take turns, and bytes are divided by weight; none starves.
///
/// ```
/// use suci_proto::Priority;
/// let urgent = Priority::new(6, Priority::DEFAULT.weight())?;
/// assert!(urgent.class() > Priority::default().class());
/// assert!(Priority::new(8, 1).is_err() && Priority::new(0, 0).is_err());
/// # Ok::<(), suci_proto::PriorityError>(())
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
    /// The priority unless another was set: class 3, weight 16.
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

    /// Returns its class, 0 to 7; higher goes first.
    #[must_use]
    pub const fn class(self) -> u8 {
        self.class
    }

    /// Returns its weight within the class, 1 to 255.
    #[must_use]
    pub const fn weight(self) -> u8 {
        self.weight
    }

    /// Returns the bytes of one turn.
    const fn quantum(self) -> i32 {
        QUANTUM * self.weight as i32
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The places that have something to do, in the order in which they are served.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    /// The last of each ring, whose next is the first; zero where the ring is empty.
    last: [u32; CLASSES],
    /// A bit for each ring that is not empty.
    occupied: u8,
    entries: Vec<SchedulerEntry>,
    /// Places that the planted fault `resume-forgets-channel` keeps out.
    #[cfg(suci_plant)]
    forgotten: Vec<usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SchedulerEntry {
    priority: Priority,
    /// Bytes left of the place's turn; if negative, bytes that it owes.
    left: i32,
    listed: bool,
    /// The next place in the ring, while this one is listed.
    next: u32,
}

impl SchedulerEntry {
    /// Subtracts `bytes` that the place sent.
    fn charge(&mut self, bytes: usize) {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        self.left = self.left.saturating_sub(bytes);
    }
}

impl Scheduler {
    /// Changes a place's priority. In its new class it begins at the end.
    pub(crate) fn set_priority(&mut self, place: usize, priority: Priority) {
        let listed = self.remove(place);
        self.entry(place).priority = priority;
        if listed {
            self.add(place);
        }
    }

    /// Returns the priority of a place.
    pub(crate) fn priority(&self, place: usize) -> Priority {
        self.entries
            .get(place)
            .map_or(Priority::DEFAULT, |e| e.priority)
    }

    /// Lists a place that has something to do at the end of its class, unless it is listed already.
    /// Returns that class.
    #[inline]
    pub(crate) fn add(&mut self, place: usize) -> u8 {
        #[cfg(suci_plant)]
        if self.forgotten.contains(&place) {
            return self.priority(place).class;
        }
        let Some(entry) = self.entries.get_mut(place) else {
            return self.list(place);
        };
        let class = entry.priority.class;
        if entry.listed {
            return class;
        }
        if self.occupied & bit(class) != 0 {
            return self.list(place);
        }
        entry.listed = true;
        // `u32` suffices: more places do not fit in memory.
        entry.next = place as u32;
        self.last[usize::from(class)] = place as u32;
        self.occupied |= bit(class);
        class
    }

    /// As [`add`](Self::add), for a place that is new, or not alone in its class.
    #[inline(never)]
    fn list(&mut self, place: usize) -> u8 {
        let class = self.entry(place).priority.class;
        if self.occupied & bit(class) == 0 {
            return self.add(place);
        }
        let last = core::mem::replace(&mut self.last[usize::from(class)], place as u32);
        let next = core::mem::replace(&mut self.entry(last as usize).next, place as u32);
        let entry = self.entry(place);
        entry.listed = true;
        entry.next = next;
        class
    }

    #[inline]
    pub(crate) fn is_listed(&self, place: usize) -> bool {
        self.entries.get(place).is_some_and(|e| e.listed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// Returns the only listed place, if exactly one is listed.
    pub(crate) fn only(&self) -> Option<usize> {
        let (last, entry) = self.last()?;
        let alone = self.occupied.is_power_of_two() && entry.next as usize == last;
        alone.then_some(last)
    }

    /// Returns the place whose turn it is.
    #[inline]
    pub(crate) fn front(&mut self) -> Option<usize> {
        let class = usize::from(self.front_class()?);
        loop {
            let first = self.entries.get(self.last[class] as usize)?.next;
            let entry = self.entries.get_mut(first as usize)?;
            if entry.left <= 0 {
                entry.left += entry.priority.quantum();
            }
            if entry.left > 0 {
                return Some(first as usize);
            }
            self.last[class] = first;
        }
    }

    /// Returns true if the first place is the only one in its class.
    pub(crate) fn is_front_alone(&self) -> bool {
        self.last()
            .is_some_and(|(last, entry)| entry.next as usize == last)
    }

    /// Returns the last place of the class whose turn it is.
    fn last(&self) -> Option<(usize, &SchedulerEntry)> {
        let last = self.last[usize::from(self.front_class()?)] as usize;
        Some((last, self.entries.get(last)?))
    }

    /// Returns the bytes that `place` may still send in its turn.
    pub(crate) fn left(&self, place: usize) -> i64 {
        self.entries
            .get(place)
            .map_or(0, |entry| i64::from(entry.left))
    }

    /// Returns the class whose turn it is.
    pub(crate) fn front_class(&self) -> Option<u8> {
        self.occupied.checked_ilog2().map(|class| class as u8)
    }

    /// Charges `bytes` to the first place, which sent them. When its turn is over, it moves to the
    /// end of its class.
    pub(crate) fn charge(&mut self, bytes: usize) {
        let Some((first, entry)) = self.first() else {
            return;
        };
        entry.charge(bytes);
        if entry.left <= 0 {
            self.rotate(first);
        }
    }

    /// Charges `bytes` that a place sent out of its turn to its next turns.
    pub(crate) fn owe(&mut self, place: usize, bytes: usize) {
        if let Some(entry) = self.entries.get_mut(place) {
            entry.charge(bytes);
        }
    }

    /// Charges `bytes` to the first place, and removes it: it has nothing more to do.
    pub(crate) fn finish_front(&mut self, bytes: usize) {
        if let Some((_, entry)) = self.first() {
            entry.charge(bytes);
        }
        self.drop_front();
    }

    /// Ends the turn of the first place, even if bytes are left of it, and moves it to the end of
    /// its class.
    pub(crate) fn pass(&mut self) {
        if let Some((first, _)) = self.first() {
            self.rotate(first);
        }
    }

    /// Removes the first place, which has nothing more to do. It forfeits the rest of its turn;
    /// bytes that it owes stay.
    pub(crate) fn drop_front(&mut self) {
        let Some(class) = self.front_class() else {
            return;
        };
        let last = self.last[usize::from(class)];
        let Some((first, entry)) = self.first() else {
            return;
        };
        entry.listed = false;
        entry.left = entry.left.min(0);
        let next = core::mem::take(&mut entry.next);
        if first == last {
            self.empty(class, emptied(class));
        } else {
            self.entry(last as usize).next = next;
        }
    }

    /// Returns the first place.
    fn first(&mut self) -> Option<(u32, &mut SchedulerEntry)> {
        let (_, last) = self.last()?;
        let first = last.next;
        Some((first, self.entries.get_mut(first as usize)?))
    }

    /// Moves `first`, the first place, to the end of its class.
    fn rotate(&mut self, first: u32) {
        if let Some(class) = self.front_class() {
            self.last[usize::from(class)] = first;
        }
    }

    /// Resets a place that is given up: its next user begins with the defaults.
    pub(crate) fn forget(&mut self, place: usize) {
        self.remove(place);
        *self.entry(place) = SchedulerEntry::default();
    }

    /// Plants the fault `resume-forgets-channel`: the first place never has a turn again.
    #[cfg(suci_plant)]
    pub(crate) fn plant_forgotten(&mut self) {
        let first = self.front();
        self.drop_front();
        self.forgotten.extend(first);
    }

    /// Returns the places that have something to do, in the order of their turns.
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> {
        let classes = (0..CLASSES as u8).rev();
        let occupied = classes.filter(|class| self.occupied & bit(*class) != 0);
        occupied.flat_map(|class| {
            let last = self.last[usize::from(class)];
            let next = |place: u32| self.entries.get(place as usize).map(|entry| entry.next);
            let places = core::iter::successors(next(last), move |place| {
                next(*place).filter(|_| *place != last)
            });
            places.map(|place| place as usize)
        })
    }

    /// Moves a place that had its turn out of order to the end of its class. Not for the hot path.
    pub(crate) fn send_back(&mut self, place: usize) {
        if self.remove(place) {
            self.add(place);
        }
    }

    /// Removes a place from its ring. Returns whether it was listed. Not for the hot path.
    pub(crate) fn remove(&mut self, place: usize) -> bool {
        let entry = self.entry(place);
        let (class, listed) = (entry.priority.class, entry.listed);
        let next = core::mem::take(&mut entry.next);
        entry.listed = false;
        if listed {
            self.unlink(class, place as u32, next);
        }
        listed
    }

    /// Removes `place`, which `next` follows, from its ring.
    fn unlink(&mut self, class: u8, place: u32, next: u32) {
        if place == next {
            return self.empty(class, bit(class));
        }
        // Find the place before it by going around the ring.
        let mut before = next;
        while let Some(entry) = self.entries.get_mut(before as usize)
            && entry.listed
        {
            if entry.next == place {
                entry.next = next;
                break;
            }
            before = entry.next;
        }
        let last = &mut self.last[usize::from(class)];
        if *last == place {
            *last = before;
        }
    }

    /// Empties the ring of `class`, and clears `bits`.
    fn empty(&mut self, class: u8, bits: u8) {
        self.last[usize::from(class)] = 0;
        self.occupied &= !bits;
    }

    fn entry(&mut self, place: usize) -> &mut SchedulerEntry {
        if place >= self.entries.len() {
            let len = place + 1;
            if len > self.entries.capacity() {
                // Grow by an eighth only, since there may be ten thousand peers.
                self.entries
                    .reserve_exact(len + len / 8 - self.entries.len());
            }
            self.entries.resize(len, SchedulerEntry::default());
        }
        &mut self.entries[place]
    }
}

/// Returns a class's bit among those of the rings.
const fn bit(class: u8) -> u8 {
    1 << class
}

/// Returns the bits of the rings that are empty once `class` is.
fn emptied(class: u8) -> u8 {
    let bit = bit(class);
    #[cfg(suci_plant)]
    if crate::plant::active("class-starves-class") {
        // The class below counts as empty too: its places are forgotten.
        return bit | bit >> 1;
    }
    bit
}

#[cfg(test)]
mod tests;
