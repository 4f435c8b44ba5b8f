//! Links under the program's control.

use std::time::{Duration, Instant};

use suci_tests::{Cast, LONG, SUSPENDED, Subject, light, time};
use xtask::netns::Pair;

const SETTINGS: [&str; 1] = ["silence=1000"];

/// Two processes at the ends of a cable, each of which keeps messages for the other outstanding.
fn under_load(pair: &Pair) -> [Subject; 2] {
    let cast = Cast::new(&[(pair.a_addr(), 7000).into(), (pair.b_addr(), 7000).into()]);
    let mut a = cast.start(&pair.a, 0, &SETTINGS);
    let mut b = cast.start(&pair.b, 1, &SETTINGS);
    a.say("load 1 64 1000");
    b.say("load 0 64 1000");
    a.reaches("/received/1", 1_000);
    b.reaches("/received/0", 1_000);
    [a, b]
}

/// Both go on as before, and everything arrives, once and in order, which the subjects check.
fn go_on([mut a, mut b]: [Subject; 2]) {
    let more = a.number("/received/1") + 1_000;
    a.reaches("/received/1", more);
    let more = b.number("/received/0") + 1_000;
    b.reaches("/received/0", more);
    assert_eq!(a.events("ended"), []);
    assert_eq!(b.events("ended"), []);
    a.rest(1);
    b.rest(0);
    a.finish();
    b.finish();
}

/// One side suspends and resumes. Meanwhile nothing arrives, both sides refuse writes with an error
/// that names the suspending side, and no peer is lost.
#[test]
fn suspend_under_load_and_resume() {
    let _together = light();
    let pair = Pair::new().unwrap();
    let [mut a, mut b] = under_load(&pair);
    a.say("suspend 1");
    a.event("suspended 1 Here");
    b.event("suspended 0 There");
    a.event("held 1 Here");
    b.event("held 0 There");
    let mut received = || [a.number("/received/1"), b.number("/received/0")];
    // Packets in flight arrive first.
    let (mut before, end) = (received(), Instant::now() + LONG);
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let now = received();
        if now == before {
            break;
        }
        assert!(Instant::now() < end, "it flows on: {now:?}");
        before = now;
    }
    let waited = time(SUSPENDED, 2_000);
    std::thread::sleep(waited);
    assert_eq!(before, received(), "nothing flows");
    a.say("resume 1");
    b.event("resumed 0 There");
    assert_eq!((a.events("lost"), b.events("lost")), (vec![], vec![]));
    go_on([a, b]);
    println!("figure: suspended for {waited:?}, nothing lost, nothing twice");
}
