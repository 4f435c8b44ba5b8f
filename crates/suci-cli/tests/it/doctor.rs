//! `suci doctor` on the machine that runs the tests.
use crate::support::{errors, output, path, printed, program, suci};
use serde_json::Value;

#[test]
fn the_default_backend_works_and_every_line_has_a_state() {
    let out = output(&mut suci(&["doctor"]));
    let text = printed(&out);
    assert!(out.status.success(), "{text}");
    assert!(text.contains("good    backend udp: "), "{text}");
    for backend in ["af_packet", "ethernet", "af_xdp"] {
        assert!(text.contains(&format!(" backend {backend}: ")), "{text}");
    }
    let states = ["good", "poor", "absent"];
    for line in text.lines() {
        assert!(states.iter().any(|state| line.starts_with(state)), "{line}");
    }
    let json: Value =
        serde_json::from_str(&printed(&output(&mut suci(&["doctor", "--json"])))).unwrap();
    let count = json["findings"].as_array().unwrap().len();
    assert_eq!(count, text.lines().count());
}

/// A buffer as Linux ships it is told, with the command that mends it.
#[test]
fn a_small_receive_buffer_is_told_with_its_remedy() {
    let out = output(suci(&["doctor"]).env("SUCI_RMEM_MAX", "212992"));
    let text = printed(&out);
    assert!(text.contains("poor    receive buffer: "), "{text}");
    assert!(text.contains("sysctl -w net.core.rmem_max="), "{text}");
}

/// In a new namespace loopback is down: a node opens, and reaches nobody. Needs root.
#[test]
fn without_an_interface_that_is_up_no_node_can_work() {
    let mut inside = program("unshare");
    let out = output(inside.args(["--net", path(), "doctor"]));
    let text = printed(&out);
    assert_eq!(
        out.status.code(),
        Some(1),
        "run as root: {text}{}",
        errors(&out)
    );
    let told = |start: &str| {
        let mut lines = text.lines();
        lines.any(|line| line.starts_with(start) && line.ends_with("as root: ip link set lo up"))
    };
    assert!(told("broken  network: no interface is up"), "{text}");
    assert!(
        told("poor    interface lo: no Ethernet, MTU 65536; down"),
        "{text}"
    );
}

/// The folder `/sys/class/net` there is that of the outer namespace. Needs root.
#[test]
fn interfaces_are_those_of_the_own_network_namespace() {
    let script = r#"
        set -e
        ip link add doctor0 type veth peer name doctor1
        ip link set doctor0 mtu 1000 up
        ip link set doctor1 up
        ip link add doctor2 type veth peer name doctor3
        ip link set lo up
        exec "$0" doctor"#;
    let mut inside = program("unshare");
    let out = output(inside.args(["--net", "sh", "-c", script, path()]));
    let text = printed(&out);
    assert!(out.status.success(), "run as root: {text}{}", errors(&out));
    let told: Vec<_> = text
        .lines()
        .filter(|it| it.contains("interface "))
        .collect();
    let expected = [
        "poor    interface doctor0: Ethernet, MTU 1000; too narrow for packets of 1,200 bytes, as \
         root: ip link set doctor0 mtu 1500",
        "good    interface doctor1: Ethernet, MTU 1500",
        "absent  interface doctor2: Ethernet, MTU 1500; down",
        "absent  interface doctor3: Ethernet, MTU 1500; down",
        "good    interface lo: no Ethernet, MTU 65536",
    ];
    assert_eq!(told, expected, "{text}");
}
