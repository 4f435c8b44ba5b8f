//! Contexts: independent users of one node's operations.

use core::fmt;

/// Bits of a tag below its context.
const BITS: u32 = 56;

/// Bits of an operation's number below its context, and of the parts of an operation below both.
pub(super) const NUMBER_BITS: u32 = 40;
pub(super) const PART_BITS: u32 = 16;

const _: () = assert!(NUMBER_BITS + PART_BITS == BITS, "a tag has 64 bits");

/// One of up to 256 users of a node's one-sided operations. A fence or quiet of one does not cover
/// the operations of others, and failures are reported to the one whose operation failed.
///
/// It is the highest byte of the tags of its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Context(u8);

impl Context {
    /// The context of all operations that belong to no other.
    pub const NODE: Self = Self(0);

    /// Returns all contexts but [`NODE`](Self::NODE).
    pub(super) fn others() -> impl Iterator<Item = Self> {
        (1..=u8::MAX).map(Self)
    }

    /// Returns the context of a message with this tag.
    pub(super) const fn of_tag(tag: u64) -> Self {
        let [context, ..] = tag.to_be_bytes();
        Self(context)
    }

    /// Returns the context of the operation with this number.
    pub(super) const fn of_operation(number: u64) -> Self {
        Self::of_tag(number << PART_BITS)
    }

    /// Returns the operation number of this context that `number` has. It is not 0 below the
    /// context's bits, unless `number` is.
    pub(super) const fn operation(self, number: u64) -> u64 {
        (self.0 as u64) << NUMBER_BITS | (number & ((1 << NUMBER_BITS) - 1))
    }

    /// Returns the tag of its requests that ask for no reply.
    pub(super) const fn unanswered_tag(self) -> u64 {
        self.operation(0) << PART_BITS
    }
}

/// Returns true if a request with this tag asks for no reply. A flush is answered in any case.
pub(super) const fn is_unanswered(tag: u64) -> bool {
    tag == Context::of_tag(tag).unanswered_tag()
}

/// All contexts of the node are in use: close one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyContexts;

impl fmt::Display for TooManyContexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all 255 contexts of the node are in use: close one first")
    }
}

impl core::error::Error for TooManyContexts {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_numbers_have_their_context() {
        for context in [Context::NODE].into_iter().chain(Context::others()) {
            assert!(is_unanswered(context.unanswered_tag()));
            assert_eq!(Context::of_tag(context.unanswered_tag()), context);
            for number in [1, 77, (1 << NUMBER_BITS) - 1, (1 << NUMBER_BITS) + 5] {
                let operation = context.operation(number);
                assert_eq!(Context::of_operation(operation), context);
                for part in [0, 1, (1 << PART_BITS) - 1] {
                    let tag = operation << PART_BITS | part;
                    assert!(!is_unanswered(tag), "{tag:x}");
                    assert_eq!(Context::of_tag(tag), context);
                }
            }
        }
    }
}
