//! The sizes to which a peer binds its packets (PROTOCOL section 7, "Charge and budget").

use crate::credit::data_charge;
use crate::types::PacketNumber;

/// Bounds of one connection, at most. An honest sender makes one for each time that its path turns
/// out to carry less.
const MOST: usize = 4;

/// The peer's promises (RETURN) that packets with numbers above one have at most so many bytes of
/// UDP payload. The sizes fall from each to the next.
#[derive(Debug, Default)]
pub struct SizeBounds(Vec<(PacketNumber, usize)>);

impl SizeBounds {
    /// Returns true if packets of at most `size` bytes may be charged for that size from now on.
    /// The peer's packets have at most `most` bytes otherwise. Returns false if the charge would
    /// not fall, or if too many bounds are kept already.
    pub fn admit(&self, size: usize, most: usize) -> bool {
        let now = self.0.last().map_or(most, |(_, size)| *size);
        self.0.len() < MOST && data_charge(size) < data_charge(now)
    }

    /// Binds packets with numbers above `last` to a size that was [admitted](Self::admit).
    pub fn add(&mut self, last: PacketNumber, size: usize) {
        debug_assert!(self.0.len() < MOST, "it was not admitted");
        self.0.push((last, size));
    }

    /// Returns the most bytes of UDP payload of the packet `number`, where packets have `most`
    /// otherwise.
    pub fn of(&self, number: PacketNumber, most: usize) -> usize {
        let mut bounds = self.0.iter().rev();
        let bound = bounds.find(|(last, _)| number > *last);
        bound.map_or(most, |(_, size)| *size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f01_a_size_never_rises_and_holds_for_all_numbers_above() {
        let mut bounds = SizeBounds::default();
        assert!(bounds.admit(4_068, 8_972));
        bounds.add(10, 4_068);
        assert!(!bounds.admit(4_068, 8_972) && !bounds.admit(8_972, 8_972));
        assert!(bounds.admit(1_472, 8_972));
        bounds.add(20, 1_472);
        let of = |number| bounds.of(number, 8_972);
        assert_eq!(
            [of(10), of(11), of(20), of(21)],
            [8_972, 4_068, 4_068, 1_472]
        );
    }

    #[test]
    fn f01_bounds_of_a_hostile_peer_are_few() {
        let mut bounds = SizeBounds::default();
        let sizes: Vec<usize> = (1..100).map(|step| 9_000 - step).collect();
        for (last, size) in (1..).zip(sizes) {
            if bounds.admit(size, 9_000) {
                bounds.add(last, size);
            }
        }
        assert_eq!(bounds.0.len(), MOST);
        assert_eq!(bounds.of(1_000, 9_000), 8_996);
    }
}
