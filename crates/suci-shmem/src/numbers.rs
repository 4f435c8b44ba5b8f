//! Element types that C has and Rust has not.

use suci::group::{Combination, Element, Max, Min, Product, Sum};

/// `double _Complex` or `float _Complex`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub(crate) struct Complex<T> {
    real: T,
    imaginary: T,
}

macro_rules! complex {
    ($($part:ty: $name:literal,)*) => { $(
        impl Element for Complex<$part> {
            const SIZE: usize = size_of::<Self>();
            const NAME: &'static str = $name;

            fn read(bytes: &[u8]) -> Self {
                let (real, imaginary) = bytes.split_at(size_of::<$part>().min(bytes.len()));
                Self {
                    real: Element::read(real),
                    imaginary: Element::read(imaginary),
                }
            }

            fn write(self, bytes: &mut [u8]) {
                let (real, imaginary) = bytes.split_at_mut(size_of::<$part>());
                self.real.write(real);
                self.imaginary.write(imaginary);
            }
        }

        impl Combination<Complex<$part>> for Sum {
            const NAME: &'static str = "Sum";

            fn apply(&self, left: Complex<$part>, right: Complex<$part>) -> Complex<$part> {
                Complex {
                    real: left.real + right.real,
                    imaginary: left.imaginary + right.imaginary,
                }
            }
        }

        impl Combination<Complex<$part>> for Product {
            const NAME: &'static str = "Product";

            fn apply(&self, left: Complex<$part>, right: Complex<$part>) -> Complex<$part> {
                Complex {
                    real: left.real * right.real - left.imaginary * right.imaginary,
                    imaginary: left.real * right.imaginary + left.imaginary * right.real,
                }
            }
        }
    )* };
}

complex! {
    f32: "float _Complex",
    f64: "double _Complex",
}

/// `long double` of x86-64: an extended double of the x87 with 6 bytes that mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(16))]
pub(crate) struct LongDouble([u8; 16]);

impl Element for LongDouble {
    const SIZE: usize = 16;
    const NAME: &'static str = "long double";

    fn read(bytes: &[u8]) -> Self {
        Self(bytes.try_into().unwrap_or_default())
    }

    fn write(self, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.0);
    }
}

/// Loads `left` and then `right`, calculates, and stores the result.
macro_rules! x87 {
    ($left:expr, $right:expr, $($instruction:literal),+) => {{
        let (left, right, mut result) = ($left, $right, LongDouble([0; 16]));
        // SAFETY: each pointer is to 16 bytes, of which the instructions read or write 10. They
        // leave the stack of the x87 as empty as it was, which is declared to be overwritten.
        unsafe {
            std::arch::asm!(
                "fld tbyte ptr [{left}]",
                "fld tbyte ptr [{right}]",
                $($instruction,)+
                "fstp tbyte ptr [{result}]",
                left = in(reg) &raw const left,
                right = in(reg) &raw const right,
                result = in(reg) &raw mut result,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        result
    }};
}

macro_rules! long_double {
    ($($operation:ident: $($instruction:literal),+;)*) => { $(
        impl Combination<LongDouble> for $operation {
            const NAME: &'static str = stringify!($operation);

            fn apply(&self, left: LongDouble, right: LongDouble) -> LongDouble {
                x87!(left, right, $($instruction),+)
            }
        }
    )* };
}

// The comparison has `right` in st(0); the conditional move replaces it by `left` in st(1).
long_double! {
    Sum: "faddp st(1), st";
    Product: "fmulp st(1), st";
    Max: "fucomi st, st(1)", "fcmovb st, st(1)", "fstp st(1)";
    Min: "fucomi st, st(1)", "fcmovnbe st, st(1)", "fstp st(1)";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converts by the x87.
    fn long(value: f64) -> LongDouble {
        let mut result = LongDouble([0; 16]);
        // SAFETY: it loads 8 bytes and stores 10, and leaves the stack of the x87 as it was.
        unsafe {
            std::arch::asm!(
                "fld qword ptr [{from}]", "fstp tbyte ptr [{to}]",
                from = in(reg) &raw const value, to = in(reg) &raw mut result,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        result
    }

    #[test]
    fn long_doubles_are_calculated() {
        for (left, right) in [(1.5, 2.25), (-3.0, 7.0), (4.0, 4.0), (1e300, -1e-300)] {
            let (a, b) = (long(left), long(right));
            assert_eq!(Sum.apply(long(left), long(0.0)), a);
            assert_eq!(Product.apply(a, long(1.0)), a);
            assert_eq!(Max.apply(a, b), long(left.max(right)), "{left} {right}");
            assert_eq!(Min.apply(a, b), long(left.min(right)), "{left} {right}");
        }
        assert_eq!(Sum.apply(long(1.5), long(2.25)), long(3.75));
        assert_eq!(Product.apply(long(1.5), long(2.25)), long(3.375));
        let mut bytes = [0; 16];
        long(0.1).write(&mut bytes);
        assert_eq!(LongDouble::read(&bytes), long(0.1));
    }

    #[test]
    fn complex_numbers_are_calculated() {
        let of = |real: f64, imaginary| Complex { real, imaginary };
        let (a, b) = (of(1.0, 2.0), of(3.0, -4.0));
        assert_eq!(Sum.apply(a, b), of(4.0, -2.0));
        assert_eq!(Product.apply(a, b), of(11.0, 2.0));
        let mut bytes = [0; 16];
        a.write(&mut bytes);
        assert_eq!(Complex::<f64>::read(&bytes), a);
    }
}
