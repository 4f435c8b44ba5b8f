//! The page of the results, with its plots.

use std::fmt::Write as _;
use std::path::Path;

use suci_plot::{Axis, Better, Panel, Picture, Point, Series, Unit};
use xtask::error::{Context, Result};
use xtask::machine;

use super::costs::Costs;
use super::designs::{ASSUMPTIONS, Design};
use super::{COARSE, FINE, Model, PACKETS, PORTS, THREADS};

/// A column of a table: its name, and its speed-up at a number of threads or ports.
type Column<'a> = (&'static str, Box<dyn Fn(usize) -> f64 + 'a>);

const NUMBERS_OF_THREADS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const NUMBERS_OF_PORTS: [usize; 6] = [1, 2, 4, 8, 16, 32];

const CONSECUTIVE: &str = "suci, nodes 0 to 127";
const RANDOM: &str = "suci, any nodes";

/// The distance of processors without a common cache, in nanoseconds: what moves them apart is the
/// hypervisor.
const FAR: f64 = 155.0;

/// Writes page and plots into a folder.
pub(super) fn write(costs: Costs, dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).context(dir.display())?;
    let far = Costs { line: FAR, ..costs };
    let model = &Model::fit(costs, ASSUMPTIONS[0]);
    let mut page = head(costs);
    page += &predictions(costs);
    let _ = write!(
        page,
        "\nThe same with {FAR} ns for a cache line from another processor:\n"
    );
    page += &predictions(far);
    let by_threads: [Column; 4] = [
        (
            "coarse locks",
            Box::new(|it| model.setup(Design::Coarse, it, PORTS).speed_up()),
        ),
        (
            "fine locks",
            Box::new(|it| model.setup(Design::Fine, it, PORTS).speed_up()),
        ),
        // Each shard has a socket.
        (
            CONSECUTIVE,
            Box::new(|it| model.coming_and_going(Design::Consecutive, it, it)),
        ),
        (
            RANDOM,
            Box::new(|it| model.coming_and_going(Design::Random, it, it)),
        ),
    ];
    let thesis = [
        ("thesis, coarse locks", (THREADS as f64, COARSE)),
        ("thesis, fine locks", (THREADS as f64, FINE)),
    ];
    page += "\n## By threads\n\nCDP has 8 ports, Suci one for each thread.\n\n";
    let plot = ("threads", "by-threads.svg");
    page += &part(dir, plot, &NUMBERS_OF_THREADS, &by_threads, &thesis)?;
    let threads = THREADS;
    let by_ports: [Column; 3] = [
        (
            "fine locks",
            Box::new(|it| model.setup(Design::Fine, threads, it).speed_up()),
        ),
        (
            CONSECUTIVE,
            Box::new(|it| model.coming_and_going(Design::Consecutive, threads, it)),
        ),
        (
            RANDOM,
            Box::new(|it| model.coming_and_going(Design::Random, threads, it)),
        ),
    ];
    let thesis = [("thesis, fine locks", (PORTS as f64, FINE))];
    page += "\n## By ports, 128 threads\n\nIn the thesis 8 ports suffice.\n\n";
    page += &part(
        dir,
        ("ports", "by-ports.svg"),
        &NUMBERS_OF_PORTS,
        &by_ports,
        &thesis,
    )?;
    let file = dir.join("README.md");
    std::fs::write(&file, page).context(file.display())?;
    println!("{}", file.display());
    Ok(())
}

fn head(costs: Costs) -> String {
    let mut page = "# The receive path on more cores than there are\n\n\
        Written by `make evaluate-cores`; [docs/cores.md](../../docs/cores.md) says what this is.\n\n"
        .to_owned();
    for (name, text) in machine::facts() {
        let _ = writeln!(page, "* {name}: {text}");
    }
    page += "\n| cost | ns |\n|---|---|\n";
    for (name, value) in costs.listed() {
        let _ = writeln!(page, "| {name} | {value:.1} |");
    }
    let _ = write!(
        page,
        "\n## Predictions for 128 threads\n\nThe thesis has {COARSE} with coarse locks, to which \
         the work for a packet is fitted, and {FINE} with\nfine ones, also with 8 ports. The first \
         line was chosen before costs were measured.\n"
    );
    page
}

/// Returns a table with a row for each assumption.
fn predictions(costs: Costs) -> String {
    let mut table = "\n| assumption | work, ns | coarse | fine, 8 ports | off | fine, 32 ports | \
                     8 suffice |\n|---|---|---|---|---|---|---|\n"
        .to_owned();
    for assumption in ASSUMPTIONS {
        let model = Model::fit(costs, assumption);
        let found = model.predict(PACKETS);
        let off = 100.0 * (found.fine / FINE - 1.0);
        let suffice = if found.eight_suffice() { "yes" } else { "no" };
        let _ = writeln!(
            table,
            "| {} | {:.0} | {:.2} | {:.1} | {off:+.0} % | {:.1} | {suffice} |",
            assumption.name, model.work, found.coarse, found.fine, found.more
        );
    }
    table
}

/// Writes a plot. Returns it with its table.
fn part(
    dir: &Path,
    (across, file): (&str, &str),
    rows: &[usize],
    columns: &[Column],
    thesis: &[(&'static str, (f64, f64))],
) -> Result<String> {
    let mut series: Vec<Series> = Vec::new();
    for (name, speed_up) in columns {
        let points = rows
            .iter()
            .map(|row| Point::new(*row as f64, speed_up(*row)));
        series.push(Series {
            name: (*name).to_owned(),
            points: points.collect(),
        });
    }
    let mut table = format!("| {across} |");
    for (name, _) in columns {
        let _ = write!(table, " {name} |");
    }
    table += &format!("\n|---|{}\n", "---|".repeat(columns.len()));
    for (at, row) in rows.iter().enumerate() {
        let _ = write!(table, "| {row} |");
        for value in series.iter().filter_map(|it| it.points.get(at)) {
            let _ = write!(table, " {:.1} |", value.y());
        }
        table.push('\n');
    }
    let svg = picture(across, series, thesis).svg().context(file)?;
    std::fs::write(dir.join(file), svg).context(file)?;
    Ok(format!("![Speed-up by {across}]({file})\n\n{table}"))
}

/// Speed-ups beside those of the thesis. Multiples tell apart what lies near the ideal.
fn picture(across: &str, series: Vec<Series>, thesis: &[(&str, (f64, f64))]) -> Picture {
    let (ours, others): (Vec<_>, Vec<_>) = series
        .into_iter()
        .partition(|it| it.name.starts_with("suci"));
    let mut panel = Panel {
        title: format!("Speed-up by {across}"),
        better: Better::Higher,
        across: Axis::logarithmic(across, Unit::Count),
        up: Axis::logarithmic("speed-up", Unit::Times),
        series: [ours, others].concat(),
    };
    let relative = Panel {
        title: format!("Speed-up by {across}, beside fine locks"),
        ..panel.relative_to("fine locks")
    };
    panel
        .series
        .extend(thesis.iter().map(|(name, (x, y))| Series {
            name: (*name).to_owned(),
            points: vec![Point::new(*x, *y)],
        }));
    let panels = vec![panel, relative];
    Picture { panels }
}
