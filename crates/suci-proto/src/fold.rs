//! State written down in few bytes while nobody needs it, and read back as it was.
//!
//! A peer with which nothing happens costs what its numbers need, not what its structs take: most
//! are zero or small, and most instants lie close to others. Folding loses nothing, so that resting
//! changes no promise. What is busy never passes here, and no hot path pays for it. Cold halves of
//! structs behind pointers were rejected: each access to them would have to ask whether they are
//! there.
//!
//! What is read here was written here: there is nothing to check, and what is missing at the end
//! was zero.

use crate::time::{Duration, Instant, nanos};
use crate::types::{ChannelId, Epoch, Incarnation, NodeId, SessionNumber};
use crate::wire::{Reader, varint};
use core::ops::RangeInclusive;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Numbers one after the other.
#[derive(Debug, Default)]
pub struct Words {
    words: VecDeque<u64>,
    /// The instant, address and position written or read last: the next ones are told by their
    /// distance.
    instant: u64,
    address: Option<SocketAddr>,
    position: u64,
}

/// Something that can be written down and read back.
pub(crate) trait Fold {
    /// Writes it down.
    fn fold(&self, to: &mut Words);
    /// Reads it back.
    fn unfold(from: &mut Words) -> Self
    where
        Self: Sized;
}

impl Words {
    fn put(&mut self, word: u64) {
        self.words.push_back(word);
    }

    fn take(&mut self) -> u64 {
        self.words.pop_front().unwrap_or(0)
    }

    /// A number that rises from one to the next.
    pub(crate) fn put_position(&mut self, position: u64) {
        self.put(position.wrapping_sub(self.position));
        self.position = position;
    }

    /// Reads what [`put_position`](Self::put_position) wrote.
    pub(crate) fn take_position(&mut self) -> u64 {
        self.position = self.position.wrapping_add(self.take());
        self.position
    }

    /// Groups of eight: a byte that tells which of them are not zero, then those.
    pub(crate) fn pack(mut self) -> Box<[u8]> {
        while self.words.back() == Some(&0) {
            self.words.pop_back();
        }
        let mut bytes = Vec::with_capacity(self.words.len() * 4);
        for group in self.words.make_contiguous().chunks(8) {
            let bits = group.iter().enumerate();
            bytes.push(bits.fold(0, |mask, (bit, word)| mask | (u8::from(*word != 0) << bit)));
            for word in group.iter().filter(|word| **word != 0) {
                varint::put(&mut bytes, *word);
            }
        }
        bytes.into()
    }

    /// Reads what [`pack`](Self::pack) wrote.
    pub(crate) fn unpack(bytes: &[u8]) -> Self {
        let mut words = Self::default();
        let mut reader = Reader::new(bytes);
        while let Ok(mask) = reader.u8() {
            for bit in 0..8 {
                let word = match (mask >> bit) & 1 {
                    0 => 0,
                    _ => reader.varint().unwrap_or(0),
                };
                words.put(word);
            }
        }
        words
    }
}

/// Writes a struct down field by field. A field that is not named does not compile.
macro_rules! folds {
    ($type:ty { $($field:ident),* $(,)? }) => {
        impl $crate::fold::Fold for $type {
            fn fold(&self, to: &mut $crate::fold::Words) {
                let Self { $($field),* } = self;
                $($crate::fold::Fold::fold($field, to);)*
            }

            fn unfold(from: &mut $crate::fold::Words) -> Self {
                $(let $field = $crate::fold::Fold::unfold(from);)*
                Self { $($field),* }
            }
        }
    };
    // An enum without data; the first variant is zero. One that is not named does not compile.
    ($type:ty [ $first:ident $(, $variant:ident)* $(,)? ]) => {
        impl $crate::fold::Fold for $type {
            fn fold(&self, to: &mut $crate::fold::Words) {
                match self {
                    Self::$first $(| Self::$variant)* => {}
                }
                let all = [Self::$first $(, Self::$variant)*];
                all.iter().position(|each| each == self).unwrap_or(0).fold(to);
            }

            fn unfold(from: &mut $crate::fold::Words) -> Self {
                let all = [Self::$first $(, Self::$variant)*];
                let place = <usize as $crate::fold::Fold>::unfold(from);
                all.into_iter().nth(place).unwrap_or(Self::$first)
            }
        }
    };
}
pub(crate) use folds;

macro_rules! folds_as_word {
    ($($type:ty),*) => {$(
        impl Fold for $type {
            fn fold(&self, to: &mut Words) {
                to.put(u64::from(*self));
            }

            fn unfold(from: &mut Words) -> Self {
                Self::try_from(from.take()).unwrap_or_default()
            }
        }
    )*};
}
folds_as_word!(u8, u32, u64);

impl Fold for bool {
    fn fold(&self, to: &mut Words) {
        to.put(u64::from(*self));
    }

    fn unfold(from: &mut Words) -> Self {
        from.take() != 0
    }
}

impl Fold for usize {
    fn fold(&self, to: &mut Words) {
        to.put(*self as u64);
    }

    fn unfold(from: &mut Words) -> Self {
        Self::try_from(from.take()).unwrap_or_default()
    }
}

impl Fold for i64 {
    fn fold(&self, to: &mut Words) {
        to.put(((self << 1) ^ (self >> 63)).cast_unsigned());
    }

    fn unfold(from: &mut Words) -> Self {
        let word = from.take();
        (word >> 1).cast_signed() ^ -(word & 1).cast_signed()
    }
}

impl Fold for i32 {
    fn fold(&self, to: &mut Words) {
        i64::from(*self).fold(to);
    }

    fn unfold(from: &mut Words) -> Self {
        Self::try_from(i64::unfold(from)).unwrap_or_default()
    }
}

impl Fold for u128 {
    fn fold(&self, to: &mut Words) {
        to.put((*self >> 64) as u64);
        to.put(*self as u64);
    }

    fn unfold(from: &mut Words) -> Self {
        (u128::from(from.take()) << 64) | u128::from(from.take())
    }
}

/// Round numbers have their bits at the high end.
impl Fold for f64 {
    fn fold(&self, to: &mut Words) {
        to.put(self.to_bits().swap_bytes());
    }

    fn unfold(from: &mut Words) -> Self {
        Self::from_bits(from.take().swap_bytes())
    }
}

impl Fold for Duration {
    fn fold(&self, to: &mut Words) {
        to.put(nanos(*self));
    }

    fn unfold(from: &mut Words) -> Self {
        Self::from_nanos(from.take())
    }
}

/// The origin is zero, everything else its distance from the instant before: at most 292 years.
impl Fold for Instant {
    fn fold(&self, to: &mut Words) {
        if *self == Self::ZERO {
            return to.put(0);
        }
        let distance = self.as_nanos().wrapping_sub(to.instant).cast_signed();
        to.instant = self.as_nanos();
        to.put(
            ((distance << 1) ^ (distance >> 63))
                .cast_unsigned()
                .wrapping_add(1),
        );
    }

    fn unfold(from: &mut Words) -> Self {
        let word = from.take();
        if word == 0 {
            return Self::ZERO;
        }
        let word = word.wrapping_sub(1);
        let distance = (word >> 1) ^ (word & 1).wrapping_neg();
        from.instant = from.instant.wrapping_add(distance);
        Self::from_nanos(from.instant)
    }
}

impl Fold for SocketAddr {
    fn fold(&self, to: &mut Words) {
        if to.address.replace(*self) == Some(*self) {
            return to.put(0);
        }
        let port = u64::from(self.port()) << 2;
        match self {
            Self::V4(v4) => to.put((u64::from(v4.ip().to_bits()) << 18) | port | 1),
            Self::V6(v6) => {
                to.put((u64::from(v6.flowinfo()) << 18) | port | 2);
                v6.ip().to_bits().fold(to);
                v6.scope_id().fold(to);
            }
        }
    }

    fn unfold(from: &mut Words) -> Self {
        let word = from.take();
        let port = (word >> 2) as u16;
        let high = (word >> 18) as u32;
        let v4 = Self::V4(SocketAddrV4::new(high.into(), port));
        let address = match word & 3 {
            0 => from.address.unwrap_or(v4),
            1 => v4,
            _ => {
                let ip = u128::unfold(from).into();
                Self::V6(SocketAddrV6::new(ip, port, high, u32::unfold(from)))
            }
        };
        from.address = Some(address);
        address
    }
}

impl Fold for IpAddr {
    fn fold(&self, to: &mut Words) {
        SocketAddr::new(*self, 0).fold(to);
    }

    fn unfold(from: &mut Words) -> Self {
        SocketAddr::unfold(from).ip()
    }
}

impl Fold for RangeInclusive<u64> {
    fn fold(&self, to: &mut Words) {
        to.put_position(*self.start());
        to.put_position(*self.end());
    }

    fn unfold(from: &mut Words) -> Self {
        from.take_position()..=from.take_position()
    }
}

impl<T: Fold> Fold for Option<T> {
    fn fold(&self, to: &mut Words) {
        self.is_some().fold(to);
        if let Some(value) = self {
            value.fold(to);
        }
    }

    fn unfold(from: &mut Words) -> Self {
        bool::unfold(from).then(|| T::unfold(from))
    }
}

impl<T: Fold> Fold for Box<T> {
    fn fold(&self, to: &mut Words) {
        (**self).fold(to);
    }

    fn unfold(from: &mut Words) -> Self {
        Self::new(T::unfold(from))
    }
}

impl<A: Fold, B: Fold> Fold for (A, B) {
    fn fold(&self, to: &mut Words) {
        self.0.fold(to);
        self.1.fold(to);
    }

    fn unfold(from: &mut Words) -> Self {
        (A::unfold(from), B::unfold(from))
    }
}

impl<T: Fold, const N: usize> Fold for [T; N] {
    fn fold(&self, to: &mut Words) {
        self.iter().for_each(|each| each.fold(to));
    }

    fn unfold(from: &mut Words) -> Self {
        core::array::from_fn(|_| T::unfold(from))
    }
}

impl<T: Fold> Fold for VecDeque<T> {
    fn fold(&self, to: &mut Words) {
        self.len().fold(to);
        self.iter().for_each(|each| each.fold(to));
    }

    fn unfold(from: &mut Words) -> Self {
        let len = usize::unfold(from);
        (0..len).map(|_| T::unfold(from)).collect()
    }
}

impl<T: Fold> Fold for Vec<T> {
    fn fold(&self, to: &mut Words) {
        self.len().fold(to);
        self.iter().for_each(|each| each.fold(to));
    }

    fn unfold(from: &mut Words) -> Self {
        let len = usize::unfold(from);
        (0..len).map(|_| T::unfold(from)).collect()
    }
}

impl<K: Fold + Ord, V: Fold> Fold for BTreeMap<K, V> {
    fn fold(&self, to: &mut Words) {
        self.len().fold(to);
        for (key, value) in self {
            key.fold(to);
            value.fold(to);
        }
    }

    fn unfold(from: &mut Words) -> Self {
        let len = usize::unfold(from);
        (0..len).map(|_| Fold::unfold(from)).collect()
    }
}

macro_rules! folds_as_inner {
    ($($type:ident),*) => {$(
        impl Fold for $type {
            fn fold(&self, to: &mut Words) {
                self.0.fold(to);
            }

            fn unfold(from: &mut Words) -> Self {
                Self(Fold::unfold(from))
            }
        }
    )*};
}
folds_as_inner!(NodeId, ChannelId, Epoch, Incarnation, SessionNumber);

#[cfg(test)]
mod tests;
