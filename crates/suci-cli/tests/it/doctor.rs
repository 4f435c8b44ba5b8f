//! `suci doctor` on the machine that runs the tests.
use crate::support::{output, printed, suci};
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
