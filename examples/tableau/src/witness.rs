//! A model out of a fair component: a way there, and a circle in it that keeps every promise.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::expand::{State, expand};
use crate::formula::{Formulas, Id, Literal};
use crate::graph::{Edge, Graph};

/// A moment: propositions that hold or do not hold. The others are free.
pub type Moment = Box<[Literal]>;

/// A model of a formula: the moments of `stem`, then those of `cycle` again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lasso {
    /// The beginning; may be empty.
    pub stem: Vec<Moment>,
    /// The part that repeats; at least one moment.
    pub cycle: Vec<Moment>,
}

/// A step of a model, as far as the graph tells.
#[derive(Clone, Debug)]
pub(crate) struct Hop {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) owed: Box<[Id]>,
}

/// A run that keeps all its promises: a way into a fair component, and one round in it.
#[derive(Clone, Debug)]
pub struct Path {
    stem: Vec<Hop>,
    cycle: Vec<Hop>,
}

impl Path {
    /// Makes a path that ends in the fair component `members`.
    pub(crate) fn new(graph: &Graph, members: &HashSet<u32>) -> Self {
        let stem = match members.contains(&0) {
            true => Vec::new(),
            false => way(graph, 0, None, |(_, edge)| members.contains(&edge.to)),
        };
        let entry = stem.last().map_or(0, |(_, edge)| edge.to);
        let cycle = circle(graph, entry, members);
        let hops = |way: &[Taken]| way.iter().map(|taken| hop(graph, *taken)).collect();
        Self {
            stem: hops(&stem),
            cycle: hops(&cycle),
        }
    }

    /// The states that it visits, some of them several times.
    pub fn states(&self) -> impl Iterator<Item = u32> {
        // Where a hop leads, another one begins.
        self.stem.iter().chain(&self.cycle).map(|hop| hop.from)
    }

    /// The moments of the path as a lasso. `None` if the states of these numbers are not those of
    /// the graph.
    pub(crate) fn lasso<'a>(
        &self,
        table: &Formulas,
        state: impl Fn(u32) -> Option<&'a State>,
    ) -> Option<Lasso> {
        let moment = |hop: &Hop| moment(table, hop, state(hop.from)?, state(hop.to)?);
        let moments = |hops: &[Hop]| hops.iter().map(moment).collect::<Option<Vec<_>>>();
        Some(Lasso {
            stem: moments(&self.stem)?,
            cycle: moments(&self.cycle)?,
        })
    }
}

/// The moment of a step from one state to another.
fn moment(table: &Formulas, hop: &Hop, from: &State, to: &State) -> Option<Moment> {
    let steps = expand(table, from);
    let mut steps = steps.into_iter();
    let step = steps.find(|step| step.next == *to && step.owed == hop.owed);
    step.map(|step| step.when)
}

/// A step and where it begins.
type Taken = (u32, Edge);

fn hop(graph: &Graph, (from, edge): Taken) -> Hop {
    Hop {
        from,
        to: edge.to,
        owed: graph.owed(edge.owed).into(),
    }
}

/// A way inside a fair component from `entry` back to it, such that no until is owed by all of its
/// steps.
fn circle(graph: &Graph, entry: u32, members: &HashSet<u32>) -> Vec<Taken> {
    let mut taken: Vec<Taken> = Vec::new();
    let mut at = entry;
    loop {
        let owed = owed_by_all(graph, &taken);
        let goal = |&(_, edge): &Taken| match owed.as_ref().map(|owed| owed.first()) {
            // No step yet: any will do.
            None => true,
            Some(Some(until)) => graph.owed(edge.owed).binary_search(until).is_err(),
            Some(None) => edge.to == entry,
        };
        if at == entry && owed.as_ref().is_some_and(Vec::is_empty) {
            return taken;
        }
        taken.extend(way(graph, at, Some(members), goal));
        at = taken.last().map_or(entry, |(_, edge)| edge.to);
    }
}

/// The untils that every one of some steps owes; `None` if there are no steps.
fn owed_by_all(graph: &Graph, taken: &[Taken]) -> Option<Vec<Id>> {
    let sets = taken.iter().map(|(_, edge)| graph.owed(edge.owed));
    sets.fold(None, |common, owed| {
        let mut both = common.unwrap_or_else(|| owed.to_vec());
        both.retain(|until| owed.binary_search(until).is_ok());
        Some(both)
    })
}

/// A shortest way from `from`, inside `within` if given, whose last step meets `goal`. There is
/// one: the callers ask only for states that can be reached.
fn way(
    graph: &Graph,
    from: u32,
    within: Option<&HashSet<u32>>,
    goal: impl Fn(&Taken) -> bool,
) -> Vec<Taken> {
    let mut came_by: HashMap<u32, Option<Taken>> = HashMap::from([(from, None)]);
    let mut queue = VecDeque::from([from]);
    while let Some(state) = queue.pop_front() {
        for edge in graph.edges(state) {
            if within.is_some_and(|within| !within.contains(&edge.to)) {
                continue;
            }
            let taken = (state, *edge);
            if goal(&taken) {
                return back(&came_by, taken);
            }
            came_by.entry(edge.to).or_insert_with(|| {
                queue.push_back(edge.to);
                Some(taken)
            });
        }
    }
    unreachable!("a step of a component can be reached from everywhere in it")
}

fn back(came_by: &HashMap<u32, Option<Taken>>, last: Taken) -> Vec<Taken> {
    let mut way = vec![last];
    let mut at = last.0;
    while let Some(Some(taken)) = came_by.get(&at) {
        way.push(*taken);
        at = taken.0;
    }
    way.reverse();
    way
}
