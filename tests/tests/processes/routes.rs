//! Nodes that reach each other through others, each host in a namespace that has cables to its
//! neighbours only.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use suci_tests::{Cast, LONG, Subject, finish_together, heavy};
use xtask::netns::{Netns, join};

/// Settings of all subjects: a peer that does not answer is lost soon.
const SETTINGS: [&str; 3] = ["listen=0.0.0.0:7000", "silence=3000", "forward"];

/// Hosts with cables between some of them.
struct Hosts {
    hosts: Vec<Netns>,
    /// The address of the second at its cable to the first.
    seen: BTreeMap<(u32, u32), Ipv4Addr>,
}

impl Hosts {
    fn new(count: u32, cables: &[(u32, u32)]) -> Self {
        let hosts: Vec<_> = (0..count).map(|_| Netns::new().unwrap()).collect();
        let mut seen = BTreeMap::new();
        for (number, &(a, b)) in (0..).zip(cables) {
            let [at_a, at_b] = join(&hosts[a as usize], &hosts[b as usize], number).unwrap();
            seen.insert((a, b), at_b);
            seen.insert((b, a), at_a);
        }
        Self { hosts, seen }
    }

    /// The book of a node: its neighbours by their addresses, and for each other node the routes
    /// that `vias` names.
    fn book(&self, own: u32, vias: impl Fn(u32) -> Vec<u32>) -> String {
        let line = |other: u32| {
            if let Some(address) = self.seen.get(&(own, other)) {
                return format!("{other} {address}:7000\n");
            }
            let vias: Vec<_> = vias(other).iter().map(u32::to_string).collect();
            format!("{other} via {}\n", vias.join(", "))
        };
        let others = (0..self.hosts.len() as u32).filter(|other| *other != own);
        // Its line must be there; it listens at all of its addresses.
        let mut cables = self.seen.iter();
        let here = cables.find(|((_, other), _)| *other == own).unwrap().1;
        format!("{own} {here}:7000\n") + &others.map(line).collect::<String>()
    }

    fn start(&self, cast: &Cast, id: u32, settings: &[&str]) -> Subject {
        cast.start(&self.hosts[id as usize], id, settings)
    }
}

/// A chain of `count` hosts; each knows the next one in each direction.
fn chain(count: u32) -> (Hosts, Cast) {
    let cables: Vec<_> = (1..count).map(|id| (id - 1, id)).collect();
    let hosts = Hosts::new(count, &cables);
    let cast = Cast::with_books(count, |own| {
        hosts.book(own, |to| vec![if to > own { own + 1 } else { own - 1 }])
    });
    (hosts, cast)
}

/// Sends `count` messages of `size` bytes from each end to the other, which all arrive.
fn both_ways(a: &mut Subject, b: &mut Subject, count: u64, size: u64) {
    let counts = |subject: &mut Subject, other: u32| {
        let received = subject.number(&format!("/received/{other}"));
        (received, subject.number(&format!("/delivered/{other}")))
    };
    let (at_a, at_b) = (counts(a, b.id), counts(b, a.id));
    a.say(&format!("send {} {count} {size}", b.id));
    b.say(&format!("send {} {count} {size}", a.id));
    let ids = [a.id, b.id];
    for (subject, other, before) in [(a, ids[1], at_a), (b, ids[0], at_b)] {
        subject.reaches(&format!("/received/{other}"), before.0 + count);
        subject.reaches(&format!("/delivered/{other}"), before.1 + count);
    }
}

/// Two subnets that only one host has cables to: 0 and 1 in the one, 3 and 4 in the other, 2
/// between. Nothing arrives while that one does not forward.
#[test]
fn two_subnets_are_joined_by_one_forwarder() {
    let _alone = heavy();
    let hosts = Hosts::new(5, &[(0, 1), (3, 4), (0, 2), (1, 2), (3, 2), (4, 2)]);
    let cast = Cast::with_books(5, |own| hosts.book(own, |_| vec![2]));
    let willing = |id: u32| id == 2;
    let mut subjects: Vec<_> = (0..5)
        .map(|id| hosts.start(&cast, id, &SETTINGS[..2 + usize::from(willing(id))]))
        .collect();
    let mut across = |a: usize, b: usize| {
        let (low, high) = subjects.split_at_mut(b);
        both_ways(&mut low[a], &mut high[0], 200, 1_000);
        both_ways(&mut low[a], &mut high[0], 4, 500_000);
    };
    for (a, b) in [(0, 3), (0, 4), (1, 3), (1, 4), (0, 1)] {
        across(a, b);
    }
    for subject in &mut subjects {
        let forwarded = subject.number("/forwarded");
        assert_eq!(forwarded > 1_000, willing(subject.id), "{forwarded}");
        assert_eq!(subject.number("/recv_drops"), 0);
        assert_eq!(subject.number("/route_hop_limit"), 0);
    }
    finish_together(subjects);
}

/// Two hosts with two forwarders between them, over cables that lose packets.
#[test]
fn packets_pass_a_chain_of_forwarders_that_loses_some() {
    let _alone = heavy();
    let (hosts, cast) = chain(4);
    for host in &hosts.hosts[1..3] {
        host.drop_arriving(0.01).unwrap();
    }
    let mut subjects: Vec<_> = (0..4).map(|id| hosts.start(&cast, id, &SETTINGS)).collect();
    let (low, high) = subjects.split_at_mut(3);
    both_ways(&mut low[0], &mut high[0], 1_000, 200);
    both_ways(&mut low[0], &mut high[0], 10, 300_000);
    for forwarder in &mut low[1..] {
        assert!(forwarder.number("/forwarded") > 2_000);
        assert_eq!(forwarder.number("/recv_drops"), 0);
    }
    finish_together(subjects);
}

/// The only forwarder is killed: the other end is lost, and comes back with the next process.
#[test]
fn who_is_behind_a_killed_forwarder_is_lost_until_it_returns() {
    let _alone = heavy();
    let (hosts, cast) = chain(3);
    let mut subjects: Vec<_> = (0..3).map(|id| hosts.start(&cast, id, &SETTINGS)).collect();
    let (mut last, forwarder) = (subjects.remove(2), subjects.remove(1));
    let mut first = subjects.remove(0);
    both_ways(&mut first, &mut last, 100, 100);
    forwarder.kill();
    first.say("send 2 50 100");
    first.event("lost 2");
    let forwarder = hosts.start(&cast, 1, &SETTINGS);
    last.reaches("/received/0", 150);
    both_ways(&mut first, &mut last, 100, 100);
    assert!(first.events("ended 2").is_empty(), "the session went on");
    finish_together(vec![first, forwarder, last]);
}

/// Nodes of the cube in each direction.
const SIDE: u32 = 3;

/// The place of a node in the cube.
fn place(node: u32) -> [u32; 3] {
    [node % SIDE, node / SIDE % SIDE, node / SIDE / SIDE]
}

fn node_at([x, y, z]: [u32; 3]) -> u32 {
    x + SIDE * (y + SIDE * z)
}

/// The neighbours that are one step nearer to a node, the one in the first direction first.
fn nearer(from: u32, to: u32) -> Vec<u32> {
    let (at, target) = (place(from), place(to));
    let step = |axis: usize| {
        let mut next = at;
        next[axis] = match at[axis].cmp(&target[axis]) {
            std::cmp::Ordering::Less => at[axis] + 1,
            std::cmp::Ordering::Equal => return None,
            std::cmp::Ordering::Greater => at[axis] - 1,
        };
        Some(node_at(next))
    };
    (0..3).filter_map(step).collect()
}

/// Sends from one node to another over the second route of its book while the forwarder of the
/// first one is dead: all messages arrive, and no session ends.
fn take_the_second_route(subjects: &mut [Subject], dead: u32, accepted: u64) {
    let (from, to) = (node_at([0, 1, 1]), node_at([1, 2, 1]));
    let routes = nearer(from, to);
    assert!(routes.len() == 2 && routes[0] == dead, "{routes:?}");
    let mut all = subjects.iter_mut();
    let sender = all.find(|it| it.id == from).unwrap();
    // A further command would replace the one before.
    sender.reaches(&format!("/accepted/{to}"), accepted);
    let begun = Instant::now();
    sender.say(&format!("send {to} 20 300"));
    sender.reaches(&format!("/delivered/{to}"), accepted + 20);
    let seconds = begun.elapsed().as_secs_f64();
    println!("figure: the second route carried all after {seconds:.1} s");
    assert!(sender.events(&format!("ended {to}")).is_empty());
}

/// Waits until each message that was accepted for `other`, of which there are more than `before`,
/// has its outcome. Returns how many were delivered, and how many were told undelivered or unknown
/// when a session ended.
fn outcomes(subject: &mut Subject, other: u32, before: u64) -> [u64; 2] {
    let deadline = Instant::now() + LONG;
    loop {
        let accepted = subject.number(&format!("/accepted/{other}"));
        let mut delivered = subject.number(&format!("/delivered/{other}"));
        let mut failed = 0;
        for told in subject.events(&format!("ended {other} ")) {
            let words = told.what.split([' ', '=']).collect::<Vec<_>>();
            let count = |name: &str| {
                let at = words.iter().position(|word| *word == name).unwrap();
                words[at + 1].parse::<u64>().unwrap()
            };
            delivered += count("delivered");
            failed += count("not_delivered") + count("unknown");
        }
        if accepted > before && accepted == delivered + failed {
            return [delivered, failed];
        }
        let (id, told) = (subject.id, delivered + failed);
        assert!(
            Instant::now() < deadline,
            "{id}: {accepted} accepted, {told} have an outcome"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// 27 nodes in a cube, all to all. The one in the middle is killed while they send, and returns:
/// nothing is lost between the others, and nothing comes twice (each subject checks that). While it
/// is dead the next route of a book takes over. Each message to it is delivered, or its sender is
/// told that it was not or may not be.
#[test]
fn a_cube_of_27_nodes_survives_its_middle() {
    let _alone = heavy();
    let count = SIDE.pow(3);
    let ahead = |node: u32| {
        let next = nearer(node, count - 1).into_iter();
        next.map(move |next| (node, next))
    };
    let cables: Vec<_> = (0..count).flat_map(ahead).collect();
    let hosts = Hosts::new(count, &cables);
    let cast = Cast::with_books(count, |own| hosts.book(own, |to| nearer(own, to)));
    let start = |id| hosts.start(&cast, id, &SETTINGS);
    let mut subjects: Vec<_> = (0..count).map(start).collect();
    let messages = 20;
    let all_to_all = |subjects: &mut Vec<Subject>, without: Option<u32>| {
        for subject in subjects.iter_mut() {
            let id = subject.id;
            for other in (0..count).filter(|it| *it != id && Some(*it) != without) {
                subject.say(&format!("send {other} {messages} 300"));
            }
        }
    };
    let arrives = |subjects: &mut Vec<Subject>, without: Option<u32>, each: u64| {
        let ids: Vec<_> = subjects.iter().map(|subject| subject.id).collect();
        let ids = ids.iter().filter(|id| Some(**id) != without);
        for subject in subjects.iter_mut() {
            let own = subject.id;
            for other in ids.clone().filter(|id| **id != own) {
                subject.reaches(&format!("/delivered/{other}"), each);
                subject.reaches(&format!("/received/{other}"), each);
            }
        }
    };
    all_to_all(&mut subjects, None);
    arrives(&mut subjects, None, messages);
    let middle = node_at([1, 1, 1]);
    all_to_all(&mut subjects, Some(middle));
    let to_middle = |subjects: &mut [Subject], parity: u32| {
        let senders = subjects.iter_mut().filter(|it| it.id != middle);
        senders
            .filter(|it| it.id % 2 == parity)
            .for_each(|it| it.say(&format!("send {middle} {messages} 300")));
    };
    to_middle(&mut subjects, 0);
    subjects.remove(middle as usize).kill();
    // Opposite sides of the middle reach each other through it alone.
    to_middle(&mut subjects, 1);
    take_the_second_route(&mut subjects, middle, 2 * messages);
    subjects.insert(middle as usize, start(middle));
    let mut others: Vec<_> = subjects;
    let returned = others.remove(middle as usize);
    arrives(&mut others, Some(middle), 2 * messages);
    let all = others.iter_mut().map(|it| outcomes(it, middle, messages));
    let [delivered, failed] = all.fold([0; 2], |[a, b], [c, d]| [a + c, b + d]);
    println!("figure: to the killed node {delivered} messages delivered, {failed} with an error");
    for subject in &mut others {
        assert_eq!(subject.number("/recv_drops"), 0);
        assert_eq!(subject.number("/route_hop_limit"), 0);
        assert_eq!(subject.number("/route_not_allowed"), 0);
    }
    others.push(returned);
    finish_together(others);
}
