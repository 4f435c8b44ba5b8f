#!/bin/bash
# Real Slurm on one machine: a controller and the nodes n0 to n3, each in a network namespace with
# its own host name, /tmp and address (10.99.0.10 to .13), joined by a bridge.
#   slurm.sh start DIR       DIR must not be below /tmp, nor the programs that run there
#   slurm.sh run DIR CMD..   a command at the controller, such as: srun -N 4 -n 8 suci env
#   slurm.sh stop DIR        ends what start began, by process IDs, and removes the namespaces
# As root, with Debian's slurmctld slurmd slurm-client munge iproute2 util-linux (libpmix2 for
# --mpi=pmix). Nothing outside of DIR, /run/munge and the namespaces is touched.
set -eu
here=$(dirname "$(readlink -f "$0")")
verb=${1:?start, run or stop}; dir=$(readlink -m "${2:?a directory}"); shift 2
spaces="sucictl sucin0 sucin1 sucin2 sucin3"
inside() { space=$1; shift; nsenter --net="/run/netns/$space" env SLURM_CONF="$dir/slurm.conf" "$@"; }

start() {
    mkdir -p "$dir/state" "$dir/spool"
    sed "s#@DIR@#$dir#g" "$here/slurm.conf" > "$dir/slurm.conf"
    {
        printf '127.0.0.1 localhost\n10.99.0.1 ctl\n'
        for i in 0 1 2 3; do printf '10.99.0.1%s n%s\n' $i $i; done
    } > "$dir/hosts"
    install -d -o munge -g munge -m 755 /run/munge
    if [ ! -S /run/munge/munge.socket.2 ]; then
        runuser -u munge -- /usr/sbin/munged --num-threads=2
        cp /run/munge/munged.pid "$dir/munged.pid"
    fi
    for space in $spaces; do ip netns add "$space"; ip -n "$space" link set lo up; done
    ip -n sucictl link add br0 type bridge
    ip -n sucictl addr add 10.99.0.1/24 dev br0
    ip -n sucictl link set br0 up
    for i in 0 1 2 3; do
        ip -n sucictl link add "to-n$i" type veth peer name eth0 netns "sucin$i"
        ip -n sucictl link set "to-n$i" master br0 up
        ip -n "sucin$i" addr add "10.99.0.1$i/24" dev eth0
        ip -n "sucin$i" link set eth0 up
    done
    daemon sucictl ctl slurmctld
    sleep 2
    for i in 0 1 2 3; do daemon "sucin$i" "n$i" slurmd -N "n$i"; done
    for _ in $(seq 30); do
        [ "$(inside sucictl sinfo -h -t idle -o %D 2>/dev/null)" = 4 ] && exit 0
        sleep 1
    done
    echo "the nodes did not come up: see $dir/*.log" >&2
    exit 1
}

# A daemon with a host name, /etc/hosts and /tmp of its own.
daemon() {
    space=$1 name=$2; shift 2
    mkdir -p "$dir/tmp-$name"
    inside "$space" unshare --mount --uts --propagation private sh -c '
        hostname "$1"; mount --bind "$2/hosts" /etc/hosts; mount --bind "$2/tmp-$1" /tmp
        shift 2; exec "$@"' sh "$name" "$dir" "$@"
}

run() {
    inside sucictl unshare --mount --uts --propagation private sh -c '
        hostname ctl; mount --bind "$1/hosts" /etc/hosts; shift; exec "$@"' sh "$dir" "$@"
}

stop() {
    for file in "$dir"/n?.pid "$dir/ctl.pid" "$dir/munged.pid"; do
        [ -s "$file" ] || continue
        pid=$(cat "$file")
        kill "$pid" 2>/dev/null || continue
        # A slurmd ends its steps first.
        for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || break; sleep 0.2; done
        kill -KILL "$pid" 2>/dev/null || true
    done
    for space in $spaces; do ip netns del "$space" 2>/dev/null || true; done
}

case $verb in start | run | stop) "$verb" "$@" ;; *) echo "start, run or stop" >&2; exit 2 ;; esac
