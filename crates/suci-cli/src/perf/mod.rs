//! `suci perf`: how fast, beside plain TCP and raw UDP in the same run.
//!
//! A client and one or more servers agree over a plain TCP connection (`control`) what to run next.
//! Each contender then does the same `work` over its own `Wire`. Contenders take turns within a
//! round, in alternating order, and medians over rounds are reported. So a short disturbance of the
//! machine disturbs all contenders or is outvoted.

mod client;
mod control;
mod fan;
mod mix;
mod plot;
mod report;
mod server;
mod suci_wire;
mod tcp;
mod udp;
mod usage;
mod wire;
mod work;

use std::net::Ipv4Addr;
use std::process::ExitCode;

use suci::{AddressBook, NodeId};

use crate::args::{HostArgs, PerfArgs, RunArgs};
use crate::error::{Context, Failure, Result};

/// Measures, or serves.
pub(crate) fn run(args: &PerfArgs) -> Result<ExitCode> {
    if let Some(address) = args.listen {
        server::listen(args, address)?;
    } else if !args.servers.is_empty() {
        client::run(args, client::Servers::Network(&args.servers))?;
    } else if let Some(id) = suci::env::id()? {
        launched(args, id)?;
    } else {
        return launch(args);
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs both sides on this machine: the same command under `suci run`.
fn launch(args: &PerfArgs) -> Result<ExitCode> {
    let program = std::env::current_exe().context("the path of suci itself")?;
    let program = std::iter::once(program.into_os_string()).chain(std::env::args_os().skip(1));
    let all = args.workload.is_empty() || args.workload.iter().any(|it| it.is_to_all());
    let servers = if all { args.receivers } else { 1 };
    crate::run::run(&RunArgs {
        processes: Some(servers.saturating_add(1)),
        hosts: HostArgs::default(),
        tag_output: false,
        kill_on_failure: true,
        restart: None,
        tolerate_failures: false,
        address: Ipv4Addr::LOCALHOST.into(),
        // Each process is told by its arguments.
        faults: None,
        plain: false,
        program: program.collect(),
        explained: true,
        keeps_tcp_ports: true,
    })
}

/// Measures as node 0, and serves as any other node.
fn launched(args: &PerfArgs, id: NodeId) -> Result<()> {
    let remedy = "suci run sets both SUCI_ID and SUCI_BOOK; unset SUCI_ID to measure without it";
    let path = std::env::var_os(suci::env::BOOK)
        .ok_or_else(|| Failure::new(format!("SUCI_BOOK is missing: {remedy}")))?;
    let book = AddressBook::read(&path)?;
    let address = book.get(id).ok_or_else(|| {
        let path = path.display();
        Failure::new(format!(
            "SUCI_ID={id}: not in the book SUCI_BOOK={path}: {remedy}"
        ))
    })?;
    let servers: Vec<_> = book.iter().filter(|(node, _)| node.0 != 0).collect();
    match (id.0, servers.is_empty()) {
        (0, true) => Err(Failure::new(
            "one process alone measures nothing: suci run -n 2 or more",
        )),
        (0, false) => client::run(args, client::Servers::Launched(&servers)),
        _ => server::launched(args, address),
    }
}
