//! Medians over sizes as a picture: one panel for each workload, one line for each contender.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use plotters::coord::Shift;
use plotters::prelude::*;
use tempfile::NamedTempFile;

use super::report::{self, Row};
use crate::error::{Context, Failure, Result};
use crate::output;

/// Pixels of a panel.
const PANEL: (u32, u32) = (800, 460);

/// Room on each side of the measured values, as a factor.
const MARGIN: f64 = 1.3;

/// Colours that people who see no red or green also tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// A picture that will be drawn at the end.
pub(super) struct Plot {
    target: PlotTarget,
    path: PathBuf,
}

/// The destination of the plot.
enum PlotTarget {
    /// A new file, which takes this name when it is whole. Until then an existing file of that name
    /// keeps its content.
    New(PathBuf),
    /// A pipe, a device, or where standard output goes: nothing else can stand in its place.
    There(File),
}

impl Plot {
    /// Makes sure, before anything is measured, that the picture can be put at `path`.
    pub(super) fn begin(path: &Path) -> Result<Self> {
        let target = PlotTarget::find(path).context(format_args!(
            "--plot {} (name a file in a directory to write to)",
            path.display()
        ));
        Ok(Self {
            target: target?,
            path: path.to_owned(),
        })
    }

    /// Draws it.
    pub(super) fn finish(self, rows: &[Row]) -> Result<()> {
        let picture = draw(&panels(rows))?;
        let put = self.target.put(picture.as_bytes());
        put.context(format_args!("--plot {}", self.path.display()))
    }
}

impl PlotTarget {
    fn find(path: &Path) -> io::Result<Self> {
        match std::fs::metadata(path) {
            Ok(there) if there.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(there) if !there.is_file() || is_output(&there)? => open(path, &there),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => {
                let name = followed(path);
                // To see that there can be one. Kept until the end it would stay behind when a
                // signal ends the command.
                drop(beside(&name)?);
                Ok(Self::New(name))
            }
        }
    }

    fn put(self, picture: &[u8]) -> io::Result<()> {
        match self {
            Self::New(name) => {
                let mut file = beside(&name)?;
                file.write_all(picture)?;
                file.persist(name)?;
                Ok(())
            }
            Self::There(file) => output::write_all(file, picture),
        }
    }
}

/// Creates a file in the directory of `name`. It is removed unless it gets that name.
fn beside(name: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    // The mode of any file: the umask decides who reads it.
    builder.permissions(std::fs::Permissions::from_mode(0o666));
    builder.prefix(".suci-perf-").tempfile_in(parent(name))
}

/// Opens a target that stays. It does not wait: the user would not know for what.
fn open(path: &Path, there: &Metadata) -> io::Result<PlotTarget> {
    let mut options = File::options();
    let opened = options
        .append(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path);
    opened.map(PlotTarget::There).map_err(|error| {
        if there.file_type().is_fifo() && error.raw_os_error() == Some(libc::ENXIO) {
            io::Error::other("a pipe that nobody reads: start its reader first")
        } else {
            error
        }
    })
}

/// Returns whether standard output goes there, as `/dev/stdout` does: replaced, it would take the
/// table along.
fn is_output(there: &Metadata) -> io::Result<bool> {
    let Ok(output) = io::stdout().as_fd().try_clone_to_owned() else {
        return Ok(false);
    };
    let output = File::from(output).metadata()?;
    Ok((there.dev(), there.ino()) == (output.dev(), output.ino()))
}

/// Follows links to their target, which need not exist.
fn followed(path: &Path) -> PathBuf {
    let next = |link: &PathBuf| Some(parent(link).join(std::fs::read_link(link).ok()?));
    let links = std::iter::successors(Some(path.to_owned()), next);
    // The kernel follows no more than 40.
    links.take(41).last().unwrap_or_default()
}

fn parent(path: &Path) -> &Path {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    dir.unwrap_or(Path::new("."))
}

/// The results of one workload.
#[derive(Debug, PartialEq)]
struct Panel {
    name: &'static str,
    unit: &'static str,
    lines: Vec<Line>,
}

/// The line of one contender.
#[derive(Debug, PartialEq)]
struct Line {
    name: &'static str,
    points: Vec<Point>,
}

/// Its rounds of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    size: f64,
    min: f64,
    median: f64,
    max: f64,
}

/// Rows in panels and lines. The mix has no size, and values that are not above zero have no point
/// on such axes.
fn panels(rows: &[Row]) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for row in rows
        .iter()
        .filter(|row| !row.workload.is_mix() && row.min > 0.0)
    {
        let name = report::name(row.workload);
        let unit = row.unit;
        let at = panels
            .iter()
            .position(|panel| panel.name == name)
            .unwrap_or_else(|| {
                let lines = Vec::new();
                panels.push(Panel { name, unit, lines });
                panels.len() - 1
            });
        let Some(panel) = panels.get_mut(at) else {
            continue;
        };
        let point = Point {
            #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
            size: row.size as f64,
            min: row.min,
            median: row.median,
            max: row.max,
        };
        let contender = row.contender();
        match panel.lines.iter_mut().find(|line| line.name == contender) {
            Some(line) => line.points.push(point),
            None => panel.lines.push(Line {
                name: contender,
                points: vec![point],
            }),
        }
    }
    for line in panels.iter_mut().flat_map(|panel| &mut panel.lines) {
        line.points.sort_by(|a, b| a.size.total_cmp(&b.size));
    }
    panels
}

fn draw(panels: &[Panel]) -> Result<String> {
    let count = u32::try_from(panels.len()).unwrap_or(u32::MAX);
    let (width, height) = PANEL;
    let mut picture = String::new();
    {
        let size = (width, height.saturating_mul(count.max(1)));
        let root = SVGBackend::with_string(&mut picture, size).into_drawing_area();
        root.fill(&WHITE).context("drawing")?;
        let areas = root.split_evenly((panels.len().max(1), 1));
        for (panel, area) in panels.iter().zip(&areas) {
            draw_panel(panel, area).map_err(|error| Failure::new(format!("drawing: {error}")))?;
        }
        root.present().context("drawing")?;
    }
    Ok(picture)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw_panel(panel: &Panel, area: &Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
    let points = || panel.lines.iter().flat_map(|line| &line.points);
    let sizes = range(points().map(|point| point.size));
    let values = range(points().flat_map(|point| [point.min, point.max]));
    let mut chart = ChartBuilder::on(area)
        .caption(panel.name, ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(84)
        .build_cartesian_2d(sizes.log_scale().base(2.0), values.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("bytes in a message")
        .y_desc(panel.unit)
        .x_labels(24)
        .x_label_formatter(&|size| bytes(*size))
        .y_label_formatter(&|value| figure(*value))
        .label_style(("sans-serif", 14))
        .light_line_style(WHITE.mix(0.0))
        .draw()?;
    for (line, colour) in panel.lines.iter().zip(COLOURS.iter().cycle()) {
        let medians = line.points.iter().map(|point| (point.size, point.median));
        chart
            .draw_series(LineSeries::new(medians, colour.stroke_width(2)))?
            .label(line.name)
            .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
        chart.draw_series(line.points.iter().map(|point| {
            let Point {
                size,
                min,
                median,
                max,
            } = *point;
            ErrorBar::new_vertical(size, min, median, max, colour.filled(), 8)
        }))?;
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .label_font(("sans-serif", 14))
        .position(SeriesLabelPosition::UpperLeft)
        .draw()?;
    Ok(())
}

/// Returns a range from below the least of `values` to above the greatest.
fn range(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(least, most), value| {
        (least.min(value), most.max(value))
    });
    least / MARGIN..most * MARGIN
}

/// Returns a size as people write it.
fn bytes(size: f64) -> String {
    let units = [
        (1_073_741_824.0, " Gi"),
        (1_048_576.0, " Mi"),
        (1_024.0, " Ki"),
    ];
    let unit = units.iter().find(|(unit, _)| size >= *unit);
    let (unit, name) = unit.copied().unwrap_or((1.0, ""));
    format!("{}{name}", figure(size / unit))
}

/// Returns a number without needless digits.
fn figure(value: f64) -> String {
    let digits = match value {
        v if v >= 10.0 => 0,
        v if v >= 1.0 => 1,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    fn point(size: f64, median: f64) -> Point {
        Point {
            size,
            min: median * 0.9,
            median,
            max: median * 1.2,
        }
    }

    fn panel(name: &'static str, lines: &[(&'static str, &[Point])]) -> Panel {
        let line = |&(name, points): &(&'static str, &[Point])| Line {
            name,
            points: points.to_vec(),
        };
        Panel {
            name,
            unit: "us",
            lines: lines.iter().map(line).collect(),
        }
    }

    #[test]
    fn a_picture_names_workloads_contenders_and_sizes() {
        let suci = [
            point(64.0, 20.0),
            point(4096.0, 30.0),
            point(1_048_576.0, 400.0),
        ];
        let tcp = [
            point(64.0, 25.0),
            point(4096.0, 31.0),
            point(1_048_576.0, 500.0),
        ];
        let lines = [("suci", &suci[..]), ("tcp cubic", &tcp)];
        let picture = draw(&[panel("ping-pong", &lines), panel("stream", &lines)]).unwrap();
        for part in [
            "<svg",
            "ping-pong",
            "stream",
            "suci",
            "tcp cubic",
            "4 Ki",
            "1 Mi",
            "us",
        ] {
            assert!(picture.contains(part), "no {part}");
        }
        assert!(!picture.contains("NaN") && !picture.contains("inf"));
        // Through three sizes in each panel; the legend's strokes have two ends.
        let lines = |colour: &str| {
            let strokes = picture.lines().filter(|l| l.starts_with("<polyline"));
            let own = strokes.filter(|stroke| stroke.contains(colour));
            own.filter(|stroke| stroke.matches(',').count() == 3)
                .count()
        };
        assert_eq!((lines("#0072B2"), lines("#D55E00")), (2, 2));
    }

    #[test]
    fn one_size_is_drawn_as_a_point_and_no_size_draws_nothing() {
        let picture = draw(&[panel("rate", &[("suci", &[point(32.0, 1e6)])])]).unwrap();
        assert!(picture.contains("rate") && !picture.contains("NaN"));
        assert!(draw(&[]).unwrap().contains("<svg"));
    }

    #[test]
    fn sizes_and_figures_are_written_as_people_do() {
        let shown = [64.0, 1024.0, 65_536.0, 1_048_576.0, 1_500.0].map(bytes);
        assert_eq!(shown, ["64", "1 Ki", "64 Ki", "1 Mi", "1.5 Ki"]);
        assert_eq!(
            [0.05, 2.0, 12.34, 1e6].map(figure),
            ["0.05", "2", "12", "1000000"]
        );
    }

    #[test]
    fn a_picture_replaces_an_older_file_only_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sizes.svg");
        std::fs::write(&path, "old").unwrap();
        let plot = Plot::begin(&path).unwrap();
        let files = || std::fs::read_dir(dir.path()).unwrap().count();
        // A signal may end the command now: nothing is left beside it then.
        assert_eq!(files(), 1);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        plot.finish(&[]).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains("<svg"));
        assert_eq!(files(), 1);
    }

    /// Creates a named pipe in `dir`.
    fn fifo(dir: &Path) -> PathBuf {
        let path = dir.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        path
    }

    #[test]
    fn a_symbolic_link_stays_and_its_target_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let (first, second) = (dir.path().join("first"), inner.join("second"));
        // One link leads to another, relative, which leads to a file that is not there at first.
        symlink("inner/second", &first).unwrap();
        symlink("real.svg", &second).unwrap();
        for _ in 0..2 {
            Plot::begin(&first).unwrap().finish(&[]).unwrap();
            assert!(first.is_symlink() && second.is_symlink());
            let real = std::fs::read_to_string(inner.join("real.svg")).unwrap();
            assert!(real.contains("<svg"));
            std::fs::write(inner.join("real.svg"), "old").unwrap();
        }
        let count = |dir: &Path| std::fs::read_dir(dir).unwrap().count();
        assert_eq!((count(dir.path()), count(&inner)), (2, 2));
        let circle = dir.path().join("circle");
        symlink("circle", &circle).unwrap();
        assert!(Plot::begin(&circle).is_err());
    }

    #[test]
    fn a_pipe_is_written_to_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = fifo(dir.path());
        let link = dir.path().join("link");
        symlink("pipe", &link).unwrap();
        for path in [&pipe, &link] {
            // At once: no reader, no picture.
            let said = Plot::begin(path).err().unwrap().to_string();
            assert!(said.contains("nobody reads"), "{said}");
            let mut options = File::options();
            let reader = options.read(true).custom_flags(libc::O_NONBLOCK);
            let mut reader = reader.open(&pipe).unwrap();
            Plot::begin(path).unwrap().finish(&[]).unwrap();
            let mut picture = String::new();
            reader.read_to_string(&mut picture).unwrap();
            assert!(picture.contains("<svg"));
            assert!(std::fs::metadata(&pipe).unwrap().file_type().is_fifo());
        }
        assert!(link.is_symlink());
    }
}
