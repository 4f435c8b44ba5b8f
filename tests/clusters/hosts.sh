#!/bin/bash
# `suci run --hosts` over the system's ssh, between network namespaces: hosts.sh SUCI
# Two hosts with an sshd each, and the launcher in a third namespace. All messages of `suci demo`
# must arrive; then a host's cable is pulled, which must count as the failure of its processes. As
# root, with openssh-server and iproute2. What it starts ends with it.
set -u
suci=$(readlink -f "${1:?the command suci}")
dir=$(mktemp -d "$HOME/suci-hosts.XXXX"); spaces="suciha sucihb sucihl"; failed=0

finish() {
    for file in "$dir"/*.pid; do if [ -s "$file" ]; then kill "$(cat "$file")"; fi; done
    for space in $spaces; do ip netns del "$space" 2> /dev/null; done
    rm -rf "$dir"
}
trap finish EXIT

for space in $spaces; do ip netns add "$space" && ip -n "$space" link set lo up || exit 1; done
ip -n sucihl link add br0 type bridge && ip -n sucihl addr add 10.98.0.1/24 dev br0
ip -n sucihl link set br0 up
mkdir -p /run/sshd
ssh-keygen -q -t ed25519 -N '' -f "$dir/key"
number=10
for space in suciha sucihb; do
    ip -n sucihl link add "to-$space" type veth peer name eth0 netns "$space"
    ip -n sucihl link set "to-$space" master br0 up
    ip -n "$space" addr add "10.98.0.$number/24" dev eth0
    ip -n "$space" link set eth0 up
    ssh-keygen -q -t ed25519 -N '' -f "$dir/$space.key"
    printf '%s\n' "HostKey $dir/$space.key" "AuthorizedKeysFile $dir/key.pub" "StrictModes no" \
        "PidFile $dir/$space.pid" "PermitRootLogin yes" "UsePAM no" > "$dir/$space.conf"
    ip netns exec "$space" /usr/sbin/sshd -f "$dir/$space.conf" || exit 1
    number=$((number + 1))
done
ssh="ssh -i $dir/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
launch() { ip netns exec sucihl timeout 90 "$suci" run --hosts 10.98.0.10:3,10.98.0.11:3 --ssh "$ssh" "$@"; }

cd "$dir" || exit 1
launch "$suci" demo > "$dir/demo" 2> "$dir/err"; status=$?
arrived=$(grep -c "each byte and their order checked" "$dir/demo")
if [ "$arrived $status" = "6 0" ]; then
    echo "works   suci run --hosts: 6 processes on 2 hosts"
else
    echo "broken  suci run --hosts: $arrived got all messages, status $status"; cat "$dir/err"; failed=1
fi

(sleep 4; ip -n sucihl link set to-sucihb down) &
begun=$(date +%s)
# Shells of the second host sleep; the first one's process 0 reads who ends.
launch sh -c 'case $SUCI_ID in 0) head -n 4 < /proc/self/fd/$SUCI_NOTICES ;; 3|4|5) sleep 80 ;; esac' \
    > "$dir/lost" 2> "$dir/err"; status=$?
lost=$(grep -c "^\[0\] 1 failed [345]" "$dir/lost") took=$(($(date +%s) - begun))
if [ "$lost" -ge 1 ] && [ "$status" = 255 ] && grep -q "host 10.98.0.11 is gone" "$dir/err"; then
    echo "works   a lost host: told after $took s"
else
    echo "broken  a lost host: status $status after $took s"; cat "$dir/lost" "$dir/err"; failed=1
fi
exit $failed
