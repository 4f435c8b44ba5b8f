//! The events of processes and the network in a run, drawn from its seed.

use suci_proto::time::{Duration, nanos};

use super::Profile;
use crate::options::{DuplicateAt, Options, Step};
use crate::rng::Rng;

/// Adds a flood of HELLOs for some seconds, in which processes may come up or start again.
pub(super) fn flood(run: &mut Options, rng: &mut Rng) {
    let host = rng.index(0, run.nodes);
    let (from, span) = (rng.range(0, 500), rng.range(500, 5_000));
    let count = u32::try_from(rng.scale(1, 100)).unwrap_or(1);
    for at in (from..from + span).step_by(10) {
        let step = Step::Flood(host, count);
        run.script.push((Duration::from_millis(at), step));
    }
    if rng.chance(500_000) {
        let back = rng.duration(Duration::from_micros(100), Duration::from_secs(1));
        let at = Duration::from_millis(from + span / 2);
        run.script.push((at, Step::Crash(host, Some(back))));
    }
}

/// Programs finish some of their channels.
pub(super) fn finishes(run: &mut Options, rng: &mut Rng) {
    let channels = u64::from(run.traffic.channels.max(1));
    for _ in 0..rng.scale(4, 400) {
        let at = Duration::from_nanos(rng.range(0, nanos(run.faults_for)));
        let (host, other) = (rng.index(0, run.nodes), rng.index(0, run.nodes));
        // Some were never used.
        let channel = u32::try_from(rng.range(0, channels + channels / 8 + 1)).unwrap_or(0);
        run.script.push((at, Step::Finish(host, other, channel)));
    }
}

/// Adds events of processes and network, in the kind's manner.
pub(super) fn steps(run: &mut Options, kind: Profile, rng: &mut Rng) {
    for _ in 0..rng.range(1, 6) {
        let at = Duration::from_nanos(rng.range(0, nanos(run.faults_for)));
        let host = rng.index(0, run.nodes);
        let other = rng.index(0, run.nodes);
        let step = match kind {
            Profile::Partition => cut(run, host, rng),
            Profile::Restart => {
                let back = rng.duration(Duration::from_micros(100), Duration::from_secs(15));
                Step::Crash(host, rng.chance(800_000).then_some(back))
            }
            Profile::Pause => pause(run, host, rng),
            Profile::Mtu => mtu(run, rng),
            // Only one host ever loses its old address: two that did could not find each other.
            Profile::Rebind if rng.chance(500_000) => Step::Rebind(0, false),
            Profile::Rebind => Step::Rebind(host, true),
            Profile::DuplicateId => {
                run.duplicates.push(DuplicateAt {
                    of: host,
                    start: at,
                });
                continue;
            }
            Profile::Close => close(host, other, rng),
            Profile::Suspend => suspend(run, host, other, at, rng),
            _ if rng.chance(400_000) => Step::Insider(host),
            _ => Step::Attack(u32::try_from(rng.scale(10, 1_000)).unwrap_or(10)),
        };
        run.script.push((at, step));
    }
    if kind == Profile::Hostile {
        let mut at = Duration::from_millis(1);
        while at < run.faults_for {
            run.script.push((at, Step::Attack(5)));
            at += run.faults_for / 50;
        }
    }
}

fn cut(run: &mut Options, host: usize, rng: &mut Rng) -> Step {
    let mut hosts = vec![host];
    hosts.extend((0..run.nodes).filter(|_| rng.chance(300_000)));
    let (outwards, inwards) = rng.pick(&[(true, true), (true, false), (false, true)]);
    let time = rng.duration(Duration::from_millis(10), Duration::from_secs(40));
    // Long enough that some give up: short limits make it happen within the run.
    run.faults_for = run.faults_for.max(time / 2);
    Step::Cut(hosts, outwards, inwards, time)
}

fn pause(run: &mut Options, host: usize, rng: &mut Rng) -> Step {
    if rng.chance(400_000) {
        let time = rng.duration(Duration::from_millis(10), Duration::from_secs(20));
        return Step::StopConsuming(host, time);
    }
    let time = rng.duration(Duration::from_millis(50), Duration::from_secs(180));
    if rng.chance(500_000) {
        run.faults_for = run.faults_for.max(time + Duration::from_secs(5));
    }
    Step::Pause(host, time)
}

fn mtu(run: &mut Options, rng: &mut Rng) -> Step {
    if rng.chance(300_000) {
        run.links.mtu = rng.pick(&[1_472, 4_052, 8_972, 65_507]);
        run.links.route_mtu = run.links.mtu;
        run.recv_buffer = 8 << 20;
    }
    Step::Mtu(
        rng.pick(&[1_200, 1_280, 1_372, 1_472, 8_972]),
        rng.chance(500_000),
    )
}

fn close(host: usize, other: usize, rng: &mut Rng) -> Step {
    let deadline = rng.duration(Duration::from_millis(1), Duration::from_secs(10));
    let back = rng.duration(Duration::from_millis(1), Duration::from_secs(5));
    match rng.range(0, 4) {
        0 => Step::Reset(host, other),
        1 => Step::ClosePeer(host, other, deadline),
        _ => Step::Close(host, deadline, back),
    }
}

/// Returns a suspension. It ends after a while, by another step of the script, or when the network
/// is mended.
fn suspend(run: &mut Options, host: usize, other: usize, at: Duration, rng: &mut Rng) -> Step {
    if rng.chance(800_000) {
        let end = at + rng.duration(Duration::from_micros(100), Duration::from_secs(20));
        run.script.push((end, Step::Suspend(host, other, false)));
    }
    Step::Suspend(host, other, true)
}
