//! A second opinion. Nothing here knows the tableau, its parser or its formulas: the only thing
//! that passes between them is text.

pub(crate) mod gpvw;
pub(crate) mod lasso;
pub(crate) mod random;

use std::fmt;

/// A formula as the oracle holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ltl {
    True,
    False,
    Atom(usize),
    Not(Box<Ltl>),
    Next(Box<Ltl>),
    Finally(Box<Ltl>),
    Globally(Box<Ltl>),
    And(Box<Ltl>, Box<Ltl>),
    Or(Box<Ltl>, Box<Ltl>),
    Xor(Box<Ltl>, Box<Ltl>),
    Implies(Box<Ltl>, Box<Ltl>),
    Iff(Box<Ltl>, Box<Ltl>),
    Until(Box<Ltl>, Box<Ltl>),
    Release(Box<Ltl>, Box<Ltl>),
    WeakUntil(Box<Ltl>, Box<Ltl>),
    StrongRelease(Box<Ltl>, Box<Ltl>),
}

pub(crate) fn atom(number: usize) -> Ltl {
    Ltl::Atom(number)
}

macro_rules! unary {
    ($($name:ident $variant:ident),*) => {$(
        pub(crate) fn $name(a: Ltl) -> Ltl {
            Ltl::$variant(Box::new(a))
        }
    )*};
}

macro_rules! binary {
    ($($name:ident $variant:ident),*) => {$(
        pub(crate) fn $name(a: Ltl, b: Ltl) -> Ltl {
            Ltl::$variant(Box::new(a), Box::new(b))
        }
    )*};
}

unary!(not Not, next Next, finally Finally, globally Globally);
binary!(and And, or Or, implies Implies, iff Iff, until Until, release Release);

/// Every operator in its own parentheses: the meaning does not depend on precedence.
impl fmt::Display for Ltl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, a, b) = match self {
            Self::True => return f.write_str("true"),
            Self::False => return f.write_str("false"),
            Self::Atom(number) => return write!(f, "p{number}"),
            Self::Not(a) => return write!(f, "!{a}"),
            Self::Next(a) => return write!(f, "X {a}"),
            Self::Finally(a) => return write!(f, "F {a}"),
            Self::Globally(a) => return write!(f, "G {a}"),
            Self::And(a, b) => ("&", a, b),
            Self::Or(a, b) => ("|", a, b),
            Self::Xor(a, b) => ("^", a, b),
            Self::Implies(a, b) => ("->", a, b),
            Self::Iff(a, b) => ("<->", a, b),
            Self::Until(a, b) => ("U", a, b),
            Self::Release(a, b) => ("R", a, b),
            Self::WeakUntil(a, b) => ("W", a, b),
            Self::StrongRelease(a, b) => ("M", a, b),
        };
        write!(f, "({a} {sign} {b})")
    }
}
