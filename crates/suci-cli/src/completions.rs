//! `suci completions`: completions for shells, from the definition that --help shows.

use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::args::{Cli, CompletionsArgs};
use crate::error::{Context, Result};
use crate::output;

/// Prints them.
pub(crate) fn run(args: &CompletionsArgs) -> Result<ExitCode> {
    let script = script(args.shell, &Cli::command());
    output::write_all(std::io::stdout(), &script).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the script. It is made in memory, since the generator panics if it cannot write.
fn script(shell: Shell, command: &Command) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown(command), "suci", &mut script);
    script
}

/// Returns the command without the subcommands that help does not show: the generator would show
/// them.
fn shown(command: &Command) -> Command {
    let subcommands = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    Command::new("suci")
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments())
        .subcommands(subcommands)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, ValueEnum};

    #[test]
    fn hidden_commands_are_not_completed() {
        let command = Command::new("suci")
            .arg(Arg::new("loud").long("loud"))
            .subcommand(Command::new("seen"))
            .subcommand(Command::new("secret").hide(true));
        for shell in Shell::value_variants() {
            let script = String::from_utf8_lossy(&script(*shell, &command)).into_owned();
            assert!(
                script.contains("seen") && script.contains("loud"),
                "{shell}"
            );
            assert!(!script.contains("secret"), "{shell}: {script}");
        }
    }
}
