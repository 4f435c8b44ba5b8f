//! A program of MPI, among all tests: Open MPI takes long to install.

use crate::{compile, run, within_limit};

/// Debian's Open MPI, whose commands have this ending. `make setup-bench` installs it.
#[test]
fn open_mpi_sends_around_a_ring() {
    if std::env::var_os("SUCI_TEST_FULL").is_none() {
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
