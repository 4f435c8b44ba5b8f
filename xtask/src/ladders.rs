//! Ladders: the goodput of one sender over emulated links that differ by one step from their
//! neighbours, beside TCP's. A cliff between two neighbours is a fault that single figures hide.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use suci_plot::{Axis, Better, Panel, Picture, Point, Series, Unit};

use crate::error::{Context, Failure, Result};
use crate::progress::Progress;
use crate::{exec, figures};

/// Rate of the links in bit/s, which a busy machine still emulates, and bytes of their queues.
const RATE: u64 = 300_000_000;
const QUEUE: u64 = 250_000;

/// Largest packet of Ethernet, and with jumbo frames, in bytes.
const ETHERNET: u32 = 1_500;
const JUMBO: u32 = 9_000;

/// Neighbours differ by no more than this factor.
const STEP: f64 = 2.0;

/// The share of BBR's goodput that Suci reaches at least.
const OF_BBR: f64 = 0.8;

/// Rounds of each rung; their median counts.
const ROUNDS: usize = 3;

/// The time of a run beside its measurement: namespaces come and go.
const OVERHEAD: Duration = Duration::from_millis(700);

/// The parameter that differs from rung to rung.
#[derive(Clone, Copy, Debug)]
enum Varied {
    /// Loss in each direction, in percent.
    Loss,
    /// Receive buffer in KiB, as asked for.
    Buffer,
    /// MTU of the hosts on a path of 1,500 B, without ICMP messages about it.
    HostMtu,
    /// Largest packet that the path carries between hosts with jumbo frames; no ICMP either.
    PathMtu,
}

/// A series of links.
#[derive(Clone, Copy, Debug)]
struct Ladder {
    name: &'static str,
    varied: Varied,
    /// In microseconds.
    round_trip: u64,
    rungs: &'static [f64],
    /// The selection that `--quick` measures.
    quick: &'static [f64],
}

/// Loss in percent.
const LOSSES: &[f64] = &[0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0];
const FEW_LOSSES: &[f64] = &[0.0, 1.0, 2.0, 5.0];

const LADDERS: &[Ladder] = &[
    Ladder {
        name: "loss-1ms",
        varied: Varied::Loss,
        round_trip: 1_000,
        rungs: LOSSES,
        quick: FEW_LOSSES,
    },
    Ladder {
        name: "loss-20ms",
        varied: Varied::Loss,
        round_trip: 20_000,
        rungs: LOSSES,
        quick: FEW_LOSSES,
    },
    Ladder {
        name: "buffer-20ms",
        varied: Varied::Buffer,
        round_trip: 20_000,
        rungs: &[
            64.0, 128.0, 256.0, 512.0, 1_024.0, 2_048.0, 4_096.0, 8_192.0,
        ],
        quick: &[64.0, 256.0, 1_024.0, 4_096.0],
    },
    Ladder {
        name: "host-mtu-20ms",
        varied: Varied::HostMtu,
        round_trip: 20_000,
        rungs: &[1_500.0, 2_000.0, 3_000.0, 4_000.0, 6_000.0, 9_000.0],
        quick: &[1_500.0, 9_000.0],
    },
    Ladder {
        name: "path-mtu-20ms",
        varied: Varied::PathMtu,
        round_trip: 20_000,
        rungs: &[1_280.0, 1_500.0, 2_000.0, 3_000.0, 4_500.0, 9_000.0],
        quick: &[1_280.0, 1_500.0, 9_000.0],
    },
];

/// The choice of a command line.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// Only ladders whose names contain this.
    pub only: Option<&'a str>,
    /// Few rungs, each once and shortly; neighbours are further apart, so that steps are named and
    /// not judged.
    pub quick: bool,
    /// One JSON object for each rung and contender instead of a table.
    pub json: bool,
}

/// The rounds of one contender on one rung, in Mbit/s.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    contender: String,
    at: f64,
    rounds: Vec<f64>,
}

impl Row {
    fn median(&self) -> f64 {
        figures::median(self.rounds.clone()).unwrap_or(0.0)
    }
}

/// Measures ladders, prints them, and writes a plot of each to `target/ladders`.
///
/// # Errors
/// A run fails; or, unless `quick`, neighbours differ by more than two.
pub fn run(choice: Choice<'_>) -> Result<()> {
    let named = |ladder: &&Ladder| choice.only.is_none_or(|part| ladder.name.contains(part));
    let chosen: Vec<&Ladder> = LADDERS.iter().filter(named).collect();
    if chosen.is_empty() {
        return Err(Failure::new("no ladder has such a name"));
    }
    let wrong = measure(&chosen, choice)?;
    for sentence in &wrong {
        println!("{sentence}");
    }
    if wrong.is_empty() || choice.quick {
        Ok(())
    } else {
        Err(Failure::new("there are steps"))
    }
}

/// The complaints that [`run`] prints about ladders in full whose names contain `only`.
///
/// # Errors
/// A run fails.
pub(crate) fn faults(only: &str) -> Result<Vec<String>> {
    let chosen: Vec<&Ladder> = (LADDERS.iter())
        .filter(|ladder| ladder.name.contains(only))
        .collect();
    let choice = Choice {
        only: Some(only),
        quick: false,
        json: false,
    };
    measure(&chosen, choice)
}

/// The goodput of two contenders on one link, in Mbit/s.
pub(crate) struct Comparison {
    pub(crate) suci: f64,
    pub(crate) tcp: f64,
}

/// The medians of several rounds on `link`, in which Suci and TCP take turns. A receive buffer is
/// Suci's only: TCP sizes its own.
///
/// # Errors
/// A run fails.
pub(crate) fn compare(control: &str, link: &[&str]) -> Result<Comparison> {
    let program = build()?;
    let own = link.iter().filter(|key| !key.starts_with("recv_buffer="));
    let own: Vec<&str> = own.copied().collect();
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (figures, (contender, link)) in rounds.iter_mut().zip([("suci", link), (control, &own)])
        {
            let mut command = Command::new(&program);
            let output = exec::capture(command.arg(contender).args(link))?;
            figures.push(goodput(&output)?);
        }
    }
    let [suci, tcp] = rounds.map(|figures| figures::median(figures).unwrap_or(0.0));
    Ok(Comparison { suci, tcp })
}

/// The output of one contender's run on `link`.
///
/// # Errors
/// The run fails.
pub(crate) fn run_of(contender: &str, link: &[&str]) -> Result<String> {
    exec::capture(Command::new(build()?).arg(contender).args(link))
}

/// The goodput of one contender on `link` in one round, in Mbit/s.
///
/// # Errors
/// The run fails.
pub(crate) fn goodput_of(contender: &str, link: &[&str]) -> Result<f64> {
    goodput(&run_of(contender, link)?)
}

fn measure(chosen: &[&Ladder], choice: Choice<'_>) -> Result<Vec<String>> {
    let program = build()?;
    let contenders = contenders()?;
    let (rounds, time) = match choice.quick {
        true => (1, Duration::from_millis(1_500)),
        false => (ROUNDS, Duration::from_secs(3)),
    };
    let rungs = |ladder: &Ladder| match choice.quick {
        true => ladder.quick,
        false => ladder.rungs,
    };
    let count: usize = chosen.iter().map(|ladder| rungs(ladder).len()).sum();
    let mut progress = Progress::new(count * contenders.len() * rounds, time + OVERHEAD);
    let mut wrong = Vec::new();
    for ladder in chosen {
        let mut rows = Vec::new();
        for at in rungs(ladder) {
            for contender in &contenders {
                let mut row = Row {
                    contender: contender.clone(),
                    at: *at,
                    rounds: Vec::new(),
                };
                for _ in 0..rounds {
                    progress.say(&format!("{} at {at}: {contender}", ladder.name));
                    let mut command = Command::new(&program);
                    let command = command.args(ladder.arguments(contender, *at, time));
                    row.rounds.push(goodput(&exec::capture(command)?)?);
                    progress.passed();
                }
                rows.push(row);
            }
        }
        progress.clear();
        print(ladder, &rows, choice.json);
        draw(ladder, &rows)?;
        wrong.extend(judge(ladder, &rows));
    }
    Ok(wrong)
}

impl Ladder {
    fn arguments(&self, contender: &str, at: f64, time: Duration) -> Vec<String> {
        let varied = match self.varied {
            Varied::Loss => format!("loss={}", at / 100.0),
            Varied::Buffer => format!("recv_buffer={}", at * 1_024.0),
            Varied::HostMtu => format!("host_mtu={at}"),
            Varied::PathMtu => format!("path_mtu={at}"),
        };
        let sizes = match self.varied {
            Varied::Loss | Varied::Buffer => None,
            Varied::HostMtu => Some(format!("path_mtu={ETHERNET}")),
            Varied::PathMtu => Some(format!("host_mtu={JUMBO}")),
        };
        let arguments = vec![
            contender.to_owned(),
            format!("round_trip={}", self.round_trip),
            format!("rate={RATE}"),
            format!("queue={QUEUE}"),
            format!("time={}", time.as_millis()),
            varied,
        ];
        arguments.into_iter().chain(sizes).collect()
    }

    fn unit(&self) -> &'static str {
        match self.varied {
            Varied::Loss => "%",
            Varied::Buffer => "KiB",
            Varied::HostMtu | Varied::PathMtu => "B",
        }
    }
}

fn build() -> Result<PathBuf> {
    let build = ["build", "--locked", "--release", "-p", "suci-tests"];
    let bin = ["--bin", "goodput"];
    exec::run(&mut exec::cargo([&build[..], &bin].concat()))?;
    Ok(exec::target_dir().join("release").join("goodput"))
}

/// Suci, and TCP as the kernel has it.
fn contenders() -> Result<Vec<String>> {
    let path = Path::new("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let offered = std::fs::read_to_string(path).context(path.display())?;
    let mut contenders = vec!["suci".to_owned()];
    for name in ["cubic", "bbr"] {
        if offered.split_whitespace().any(|other| other == name) {
            contenders.push(name.to_owned());
        } else {
            eprintln!("this kernel has no TCP {name}: ladders go without it");
        }
    }
    Ok(contenders)
}

/// The figure in the output of a run: `mbit FIGURE dropped COUNT`.
fn goodput(output: &str) -> Result<f64> {
    let mut words = output.split_whitespace().skip_while(|word| *word != "mbit");
    let figure = words.nth(1).and_then(|word| word.parse().ok());
    figure.context(format!("no goodput in {output:?}"))
}

fn print(ladder: &Ladder, rows: &[Row], json: bool) {
    for row in rows {
        let Row {
            contender,
            at,
            rounds,
        } = row;
        if json {
            let line = json!({
                "ladder": ladder.name,
                "contender": contender,
                "at": at,
                "unit": ladder.unit(),
                "mbit": row.median(),
                "rounds": rounds,
            });
            println!("{line}");
        } else {
            let (name, unit, median) = (ladder.name, ladder.unit(), row.median());
            println!("{name:12} {at:7} {unit:3} {contender:6} {median:7.1} Mbit/s {rounds:?}");
        }
    }
}

fn draw(ladder: &Ladder, rows: &[Row]) -> Result<()> {
    let across = match ladder.varied {
        Varied::Loss => Axis::linear("loss in each direction", Unit::Percent),
        Varied::Buffer => Axis::logarithmic("receive buffer", Unit::Bytes),
        Varied::HostMtu => Axis::logarithmic("MTU of the hosts", Unit::Bytes),
        Varied::PathMtu => Axis::logarithmic("largest packet of the path", Unit::Bytes),
    };
    let of_unit = match ladder.varied {
        Varied::Buffer => 1_024.0,
        _ => 1.0,
    };
    let mut series: Vec<Series> = Vec::new();
    for row in rows {
        // A logarithm of nothing is nowhere.
        let rounds: Vec<f64> = row.rounds.iter().map(|mbit| mbit.max(0.1) * 1e6).collect();
        let point = Point::of_rounds(row.at * of_unit, &rounds).context("no round")?;
        match series.iter_mut().find(|known| known.name == row.contender) {
            Some(known) => known.points.push(point),
            None => series.push(Series {
                name: row.contender.clone(),
                points: vec![point],
            }),
        }
    }
    let panel = Panel {
        title: format!("{}, {} Mbit/s", ladder.name, RATE / 1_000_000),
        better: Better::Higher,
        across,
        up: Axis::logarithmic("goodput", Unit::BitsPerSecond),
        series,
    };
    let picture = Picture {
        panels: vec![panel],
    };
    let dir = exec::target_dir().join("ladders");
    std::fs::create_dir_all(&dir)?;
    let file = dir.join(format!("{}.svg", ladder.name));
    std::fs::write(&file, picture.svg().context(file.display())?)?;
    eprintln!("{}", file.display());
    Ok(())
}

/// Neighbours of Suci's that differ by more than [`STEP`], and rungs below [`OF_BBR`] of BBR.
fn judge(ladder: &Ladder, rows: &[Row]) -> Vec<String> {
    let (name, unit) = (ladder.name, ladder.unit());
    let of = |contender: &str| -> Vec<(f64, f64)> {
        let rows = rows.iter().filter(|row| row.contender == contender);
        rows.map(|row| (row.at, row.median())).collect()
    };
    let (ours, bbr) = (of("suci"), of("bbr"));
    let mut wrong = Vec::new();
    for pair in ours.windows(2) {
        if let [(from, before), (to, after)] = *pair
            && before.max(after) > STEP * before.min(after)
        {
            wrong.push(format!(
                "STEP {name}: {from} {unit} {before:.1}, {to} {unit} {after:.1} Mbit/s"
            ));
        }
    }
    for ((at, figure), (_, other)) in ours.iter().zip(&bbr) {
        if *figure < OF_BBR * other {
            wrong.push(format!(
                "SLOW {name}: {at} {unit} {figure:.1} Mbit/s, BBR {other:.1}"
            ));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(contender: &str, figures: &[(f64, f64)]) -> Vec<Row> {
        let row = |(at, mbit): &(f64, f64)| Row {
            contender: contender.into(),
            at: *at,
            rounds: vec![*mbit, 0.0, 1_000.0],
        };
        figures.iter().map(row).collect()
    }

    #[test]
    fn steps_and_rungs_far_below_bbr_are_named() {
        let ladder = &LADDERS[0];
        let mut all = rows("suci", &[(0.0, 300.0), (0.5, 151.0), (1.0, 75.0)]);
        all.extend(rows("cubic", &[(0.0, 300.0), (0.5, 10.0), (1.0, 1.0)]));
        all.extend(rows("bbr", &[(0.0, 300.0), (0.5, 180.0), (1.0, 100.0)]));
        assert_eq!(
            judge(ladder, &all),
            [
                "STEP loss-1ms: 0.5 % 151.0, 1 % 75.0 Mbit/s",
                "SLOW loss-1ms: 1 % 75.0 Mbit/s, BBR 100.0"
            ]
        );
        assert_eq!(judge(ladder, &all[..2]), Vec::<String>::new());
    }

    #[test]
    fn goodput_is_read_from_what_a_run_prints() {
        assert_eq!(goodput("mbit 12.50 dropped 3\n").unwrap(), 12.5);
        assert!(goodput("dropped 3").is_err());
    }

    #[test]
    fn each_quick_rung_is_a_rung() {
        for ladder in LADDERS {
            let all = |at: &f64| ladder.rungs.contains(at);
            assert!(ladder.quick.iter().all(all), "{}", ladder.name);
        }
    }
}
