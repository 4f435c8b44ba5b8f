//! The command as the first process of a container: other namespaces, a root directory that cannot
//! be written, secrets that another user owns. Needs root.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Output;

use crate::support::{errors, output, path, printed, program, suci};

/// The user and the group of the processes in a container, and the group that may read secrets.
const USER: &str = "4711";
const SECRETS: u32 = 4_712;

/// Runs a script of `sh` in mount, process and network namespaces of its own, with its own `/proc`
/// and with loopback. `/tmp` there is small memory, where `$SUCI` is a copy of the command: the one
/// that was built may be out of reach of other users.
fn contained(script: &str) -> Output {
    let begin = format!(
        "set -e
         mount -t proc proc /proc
         ip link set lo up
         mkdir -p /run && mount -t tmpfs -o mode=755 none /run
         cp {} /run/suci
         export SUCI=/run/suci
         unset XDG_RUNTIME_DIR RUST_LOG",
        path()
    );
    let script = format!("{begin}\n{script}");
    let mut inside = program("unshare");
    output(inside.args(["--mount", "--pid", "--net", "--fork", "sh", "-c", &script]))
}

/// The output of a script that must succeed.
fn said(script: &str) -> String {
    let done = contained(script);
    let (out, err) = (printed(&done), errors(&done));
    assert!(done.status.success(), "run as root: {out}{err}");
    format!("{out}{err}")
}

/// Each process leaves children to the first process of the namespace, which is the launcher.
#[test]
fn f36_a_launcher_that_is_process_1_reaps_orphans() {
    let script = r#"
        exec $SUCI run -n 2 sh -c '
            for i in $(seq 50); do (sleep 0.05 &); done
            for look in $(seq 400); do
                left=$(grep -l "^PPid:.1$" /proc/[0-9]*/status 2>/dev/null | wc -l)
                # The two processes of the launch themselves.
                test $left -le 2 && break
                sleep 0.05
            done
            test $(cat /proc/1/comm) = suci && echo children of 1: $left'"#;
    let printed = said(script);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 2, "{printed}");
    for line in lines {
        let left = line.strip_prefix("children of 1: ").unwrap();
        assert!(matches!(left, "1" | "2"), "{printed}");
    }
    println!("figure: 100 orphans, none is left");
}

/// A root directory, `/tmp` and `/dev/shm` that cannot be written, another user than root, and the
/// key in a volume as Kubernetes makes it with fsGroup.
#[test]
fn f36_processes_of_a_container_without_a_place_to_write_use_a_secret() {
    let secret = tempfile::tempdir().unwrap();
    let key = secret.path().join("cluster.key");
    let made = output(&mut suci(&["keygen", key.to_str().unwrap()]));
    assert!(made.status.success(), "{}", errors(&made));
    fs::set_permissions(secret.path(), fs::Permissions::from_mode(0o755)).unwrap();
    chown(&key, Some(0), Some(SECRETS)).expect("run as root");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o440)).unwrap();
    let script = |groups: &str| {
        format!(
            "mkdir /run/secret && cp -p {} /run/secret
             mount -t tmpfs -o ro none /tmp
             mount -t tmpfs -o ro none /dev/shm
             mount -o remount,ro /run
             mount -o remount,bind,ro /
             export SUCI_KEY_FILE=/run/secret/cluster.key
             exec setpriv --reuid {USER} --regid {USER} --groups {groups} \
                 $SUCI run -n 2 $SUCI ping --count 3 --interval 0",
            key.display()
        )
    };
    let printed = said(&script(&format!("{USER},{SECRETS}")));
    assert!(printed.contains("node 1: 3 round trips"), "{printed}");
    // The reason why there are no statistics is told, in one sentence.
    assert!(
        printed.contains("statistics are not published: "),
        "{printed}"
    );
    let refused = contained(&script(USER));
    let said = errors(&refused);
    assert!(
        !refused.status.success() && said.contains("Permission denied"),
        "{said}"
    );
    println!(
        "figure: 3 round trips as user {USER}, key 0440 root:{SECRETS}, nothing can be written"
    );
}

#[test]
fn f36_without_127_0_0_1_the_launcher_names_the_other_loopback() {
    let no_ipv4 = "ip address del 127.0.0.1/8 dev lo";
    let done = contained(&format!("{no_ipv4}\nexec $SUCI run -n 2 true"));
    let text = errors(&done);
    let remedy = "loopback has no such address here: add --address ::1";
    assert!(!done.status.success() && text.contains(remedy), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    let run = format!("{no_ipv4}\nexec $SUCI run -n 2 --address ::1 $SUCI ping --count 1");
    assert!(said(&run).contains("node 1: 1 round trips"));
    for without in ["ip address flush dev lo", "ip link set lo down"] {
        let said = errors(&contained(&format!("{without}\nexec $SUCI run -n 2 true")));
        assert!(said.contains("`ip link set lo up`"), "{without}: {said}");
    }
    let node = contained(&format!("{no_ipv4}\nexec $SUCI doctor"));
    assert!(
        printed(&node).contains("or listen at [::1]"),
        "{}",
        printed(&node)
    );
}

/// Closed ports at the other addresses of a name cost no time: each host says so at once.
#[test]
fn the_last_address_of_a_name_is_reached_soon() {
    let names: String = (1..=8)
        .map(|host| format!("127.0.0.{host} many\n"))
        .collect();
    let begin = format!(
        "mount -t tmpfs none /tmp
         printf '{names}' > /tmp/hosts
         mount --bind /tmp/hosts /etc/hosts"
    );
    for (listen, call) in [("cat --listen", "cat"), ("ping --listen", "ping --count 1")] {
        let script = format!(
            "{begin}
             $SUCI {listen} 127.0.0.8:7000 > /tmp/said & node=$!
             until grep -q ':1B58 ' /proc/net/udp; do sleep 0.05; done
             begun=$(date +%s%N)
             echo data | $SUCI {call} many:7000
             echo took $((($(date +%s%N) - begun) / 1000000)) ms
             kill $node 2> /dev/null || true"
        );
        let said = said(&script);
        let took = said.lines().find_map(|line| line.strip_prefix("took "));
        let took = took.and_then(|took| took.strip_suffix(" ms")).unwrap();
        println!("figure: {call}: {took} ms");
        assert!(took.parse::<u64>().unwrap() < 4_000, "{call}: {said}");
    }
}

/// A command that calls says why nothing goes out: a firewall is not the reason.
#[test]
fn commands_name_the_missing_route() {
    for call in [
        "ping --plain 192.0.2.1:7 --timeout 0.2",
        "cat --plain 192.0.2.1:7 --connect-timeout 0.2",
        "perf --plain 192.0.2.1:7",
    ] {
        let said = errors(&contained(&format!("$SUCI {call} < /dev/null")));
        assert!(said.contains("Network is unreachable"), "{call}: {said}");
    }
}

/// Ports and descriptors run out for different reasons, which have different remedies.
#[test]
fn the_launcher_names_the_remedy_of_each_cause() {
    let narrow = "sysctl -q -w net.ipv4.ip_local_port_range='40000 40003'";
    let done = contained(&format!("{narrow}\nexec $SUCI run -n 8 true"));
    let text = errors(&done);
    assert!(
        text.contains("ip_local_port_range") && !text.contains("ulimit"),
        "{text}"
    );
    // The processes have their ports, and the call of TCP between them gets none.
    let done = contained(&format!("{narrow}\nexec $SUCI perf --seconds 0.01"));
    let text = errors(&done);
    assert!(
        !done.status.success() && text.contains("ip_local_port_range"),
        "{text}"
    );
    let done = contained("ulimit -n 12\nexec $SUCI run -n 30 true");
    let text = errors(&done);
    assert!(
        text.contains("`ulimit -n`") && !text.contains("ip_local_port_range"),
        "{text}"
    );
    let done = contained("exec $SUCI run -n 2 --address 192.0.2.1 true");
    let text = errors(&done);
    assert!(
        text.contains("`ip address`") && !text.contains("ulimit"),
        "{text}"
    );
}

/// Statistics that cannot be written are not lost without a word: the node says so, and so does
/// each command that looks for it.
#[test]
fn statistics_that_cannot_be_written_are_explained() {
    let look = r#"
        $SUCI ping --listen 127.0.0.1:7000 & node=$!
        $SUCI ping 127.0.0.1:7000 --count 1
        $SUCI stat
        $SUCI stat --json
        ! $SUCI stat $node
        kill $node"#;
    let full = "mount -t tmpfs -o ro none /tmp; mount -t tmpfs -o size=16k none /dev/shm";
    let foreign = "mount -t tmpfs -o ro none /tmp; mount -t tmpfs none /dev/shm
        mkdir -m 700 /dev/shm/suci-0; chown 4711 /dev/shm/suci-0";
    let open = "mount -t tmpfs -o ro none /tmp; mount -t tmpfs none /dev/shm
        mkdir -m 755 /dev/shm/suci-0";
    let none = "mount --bind /usr /tmp; mount --bind /usr /dev/shm";
    for (place, reason) in [
        (full, "/dev/shm/suci-0: No space left on device"),
        (foreign, "/dev/shm/suci-0 is not this user's alone"),
        (open, "/dev/shm/suci-0 is not this user's alone"),
        (none, "neither /dev/shm nor /tmp is in memory"),
    ] {
        let text = said(&format!("{place}\n{look}"));
        let told = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start));
            line.is_some_and(|line| line.contains(reason) && line.contains("XDG_RUNTIME_DIR"))
        };
        assert!(told("suci ping: statistics are not published: "), "{text}");
        assert!(
            told("suci stat: nodes of this user cannot publish statistics: "),
            "{text}"
        );
        assert!(told("suci stat: no node of process "), "{text}");
        assert!(text.contains("{\"nodes\":[]}"), "{text}");
    }
    println!("figure: 4 reasons, each told by the node and by suci stat");
}
