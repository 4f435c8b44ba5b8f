//! Where formulas come from.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::args::Args;

/// A formula that somebody asks about.
pub(crate) struct Asked {
    pub(crate) text: String,
    /// The file and the line, if it came from one.
    pub(crate) place: Option<(String, usize)>,
}

type Formulas<'a> = Box<dyn Iterator<Item = Result<Asked, String>> + 'a>;

/// The formulas, each as soon as it can be read.
pub(crate) fn formulas(args: &Args) -> Result<Formulas<'_>, String> {
    let standard_input = || lines("standard input".to_owned(), std::io::stdin().lock());
    match &args.file {
        Some(file) if file == Path::new("-") => Ok(Box::new(standard_input())),
        Some(file) => {
            let name = file.display().to_string();
            let open = File::open(file).map_err(|error| format!("{name}: {error}"))?;
            Ok(Box::new(lines(name, BufReader::new(open))))
        }
        None if args.formulas.is_empty() => Ok(Box::new(standard_input())),
        None => Ok(Box::new(args.formulas.iter().map(|text| {
            Ok(Asked {
                text: text.clone(),
                place: None,
            })
        }))),
    }
}

/// The lines that hold a formula.
fn lines(name: String, from: impl BufRead) -> impl Iterator<Item = Result<Asked, String>> {
    from.lines().enumerate().filter_map(move |(before, line)| {
        let number = before + 1;
        match line {
            Err(error) => Some(Err(format!("{name}:{number}: {error}"))),
            Ok(text) if text.trim().is_empty() || text.trim_start().starts_with('#') => None,
            Ok(text) => Some(Ok(Asked {
                text,
                place: Some((name.clone(), number)),
            })),
        }
    })
}
