//! `cargo xtask pictures`: draws every picture in the tree anew, from the figures that it holds.
//! The check reads the SVG as it is drawn: a reader must be able to tell the series apart.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use suci_plot::{Panel, Picture};

use crate::error::{Context, Failure, Result};
use crate::exec;

/// The page that says what is seen in each picture.
const LIST: &str = "bench/PICTURES.md";

/// The line in a key has at least this many pixels.
const KEY: f64 = 20.0;

/// Pixels from one name to the next below it, and from a line to its name, at most.
const LINE: f64 = 15.0;
const NAME_GAP: f64 = 16.0;

/// Pixels of a letter at most, as a part of its size.
const LETTER: f64 = 0.62;

/// The count of what was drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Files.
    pub pictures: usize,
    /// Pairs of axes.
    pub panels: usize,
    /// Lines or points, each with a key.
    pub series: usize,
}

/// Draws all pictures of the tree again.
///
/// # Errors
/// A picture holds no figures, or cannot be written.
pub fn redraw() -> Result<()> {
    for file in files()? {
        let old = std::fs::read_to_string(&file).context(file.display())?;
        let new = Picture::read(&old).and_then(|picture| picture.svg());
        let new = new.context(file.display())?;
        if new != old {
            std::fs::write(&file, new).context(file.display())?;
            println!("{}", file.display());
        }
    }
    Ok(())
}

/// Checks that every picture of the tree is drawn as this version draws, that a reader can tell its
/// series apart, and that a page says what is seen in it.
///
/// # Errors
/// All that is wrong, a line each.
pub fn check() -> Result<Found> {
    let root = exec::root();
    let list = std::fs::read_to_string(root.join(LIST)).context(LIST)?;
    let mut found = Found::default();
    let mut wrong = Vec::new();
    for file in files()? {
        // The list stands in one folder and names files from there.
        let from_root = file.strip_prefix(&root).context(file.display())?;
        let link = from_root.strip_prefix("bench").unwrap_or(from_root);
        if !list.contains(&format!("{})", link.display())) {
            wrong.push(format!(
                "{LIST} does not say what is seen in {}",
                from_root.display()
            ));
        }
        let svg = std::fs::read_to_string(&file).context(file.display())?;
        let name = file.display();
        let picture = Picture::read(&svg).context(&name)?;
        if picture.svg().context(&name)? != svg {
            wrong.push(format!("{name}: `cargo xtask pictures` draws it otherwise"));
        }
        wrong.extend(faults(&svg)?.iter().map(|fault| format!("{name}: {fault}")));
        found.pictures += 1;
        found.panels += picture.panels.len();
        found.series += picture
            .panels
            .iter()
            .map(|it| it.series.len())
            .sum::<usize>();
    }
    match wrong.is_empty() {
        true => Ok(found),
        false => Err(Failure::new(wrong.join("\n"))),
    }
}

/// The SVG files that Git knows.
fn files() -> Result<Vec<PathBuf>> {
    let root = exec::root();
    let mut git = Command::new("git");
    git.arg("-C").arg(&root).args(["ls-files", "--", "*.svg"]);
    let listed = exec::capture(&mut git)?;
    Ok(listed.lines().map(|file| root.join(file)).collect())
}

/// Whatever keeps a reader from telling the series of a picture apart, or from reading its axes.
///
/// # Errors
/// The picture holds no figures.
pub fn faults(svg: &str) -> Result<Vec<String>> {
    let picture = Picture::read(svg).context("figures")?;
    let elements = elements(svg);
    let mut wrong = Vec::new();
    let width = elements.first().and_then(|svg| svg.number("width"));
    let width = width.context("no width")?;
    for text in elements.iter().filter(|one| one.tag == "text") {
        let end = text.number("x").unwrap_or(0.0) + text.length();
        if text.attribute("text-anchor") == "start" && end > width {
            wrong.push(format!("`{}` ends beyond the picture", text.text));
        }
        if text.text.ends_with(".0") {
            wrong.push(format!("the tick `{}` has no unit", text.text));
        }
    }
    wrong.extend(crowded(&elements));
    let told = elements
        .iter()
        .filter(|one| one.text.contains("er is better"))
        .count();
    if told != picture.panels.len() {
        wrong.push(format!("{told} panels say what is better"));
    }
    let mut rest = elements.as_slice();
    for panel in &picture.panels {
        let Some(title) = rest.iter().position(|one| one.text == panel.title) else {
            wrong.push(format!("no title `{}`", panel.title));
            continue;
        };
        rest = rest.get(title + 1..).unwrap_or_default();
        wrong.extend(keys(rest, panel));
    }
    Ok(wrong)
}

/// Names of ticks that run into the next one of the same row.
fn crowded(elements: &[Element<'_>]) -> Vec<String> {
    let is_tick = |one: &&Element<'_>| one.attribute("text-anchor") == "middle";
    let mut rows: BTreeMap<&str, Vec<(f64, f64, &str)>> = BTreeMap::new();
    for tick in elements.iter().filter(is_tick) {
        let (middle, half) = (tick.number("x").unwrap_or(0.0), tick.length() / 2.0);
        let row = rows.entry(tick.attribute("y")).or_default();
        row.push((middle - half, middle + half, &tick.text));
    }
    let mut wrong = Vec::new();
    for row in rows.values_mut() {
        row.sort_by(|one, next| one.0.total_cmp(&next.0));
        let crowded = row.windows(2).filter(|pair| pair[0].1 > pair[1].0);
        wrong.extend(crowded.map(|pair| format!("`{}` runs into `{}`", pair[0].2, pair[1].2)));
    }
    wrong
}

/// Whatever is wrong with the keys of a panel, whose elements come first in `drawn`.
fn keys(drawn: &[Element<'_>], panel: &Panel) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut looks = BTreeSet::new();
    let mut heights = Vec::new();
    let mut from = 0;
    for series in &panel.series {
        let name = &series.name;
        let here = drawn
            .iter()
            .skip(from)
            .position(|one| one.text == name.as_str());
        let Some(at) = here.map(|at| at + from) else {
            wrong.push(format!("`{name}` has no key"));
            continue;
        };
        from = at + 1;
        // A name follows its marker, and that the line of the key.
        let [line, marker, text] = match at.checked_sub(2).and_then(|first| drawn.get(first..=at)) {
            Some([line, marker, text]) => [line, marker, text],
            _ => {
                wrong.push(format!("`{name}` stands alone"));
                continue;
            }
        };
        let x = text.number("x").unwrap_or(0.0);
        let ends = line.points();
        let is_key = matches!(ends.as_slice(), [(start, y), (end, other)]
            if end - start >= KEY && y == other && (0.0..=NAME_GAP).contains(&(x - end)));
        if series.points.len() > 1 && !is_key {
            wrong.push(format!("the key of `{name}` has no line"));
        }
        let colour = marker.colour();
        if series.points.len() > 1 && line.colour() != colour {
            wrong.push(format!("line and marker of `{name}` differ"));
        }
        if !looks.insert((colour.to_owned(), marker.shape())) {
            wrong.push(format!("`{name}` looks like another"));
        }
        let drawn_so = |one: &&Element<'_>| one.shape() == marker.shape() && one.colour() == colour;
        // Every point, and the key.
        let marks = drawn.iter().filter(drawn_so).count();
        if marks <= series.points.len() {
            wrong.push(format!("{marks} marks of `{name}`"));
        }
        heights.push(text.number("y").unwrap_or(0.0));
    }
    heights.sort_by(f64::total_cmp);
    if heights.windows(2).any(|pair| pair[1] - pair[0] < LINE) {
        wrong.push(format!("`{}`: names are on one another", panel.title));
    }
    wrong
}

/// An element of an SVG and the text in it.
struct Element<'a> {
    tag: &'a str,
    attributes: &'a str,
    text: String,
}

/// The elements of an SVG. Its figures are none of them.
fn elements(svg: &str) -> Vec<Element<'_>> {
    let mut all = Vec::new();
    for part in svg.split('<').skip(1) {
        let Some((head, text)) = part.split_once('>') else {
            continue;
        };
        let (tag, attributes) = head.split_once(' ').unwrap_or((head, ""));
        if tag.starts_with('/') || tag == "metadata" {
            continue;
        }
        let text = text.trim().replace("&lt;", "<").replace("&gt;", ">");
        let text = text.replace("&quot;", "\"").replace("&apos;", "'");
        all.push(Element {
            tag,
            attributes,
            text: text.replace("&amp;", "&"),
        });
    }
    all
}

impl Element<'_> {
    fn attribute(&self, name: &str) -> &str {
        let begin = format!("{name}=\"");
        let mut parts = self
            .attributes
            .split(' ')
            .filter_map(|it| it.strip_prefix(&begin));
        // Values with spaces in them are read to the quote.
        let Some(first) = parts.next() else { return "" };
        let start = first.as_ptr() as usize - self.attributes.as_ptr() as usize;
        let rest = self.attributes.get(start..).unwrap_or_default();
        rest.split('"').next().unwrap_or_default()
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.attribute(name).parse().ok()
    }

    /// Pixels of the text.
    fn length(&self) -> f64 {
        let size = self.number("font-size").unwrap_or(0.0);
        self.text.chars().count() as f64 * size * LETTER
    }

    fn points(&self) -> Vec<(f64, f64)> {
        let pair = |one: &str| {
            let (x, y) = one.split_once(',')?;
            Some((x.parse().ok()?, y.parse().ok()?))
        };
        let points = self.attribute("points").split_whitespace();
        points.filter_map(pair).collect()
    }

    /// The colour of a line or an area.
    fn colour(&self) -> &str {
        match self.attribute("stroke") {
            "" | "none" => self.attribute("fill"),
            stroke => stroke,
        }
    }

    /// The tag, and the corners seen from the first.
    fn shape(&self) -> String {
        let points = self.points();
        let Some((x0, y0)) = points.first() else {
            return format!("{} {}", self.tag, self.attribute("r"));
        };
        let corners: Vec<_> = points.iter().map(|(x, y)| (x - x0, y - y0)).collect();
        format!("{} {corners:?}", self.tag)
    }
}

#[cfg(test)]
mod tests {
    use suci_plot::{Axis, Better, Point, Series, Unit};

    use super::*;

    fn example() -> Picture {
        let series = |name: &str, y: f64| Series {
            name: name.to_owned(),
            points: vec![
                Point::spread(64.0, y, y / 2.0, y * 2.0),
                Point::new(4_096.0, y),
            ],
        };
        let panel = Panel {
            title: "Ping-pong <&>".to_owned(),
            better: Better::Lower,
            across: Axis::logarithmic("message", Unit::Bytes),
            up: Axis::logarithmic("round trip", Unit::Seconds),
            series: vec![
                series("suci", 1e-5),
                series("tcp", 1e-5),
                series("udp", 3e-6),
            ],
        };
        let ratio = Panel {
            title: "The same".to_owned(),
            ..panel.relative_to("tcp")
        };
        let panels = vec![panel, ratio];
        Picture { panels }
    }

    #[test]
    fn a_picture_can_be_read_and_is_drawn_again_as_it_was() {
        let picture = example();
        let svg = picture.svg().unwrap();
        assert_eq!(faults(&svg).unwrap(), Vec::<String>::new());
        assert_eq!(Picture::read(&svg).unwrap(), picture);
        assert!(Picture::read("<svg></svg>").is_err());
    }

    /// Each of these changes takes something away that a reader needs.
    #[test]
    fn keys_without_length_colour_or_name_are_found() {
        let svg = example().svg().unwrap();
        type Change = fn(&str) -> String;
        let changes: [(&str, Change); 6] = [
            ("the key of `udp` has no line", without_length),
            ("`tcp` looks like another", |svg| {
                alike(svg).replace("#D55E00", "#0072B2")
            }),
            ("`tcp` has no key", |svg| svg.replace("\ntcp\n", "\n\n")),
            ("0 panels say what is better", |svg| {
                svg.replace("lower is better", "")
            }),
            ("the tick `1000.0` has no unit", |svg| {
                svg.replace("\n10 us\n", "\n1000.0\n")
            }),
            ("runs into", |svg| {
                svg.replace("\n64 B\n", &"\n64 bytes".repeat(20))
            }),
        ];
        for (fault, change) in changes {
            let said = faults(&change(&svg)).unwrap().join("\n");
            assert!(said.contains(fault), "{fault}: {said}");
        }
    }

    /// The last key begins where it ends.
    fn without_length(svg: &str) -> String {
        let mut lines = svg.lines();
        let key = lines.rfind(|line| line.starts_with("<polyline")).unwrap();
        let (before, points) = key.split_once("points=\"").unwrap();
        let (start, _) = points.split_once(' ').unwrap();
        svg.replace(key, &format!("{before}points=\"{start} {start} \"/>"))
    }

    /// All markers are the same circle.
    fn alike(svg: &str) -> String {
        let circle = svg
            .lines()
            .rfind(|line| line.starts_with("<circle"))
            .unwrap();
        let line = |line| match str::starts_with(line, "<polygon") {
            true => circle,
            false => line,
        };
        svg.lines().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn each_series_of_every_picture_in_the_tree_has_a_key() {
        let Found {
            pictures,
            panels,
            series,
        } = check().unwrap();
        println!("{pictures} pictures, {panels} panels, {series} series: each has its key");
        assert!(pictures > 0);
    }
}
