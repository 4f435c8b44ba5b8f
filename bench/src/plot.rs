//! Figures over the size of messages, both axes logarithmic, as SVG.

use std::collections::BTreeMap;

use plotters::prelude::*;
use xtask::error::{Context, Result};

use crate::plan::{Net, Wait, Workload};
use crate::report::Row;

/// Points of one contender: size and figure.
type Curve = Vec<(f64, f64)>;

/// What a plot shows.
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

/// Whether a row belongs beside those who wait so: Suci as it is by default beside those who block.
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

/// The plot of these rows, if there is anything to see.
pub(crate) fn svg(rows: &[Row], kind: Kind, net: Net, wait: Wait) -> Result<Option<String>> {
    let curves = curves(rows, kind, net, wait);
    let points: Vec<(f64, f64)> = curves.values().flatten().copied().collect();
    let Some([across, up]) = ranges(&points) else {
        return Ok(None);
    };
    let mut text = String::new();
    draw(&mut text, kind, &curves, across, up).context("plot")?;
    Ok(Some(text))
}

/// From the least to the greatest, and a little beyond.
fn ranges(points: &[(f64, f64)]) -> Option<[(f64, f64); 2]> {
    let range = |of: fn(&(f64, f64)) -> f64| {
        let least = points.iter().map(of).reduce(f64::min)?;
        let most = points.iter().map(of).reduce(f64::max)?;
        Some((least / 1.3, most * 1.3))
    };
    Some([range(|point| point.0)?, range(|point| point.1)?])
}

fn draw(
    text: &mut String,
    kind: Kind,
    curves: &BTreeMap<&str, Curve>,
    across: (f64, f64),
    up: (f64, f64),
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(text, (900, 560)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .margin_right(170)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d((across.0..across.1).log_scale(), (up.0..up.1).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("message, bytes")
        .y_desc(kind.unit())
        .draw()?;
    for (at, (name, curve)) in curves.iter().enumerate() {
        let colour = Palette99::pick(at).to_rgba();
        // Ours stand out.
        let width = if name.starts_with("suci") { 3 } else { 1 };
        let line = LineSeries::new(curve.iter().copied(), colour.stroke_width(width));
        chart
            .draw_series(line.point_size(3))?
            .label(*name)
            .legend(move |(x, y)| {
                PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(width))
            });
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::Coordinate(662, 0))
        .border_style(WHITE)
        .draw()?;
    area.present()?;
    Ok(())
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
