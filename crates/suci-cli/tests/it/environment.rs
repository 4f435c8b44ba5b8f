//! `suci env`.

use crate::support::{errors, output, path, printed, suci};
use serde_json::Value;

#[test]
fn a_process_of_suci_run_is_told_its_place() {
    let out = output(&mut suci(&[
        "run",
        "-n",
        "2",
        "--tag-output",
        path(),
        "env",
    ]));
    let text = printed(&out);
    assert!(out.status.success(), "{text}{}", errors(&out));
    for (id, other) in [(0, 1), (1, 0)] {
        for line in [
            format!("[{id}] used    suci run: SUCI_ID={id} SUCI_SIZE=2 "),
            format!("[{id}] absent  PMIx"),
            format!("[{id}] node {id} of 2, at 127.0.0.1:"),
            format!("[{id}]   node {other}: 127.0.0.1:"),
        ] {
            assert!(
                text.lines().any(|it| it.starts_with(&line)),
                "{line}: {text}"
            );
        }
    }
    let out = output(&mut suci(&["run", "-n", "1", path(), "env", "--json"]));
    let json: Value = serde_json::from_str(&printed(&out)).unwrap();
    assert_eq!(json["launcher"], "suci run");
    assert_eq!(
        (&json["node"]["id"], &json["node"]["size"]),
        (&0.into(), &1.into())
    );
    assert_eq!(json["launchers"][0]["variables"]["SUCI_ID"], "0");
}

#[test]
fn what_is_missing_is_told() {
    let out = output(&mut suci(&["env"]));
    assert_eq!(out.status.code(), Some(1));
    assert!(
        printed(&out).contains("\nno node: the node ID is missing: "),
        "{}",
        printed(&out)
    );
    let out = output(suci(&["env"]).env("SLURM_PROCID", "3"));
    let text = printed(&out);
    assert!(
        text.contains("broken  Slurm: SLURM_PROCID is set, and SLURM_STEP_NODELIST"),
        "{text}"
    );
    assert!(
        text.contains("start the program by srun there; SLURM_PROCID=3\n"),
        "{text}"
    );
    let mut command = suci(&["env", "--json"]);
    let out = output(command.env("PMI_RANK", "0").env("PMI_SIZE", "2"));
    let json: Value = serde_json::from_str(&printed(&out)).unwrap();
    assert_eq!(json["launcher"], "MPI's rank variables");
    assert_eq!(json["node"], Value::Null);
    assert!(
        json["error"].as_str().unwrap().contains("set SUCI_BOOK"),
        "{json}"
    );
}
