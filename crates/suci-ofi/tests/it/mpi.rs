//! A program of MPI, if one is installed.

use crate::{compile, run, within_limit};
use std::process::Command;

/// Debian's Open MPI, whose commands have this ending.
#[test]
fn open_mpi_sends_around_a_ring() {
    if Command::new("mpicc.openmpi")
        .arg("--version")
        .output()
        .is_err()
    {
        eprintln!("left out: apt-get install libopenmpi-dev openmpi-bin");
        return;
    }
    let program = compile("ring", "mpicc.openmpi", &[]);
    for count in ["2", "4"] {
        let mut mpirun = within_limit("mpirun.openmpi");
        mpirun.args(["--allow-run-as-root", "--oversubscribe", "-np", count]);
        mpirun.args(["--mca", "pml", "cm", "--mca", "mtl", "ofi"]);
        mpirun.args(["--mca", "mtl_ofi_provider_include", "suci"]);
        mpirun.args(["-x", "FI_PROVIDER_PATH", "-x", "FI_PROVIDER"]);
        assert_eq!(run(mpirun.arg(&program)), format!("ok with {count}\n"));
    }
}
