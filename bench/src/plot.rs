//! Pictures of figures over the size of messages.

use suci_plot::{Axis, Better, Panel, Picture, Point, Series, Unit};
use xtask::error::{Context, Result};

use crate::plan::{Net, Wait, Workload};
use crate::report::Row;

/// The kind of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    RoundTrip,
    OneWay,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::RoundTrip, Self::OneWay];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RoundTrip => "rtt",
            Self::OneWay => "one-way",
        }
    }

    /// The unit of a row in units of the picture, if the row belongs here.
    fn scale(self, row: &Row) -> Option<f64> {
        match (self, row.workload()) {
            (Self::RoundTrip, Workload::PingPong) => Some(1e-6),
            (Self::OneWay, Workload::Stream) => Some(1e9),
            (Self::OneWay, Workload::Rate) => Some(row.task.size as f64 * 8.0),
            _ => None,
        }
    }
}

/// Whether a row belongs beside contenders that wait so: Suci with its defaults belongs beside
/// those that block.
fn belongs(row: &Row, wait: Wait) -> bool {
    match row.wait {
        Wait::Adaptive => wait == Wait::Block,
        Wait::Block => wait == Wait::Block && !row.contender.starts_with("suci"),
        Wait::Spin => wait == Wait::Spin,
    }
}

/// The series of one plot, Suci's first. Those without a checksum are left to the tables: they
/// differ from the others by little.
fn series(rows: &[Row], kind: Kind, net: Net, wait: Wait) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    let here = rows
        .iter()
        .filter(|row| row.net() == net && belongs(row, wait));
    for row in here.filter(|row| !row.contender.ends_with("-no-crc")) {
        let Some(scale) = kind.scale(row) else {
            continue;
        };
        let size = row.task.size as f64;
        let point = Point::spread(size, row.median, row.min, row.max).scaled(scale);
        match all.iter_mut().find(|known| known.name == row.contender) {
            Some(known) => known.points.push(point),
            None => all.push(Series {
                name: row.contender.clone(),
                points: vec![point],
            }),
        }
    }
    // A single size is no line.
    all.retain(|series| series.points.len() > 1);
    for series in &mut all {
        series.points.sort_by(|a, b| a.x().total_cmp(&b.x()));
    }
    all.sort_by(|a, b| (!is_ours(a), &a.name).cmp(&(!is_ours(b), &b.name)));
    all
}

fn is_ours(series: &Series) -> bool {
    series.name.starts_with("suci")
}

/// Whether it uses the kernel's protocols without a library between.
fn is_kernel(series: &Series) -> bool {
    let kernel = ["tcp", "udp", "gso"];
    kernel
        .iter()
        .any(|protocol| series.name.starts_with(protocol))
}

/// Returns the title of a plot.
pub(crate) fn title(kind: Kind, net: Net, wait: Wait) -> String {
    let what = match kind {
        Kind::RoundTrip => "Round trips",
        Kind::OneWay => "One way",
    };
    let waits = match wait {
        Wait::Spin => "spin",
        Wait::Adaptive | Wait::Block => "sleep",
    };
    format!("{what} over {}, contenders that {waits}", net.name())
}

/// Draws the plot of these rows, if there is anything to see: Suci beside the kernel's protocols,
/// and beside other libraries.
pub(crate) fn svg(rows: &[Row], kind: Kind, net: Net, wait: Wait) -> Result<Option<String>> {
    let all = series(rows, kind, net, wait);
    let (name, unit, better) = match kind {
        Kind::RoundTrip => ("round trip", Unit::Seconds, Better::Lower),
        Kind::OneWay => ("goodput", Unit::BitsPerSecond, Better::Higher),
    };
    let title = title(kind, net, wait);
    let mut panels = Vec::new();
    for (others, is_kernels) in [("the kernel's protocols", true), ("other libraries", false)] {
        let fits = |it: &&Series| is_ours(it) || is_kernel(it) == is_kernels;
        let series: Vec<Series> = all.iter().filter(fits).cloned().collect();
        if series.iter().all(is_ours) {
            continue;
        }
        panels.push(Panel {
            title: format!("{title}: Suci beside {others}"),
            better,
            across: Axis::logarithmic("message size", Unit::Bytes),
            up: Axis::logarithmic(name, unit),
            series,
        });
    }
    if panels.is_empty() {
        return Ok(None);
    }
    Picture { panels }.svg().context("plot").map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    fn rows() -> Vec<Row> {
        let mut rows = example();
        for mut row in example() {
            row.task.size = 100;
            row.task.workload = Workload::Rate;
            row.median = 2e6;
            rows.push(row);
        }
        rows
    }

    #[test]
    fn one_way_is_goodput_whatever_was_counted() {
        let all = series(&rows(), Kind::OneWay, Net::Veth, Wait::Block);
        let names: Vec<&str> = all.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["suci", "tcp-cubic"]);
        let points: Vec<_> = all[0].points.iter().map(|it| (it.x(), it.y())).collect();
        assert_eq!(points, [(100.0, 1.6e9), (1000.0, 4e9)]);
    }

    #[test]
    fn a_plot_names_its_curves_and_axes() {
        let text = svg(&rows(), Kind::OneWay, Net::Veth, Wait::Block)
            .unwrap()
            .unwrap();
        assert!(text.starts_with("<svg"), "{text}");
        for word in ["suci", "tcp-cubic", "goodput; higher", "message size"] {
            assert!(text.contains(word), "{word} is not in the plot");
        }
        assert_eq!(
            xtask::pictures::faults(&text).unwrap(),
            Vec::<String>::new()
        );
    }

    #[test]
    fn there_is_no_plot_of_nothing() {
        for (rows, kind, net) in [
            (rows(), Kind::RoundTrip, Net::Veth),
            (rows(), Kind::OneWay, Net::Loopback),
            (example(), Kind::OneWay, Net::Veth),
        ] {
            assert_eq!(svg(&rows, kind, net, Wait::Block).unwrap(), None);
        }
    }
}
