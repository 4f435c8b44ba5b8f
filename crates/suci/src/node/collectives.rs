//! Collective operations: sends what a schedule says, and waits for the other members.

use super::receive::wait_to_take;
use super::{Node, pause};
use crate::clock::Deadline;
use crate::core::DriverGuard;
use crate::driver::Driver;
use crate::error::Error;
use crate::group::{FailedMember, Group, GroupError, MemberFailure};
use crate::wait::{Awaited, WaitPolicy};
use std::time::Duration;
use suci_layers::Collective;
use suci_proto::types::NodeId;
use suci_proto::{Outgoing, Side};

/// A member that keeps this one waiting for longer is watched: it counts as lost if it is silent.
/// Most waits are shorter, and cost nothing.
const WATCH_AFTER: Duration = Duration::from_secs(1);

/// Why an operation of this member cannot go on.
enum Failed {
    /// Another member failed.
    Member(NodeId, MemberFailure),
    /// This one's call failed.
    Here(Error),
}

impl From<FailedMember> for Failed {
    fn from((node, failure): FailedMember) -> Self {
        Self::Member(node, failure)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Here(error)
    }
}

impl Node {
    /// Runs this member's part of an operation, and returns the bytes of the result.
    pub(crate) fn run_collective(
        &mut self,
        group: &mut Group,
        mut work: Collective,
    ) -> Result<Vec<u8>, GroupError> {
        let (own, wait) = (self.fixed.id, self.fixed.wait);
        let limit = group.begin(own)?;
        let mut driver = self.enter_to_send()?;
        let Err(failed) = run(&mut driver, group, &mut work, limit, wait) else {
            return Ok(work.into_data());
        };
        let about = match &failed {
            Failed::Member(node, failure) => (*node, *failure),
            Failed::Here(_) => (own, MemberFailure::GaveUp),
        };
        let (error, reports) = group.fail(&driver.engine, about, work.kind());
        tell(&mut driver, reports);
        for channel in group.channels() {
            driver.engine.end_group(channel);
        }
        driver.send_on();
        match failed {
            Failed::Member(..) => Err(error),
            Failed::Here(error) => Err(group.gave_up(error)),
        }
    }
}

fn run(
    driver: &mut DriverGuard<'_>,
    group: &mut Group,
    work: &mut Collective,
    limit: Duration,
    wait: WaitPolicy,
) -> Result<(), Failed> {
    let deadline = Deadline::after(limit);
    let timed_out = || {
        Failed::Here(Error::TimedOut {
            what: "a collective operation",
            limit,
        })
    };
    group.check_reports(&mut driver.engine)?;
    loop {
        let all_sent = send(driver, group, work)?;
        if work.is_done() {
            return Ok(());
        }
        let mut take = |driver: &mut Driver| group.take(&mut driver.engine, work);
        let mut taken = take(driver);
        if taken.is_none() && !all_sent {
            // Others may be waiting for room, too, until this member takes what they sent.
            if deadline.is_over() {
                return Err(timed_out());
            }
            driver.waiter.begin(wait, Awaited::Progress);
            pause(driver, deadline)?;
            continue;
        }
        if taken.is_none() {
            let soon = deadline.earlier(Deadline::after(WATCH_AFTER));
            taken = wait_to_take(driver, soon, wait, &mut take)?;
        }
        if taken.is_none() {
            taken = wait_watching(driver, group, work, deadline, wait)?;
        }
        match taken {
            Some(result) => result?,
            None => return Err(timed_out()),
        }
    }
}

/// Tells other members that one failed. A queue may be full: they are told within a second, or find
/// out by the end of the session or their own limit.
fn tell(driver: &mut DriverGuard<'_>, reports: Vec<(NodeId, Outgoing)>) {
    let deadline = Deadline::after(WATCH_AFTER);
    for (to, mut report) in reports {
        while let Err(Error::WouldBlock { message, .. }) = driver.offer(to, report) {
            driver.waiter.begin(WaitPolicy::Sleep, Awaited::Progress);
            // If the socket failed, the next call that needs it reports it.
            if deadline.is_over() || driver.wait(deadline).is_err() {
                break;
            }
            report = message.into_outgoing();
        }
    }
}

/// Sends all that the operation has to send now. Returns false if a queue is full.
fn send(
    driver: &mut DriverGuard<'_>,
    group: &Group,
    work: &mut Collective,
) -> Result<bool, Failed> {
    driver.read_clock();
    let operation = work.kind();
    let mut sent = false;
    let mut all = true;
    while let Some((rank, bytes)) = work.poll_send() {
        let message = group.message(operation, bytes);
        let Some(to) = group.member(rank) else {
            continue;
        };
        let able = group.check_member(&driver.engine, rank);
        able.map_err(|failure| Failed::Member(to, failure))?;
        match driver.offer(to, message) {
            Ok(_) => sent = true,
            Err(
                Error::WouldBlock { .. }
                | Error::Suspended {
                    by: Side::There, ..
                },
            ) => {
                work.unsend();
                all = false;
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    if sent {
        driver.send_on();
    }
    Ok(all)
}

/// Waits for messages of members that keep this one waiting for long: a silent one is lost.
fn wait_watching(
    driver: &mut DriverGuard<'_>,
    group: &mut Group,
    work: &mut Collective,
    deadline: Deadline,
    wait: WaitPolicy,
) -> Result<Option<Result<(), FailedMember>>, Error> {
    let awaited: Vec<_> = work
        .awaited()
        .filter_map(|rank| group.member(rank))
        .collect();
    let watch = |driver: &mut DriverGuard<'_>, on: bool| {
        let now = driver.read_clock();
        for node in &awaited {
            driver.engine.await_member(now, *node, on);
        }
    };
    watch(driver, true);
    let taken = wait_to_take(driver, deadline, wait, |driver| {
        group.take(&mut driver.engine, work)
    });
    watch(driver, false);
    taken
}
