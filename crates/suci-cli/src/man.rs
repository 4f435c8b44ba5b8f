//! `suci man`: manual pages from the definition that --help shows.
//!
//! Below the options, --help has one text. A page has its examples in a section of their own, line
//! by line, and the rest under DESCRIPTION. The generator would put all of it into one section
//! named EXTRA, and fill the lines.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::args::{Cli, ManArgs};
use crate::error::{Context, Failure, Result};
use crate::output;

/// The beginning of the paragraph of help that holds the examples.
const EXAMPLES: &str = "Examples:\n";

/// Prints the first page or writes all.
pub(crate) fn run(args: &ManArgs) -> Result<ExitCode> {
    let pages = pages(Cli::command()).context("manual pages")?;
    match &args.dir {
        Some(dir) => pages.iter().try_for_each(|page| page.write(dir))?,
        None => {
            let first = pages.first().map(|page| page.text.as_bytes());
            output::write_all(io::stdout(), first.unwrap_or_default())
                .context("standard output")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

struct Page {
    file: String,
    text: String,
}

impl Page {
    fn write(&self, dir: &Path) -> Result<()> {
        let path = dir.join(&self.file);
        std::fs::write(&path, &self.text).map_err(|error| {
            let remedy = "name a directory that exists and can be written to";
            Failure::new(format!("{}: {error}; {remedy}", path.display()))
        })
    }
}

/// Returns the command's page, then one for each subcommand that help shows.
fn pages(command: Command) -> io::Result<Vec<Page>> {
    let mut command = command
        .disable_help_subcommand(true)
        .subcommand_help_heading("COMMANDS");
    command.build();
    let version = command.get_version().unwrap_or_default();
    let release = format!("{} {version}", command.get_name());
    let subcommands = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    std::iter::once(&command)
        .chain(subcommands)
        .map(|command| page(command.clone(), &release))
        .collect()
}

fn page(mut command: Command, release: &str) -> io::Result<Page> {
    let usage = command.render_usage().to_string();
    let plain = |text: Option<&StyledStr>| text.map(StyledStr::to_string).unwrap_or_default();
    let (about, below) = (plain(command.get_about()), plain(command.get_after_help()));
    let (examples, mut description): (Vec<&str>, Vec<&str>) = below
        .split("\n\n")
        .partition(|paragraph| paragraph.starts_with(EXAMPLES));
    description.insert(0, &about);
    let command = command
        .override_usage(usage.trim_start_matches("Usage: ").to_owned())
        .long_about(description.join("\n\n"))
        .after_help(None);
    let man = Man::new(command)
        .date("\"\"") // None: an argument that is left empty would make the next one the date.
        .source(release)
        .manual("User Commands");
    let mut text = Vec::new();
    man.render(&mut text)?;
    let mut section = Roff::new();
    section.control("SH", ["EXAMPLES"]).control("nf", []);
    for line in examples
        .iter()
        .flat_map(|paragraph| paragraph.lines().skip(1))
    {
        section.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
    }
    section.control("fi", []).to_writer(&mut text)?;
    Ok(Page {
        file: man.get_filename(),
        text: literal(&String::from_utf8_lossy(&text)),
    })
}

/// Keeps the text for shells as it is: formatters may show these characters as accents and
/// quotation marks. The generator takes care of hyphens and apostrophes.
fn literal(roff: &str) -> String {
    let as_it_is = [("`", r"\(ga"), ("~", r"\(ti"), ("^", r"\(ha")];
    as_it_is
        .iter()
        .fold(roff.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_commands_have_no_page_and_appear_on_none() {
        let command = Command::new("suci")
            .subcommand(Command::new("seen"))
            .subcommand(Command::new("secret").hide(true));
        let pages = pages(command).unwrap_or_default();
        let files: Vec<_> = pages.iter().map(|page| page.file.as_str()).collect();
        assert_eq!(files, ["suci.1", "suci-seen.1"]);
        for page in &pages {
            assert!(!page.text.contains("secret"), "{}", page.text);
        }
    }

    #[test]
    fn examples_are_printed_as_they_are_and_the_rest_describes() {
        let help = "Before.\n\nExamples:\n  a `b` ~/c 'd'   e\n  .f\n\nAfter.";
        let command = Command::new("suci").about("About").after_help(help);
        let pages = pages(command).unwrap_or_default();
        let text = pages.first().map_or("", |page| &page.text);
        let describes = ".SH DESCRIPTION\nAbout\n.PP\nBefore.\n.PP\nAfter.\n.SH OPTIONS\n";
        assert!(text.contains(describes), "{text}");
        let examples = ".SH EXAMPLES\n.nf\na \\(gab\\(ga \\(ti/c \\*(Aqd\\*(Aq   e\n\\&.f\n.fi\n";
        assert!(text.ends_with(examples), "{text}");
    }
}
