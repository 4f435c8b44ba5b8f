//! Effects of modes, priorities and controllers between real processes.

use std::time::{Duration, Instant};

use suci_tests::{Cast, Subject, heavy, strict};
use xtask::netns::Pair;
use xtask::tcp;

/// How long rates are taken, and how many requests.
const MEASURED: Duration = Duration::from_secs(3);
const REQUESTS: u32 = 3_000;

/// Bytes of the bulk's messages.
const BULK: u64 = 100_000;

/// A node at each end of a cable, that prefers `mode`.
fn both(pair: &Pair, mode: &str) -> (Subject, Subject) {
    let cast = Cast::new(&[(pair.a_addr(), 7000).into(), (pair.b_addr(), 7000).into()]);
    let prefer = format!("prefer={mode}");
    let a = cast.start(&pair.a, 0, &[&prefer]);
    (a, cast.start(&pair.b, 1, &[&prefer]))
}

/// Median and 99th percentile of requests, in microseconds.
fn ping(from: &mut Subject, to: u32) -> [f64; 2] {
    let before = from.events("pinged").len();
    from.say(&format!("ping {to} {REQUESTS} 64"));
    let deadline = Instant::now() + suci_tests::LONG;
    loop {
        if let Some(told) = from.events("pinged").get(before) {
            let mut figures = told
                .what
                .split(' ')
                .skip(1)
                .map(|word| word.parse().unwrap());
            return [figures.next().unwrap(), figures.next().unwrap()];
        }
        assert!(Instant::now() < deadline, "no answers");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Mbit/s that `to` receives from `from` in messages of [`BULK`] bytes.
fn goodput(to: &mut Subject, from: u32) -> f64 {
    let path = format!("/received/{from}");
    let (begun, before) = (Instant::now(), to.number(&path));
    std::thread::sleep(MEASURED);
    let messages = to.number(&path) - before;
    (messages * BULK * 8) as f64 / begun.elapsed().as_secs_f64() / 1e6
}

/// Acknowledgements per packet, Mbit/s, and the median round trip in microseconds. On a slow cable:
/// at full speed a receiver finds hundreds of packets in each look, and acknowledges them together
/// in any mode.
fn figures(mode: &str) -> [f64; 3] {
    let pair = Pair::across_switch(200, 10).unwrap();
    pair.offloads_off().unwrap();
    let (mut a, mut b) = both(&pair, mode);
    a.say(&format!("load 1 32 {BULK}"));
    b.reaches("/received/0", 100);
    let counts = |b: &mut Subject| {
        ["acks_sent", "packets_received"].map(|name| b.number(&format!("/{name}/0")))
    };
    let before = counts(&mut b);
    let rate = goodput(&mut b, 0);
    let after = counts(&mut b);
    let acks = (after[0] - before[0]) as f64 / (after[1] - before[1]) as f64;
    a.say("rest 1");
    let accepted = a.number("/accepted/1");
    b.reaches("/received/0", accepted);
    let [median, _] = ping(&mut a, 1);
    a.finish();
    b.finish();
    [acks, rate, median]
}

/// `Response` acknowledges early, `Throughput` seldom; neither costs a round trip anything.
#[test]
fn modes_differ_as_documented() {
    let _alone = heavy();
    let [throughput, response] = ["throughput", "response"].map(figures);
    for (name, [acks, rate, median]) in [("Throughput", throughput), ("Response", response)] {
        println!(
            "figure: {name}: {acks:.4} acks per packet, {rate:.0} Mbit/s, round trip {median:.1} us"
        );
    }
    assert!(
        throughput[0] < response[0],
        "acknowledgements: {throughput:?}, {response:?}"
    );
    if strict() {
        assert!(
            throughput[0] * 2.0 < response[0],
            "acknowledgements: {throughput:?}, {response:?}"
        );
        assert!(
            throughput[1] > 0.9 * response[1],
            "goodput: {throughput:?}, {response:?}"
        );
        assert!(
            response[2] < 1.25 * throughput[2],
            "round trip: {throughput:?}, {response:?}"
        );
    }
}

/// The results of requests and bulk that met.
struct Meeting {
    /// The 99th percentile of requests beside bulk, in that of requests alone.
    slower: f64,
    /// Part of its rate that bulk keeps.
    share: f64,
}

/// How often requests go alone and beside bulk, in turns: once if the figures are not judged.
fn turns() -> usize {
    if strict() { 9 } else { 1 }
}

/// Bulk (Throughput) and requests (Response, higher class) of two processes meet at a third; beside
/// it the same by TCP. Medians of [`turns`].
fn meet(pair: &Pair) -> Meeting {
    let at = |host: std::net::Ipv4Addr, port: u16| (host, port).into();
    let cast = Cast::new(&[
        at(pair.b_addr(), 7000),
        at(pair.a_addr(), 7001),
        at(pair.a_addr(), 7002),
    ]);
    let mut receiver = cast.start(&pair.b, 0, &[]);
    let mut bulk = cast.start(&pair.a, 1, &["prefer=throughput"]);
    let mut asker = cast.start(&pair.a, 2, &["prefer=response"]);
    receiver.say("class 2 6");
    ping(&mut asker, 0);
    let turns = turns();
    let (mut alone, mut together, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    let mut lone_rate = None;
    for _ in 0..turns {
        alone.push(ping(&mut asker, 0));
        bulk.say(&format!("load 0 64 {BULK}"));
        let begun = receiver.number("/received/1");
        receiver.reaches("/received/1", begun + 500);
        lone_rate.get_or_insert_with(|| goodput(&mut receiver, 1));
        let (begun, before) = (Instant::now(), receiver.number("/received/1"));
        together.push(ping(&mut asker, 0));
        let messages = receiver.number("/received/1") - before;
        rates.push((messages * BULK * 8) as f64 / begun.elapsed().as_secs_f64() / 1e6);
        bulk.say("rest 0");
        let accepted = bulk.number("/accepted/0");
        receiver.reaches("/received/1", accepted);
    }
    for subject in [bulk, asker, receiver] {
        subject.finish();
    }
    let p99 = |times: Vec<Duration>| times[times.len() * 99 / 100].as_secs_f64() * 1e6;
    let tcp_ping = |port| p99(tcp::ping(pair, port, REQUESTS, 64).unwrap());
    let tcp_alone = median((0..turns).map(|_| tcp_ping(7010)));
    let flow = tcp::Flow::start(pair, 7011).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let tcp_together = median((0..turns).map(|_| tcp_ping(7012)));
    drop(flow);
    let [alone, together] = [alone, together]
        .map(|times| [0, 1].map(|figure| median(times.iter().map(|time: &[f64; 2]| time[figure]))));
    let (lone_rate, rate) = (lone_rate.unwrap(), median(rates.into_iter()));
    let (slower, share) = (together[1] / alone[1], rate / lone_rate);
    println!(
        "figure: p99 {:.0} us alone, {:.0} beside bulk ({slower:.1} x), median {:.0} and {:.0}; bulk keeps {share:.2} \
         of {lone_rate:.0} Mbit/s; TCP p99 {tcp_alone:.0} and {tcp_together:.0} us ({:.1} x)",
        alone[1],
        together[1],
        alone[0],
        together[0],
        tcp_together / tcp_alone
    );
    Meeting { slower, share }
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<_> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

#[test]
fn requests_and_bulk_meet_on_a_gigabit() {
    let _alone = heavy();
    let pair = Pair::across_switch(1_000, 10).unwrap();
    pair.offloads_off().unwrap();
    let Meeting { slower, share } = meet(&pair);
    if strict() {
        assert!(slower <= 3.0, "p99 is {slower:.1} x as long beside bulk");
        assert!(share >= 0.8, "bulk keeps {share:.2}");
    }
}

/// Runs as fast as the machine allows, which decides the figures; they are for people to read.
#[test]
fn requests_and_bulk_meet_at_full_speed() {
    let _alone = heavy();
    meet(&Pair::new().unwrap());
}

/// Milliseconds that packets wait in the queue of a switch of 100 Mbit/s, which could hold 50 ms,
/// and Mbit/s through it. The wait is the round trip less the shortest one.
fn standing_queue(controller: &str) -> [f64; 2] {
    let pair = Pair::across_switch(100, 50).unwrap();
    pair.offloads_off().unwrap();
    let cast = Cast::new(&[(pair.a_addr(), 7000).into(), (pair.b_addr(), 7000).into()]);
    let setting = format!("controller={controller}");
    let mut a = cast.start(&pair.a, 0, &[&setting]);
    let mut b = cast.start(&pair.b, 1, &[&setting]);
    ping(&mut a, 1);
    a.say(&format!("load 1 64 {BULK}"));
    // The flow finds its share.
    std::thread::sleep(MEASURED);
    let (begun, before) = (Instant::now(), b.number("/received/0"));
    let mut queue = Vec::new();
    while begun.elapsed() < MEASURED {
        let stat = a.stat();
        let micros = |name: &str| stat[name]["1"].as_u64().unwrap() as f64;
        queue.push(micros("rtt_us") - micros("min_rtt_us"));
        std::thread::sleep(Duration::from_millis(50));
    }
    let messages = b.number("/received/0") - before;
    let rate = (messages * BULK * 8) as f64 / begun.elapsed().as_secs_f64() / 1e6;
    a.say("rest 1");
    a.finish();
    b.finish();
    [queue.iter().sum::<f64>() / queue.len() as f64 / 1e3, rate]
}

/// The controller for machine rooms fills the link and not the queue.
#[test]
fn the_lan_controller_keeps_queues_short() {
    let _alone = heavy();
    let [lan, cubic] = ["lan", "cubic"].map(standing_queue);
    println!(
        "figure: queue {:.1} ms at {:.1} Mbit/s; CUBIC {:.1} ms at {:.1} Mbit/s",
        lan[0], lan[1], cubic[0], cubic[1]
    );
    assert!(lan[0] < cubic[0], "{lan:?}, CUBIC {cubic:?}");
    if strict() {
        assert!(lan[0] < 5.0 && lan[1] >= 90.0, "{lan:?}");
    }
}
