//! The classic C interface: the loops and the evaluations of the Suci papers.

use serde_json::Value;

use super::tools::tests_of;
use super::{Ctx, Figure, Line};
use crate::bench;
use crate::error::{Context, Result};
use crate::evaluate::{self, Pace, Programs};
use crate::prolog;

pub(super) const LINES: &[Line] = &[
    Line {
        name: "header",
        must: "every function of datagram.h as its text says: programs in C, also under ASan; symbols and man page agree",
        run: |_| tests_of("suci-capi", "classic", &[]),
    },
    Line {
        name: "languages",
        must: "nodes in C, Prolog and Rust in one job: each pair, both ways, a short message and one of 1 MiB, all bytes right",
        run: |_| languages(),
    },
    Line {
        name: "c-over-rust",
        must: "C in the time of Rust: 64 B round trips, 64 KiB and 32 B sent together at most 1.03 x, 32 B each 1.10 x",
        run: |_| c_over_rust(&bench::languages()?),
    },
    Line {
        name: "loop-manual",
        must: "the S1 loop over 5 % loss, retransmission by the program: 10,000 messages each way, none lost, none twice",
        run: |_| tests_of("suci-capi", "loss_with_manual", &[]),
    },
    Line {
        name: "loop-automatic",
        must: "the same with automatic retransmission",
        run: |_| tests_of("suci-capi", "loss_with_automatic", &[]),
    },
    Line {
        name: "packet-copies",
        must: "a packet of 1 MiB put to 9 receivers, 20 times: no payload byte copied",
        run: |_| tests_of("suci-capi", "the_packet_loop", &[]),
    },
    Line {
        name: "packet-processor",
        must: "a packet of 1 MiB put to 9 receivers: less processor time than nine writes and nine TCP streams",
        run: processor,
    },
    Line {
        name: "blocks",
        must: "10 and 100 Mbit/s: no block size from 1,000 to 16,000 B falls below half of the best (paper: to 6 %)",
        run: |_| blocks(),
    },
    Line {
        name: "burst",
        must: "10 and 100 Mbit/s: 100 packets at once into a window of 50 at least half of what 50 have (paper: to 1 %)",
        run: |_| bursts(),
    },
];

fn languages() -> Result<Figure> {
    prolog::languages()?;
    Ok(Figure::new(true, "12 messages, all right"))
}

/// Workloads of `suci-bench languages`, and the most that C may take of the time of Rust.
const DEAREST: [(&str, f64); 4] = [
    ("ping", 1.03),
    ("large", 1.03),
    ("many", 1.03),
    ("single", 1.10),
];

fn c_over_rust(rows: &[Value]) -> Result<Figure> {
    let (mut holds, mut said) = (true, Vec::new());
    for (workload, most) in DEAREST {
        let figure = |contender: &str, name: &str| {
            let wanted =
                |row: &&Value| row["workload"] == workload && row["contender"] == contender;
            let row = rows.iter().find(wanted);
            let figure = row.and_then(|row| row[name].as_f64());
            figure.context(format!("no {name} of {workload} in {contender}"))
        };
        let shown = |contender: &str| -> Result<String> {
            let (median, least) = (figure(contender, "nanos")?, figure(contender, "min")?);
            let most = figure(contender, "max")?;
            Ok(format!("{median:.1} ns ({least:.1} to {most:.1})"))
        };
        let ratio = figure("c", "of_rust")?;
        holds &= ratio <= most;
        let mark = if ratio <= most { "" } else { " (!)" };
        let (c, rust) = (shown("c")?, shown("rust")?);
        said.push(format!("{workload}: C {c}, Rust {rust}, {ratio:.3}{mark}"));
    }
    Ok(Figure::new(holds, said.join("; ")))
}

fn processor(_: &Ctx) -> Result<Figure> {
    let programs = Programs::build()?;
    let cluster = evaluate::network(Pace::Unlimited)?;
    let weights = evaluate::weigh(&programs, &cluster)?;
    let time = |method: &str| {
        let known = weights.iter().find(|weight| weight.method == method);
        known
            .map(|weight| weight.processor_ms)
            .context("no such method")
    };
    let (packet, write, tcp) = (time("packet")?, time("write")?, time("tcp")?);
    let copied: f64 = weights.iter().map(|weight| weight.copied).sum();
    let text = format!("{packet:.2} ms; writes {write:.2}, TCP {tcp:.2}; {copied} B copied");
    Ok(Figure::new(packet < write.min(tcp) && copied == 0.0, text))
}

/// Measures one method on both paced networks. Returns the curve of each.
fn paced(program: &str, method: &str) -> Result<Vec<Vec<(f64, f64)>>> {
    let programs = Programs::build()?;
    let evaluation = evaluate::of(program)?;
    let method = evaluation
        .methods
        .iter()
        .find(|known| known.argument == method);
    let method = method.context("no such method")?;
    let measure = |pace| {
        let cluster = evaluate::network(pace)?;
        evaluate::measure(&programs, &cluster, pace, evaluation, method)
    };
    [Pace::Mbit10, Pace::Mbit100]
        .into_iter()
        .map(measure)
        .collect()
}

fn blocks() -> Result<Figure> {
    let (mut holds, mut texts) = (true, Vec::new());
    for curve in paced("blocks", "write")? {
        let long = curve
            .iter()
            .filter(|(size, _)| *size >= 1000.0)
            .map(|point| point.1);
        let (least, most) = (
            long.clone().fold(f64::MAX, f64::min),
            long.fold(0.0, f64::max),
        );
        holds &= least >= 0.5 * most;
        texts.push(format!("{least:.0} to {most:.0} KB/s"));
    }
    Ok(Figure::new(holds, texts.join("; ")))
}

fn bursts() -> Result<Figure> {
    let (mut holds, mut texts) = (true, Vec::new());
    for curve in paced("burst", "window")? {
        let at = |count: f64| {
            let point = curve.iter().find(|point| point.0 == count);
            point.map(|point| point.1).context("no such burst")
        };
        let (fits, twice) = (at(50.0)?, at(100.0)?);
        holds &= twice >= 0.5 * fits;
        texts.push(format!("50: {fits:.0} KB/s, 100: {twice:.0}"));
    }
    Ok(Figure::new(holds, texts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_workload_has_its_bound() {
        let rows = |single: f64, many: f64| -> Vec<Value> {
            let mut rows = Vec::new();
            for (workload, ratio) in [
                ("ping", 1.0),
                ("large", 0.9),
                ("many", many),
                ("single", single),
            ] {
                for (contender, of_rust) in [("c", ratio), ("rust", 1.0)] {
                    rows.push(json!({
                        "workload": workload, "contender": contender, "nanos": 10.0, "min": 9.0,
                        "max": 11.5, "of_rust": of_rust,
                    }));
                }
            }
            rows
        };
        assert!(c_over_rust(&rows(1.1, 1.03)).unwrap().holds);
        assert!(!c_over_rust(&rows(1.1, 1.031)).unwrap().holds);
        let figure = c_over_rust(&rows(1.101, 1.0)).unwrap();
        assert!(!figure.holds);
        let end = "single: C 10.0 ns (9.0 to 11.5), Rust 10.0 ns (9.0 to 11.5), 1.101 (!)";
        assert!(figure.text.ends_with(end), "{}", figure.text);
        assert!(c_over_rust(&rows(1.0, 1.0)[1..]).is_err());
    }
}
