//! The payload of a received message. A short payload is stored in the message itself.
//!
//! A [`Bytes`] that shares memory counts its references. That takes two atomic operations for each
//! message, which take longer than all other steps of receiving a short one.

use bytes::Bytes;
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Deref;

/// Bytes of the longest payload that is stored in [`Data`] itself.
const INLINE: usize = 32;

/// The payload of a received message. Programs read it as a slice, or keep, send and share it as
/// [`Bytes`].
///
/// A payload of up to 32 bytes is stored here and holds no other memory. The exceptions were
/// received into a buffer of their own: one that the program supplied, or that of an announced
/// message. A longer payload is [`Bytes`], whose clones share the memory without a copy. A program
/// that forwards a short payload should copy it (`Node::send_copy`): the conversion to [`Bytes`]
/// allocates.
#[derive(Clone)]
pub struct Data(Repr);

#[derive(Clone)]
enum Repr {
    Here {
        len: u8,
        bytes: Words,
    },
    There(Bytes),
    /// In memory that its owner lent.
    Placed(u64),
}

/// The bytes, aligned to words, so that moves copy whole words.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Words([u8; INLINE]);

const _: () = assert!(INLINE <= u8::MAX as usize && size_of::<Data>() == 40);

impl Data {
    /// Returns an empty payload.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        let (len, bytes) = (0, Words([0; INLINE]));
        Self(Repr::Here { len, bytes })
    }

    /// Returns a copy of the first `len` bytes of `front`, if `front` has them and they fit here.
    #[inline]
    pub(super) fn copy_front(front: &[u8], len: usize) -> Option<Self> {
        if len > INLINE.min(front.len()) {
            return None;
        }
        // Copy the bytes behind them, too: a copy of constant length is faster.
        let bytes = match front.first_chunk() {
            Some(bytes) => Words(*bytes),
            None => Self::copy_last(front),
        };
        let len = len as u8;
        Some(Self(Repr::Here { len, bytes }))
    }

    /// Returns a payload that shares `bytes`, whatever their length.
    #[inline]
    pub(super) fn shared(bytes: Bytes) -> Self {
        Self(Repr::There(bytes))
    }

    /// Returns a copy of all of `front`, which is shorter than [`INLINE`].
    #[cold]
    #[inline(never)]
    fn copy_last(front: &[u8]) -> Words {
        let mut bytes = [0; INLINE];
        for (to, from) in bytes.iter_mut().zip(front) {
            *to = *from;
        }
        Words(bytes)
    }

    /// Returns the payload of a message of `len` bytes that were put into lent memory.
    pub(super) const fn in_lent_memory(len: u64) -> Self {
        Self(Repr::Placed(len))
    }

    /// Returns the number of bytes that were put into memory which its owner
    /// [lent](super::ReceiveBuffer::lent). The payload itself has no bytes then.
    #[must_use]
    pub const fn placed(&self) -> Option<u64> {
        match self.0 {
            Repr::Placed(len) => Some(len),
            Repr::Here { .. } | Repr::There(_) => None,
        }
    }

    /// Returns the number of bytes that were received, wherever they are.
    pub fn received(&self) -> u64 {
        self.placed().unwrap_or(self.len() as u64)
    }

    /// Converts the payload to [`Bytes`]. A payload that is stored here is copied to new memory.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self.0 {
            Repr::There(bytes) => bytes,
            Repr::Here { .. } | Repr::Placed(_) => Bytes::copy_from_slice(&self),
        }
    }
}

impl Default for Data {
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for Data {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Here { len, bytes } => bytes.0.get(..usize::from(*len)).unwrap_or_default(),
            Repr::There(bytes) => bytes,
            Repr::Placed(_) => &[],
        }
    }
}

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Copies a short payload, and releases the memory that it shared.
impl From<Bytes> for Data {
    #[inline]
    fn from(bytes: Bytes) -> Self {
        Self::copy_front(&bytes, bytes.len()).unwrap_or_else(|| Self::shared(bytes))
    }
}

impl From<Data> for Bytes {
    fn from(data: Data) -> Self {
        data.into_bytes()
    }
}

impl From<Data> for Vec<u8> {
    fn from(data: Data) -> Self {
        match data.0 {
            Repr::There(bytes) => bytes.into(),
            Repr::Here { .. } | Repr::Placed(_) => data.to_vec(),
        }
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Data {
    #[inline]
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl Eq for Data {}

impl PartialEq<Data> for Bytes {
    fn eq(&self, other: &Data) -> bool {
        **self == **other
    }
}

impl PartialEq<Data> for Vec<u8> {
    fn eq(&self, other: &Data) -> bool {
        **self == **other
    }
}

impl PartialEq<Data> for [u8] {
    fn eq(&self, other: &Data) -> bool {
        *self == **other
    }
}

impl PartialEq<Data> for &[u8] {
    fn eq(&self, other: &Data) -> bool {
        **self == **other
    }
}

impl<const N: usize> PartialEq<Data> for [u8; N] {
    fn eq(&self, other: &Data) -> bool {
        *self == **other
    }
}

impl PartialOrd for Data {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Data {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(other)
    }
}

/// Hashes and compares as its bytes do.
impl Borrow<[u8]> for Data {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl Hash for Data {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

#[cfg(test)]
impl Data {
    /// Returns true if nothing else refers to the same memory.
    pub(super) fn is_unique(&self) -> bool {
        match &self.0 {
            Repr::Here { .. } | Repr::Placed(_) => true,
            Repr::There(bytes) => bytes.is_unique(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_every_length_is_what_it_was_made_of() {
        let all: Vec<u8> = (0..100).collect();
        for len in 0..=all.len() {
            let expected = &all[..len];
            let data = Data::from(Bytes::copy_from_slice(expected));
            assert_eq!(data, expected);
            assert_eq!(data.clone().into_bytes(), expected);
            assert_eq!(Vec::from(data), expected);
            for behind in 0..INLINE {
                let front = &all[..(len + behind).min(all.len())];
                let copy = Data::copy_front(front, len);
                assert_eq!(copy.is_some(), len <= INLINE);
                assert!(copy.is_none_or(|copy| copy == expected));
            }
        }
        assert!(Data::copy_front(b"short", 6).is_none());
    }

    #[test]
    fn few_bytes_let_go_of_what_they_shared_and_many_are_not_copied() {
        let shared = Bytes::from(vec![7; 100]);
        let (few, many) = (shared.slice(..INLINE), shared.slice(..=INLINE));
        let (at, many) = (many.as_ptr(), Data::from(many));
        assert_eq!(many.as_ptr(), at, "not copied");
        drop(many);
        let few = Data::from(few);
        assert!(shared.is_unique(), "nothing is shared");
        assert_eq!(few, [7; INLINE]);
    }

    #[test]
    fn data_compares_and_formats_like_its_bytes() {
        assert_eq!(
            (Data::new(), Data::default()),
            (Data::default(), Data::new())
        );
        assert!(Data::new().is_empty() && Data::new().into_bytes().is_empty());
        let data = Data::from(Bytes::from_static(b"a\"\n"));
        assert_eq!(format!("{data:?}"), r#"b"a\"\n""#);
        assert_eq!(Bytes::from_static(b"a\"\n"), data);
        assert!(*b"a\"\n" == data && b"a\"\n".to_vec() == data && b"a\"\n"[..] == data);
        let slice: &[u8] = b"a\"\n";
        assert!(slice == data && Data::new() < data);
        let known = std::collections::HashSet::from([data]);
        assert!(known.contains(&b"a\"\n"[..]));
    }
}
