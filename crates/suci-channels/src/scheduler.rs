//! A scheduler of peers or channels: strict classes, and deficit round robin by weight within a
//! class.
//!
//! A *flow* is a peer or a channel, named by its index. Each class has a ring, a circular list
//! through the entries themselves, and a bitmap tells which rings are not empty. Usually there is
//! one flow, for which a queue would cost more than its turn. The highest class with a listed flow
//! is always served first. Within a class, deficit round robin on bytes applies (Shreedhar and
//! Varghese 1996): the first flow stays first until it sent its quantum, then moves to the end. A
//! train or packet is not divided, so bytes sent beyond a quantum are subtracted from the next one.
//!
//! Choosing takes constant time, plus one step for each flow that is skipped because it owes more
//! than a quantum. At least `QUANTUM` bytes sent before pay for each such step.

use suci_link::planted;

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
/// use suci_channels::scheduler::Priority;
/// let urgent = Priority::new(6, Priority::DEFAULT.weight())?;
/// assert!(urgent.class() > Priority::default().class());
/// assert!(Priority::new(8, 1).is_err() && Priority::new(0, 0).is_err());
/// # Ok::<(), suci_channels::scheduler::PriorityError>(())
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

/// The flows that have something to do, in the order in which they are served.
#[derive(Debug, Default)]
pub struct Scheduler {
    /// The last of each ring, whose next is the first; zero where the ring is empty.
    last: [u32; CLASSES],
    /// A bit for each ring that is not empty.
    occupied: u8,
    entries: Vec<SchedulerEntry>,
    /// Flows that the planted fault `resume-forgets-channel` keeps out.
    #[cfg(suci_plant)]
    forgotten: Vec<usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SchedulerEntry {
    priority: Priority,
    /// Bytes left of the flow's turn; if negative, bytes that it owes.
    left: i32,
    listed: bool,
    /// The next flow in the ring, while this one is listed.
    next: u32,
}

impl SchedulerEntry {
    /// Subtracts `bytes` that the flow sent.
    fn charge(&mut self, bytes: usize) {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        self.left = self.left.saturating_sub(bytes);
    }
}

impl Scheduler {
    /// Changes a flow's priority. In its new class it begins at the end.
    pub fn set_priority(&mut self, flow: usize, priority: Priority) {
        let listed = self.remove(flow);
        self.entry(flow).priority = priority;
        if listed {
            self.add(flow);
        }
    }

    /// Returns the priority of a flow.
    pub fn priority(&self, flow: usize) -> Priority {
        self.entries
            .get(flow)
            .map_or(Priority::DEFAULT, |e| e.priority)
    }

    /// Lists a flow that has something to do at the end of its class, unless it is listed already.
    /// Returns that class.
    #[inline]
    pub fn add(&mut self, flow: usize) -> u8 {
        #[cfg(suci_plant)]
        if self.forgotten.contains(&flow) {
            return self.priority(flow).class;
        }
        let Some(entry) = self.entries.get_mut(flow) else {
            return self.list(flow);
        };
        let class = entry.priority.class;
        if entry.listed {
            return class;
        }
        if self.occupied & bit(class) != 0 {
            return self.list(flow);
        }
        entry.listed = true;
        // `u32` suffices: more flows do not fit in memory.
        entry.next = flow as u32;
        self.last[usize::from(class)] = flow as u32;
        self.occupied |= bit(class);
        class
    }

    /// As [`add`](Self::add), for a flow that is new, or not alone in its class.
    #[inline(never)]
    fn list(&mut self, flow: usize) -> u8 {
        let class = self.entry(flow).priority.class;
        if self.occupied & bit(class) == 0 {
            return self.add(flow);
        }
        let last = core::mem::replace(&mut self.last[usize::from(class)], flow as u32);
        let next = core::mem::replace(&mut self.entry(last as usize).next, flow as u32);
        let entry = self.entry(flow);
        entry.listed = true;
        entry.next = next;
        class
    }

    /// Returns true if the flow waits for its turn.
    #[inline]
    #[must_use]
    pub fn is_listed(&self, flow: usize) -> bool {
        self.entries.get(flow).is_some_and(|e| e.listed)
    }

    /// Returns true if no flow waits for its turn.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// Returns the only listed flow, if exactly one is listed.
    pub fn only(&self) -> Option<usize> {
        let (last, entry) = self.last()?;
        let alone = self.occupied.is_power_of_two() && entry.next as usize == last;
        alone.then_some(last)
    }

    /// Returns the flow whose turn it is.
    #[inline]
    pub fn front(&mut self) -> Option<usize> {
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

    /// Returns true if the first flow is the only one in its class.
    pub fn is_front_alone(&self) -> bool {
        self.last()
            .is_some_and(|(last, entry)| entry.next as usize == last)
    }

    /// Returns the last flow of the class whose turn it is.
    fn last(&self) -> Option<(usize, &SchedulerEntry)> {
        let last = self.last[usize::from(self.front_class()?)] as usize;
        Some((last, self.entries.get(last)?))
    }

    /// Returns the bytes that `flow` may still send in its turn.
    pub fn left(&self, flow: usize) -> i64 {
        self.entries
            .get(flow)
            .map_or(0, |entry| i64::from(entry.left))
    }

    /// Returns the class whose turn it is.
    pub fn front_class(&self) -> Option<u8> {
        self.occupied.checked_ilog2().map(|class| class as u8)
    }

    /// Charges `bytes` to the first flow, which sent them. When its turn is over, it moves to the
    /// end of its class.
    pub fn charge(&mut self, bytes: usize) {
        let Some((first, entry)) = self.first() else {
            return;
        };
        entry.charge(bytes);
        if entry.left <= 0 {
            self.rotate(first);
        }
    }

    /// Charges `bytes` that a flow sent out of its turn to its next turns.
    pub fn debit(&mut self, flow: usize, bytes: usize) {
        if let Some(entry) = self.entries.get_mut(flow) {
            entry.charge(bytes);
        }
    }

    /// Charges `bytes` to the first flow, and removes it: it has nothing more to do.
    pub fn finish_front(&mut self, bytes: usize) {
        if let Some((_, entry)) = self.first() {
            entry.charge(bytes);
        }
        self.drop_front();
    }

    /// Ends the turn of the first flow, even if bytes are left of it, and moves it to the end of
    /// its class.
    pub fn pass(&mut self) {
        if let Some((first, _)) = self.first() {
            self.rotate(first);
        }
    }

    /// Removes the first flow, which has nothing more to do. It forfeits the rest of its turn;
    /// bytes that it owes stay.
    pub fn drop_front(&mut self) {
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

    /// Returns the first flow.
    fn first(&mut self) -> Option<(u32, &mut SchedulerEntry)> {
        let (_, last) = self.last()?;
        let first = last.next;
        Some((first, self.entries.get_mut(first as usize)?))
    }

    /// Moves `first`, the first flow, to the end of its class.
    fn rotate(&mut self, first: u32) {
        if let Some(class) = self.front_class() {
            self.last[usize::from(class)] = first;
        }
    }

    /// Resets a flow that is given up: its next user begins with the defaults.
    pub fn forget(&mut self, flow: usize) {
        self.remove(flow);
        *self.entry(flow) = SchedulerEntry::default();
    }

    /// Plants the fault `resume-forgets-channel`: the first flow never has a turn again.
    #[cfg(suci_plant)]
    pub fn plant_forgotten(&mut self) {
        let first = self.front();
        self.drop_front();
        self.forgotten.extend(first);
    }

    /// Returns the flows that have something to do, in the order of their turns.
    pub fn flows(&self) -> impl Iterator<Item = usize> {
        let classes = (0..CLASSES as u8).rev();
        let occupied = classes.filter(|class| self.occupied & bit(*class) != 0);
        occupied.flat_map(|class| {
            let last = self.last[usize::from(class)];
            let next = |flow: u32| self.entries.get(flow as usize).map(|entry| entry.next);
            let flows = core::iter::successors(next(last), move |flow| {
                next(*flow).filter(|_| *flow != last)
            });
            flows.map(|flow| flow as usize)
        })
    }

    /// Moves a flow that had its turn out of order to the end of its class. Not for the hot path.
    pub fn send_back(&mut self, flow: usize) {
        if self.remove(flow) {
            self.add(flow);
        }
    }

    /// Removes a flow from its ring. Returns whether it was listed. Not for the hot path.
    pub fn remove(&mut self, flow: usize) -> bool {
        let entry = self.entry(flow);
        let (class, listed) = (entry.priority.class, entry.listed);
        let next = core::mem::take(&mut entry.next);
        entry.listed = false;
        if listed {
            self.unlink(class, flow as u32, next);
        }
        listed
    }

    /// Removes `flow`, which `next` follows, from its ring.
    fn unlink(&mut self, class: u8, flow: u32, next: u32) {
        if flow == next {
            return self.empty(class, bit(class));
        }
        // Find the flow before it by going around the ring.
        let mut before = next;
        while let Some(entry) = self.entries.get_mut(before as usize)
            && entry.listed
        {
            if entry.next == flow {
                entry.next = next;
                break;
            }
            before = entry.next;
        }
        let last = &mut self.last[usize::from(class)];
        if *last == flow {
            *last = before;
        }
    }

    /// Empties the ring of `class`, and clears `bits`.
    fn empty(&mut self, class: u8, bits: u8) {
        self.last[usize::from(class)] = 0;
        self.occupied &= !bits;
    }

    fn entry(&mut self, flow: usize) -> &mut SchedulerEntry {
        if flow >= self.entries.len() {
            let len = flow + 1;
            if len > self.entries.capacity() {
                // Grow by an eighth only, since there may be ten thousand peers.
                self.entries
                    .reserve_exact(len + len / 8 - self.entries.len());
            }
            self.entries.resize(len, SchedulerEntry::default());
        }
        &mut self.entries[flow]
    }
}

/// Returns a class's bit among those of the rings.
const fn bit(class: u8) -> u8 {
    1 << class
}

/// Returns the bits of the rings that are empty once `class` is.
fn emptied(class: u8) -> u8 {
    let bit = bit(class);
    if planted("class-starves-class") {
        // The class below counts as empty too: its flows are forgotten.
        return bit | bit >> 1;
    }
    bit
}

#[cfg(test)]
mod tests;
