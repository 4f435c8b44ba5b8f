//! A member of a group whose cable goes silent: each member has a namespace of its own.

use std::time::{Duration, Instant};

use super::{Ctx, Figure};
use crate::error::{Context, Result};
use crate::exec;
use crate::launch::Launch;
use crate::netns::{Cluster, INTERFACE};

/// The members, and the one that is cut off.
const MEMBERS: u16 = 8;
const VICTIM: u16 = 2;

/// The silence timeout of nodes that set none.
const SILENCE: Duration = Duration::from_secs(10);

/// Starts the members, which add numbers up again and again, and cuts one off. The others print the
/// error, and then the sum of their IDs in a group without it.
pub(super) fn measure(ctx: &Ctx) -> Result<Figure> {
    let build = ["build", "-q", "--locked", "--release", "-p", "suci-tests"];
    exec::run(&mut exec::cargo(
        build.into_iter().chain(["--bin", "greeter"]),
    ))?;
    let greeter = exec::target_dir().join("release/greeter");
    let cluster = Cluster::new(MEMBERS)?;
    let (book, stop) = (ctx.scratch("book-of-members"), ctx.scratch("stop-members"));
    let line = |id: u16| format!("{id} {}:7000\n", cluster.addr(id));
    std::fs::write(&book, (0..MEMBERS).map(line).collect::<String>())?;
    let start = |(id, host): (usize, &crate::netns::Netns)| {
        let mut command = host.command(&greeter);
        command.arg("group").arg(&stop);
        command.env("SUCI_ID", id.to_string());
        command.env("SUCI_SIZE", MEMBERS.to_string());
        command.env("SUCI_BOOK", &book);
        Launch::begin(&mut command)
    };
    let members = cluster.hosts.iter().enumerate().map(start);
    let mut members: Vec<Launch> = members.collect::<Result<_>>()?;
    for (id, member) in members.iter_mut().enumerate() {
        member.says(&format!("[{id}] began\n"))?;
    }
    let victim = usize::from(VICTIM);
    let host = cluster.hosts.get(victim).context("the victim's host")?;
    host.run(&["ip", "link", "set", INTERFACE, "down"])?;
    let cut = Instant::now();
    let mut others: Vec<_> = members.iter_mut().enumerate().collect();
    others.remove(victim);
    for (id, member) in &mut others {
        let failed = format!("[{id}] group 1: node {VICTIM} failed in the operation allreduce");
        member.says(&failed)?;
    }
    let told = cut.elapsed();
    let sum: u16 = (0..MEMBERS).filter(|id| *id != VICTIM).sum();
    for (id, member) in &mut others {
        member.says(&format!("[{id}] sum {sum}\n"))?;
    }
    std::fs::write(&stop, "")?;
    let (told, limit) = (told.as_secs_f64(), 1.25 * SILENCE.as_secs_f64());
    let went_on = cut.elapsed().as_secs_f64();
    Ok(Figure::new(
        told <= limit,
        format!(
            "the last of 7 had the error after {told:.1} s (silence timeout {} s), all the right \
             sum after {went_on:.1} s",
            SILENCE.as_secs()
        ),
    ))
}
