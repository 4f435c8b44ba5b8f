//! One end of a measurement of one contender: `contender NAME --serve ADDR` and `contender NAME
//! --call ADDR,...` with the same further options. The C programs beside this crate take the same
//! command line. If all send to all, each calls the processes that were there before it and serves
//! those that come after it, at an address for each.
//!
//! A server prints `ready` when it can be called. Each end does its half of the work twice, first
//! for [`work::WARM_UP`], and prints the counts of the second time as one line of JSON.

mod frames;
mod gso;
mod kcp;
mod quic;
mod sys;
mod tcp;
mod tls;
mod udp;
mod wire;
mod work;

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use wire::{Result, Wire};

/// One end of a measurement.
#[derive(Clone, Debug, Parser)]
pub(crate) struct Args {
    /// The transport to measure
    name: Name,
    /// Serve one client here; where all send to all, one after the other at each
    #[arg(long, value_delimiter = ',', required_unless_present = "call")]
    serve: Vec<SocketAddr>,
    /// Call the servers there, and measure if we serve nobody; several for broadcast, n-data and
    /// all-to-all
    #[arg(long, value_delimiter = ',')]
    call: Vec<SocketAddr>,
    #[arg(long, value_enum)]
    workload: Workload,
    /// Payload bytes of a message
    #[arg(long)]
    size: usize,
    /// Messages to each server before it answers, or sends its own
    #[arg(long, default_value_t = 1)]
    data: usize,
    #[arg(long)]
    seconds: f64,
    #[arg(long, value_enum)]
    wait: Wait,
    /// The processor to stay on
    #[arg(long)]
    pin: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    Udp,
    Gso,
    TcpCubic,
    TcpCubicBatch,
    TcpBbr,
    TcpBbrBatch,
    Quinn,
    QuinnBatch,
    Tls,
    Kcp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// A message there, the same back
    PingPong,
    /// Messages one way
    Stream,
    /// The same to all servers
    Broadcast,
    /// Several messages to all servers, then an answer of each
    NData,
    /// Several messages of each to all others, then the next
    AllToAll,
    /// Requests and replies of DSE's sizes, several under way
    Mix,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wait {
    /// Asleep
    Block,
    /// Looking again and again
    Spin,
}

fn open(args: &Args, end: End) -> Result<Box<dyn Wire + Send>> {
    Ok(match args.name {
        Name::Udp => Box::new(udp::Udp::open(args, end)?),
        Name::Gso => Box::new(gso::Gso::open(args, end)?),
        Name::TcpCubic => Box::new(tcp::Tcp::open(args, end, c"cubic", false)?),
        Name::TcpCubicBatch => Box::new(tcp::Tcp::open(args, end, c"cubic", true)?),
        Name::TcpBbr => Box::new(tcp::Tcp::open(args, end, c"bbr", false)?),
        Name::TcpBbrBatch => Box::new(tcp::Tcp::open(args, end, c"bbr", true)?),
        Name::Quinn => Box::new(quic::Quic::open(args, end, false)?),
        Name::QuinnBatch => Box::new(quic::Quic::open(args, end, true)?),
        Name::Tls => Box::new(tls::Tls::open(end)?),
        Name::Kcp => Box::new(kcp::Kcp::open(args, end)?),
    })
}

/// The end to open.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Server(SocketAddr),
    Client(SocketAddr),
}

fn run(args: &Args) -> Result<()> {
    sys::pin(args.pin)?;
    let calls = args.call.iter().copied().map(End::Client);
    let serves = args.serve.iter().copied().map(End::Server);
    let wires = calls.chain(serves).map(|end| open(args, end));
    let wires = wires.collect::<Result<_>>()?;
    let half = match args.workload {
        Workload::AllToAll => work::one_of_all(wires, args)?,
        _ if args.serve.is_empty() => work::client(wires, args)?,
        _ => work::server(wires, args)?,
    };
    println!("{}", serde_json::to_string(&half)?);
    Ok(())
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("contender {:?}: {error}", args.name);
            ExitCode::FAILURE
        }
    }
}
