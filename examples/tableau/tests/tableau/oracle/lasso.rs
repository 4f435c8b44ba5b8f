//! The meaning of a formula on a lasso, operator by operator.

use super::Ltl;

/// A row of moments: `moments[i][p]` tells whether proposition `p` holds; behind the last comes
/// `moments[back]`.
pub(crate) struct Word {
    pub(crate) moments: Vec<Vec<bool>>,
    pub(crate) back: usize,
}

impl Word {
    fn after(&self, at: usize) -> usize {
        if at + 1 < self.moments.len() {
            at + 1
        } else {
            self.back
        }
    }

    /// The moments from `at` on, each once.
    fn from(&self, at: usize) -> impl Iterator<Item = usize> {
        (at..self.moments.len()).chain(self.back..at.max(self.back))
    }
}

/// Whether the word is a model.
pub(crate) fn holds(formula: &Ltl, word: &Word) -> bool {
    assert!(word.back < word.moments.len(), "nothing is repeated");
    values(formula, word)[0]
}

/// Returns the moments at which a formula holds.
fn values(formula: &Ltl, word: &Word) -> Vec<bool> {
    let all = |meaning: &dyn Fn(usize) -> bool| (0..word.moments.len()).map(meaning).collect();
    let two = |a: &Ltl, b: &Ltl, meaning: fn(bool, bool) -> bool| {
        let (a, b) = (values(a, word), values(b, word));
        all(&|at| meaning(a[at], b[at]))
    };
    match formula {
        Ltl::True => all(&|_| true),
        Ltl::False => all(&|_| false),
        Ltl::Atom(number) => all(&|at| word.moments[at][*number]),
        Ltl::Not(a) => values(a, word).iter().map(|holds| !holds).collect(),
        Ltl::Next(a) => {
            let a = values(a, word);
            all(&|at| a[word.after(at)])
        }
        Ltl::Finally(a) => {
            let a = values(a, word);
            all(&|at| word.from(at).any(|then| a[then]))
        }
        Ltl::Globally(a) => {
            let a = values(a, word);
            all(&|at| word.from(at).all(|then| a[then]))
        }
        Ltl::And(a, b) => two(a, b, |a, b| a && b),
        Ltl::Or(a, b) => two(a, b, |a, b| a || b),
        Ltl::Xor(a, b) => two(a, b, |a, b| a != b),
        Ltl::Iff(a, b) => two(a, b, |a, b| a == b),
        Ltl::Implies(a, b) => two(a, b, |a, b| !a || b),
        Ltl::Until(a, b) => {
            let (a, b) = (values(a, word), values(b, word));
            all(&|at| first(word, at, &b).is_some_and(|place| holds_for(word, at, place, &a)))
        }
        Ltl::WeakUntil(a, b) => {
            let (a, b) = (values(a, word), values(b, word));
            let never = word.moments.len();
            all(&|at| holds_for(word, at, first(word, at, &b).unwrap_or(never), &a))
        }
        Ltl::Release(a, b) => {
            let (a, b) = (values(a, word), values(b, word));
            let never = word.moments.len();
            all(&|at| holds_for(word, at, first(word, at, &a).map_or(never, |n| n + 1), &b))
        }
        Ltl::StrongRelease(a, b) => {
            let (a, b) = (values(a, word), values(b, word));
            all(&|at| first(word, at, &a).is_some_and(|place| holds_for(word, at, place + 1, &b)))
        }
    }
}

/// After how many moments from `at` on something holds first.
fn first(word: &Word, at: usize, something: &[bool]) -> Option<usize> {
    word.from(at).position(|then| something[then])
}

/// Whether something holds at each of the first `count` moments from `at` on.
fn holds_for(word: &Word, at: usize, count: usize, something: &[bool]) -> bool {
    word.from(at).take(count).all(|then| something[then])
}

#[cfg(test)]
mod tests {
    use super::super::{atom, finally, globally, next, not, release, until};
    use super::*;

    /// p0 holds where there is an `a`, p1 where there is a `b`.
    fn word(text: &str, back: usize) -> Word {
        let moments = text
            .split(' ')
            .map(|now| vec![now.contains('a'), now.contains('b')])
            .collect();
        Word { moments, back }
    }

    #[test]
    fn operators_mean_what_they_should() {
        let (a, b) = (|| atom(0), || atom(1));
        let row = word("a a b - -", 3);
        assert!(holds(&until(a(), b()), &row));
        assert!(!holds(&globally(a()), &row));
        assert!(holds(&next(next(b())), &row));
        assert!(!holds(&release(b(), a()), &row));
        assert!(holds(&finally(globally(not(b()))), &row));
        assert!(!holds(&globally(finally(b())), &row));
        assert!(holds(&globally(finally(b())), &word("- a b a", 1)));
        assert!(holds(&release(b(), a()), &word("a a ab - ", 3)));
        assert!(!holds(&until(a(), b()), &word("a", 0)));
        let weak = Ltl::WeakUntil(Box::new(a()), Box::new(b()));
        assert!(holds(&weak, &word("a", 0)));
        let strong = Ltl::StrongRelease(Box::new(b()), Box::new(a()));
        assert!(!holds(&strong, &word("a", 0)));
    }
}
