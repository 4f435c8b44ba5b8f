//! Text into words.

use super::{Binary, SyntaxError, Unary};

/// A word of the language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Constant(bool),
    Atom(String),
    Unary(Unary),
    Binary(Binary),
    Open,
    Close,
    End,
}

/// A word, and the bytes of the text that it takes.
pub(super) struct Spanned {
    pub(super) token: Token,
    pub(super) begin: usize,
    pub(super) end: usize,
}

/// Spellings that are not names. Of two that begin alike, the longer stands first.
const SIGNS: &[(&str, Token)] = &[
    ("<->", Token::Binary(Binary::Iff)),
    ("<=>", Token::Binary(Binary::Iff)),
    ("↔", Token::Binary(Binary::Iff)),
    ("⇔", Token::Binary(Binary::Iff)),
    ("≡", Token::Binary(Binary::Iff)),
    ("<>", Token::Unary(Unary::Finally)),
    ("◇", Token::Unary(Unary::Finally)),
    ("◊", Token::Unary(Unary::Finally)),
    ("⋄", Token::Unary(Unary::Finally)),
    ("♢", Token::Unary(Unary::Finally)),
    ("[]", Token::Unary(Unary::Globally)),
    ("□", Token::Unary(Unary::Globally)),
    ("◻", Token::Unary(Unary::Globally)),
    ("○", Token::Unary(Unary::Next)),
    ("◯", Token::Unary(Unary::Next)),
    ("->", Token::Binary(Binary::Implies)),
    ("=>", Token::Binary(Binary::Implies)),
    ("→", Token::Binary(Binary::Implies)),
    ("⇒", Token::Binary(Binary::Implies)),
    ("⊃", Token::Binary(Binary::Implies)),
    ("&&", Token::Binary(Binary::And)),
    ("&", Token::Binary(Binary::And)),
    ("/\\", Token::Binary(Binary::And)),
    ("∧", Token::Binary(Binary::And)),
    ("||", Token::Binary(Binary::Or)),
    ("|", Token::Binary(Binary::Or)),
    ("\\/", Token::Binary(Binary::Or)),
    ("∨", Token::Binary(Binary::Or)),
    ("^", Token::Binary(Binary::Xor)),
    ("⊕", Token::Binary(Binary::Xor)),
    ("!", Token::Unary(Unary::Not)),
    ("~", Token::Unary(Unary::Not)),
    ("¬", Token::Unary(Unary::Not)),
    ("⊤", Token::Constant(true)),
    ("⊥", Token::Constant(false)),
    ("(", Token::Open),
    (")", Token::Close),
];

/// Names that mean something.
const NAMES: &[(&str, Token)] = &[
    ("true", Token::Constant(true)),
    ("1", Token::Constant(true)),
    ("false", Token::Constant(false)),
    ("0", Token::Constant(false)),
    ("not", Token::Unary(Unary::Not)),
    ("and", Token::Binary(Binary::And)),
    ("or", Token::Binary(Binary::Or)),
    ("xor", Token::Binary(Binary::Xor)),
    ("U", Token::Binary(Binary::Until)),
    ("R", Token::Binary(Binary::Release)),
    ("V", Token::Binary(Binary::Release)),
    ("W", Token::Binary(Binary::WeakUntil)),
    ("M", Token::Binary(Binary::StrongRelease)),
];

/// Cuts `text` into words; the last one is [`Token::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Spanned>, SyntaxError> {
    // Not even between quotes: two names could become one.
    if let Some(at) = text.find(char::REPLACEMENT_CHARACTER) {
        return Err(SyntaxError::new(text, at, "this is not UTF-8"));
    }
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if first.is_whitespace() {
            at += first.len_utf8();
        } else if let Some((sign, token)) = SIGNS.iter().find(|(sign, _)| rest.starts_with(sign)) {
            push(&mut found, token.clone(), at, sign.len());
            at += sign.len();
        } else if first == '"' {
            let Some(length) = rest[1..].find('"') else {
                return Err(SyntaxError::new(text, at, "the quote is not closed"));
            };
            if length == 0 {
                return Err(SyntaxError::new(text, at, "a proposition needs a name"));
            }
            // Models are shown on a terminal, one in a line.
            if let Some(place) = rest[1..=length].find(char::is_control) {
                let message = "a name has no control characters";
                return Err(SyntaxError::new(text, at + 1 + place, message));
            }
            push(
                &mut found,
                Token::Atom(rest[1..=length].to_owned()),
                at,
                length + 2,
            );
            at += length + 2;
        } else {
            let length = rest.find(|c| !in_name(c)).unwrap_or(rest.len());
            if length == 0 {
                let message = match first.is_control() {
                    true => "a control character".to_owned(),
                    false => format!("`{first}` begins nothing that is known here"),
                };
                return Err(SyntaxError::new(text, at, message));
            }
            name(text, at, &rest[..length], &mut found)?;
            at += length;
        }
    }
    push(&mut found, Token::End, text.trim_end().len(), 0);
    Ok(found)
}

fn push(found: &mut Vec<Spanned>, token: Token, begin: usize, length: usize) {
    let end = begin + length;
    found.push(Spanned { token, begin, end });
}

fn in_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '\'')
}

/// A proposition, a word of the language, or letters that are one operator each: `GF`, `XXX`.
fn name(text: &str, at: usize, name: &str, found: &mut Vec<Spanned>) -> Result<(), SyntaxError> {
    if let Some((_, token)) = NAMES.iter().find(|(known, _)| *known == name) {
        push(found, token.clone(), at, name.len());
        return Ok(());
    }
    let letters: Option<Vec<Unary>> = name.chars().map(unary).collect();
    if let Some(letters) = letters {
        for (place, operator) in letters.into_iter().enumerate() {
            push(found, Token::Unary(operator), at + place, 1);
        }
        return Ok(());
    }
    if name.starts_with(|c: char| c.is_numeric() || matches!(c, '.' | '\'')) {
        let message = format!("`{name}` is no name: one begins with a letter or `_`");
        return Err(SyntaxError::new(text, at, message));
    }
    push(found, Token::Atom(name.to_owned()), at, name.len());
    Ok(())
}

fn unary(letter: char) -> Option<Unary> {
    match letter {
        'X' => Some(Unary::Next),
        'F' => Some(Unary::Finally),
        'G' => Some(Unary::Globally),
        _ => None,
    }
}
