//! Which bytes of a region an operation touches.

use core::fmt;
use suci_proto::limits::MAX_MESSAGE;

/// Maximum number of extents of a scattered or gathered operation: their list fits the user header
/// of a message, so that the target knows where the bytes belong before they arrive. libfabric
/// calls this limit `rma_iov_limit`. A longer list goes as several operations.
pub const MAX_EXTENTS: usize = 12;

/// Maximum number of elements of a strided operation. It bounds the time that a target spends on
/// one request. A longer array goes as several operations.
pub const MAX_ELEMENTS: u32 = 65_536;

/// Consecutive bytes of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
}

impl Extent {
    /// Returns the offset behind the last byte, if there is such an offset.
    const fn end(self) -> Option<u64> {
        self.offset.checked_add(self.length)
    }
}

/// The bytes of a region that an operation reads or writes, in the order in which a message carries
/// them. No layout reaches beyond offset 2^64 - 1 or has more bytes than a message may have.
///
/// Extents of one layout should not overlap: which of their bytes win is not defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout(Form);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Contiguous(Extent),
    Strided {
        offset: u64,
        element: u64,
        stride: u64,
        count: u32,
    },
    Extents(Box<[Extent]>),
}

/// Numbers that are no layout, with the rule that they break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidLayout(pub &'static str);

impl fmt::Display for InvalidLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid layout: {}", self.0)
    }
}

impl core::error::Error for InvalidLayout {}

const TOO_FAR: InvalidLayout = InvalidLayout("it ends beyond offset 2^64 - 1");
const TOO_LONG: InvalidLayout = InvalidLayout("it has more bytes than a message may have");

impl Layout {
    /// Returns the `length` bytes from `offset` on.
    ///
    /// # Errors
    /// The end is beyond 2^64 - 1, or the length beyond 2^48 - 1.
    pub fn contiguous(offset: u64, length: u64) -> Result<Self, InvalidLayout> {
        Self(Form::Contiguous(Extent { offset, length })).checked()
    }

    /// Returns `count` elements of `element` bytes each, whose beginnings are `stride` bytes apart.
    /// The first one is at `offset`. This is the layout of `shmem_iput` and `shmem_iget`.
    ///
    /// # Errors
    /// There is no element or more than [`MAX_ELEMENTS`], an element is empty or longer than the
    /// stride, or the same as for [`contiguous`](Self::contiguous).
    pub fn strided(
        offset: u64,
        element: u64,
        stride: u64,
        count: u32,
    ) -> Result<Self, InvalidLayout> {
        if count == 0 || count > MAX_ELEMENTS {
            return Err(InvalidLayout("it has no element, or more than 65,536"));
        }
        if element == 0 || element > stride {
            return Err(InvalidLayout(
                "its elements are empty or longer than the stride",
            ));
        }
        Self(Form::Strided {
            offset,
            element,
            stride,
            count,
        })
        .checked()
    }

    /// Returns a list of extents, in this order.
    ///
    /// # Errors
    /// There is no extent or more than [`MAX_EXTENTS`], an extent is empty, or the same as for
    /// [`contiguous`](Self::contiguous).
    pub fn extents(extents: &[Extent]) -> Result<Self, InvalidLayout> {
        if extents.is_empty() || extents.len() > MAX_EXTENTS {
            return Err(InvalidLayout("it has no extent, or more than 12"));
        }
        if extents.iter().any(|extent| extent.length == 0) {
            return Err(InvalidLayout("an extent is empty"));
        }
        Self(Form::Extents(extents.into())).checked()
    }

    /// Returns true if the bytes are consecutive.
    pub(super) const fn is_contiguous(&self) -> bool {
        matches!(self.0, Form::Contiguous(_))
    }

    fn checked(self) -> Result<Self, InvalidLayout> {
        self.checked_end().ok_or(TOO_FAR)?;
        let total = self.checked_total().ok_or(TOO_LONG)?;
        (total <= MAX_MESSAGE).then_some(self).ok_or(TOO_LONG)
    }

    fn checked_end(&self) -> Option<u64> {
        match &self.0 {
            Form::Contiguous(extent) => extent.end(),
            Form::Strided {
                offset,
                element,
                stride,
                count,
            } => {
                let last = stride.checked_mul(u64::from(count.checked_sub(1)?))?;
                offset.checked_add(last)?.checked_add(*element)
            }
            Form::Extents(extents) => extents.iter().try_fold(0, |end: u64, extent| {
                extent.end().map(|other| end.max(other))
            }),
        }
    }

    fn checked_total(&self) -> Option<u64> {
        match &self.0 {
            Form::Contiguous(extent) => Some(extent.length),
            Form::Strided { element, count, .. } => element.checked_mul(u64::from(*count)),
            Form::Extents(extents) => extents
                .iter()
                .try_fold(0_u64, |sum, extent| sum.checked_add(extent.length)),
        }
    }

    pub(super) const fn form(&self) -> &Form {
        &self.0
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.checked_total().unwrap_or(u64::MAX)
    }

    /// Returns the lowest offset of a byte.
    #[must_use]
    pub fn start(&self) -> u64 {
        match &self.0 {
            Form::Contiguous(extent) => extent.offset,
            Form::Strided { offset, .. } => *offset,
            Form::Extents(extents) => extents.iter().map(|e| e.offset).min().unwrap_or(0),
        }
    }

    /// Returns the offset behind the highest byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.checked_end().unwrap_or(u64::MAX)
    }

    /// Returns the part of this layout from position `at` on, `length` bytes, if this layout is
    /// contiguous and has these bytes.
    pub(super) fn part(&self, at: u64, length: u64) -> Option<Self> {
        match &self.0 {
            Form::Contiguous(extent) if at.checked_add(length)? <= extent.length => {
                Self::contiguous(extent.offset.checked_add(at)?, length).ok()
            }
            _ => None,
        }
    }

    /// Returns the consecutive bytes that begin with the byte at position `at` of the message.
    fn extent_at(&self, at: u64) -> Option<Extent> {
        match &self.0 {
            Form::Contiguous(extent) => within(*extent, at),
            Form::Strided {
                offset,
                element,
                stride,
                count,
            } => {
                let index = at.checked_div(*element)?;
                let offset = offset.checked_add(index.checked_mul(*stride)?)?;
                let length = *element;
                let extent = within(Extent { offset, length }, at.checked_rem(*element)?)?;
                (index < u64::from(*count)).then_some(extent)
            }
            Form::Extents(extents) => {
                let mut at = at;
                for extent in extents {
                    if at < extent.length {
                        return within(*extent, at);
                    }
                    at -= extent.length;
                }
                None
            }
        }
    }

    /// Returns the consecutive parts of the region that hold the `length` bytes of the message from
    /// position `at` on, in this order. Ends early if the layout has fewer bytes.
    pub(super) fn walk(&self, at: u64, length: u64) -> impl Iterator<Item = Extent> {
        let (mut at, mut left) = (at, length);
        core::iter::from_fn(move || {
            let mut extent = self.extent_at(at).filter(|_| left > 0)?;
            extent.length = extent.length.min(left);
            at = at.checked_add(extent.length)?;
            left -= extent.length;
            Some(extent)
        })
    }
}

/// Returns what is left of `extent` from its byte `at` on.
fn within(extent: Extent, at: u64) -> Option<Extent> {
    let length = extent.length.checked_sub(at).filter(|left| *left > 0)?;
    let offset = extent.offset.checked_add(at)?;
    Some(Extent { offset, length })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(offset: u64, length: u64) -> Extent {
        Extent { offset, length }
    }

    #[test]
    fn numbers_that_overflow_are_no_layout() {
        assert_eq!(Layout::contiguous(u64::MAX, 1), Err(TOO_FAR));
        assert_eq!(Layout::contiguous(0, MAX_MESSAGE + 1), Err(TOO_LONG));
        assert_eq!(Layout::strided(1, 2, u64::MAX / 2, 3), Err(TOO_FAR));
        assert_eq!(Layout::strided(u64::MAX - 9, 5, 5, 3), Err(TOO_FAR));
        let half = 1 << 47;
        assert_eq!(
            Layout::extents(&[extent(0, half), extent(half, half)]),
            Err(TOO_LONG)
        );
        assert_eq!(
            Layout::extents(&[extent(3, 1), extent(u64::MAX - 1, 2)]),
            Err(TOO_FAR)
        );
        assert!(Layout::contiguous(u64::MAX - 1, 1).is_ok());
    }

    #[test]
    fn lists_have_bounds() {
        assert!(Layout::strided(0, 1, 1, 0).is_err());
        assert!(Layout::strided(0, 1, 1, MAX_ELEMENTS + 1).is_err());
        assert!(Layout::strided(0, 0, 1, 1).is_err());
        assert!(Layout::strided(0, 2, 1, 1).is_err());
        assert!(Layout::extents(&[]).is_err());
        assert!(Layout::extents(&[extent(0, 0)]).is_err());
        assert!(Layout::extents(&[extent(0, 1); MAX_EXTENTS + 1]).is_err());
        assert!(Layout::extents(&[extent(0, 1); MAX_EXTENTS]).is_ok());
    }

    /// However a layout is cut, each byte has the same place.
    #[test]
    fn walks_give_each_byte_its_place() {
        let layouts = [
            (
                Layout::contiguous(5, 7).unwrap(),
                vec![5, 6, 7, 8, 9, 10, 11],
            ),
            (
                Layout::strided(2, 3, 5, 3).unwrap(),
                vec![2, 3, 4, 7, 8, 9, 12, 13, 14],
            ),
            (
                Layout::extents(&[extent(20, 2), extent(4, 3)]).unwrap(),
                vec![20, 21, 4, 5, 6],
            ),
        ];
        for (layout, places) in layouts {
            assert_eq!(layout.total(), places.len() as u64);
            assert_eq!(Some(layout.start()), places.iter().min().copied());
            assert_eq!(Some(layout.end() - 1), places.iter().max().copied());
            for from in 0..=places.len() {
                for to in from..=places.len() + 1 {
                    let walk = layout.walk(from as u64, (to - from) as u64);
                    let bytes = walk.flat_map(|e| e.offset..e.offset + e.length);
                    let bytes: Vec<_> = bytes.collect();
                    assert_eq!(bytes, places[from..to.min(places.len())], "{layout:?}");
                }
            }
        }
    }
}
