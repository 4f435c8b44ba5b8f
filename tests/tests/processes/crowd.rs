//! Many nodes that call one.

use std::time::{Duration, Instant};

use suci::{AcceptPolicy, Node, NodeId, SharedNode};
use suci_tests::{LONG, builder_at, heavy, strict};
use xtask::netns::Netns;

/// Newcomers: nearly all that a node with the receive buffer of a stock kernel serves at once.
const NEWCOMERS: u32 = 60;

/// The longest time for the answer to a newcomer, as promised for a crowd.
const SOON: Duration = Duration::from_millis(500);

/// F31: each newcomer is answered at once, although those before it keep their sessions and
/// compute. The credit of the first peers must leave the least grant to every place that is free.
#[test]
fn f31_newcomers_are_answered_whatever_those_before_them_do() {
    let _alone = heavy();
    let netns = Netns::new().unwrap();
    let at = |port| (std::net::Ipv4Addr::LOCALHOST, port);
    let open = |id: u32| builder_at(id, at(7_000 + u16::try_from(id).unwrap()));
    let work = || {
        let server = open(0).accept(AcceptPolicy::Anyone);
        let server = server.udp(|options| options.recv_buffer = 212_992);
        let server: SharedNode = server.open_threads(1).unwrap();
        let mut computing: Vec<Node> = Vec::new();
        let mut longest = Duration::ZERO;
        for id in 1..=NEWCOMERS {
            let mut newcomer = open(id).open().unwrap();
            newcomer.add_peer(server.id(), server.local_addr()).unwrap();
            let asked = Instant::now();
            newcomer.send(server.id(), "question").unwrap();
            let question = server.recv_timeout(LONG).unwrap();
            assert!(question.is_some(), "newcomer {id} is not served");
            server.send(NodeId(id), "answer").unwrap();
            let answer = newcomer.recv_timeout(LONG).unwrap();
            assert!(answer.is_some(), "newcomer {id} has no answer");
            longest = longest.max(asked.elapsed());
            computing.push(newcomer);
        }
        longest
    };
    let longest = netns.inside(work).unwrap();
    println!("figure: {NEWCOMERS} newcomers, the last answer after {longest:?}");
    // Without the promise some wait for a second and more, others for ever.
    let most = if strict() { SOON } else { 10 * SOON };
    assert!(longest < most, "{longest:?}");
}
