//! Questions and answers, for people and as JSON.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tableau::{Decision, Formulas, Id, Lasso, Literal, Moment, SyntaxError, Tree, parse};

use crate::args::Args;
use crate::input::Asked;

/// The question about each formula.
pub(crate) enum Question {
    Satisfiable,
    Valid,
    Equivalent(Tree),
}

impl Question {
    pub(crate) fn new(args: &Args) -> Result<Self, String> {
        match (&args.equivalent, args.valid) {
            (Some(text), _) => {
                let tree = parse(text)
                    .map_err(|error| format!("--equivalent: {error}\n{}", error.caret()))?;
                Ok(Self::Equivalent(tree))
            }
            (None, true) => Ok(Self::Valid),
            (None, false) => Ok(Self::Satisfiable),
        }
    }

    /// The formula whose model answers it.
    pub(crate) fn root(&self, formulas: &mut Formulas, tree: &Tree) -> Id {
        match self {
            Self::Satisfiable => formulas.read(tree, true),
            Self::Valid => formulas.read(tree, false),
            Self::Equivalent(other) => {
                let (here, there) = (formulas.read(tree, true), formulas.read(other, true));
                let (not_here, not_there) =
                    (formulas.read(tree, false), formulas.read(other, false));
                let only_here = formulas.and(here, not_there);
                let only_there = formulas.and(not_here, there);
                formulas.or(only_here, only_there)
            }
        }
    }

    /// Whether a model of [`Question::root`] means yes.
    fn wants_model(&self) -> bool {
        matches!(self, Self::Satisfiable)
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Satisfiable => "satisfiable",
            Self::Valid => "valid",
            Self::Equivalent(_) => "equivalent",
        }
    }

    fn verdict(&self, yes: bool) -> &'static str {
        match (self, yes) {
            (Self::Satisfiable, false) => "unsatisfiable",
            (Self::Valid, false) => "not valid",
            (Self::Equivalent(_), false) => "not equivalent",
            (_, true) => self.name(),
        }
    }
}

/// The answer about one formula.
pub(crate) struct Answer {
    pub(crate) yes: bool,
    question: &'static str,
    verdict: &'static str,
    model: Option<(String, Value)>,
    states: usize,
    steps: u64,
    time: Duration,
}

impl Answer {
    pub(crate) fn new(
        question: &Question,
        formulas: &Formulas,
        decision: &Decision,
        time: Duration,
    ) -> Self {
        let model = decision.model.as_ref();
        let yes = model.is_some() == question.wants_model();
        Self {
            yes,
            question: question.name(),
            verdict: question.verdict(yes),
            model: model.map(|lasso| (text(formulas, lasso), value(formulas, lasso))),
            states: decision.states,
            steps: decision.steps,
            time,
        }
    }

    /// The answer as one line.
    pub(crate) fn shown(&self, asked: &Asked, json: bool) -> String {
        if json {
            return self.json(asked).to_string();
        }
        let place = asked.place.as_ref();
        let place = place.map_or(String::new(), |(file, line)| format!("{file}:{line}: "));
        let model = self.model.as_ref();
        let model = model.map_or(String::new(), |(text, _)| format!(": {text}"));
        format!("{place}{}{model}", self.verdict)
    }

    fn json(&self, asked: &Asked) -> Value {
        let mut object = json!({
            "formula": asked.text,
            "question": self.question,
            "answer": self.yes,
            "states": self.states,
            "steps": self.steps,
            "seconds": self.time.as_secs_f64(),
        });
        if let Some((_, model)) = &self.model {
            object["model"] = model.clone();
        }
        place(&mut object, asked);
        object
    }
}

/// JSON about a text that is no formula: as many objects as there were questions.
pub(crate) fn mistake(asked: &Asked, error: &SyntaxError) -> String {
    let mut object = json!({
        "formula": asked.text,
        "error": error.message,
        "column": error.column,
    });
    place(&mut object, asked);
    object.to_string()
}

fn place(object: &mut Value, asked: &Asked) {
    if let Some((file, line)) = &asked.place {
        object["file"] = json!(file);
        object["line"] = json!(line);
    }
}

/// `a & !b; cycle{1; b}`, as Spot writes words.
fn text(formulas: &Formulas, lasso: &Lasso) -> String {
    let moment = |moment: &Moment| match moment.is_empty() {
        true => "1".to_owned(),
        false => {
            let literals: Vec<String> = moment.iter().map(|one| literal(formulas, one)).collect();
            literals.join(" & ")
        }
    };
    let moments = |row: &[Moment]| row.iter().map(moment).collect::<Vec<_>>().join("; ");
    let stem = moments(&lasso.stem);
    let then = if stem.is_empty() { "" } else { "; " };
    format!("{stem}{then}cycle{{{}}}", moments(&lasso.cycle))
}

fn literal(formulas: &Formulas, literal: &Literal) -> String {
    let name = &formulas.atoms()[literal.atom];
    // A name that reads as something else needs quotes: `G`, `a b`, `(p)`.
    let plain =
        parse(name).is_ok_and(|tree| tree.nodes.len() == 1 && tree.atoms == [name.as_str()]);
    let sign = if literal.positive { "" } else { "!" };
    match plain {
        true => format!("{sign}{name}"),
        false => format!("{sign}\"{name}\""),
    }
}

/// `{"stem": [{"a": true, "b": false}], "cycle": [{}, {"b": true}]}`
fn value(formulas: &Formulas, lasso: &Lasso) -> Value {
    let moment = |moment: &Moment| {
        let entry = |literal: &Literal| {
            let name = formulas.atoms()[literal.atom].clone();
            (name, Value::Bool(literal.positive))
        };
        Value::Object(moment.iter().map(entry).collect::<Map<_, _>>())
    };
    let moments = |row: &[Moment]| row.iter().map(moment).collect::<Vec<_>>();
    json!({"stem": moments(&lasso.stem), "cycle": moments(&lasso.cycle)})
}
