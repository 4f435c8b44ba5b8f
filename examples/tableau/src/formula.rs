//! Formulas in negation normal form, each different one once.
//!
//! Every operator is rewritten to the six that the tableau knows, and negation is moved to the
//! propositions. A formula is named by a number ([`Id`]), so that sets of formulas are sets of
//! numbers and equality costs a comparison. The numbers follow from the text alone: every process
//! that reads the same text gives the same ones.

use std::collections::HashMap;

use crate::syntax::{Binary, Node, Tree, Unary};

/// A formula's number in its [`Formulas`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u32);

impl Id {
    const FALSE: Self = Self(0);
    const TRUE: Self = Self(1);

    /// The ID as a place in a table.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// The ID as it is told to another process, which must know how many formulas there are.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// The one of this number, if there are more than that.
    pub(crate) fn of(number: u32, formulas: usize) -> Option<Self> {
        ((number as usize) < formulas).then_some(Self(number))
    }

    /// The ID as bytes that are the same on every machine.
    pub(crate) fn to_bytes(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }
}

/// A proposition or its negation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Literal {
    /// The proposition, by its place in [`Formulas::atoms`].
    pub atom: usize,
    /// Whether it holds.
    pub positive: bool,
}

/// A formula in negation normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Formula {
    /// Never holds.
    False,
    /// Always holds.
    True,
    /// Holds or not by the moment alone.
    Literal(Literal),
    /// Both.
    And(Id, Id),
    /// At least one of the two holds.
    Or(Id, Id),
    /// The formula holds at the next moment.
    Next(Id),
    /// The second comes, and until then the first.
    Until(Id, Id),
    /// The second up to and including the first moment of the first, which may never come.
    Release(Id, Id),
}

/// All formulas of a question.
///
/// The constructors simplify where that is free: constants, repetitions, `p & !p`, `F F a`, `G G
/// a`.
#[derive(Debug)]
pub struct Formulas {
    formulas: Vec<Formula>,
    ids: HashMap<Formula, Id>,
    atoms: Vec<String>,
}

impl Default for Formulas {
    fn default() -> Self {
        let mut new = Self {
            formulas: Vec::new(),
            ids: HashMap::new(),
            atoms: Vec::new(),
        };
        // In the order of `Id::FALSE` and `Id::TRUE`.
        new.add(Formula::False);
        new.add(Formula::True);
        new
    }
}

impl Formulas {
    /// The formula of this number.
    #[must_use]
    pub fn get(&self, id: Id) -> Formula {
        self.formulas[id.index()]
    }

    /// A table with these propositions and the formulas that follow the two constants, as another
    /// process has them. `None` if no table can be like that.
    pub(crate) fn from_parts(
        atoms: Vec<String>,
        formulas: impl IntoIterator<Item = Formula>,
    ) -> Option<Self> {
        let mut table = Self {
            atoms,
            ..Self::default()
        };
        for formula in formulas {
            let expected = table.len();
            let known = |id: Id| id.index() < expected;
            let right = match formula {
                Formula::False | Formula::True => false,
                Formula::Literal(literal) => literal.atom < table.atoms.len(),
                Formula::Next(a) => known(a),
                Formula::And(a, b)
                | Formula::Or(a, b)
                | Formula::Until(a, b)
                | Formula::Release(a, b) => known(a) && known(b),
            };
            if !right || table.add(formula).index() != expected {
                return None;
            }
        }
        Some(table)
    }

    /// The formulas that follow the two constants, each behind its operands.
    pub(crate) fn parts(&self) -> &[Formula] {
        self.formulas.get(2..).unwrap_or_default()
    }

    /// The number of formulas; the two constants are always there.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(&self) -> usize {
        self.formulas.len()
    }

    /// The names of the propositions.
    #[must_use]
    pub fn atoms(&self) -> &[String] {
        &self.atoms
    }

    /// Reads a tree, or its negation. Propositions of several trees are the same if their names
    /// are.
    pub fn read(&mut self, tree: &Tree, positive: bool) -> Id {
        let atoms: Vec<usize> = tree.atoms.iter().map(|name| self.atom(name)).collect();
        let needed = polarities(tree, positive);
        // [negated, as it is], for each node; unneeded ones stay empty.
        let mut read: Vec<[Id; 2]> = Vec::with_capacity(tree.nodes.len());
        for (node, needed) in tree.nodes.iter().zip(needed) {
            let mut both = [Id::FALSE; 2];
            for positive in [false, true] {
                if needed[usize::from(positive)] {
                    let operand = |at: usize, positive| read[at][usize::from(positive)];
                    both[usize::from(positive)] = self.node(*node, positive, &atoms, operand);
                }
            }
            read.push(both);
        }
        read.last()
            .map_or(Id::FALSE, |root| root[usize::from(positive)])
    }

    /// Makes one node or its negation, when its operands have been read.
    fn node(
        &mut self,
        node: Node,
        positive: bool,
        atoms: &[usize],
        operand: impl Fn(usize, bool) -> Id,
    ) -> Id {
        let (yes, no) = (positive, !positive);
        match node {
            Node::Constant(value) if value == positive => Id::TRUE,
            Node::Constant(_) => Id::FALSE,
            Node::Atom(atom) => {
                let atom = atoms[atom];
                self.add(Formula::Literal(Literal { atom, positive }))
            }
            Node::Unary(Unary::Not, a) => operand(a, no),
            Node::Unary(Unary::Next, a) => self.next(operand(a, yes)),
            Node::Unary(Unary::Finally, a) => self.always_or_ever(positive, operand(a, yes)),
            Node::Unary(Unary::Globally, a) => self.always_or_ever(!positive, operand(a, yes)),
            Node::Binary(operator, a, b) => {
                let (a, not_a) = (operand(a, yes), operand(a, no));
                let (b, not_b) = (operand(b, yes), operand(b, no));
                self.binary(operator, positive, [a, not_a], [b, not_b])
            }
        }
    }

    /// `operator` or its negation. `a` and `b` are the operands of the same sign as the whole,
    /// `not_a` and `not_b` those of the other.
    fn binary(
        &mut self,
        operator: Binary,
        positive: bool,
        [a, not_a]: [Id; 2],
        [b, not_b]: [Id; 2],
    ) -> Id {
        match (operator, positive) {
            (Binary::And, true) | (Binary::Or, false) => self.and(a, b),
            (Binary::Or, true) | (Binary::And, false) => self.or(a, b),
            (Binary::Implies, true) => self.or(not_a, b),
            (Binary::Implies, false) => self.and(not_a, b),
            // Both operands in both signs, whichever operator is the plain one.
            (Binary::Iff, true) | (Binary::Xor, false) => {
                let (first, second) = (self.or(not_a, b), self.or(a, not_b));
                self.and(first, second)
            }
            (Binary::Xor, true) | (Binary::Iff, false) => {
                let (first, second) = (self.or(a, b), self.or(not_a, not_b));
                self.and(first, second)
            }
            (Binary::Until, true) | (Binary::Release, false) => self.until(a, b),
            (Binary::Release, true) | (Binary::Until, false) => self.release(a, b),
            (Binary::WeakUntil, true) => {
                let either = self.or(a, b);
                self.release(b, either)
            }
            (Binary::WeakUntil, false) => {
                let both = self.and(a, b);
                self.until(b, both)
            }
            (Binary::StrongRelease, true) => {
                let both = self.and(a, b);
                self.until(b, both)
            }
            (Binary::StrongRelease, false) => {
                let either = self.or(a, b);
                self.release(b, either)
            }
        }
    }

    fn atom(&mut self, name: &str) -> usize {
        let known = self.atoms.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.atoms.push(name.to_owned());
            self.atoms.len() - 1
        })
    }

    fn add(&mut self, formula: Formula) -> Id {
        if let Some(&id) = self.ids.get(&formula) {
            return id;
        }
        // A formula takes at least a byte of text, and texts end long before 4 GiB.
        let id = Id(u32::try_from(self.formulas.len()).unwrap_or(u32::MAX));
        self.formulas.push(formula);
        self.ids.insert(formula, id);
        id
    }

    /// Both of two formulas.
    pub fn and(&mut self, a: Id, b: Id) -> Id {
        match (a.min(b), a.max(b)) {
            (Id::FALSE, _) => Id::FALSE,
            (Id::TRUE, other) => other,
            (a, b) if a == b => a,
            (a, b) if self.contradict(a, b) => Id::FALSE,
            (a, b) => self.add(Formula::And(a, b)),
        }
    }

    /// At least one of two formulas.
    pub fn or(&mut self, a: Id, b: Id) -> Id {
        match (a.min(b), a.max(b)) {
            (Id::FALSE, other) => other,
            (Id::TRUE, _) => Id::TRUE,
            (a, b) if a == b => a,
            (a, b) if self.contradict(a, b) => Id::TRUE,
            (a, b) => self.add(Formula::Or(a, b)),
        }
    }

    fn contradict(&self, a: Id, b: Id) -> bool {
        match (self.get(a), self.get(b)) {
            (Formula::Literal(a), Formula::Literal(b)) => {
                a.atom == b.atom && a.positive != b.positive
            }
            _ => false,
        }
    }

    fn next(&mut self, a: Id) -> Id {
        match a {
            Id::FALSE | Id::TRUE => a,
            _ => self.add(Formula::Next(a)),
        }
    }

    /// `F a` if `ever`, else `G a`.
    fn always_or_ever(&mut self, ever: bool, a: Id) -> Id {
        match ever {
            true => self.until(Id::TRUE, a),
            false => self.release(Id::FALSE, a),
        }
    }

    fn until(&mut self, a: Id, b: Id) -> Id {
        match self.get(b) {
            Formula::False | Formula::True => b,
            // a U (a U c) is a U c.
            Formula::Until(same, _) if same == a => b,
            _ if a == Id::FALSE || a == b => b,
            _ => self.add(Formula::Until(a, b)),
        }
    }

    fn release(&mut self, a: Id, b: Id) -> Id {
        match self.get(b) {
            Formula::False | Formula::True => b,
            // a R (a R c) is a R c.
            Formula::Release(same, _) if same == a => b,
            _ if a == Id::TRUE || a == b => b,
            _ => self.add(Formula::Release(a, b)),
        }
    }
}

/// The nodes that are needed [negated, as they are]. Unneeded ones would only make the sets larger.
fn polarities(tree: &Tree, positive: bool) -> Vec<[bool; 2]> {
    let mut needed = vec![[false; 2]; tree.nodes.len()];
    if let Some(root) = needed.last_mut() {
        root[usize::from(positive)] = true;
    }
    // Operators stand behind their operands.
    for (at, node) in tree.nodes.iter().enumerate().rev() {
        let [negated, plain] = needed[at];
        let mut need = |operand: usize, same: bool, other: bool| {
            needed[operand][0] |= (same && negated) || (other && plain);
            needed[operand][1] |= (same && plain) || (other && negated);
        };
        match *node {
            Node::Constant(_) | Node::Atom(_) => {}
            Node::Unary(Unary::Not, a) => need(a, false, true),
            Node::Unary(_, a) => need(a, true, false),
            Node::Binary(Binary::Iff | Binary::Xor, a, b) => {
                need(a, true, true);
                need(b, true, true);
            }
            Node::Binary(Binary::Implies, a, b) => {
                need(a, false, true);
                need(b, true, false);
            }
            Node::Binary(_, a, b) => {
                need(a, true, false);
                need(b, true, false);
            }
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse;

    fn shown(formulas: &Formulas, id: Id) -> String {
        let pair = |a, b| format!("{} {}", shown(formulas, a), shown(formulas, b));
        match formulas.get(id) {
            Formula::False => "0".to_owned(),
            Formula::True => "1".to_owned(),
            Formula::Literal(Literal { atom, positive }) => {
                let sign = if positive { "" } else { "!" };
                format!("{sign}{}", formulas.atoms()[atom])
            }
            Formula::And(a, b) => format!("(& {})", pair(a, b)),
            Formula::Or(a, b) => format!("(| {})", pair(a, b)),
            Formula::Next(a) => format!("(X {})", shown(formulas, a)),
            Formula::Until(a, b) => format!("(U {})", pair(a, b)),
            Formula::Release(a, b) => format!("(R {})", pair(a, b)),
        }
    }

    fn read(text: &str, positive: bool) -> String {
        let mut formulas = Formulas::default();
        let id = formulas.read(&parse(text).unwrap(), positive);
        shown(&formulas, id)
    }

    #[test]
    fn negation_goes_to_the_propositions() {
        for (text, plain, negated) in [
            ("a U b", "(U a b)", "(R !a !b)"),
            ("a R b", "(R a b)", "(U !a !b)"),
            ("X a", "(X a)", "(X !a)"),
            ("F a", "(U 1 a)", "(R 0 !a)"),
            ("G a", "(R 0 a)", "(U 1 !a)"),
            ("a -> b", "(| !a b)", "(& a !b)"),
            ("a W b", "(R b (| a b))", "(U !b (& !a !b))"),
            ("a M b", "(U b (& a b))", "(R !b (| !a !b))"),
            ("!(a & !b)", "(| !a b)", "(& a !b)"),
        ] {
            assert_eq!(read(text, true), plain, "{text}");
            assert_eq!(read(text, false), negated, "not {text}");
        }
    }

    #[test]
    fn what_is_free_is_simplified() {
        for (text, simple) in [
            ("p & !p", "0"),
            ("p | !p", "1"),
            ("p & (q & p) & true", "(& p (& p q))"),
            ("F F p", "(U 1 p)"),
            ("G G p", "(R 0 p)"),
            ("X true", "1"),
            ("p U false", "0"),
            ("false U p", "p"),
            ("p U (p U q)", "(U p q)"),
            ("true R p", "p"),
        ] {
            assert_eq!(read(text, true), simple, "{text}");
        }
    }

    #[test]
    fn equal_ones_are_one() {
        let mut formulas = Formulas::default();
        let one = formulas.read(&parse("X(q & p) U (a | b)").unwrap(), true);
        let other = formulas.read(&parse("!(!X(p & q) R (!b & !a))").unwrap(), true);
        assert_eq!(one, other);
    }

    #[test]
    fn a_tower_of_equivalences_stays_small() {
        let names: Vec<String> = (0..1_000).map(|n| format!("p{n}")).collect();
        let tower = names.join(" <-> ");
        let mut formulas = Formulas::default();
        formulas.read(&parse(&tower).unwrap(), true);
        assert!(formulas.len() < 20_000);
    }
}
