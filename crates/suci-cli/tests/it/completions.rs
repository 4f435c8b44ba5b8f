//! The output of `suci completions`.

use crate::support::{commands, errors, output, printed, suci};

fn script(shell: &str) -> String {
    let made = output(&mut suci(&["completions", shell]));
    assert!(made.status.success(), "{shell}: {}", errors(&made));
    printed(&made)
}

#[test]
fn every_shell_is_told_every_command_and_its_options() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = script(shell);
        for name in commands() {
            assert!(script.contains(&name), "{shell}: {name}");
        }
        for option in ["kill-on-failure", "give-up-after", "into"] {
            assert!(script.contains(option), "{shell}: {option}");
        }
    }
}

/// Bash, because the makefile needs it anyway.
#[test]
fn bash_completes_commands_options_and_values() {
    let script = script("bash");
    for (words, expected) in [
        (&["p"][..], "ping perf"),
        (&["cat", "--give"], "--give-up-after"),
        (&["perf", "--wait", "sp"], "spin"),
        (&["completions", "z"], "zsh"),
    ] {
        let ask = "COMP_WORDS=(suci \"$@\"); COMP_CWORD=$#; \
                   _suci suci \"${COMP_WORDS[-1]}\" \"${COMP_WORDS[-2]}\"; echo \"${COMPREPLY[*]}\"";
        let mut bash = std::process::Command::new("bash");
        bash.args(["--norc", "-c", &format!("{script}\n{ask}"), "bash"]);
        let answer = output(bash.args(words));
        assert_eq!(printed(&answer).trim(), expected, "{}", errors(&answer));
    }
}
