//! Formulas as people write them: words, precedence, and errors that point at the place.

mod parse;
mod token;

use std::fmt;

pub use parse::parse;

/// An operator with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// `!`
    Not,
    /// `X`: at the next moment.
    Next,
    /// `F`: now or later.
    Finally,
    /// `G`: now and ever after.
    Globally,
}

/// An operator with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `&`
    And,
    /// `|`
    Or,
    /// `^`: exactly one of the two.
    Xor,
    /// `->`
    Implies,
    /// `<->`
    Iff,
    /// `a U b`: `b` comes, and until then `a`.
    Until,
    /// `a R b`: `b` up to and including the first moment of `a`, which may never come.
    Release,
    /// `a W b`: `a` until `b`, which may never come.
    WeakUntil,
    /// `a M b`: `a R b`, and `a` comes.
    StrongRelease,
}

/// One node of a [`Tree`]; operands are places in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// `true` or `false`.
    Constant(bool),
    /// A proposition, by its place in [`Tree::atoms`].
    Atom(usize),
    /// An operator and its operand.
    Unary(Unary, usize),
    /// An operator and its operands.
    Binary(Binary, usize, usize),
}

/// A formula as it was written.
///
/// Operands stand before their operators and the whole stands last, so that walking it needs a loop
/// and no recursion: the depth of a formula is its author's choice, the depth of the stack is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The nodes; at least one.
    pub nodes: Vec<Node>,
    /// The names of the propositions, each once.
    pub atoms: Vec<String>,
}

/// Characters of a long line that are shown before a mistake, and from it on.
const AROUND: usize = 80;

/// The place at which a text is no formula, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The line, from 1.
    pub line: usize,
    /// The column, in characters, from 1.
    pub column: usize,
    /// The expected and the found text.
    pub message: String,
    /// The line of the text.
    pub excerpt: String,
}

impl SyntaxError {
    /// The error at byte `at` of `text`.
    fn new(text: &str, at: usize, message: impl Into<String>) -> Self {
        let before = &text[..at];
        let begin = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: text[begin..at].chars().count() + 1,
            message: message.into(),
            excerpt: text[begin..].lines().next().unwrap_or_default().to_owned(),
        }
    }

    /// The line of the text around the place, with a caret below that. A tab stays a tab, so that
    /// the caret stays below; a terminal obeys no other control character.
    #[must_use]
    pub fn caret(&self) -> String {
        let before = self.column - 1;
        let from = before.saturating_sub(AROUND);
        let part = self.excerpt.chars().skip(from).take(before - from + AROUND);
        let shown = |c: char| match c.is_control() && c != '\t' {
            true => char::REPLACEMENT_CHARACTER,
            false => c,
        };
        let line: String = part.map(shown).collect();
        let blank = |c: char| if c == '\t' { '\t' } else { ' ' };
        let pad: String = line.chars().take(before - from).map(blank).collect();
        format!("  {line}\n  {pad}^")
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for SyntaxError {}
