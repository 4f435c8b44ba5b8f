//! Figures over the size of messages, both axes logarithmic, as SVG.

use std::collections::BTreeMap;

use xtask::error::Result;
use xtask::plot::{self, Axes, Curve};

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

    fn unit(self) -> &'static str {
        match self {
            Self::RoundTrip => "round trip, us",
            Self::OneWay => "goodput, Gbit/s",
        }
    }

    /// The figure of a row, if it belongs here.
    fn figure(self, row: &Row) -> Option<f64> {
        match (self, row.workload()) {
            (Self::RoundTrip, Workload::PingPong) | (Self::OneWay, Workload::Stream) => {
                Some(row.median)
            }
            (Self::OneWay, Workload::Rate) => Some(row.median * row.task.size as f64 * 8.0 / 1e9),
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

/// The curves of one plot, by contender.
fn curves(rows: &[Row], kind: Kind, net: Net, wait: Wait) -> BTreeMap<&str, Curve> {
    let mut curves: BTreeMap<&str, Curve> = BTreeMap::new();
    for row in rows
        .iter()
        .filter(|row| row.net() == net && belongs(row, wait))
    {
        if let Some(figure) = kind.figure(row) {
            let curve = curves.entry(row.contender.as_str()).or_default();
            curve.push((row.task.size as f64, figure));
        }
    }
    // A single size is no curve.
    curves.retain(|_, curve| curve.len() > 1);
    for curve in curves.values_mut() {
        curve.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    curves
}

/// Draws the plot of these rows, if there is anything to see.
pub(crate) fn svg(rows: &[Row], kind: Kind, net: Net, wait: Wait) -> Result<Option<String>> {
    let curves = curves(rows, kind, net, wait);
    let axes = Axes {
        across: "message, bytes",
        up: kind.unit(),
        logarithmic: true,
    };
    plot::svg(axes, &curves)
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
        let rows = rows();
        let curves = curves(&rows, Kind::OneWay, Net::Veth, Wait::Block);
        assert_eq!(curves["suci"], [(100.0, 1.6), (1000.0, 4.0)]);
        assert_eq!(curves.len(), 2);
    }

    #[test]
    fn a_plot_names_its_curves_and_axes() {
        let text = svg(&rows(), Kind::OneWay, Net::Veth, Wait::Block)
            .unwrap()
            .unwrap();
        assert!(text.starts_with("<svg"), "{text}");
        for word in ["suci", "tcp-cubic", "goodput, Gbit/s", "message, bytes"] {
            assert!(text.contains(word), "{word} is not in the plot");
        }
        assert!(text.matches("<polyline").count() >= 2);
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
