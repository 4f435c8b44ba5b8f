//! The command as people use it: arguments, files, standard input, its output and exit status.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Exit status, standard output, standard error.
type Said = (i32, String, String);

fn tableau(args: &[&str], input: impl AsRef<[u8]>) -> Said {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tableau"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that needs no input may have ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_ref());
    let done = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        done.status.code().unwrap(),
        text(done.stdout),
        text(done.stderr),
    )
}

fn said(status: i32, out: &str, error: &str) -> Said {
    (status, out.to_owned(), error.to_owned())
}

#[test]
fn verdicts_and_exit_statuses() {
    let model = "satisfiable: a; cycle{!a & b}\n";
    for (args, status, out) in [
        (&["a & X G (b & !a)"][..], 0, model),
        (&["G p & F !p"], 1, "unsatisfiable\n"),
        (&["true"], 0, "satisfiable: cycle{1}\n"),
        (
            &["p", "p & !p"],
            1,
            "satisfiable: p; cycle{1}\nunsatisfiable\n",
        ),
        (&["--valid", "G p -> p"], 0, "valid\n"),
        (&["--valid", "p"], 1, "not valid: !p; cycle{1}\n"),
        (&["F p", "--equivalent", "!G!p"], 0, "equivalent\n"),
        (&["p", "--equivalent", "X p"], 1, ""),
        (
            &["\"a b\" & X G !c"],
            0,
            "satisfiable: \"a b\"; cycle{!c}\n",
        ),
        (
            &["G (\"(p)\" & !p & \"G\")"],
            0,
            "satisfiable: cycle{\"(p)\" & !p & \"G\"}\n",
        ),
    ] {
        let (got, printed, error) = tableau(args, "");
        assert_eq!((got, error.as_str()), (status, ""), "{args:?}");
        assert!(out.is_empty() || printed == out, "{args:?}: {printed}");
    }
    let (_, printed, _) = tableau(&["p", "--equivalent", "X p"], "");
    let differs = printed == "not equivalent: p; !p; cycle{1}\n";
    assert!(
        differs || printed == "not equivalent: !p; p; cycle{1}\n",
        "{printed}"
    );
}

#[test]
fn lines_of_standard_input() {
    let input = "\u{feff}# two\np U q\n\n  G p & !p\n";
    for args in [&[][..], &["--file", "-"]] {
        let (status, out, error) = tableau(args, input);
        assert_eq!((status, error.as_str()), (1, ""));
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(
            lines[0].starts_with("standard input:2: satisfiable: "),
            "{out}"
        );
        assert_eq!(lines[1], "standard input:4: unsatisfiable");
    }
}

#[test]
fn a_mistake_is_pointed_at_and_the_others_are_answered() {
    let error = "standard input:2:4: expected a formula, found `)`\n  (p )\n     ^\n";
    let error = error.replace("(p )", "(! )");
    let out = "standard input:1: satisfiable: cycle{1}\nstandard input:3: unsatisfiable\n";
    assert_eq!(tableau(&[], "1\n(! )\n0\n"), said(2, out, &error));
    let error = "tableau: 1:3: expected an operator or the end, found `q`\n  p q\n    ^\n";
    assert_eq!(tableau(&["p q"], ""), said(2, "", error));
    let (status, out, error) = tableau(&["p", "--equivalent", "("], "");
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(
        error.starts_with("tableau: --equivalent: 1:2: expected"),
        "{error}"
    );
}

#[test]
fn bytes_that_are_no_text_are_a_mistake_of_their_line() {
    let out = "standard input:2: satisfiable: \"a\u{e9}\"; cycle{1}\n";
    let out = out.replace("\"", "");
    for bad in [&b"p & \xe9"[..], b"\"a\xe9\" & p"] {
        let input = [b"# \xe9\n", "a\u{e9}\r\n".as_bytes(), bad, b"\n0\n"].concat();
        let (status, said, error) = tableau(&[], input);
        assert_eq!(status, 2);
        assert_eq!(said, format!("{out}standard input:4: unsatisfiable\n"));
        let is_told = error.starts_with("standard input:3:") && error.contains("not UTF-8");
        assert!(is_told, "{error}");
    }
}

#[test]
fn one_process_has_no_stats() {
    let (status, out, error) = tableau(&["--stats", "/dev/null", "p"], "");
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(
        error.starts_with("tableau: --stats is for several"),
        "{error}"
    );
}

#[test]
fn files() {
    let file = std::env::temp_dir().join(format!("tableau-{}", std::process::id()));
    std::fs::write(&file, "F p\n").unwrap();
    let name = file.to_str().unwrap();
    let got = tableau(&["--file", name], "");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(
        got,
        said(0, &format!("{name}:1: satisfiable: p; cycle{{1}}\n"), "")
    );
    let (status, out, error) = tableau(&["--file", name], "");
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(error.contains(name), "{error}");
}

#[test]
fn json() {
    let (status, out, _) = tableau(&["--json", "p & X G !p", "0", "p q"], "");
    assert_eq!(status, 2);
    let mut lines = out.lines();
    let first: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(first["formula"], "p & X G !p");
    assert_eq!(first["question"], "satisfiable");
    assert_eq!(first["answer"], true);
    assert_eq!(
        first["model"],
        json!({"stem": [{"p": true}], "cycle": [{"p": false}]})
    );
    assert_eq!((&first["states"], &first["steps"]), (&json!(2), &json!(2)));
    let second: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(
        (&second["answer"], &second["model"]),
        (&json!(false), &Value::Null)
    );
    let third: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(
        (&third["formula"], &third["column"]),
        (&json!("p q"), &json!(3))
    );
    assert!(third["error"].is_string() && third["answer"].is_null());
}
