//! The sources of formulas.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use crate::args::Args;

/// A formula that the user asks about.
pub(crate) struct Asked {
    pub(crate) text: String,
    /// The file and the line, if it came from one.
    pub(crate) place: Option<(String, usize)>,
}

/// Formulas that were read ahead, at most.
const AHEAD: usize = 64;

type Next = Result<Asked, String>;

/// The formulas, read by a thread, each as soon as it can be read. So the caller can do other
/// things while it waits.
pub(crate) struct Input {
    formulas: Receiver<Next>,
}

impl Input {
    pub(crate) fn of(args: &Args) -> Self {
        let (to, formulas) = sync_channel(AHEAD);
        let (file, texts) = (args.file.clone(), args.formulas.clone());
        std::thread::spawn(move || {
            for next in read(file.as_deref(), texts) {
                if to.send(next).is_err() {
                    // The receiver of the formulas is gone.
                    return;
                }
            }
        });
        Self { formulas }
    }

    /// The next one; blocks.
    pub(crate) fn next(&mut self) -> Option<Next> {
        self.formulas.recv().ok()
    }

    /// The next one, if it comes within `limit`.
    pub(crate) fn next_within(&mut self, limit: Duration) -> Option<Option<Next>> {
        match self.formulas.recv_timeout(limit) {
            Ok(next) => Some(Some(next)),
            Err(RecvTimeoutError::Disconnected) => Some(None),
            Err(RecvTimeoutError::Timeout) => None,
        }
    }
}

fn read(file: Option<&Path>, texts: Vec<String>) -> Box<dyn Iterator<Item = Next>> {
    let standard_input = || lines("standard input".to_owned(), std::io::stdin().lock());
    match file {
        Some(file) if file == Path::new("-") => Box::new(standard_input()),
        Some(file) => {
            let name = file.display().to_string();
            match File::open(file) {
                Ok(open) => Box::new(lines(name, BufReader::new(open))),
                Err(error) => Box::new(std::iter::once(Err(format!("{name}: {error}")))),
            }
        }
        None if texts.is_empty() => Box::new(standard_input()),
        None => Box::new(
            texts
                .into_iter()
                .map(|text| Ok(Asked { text, place: None })),
        ),
    }
}

/// The lines that hold a formula.
fn lines(name: String, from: impl BufRead) -> impl Iterator<Item = Next> {
    from.split(b'\n')
        .enumerate()
        .filter_map(move |(before, line)| {
            let number = before + 1;
            // The parser refuses the character that stands for bytes that are no text: a mistake of
            // this line alone.
            let text = |line: Vec<u8>| {
                let line = line.strip_suffix(b"\r").unwrap_or(&line);
                // Some editors begin a file with this mark.
                let mark = line.strip_prefix("\u{feff}".as_bytes());
                let line = mark.filter(|_| before == 0).unwrap_or(line);
                String::from_utf8_lossy(line).into_owned()
            };
            match line.map(text) {
                Err(error) => Some(Err(format!("{name}:{number}: {error}"))),
                Ok(text) if text.trim().is_empty() || text.trim_start().starts_with('#') => None,
                Ok(text) => Some(Ok(Asked {
                    text,
                    place: Some((name.clone(), number)),
                })),
            }
        })
}
