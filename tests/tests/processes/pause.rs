//! Programs that compute, and processes that are stopped.

use std::time::Duration;

use suci_tests::{COMPUTES, Cast, light, time};
use xtask::netns::Netns;

/// The helper answers for a program that computes for long: its peer does not take it for lost.
#[test]
fn computing_caller_is_not_lost() {
    let _together = light();
    let (netns, cast) = (Netns::new().unwrap(), Cast::local(2));
    let mut peer = cast.start(&netns, 0, &["silence=1000"]);
    let mut busy = cast.start(&netns, 1, &["silence=1000"]);
    peer.say("load 1 4 1000");
    busy.reaches("/received/0", 10);
    let time = time(COMPUTES, 3_000).as_millis();
    busy.say(&format!("compute {time}"));
    // Answered when the computing is over; until then the peer has data outstanding or blocked.
    let received = busy.number("/received/0");
    assert_eq!(peer.events("lost"), []);
    peer.say("rest 1");
    busy.reaches("/received/0", received + 1);
    println!("figure: computed for {time} ms, never lost");
    assert_eq!(peer.events("lost"), []);
    assert_eq!(busy.events("lost"), []);
    peer.finish();
    busy.finish();
}

/// A process is stopped for longer than the silence timeout and goes on: its peer sees it lost and
/// back, it does not blame the peer for its own pause, and everything arrives.
#[test]
fn f16_sigstop_and_sigcont() {
    let _together = light();
    let (netns, cast) = (Netns::new().unwrap(), Cast::local(2));
    let settings = ["silence=1000", "give_up=30000"];
    let mut peer = cast.start(&netns, 0, &settings);
    let mut stopped = cast.start(&netns, 1, &settings);
    peer.say("load 1 16 1000");
    stopped.say("load 0 16 1000");
    peer.reaches("/delivered/1", 100);
    stopped.reaches("/delivered/0", 100);

    stopped.signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_secs(3));
    peer.event("lost 1");
    let before = peer.number("/delivered/1");
    stopped.signal(libc::SIGCONT);

    peer.reaches("/delivered/1", before + 100);
    stopped.reaches("/delivered/0", 200);
    assert_eq!(peer.events("lost").len(), 1);
    assert_eq!(
        peer.events("up").len(),
        2,
        "at first contact and afterwards"
    );
    assert_eq!(stopped.events("lost"), [], "the pause was its own");
    assert_eq!(peer.events("ended"), []);
    assert_eq!(stopped.events("ended"), []);
    peer.rest(1);
    stopped.rest(0);
    let (sent, back) = (peer.number("/accepted/1"), stopped.number("/accepted/0"));
    stopped.reaches("/received/0", sent);
    peer.reaches("/received/1", back);
    peer.finish();
    stopped.finish();
}
