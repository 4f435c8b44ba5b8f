//! A model of cores, ports, locks and shared cache lines: how the receive paths of CDP and of Suci
//! scale to more threads than this machine has. docs/cores.md says what is fitted and what is
//! predicted.

mod costs;
mod designs;
mod machine;
mod page;

use std::path::PathBuf;

use serde_json::json;
use xtask::error::Result;
use xtask::exec;

use costs::Costs;
use designs::{ASSUMPTIONS, Assumption, Design, Setup};

/// Figures of the thesis: speed-ups of 128 threads, packets, and ports that suffice.
const COARSE: f64 = 14.46;
const FINE: f64 = 82.55;
const THREADS: usize = 128;
const PACKETS: u64 = 256_000;
const PORTS: usize = 8;

/// As few packets give the same speed-up within 5 %.
const FEWER: u64 = PACKETS / 10;

/// The greatest relative error of the prediction for fine locks that counts as right.
const NEAR: f64 = 0.15;

/// Ports suffice if they give this part of the speed-up of four times as many.
const SUFFICE: f64 = 0.9;

/// Packets of a connection before it closes, where connections come and go.
const LIFE: u64 = 1_000;

/// Costs that were measured once, for runs that are the same on each machine: the middle
/// one of three measurements, of processors that share a cache.
const RECORDED: Costs = Costs {
    lock: 9.5,
    line: 27.0,
    receive: 407.2,
    find: 12.9,
};

/// Costs, and where the results go.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CoresArgs {
    /// Use the costs that were recorded, and measure nothing
    #[arg(long)]
    recorded: bool,
    /// Print the predictions as one JSON object, and write nothing
    #[arg(long)]
    json: bool,
    /// README.md and plots go here
    #[arg(long, default_value_os_t = exec::root().join("bench/cores"))]
    into: PathBuf,
}

/// Measures costs, fits the model, and writes what it predicts.
pub(crate) fn run(args: &CoresArgs) -> Result<()> {
    let costs = match args.recorded {
        true => RECORDED,
        false => costs::measure()?,
    };
    if !args.json {
        for (name, value) in costs.listed() {
            println!("{name}: {value:.1} ns");
        }
    }
    if args.json {
        let model = Model::fit(costs, ASSUMPTIONS[0]);
        let found = model.predict(PACKETS);
        let row = json!({
            "work": model.work, "coarse": found.coarse, "fine": found.fine,
            "fine_is_near": found.is_near(), "more_ports": found.more,
            "eight_suffice": found.eight_suffice(),
        });
        println!("{row}");
        return Ok(());
    }
    page::write(costs, &args.into)
}

/// The costs, and the work that is fitted.
#[derive(Clone, Copy, Debug)]
struct Model {
    costs: Costs,
    assumption: Assumption,
    /// Work for a packet beside those, in nanoseconds.
    work: f64,
}

/// Predictions for 128 threads.
#[derive(Clone, Copy, Debug)]
struct Predictions {
    coarse: f64,
    /// With fine locks and 8 ports.
    fine: f64,
    /// With fine locks and four times as many ports.
    more: f64,
}

impl Predictions {
    fn is_near(&self) -> bool {
        (self.fine / FINE - 1.0).abs() <= NEAR
    }

    fn eight_suffice(&self) -> bool {
        self.fine >= SUFFICE * self.more
    }
}

impl Model {
    /// Finds the work for a packet with which 128 threads have the thesis' speed-up with coarse
    /// locks. More work makes the locked part smaller, and the speed-up greater.
    fn fit(costs: Costs, assumption: Assumption) -> Self {
        let packets = FEWER;
        let (mut low, mut high) = (100.0_f64, 1e5_f64);
        let with = |work| Self {
            costs,
            assumption,
            work,
        };
        for _ in 0..12 {
            let work = (low * high).sqrt();
            let setup = with(work).setup(Design::Coarse, THREADS, PORTS);
            match (Setup { packets, ..setup }).speed_up() < COARSE {
                true => low = work,
                false => high = work,
            }
        }
        with((low * high).sqrt())
    }

    fn setup(self, design: Design, threads: usize, ports: usize) -> Setup {
        Setup {
            design,
            assumption: self.assumption,
            threads,
            ports,
            life: None,
            packets: PACKETS,
            costs: self.costs,
            work: self.work,
        }
    }

    fn predict(self, packets: u64) -> Predictions {
        let speed_up = |design, ports| {
            let setup = self.setup(design, THREADS, ports);
            Setup { packets, ..setup }.speed_up()
        };
        Predictions {
            coarse: speed_up(Design::Coarse, PORTS),
            fine: speed_up(Design::Fine, PORTS),
            more: speed_up(Design::Fine, 4 * PORTS),
        }
    }

    /// The speed-up where connections come and go.
    fn coming_and_going(self, design: Design, threads: usize, ports: usize) -> f64 {
        let setup = self.setup(design, threads, ports);
        let life = Some(LIFE);
        Setup { life, ..setup }.speed_up()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Near figures, of fewer packets.
    fn is_about(one: f64, other: f64) -> bool {
        (one / other - 1.0).abs() < 0.05
    }

    /// The figures of bench/cores/README.md. None of the assumptions gives that of the thesis: the
    /// page says so, and a change of the model must change the page.
    #[test]
    fn fine_locks_are_predicted_as_the_page_says() {
        let expected = [(29.8, 112.6), (114.2, 116.0), (63.7, 63.7), (31.9, 31.9)];
        for (assumption, (fine, more)) in ASSUMPTIONS.into_iter().zip(expected) {
            let model = Model::fit(RECORDED, assumption);
            let found = model.predict(FEWER);
            let right = [
                is_about(found.coarse, COARSE),
                is_about(found.fine, fine),
                is_about(found.more, more),
            ];
            assert_eq!(right, [true; 3], "{}: {found:?}", assumption.name);
            assert!(!found.is_near(), "{}", assumption.name);
        }
    }

    /// Threads beyond connections, or beyond the shards to which nodes belong, have nothing to do.
    #[test]
    fn shards_serve_as_many_connections_as_there_are() {
        let model = Model::fit(RECORDED, ASSUMPTIONS[0]);
        let speed_up = |design, threads| {
            let setup = model.setup(design, threads, threads);
            let (life, packets) = (Some(LIFE), FEWER);
            Setup {
                life,
                packets,
                ..setup
            }
            .speed_up()
        };
        assert!(is_about(speed_up(Design::Consecutive, 128), 128.0));
        assert!(is_about(speed_up(Design::Consecutive, 256), 128.0));
        // Of 128 shards, 128 nodes drawn at random leave 1/e without work, of 256 more than half.
        assert!((60.0..85.0).contains(&speed_up(Design::Random, 128)));
        assert!((80.0..105.0).contains(&speed_up(Design::Random, 256)));
    }

    #[test]
    fn a_run_is_the_same_each_time() {
        let model = Model::fit(RECORDED, ASSUMPTIONS[0]);
        let setup = model.setup(Design::Fine, 64, PORTS);
        let packets = FEWER;
        let run = || Setup { packets, ..setup }.run();
        assert_eq!(run(), run());
    }
}
