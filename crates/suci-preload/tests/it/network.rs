//! Programs on two hosts.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::cluster::{Nodes, Server, plain_python, run};
use xtask::netns::{INTERFACE, Netns, Pair};

/// Lets no segment of TCP in.
fn refuse_tcp(host: &Netns) {
    let rules = format!(
        "table inet no_tcp {{ chain arriving {{ type filter hook input priority 0; \
         iifname \"{INTERFACE}\" meta l4proto tcp drop; }}; }}"
    );
    host.run(&["nft", &rules]).unwrap();
}

/// The exchange goes between the nodes although no TCP does, and packets are lost.
fn exchange(ips: [String; 2], pair: &Pair) {
    let nodes = Nodes::new(ips);
    let start = |node: usize, words: &[&str]| {
        let inner = plain_python(words);
        let host = [&pair.b, &pair.a][node];
        let mut command = host.command(inner.get_program());
        nodes.set_up(node, command.args(inner.get_args()));
        command
    };
    let server = Server::start(&mut start(0, &["serve_one_by_one", &nodes.ips[0], "3"]));
    // The last client binds its address before it connects.
    for bound in ["", "", "bound"] {
        let [server_ip, client_ip] = &nodes.ips;
        let words = ["call_echo", server_ip, &server.port, client_ip, bound];
        run(&mut start(1, &words));
    }
    let [server_ip, client_ip] = &nodes.ips;
    let line = format!("client {client_ip} at {server_ip}\n");
    assert_eq!(server.finish(), line.repeat(3));
}

#[test]
fn connections_between_hosts_go_between_nodes() {
    let pair = Pair::new().unwrap();
    pair.offloads_off().unwrap();
    pair.drop_randomly(0.01).unwrap();
    refuse_tcp(&pair.a);
    refuse_tcp(&pair.b);
    exchange(
        [pair.b_addr().to_string(), pair.a_addr().to_string()],
        &pair,
    );
    let ip = |v6| format!("{v6}");
    exchange([ip(pair.b_addr6()), ip(pair.a_addr6())], &pair);
}

/// F25: TCP's answer, and as soon.
#[test]
fn f25_a_node_without_route_is_told_at_once() {
    let pair = Pair::new().unwrap();
    let nodes = Nodes::new([pair.b_addr().to_string(), "192.0.2.1".to_owned()]);
    let inner = plain_python(&["call_without_route", &nodes.ips[1]]);
    let mut command = pair.b.command(inner.get_program());
    nodes.set_up(0, command.args(inner.get_args()));
    let begun = std::time::Instant::now();
    let [_, warned] = run(&mut command);
    assert_eq!(warned, "");
    println!("figure: 3 calls in {} ms", begun.elapsed().as_millis());
}

/// F25: the host is there and nobody has the port: TCP's answer, each time as soon as the first,
/// though the host's kernel sends few reports in each second. An address that no host has: the same
/// error each time, and none much later than the first.
#[test]
fn f25_each_connection_to_another_host_fails_in_the_same_way() {
    let pair = Pair::new().unwrap();
    let nodes = Nodes::new([pair.b_addr().to_string(), pair.a_addr().to_string()]);
    let inner = plain_python(&[
        "call_nobody_elsewhere",
        &nodes.ips[1],
        "ECONNREFUSED",
        "12",
        "1",
    ]);
    let mut command = pair.b.command(inner.get_program());
    nodes.set_up(0, command.args(inner.get_args()));
    let [said, warned] = run(&mut command);
    assert_eq!(warned, "");
    print!("{said}");
    // A neighbour that does not exist.
    let mut octets = pair.a_addr().octets();
    octets[3] = 77;
    let nobody = std::net::Ipv4Addr::from(octets).to_string();
    let nodes = Nodes::new([pair.b_addr().to_string(), nobody]);
    let inner = plain_python(&[
        "call_nobody_elsewhere",
        &nodes.ips[1],
        "EHOSTUNREACH",
        "3",
        "3",
    ]);
    let mut command = pair.b.command(inner.get_program());
    nodes.set_up(0, command.args(inner.get_args()));
    let [said, warned] = run(&mut command);
    assert_eq!(warned, "");
    print!("{said}");
}
