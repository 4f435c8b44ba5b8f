//! docs/protocol-vectors.md and its test vectors. Tests of other crates use this file, too.

use std::fmt::Write;

pub(crate) fn page() -> String {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/protocol-vectors.md"
    );
    std::fs::read_to_string(path).unwrap()
}

pub(crate) struct Vector {
    pub(crate) kind: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) meaning: String,
}

fn from_hex(line: &str) -> Vec<u8> {
    let digits: String = line.split_whitespace().collect();
    assert!(
        digits.len().is_multiple_of(2),
        "odd number of digits in {line:?}"
    );
    let pair = |i| u8::from_str_radix(digits.get(i..i + 2).unwrap(), 16).unwrap();
    (0..digits.len()).step_by(2).map(pair).collect()
}

/// The entries of every block fenced as "```vectors KIND".
pub(crate) fn vectors(page: &str) -> Vec<Vector> {
    let mut found = Vec::new();
    let mut kind: Option<String> = None;
    let (mut bytes, mut meaning) = (Vec::new(), String::new());
    for line in page.lines().map(str::trim) {
        match &kind {
            None => kind = line.strip_prefix("```vectors ").map(str::to_owned),
            Some(name) if line.is_empty() || line == "```" => {
                if !meaning.is_empty() {
                    let (bytes, meaning) =
                        (std::mem::take(&mut bytes), std::mem::take(&mut meaning));
                    found.push(Vector {
                        kind: name.clone(),
                        bytes,
                        meaning,
                    });
                }
                assert!(bytes.is_empty(), "bytes without a meaning");
                if line == "```" {
                    kind = None;
                }
            }
            Some(_) => match line.strip_prefix("= ") {
                Some(text) => meaning = text.to_owned(),
                None if meaning.is_empty() => bytes.extend(from_hex(line)),
                None => {
                    meaning.push(' ');
                    meaning.push_str(line);
                }
            },
        }
    }
    assert!(kind.is_none(), "a block without an end");
    found
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
