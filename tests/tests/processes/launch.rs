//! Processes under `suci run` that are killed: the events that the others get, and when.

use std::path::Path;
use std::time::{Duration, Instant};

use suci_tests::{light, strict};
use tempfile::TempDir;
use xtask::exec;
use xtask::launch::Launch;

/// The processes that the tests kill, and the others.
const VICTIM: u32 = 2;
const OTHERS: [u32; 3] = [0, 1, 3];

/// Four greeters under `suci run` with `options`.
struct Greeters {
    launch: Launch,
    dir: TempDir,
}

impl Greeters {
    /// Starts processes that greet one another. A process that is started again takes a second to
    /// begin.
    fn start(options: &[&str], kind: &str) -> Self {
        let dir = TempDir::with_prefix("suci-tests-").unwrap();
        let greeter = exec::built("greeter").unwrap();
        let script = format!(
            "mkdir {dir}/$SUCI_ID 2> /dev/null || sleep 1; exec {} {kind} {dir}/stop",
            greeter.display(),
            dir = dir.path().display()
        );
        let sh = Path::new("sh");
        let launch = Launch::start(4, options, sh, &["-c", &script]).unwrap();
        let mut greeters = Self { launch, dir };
        for from in 0..4 {
            greeters.greeted_by(from, 0);
        }
        greeters
    }

    /// All others have heard this one.
    fn greeted_by(&mut self, from: u32, session: u32) {
        for to in (0..4).filter(|to| *to != from) {
            self.says(to, &format!("hello from {from} in session {session}\n"));
        }
    }

    fn says(&mut self, who: u32, what: &str) {
        self.launch.says(&format!("[{who}] {what}")).unwrap();
    }

    /// Kills one. The others hear of it at once.
    fn kill(&mut self) {
        self.launch.kill(VICTIM).unwrap();
        let begun = Instant::now();
        for who in OTHERS {
            self.says(who, "Lost { node: NodeId(2), cause: ProcessDied }");
        }
        let lost = begun.elapsed();
        println!("figure: lost after {:.3} s", lost.as_secs_f64());
        let limit = Duration::from_millis(if strict() { 200 } else { 5_000 });
        assert!(lost < limit, "lost after {lost:?}");
    }

    fn all_ended(&mut self, session: u32, reason: &str) {
        for who in OTHERS {
            self.says(
                who,
                &format!(
                    "Ended {{ node: NodeId(2), session: SessionNumber({session}), sessions: 1, reason: {reason}"
                ),
            );
        }
    }

    /// Lets the remaining processes end. Returns the exit status, and the output.
    fn finish(self) -> (i32, String) {
        std::fs::write(self.dir.path().join("stop"), "").unwrap();
        let ended = self.launch.end().unwrap();
        (ended.status, ended.err)
    }
}

/// F14, F17: one of four is killed and started again under its node ID: the others hear both, and
/// greet the newcomer.
#[test]
fn f14_f17_a_killed_process_is_started_again_and_accepted() {
    let _together = light();
    for kind in ["node", "threads"] {
        let mut greeters = Greeters::start(&["--restart"], kind);
        greeters.kill();
        greeters.all_ended(0, "Restarted");
        greeters.greeted_by(VICTIM, 1);
        let (status, said) = greeters.finish();
        assert_eq!(status, 0, "the second process ended well: {said}");
        assert!(
            said.contains("was killed by signal 9; it is started again, 1 of 3 times"),
            "{said}"
        );
        assert_eq!(said.matches("Lost").count(), 3, "{said}");
    }
}

/// F17: one of four is killed and not started again: its sessions end, and the others go on.
#[test]
fn f17_a_killed_process_is_gone_and_the_others_go_on() {
    let _together = light();
    for kind in ["node", "threads"] {
        let mut greeters = Greeters::start(&["--tolerate-failures"], kind);
        greeters.kill();
        greeters.all_ended(0, "ProcessDied");
        let (status, said) = greeters.finish();
        assert_eq!(status, 1, "one failed: {said}");
        assert!(
            said.contains("was killed by signal 9\n")
                && said.contains("suci run: 1 of 4 processes failed: 2\n"),
            "{said}"
        );
    }
}

/// F17: the last restart is used up.
#[test]
fn f17_a_process_that_dies_too_often_is_gone() {
    let _together = light();
    let mut greeters = Greeters::start(&["--restart=1"], "node");
    greeters.kill();
    greeters.all_ended(0, "Restarted");
    greeters.greeted_by(VICTIM, 1);
    greeters.launch.kill(VICTIM).unwrap();
    greeters.all_ended(1, "ProcessDied");
    let (status, said) = greeters.finish();
    assert_eq!(status, 137, "{said}");
}

/// F17: one of eight is killed in an allreduce: all others hear of it at once, shrink the group,
/// and go on without it.
#[test]
fn f17_a_group_whose_member_is_killed_fails_at_all_others_at_once() {
    let _together = light();
    for kind in ["group", "group-threads"] {
        kill_one_of_a_group(kind);
    }
}

fn kill_one_of_a_group(kind: &str) {
    let dir = TempDir::with_prefix("suci-tests-").unwrap();
    let stop = dir.path().join("stop");
    let arguments = [kind, stop.to_str().unwrap()];
    let greeter = exec::built("greeter").unwrap();
    let options = ["--tolerate-failures"];
    let mut launch = Launch::start(8, &options, &greeter, &arguments).unwrap();
    let others = || (0..8).filter(|who| *who != VICTIM);
    for who in 0..8 {
        launch.says(&format!("[{who}] began\n")).unwrap();
    }
    launch.kill(VICTIM).unwrap();
    let begun = Instant::now();
    for who in others() {
        let failed = format!("[{who}] group 1: node 2 failed in the operation allreduce");
        launch.says(&failed).unwrap();
    }
    let told = begun.elapsed();
    println!(
        "figure: all others failed after {:.3} s",
        told.as_secs_f64()
    );
    assert!(told < Duration::from_secs(5), "after {told:?}");
    for who in others() {
        launch.says(&format!("[{who}] sum 26\n")).unwrap();
    }
    std::fs::write(&stop, "").unwrap();
    let ended = launch.end().unwrap();
    assert_eq!(ended.status, 1, "one failed: {}", ended.err);
}
