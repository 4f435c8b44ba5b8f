//! One end of a measurement of one protocol, for `cargo xtask evaluate cdp`:
//!
//! ```text
//! protocols METHOD stream|ping SIZE SECONDS serve ADDRESS
//! protocols METHOD stream|ping SIZE SECONDS call ADDRESS OWN_ADDRESS
//! protocols forward ID ADDRESS
//! protocols framing SIZE COUNT DATAGRAM
//! ```
//!
//! `stream` sends messages one way for so long, `ping` exchanges them one at a time and spins. The
//! server prints `ready` when it can be called. At the end each prints one line of JSON: the bytes
//! and seconds that it measured, its messages, and the processor time of all. `SUCI_BACKEND`
//! chooses the way of `suci` and `fm`. Where `SUCI_BOOK` is set they find each other by that book:
//! the server is node 0, the client node 1. `forward` is a node between them, until it is killed.
//! `framing` sends nothing: it prints how many packets a stream of `suci` takes with datagrams of
//! up to so many bytes, and the bytes of all datagrams.

mod framing;
mod links;

use framing::Packets;
use links::{Link, Way};
use std::process::ExitCode;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The part of a stream that is not counted: its beginning.
const WARM_UP: f64 = 0.2;

struct Args {
    method: String,
    is_stream: bool,
    size: usize,
    seconds: f64,
    way: Way,
}

const USAGE: &str = "usage: protocols METHOD stream|ping SIZE SECONDS serve ADDRESS
       protocols METHOD stream|ping SIZE SECONDS call ADDRESS OWN_ADDRESS
       protocols forward ID ADDRESS
       protocols framing SIZE COUNT DATAGRAM";

fn parse(words: &[&str]) -> Option<Args> {
    let ([method, workload, size, seconds], way) = words.split_first_chunk()?;
    let is_stream = match *workload {
        "stream" => true,
        "ping" => false,
        _ => return None,
    };
    let way = match way {
        ["serve", at] => Way::Serve(at.parse().ok()?),
        ["call", at, own] => Way::Call(at.parse().ok()?, own.parse().ok()?),
        _ => return None,
    };
    Some(Args {
        method: (*method).to_owned(),
        is_stream,
        size: size.parse().ok().filter(|size| *size > 0)?,
        seconds: seconds.parse().ok()?,
        way,
    })
}

/// The counts of one end.
#[derive(Default)]
struct Counts {
    bytes: u64,
    messages: u64,
    seconds: f64,
}

fn stream_out(link: &mut dyn Link, args: &Args) -> Result<Counts> {
    let message = vec![7; args.size];
    let begun = Instant::now();
    let mut counts = Counts::default();
    while begun.elapsed().as_secs_f64() < args.seconds {
        // A look at the clock for each message would cost as much as some of them.
        for _ in 0..16 {
            link.send(&message)?;
            counts.messages += 1;
        }
    }
    link.end()?;
    counts.bytes = counts.messages * args.size as u64;
    counts.seconds = begun.elapsed().as_secs_f64();
    Ok(counts)
}

/// Counts what arrives after the beginning.
fn stream_in(link: &mut dyn Link, args: &Args) -> Result<Counts> {
    let warm = Duration::from_secs_f64(args.seconds * WARM_UP);
    let mut counts = Counts::default();
    link.receive(1)?;
    let first = Instant::now();
    let mut last = first;
    loop {
        let length = link.receive(1)?;
        if length == 0 {
            break;
        }
        last = Instant::now();
        if last - first >= warm {
            counts.bytes += length as u64;
        }
    }
    counts.messages = counts.bytes / args.size as u64;
    counts.seconds = (last - first).saturating_sub(warm).as_secs_f64();
    Ok(counts)
}

fn ping(link: &mut dyn Link, args: &Args) -> Result<Counts> {
    let message = vec![7; args.size];
    let mut counts = Counts::default();
    // The first ones open connections and warm caches.
    for _ in 0..50 {
        link.send(&message)?;
        link.receive(args.size)?;
    }
    let begun = Instant::now();
    while begun.elapsed().as_secs_f64() < args.seconds {
        link.send(&message)?;
        link.receive(args.size)?;
        counts.messages += 1;
    }
    counts.seconds = begun.elapsed().as_secs_f64();
    counts.bytes = counts.messages * args.size as u64;
    link.end()?;
    Ok(counts)
}

fn pong(link: &mut dyn Link, args: &Args) -> Result<Counts> {
    let message = vec![7; args.size];
    let mut counts = Counts::default();
    while link.receive(args.size)? > 0 {
        link.send(&message)?;
        counts.messages += 1;
    }
    Ok(counts)
}

/// Returns the processor time of this process in seconds.
fn processor_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn measure(words: &[&str]) -> Result<()> {
    let args = &parse(words).ok_or(USAGE)?;
    let mut link = links::open(&args.method, args.way, args.is_stream)?;
    let link = link.as_mut();
    let counts = match (args.way, args.is_stream) {
        (Way::Call(..), true) => stream_out(link, args)?,
        (Way::Serve(_), true) => stream_in(link, args)?,
        (Way::Call(..), false) => ping(link, args)?,
        (Way::Serve(_), false) => pong(link, args)?,
    };
    if let Way::Serve(_) = args.way {
        link.part()?;
    }
    let (bytes, messages, seconds) = (counts.bytes, counts.messages, counts.seconds);
    let row = serde_json::json!({
        "bytes": bytes, "messages": messages, "seconds": seconds,
        "cpu_seconds": processor_time(),
    });
    println!("{row}");
    Ok(())
}

/// Forwards for ever.
fn forward(id: &str, at: &str) -> Result<()> {
    links::forward(id.parse()?, at.parse()?)
}

fn framing(size: &str, count: &str, datagram: &str) -> Result<()> {
    let packets = Packets::of_stream(size.parse()?, count.parse()?, datagram.parse()?);
    let row = serde_json::json!({ "packets": packets.count, "bytes": packets.bytes });
    println!("{row}");
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match *words.as_slice() {
        ["forward", id, at] => forward(id, at),
        ["framing", size, count, datagram] => framing(size, count, datagram),
        _ => measure(&words),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let name = words.first().copied().unwrap_or_default();
            eprintln!("protocols {name}: {error}");
            ExitCode::FAILURE
        }
    }
}
