//! `suci doctor`: what this machine offers nodes, and what keeps them from working well.

mod interfaces;

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use suci::{AddressBook, BackendKind, Error, EtherType, Node, NodeId};

use self::interfaces::Interface;
use crate::args::DoctorArgs;
use crate::error::{self, Result};

/// The greatest MTU of an interface that AF_XDP takes: a frame and 256 bytes in front of it share a
/// page of 4 KiB.
const MOST_XDP_MTU: u32 = 4_096 - 256 - 14;

/// The name that Linux gives the interface of 127.0.0.1 and ::1.
const LOOPBACK: &str = "lo";

/// Sources of time whose reading needs no call of the kernel.
const FAST_CLOCKS: [&str; 4] = [
    "tsc",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
    "arch_sys_counter",
];

/// How one thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Good,
    /// It works, but not well.
    Poor,
    /// It is not there, and nodes do without.
    Absent,
    /// No node can work.
    Broken,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Poor => "poor",
            Self::Absent => "absent",
            Self::Broken => "broken",
        }
    }
}

/// A fact about one thing.
#[derive(Debug)]
struct Finding {
    name: String,
    state: State,
    text: String,
}

impl Finding {
    fn new(name: impl Into<String>, state: State, text: impl Into<String>) -> Self {
        let (name, text) = (name.into(), text.into());
        Self { name, state, text }
    }
}

/// Looks at everything and prints it. Fails if no node can work.
pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let mut findings = udp();
    findings.push(packets(
        "af_packet",
        BackendKind::AfPacket,
        "raw Ethernet frames",
    ));
    let own_type = BackendKind::Ethernet(EtherType::LOCAL_EXPERIMENTAL);
    let what = "frames of an EtherType of their own between nodes of one network";
    findings.push(packets("ethernet", own_type, what));
    let all = interfaces::all();
    findings.push(af_xdp(&all));
    findings.extend(all.iter().map(interface));
    findings.extend(without_network(&all));
    findings.push(processors());
    findings.extend(clock());
    error::print(format_args!("{}", shown(args.json, &findings)))?;
    Ok(match findings.iter().any(|it| it.state == State::Broken) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

fn shown(as_json: bool, findings: &[Finding]) -> String {
    if as_json {
        let of = |it: &Finding| -> Value {
            json!({ "name": it.name, "state": it.state.name(), "text": it.text })
        };
        return json!({ "findings": findings.iter().map(of).collect::<Vec<_>>() }).to_string();
    }
    let mut text = String::new();
    for Finding {
        name,
        state,
        text: said,
    } in findings
    {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{:7} {name}: {said}", state.name());
    }
    text.trim_end().to_owned()
}

/// A node of its own, at loopback.
fn node(backend: BackendKind) -> Result<Node, Error> {
    let builder = Node::builder().id(NodeId(0)).book(AddressBook::new());
    let builder = builder.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    builder.statistics(false).backend(backend).open()
}

/// The kernel's UDP, and its receive buffer.
fn udp() -> Vec<Finding> {
    let node = match node(BackendKind::Udp) {
        Ok(node) => node,
        Err(error) => {
            return vec![Finding::new(
                "backend udp",
                State::Broken,
                error.to_string(),
            )];
        }
    };
    let (state, text) = match node.warning() {
        Some(warning) => (State::Poor, warning.to_string()),
        None => (State::Good, format!("serves {} peers", node.peer_limit())),
    };
    vec![
        Finding::new("backend udp", State::Good, "the default"),
        Finding::new("receive buffer", state, text),
    ]
}

/// A backend that makes and reads frames itself.
fn packets(name: &str, backend: BackendKind, what: &str) -> Finding {
    let (state, text) = match node(backend) {
        Ok(_) => (State::Good, format!("{what}, by SUCI_BACKEND={name}")),
        Err(Error::Bind { source, .. }) => (State::Absent, source.to_string()),
        Err(error) => (State::Absent, error.to_string()),
    };
    Finding::new(format!("backend {name}"), state, text)
}

/// The kernel opens such a socket at loopback, where none is attached: an interface may lose its
/// link for a moment when a program comes to it. Then each interface is judged by its MTU.
fn af_xdp(all: &[Interface]) -> Finding {
    let (state, text) = match node(BackendKind::AfXdp) {
        Ok(_) => at_interfaces(all),
        Err(Error::Bind { source, .. }) if source.kind() == ErrorKind::InvalidInput => {
            at_interfaces(all)
        }
        Err(Error::Bind { source, .. }) => (State::Absent, source.to_string()),
        Err(error) => (State::Absent, error.to_string()),
    };
    Finding::new("backend af_xdp", state, text)
}

/// Says at which of the interfaces AF_XDP can be, if the kernel has it.
fn at_interfaces(all: &[Interface]) -> (State, String) {
    let usable = all.iter().filter(|it| it.is_ethernet && !it.is_down);
    let (wide, fit): (Vec<_>, Vec<_>) = usable.partition(|it| it.mtu > MOST_XDP_MTU);
    let mut text = match fit.is_empty() {
        true => "no Ethernet interface that is up".to_owned(),
        false => {
            let names: Vec<_> = fit.iter().map(|it| it.name.as_str()).collect();
            let at = names.join(", ");
            format!("frames in shared memory, by SUCI_BACKEND=af_xdp at {at}")
        }
    };
    for Interface { name, mtu, .. } in wide {
        // Writing into a string cannot fail.
        let _ = write!(
            text,
            "; not at {name}, whose MTU is {mtu}, as root: ip link set {name} mtu {MOST_XDP_MTU}"
        );
    }
    match fit.is_empty() {
        true => (State::Absent, text),
        false => (State::Good, text),
    }
}

fn interface(interface: &Interface) -> Finding {
    let Interface {
        name,
        mtu,
        is_ethernet,
        is_down,
    } = interface;
    let kind = if *is_ethernet {
        "Ethernet"
    } else {
        "no Ethernet"
    };
    let (state, end) = match (is_down, mtu) {
        (true, _) if name == LOOPBACK => {
            let remedy = "; down, so that 127.0.0.1 is not reached, as root: ip link set lo up";
            (State::Poor, remedy.to_owned())
        }
        (true, _) => (State::Absent, "; down".to_owned()),
        (false, ..1228) => {
            let remedy = format!(
                "; too narrow for packets of 1,200 bytes, as root: ip link set {name} mtu 1500"
            );
            (State::Poor, remedy)
        }
        _ => (State::Good, String::new()),
    };
    let text = format!("{kind}, MTU {mtu}{end}");
    Finding::new(format!("interface {name}"), state, text)
}

/// A node opens its socket where no interface is up, too, but no packet of it arrives.
fn without_network(all: &[Interface]) -> Option<Finding> {
    let is_broken = !all.is_empty() && all.iter().all(|it| it.is_down);
    let text = "no interface is up, so that no packet arrives, as root: ip link set lo up";
    is_broken.then(|| Finding::new("network", State::Broken, text))
}

fn processors() -> Finding {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let text = match count {
        1 => "1: a node that spins takes the time of its peers on this machine".to_owned(),
        _ => format!("{count}: more processes than that on this machine take turns"),
    };
    Finding::new(
        "processors",
        if count > 1 { State::Good } else { State::Poor },
        text,
    )
}

/// The source of time; nothing where the kernel does not tell.
fn clock() -> Option<Finding> {
    const FILE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = line(Path::new(FILE))?;
    let (state, text) = match FAST_CLOCKS.contains(&source.as_str()) {
        true => (State::Good, source),
        false => {
            let text =
                format!("{source}: each reading is a system call; see clocksource= of Linux");
            (State::Poor, text)
        }
    };
    Some(Finding::new("clock", state, text))
}

/// The first line of a file; `None` if it cannot be read.
fn line(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().next().map(|line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(name: &str, mtu: u32, is_ethernet: bool, is_down: bool) -> Interface {
        let name = name.to_owned();
        Interface {
            name,
            mtu,
            is_ethernet,
            is_down,
        }
    }

    #[test]
    fn each_interface_is_told_with_its_remedy() {
        let all = [
            made("eth0", 1500, true, false),
            made("eth1", 1500, true, true),
            made("lo", 65536, false, false),
            made("tun0", 1000, false, false),
        ];
        let findings: Vec<_> = all.iter().map(interface).collect();
        let expected = "\
good    interface eth0: Ethernet, MTU 1500
absent  interface eth1: Ethernet, MTU 1500; down
good    interface lo: no Ethernet, MTU 65536
poor    interface tun0: no Ethernet, MTU 1000; too narrow for packets of 1,200 bytes, as root: ip \
                        link set tun0 mtu 1500";
        assert_eq!(shown(false, &findings), expected);
        assert!(without_network(&all).is_none());
    }

    #[test]
    fn loopback_that_is_down_is_told_with_its_remedy() {
        let lo = made("lo", 65536, false, true);
        let told = interface(&lo);
        assert_eq!(told.state, State::Poor);
        assert!(told.text.ends_with("as root: ip link set lo up"));
        let other = made("eth0", 1500, true, false);
        let last = without_network(std::slice::from_ref(&lo)).unwrap();
        assert_eq!(last.state, State::Broken);
        assert!(without_network(&[lo, other]).is_none());
    }

    #[test]
    fn af_xdp_is_good_only_where_frames_fit() {
        let all = [
            made("eth0", 1500, true, false),
            made("eth1", 9000, true, false),
            made("eth2", 1500, true, true),
            made("lo", 65536, false, false),
        ];
        let (state, text) = at_interfaces(&all);
        assert_eq!(state, State::Good);
        let expected = "frames in shared memory, by SUCI_BACKEND=af_xdp at eth0; not at eth1, \
                        whose MTU is 9000, as root: ip link set eth1 mtu 3826";
        assert_eq!(text, expected);
        let none = [made("lo", 65536, false, false)];
        assert_eq!(at_interfaces(&none).0, State::Absent);
    }

    #[test]
    fn json_has_the_same() {
        let findings = [Finding::new("clock", State::Good, "tsc")];
        let told: Value = serde_json::from_str(&shown(true, &findings)).unwrap();
        let expected = json!({ "name": "clock", "state": "good", "text": "tsc" });
        assert_eq!(told["findings"][0], expected);
    }
}
