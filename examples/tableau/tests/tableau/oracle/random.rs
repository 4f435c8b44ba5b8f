//! Formulas by seed, and their spellings.

use super::{Ltl, and, atom, finally, globally, iff, implies, next, not, or, release, until};

/// Numbers by seed: splitmix64.
#[derive(Default)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// Picks one of several values.
    pub(crate) fn of<T: Copy>(&mut self, several: &[T]) -> T {
        several[usize::try_from(self.below(several.len() as u64)).unwrap()]
    }
}

/// The most propositions of a formula.
pub(crate) const ATOMS: u64 = 3;

/// The formula of a seed. Every fourth contradicts itself in a way that only temporal reasoning
/// finds; the others are conjunctions of small formulas, and some of them contradict themselves.
pub(crate) fn formula(seed: u64) -> Ltl {
    let mut random = Random(seed);
    if seed.is_multiple_of(4) {
        let size = 3 + random.below(6);
        let one = of_size(&mut random, size, 2);
        let other = rewritten(&one);
        return and(one, not(other));
    }
    let atoms = 1 + random.below(ATOMS);
    let mut whole = None;
    for _ in 0..=random.below(5) {
        let size = 1 + random.below(8);
        let part = of_size(&mut random, size, atoms);
        whole = Some(match whole {
            None => part,
            Some(whole) => and(whole, part),
        });
    }
    whole.unwrap()
}

fn of_size(random: &mut Random, size: u64, atoms: u64) -> Ltl {
    if size <= 1 {
        return match random.below(16) {
            0 => Ltl::True,
            1 => Ltl::False,
            _ => atom(usize::try_from(random.below(atoms)).unwrap()),
        };
    }
    if size == 2 || random.below(3) == 0 {
        let operator = random.of(&[not, next, finally, globally]);
        return operator(of_size(random, size - 1, atoms));
    }
    let left = 1 + random.below(size - 2);
    let a = of_size(random, left, atoms);
    let b = of_size(random, size - 1 - left, atoms);
    let operators = [
        and, or, xor, implies, iff, until, until, release, weak, strong,
    ];
    random.of(&operators)(a, b)
}

fn xor(a: Ltl, b: Ltl) -> Ltl {
    Ltl::Xor(Box::new(a), Box::new(b))
}

fn weak(a: Ltl, b: Ltl) -> Ltl {
    Ltl::WeakUntil(Box::new(a), Box::new(b))
}

fn strong(a: Ltl, b: Ltl) -> Ltl {
    Ltl::StrongRelease(Box::new(a), Box::new(b))
}

/// A formula that means the same, by the laws of the logic.
pub(crate) fn rewritten(formula: &Ltl) -> Ltl {
    let new = |a: &Ltl| rewritten(a);
    match formula {
        Ltl::True | Ltl::False | Ltl::Atom(_) => formula.clone(),
        Ltl::Not(a) => not(new(a)),
        Ltl::Next(a) => not(next(not(new(a)))),
        Ltl::Finally(a) => {
            let a = new(a);
            or(a.clone(), next(finally(a)))
        }
        Ltl::Globally(a) => not(finally(not(new(a)))),
        Ltl::And(a, b) => not(or(not(new(b)), not(new(a)))),
        Ltl::Or(a, b) => implies(not(new(a)), new(b)),
        Ltl::Xor(a, b) => not(iff(new(a), new(b))),
        Ltl::Implies(a, b) => or(new(b), not(new(a))),
        Ltl::Iff(a, b) => xor(not(new(a)), new(b)),
        Ltl::Until(a, b) => {
            let (a, b) = (new(a), new(b));
            or(b.clone(), and(a.clone(), next(until(a, b))))
        }
        Ltl::Release(a, b) => not(until(not(new(a)), not(new(b)))),
        Ltl::WeakUntil(a, b) => {
            let (a, b) = (new(a), new(b));
            or(globally(a.clone()), until(a, b))
        }
        Ltl::StrongRelease(a, b) => {
            let (a, b) = (new(a), new(b));
            until(b.clone(), and(b, a))
        }
    }
}

/// The text of a formula in one of its many spellings, with the parentheses that precedence needs,
/// and some more.
pub(crate) fn spelled(formula: &Ltl, random: &mut Random) -> String {
    let one =
        |sign: &str, a: &Ltl, random: &mut Random| format!("{sign} {}", operand(a, 0, random));
    match formula {
        Ltl::True => random.of(&["true", "1", "⊤"]).to_owned(),
        Ltl::False => random.of(&["false", "0", "⊥"]).to_owned(),
        Ltl::Atom(number) => format!("p{number}"),
        Ltl::Not(a) => one(random.of(&["!", "~", "¬", "not"]), a, random),
        Ltl::Next(a) => one(random.of(&["X", "○"]), a, random),
        Ltl::Finally(a) => one(random.of(&["F", "<>", "◇"]), a, random),
        Ltl::Globally(a) => one(random.of(&["G", "[]", "□"]), a, random),
        Ltl::And(a, b) => two(&["&", "&&", "/\\", "∧", "and"], formula, a, b, random),
        Ltl::Or(a, b) => two(&["|", "||", "\\/", "∨", "or"], formula, a, b, random),
        Ltl::Xor(a, b) => two(&["^", "⊕", "xor"], formula, a, b, random),
        Ltl::Implies(a, b) => two(&["->", "=>", "→", "⇒"], formula, a, b, random),
        Ltl::Iff(a, b) => two(&["<->", "<=>", "↔", "⇔"], formula, a, b, random),
        Ltl::Until(a, b) => two(&["U"], formula, a, b, random),
        Ltl::Release(a, b) => two(&["R", "V"], formula, a, b, random),
        Ltl::WeakUntil(a, b) => two(&["W"], formula, a, b, random),
        Ltl::StrongRelease(a, b) => two(&["M"], formula, a, b, random),
    }
}

fn two(signs: &[&'static str], whole: &Ltl, a: &Ltl, b: &Ltl, random: &mut Random) -> String {
    let own = level(whole);
    let from_right = matches!(own, 1 | 5);
    let left = operand(a, if from_right { own - 1 } else { own }, random);
    let right = operand(b, if from_right { own } else { own - 1 }, random);
    format!("{left} {} {right}", random.of(signs))
}

fn operand(formula: &Ltl, loosest: u8, random: &mut Random) -> String {
    let text = spelled(formula, random);
    match level(formula) > loosest || random.below(8) == 0 {
        true => format!("({text})"),
        false => text,
    }
}

/// Precedence as the README has it: the tightest is 0.
fn level(formula: &Ltl) -> u8 {
    match formula {
        Ltl::Until(..) | Ltl::Release(..) | Ltl::WeakUntil(..) | Ltl::StrongRelease(..) => 1,
        Ltl::And(..) => 2,
        Ltl::Xor(..) => 3,
        Ltl::Or(..) => 4,
        Ltl::Implies(..) => 5,
        Ltl::Iff(..) => 6,
        _ => 0,
    }
}
