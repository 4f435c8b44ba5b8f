//! The arguments of an operation that all members must have in common.

use super::Kind;

/// Bytes of the arguments in a message.
const LENGTH: usize = 16;

/// The arguments that all members must name alike. Each message of an operation has them, so that a
/// member takes no data of one whose call differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arguments {
    /// The operation.
    pub kind: Kind,
    /// The root's rank; 0 if the operation has none.
    pub root: u32,
    /// Bytes of the buffer that all members have, or of all members' parts together; 0 if members
    /// do not know it of one another.
    pub length: u64,
    /// A checksum of the rest: the elements, the combination, the length of each member's part.
    pub checksum: u32,
}

/// 32-bit FNV-1a (Fowler, Noll, Vo; RFC 9923).
const BASIS: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;

impl Arguments {
    /// Returns those of an operation without a root.
    pub(super) fn new(kind: Kind, length: usize) -> Self {
        Self {
            kind,
            root: 0,
            length: length as u64,
            checksum: BASIS,
        }
    }

    /// Returns the same with a root.
    pub(super) fn at(mut self, root: usize) -> Self {
        self.root = u32::try_from(root).unwrap_or(u32::MAX);
        self
    }

    /// Returns the same with the lengths of the members' parts.
    pub(super) fn in_parts(mut self, lengths: &[usize]) -> Self {
        self.length = lengths.iter().map(|length| *length as u64).sum();
        for length in lengths {
            self.add(&(*length as u64).to_le_bytes());
        }
        self
    }

    /// Returns the same with the name of the combination.
    pub(super) fn by(mut self, combination: &str) -> Self {
        self.add(combination.as_bytes());
        self
    }

    /// Adds `bytes` to the checksum.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.checksum = (self.checksum ^ u32::from(*byte)).wrapping_mul(PRIME);
        }
    }

    /// Returns the bytes for a message: root, length and checksum, little-endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let fields = self.root.to_le_bytes().into_iter();
        let fields = fields.chain(self.length.to_le_bytes());
        let fields = fields.chain(self.checksum.to_le_bytes());
        bytes
            .iter_mut()
            .zip(fields)
            .for_each(|(to, from)| *to = from);
        bytes
    }

    /// Reads those of an operation of this kind from a message, if it has them.
    #[must_use]
    pub fn from_bytes(kind: Kind, bytes: &[u8]) -> Option<Self> {
        let (root, rest) = bytes.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        Some(Self {
            kind,
            root: u32::from_le_bytes(*root),
            length: u64::from_le_bytes(*length),
            checksum: u32::from_le_bytes(rest.try_into().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{Collective, Place};
    use crate::element::{Combine, Max, Sum};

    #[test]
    fn arguments_are_the_same_after_a_message() {
        let some = Arguments::new(Kind::Gather, 0).at(3).in_parts(&[8, 24]);
        assert_eq!(some.length, 32);
        assert_eq!(
            Arguments::from_bytes(Kind::Gather, &some.to_bytes()),
            Some(some)
        );
        assert_eq!(
            Arguments::from_bytes(Kind::Gather, &some.to_bytes()[..15]),
            None
        );
    }

    /// Each argument that members must have in common changes them; what may differ does not.
    #[test]
    fn arguments_differ_as_the_calls_do() {
        let at = |rank| Place { rank, size: 4 };
        let of = |work: Collective| work.arguments();
        let sum = || Combine::new::<u32, _>(Sum);
        let max = Combine::new::<u32, _>(Max);
        let one = of(Collective::reduce(at(0), 1, vec![0; 8], sum()));
        assert_eq!(one, of(Collective::reduce(at(3), 1, vec![9; 8], sum())));
        assert_ne!(one, of(Collective::reduce(at(0), 2, vec![0; 8], sum())));
        assert_ne!(one, of(Collective::reduce(at(0), 1, vec![0; 12], sum())));
        assert_ne!(one, of(Collective::reduce(at(0), 1, vec![0; 8], max)));
        let elements = |name| of(Collective::broadcast(at(0), 0, vec![0; 4]).of_elements(name));
        assert_ne!(elements("u32"), elements("f32"));
        let parts = |lengths: &[usize]| of(Collective::gather(at(0), 0, lengths, vec![0; 4]));
        assert_ne!(parts(&[4, 4, 8, 0]), parts(&[4, 8, 4, 0]));
    }
}
