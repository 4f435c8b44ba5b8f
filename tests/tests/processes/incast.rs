//! Many send to one that does not look at its socket for a while: the kernel drops nothing (promise
//! 7).

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use suci_tests::{Cast, LONG, Subject, finish_together, heavy, strict};
use xtask::netns::Pair;

/// Senders, in one namespace; the receiver is in another.
const SENDERS: u32 = 64;

/// How long figures are taken.
const MEASURED: Duration = Duration::from_secs(3);

struct Incast {
    pair: Pair,
    receiver: Subject,
    senders: Vec<Subject>,
}

impl Incast {
    /// Starts all nodes, sending as fast as they may.
    fn new(receiver: &[&str], sender: &[&str]) -> Self {
        let pair = Pair::new().unwrap();
        let address = |id| SocketAddr::from((pair.a_addr(), 7000 + id as u16));
        let mut addresses = vec![SocketAddr::from((pair.b_addr(), 7000))];
        addresses.extend((1..=SENDERS).map(address));
        let cast = Cast::new(&addresses);
        let receiver = cast.start(&pair.b, 0, receiver);
        let mut senders: Vec<_> = (1..=SENDERS)
            .map(|id| cast.start(&pair.a, id, sender))
            .collect();
        for sender in &mut senders {
            sender.say("load 0 16 8000");
        }
        Self {
            pair,
            receiver,
            senders,
        }
    }

    /// Messages that arrived from each. All are asked for at once: the receiver answers when it
    /// looks, every 50 ms.
    fn by_sender(&mut self) -> Vec<u64> {
        let stat = self.receiver.stat();
        let received = stat["received"].as_object().unwrap();
        let counts = received.values().map(|count| count.as_u64().unwrap());
        counts.collect()
    }

    /// Messages that arrived from all senders.
    fn received(&mut self) -> u64 {
        self.by_sender().iter().sum()
    }

    /// Waits until all senders have come through.
    fn all_send(&mut self) {
        let deadline = Instant::now() + LONG;
        loop {
            let counts = self.by_sender();
            if counts.iter().filter(|count| **count >= 10).count() == SENDERS as usize {
                return;
            }
            assert!(Instant::now() < deadline, "not everybody sends: {counts:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Bytes that the kernel may hold for the receiver, as it counts them.
    fn buffer(&self) -> f64 {
        let said = self.pair.b.run(&["ss", "-uanm", "sport = :7000"]).unwrap();
        let (_, rest) = said.split_once(",rb").unwrap();
        rest.split_once(',').unwrap().0.parse().unwrap()
    }

    /// All senders stop: every accepted message arrives, once, and the kernel dropped nothing.
    /// Returns the packets that were sent again.
    fn finish(self) -> u64 {
        let (lost, dropped) = self.drain();
        assert_eq!(dropped, 0, "the kernel dropped datagrams");
        lost
    }

    /// As [`Incast::finish`]; also returns the number of datagrams that the kernel dropped.
    fn drain(mut self) -> (u64, u64) {
        for sender in &mut self.senders {
            sender.say("rest 0");
        }
        let accepted = |sender: &mut Subject| sender.number("/accepted/0");
        let accepted = self.senders.iter_mut().map(accepted).sum();
        let deadline = Instant::now() + LONG;
        while self.received() < accepted {
            assert!(Instant::now() < deadline, "not everything arrived");
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(self.received(), accepted);
        let dropped = self.pair.b.counter("UdpRcvbufErrors").unwrap();
        let lost = |sender: &mut Subject| sender.number("/packets_lost");
        let lost = self.senders.iter_mut().map(lost).sum();
        finish_together(self.senders);
        self.receiver.finish();
        (lost, dropped)
    }
}

/// Senders as they are, and with the controller that fills queues: the one of
/// `unlimited_grants_overrun_the_receiver`, by which is known that they would fill the buffer.
const CONTROLLERS: [&[&str]; 2] = [&[], &["controller=cubic"]];

/// A program without helper that looks every 50 ms finds as much as the buffer may hold, and
/// nothing is lost.
#[test]
fn f18_f31_64_senders_to_one_that_polls_every_50_ms() {
    let _alone = heavy();
    for controller in CONTROLLERS {
        polled_every_50_ms(controller);
    }
}

fn polled_every_50_ms(controller: &[&str]) {
    let mut incast = Incast::new(&["unattended", "every=50"], controller);
    incast.all_send();
    let turns = incast.receiver.number("/turns");
    let before = incast.received();
    std::thread::sleep(MEASURED);
    let after = incast.received();
    let turns = incast.receiver.number("/turns") - turns;
    let jain = incast.receiver.stat()["jain"].as_f64().unwrap();
    let each = (after - before) as f64 * 8_000.0 / turns as f64;
    let share = each / incast.buffer();
    let lost = incast.finish();
    println!(
        "figure: {share:.2} of the buffer per poll, shared evenly to {jain:.2} (Jain), {lost} packets taken for lost, \
         0 dropped {controller:?}"
    );
    if strict() {
        assert!(share >= 0.25, "{share:.3} of the buffer per poll");
        assert!(jain >= 0.9, "shared evenly to {jain:.3} (Jain)");
        assert_eq!(lost, 0, "the network loses nothing");
    }
}

/// A process with a thread that serves its node is stopped for five seconds.
#[test]
fn f16_f18_64_senders_to_one_that_is_stopped_for_five_seconds() {
    let _alone = heavy();
    for controller in CONTROLLERS {
        stopped_for_five_seconds(controller);
    }
}

fn stopped_for_five_seconds(controller: &[&str]) {
    let mut incast = Incast::new(&["threads"], controller);
    incast.all_send();
    incast.receiver.signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_secs(5));
    incast.receiver.signal(libc::SIGCONT);
    let before = incast.received();
    std::thread::sleep(MEASURED);
    let messages = incast.received() - before;
    assert!(messages > 0, "nothing goes on");
    let lost = incast.finish();
    println!(
        "figure: {messages} messages in 3 s afterwards, {lost} packets taken for lost, 0 dropped {controller:?}"
    );
}

/// The same with grants without a limit: the kernel drops packets that the buffer does not hold.
/// Otherwise these tests would show nothing. CUBIC, because `Lan` keeps queues so short that they
/// hardly fill the buffer.
#[cfg(suci_plant)]
#[test]
fn unlimited_grants_overrun_the_receiver() {
    let _alone = heavy();
    let mut incast = Incast::new(
        &["threads", "plant=unlimited-grants"],
        &["controller=cubic"],
    );
    incast.all_send();
    incast.receiver.signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_secs(5));
    incast.receiver.signal(libc::SIGCONT);
    let (_, dropped) = incast.drain();
    println!("figure: {dropped} dropped");
    assert!(dropped > 0, "nothing was dropped");
}
