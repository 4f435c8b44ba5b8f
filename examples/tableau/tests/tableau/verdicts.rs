//! Verdicts and witnesses of the tableau, judged by an oracle that shares nothing with it.

use super::oracle::lasso::{Word, holds};
use super::oracle::random::{ATOMS, Random, formula, rewritten, spelled};
use super::oracle::{Ltl, and, atom, finally, globally, gpvw, iff, implies, next, not, or, until};
use tableau::{Formulas, Lasso, Literal, decide, parse};

/// The number of random formulas that are compared.
const FORMULAS: u64 = 5_000;

/// The tableau's model of a text, in the oracle's terms: once with everything free false, once
/// true.
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

/// The oracle's two halves against each other: a formula that a word satisfies is satisfiable.
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

/// All are owed at every moment, and no two can be had at once: two steps differ only in the untils
/// that they owe.
fn turns(n: usize) -> Ltl {
    let owed = || all((1..=n).map(|i| finally(atom(i))));
    let pairs = (1..=n).flat_map(|i| (1..i).map(move |j| not(and(atom(i), atom(j)))));
    all([owed(), globally(next(owed())), globally(all(pairs))])
}

/// Promises side by side, each kept `delay` moments after it was made: 3 states for each set of
/// open promises, 3 * 2 to the power of all delays, and many steps from each. The last two
/// contradict one another: no model.
pub(crate) fn promises(delays: &[usize]) -> String {
    let promise = |(i, delay): (usize, &usize)| format!("G(p{i} -> {}q{i})", "X ".repeat(*delay));
    let promises = delays.iter().enumerate().map(promise);
    let parts: Vec<String> = promises.chain(["G F z & F G !z".to_owned()]).collect();
    parts.join(" & ")
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

/// A formula for each of a row of moments: `a & X b & X X c`, or linear, `a & X (b & X c)`.
fn row(linear: bool, moments: Vec<Ltl>) -> Ltl {
    if linear {
        let last_first = moments.into_iter().rev();
        return last_first
            .reduce(|later, now| and(now, next(later)))
            .unwrap();
    }
    all((0..).zip(moments).map(|(i, now)| after(i, now)))
}

/// `X a & X b`, or linear, `X (a & b)`.
fn both_next(linear: bool, a: Ltl, b: Ltl) -> Ltl {
    match linear {
        true => next(and(a, b)),
        false => and(next(a), next(b)),
    }
}

/// Where numbers of `n` bits begin, and that the first is zero.
fn zero(n: usize, linear: bool) -> Ltl {
    let (m, b) = (|| atom(0), || atom(1));
    let marks = (1..n).map(|_| not(m())).chain([m()]).collect();
    let marks = next(row(linear, marks));
    let zeros = (0..n).map(|_| not(b())).collect();
    all([m(), globally(implies(m(), marks)), row(linear, zeros)])
}

/// A counter of `n` bits that never stops: p0 marks where a number begins, p1 is its bits, lowest
/// first. (Rozier and Vardi, section 4, as Spot's `genltl --rv-counter` and `--rv-counter-linear`
/// write it.) It has one model.
fn plain_counter(n: usize, linear: bool) -> Ltl {
    let (m, b) = (|| atom(0), || atom(1));
    let same = || until(and(not(m()), iff(b(), after(n, b()))), m());
    let carry_ends = and(
        and(not(m()), not(b())),
        both_next(linear, after(n - 1, b()), same()),
    );
    let carries = all([not(m()), b(), after(n, not(b()))]);
    let flips = until(carries, or(m(), carry_ends));
    let even = both_next(linear, after(n - 1, b()), same());
    let odd = both_next(linear, after(n - 1, not(b())), flips);
    all([
        zero(n, linear),
        globally(implies(and(m(), not(b())), even)),
        globally(implies(and(m(), b()), odd)),
    ])
}

/// The same with a proposition for the carry, p2, instead of untils. (`--rv-counter-carry`,
/// `--rv-counter-carry-linear`.)
fn carry_counter(n: usize, linear: bool) -> Ltl {
    let (m, b, c) = (|| atom(0), || atom(1), || atom(2));
    let keeps = both_next(linear, not(c()), iff(b(), after(n, b())));
    let ends = implies(not(b()), and(not(c()), after(n, b())));
    let goes_on = implies(b(), and(c(), after(n, not(b()))));
    all([
        zero(n, linear),
        globally(implies(and(m(), not(b())), and(not(c()), after(n, b())))),
        globally(implies(and(m(), b()), and(c(), after(n, not(b()))))),
        globally(implies(and(not(c()), next(not(m()))), keeps)),
        globally(implies(c(), both_next(linear, ends, goes_on))),
    ])
}

/// The four counters of `n` bits.
fn counters(n: usize) -> [(&'static str, Ltl); 4] {
    [
        ("plain", plain_counter(n, false)),
        ("plain, linear", plain_counter(n, true)),
        ("carry", carry_counter(n, false)),
        ("carry, linear", carry_counter(n, true)),
    ]
}

/// The first of these counters.
pub(crate) fn counter(n: usize) -> Ltl {
    plain_counter(n, false)
}

/// A counter that never comes to its largest number, which in every model of a counter comes.
pub(crate) fn broken(counter: Ltl, n: usize) -> Ltl {
    let largest = all((0..n).map(|i| after(i, atom(1))).chain([atom(0)]));
    and(counter, globally(not(largest)))
}

/// A counter beside promises that it has nothing to do with: much to find before it has come
/// around.
pub(crate) fn busy_counter(n: usize) -> Ltl {
    let promise = |i, delay| globally(implies(atom(i), after(delay, atom(i + 1))));
    all([counter(n), promise(2, 2), promise(4, 2)])
}

#[test]
fn counters_count() {
    for n in 1..=8 {
        for (name, counter) in counters(n) {
            let words = models(&counter.to_string()).unwrap();
            for word in &words {
                assert!(holds(&counter, word), "{name}, {n} bits: no model");
                for (number, bits) in word.moments.chunks_exact(n).enumerate() {
                    let bit = |(i, moment): (usize, &Vec<bool>)| usize::from(moment[1]) << i;
                    let read: usize = bits.iter().enumerate().map(bit).sum();
                    assert_eq!(read, number % (1 << n), "{name}, {n} bits");
                }
                assert!(word.moments.len() >= n << n, "{name}, {n} bits: too short");
            }
            let never = broken(counter, n);
            assert!(models(&never.to_string()).is_none(), "{name}, {n} bits");
        }
    }
}
