//! Elements of buffers, and the operations that combine them.

use crate::collective::LONGEST_MESSAGE;
use core::fmt;

/// A number as it goes over the network: little-endian.
pub trait Element: Copy + Send + 'static {
    /// Bytes of one element: from 1 to 65,536.
    const SIZE: usize;

    /// Its name, by which members notice that their buffers hold different elements.
    const NAME: &'static str;

    /// Reads an element from exactly [`Element::SIZE`] bytes.
    fn read(bytes: &[u8]) -> Self;

    /// Writes it into exactly [`Element::SIZE`] bytes.
    fn write(self, bytes: &mut [u8]);
}

/// An operation on two elements. It must be associative: members combine in groups of any size. A
/// result never depends on the order in which messages arrive.
pub trait Operation<T>: Send + 'static {
    /// Whether `left` and `right` may be exchanged. If not, elements are combined in the order of
    /// their members, and long buffers take longer.
    const COMMUTATIVE: bool = true;

    /// Its name, by which members notice that they combine differently.
    const NAME: &'static str;

    /// Combines the element of a lower member with that of a higher one.
    fn apply(&self, left: T, right: T) -> T;
}

macro_rules! elements {
    ($($type:ty)*) => { $(
        impl Element for $type {
            const SIZE: usize = size_of::<Self>();
            const NAME: &'static str = stringify!($type);

            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().unwrap_or_default())
            }

            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        }
    )* };
}

elements!(i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64);

/// Adds; integers wrap around.
#[derive(Clone, Copy, Debug)]
pub struct Sum;

/// Multiplies; integers wrap around.
#[derive(Clone, Copy, Debug)]
pub struct Product;

/// The smaller one; the number, if the other is a NaN.
#[derive(Clone, Copy, Debug)]
pub struct Min;

/// The larger one; the number, if the other is a NaN.
#[derive(Clone, Copy, Debug)]
pub struct Max;

/// The bits that both have. With 0 and 1 for false and true it is the logical one.
#[derive(Clone, Copy, Debug)]
pub struct BitAnd;

/// The bits that one or both have.
#[derive(Clone, Copy, Debug)]
pub struct BitOr;

/// The bits that exactly one has.
#[derive(Clone, Copy, Debug)]
pub struct BitXor;

/// A function of the program. It need not be commutative: elements are combined in the order of
/// their members.
#[derive(Clone, Copy)]
pub struct Custom<F>(pub F);

impl<F> fmt::Debug for Custom<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Custom")
    }
}

impl<T, F: Fn(T, T) -> T + Send + 'static> Operation<T> for Custom<F> {
    const COMMUTATIVE: bool = false;
    const NAME: &'static str = "custom";

    fn apply(&self, left: T, right: T) -> T {
        (self.0)(left, right)
    }
}

macro_rules! operations {
    ($($operation:ident on $($type:ty)*: |$left:ident, $right:ident| $result:expr;)*) => { $( $(
        impl Operation<$type> for $operation {
            const NAME: &'static str = stringify!($operation);

            fn apply(&self, $left: $type, $right: $type) -> $type {
                $result
            }
        }
    )* )* };
}

operations! {
    Sum on i8 i16 i32 i64 i128 u8 u16 u32 u64 u128: |left, right| left.wrapping_add(right);
    Sum on f32 f64: |left, right| left + right;
    Product on i8 i16 i32 i64 i128 u8 u16 u32 u64 u128: |left, right| left.wrapping_mul(right);
    Product on f32 f64: |left, right| left * right;
    Min on i8 i16 i32 i64 i128 u8 u16 u32 u64 u128: |left, right| Ord::min(left, right);
    Min on f32 f64: |left, right| left.min(right);
    Max on i8 i16 i32 i64 i128 u8 u16 u32 u64 u128: |left, right| Ord::max(left, right);
    Max on f32 f64: |left, right| left.max(right);
    BitAnd on i8 i16 i32 i64 i128 u8 u16 u32 u64 u128: |left, right| left & right;
    BitOr on i8 i16 i32 i64 i128 u8 u16 u32 u64 u128: |left, right| left | right;
    BitXor on i8 i16 i32 i64 i128 u8 u16 u32 u64 u128: |left, right| left ^ right;
}

/// Returns the bytes of `elements`.
#[must_use]
pub fn bytes_of<T: Element>(elements: &[T]) -> Vec<u8> {
    const { assert!(T::SIZE > 0, "an element has at least one byte") };
    let mut bytes = vec![0; elements.len() * T::SIZE];
    for (place, element) in bytes.chunks_exact_mut(T::SIZE).zip(elements) {
        element.write(place);
    }
    bytes
}

/// Reads `elements` from bytes that [`bytes_of`] made, as many as there are in both.
pub fn elements_of<T: Element>(bytes: &[u8], elements: &mut [T]) {
    for (element, bytes) in elements.iter_mut().zip(bytes.chunks_exact(T::SIZE)) {
        *element = T::read(bytes);
    }
}

/// The side of an argument in a combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

type Apply = dyn Fn(&[u8], &mut [u8], Side) + Send;

/// An operation on buffers of elements, whatever their type.
pub struct Combine {
    pub(crate) size: usize,
    pub(crate) commutative: bool,
    /// The operation's name.
    pub(crate) name: &'static str,
    apply: Box<Apply>,
}

impl fmt::Debug for Combine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Combine")
            .field("size", &self.size)
            .field("commutative", &self.commutative)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Combine {
    /// Applies `operation` to each pair of elements at equal places.
    pub fn new<T: Element, O: Operation<T>>(operation: O) -> Self {
        const {
            assert!(
                T::SIZE > 0 && T::SIZE <= LONGEST_MESSAGE,
                "a message has whole elements"
            );
        }
        let apply = move |other: &[u8], own: &mut [u8], side: Side| {
            let others = other.chunks_exact(T::SIZE);
            let pairs = others.zip(own.chunks_exact_mut(T::SIZE));
            match side {
                Side::Left => pairs.for_each(|(other, own)| {
                    operation.apply(T::read(other), T::read(own)).write(own);
                }),
                Side::Right => pairs.for_each(|(other, own)| {
                    operation.apply(T::read(own), T::read(other)).write(own);
                }),
            }
        };
        Self {
            size: T::SIZE,
            commutative: O::COMMUTATIVE,
            name: O::NAME,
            apply: Box::new(apply),
        }
    }

    /// Replaces each element of `own` by its combination with that of `other`, the argument on this
    /// side.
    pub(crate) fn apply(&self, other: &[u8], own: &mut [u8], side: Side) {
        (self.apply)(other, own, side);
    }
}
