//! The classic C interface: the loops and the evaluations of the Suci papers.

use super::tools::tests_of;
use super::{Ctx, Figure, Line};
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
