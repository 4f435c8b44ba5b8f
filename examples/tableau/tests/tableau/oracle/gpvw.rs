//! Satisfiability by another way: the automaton of Gerth, Peled, Vardi and Wolper (PSTV 1995),
//! built as it is walked, one counter for its many acceptance conditions, and the nested search of
//! Courcoubetis, Vardi, Wolper and Yannakakis (1992) for an accepting cycle.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use super::Ltl;

/// A formula without negations, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Nnf {
    True,
    False,
    Lit(usize, bool),
    And(u16, u16),
    Or(u16, u16),
    Next(u16),
    Until(u16, u16),
    Release(u16, u16),
}

/// A node of the automaton: the formulas that hold at its moment, and those that must hold after
/// it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Node {
    old: BTreeSet<u16>,
    next: BTreeSet<u16>,
}

type Place = (Rc<Node>, usize);

#[derive(Default)]
struct Automaton {
    formulas: Vec<Nnf>,
    numbers: HashMap<Nnf, u16>,
    /// The untils: one acceptance condition each.
    untils: Vec<(u16, u16)>,
    successors: HashMap<BTreeSet<u16>, Rc<[Rc<Node>]>>,
}

/// Whether `formula` has a model.
pub(crate) fn satisfiable(formula: &Ltl) -> bool {
    let mut automaton = Automaton::default();
    let root = automaton.read(formula, true);
    for (number, formula) in automaton.formulas.iter().enumerate() {
        if let Nnf::Until(_, b) = *formula {
            automaton.untils.push((u16::try_from(number).unwrap(), b));
        }
    }
    automaton.accepts(root)
}

impl Automaton {
    fn add(&mut self, formula: Nnf) -> u16 {
        let new = u16::try_from(self.formulas.len()).unwrap();
        *self.numbers.entry(formula).or_insert_with(|| {
            self.formulas.push(formula);
            new
        })
    }

    fn read(&mut self, formula: &Ltl, sign: bool) -> u16 {
        let read = match formula {
            Ltl::True | Ltl::False => match (*formula == Ltl::True) == sign {
                true => Nnf::True,
                false => Nnf::False,
            },
            Ltl::Atom(number) => Nnf::Lit(*number, sign),
            Ltl::Not(a) => return self.read(a, !sign),
            Ltl::Next(a) => Nnf::Next(self.read(a, sign)),
            Ltl::Finally(a) => {
                let (a, end) = (self.read(a, sign), self.add(constant(sign)));
                dual(sign, Nnf::Until(end, a), Nnf::Release(end, a))
            }
            Ltl::Globally(a) => {
                let (a, end) = (self.read(a, sign), self.add(constant(!sign)));
                dual(sign, Nnf::Release(end, a), Nnf::Until(end, a))
            }
            Ltl::And(a, b) => {
                let (a, b) = (self.read(a, sign), self.read(b, sign));
                dual(sign, Nnf::And(a, b), Nnf::Or(a, b))
            }
            Ltl::Or(a, b) => {
                let (a, b) = (self.read(a, sign), self.read(b, sign));
                dual(sign, Nnf::Or(a, b), Nnf::And(a, b))
            }
            Ltl::Implies(a, b) => {
                let (a, b) = (self.read(a, !sign), self.read(b, sign));
                dual(sign, Nnf::Or(a, b), Nnf::And(a, b))
            }
            Ltl::Iff(a, b) => self.same(a, b, sign),
            Ltl::Xor(a, b) => self.same(a, b, !sign),
            Ltl::Until(a, b) => {
                let (a, b) = (self.read(a, sign), self.read(b, sign));
                dual(sign, Nnf::Until(a, b), Nnf::Release(a, b))
            }
            Ltl::Release(a, b) => {
                let (a, b) = (self.read(a, sign), self.read(b, sign));
                dual(sign, Nnf::Release(a, b), Nnf::Until(a, b))
            }
            // a W b is (a U b) | G a.
            Ltl::WeakUntil(a, b) => {
                let ever = Ltl::Globally(a.clone());
                let or = Ltl::Or(Box::new(Ltl::Until(a.clone(), b.clone())), Box::new(ever));
                return self.read(&or, sign);
            }
            // a M b is (a R b) & F a.
            Ltl::StrongRelease(a, b) => {
                let comes = Ltl::Finally(a.clone());
                let both = Ltl::Release(a.clone(), b.clone());
                return self.read(&Ltl::And(Box::new(both), Box::new(comes)), sign);
            }
        };
        self.add(read)
    }

    /// Both or neither; if not `sign`, exactly one.
    fn same(&mut self, a: &Ltl, b: &Ltl, sign: bool) -> Nnf {
        let both = [self.read(a, true), self.read(b, sign)];
        let none = [self.read(a, false), self.read(b, !sign)];
        let both = self.add(Nnf::And(both[0], both[1]));
        let none = self.add(Nnf::And(none[0], none[1]));
        Nnf::Or(both, none)
    }

    /// The nodes in which everything of `new` holds: `expand` of the paper.
    fn nodes(&mut self, new: &BTreeSet<u16>) -> Rc<[Rc<Node>]> {
        if let Some(known) = self.successors.get(new) {
            return Rc::clone(known);
        }
        let mut found = HashSet::new();
        let empty = Node {
            old: BTreeSet::new(),
            next: BTreeSet::new(),
        };
        self.split(new.clone(), empty, &mut found);
        let found: Rc<[Rc<Node>]> = found.into_iter().map(Rc::new).collect();
        self.successors.insert(new.clone(), Rc::clone(&found));
        found
    }

    fn split(&self, mut new: BTreeSet<u16>, mut node: Node, found: &mut HashSet<Node>) {
        let Some(eta) = new.pop_first() else {
            found.insert(node);
            return;
        };
        if !node.old.insert(eta) {
            return self.split(new, node, found);
        }
        let mut second = None;
        match self.formulas[usize::from(eta)] {
            Nnf::False => return,
            Nnf::True => {}
            Nnf::Lit(number, sign) => {
                let opposite = self.numbers.get(&Nnf::Lit(number, !sign));
                if opposite.is_some_and(|opposite| node.old.contains(opposite)) {
                    return;
                }
            }
            Nnf::And(a, b) => new.extend([a, b]),
            Nnf::Next(a) => {
                node.next.insert(a);
            }
            Nnf::Or(a, b) => {
                second = Some((with(&new, &[b]), node.clone()));
                new.insert(a);
            }
            Nnf::Until(a, b) => {
                second = Some((with(&new, &[b]), node.clone()));
                new.insert(a);
                node.next.insert(eta);
            }
            Nnf::Release(a, b) => {
                second = Some((with(&new, &[a, b]), node.clone()));
                new.insert(b);
                node.next.insert(eta);
            }
        }
        self.split(new, node, found);
        if let Some((new, node)) = second {
            self.split(new, node, found);
        }
    }

    /// Whether a node is in the set of acceptance condition `number`.
    fn fulfils(&self, node: &Node, number: usize) -> bool {
        let Some((until, right)) = self.untils.get(number) else {
            return true;
        };
        let holds = matches!(self.formulas[usize::from(*right)], Nnf::True);
        holds || !node.old.contains(until) || node.old.contains(right)
    }

    fn after(&mut self, (node, waits_for): &Place) -> Vec<Place> {
        let fulfilled = self.fulfils(node, *waits_for);
        let count = self.untils.len().max(1);
        let then = (waits_for + usize::from(fulfilled)) % count;
        let next = self.nodes(&node.next);
        next.iter().map(|node| (Rc::clone(node), then)).collect()
    }

    fn accepts(&mut self, root: u16) -> bool {
        let begin = self.nodes(&BTreeSet::from([root]));
        let (mut blue, mut red) = (HashSet::new(), HashSet::new());
        for node in begin.iter() {
            let place: Place = (Rc::clone(node), 0);
            if blue.insert(place.clone()) && self.search(place, &mut blue, &mut red) {
                return true;
            }
        }
        false
    }

    /// The outer search. The inner one begins at accepting places when all behind them is done, so
    /// that its marks stay.
    fn search(&mut self, from: Place, blue: &mut HashSet<Place>, red: &mut HashSet<Place>) -> bool {
        let mut path = vec![(from.clone(), self.after(&from))];
        while let Some((_, rest)) = path.last_mut() {
            if let Some(next) = rest.pop() {
                if blue.insert(next.clone()) {
                    let behind = self.after(&next);
                    path.push((next, behind));
                }
                continue;
            }
            if let Some((place, _)) = path.pop() {
                let accepting = place.1 == 0 && self.fulfils(&place.0, 0);
                if accepting && self.returns(&place, red) {
                    return true;
                }
            }
        }
        false
    }

    /// The inner search: whether there is a way from `seed` to itself.
    fn returns(&mut self, seed: &Place, red: &mut HashSet<Place>) -> bool {
        let mut open = vec![seed.clone()];
        while let Some(place) = open.pop() {
            for next in self.after(&place) {
                if next == *seed {
                    return true;
                }
                if red.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        false
    }
}

fn constant(value: bool) -> Nnf {
    if value { Nnf::True } else { Nnf::False }
}

fn dual(sign: bool, plain: Nnf, negated: Nnf) -> Nnf {
    if sign { plain } else { negated }
}

fn with(set: &BTreeSet<u16>, more: &[u16]) -> BTreeSet<u16> {
    set.iter().chain(more).copied().collect()
}
