//! Words into a tree, by two stacks (Dijkstra's shunting yard): no recursion, hence no limit on
//! nesting.
//!
//! Precedence, tightest first:
//!
//! 1. `!` `X` `F` `G`
//! 2. `U` `R` `W` `M`, from the right: `a U b U c` is `a U (b U c)`
//! 3. `&`
//! 4. `^`
//! 5. `|`
//! 6. `->`, from the right
//! 7. `<->`

use std::collections::HashMap;

use super::token::{Spanned, Token, tokens};
use super::{Binary, Node, SyntaxError, Tree, Unary};

/// Reads a formula.
///
/// # Errors
/// The first place where `text` is none.
pub fn parse(text: &str) -> Result<Tree, SyntaxError> {
    let words = tokens(text)?;
    let mut reader = Reader::default();
    for word in &words {
        if reader.after_operand {
            reader.operator(text, word)?;
        } else {
            reader.operand(text, word)?;
        }
    }
    Ok(reader.tree)
}

/// An operator that waits for its operand, or an open parenthesis.
enum Waiting {
    Unary(Unary),
    Binary(Binary),
    /// A parenthesis, and where it was opened.
    Open(usize),
}

struct Reader {
    tree: Tree,
    atoms: HashMap<String, usize>,
    operands: Vec<usize>,
    waiting: Vec<Waiting>,
    after_operand: bool,
}

impl Default for Reader {
    fn default() -> Self {
        let (nodes, atoms) = (Vec::new(), Vec::new());
        Self {
            tree: Tree { nodes, atoms },
            atoms: HashMap::new(),
            operands: Vec::new(),
            waiting: Vec::new(),
            after_operand: false,
        }
    }
}

impl Reader {
    /// A word where an operand may begin.
    fn operand(&mut self, text: &str, word: &Spanned) -> Result<(), SyntaxError> {
        match &word.token {
            Token::Constant(value) => self.leaf(Node::Constant(*value)),
            Token::Atom(name) => {
                let atom = self.atom(name);
                self.leaf(Node::Atom(atom));
            }
            Token::Unary(operator) => self.waiting.push(Waiting::Unary(*operator)),
            Token::Open => self.waiting.push(Waiting::Open(word.begin)),
            Token::Binary(_) | Token::Close | Token::End => {
                let message = format!("expected a formula, found {}", shown(text, word));
                return Err(SyntaxError::new(text, word.begin, message));
            }
        }
        Ok(())
    }

    /// A word behind an operand.
    fn operator(&mut self, text: &str, word: &Spanned) -> Result<(), SyntaxError> {
        match &word.token {
            Token::Binary(operator) => {
                let (level, from_right) = rank(*operator);
                self.reduce(if from_right { level } else { level + 1 });
                self.waiting.push(Waiting::Binary(*operator));
                self.after_operand = false;
            }
            Token::Close => {
                self.reduce(0);
                if self.waiting.pop().is_none() {
                    let message = "nothing is open that this `)` could close";
                    return Err(SyntaxError::new(text, word.begin, message));
                }
            }
            Token::End => {
                self.reduce(0);
                if let Some(Waiting::Open(at)) = self.waiting.pop() {
                    return Err(SyntaxError::new(text, at, "this `(` is not closed"));
                }
            }
            _ => {
                let found = shown(text, word);
                let message = format!("expected an operator or the end, found {found}");
                return Err(SyntaxError::new(text, word.begin, message));
            }
        }
        Ok(())
    }

    fn atom(&mut self, name: &str) -> usize {
        if let Some(&atom) = self.atoms.get(name) {
            return atom;
        }
        let atom = self.tree.atoms.len();
        self.tree.atoms.push(name.to_owned());
        self.atoms.insert(name.to_owned(), atom);
        atom
    }

    fn leaf(&mut self, node: Node) {
        self.push(node);
        self.after_operand = true;
    }

    fn push(&mut self, node: Node) {
        self.operands.push(self.tree.nodes.len());
        self.tree.nodes.push(node);
    }

    /// Gives their operands to the operators that wait and bind tighter than `level`.
    fn reduce(&mut self, level: u8) {
        loop {
            let complete = match self.waiting.last() {
                Some(Waiting::Unary(_)) => true,
                Some(Waiting::Binary(operator)) => rank(*operator).0 < level || level == 0,
                Some(Waiting::Open(_)) | None => false,
            };
            if !complete {
                return;
            }
            match (self.waiting.pop(), self.operands.pop()) {
                (Some(Waiting::Unary(operator)), Some(operand)) => {
                    self.push(Node::Unary(operator, operand));
                }
                (Some(Waiting::Binary(operator)), Some(right)) => {
                    if let Some(left) = self.operands.pop() {
                        self.push(Node::Binary(operator, left, right));
                    }
                }
                _ => return,
            }
        }
    }
}

/// How loosely an operator binds, and whether a row of it is read from the right.
fn rank(operator: Binary) -> (u8, bool) {
    match operator {
        Binary::Until | Binary::Release | Binary::WeakUntil | Binary::StrongRelease => (1, true),
        Binary::And => (2, false),
        Binary::Xor => (3, false),
        Binary::Or => (4, false),
        Binary::Implies => (5, true),
        Binary::Iff => (6, false),
    }
}

fn shown(text: &str, word: &Spanned) -> String {
    match word.token {
        Token::End => "the end".to_owned(),
        _ => format!("`{}`", &text[word.begin..word.end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree with every pair of parentheses and one spelling.
    fn full(text: &str) -> String {
        let tree = parse(text).unwrap();
        let mut shown: Vec<String> = Vec::new();
        for node in &tree.nodes {
            let text = match *node {
                Node::Constant(value) => value.to_string(),
                Node::Atom(atom) => tree.atoms[atom].clone(),
                Node::Unary(operator, a) => format!("{operator:?}({})", shown[a]),
                Node::Binary(operator, a, b) => format!("{operator:?}({},{})", shown[a], shown[b]),
            };
            shown.push(text);
        }
        shown.pop().unwrap()
    }

    fn error(text: &str) -> SyntaxError {
        parse(text).unwrap_err()
    }

    #[test]
    fn precedence_is_as_documented() {
        let all = "a <-> b -> c | d ^ e & f U !g";
        let grouped = "a <-> (b -> (c | (d ^ (e & (f U (!g))))))";
        assert_eq!(full(all), full(grouped));
        assert_eq!(full("!a U b & c ^ d | e -> f <-> g"), {
            full("((((((!a) U b) & c) ^ d) | e) -> f) <-> g")
        });
        assert_ne!(full("a & b | c"), full("a & (b | c)"));
    }

    #[test]
    fn rows_are_read_from_their_side() {
        assert_eq!(full("a U b R c W d M e"), full("a U (b R (c W (d M e)))"));
        assert_eq!(full("a -> b -> c"), full("a -> (b -> c)"));
        assert_eq!(full("a & b & c"), full("(a & b) & c"));
        assert_eq!(full("a <-> b <-> c"), full("(a <-> b) <-> c"));
    }

    #[test]
    fn every_spelling_is_read() {
        for (spelled, means) in [
            ("!a; ~a; ¬ a; not a", "Not(a)"),
            ("a && b; a & b; a /\\ b; a ∧ b; a and b", "And(a,b)"),
            ("a || b; a | b; a \\/ b; a ∨ b; a or b", "Or(a,b)"),
            ("a ^ b; a ⊕ b; a xor b", "Xor(a,b)"),
            ("a -> b; a => b; a → b; a ⇒ b; a ⊃ b", "Implies(a,b)"),
            ("a <-> b; a <=> b; a ↔ b; a ⇔ b; a ≡ b", "Iff(a,b)"),
            ("X a; ○a; ◯a; X(a)", "Next(a)"),
            ("F a; <>a; ◇a; ◊a; ⋄a; ♢ a", "Finally(a)"),
            ("G a; []a; □a; ◻a", "Globally(a)"),
            ("a U b", "Until(a,b)"),
            ("a R b; a V b", "Release(a,b)"),
            ("a W b", "WeakUntil(a,b)"),
            ("a M b", "StrongRelease(a,b)"),
            ("true; 1; ⊤", "true"),
            ("false; 0; ⊥", "false"),
        ] {
            for text in spelled.split(';') {
                assert_eq!(full(text), means, "{text}");
            }
        }
    }

    #[test]
    fn letters_may_stand_together() {
        assert_eq!(full("GFp"), "GFp");
        assert_eq!(full("GF p"), "Globally(Finally(p))");
        assert_eq!(full("XX(p)"), "Next(Next(p))");
        assert_eq!(full("\"GF\" & \"a b\""), "And(GF,a b)");
    }

    #[test]
    fn errors_name_the_place() {
        let wrong = error("p & ( q | )");
        assert_eq!(wrong.to_string(), "1:11: expected a formula, found `)`");
        assert_eq!(wrong.caret(), "  p & ( q | )\n            ^");
        for (text, said) in [
            ("", "1:1: expected a formula, found the end"),
            (
                "p &\n q q",
                "2:4: expected an operator or the end, found `q`",
            ),
            ("(p", "1:1: this `(` is not closed"),
            ("((p) & q", "1:1: this `(` is not closed"),
            ("p)", "1:2: nothing is open that this `)` could close"),
            ("p U U q", "1:5: expected a formula, found `U`"),
            ("p ?", "1:3: `?` begins nothing that is known here"),
            (
                "¬é & 2x",
                "1:6: `2x` is no name: one begins with a letter or `_`",
            ),
            ("a & \"b", "1:5: the quote is not closed"),
            ("\"a\nb\"", "1:3: a name has no control characters"),
            ("a \u{1b}", "1:3: a control character"),
            ("G", "1:2: expected a formula, found the end"),
            ("p & ", "1:4: expected a formula, found the end"),
        ] {
            assert_eq!(error(text).to_string(), said, "{text:?}");
        }
        assert_eq!(error("\tp )").caret(), "  \tp )\n  \t  ^");
        assert_eq!(error("\0p").caret(), "  \u{fffd}p\n  ^");
        let long = format!("{} ) & {}", "p".repeat(1_000), "q".repeat(1_000));
        let (left, right) = ("p".repeat(79), "q".repeat(76));
        let caret = format!("  {left} ) & {right}\n  {}^", " ".repeat(80));
        assert_eq!(error(&long).caret(), caret);
    }

    #[test]
    fn depth_is_no_matter() {
        let deep = format!("{}p{}", "(!".repeat(100_000), ")".repeat(100_000));
        assert_eq!(parse(&deep).unwrap().nodes.len(), 100_001);
    }
}
