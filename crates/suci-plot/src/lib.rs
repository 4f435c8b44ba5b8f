//! Draws measured series as SVG.
//!
//! Every series has a key at the height at which its line ends: a piece of the line, its marker and
//! its name. Neighbours differ in colour, marker and width, so that lines on one another are all
//! seen. Each picture holds its figures as JSON in its `metadata` element: [`Picture::read`] gets
//! them back, and a change of the drawing needs no new measurement.

#![forbid(unsafe_code)]

mod draw;
mod ticks;

use std::fmt;

use serde::{Deserialize, Serialize};

/// The element of an SVG that holds the figures.
const BEGIN: &str = "<metadata>";
const END: &str = "</metadata>";

/// A picture cannot be drawn or read.
#[derive(Debug)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Panels one below the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Picture {
    /// From top to bottom.
    pub panels: Vec<Panel>,
}

/// Series over common axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Panel {
    /// Says what was measured.
    pub title: String,
    /// The direction in which figures improve.
    pub better: Better,
    /// The horizontal axis.
    pub across: Axis,
    /// The vertical axis.
    pub up: Axis,
    /// The first ones are drawn wider.
    pub series: Vec<Series>,
}

/// The direction in which figures improve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Better {
    /// As those of throughput do.
    Higher,
    /// As those of time do.
    Lower,
}

/// A name and a scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// The name, without a unit.
    pub name: String,
    /// The unit of values.
    pub unit: Unit,
    /// A logarithmic axis has no place for values that are not above 0: such points are left out.
    pub logarithmic: bool,
}

/// The unit of values. Ticks show it with a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Bytes, with binary prefixes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Bits per second.
    BitsPerSecond,
    /// Seconds.
    Seconds,
    /// Events per second.
    PerSecond,
    /// A number of things.
    Count,
    /// A multiple of another figure.
    Times,
    /// Hundredths.
    Percent,
}

/// The points of one contender, in the order in which a line joins them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The text of the key.
    pub name: String,
    /// At least one.
    pub points: Vec<Point>,
}

/// A figure, and the least and the greatest of those that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(f64, f64, f64, f64)", into = "(f64, f64, f64, f64)")]
pub struct Point {
    x: f64,
    y: f64,
    least: f64,
    most: f64,
}

impl Point {
    /// A figure `y` at `x` whose spread is not known.
    #[must_use]
    pub fn new(x: f64, y: f64) -> Self {
        Self::spread(x, y, y, y)
    }

    /// A figure `y` at `x` of rounds between `least` and `most`. Six digits are kept of each.
    #[must_use]
    pub fn spread(x: f64, y: f64, least: f64, most: f64) -> Self {
        let [x, y, least, most] =
            [x, y, least, most].map(|value| format!("{value:.5e}").parse().unwrap_or(value));
        Self { x, y, least, most }
    }

    /// The median of `figures` at `x` and their spread. `None` if there are none.
    #[must_use]
    pub fn of_rounds(x: f64, figures: &[f64]) -> Option<Self> {
        let mut sorted = figures.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let median = f64::midpoint(*sorted.get(last / 2)?, *sorted.get(last.div_ceil(2))?);
        Some(Self::spread(x, median, *sorted.first()?, *sorted.last()?))
    }

    /// The place on the horizontal axis.
    #[must_use]
    pub fn x(&self) -> f64 {
        self.x
    }

    /// The figure.
    #[must_use]
    pub fn y(&self) -> f64 {
        self.y
    }

    /// The same point in a unit of which `factor` make one of the old unit.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        let Self { x, y, least, most } = self;
        Self::spread(x, y * factor, least * factor, most * factor)
    }
}

impl From<(f64, f64, f64, f64)> for Point {
    fn from((x, y, least, most): (f64, f64, f64, f64)) -> Self {
        Self { x, y, least, most }
    }
}

impl From<Point> for (f64, f64, f64, f64) {
    fn from(Point { x, y, least, most }: Point) -> Self {
        (x, y, least, most)
    }
}

impl Axis {
    /// A linear axis.
    #[must_use]
    pub fn linear(name: &str, unit: Unit) -> Self {
        Self {
            name: name.to_owned(),
            unit,
            logarithmic: false,
        }
    }

    /// A logarithmic axis.
    #[must_use]
    pub fn logarithmic(name: &str, unit: Unit) -> Self {
        Self {
            logarithmic: true,
            ..Self::linear(name, unit)
        }
    }
}

impl Panel {
    /// The same figures as multiples of those of the series `base`: lines that lie on one another
    /// become apart. Points at which `base` has no figure are left out.
    #[must_use]
    pub fn relative_to(&self, base: &str) -> Self {
        let base_points = self.series.iter().find(|series| series.name == base);
        let base_points = base_points.map_or(&[][..], |series| &series.points);
        let relative = |point: &Point| {
            let other = base_points.iter().find(|other| other.x == point.x)?;
            (other.y > 0.0).then(|| point.scaled(1.0 / other.y))
        };
        let series = self.series.iter().map(|series| Series {
            name: series.name.clone(),
            points: series.points.iter().filter_map(relative).collect(),
        });
        let up = format!("{} as a multiple of that of {base}", self.up.name);
        Self {
            series: series.filter(|it| !it.points.is_empty()).collect(),
            up: Axis::logarithmic(&up, Unit::Times),
            ..self.clone()
        }
    }
}

impl Picture {
    /// Draws the picture.
    ///
    /// # Errors
    /// The figures are not finite.
    pub fn svg(&self) -> Result<String, Error> {
        let finite = |it: &Point| {
            [it.x, it.y, it.least, it.most]
                .iter()
                .all(|v| v.is_finite())
        };
        let mut points = self
            .panels
            .iter()
            .flat_map(|it| &it.series)
            .flat_map(|it| &it.points);
        if !points.all(finite) {
            return Err(Error("a figure is not finite".to_owned()));
        }
        let drawn = draw::picture(self)?;
        let figures = serde_json::to_string(self).map_err(|error| Error(error.to_string()))?;
        // JSON in which XML has no markup to find.
        let figures = figures.replace('<', "\\u003c").replace('&', "\\u0026");
        // Lines that a difference can show: one for each series.
        let figures = figures.replace("{\"name\"", "\n{\"name\"");
        let (head, rest) = drawn.split_once('\n').unwrap_or((&drawn, ""));
        Ok(format!("{head}\n{BEGIN}{figures}{END}\n{rest}"))
    }

    /// Reads the figures of a picture that [`Self::svg`] drew.
    ///
    /// # Errors
    /// `svg` has no figures.
    pub fn read(svg: &str) -> Result<Self, Error> {
        let figures = svg
            .split_once(BEGIN)
            .and_then(|(_, rest)| rest.split_once(END));
        let (figures, _) = figures.ok_or_else(|| Error("no figures in the picture".to_owned()))?;
        serde_json::from_str(figures).map_err(|error| Error(format!("figures: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(names: &[(&str, &[Point])]) -> Panel {
        let series = |(name, points): &(&str, &[Point])| Series {
            name: (*name).to_owned(),
            points: points.to_vec(),
        };
        Panel {
            title: "Stream".to_owned(),
            better: Better::Higher,
            across: Axis::logarithmic("message size", Unit::Bytes),
            up: Axis::logarithmic("goodput", Unit::BitsPerSecond),
            series: names.iter().map(series).collect(),
        }
    }

    #[test]
    fn multiples_need_a_figure_to_be_multiples_of() {
        let ours = [Point::spread(1.0, 6.0, 3.0, 9.0), Point::new(2.0, 5.0)];
        let tcp = [Point::spread(1.0, 3.0, 1.0, 4.0)];
        let relative = panel(&[("suci", &ours), ("tcp", &tcp)]).relative_to("tcp");
        assert_eq!(relative.up.name, "goodput as a multiple of that of tcp");
        assert_eq!(
            relative.series[0].points,
            [Point::spread(1.0, 2.0, 1.0, 3.0)]
        );
        assert_eq!(relative.series[1].points[0].y(), 1.0);
    }

    #[test]
    fn rounds_give_median_and_spread() {
        let point = Point::of_rounds(1.0, &[4.0, 1.0, 2.0, 3.0]);
        assert_eq!(point, Some(Point::spread(1.0, 2.5, 1.0, 4.0)));
        assert_eq!(Point::of_rounds(1.0, &[]), None);
    }

    #[test]
    fn a_picture_of_little_or_nothing_can_be_drawn() {
        let one = panel(&[("suci", &[Point::new(32.0, 1e6)])]);
        let nothing = [Point::new(0.0, 1.0), Point::new(1.0, 0.0)];
        for panels in [
            vec![],
            vec![one.clone()],
            vec![panel(&[("suci", &nothing)]), one],
        ] {
            let svg = Picture { panels }.svg().unwrap();
            assert!(svg.starts_with("<svg") && !svg.contains("NaN") && !svg.contains("inf"));
        }
        let infinite = panel(&[("suci", &[Point::new(1.0, f64::INFINITY)])]);
        let panels = vec![infinite];
        assert!(Picture { panels }.svg().is_err());
    }

    #[test]
    fn names_may_contain_markup() {
        let panels = vec![panel(&[("<&\"'>", &[Point::new(1.0, 1.0)])])];
        let picture = Picture { panels };
        let svg = picture.svg().unwrap();
        assert!(svg.contains("&lt;&amp;&quot;&apos;&gt;") && !svg.contains("\"<&"));
        assert_eq!(Picture::read(&svg).unwrap(), picture);
    }
}
