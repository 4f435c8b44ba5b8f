#!/bin/sh
# What starters of MPI ranks take for ssh, `SCRIPT [OPTIONS] HOST COMMAND...`: runs the command in a namespace.
while [ "${1#-}" != "$1" ]; do shift; done
shift
exec ip netns exec "$BENCH_NAMESPACE" sh -c "$*"
