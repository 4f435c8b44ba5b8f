//! Reads the headers: their functions and structs.

use crate::toolchain::read;

/// A function that the header declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) returns: String,
    /// Type and name of each parameter.
    pub(crate) parameters: Vec<(String, String)>,
}

/// A struct that the header defines, with the names of its fields.
#[derive(Debug)]
pub(crate) struct Struct {
    pub(crate) name: String,
    pub(crate) fields: Vec<String>,
}

/// The header of the library.
const SUCI: &str = "include/suci/suci.h";

/// The text of a header without comments and lines for the preprocessor.
fn code(header: &str) -> String {
    let text = read(header);
    let mut code = String::new();
    let mut rest = text.as_str();
    while let Some((before, comment)) = rest.split_once("/*") {
        code.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    code.push_str(rest);
    let mut continued = false;
    let lines = code.lines().filter(|line| {
        let skipped = continued || line.trim_start().starts_with('#');
        continued = skipped && line.ends_with('\\');
        !skipped
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Splits the code at the ends of declarations and function bodies. Each keeps its braces.
fn declarations(header: &str) -> Vec<String> {
    let code = code(header);
    let start = code
        .find("extern \"C\" {")
        .map_or(0, |at| at + "extern \"C\" {".len());
    let (mut all, mut now, mut depth) = (Vec::new(), String::new(), 0);
    for letter in code.get(start..).unwrap_or_default().chars() {
        now.push(letter);
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        let is_body = letter == '}' && now.trim_start().starts_with("static inline");
        if depth == 0 && (letter == ';' || is_body) {
            all.push(now.split_whitespace().collect::<Vec<_>>().join(" "));
            now.clear();
        }
    }
    all
}

/// Splits `const char *name` into type and name.
fn typed(text: &str) -> (String, String) {
    let at = text.rfind(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let (kind, name) = text.split_at(at.map_or(0, |at| at + 1));
    (kind.trim().to_owned(), name.to_owned())
}

/// Returns the functions of suci.h that are not inline.
pub(crate) fn functions() -> Vec<Function> {
    let all = functions_of(SUCI);
    assert!(
        all.len() > 70,
        "{} functions: the header is not understood",
        all.len()
    );
    all
}

/// Returns the functions of the headers beside suci.h.
pub(crate) fn other_functions() -> Vec<Function> {
    let headers = ["datagram.h", "fm.h", "cdp.h"].map(|header| format!("include/suci/{header}"));
    headers
        .iter()
        .flat_map(|header| functions_of(header))
        .collect()
}

/// Returns the functions of a header that are not inline.
pub(crate) fn functions_of(header: &str) -> Vec<Function> {
    let mut all = Vec::new();
    for text in declarations(header) {
        let Some((head, rest)) = text.split_once('(') else {
            continue;
        };
        if head.starts_with("typedef") || head.starts_with("static") || head.starts_with("enum") {
            continue;
        }
        let (returns, name) = typed(head);
        let inside = rest.strip_suffix(");").unwrap_or(rest);
        let parameters = match inside {
            "void" => Vec::new(),
            _ => inside.split(", ").map(typed).collect(),
        };
        all.push(Function {
            name,
            returns,
            parameters,
        });
    }
    all
}

/// Returns the structs, without those inside others. Fields of a union count as the struct's.
pub(crate) fn structs() -> Vec<Struct> {
    let mut all = Vec::new();
    for text in declarations(SUCI) {
        let Some(rest) = text.strip_prefix("typedef struct ") else {
            continue;
        };
        let (name, body) = rest.split_once(" {").unwrap_or((rest, ""));
        let body = body.rsplit_once('}').map_or("", |(body, _)| body);
        let fields = body.replace("__extension__ union {", "").replace('}', "");
        let field = |text: &str| {
            let text = text.split('[').next().unwrap_or_default();
            let (_, name) = typed(text.trim());
            (!name.is_empty()).then_some(name)
        };
        all.push(Struct {
            name: name.to_owned(),
            fields: fields.split(';').filter_map(field).collect(),
        });
    }
    assert!(
        all.len() > 20,
        "{} structs: the header is not understood",
        all.len()
    );
    all
}
