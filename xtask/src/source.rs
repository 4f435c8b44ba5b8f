//! A view of Rust source good enough to measure it: comments and literals blanked out,
//! functions with their extents, the place where unit tests begin.
//!
//! This is not a parser: `syn` would cost a quarter of a minute of every fresh build to count
//! lines.

use std::path::{Path, PathBuf};

use crate::error::{Context, Result};

/// A function of a source file.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of `fn`, from 1.
    pub line: usize,
    /// Lines from `fn` to the closing brace, both included.
    pub lines: usize,
}

/// Every `.rs` file under `dir`, sorted; empty when there is no such directory.
///
/// # Errors
/// A directory cannot be read.
pub fn rust_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_path_buf()];
    while let Some(dir) = pending.pop() {
        if !dir.is_dir() {
            continue;
        }
        for entry in std::fs::read_dir(&dir).context(dir.display())? {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The source with comments, strings and character literals turned into blanks. Lines stay.
#[must_use]
pub fn blanked(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at).unwrap_or(at);
        if end == at {
            out.push(chars[at]);
            at += 1;
            continue;
        }
        for &c in &chars[at..end] {
            out.push(if c == '\n' { '\n' } else { ' ' });
        }
        at = end;
    }
    out
}

/// Returns the place at which the comment or literal that begins at `at` ends, if one begins there.
fn literal_end(chars: &[char], at: usize) -> Option<usize> {
    let next = chars.get(at + 1).copied();
    let in_word = at > 0 && is_word(chars[at - 1]);
    match chars[at] {
        '/' if next == Some('/') => Some(find(chars, at, |rest| rest[0] == '\n')),
        '/' if next == Some('*') => Some(block_comment_end(chars, at)),
        '"' => Some(string_end(chars, at + 1)),
        'r' if !in_word || chars[at - 1] == 'b' => raw_string_end(chars, at + 1),
        '\'' => char_end(chars, at),
        _ => None,
    }
}

fn find(chars: &[char], from: usize, stop: impl Fn(&[char]) -> bool) -> usize {
    (from..chars.len())
        .find(|&at| stop(&chars[at..]))
        .unwrap_or(chars.len())
}

fn block_comment_end(chars: &[char], from: usize) -> usize {
    let mut depth = 0usize;
    let mut at = from;
    while at < chars.len() {
        if chars[at..].starts_with(&['/', '*']) {
            depth += 1;
            at += 2;
        } else if chars[at..].starts_with(&['*', '/']) {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    chars.len()
}

fn string_end(chars: &[char], from: usize) -> usize {
    let mut at = from;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

fn raw_string_end(chars: &[char], from: usize) -> Option<usize> {
    let hashes = chars[from..].iter().take_while(|&&c| c == '#').count();
    let open = from + hashes;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let closes = |rest: &[char]| rest[0] == '"' && rest[1..].iter().take(hashes).all(|&c| c == '#');
    Some((find(chars, open + 1, closes) + 1 + hashes).min(chars.len()))
}

/// A character literal, told from a lifetime by its closing quote.
fn char_end(chars: &[char], at: usize) -> Option<usize> {
    if chars.get(at + 1) == Some(&'\\') {
        return Some((find(chars, at + 3, |rest| rest[0] == '\'') + 1).min(chars.len()));
    }
    (chars.get(at + 2) == Some(&'\'')).then_some(at + 3)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The functions of blanked source that have a body, in order of their first lines.
#[must_use]
pub fn functions(blanked: &str) -> Vec<Function> {
    let chars: Vec<char> = blanked.chars().collect();
    let mut found = Vec::new();
    let mut line = 1;
    for at in 0..chars.len() {
        if chars[at] == '\n' {
            line += 1;
        }
        let word_before = at > 0 && is_word(chars[at - 1]);
        if word_before || !chars[at..].starts_with(&['f', 'n', ' ']) {
            continue;
        }
        let name: String = chars[at + 3..]
            .iter()
            .copied()
            .take_while(|&c| is_word(c))
            .collect();
        if let (false, Some(end)) = (name.is_empty(), body_end(&chars, at)) {
            let lines = 1 + chars[at..end].iter().filter(|&&c| c == '\n').count();
            found.push(Function { name, line, lines });
        }
    }
    found
}

/// Returns the place at which the body of the function at `at` ends; none for a declaration without
/// a body.
fn body_end(chars: &[char], at: usize) -> Option<usize> {
    let mut brackets = 0usize;
    let mut braces = 0usize;
    for (offset, &c) in chars[at..].iter().enumerate() {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            ';' if brackets == 0 && braces == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces = braces.saturating_sub(1);
                if braces == 0 && brackets == 0 {
                    return Some(at + offset);
                }
            }
            _ => {}
        }
    }
    None
}

/// The number of lines before the first module that is compiled for tests only; all of them
/// when there is none.
#[must_use]
pub fn lines_before_tests(blanked: &str) -> usize {
    let lines: Vec<&str> = blanked.lines().map(str::trim).collect();
    let is_test_module = |at: &usize| {
        is_test_gate(lines[*at])
            && lines[at + 1..]
                .iter()
                .find(|line| !line.is_empty() && !line.starts_with("#["))
                .is_some_and(|line| line.contains("mod ") && line.ends_with('{'))
    };
    (0..lines.len()).find(is_test_module).unwrap_or(lines.len())
}

/// The modules in files of their own that are compiled for tests only.
#[must_use]
pub fn test_modules(blanked: &str) -> Vec<String> {
    let lines: Vec<&str> = blanked.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if !is_test_gate(line) {
            continue;
        }
        let item = lines[at + 1..]
            .iter()
            .find(|l| !l.is_empty() && !l.starts_with("#["));
        let name = item.and_then(|l| l.split("mod ").nth(1)?.strip_suffix(';'));
        found.extend(name.map(str::to_owned));
    }
    found
}

fn is_test_gate(line: &str) -> bool {
    line.strip_prefix("#[cfg(")
        .is_some_and(|rest| rest.split(|c: char| !is_word(c)).any(|word| word == "test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_hide_braces() {
        let source = "fn a() { let x = \"}\\\"\"; /* } */ let y = '}'; // }\n let z = r#\"}\"#; }";
        let found = functions(&blanked(source));
        assert_eq!(
            found,
            [Function {
                name: "a".into(),
                line: 1,
                lines: 2
            }]
        );
    }

    #[test]
    fn lifetimes_are_not_characters() {
        let source = "fn a<'a>(x: &'a str) -> [u8; 4] {\n}\nfn b() {}\n";
        let names: Vec<_> = functions(&blanked(source))
            .into_iter()
            .map(|f| f.name)
            .collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn declarations_have_no_body() {
        let source = "trait T { fn a(&self);\n fn b(&self) {\n}\n}";
        let found = functions(&blanked(source));
        assert_eq!(
            found,
            [Function {
                name: "b".into(),
                line: 2,
                lines: 2
            }]
        );
    }

    #[test]
    fn tests_are_not_counted() {
        let source = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\n";
        assert_eq!(lines_before_tests(source), 2);
        let source = "fn a() {}\n#[cfg(test)]\nmod tests;\nfn b() {}\n";
        assert_eq!(lines_before_tests(source), 4);
        assert_eq!(test_modules(source), ["tests"]);
    }
}
