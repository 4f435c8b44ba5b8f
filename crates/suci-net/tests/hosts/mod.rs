//! Hosts of the tests: network namespaces, which go away with the process.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::Command;

/// A network namespace, which goes away with the process.
pub(crate) struct Host(File);

fn own() -> File {
    File::open("/proc/thread-self/ns/net").unwrap()
}

pub(crate) fn ip(line: &str) {
    run(Command::new("ip").args(line.split(' ')));
}

pub(crate) fn nft(line: &str) {
    run(Command::new("nft").arg(line));
}

fn run(command: &mut Command) {
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{command:?}: {said}");
}

impl Host {
    fn new() -> Self {
        let made = std::thread::spawn(|| {
            // SAFETY: it concerns this thread alone, which ends here.
            let left = unsafe { libc::unshare(libc::CLONE_NEWNET) };
            assert_eq!(left, 0, "network namespaces need root");
            ip("link set lo up");
            own()
        });
        Self(made.join().unwrap())
    }

    /// Moves the thread to this host.
    pub(crate) fn enter(&self) {
        // SAFETY: the descriptor is open, and it concerns this thread alone.
        let entered = unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) };
        assert_eq!(entered, 0);
    }

    /// Does `work` on this host.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter();
                work()
            });
            thread.join().unwrap()
        })
    }
}

/// Two hosts with a cable whose packets have at most `mtu` bytes: 10.77.0.1 at eth0, and 10.77.0.2
/// at eth1. Needs root.
pub(crate) fn pair(mtu: u32) -> [Host; 2] {
    let hosts = [Host::new(), Host::new()];
    let [a, b] = &hosts;
    let there = format!("/proc/{}/fd/{}", std::process::id(), b.0.as_raw_fd());
    a.inside(|| {
        ip(&format!(
            "link add eth0 mtu {mtu} type veth peer name eth1 mtu {mtu} netns {there}"
        ));
        ip("addr add 10.77.0.1/24 dev eth0");
        ip("link set eth0 up");
    });
    b.inside(|| {
        ip("addr add 10.77.0.2/24 dev eth1");
        ip("link set eth1 up");
    });
    hosts
}
