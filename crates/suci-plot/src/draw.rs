//! Panels in pixels: plotters draws axes and shapes; keys stand where the lines end.

use std::fmt::Display;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::ticks::{self, Tick};
use crate::{Axis, Better, Error, Panel, Picture, Point, Unit};

/// Pixels of a picture across. Pages show about as many without making it smaller.
const WIDTH: i32 = 860;

/// Pixels of a panel: its titles, the least height of its axes, and the names below them.
const HEAD: i32 = 58;
const AXES: i32 = 300;
const FOOT: i32 = 50;

/// Pixels around everything.
const MARGIN: i32 = 12;

/// Pixels of the line in a key, and from one key to the next below it.
const KEY: i32 = 30;
const KEY_HEIGHT: i32 = 19;

/// Pixels between axes, key and name.
const GAP: i32 = 16;
const NAME_GAP: i32 = 8;

/// The sizes of letters as plotters counts them: 1.24 times those in the SVG.
const TEXT: i32 = 16;
const TITLE: i32 = 20;

/// Pixels that a letter of [`TEXT`] takes at most, on average.
const LETTER: i32 = 8;

/// Room between the outermost figure and the end of an axis, as a part of the axis.
const BEYOND: f64 = 0.05;

/// Least range of multiples on a logarithmic axis: no picture makes much of a percent.
const MULTIPLES: f64 = 1.1;

/// Colours that the colour-blind tell apart (Okabe and Ito 2008), with grey for yellow, which is
/// hardly seen on white.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(0, 0, 0),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(128, 128, 128),
];

/// The grey of axes and their ticks.
const AXIS: RGBColor = RGBColor(90, 90, 90);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A pixel.
type Place = (i32, i32);

fn trouble(error: impl Display) -> Error {
    Error(format!("drawing: {error}"))
}

/// Draws all panels.
pub(crate) fn picture(picture: &Picture) -> Result<String, Error> {
    let height = |panel: &Panel| HEAD + axes_height(panel) + FOOT;
    let total: i32 = picture.panels.iter().map(height).sum();
    let size = (WIDTH.unsigned_abs(), total.max(1).unsigned_abs());
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE).map_err(trouble)?;
        let mut rest = root.clone();
        for panel in &picture.panels {
            let (own, below) = rest.split_vertically(height(panel));
            draw_panel(&root, &own, panel)?;
            rest = below;
        }
        root.present().map_err(trouble)?;
    }
    Ok(svg)
}

/// Many keys need more than the usual height.
fn axes_height(panel: &Panel) -> i32 {
    let keys = i32::try_from(panel.series.len()).unwrap_or(i32::MAX);
    AXES.max(keys.saturating_mul(KEY_HEIGHT))
}

/// One direction of a panel.
struct Scale {
    axis: Axis,
    /// In places: logarithms if the axis is logarithmic.
    range: Range<f64>,
    ticks: Vec<Tick>,
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        let at = place(&self.axis, *value) - self.range.start;
        let part = at / (self.range.end - self.range.start);
        first + (part * f64::from(last - first)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight().allow_light_points() {
            true => Vec::new(),
            false => self.ticks.iter().map(|tick| tick.value).collect(),
        }
    }

    fn range(&self) -> Range<f64> {
        value(&self.axis, self.range.start)..value(&self.axis, self.range.end)
    }
}

impl ValueFormatter<f64> for Scale {
    fn format_ext(&self, value: &f64) -> String {
        let tick = self.ticks.iter().find(|tick| tick.value == *value);
        tick.map_or_else(String::new, |tick| tick.label.clone())
    }
}

fn place(axis: &Axis, value: f64) -> f64 {
    match axis.logarithmic {
        true => value.log10(),
        false => value,
    }
}

fn value(axis: &Axis, place: f64) -> f64 {
    match axis.logarithmic {
        true => 10_f64.powf(place),
        false => place,
    }
}

fn shown<'a>(panel: &'a Panel, points: &'a [Point]) -> impl Iterator<Item = &'a Point> {
    let there = |axis: &Axis, value: f64| !axis.logarithmic || value > 0.0;
    let both = move |it: &&Point| there(&panel.across, it.x) && there(&panel.up, it.y);
    points.iter().filter(both)
}

/// The horizontal scale over `pixels`: measured values have ticks if they have room.
fn across(panel: &Panel, pixels: i32) -> Scale {
    let axis = panel.across.clone();
    let points = panel
        .series
        .iter()
        .flat_map(|series| shown(panel, &series.points));
    let mut values: Vec<f64> = points.map(|point| point.x).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let range = range(&axis, &values);
    let scale = f64::from(pixels) / (range.end - range.start);
    let measured = ticks::measured(&axis, &values, |at| place(&axis, at) * scale, LETTER);
    let ticks = measured.unwrap_or_else(|| between(&axis, &range));
    Scale { axis, range, ticks }
}

/// The vertical scale. A linear one begins at 0, but for multiples, whose differences count.
fn up(panel: &Panel) -> Scale {
    let axis = panel.up.clone();
    let points = panel
        .series
        .iter()
        .flat_map(|series| shown(panel, &series.points));
    let ends = points.flat_map(|point| [point.y, point.most, point.least]);
    let mut values: Vec<f64> = ends.filter(|end| !axis.logarithmic || *end > 0.0).collect();
    values.sort_by(f64::total_cmp);
    if !axis.logarithmic && axis.unit != Unit::Times {
        values.insert(0, 0.0);
    }
    let range = range(&axis, &values);
    let ticks = between(&axis, &range);
    Scale { axis, range, ticks }
}

fn between(axis: &Axis, range: &Range<f64>) -> Vec<Tick> {
    ticks::ticks(axis, value(axis, range.start), value(axis, range.end))
}

/// Returns a little more than the range of sorted values.
fn range(axis: &Axis, sorted: &[f64]) -> Range<f64> {
    let ends = (sorted.first(), sorted.last());
    let (least, most) = match ends {
        (Some(least), Some(most)) => (place(axis, *least), place(axis, *most)),
        _ => (0.0, 1.0),
    };
    let length = most - least;
    let beyond = match length {
        // A single figure stands in the middle.
        0.0 if axis.logarithmic => 0.5,
        0.0 => most.abs().max(1.0) * 0.1,
        _ => length * BEYOND,
    };
    let beyond = match axis.unit == Unit::Times && axis.logarithmic {
        true => beyond.max((MULTIPLES.log10() - length) / 2.0),
        false => beyond,
    };
    least - beyond..most + beyond
}

/// The looks of one series.
#[derive(Clone, Copy)]
struct Look {
    colour: RGBColor,
    width: u32,
    marker: usize,
    radius: i32,
}

impl Look {
    /// The first two are wider, so that lines on one another are all seen. With 8 colours and 5
    /// markers 40 series differ.
    fn of(at: usize) -> Self {
        let (width, radius) = match at {
            0 => (5, 7),
            1 => (3, 5),
            _ => (2, 4),
        };
        Self {
            colour: COLOURS.get(at % COLOURS.len()).copied().unwrap_or(BLACK),
            width,
            marker: at % 5,
            radius,
        }
    }

    fn line(self, root: &Area<'_>, points: Vec<Place>, width: u32) -> Result<(), Error> {
        let style = self.colour.stroke_width(width);
        root.draw(&PathElement::new(points, style)).map_err(trouble)
    }

    /// Draws a line with two caps, from the least figure to the greatest.
    fn bar(self, root: &Area<'_>, least: Place, most: Place) -> Result<(), Error> {
        let cap = |(x, y): Place| vec![(x - self.radius, y), (x + self.radius, y)];
        for part in [vec![least, most], cap(least), cap(most)] {
            self.line(root, part, 1)?;
        }
        Ok(())
    }

    /// Draws the marker: a circle or a polygon.
    fn mark(self, root: &Area<'_>, (x, y): Place) -> Result<(), Error> {
        let r = self.radius;
        let corners: &[Place] = match self.marker {
            0 => {
                let circle = Circle::new((x, y), r, self.colour.filled());
                return root.draw(&circle).map_err(trouble);
            }
            1 => &[(-r, -r), (r, -r), (r, r), (-r, r)],
            2 => &[(0, -r - 1), (r + 1, r), (-r - 1, r)],
            3 => &[(0, -r - 2), (r + 2, 0), (0, r + 2), (-r - 2, 0)],
            _ => &[(0, r + 1), (r + 1, -r), (-r - 1, -r)],
        };
        let corners: Vec<Place> = corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
        let polygon = Polygon::new(corners, self.colour.filled());
        root.draw(&polygon).map_err(trouble)
    }
}

fn draw_panel(root: &Area<'_>, area: &Area<'_>, panel: &Panel) -> Result<(), Error> {
    let names = panel.series.iter().map(|series| series.name.as_str());
    let keys = GAP + KEY + NAME_GAP + letters(names);
    let up = up(panel);
    let left = letters(up.ticks.iter().map(|tick| tick.label.as_str())) + GAP;
    let across = across(panel, WIDTH - 2 * MARGIN - left - keys);
    titles(area, panel)?;
    let mut chart = ChartBuilder::on(area)
        .margin_left(MARGIN)
        .margin_top(HEAD)
        .margin_right(MARGIN + keys)
        .x_label_area_size(FOOT)
        .y_label_area_size(left)
        .build_cartesian_2d(across, up)
        .map_err(trouble)?;
    let text = ("sans-serif", TEXT).into_font().color(&BLACK);
    chart
        .configure_mesh()
        .x_desc(&panel.across.name)
        .label_style(text.clone())
        .axis_desc_style(text)
        .axis_style(AXIS)
        .bold_line_style(BLACK.mix(0.12))
        .light_line_style(WHITE.mix(0.0))
        .draw()
        .map_err(trouble)?;
    let pixel = |x: f64, y: f64| chart.backend_coord(&(x, y));
    let (columns, rows) = chart.plotting_area().get_pixel_range();
    let mut ends = Vec::new();
    for (at, series) in panel.series.iter().enumerate() {
        let look = Look::of(at);
        let points: Vec<&Point> = shown(panel, &series.points).collect();
        for point in points.iter().filter(|point| point.least < point.most) {
            // A logarithmic axis does not reach down to nothing.
            let least = match panel.up.logarithmic && point.least <= 0.0 {
                true => point.y,
                false => point.least,
            };
            look.bar(root, pixel(point.x, least), pixel(point.x, point.most))?;
        }
        let line: Vec<Place> = points.iter().map(|point| pixel(point.x, point.y)).collect();
        for place in &line {
            look.mark(root, *place)?;
        }
        ends.push(line.last().copied().unwrap_or((columns.start, rows.end)));
        if line.len() > 1 {
            look.line(root, line, look.width)?;
        }
    }
    draw_keys(root, panel, &ends, columns.end + GAP, &rows)
}

/// Pixels that the longest of these texts takes.
fn letters<'a>(texts: impl Iterator<Item = &'a str>) -> i32 {
    let most = texts.map(|text| text.chars().count()).max().unwrap_or(0);
    i32::try_from(most)
        .unwrap_or(i32::MAX)
        .saturating_mul(LETTER)
}

/// Writes what is shown, the direction in which it improves, and what bars mean.
fn titles(area: &Area<'_>, panel: &Panel) -> Result<(), Error> {
    let better = match panel.better {
        Better::Higher => "higher is better",
        Better::Lower => "lower is better",
    };
    let mut points = panel.series.iter().flat_map(|series| &series.points);
    let bars = match points.any(|point| point.least < point.most) {
        true => "; bars from the least to the greatest round",
        false => "",
    };
    let text = format!("{}; {better}{bars}", panel.up.name);
    let title = FontDesc::new(FontFamily::SansSerif, f64::from(TITLE), FontStyle::Bold);
    let title = Text::new(panel.title.clone(), (MARGIN, MARGIN), title.color(&BLACK));
    area.draw(&title).map_err(trouble)?;
    let font = ("sans-serif", TEXT).into_font().color(&BLACK);
    area.draw(&Text::new(text, (MARGIN, MARGIN + 22), font))
        .map_err(trouble)
}

/// Draws the key of each series as near to the end of its line as others allow, and a thin line
/// from one to the other if nothing is between them.
fn draw_keys(
    root: &Area<'_>,
    panel: &Panel,
    ends: &[Place],
    left: i32,
    rows: &Range<i32>,
) -> Result<(), Error> {
    let last = ends.iter().map(|(x, _)| *x).max().unwrap_or(0);
    let heights = apart(ends, rows);
    let font = ("sans-serif", TEXT).into_font().color(&BLACK);
    let font = font.pos(Pos::new(HPos::Left, VPos::Center));
    for (at, ((series, end), y)) in panel.series.iter().zip(ends).zip(heights).enumerate() {
        let look = Look::of(at);
        if end.0 == last {
            let from = (end.0 + look.radius + 3, end.1);
            let style = look.colour.mix(0.6).stroke_width(1);
            let leader = PathElement::new(vec![from, (left - 3, y)], style);
            root.draw(&leader).map_err(trouble)?;
        }
        // The key of a single point has no line either.
        if series.points.len() > 1 {
            look.line(root, vec![(left, y), (left + KEY, y)], look.width)?;
        }
        look.mark(root, (left + KEY / 2, y))?;
        let text = Text::new(
            series.name.clone(),
            (left + KEY + NAME_GAP, y),
            font.clone(),
        );
        root.draw(&text).map_err(trouble)?;
    }
    Ok(())
}

/// Heights of keys near those of the ends, [`KEY_HEIGHT`] from one another and within `rows`.
fn apart(ends: &[Place], rows: &Range<i32>) -> Vec<i32> {
    let mut order: Vec<usize> = (0..ends.len()).collect();
    order.sort_by_key(|at| ends.get(*at).map(|end| end.1));
    let mut heights = vec![0; ends.len()];
    let mut place = |at: usize, y: i32| {
        if let Some(height) = heights.get_mut(at) {
            *height = y;
        }
        y
    };
    let wanted = |at: usize| ends.get(at).map_or(0, |end| end.1);
    // Down from the top, where no key is above its end; then up again what left at the bottom.
    let mut least = rows.start;
    let mut down = Vec::new();
    for at in &order {
        let y = place(*at, wanted(*at).max(least));
        down.push(y);
        least = y.saturating_add(KEY_HEIGHT);
    }
    let mut most = rows.end;
    for (at, y) in order.iter().zip(down).rev() {
        most = place(*at, y.min(most)).saturating_sub(KEY_HEIGHT);
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_apart_within_the_axes() {
        let rows = 50..350;
        let ends: Vec<Place> = [60, 61, 340, 349, 350, 200].map(|y| (0, y)).into();
        let mut heights = apart(&ends, &rows);
        assert_eq!(heights[5], 200);
        heights.sort_unstable();
        assert!(
            heights
                .windows(2)
                .all(|pair| pair[1] - pair[0] >= KEY_HEIGHT)
        );
        assert!(heights.iter().all(|y| rows.contains(y) || *y == rows.end));
    }

    #[test]
    fn each_of_40_series_looks_different() {
        let look = |at| {
            let Look { colour, marker, .. } = Look::of(at);
            ((colour.0, colour.1, colour.2), marker)
        };
        let all: std::collections::BTreeSet<_> = (0..40).map(look).collect();
        assert_eq!(all.len(), 40);
    }
}
