//! The arguments of `suci perf`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};

use super::{NodeArgs, Target, own, patience, target, whole};

pub(super) const EXAMPLES: &str = "\
Without ADDR and --listen both sides run here, over loopback. Under `suci run -n N`, node 0
measures and the others serve. Contenders take turns within each round, so that what disturbs
one disturbs all. TCP is cubic with NODELAY and default buffers.

Workloads: ping-pong (us per round trip), stream (Gbit/s one way, messages sent one by one),
stream-batch (the same, what is small collected to 64 KiB: Suci's batches, TCP's writes), rate and
rate-batch (the same two in messages per second, by default small ones), broadcast (Gbit/s into all
receivers together), n-data (as many messages as --data says to all receivers, then an answer of each:
us per message until all have it; --data 1 is an answer to each, p50 and p99 are of all N), all-to-all
(each process sends as many to all others, and goes on when it has those of all: us per message of one),
mix (requests answered per second, 16 under way; 60 % of messages to 16 B, 20 % to 32, 18 % to 128,
0.3 % to 1 KiB, the rest to 8 KiB, whatever --size), n-data-batch, all-to-all-batch and mix-batch (the same
three, what is ready together collected to 64 KiB). acks/pkt: packets that the receivers sent for each
that came, where messages go one way. All-to-all is measured of Suci alone, and raw UDP takes no part in
n-data and mix, where nothing may be lost (`make bench` has rivals for all of them).

Below a line of Suci stands for what its messages waited, as parts of the time, at both sides
(`suci stat --help` explains the reasons); what is missing was spent computing or in the kernel. Of
several peers each may wait for something else at the same time: together that may be more than all.
--profile says how the time of both processes divides: in the program (user), in the kernel, and
waiting, which is what no processor spent on them.

Examples:
  suci perf --vs tcp,udp
  suci perf --profile --vs tcp --workload stream      where the time goes
  suci perf --prefer adaptive,throughput,response     what the modes change, in one table
  suci perf --workload ping-pong --size 64,4096 --vs tcp --wait spin --pin 0,1
  suci perf --workload ping-pong,stream --size 64..1MiB --vs tcp --plot sizes.svg
  suci perf --plain --listen 192.0.2.7:7000
  suci perf --plain 192.0.2.7:7000 --workload stream --size 1048576 --json
  suci perf --workload n-data --data 1 --size 1024 --vs tcp
  suci run -n 4 suci perf --workload broadcast --vs tcp";

/// The arguments of `suci perf`.
#[derive(Debug, Args)]
pub(crate) struct PerfArgs {
    /// Servers (UDP and TCP port the same); several for broadcast, n-data and all-to-all
    #[arg(value_name = "ADDR", value_parser = target, conflicts_with = "listen")]
    pub(crate) servers: Vec<Target>,
    /// Serve here, one client after the other, until interrupted
    #[arg(long, value_name = "ADDR", value_parser = own)]
    pub(crate) listen: Option<SocketAddr>,
    /// Workloads to measure; default: all that the number of servers allows
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) workload: Vec<Workload>,
    /// Payload of each message, as 64,4KiB or 64..1MiB, which doubles; default depends on the
    /// workload
    #[arg(long, value_delimiter = ',', value_name = "BYTES", value_parser = sizes, allow_negative_numbers = true)]
    pub(crate) size: Vec<Sizes>,
    /// Transports to compare with
    #[arg(long, value_enum, value_delimiter = ',', value_name = "RIVAL")]
    pub(crate) vs: Vec<Rival>,
    /// How Suci's traffic should flow; several are compared with one another
    #[arg(long, value_enum, value_delimiter = ',', value_name = "MODE")]
    pub(crate) prefer: Vec<Prefer>,
    /// How often each contender has its turn
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = whole::<u32>(1, 10_000), allow_negative_numbers = true)]
    pub(crate) rounds: u32,
    /// How long each turn lasts
    #[arg(long, default_value = "0.3", value_name = "SECONDS", value_parser = patience, allow_negative_numbers = true)]
    pub(crate) seconds: Duration,
    /// How contenders wait for messages
    #[arg(long, value_enum, default_value_t = Waiting::Sleep)]
    pub(crate) wait: Waiting,
    /// Processors for client and servers, as `0,1`; servers beyond the last one share it
    #[arg(long, value_name = "A,B,...", value_parser = pin)]
    pub(crate) pin: Option<Processors>,
    /// Let CRC32C cover headers only: what the kernel's limit is compared with
    #[arg(long)]
    pub(crate) no_payload_checksum: bool,
    /// Messages to each receiver before it answers, or sends its own: of n-data and all-to-all
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = whole::<u32>(1, MAX_DATA.into()), allow_negative_numbers = true)]
    pub(crate) data: u32,
    /// Receivers of broadcast, n-data and all-to-all that are started here when no server is named
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole::<u32>(1, 64), conflicts_with_all = ["servers", "listen"], allow_negative_numbers = true)]
    pub(crate) receivers: u32,
    /// Say where the time went at both sides: in the program, in the kernel, or waiting
    #[arg(long)]
    pub(crate) profile: bool,
    /// Draw the medians over sizes into this file at the end, with their spread, both axes
    /// logarithmic
    #[arg(long, value_name = "FILE.svg", value_parser = svg, value_hint = ValueHint::FilePath, conflicts_with = "listen")]
    pub(crate) plot: Option<PathBuf>,
    /// One JSON object per line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

/// The processors of the client, and of each server as far as named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Processors(pub(crate) Vec<usize>);

/// Sizes that one word of the command line names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sizes(pub(crate) Vec<usize>);

/// The workloads that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    /// A message there, the same back
    PingPong,
    /// Messages one way, one by one
    Stream,
    /// The same, collected to 64 KiB
    StreamBatch,
    /// Small messages one way, one by one
    Rate,
    /// The same, collected to 64 KiB
    RateBatch,
    /// One message to many
    Broadcast,
    /// Several messages to many, one by one, then an answer of each
    NData,
    /// The same, collected to 64 KiB
    NDataBatch,
    /// Several messages of each to all others, one by one, then the next
    AllToAll,
    /// The same, collected to 64 KiB
    AllToAllBatch,
    /// Requests and replies of mostly a few bytes, 16 under way, one by one
    Mix,
    /// The same, what is ready together collected
    MixBatch,
}

/// Contenders beside Suci.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rival {
    /// TCP cubic with NODELAY
    Tcp,
    /// Datagrams without any care
    Udp,
}

/// How Suci's traffic flows, as `prefer` in the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Prefer {
    /// As the library finds best
    Adaptive,
    /// Few acknowledgements
    Throughput,
    /// Early acknowledgements, short trains
    Response,
}

impl Workload {
    /// Returns true if all servers take part.
    pub(crate) fn is_to_all(self) -> bool {
        matches!(self, Self::Broadcast) || self.is_answered_by_all() || self.is_of_all()
    }

    /// Returns true if it is several messages to all before each answers.
    pub(crate) fn is_answered_by_all(self) -> bool {
        matches!(self, Self::NData | Self::NDataBatch)
    }

    /// Returns true if servers send to one another, too.
    pub(crate) fn is_of_all(self) -> bool {
        matches!(self, Self::AllToAll | Self::AllToAllBatch)
    }

    /// Returns true if it is requests and replies of many sizes.
    pub(crate) fn is_mix(self) -> bool {
        matches!(self, Self::Mix | Self::MixBatch)
    }

    /// Returns true if small messages are collected before they are sent.
    pub(crate) fn is_batched(self) -> bool {
        matches!(
            self,
            Self::StreamBatch
                | Self::RateBatch
                | Self::NDataBatch
                | Self::AllToAllBatch
                | Self::MixBatch
        )
    }
}

impl From<Prefer> for suci::Mode {
    fn from(prefer: Prefer) -> Self {
        match prefer {
            Prefer::Adaptive => Self::Adaptive,
            Prefer::Throughput => Self::Throughput,
            Prefer::Response => Self::Response,
        }
    }
}

/// How a contender waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Waiting {
    /// Asleep; Suci looks for an answer for up to 50 us first, as is its default
    Adaptive,
    /// Asleep
    Sleep,
    /// Looking again and again
    Spin,
}

/// Longest payload that measurements send: the library's default limit for one message.
pub(crate) const MAX_SIZE: usize = 64 << 20;

/// Maximum number of messages to each receiver before it answers.
pub(crate) const MAX_DATA: u32 = 100_000;

pub(super) fn size(text: &str) -> Result<usize, String> {
    let remedy = || format!("write bytes from 1 to {MAX_SIZE}, such as 64, 4KiB or 1MiB");
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let named = units
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)));
    let (digits, unit) = named.unwrap_or((text, 1));
    let count = digits.parse::<usize>().ok();
    match count.and_then(|count| count.checked_mul(unit)) {
        Some(size) if (1..=MAX_SIZE).contains(&size) => Ok(size),
        _ => Err(remedy()),
    }
}

/// Returns one size, or a sweep: the first, then each twice the one before, and finally the last.
fn sizes(text: &str) -> Result<Sizes, String> {
    let Some((first, last)) = text.split_once("..") else {
        return Ok(Sizes(vec![size(text)?]));
    };
    let (first, last) = (size(first)?, size(last)?);
    if first > last {
        return Err("write the smaller size first, as in 64..1MiB".to_owned());
    }
    let doubling = std::iter::successors(Some(first), |size| size.checked_mul(2));
    let below = doubling.take_while(|size| *size < last);
    Ok(Sizes(below.chain([last]).collect()))
}

/// Returns the target of a plot: a file of this name, or a path without an ending, such as a
/// device.
fn svg(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension() {
        Some(other) if !other.eq_ignore_ascii_case("svg") => {
            Err("the plot is SVG: name a file.svg".to_owned())
        }
        _ => Ok(path),
    }
}

fn pin(text: &str) -> Result<Processors, String> {
    let remedy = || "write at least two processor numbers, as in 0,1".to_owned();
    let number = |text: &str| text.trim().parse().map_err(|_| remedy());
    let numbers: Vec<usize> = text.split(',').map(number).collect::<Result<_, _>>()?;
    match numbers.len() {
        0 | 1 => Err(remedy()),
        _ => Ok(Processors(numbers)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_doubles_and_ends_where_it_was_told() {
        let all = |text| sizes(text).map(|sizes| sizes.0);
        assert_eq!(all("64..512"), Ok(vec![64, 128, 256, 512]));
        assert_eq!(all("1KiB..3KiB"), Ok(vec![1024, 2048, 3072]));
        assert_eq!(all("64..64"), Ok(vec![64]));
        assert_eq!(all("2MiB"), Ok(vec![2 << 20]));
        for wrong in [
            "128..64", "0..64", "64..", "64..1TiB", "KiB", "1KiBKiB", "-1",
        ] {
            assert!(all(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for bad in ["0", "67108865", "-1", "1k"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        assert_eq!(pin("0,1"), Ok(Processors(vec![0, 1])));
        assert_eq!(pin("0,1,0"), Ok(Processors(vec![0, 1, 0])));
        assert!(pin("0").is_err() && pin("a,b").is_err());
        assert!(svg("x.png").is_err() && svg("x.svg").is_ok() && svg("/dev/stdout").is_ok());
    }
}
