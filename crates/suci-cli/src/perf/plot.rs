//! Medians over sizes as a picture: one panel for each workload, one line for each contender.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use suci_plot::{Axis, Better, Panel, Picture, Point, Series, Unit};
use tempfile::NamedTempFile;

use super::report::{self, Row};
use crate::error::{Context, Result};
use crate::output;

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
        let picture = picture(rows).svg().context("drawing")?;
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

/// Draws a panel for each workload and a line for each contender. The mix has no size.
fn picture(rows: &[Row]) -> Picture {
    let mut panels: Vec<Panel> = Vec::new();
    for row in rows.iter().filter(|row| !row.workload.is_mix()) {
        let title = report::name(row.workload);
        let at = panels.iter().position(|panel| panel.title == title);
        let at = at.unwrap_or_else(|| {
            panels.push(empty(title, row.unit));
            panels.len() - 1
        });
        let Some(panel) = panels.get_mut(at) else {
            continue;
        };
        let (_, _, scale, _) = axis_of(row.unit);
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
        let size = row.size as f64;
        let point = Point::spread(size, row.median, row.min, row.max).scaled(scale);
        let contender = row.contender();
        match panel.series.iter_mut().find(|one| one.name == contender) {
            Some(series) => series.points.push(point),
            None => panel.series.push(Series {
                name: contender.to_owned(),
                points: vec![point],
            }),
        }
    }
    for series in panels.iter_mut().flat_map(|panel| &mut panel.series) {
        series.points.sort_by(|a, b| a.x().total_cmp(&b.x()));
    }
    Picture { panels }
}

fn empty(title: &str, unit: &str) -> Panel {
    let (name, unit, _, better) = axis_of(unit);
    Panel {
        title: title.to_owned(),
        better,
        across: Axis::logarithmic("message size", Unit::Bytes),
        up: Axis::logarithmic(name, unit),
        series: Vec::new(),
    }
}

/// The axis of figures in a unit of the table, and what one such unit is on it.
fn axis_of(unit: &str) -> (&'static str, Unit, f64, Better) {
    match unit {
        "us" => ("time", Unit::Seconds, 1e-6, Better::Lower),
        "Gbit/s" => ("goodput", Unit::BitsPerSecond, 1e9, Better::Higher),
        _ => ("messages", Unit::PerSecond, 1.0, Better::Higher),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    /// The direction that is better follows from the unit; figures are in whole units.
    #[test]
    fn each_unit_has_an_axis() {
        let of = |unit| {
            let (_, unit, scale, better) = axis_of(unit);
            (unit, scale, better)
        };
        assert_eq!(of("us"), (Unit::Seconds, 1e-6, Better::Lower));
        assert_eq!(of("Gbit/s"), (Unit::BitsPerSecond, 1e9, Better::Higher));
        assert_eq!(of("messages/s"), (Unit::PerSecond, 1.0, Better::Higher));
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
