//! Curves of several contenders in one plot, as SVG.

use std::collections::BTreeMap;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use crate::error::{Context, Result};

/// Points of one contender.
pub type Curve = Vec<(f64, f64)>;

/// The titles of the axes. The upright axis is logarithmic.
#[derive(Clone, Copy, Debug)]
pub struct Axes<'a> {
    /// The name of the horizontal axis, with its unit.
    pub across: &'a str,
    /// The name of the upright axis, with its unit.
    pub up: &'a str,
    /// Whether the horizontal axis is logarithmic: values must then be above 0.
    pub logarithmic: bool,
}

/// The plot of `curves`, if there is anything to see.
///
/// # Errors
/// The plot cannot be drawn.
pub fn svg(axes: Axes<'_>, curves: &BTreeMap<&str, Curve>) -> Result<Option<String>> {
    let points: Vec<(f64, f64)> = curves.values().flatten().copied().collect();
    let range = |of: fn(&(f64, f64)) -> f64| {
        let values = points.iter().map(of);
        Some((values.clone().reduce(f64::min)?, values.reduce(f64::max)?))
    };
    let Some((across, up)) = range(|point| point.0).zip(range(|point| point.1)) else {
        return Ok(None);
    };
    // A little beyond the least and the greatest.
    let up = (up.0 / 1.3..up.1 * 1.3).log_scale();
    let mut text = String::new();
    if axes.logarithmic {
        let across = (across.0 / 1.3..across.1 * 1.3).log_scale();
        draw(&mut text, axes, curves, across, up).context("plot")?;
    } else {
        let beyond = (across.1 - across.0).max(f64::MIN_POSITIVE) * 0.04;
        let across = across.0 - beyond..across.1 + beyond;
        draw(&mut text, axes, curves, across, up).context("plot")?;
    }
    Ok(Some(text))
}

fn draw<X, Y>(
    text: &mut String,
    axes: Axes<'_>,
    curves: &BTreeMap<&str, Curve>,
    across: X,
    up: Y,
) -> Result<(), Box<dyn std::error::Error>>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let area = SVGBackend::with_string(text, (900, 560)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .margin_right(170)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(across, up)?;
    chart
        .configure_mesh()
        .x_desc(axes.across)
        .y_desc(axes.up)
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
