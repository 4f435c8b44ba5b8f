//! One end of a measurement of one contender: `contender NAME --serve ADDR` and
//! `contender NAME --call ADDR,...` with the same further options. The C programs beside this crate take the
//! same command line.
//!
//! A server prints `ready` when it can be called. Each end does its half of the work twice, first for
//! [`work::WARM_UP`], and prints what it counted the second time as one line of JSON.

mod frames;
mod gso;
mod kcp;
mod quic;
mod sys;
mod tcp;
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
    /// Who is measured
    name: Name,
    /// Serve here
    #[arg(long, required_unless_present = "call", conflicts_with = "call")]
    serve: Option<SocketAddr>,
    /// Measure against the servers there; several for broadcast and n-data
    #[arg(long, value_delimiter = ',')]
    call: Vec<SocketAddr>,
    #[arg(long, value_enum)]
    workload: Workload,
    /// Payload bytes of a message
    #[arg(long)]
    size: usize,
    /// Messages to each server before it answers, of n-data
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
    Quinn,
    QuinnBatch,
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
        Name::Quinn => Box::new(quic::Quic::open(end, false)?),
        Name::QuinnBatch => Box::new(quic::Quic::open(end, true)?),
        Name::Kcp => Box::new(kcp::Kcp::open(args, end)?),
    })
}

/// Which end to open.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Server(SocketAddr),
    Client(SocketAddr),
}

fn run(args: &Args) -> Result<()> {
    sys::pin(args.pin)?;
    let half = match args.serve {
        Some(at) => work::server(open(args, End::Server(at))?, args)?,
        None => {
            let wires = args.call.iter().map(|at| open(args, End::Client(*at)));
            work::client(wires.collect::<Result<_>>()?, args)?
        }
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
