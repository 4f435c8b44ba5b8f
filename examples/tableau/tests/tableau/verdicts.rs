//! Verdicts and witnesses of the tableau, judged by an oracle that shares nothing with it.

use super::oracle::lasso::{Word, holds};
use super::oracle::random::{ATOMS, Random, formula, rewritten, spelled};
use super::oracle::{Ltl, and, atom, finally, globally, gpvw, iff, implies, next, not, or, until};
use tableau::{Formulas, Lasso, Literal, decide, parse};

/// How many random formulas are compared.
const FORMULAS: u64 = 5_000;

/// The tableau's model of a text, in the oracle's terms: once with everything free false, once true.
fn models(text: &str) -> Option<[Word; 2]> {
    let tree = parse(text).unwrap_or_else(|error| panic!("{text}: {error}\n{}", error.caret()));
    let mut table = Formulas::default();
    let root = table.read(&tree, true);
    let lasso = decide(&table, root, |_| {}).model?;
    assert!(!lasso.cycle.is_empty(), "{text}: nothing is repeated");
    Some([false, true].map(|free| word(&table, &lasso, free)))
}

fn word(table: &Formulas, lasso: &Lasso, free: bool) -> Word {
    let number = |literal: &Literal| -> usize {
        let name = &table.atoms()[literal.atom];
        name.trim_start_matches('p').parse().unwrap()
    };
    let moments = lasso.stem.iter().chain(&lasso.cycle).map(|moment| {
        let mut values = vec![free; 64];
        for literal in moment {
            values[number(literal)] = literal.positive;
        }
        values
    });
    Word {
        moments: moments.collect(),
        back: lasso.stem.len(),
    }
}

/// Compares a known verdict with the tableau's, and checks its witness.
fn judge(formula: &Ltl, text: &str, satisfiable: bool) {
    let models = models(text);
    assert_eq!(models.is_some(), satisfiable, "{text}");
    for word in models.iter().flatten() {
        assert!(holds(formula, word), "{text}: the witness is no model");
    }
}

#[test]
fn random_formulas_get_the_verdicts_of_another_procedure() {
    let mut unsatisfiable = 0;
    for seed in 0..FORMULAS {
        let formula = formula(seed);
        let text = spelled(&formula, &mut Random(!seed));
        let satisfiable = gpvw::satisfiable(&formula);
        unsatisfiable += u64::from(!satisfiable);
        judge(&formula, &text, satisfiable);
    }
    let models = FORMULAS - unsatisfiable;
    println!(
        "figure: {FORMULAS} formulas, {unsatisfiable} unsatisfiable, {models} witnesses checked"
    );
    assert!(unsatisfiable * 5 >= FORMULAS, "too few have no model");
}

/// The oracle's two halves against each other: what a word satisfies is satisfiable.
#[test]
fn the_other_procedure_knows_what_random_words_satisfy() {
    let mut met = 0;
    for seed in 0..300 {
        let (formula, mut random) = (formula(seed), Random(seed));
        let satisfiable = gpvw::satisfiable(&formula);
        for _ in 0..20 {
            let mut moment = || (0..ATOMS).map(|_| random.below(2) == 0).collect();
            let moments: Vec<Vec<bool>> = (0..4).map(|_| moment()).collect();
            let back = usize::try_from(random.below(4)).unwrap();
            if holds(&formula, &Word { moments, back }) {
                assert!(satisfiable, "{formula}");
                met += 1;
            }
        }
    }
    assert!(met > 100, "random words satisfy next to nothing: {met}");
}

#[test]
fn laws_of_the_logic_are_valid() {
    for seed in 0..100 {
        let one = formula(4 * seed + 1);
        let other = rewritten(&one);
        let law = not(iff(one, other));
        assert!(models(&law.to_string()).is_none(), "{law}");
    }
}

fn all(parts: impl IntoIterator<Item = Ltl>) -> Ltl {
    parts.into_iter().reduce(and).unwrap()
}

/// `X X ... X a`.
fn after(count: usize, a: Ltl) -> Ltl {
    (0..count).fold(a, |a, _| next(a))
}

/// The families of Rozier and Vardi (SPIN 2007), each satisfiable, as is each one's negation.
fn families(n: usize) -> Vec<(&'static str, Ltl)> {
    let p = atom;
    let often = |i| globally(finally(p(i)));
    vec![
        ("E", all((1..=n).map(|i| finally(p(i))))),
        ("S", all((1..=n).map(|i| globally(p(i))))),
        ("U", (2..=n).fold(p(1), |left, i| until(left, p(i)))),
        ("U2", (1..n).rev().fold(p(n), |right, i| until(p(i), right))),
        ("C1", (1..=n).map(often).reduce(or).unwrap()),
        ("C2", all((1..=n).map(often))),
        (
            "Q",
            all((1..n).map(|i| or(finally(p(i)), globally(p(i + 1))))),
        ),
        (
            "R",
            all((1..n).map(|i| or(often(i), finally(globally(p(i + 1)))))),
        ),
    ]
}

/// All are owed at every moment, and no two can be had at once: what differs between two steps is only what they owe.
fn turns(n: usize) -> Ltl {
    let owed = || all((1..=n).map(|i| finally(atom(i))));
    let pairs = (1..=n).flat_map(|i| (1..i).map(move |j| not(and(atom(i), atom(j)))));
    all([owed(), globally(next(owed())), globally(all(pairs))])
}

#[test]
fn families_have_their_known_verdicts() {
    for n in 2..=5 {
        for (name, formula) in families(n).into_iter().chain([("turns", turns(n))]) {
            println!("{name}({n})");
            judge(&formula, &formula.to_string(), true);
            let negated = not(formula.clone());
            judge(&negated, &negated.to_string(), true);
            let both = and(formula, negated);
            judge(&both, &both.to_string(), false);
        }
    }
}

/// A counter of `n` bits that never stops: p0 marks where a number begins, p1 is its bits, lowest first. (Rozier and
/// Vardi, section 4.) It has one model.
pub(crate) fn counter(n: usize) -> Ltl {
    let (m, b) = (|| atom(0), || atom(1));
    let same = || {
        let keep = implies(b(), after(n, b()));
        let keep_not = implies(not(b()), after(n, not(b())));
        until(all([not(m()), keep, keep_not]), m())
    };
    let carry_ends = all([not(m()), not(b()), after(n, b()), next(same())]);
    let carries = all([not(m()), b(), after(n, not(b()))]);
    let marks = all((1..n).map(|i| after(i, not(m()))).chain([after(n, m())]));
    all([
        m(),
        globally(implies(m(), marks)),
        all((0..n).map(|i| after(i, not(b())))),
        globally(implies(
            and(m(), not(b())),
            and(after(n, b()), next(same())),
        )),
        globally(implies(
            and(m(), b()),
            and(
                after(n, not(b())),
                next(until(carries, or(m(), carry_ends))),
            ),
        )),
    ])
}

/// A counter that never comes to its largest number, which in every model of a counter comes.
pub(crate) fn broken_counter(n: usize) -> Ltl {
    let largest = all((0..n).map(|i| after(i, atom(1))).chain([atom(0)]));
    and(counter(n), globally(not(largest)))
}

#[test]
fn counters_count() {
    for n in 1..=8 {
        let counter = counter(n);
        let words = models(&counter.to_string()).unwrap();
        for word in &words {
            assert!(holds(&counter, word), "{n} bits: the witness is no model");
            for (number, bits) in word.moments.chunks_exact(n).enumerate() {
                let bit = |(i, moment): (usize, &Vec<bool>)| usize::from(moment[1]) << i;
                let read: usize = bits.iter().enumerate().map(bit).sum();
                assert_eq!(read, number % (1 << n), "{n} bits");
            }
        }
        let never = broken_counter(n);
        assert!(models(&never.to_string()).is_none(), "{n} bits: {never}");
    }
}
