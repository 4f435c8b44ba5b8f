//! `cargo xtask tableau`: the effect of user-level flow control on a program with urgent and with
//! bulk messages.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use suci_plot::{Axis, Better, Panel, Picture, Point, Series, Unit};

use crate::error::{Context, Failure, Result};
use crate::exec::{self, Process};
use crate::netns::{Netns, Pair};
use crate::show::median;

/// Workers that are compared.
const WORKERS: [u32; 4] = [1, 2, 3, 4];

/// The slow link: Mbit/s each way, and the length of its queues in milliseconds.
pub(crate) const SLOW: u32 = 20;
const QUEUE_MS: u32 = 50;

/// Workers at its other end.
pub(crate) const APART: u32 = 2;

/// Port of the first process of each host.
const PORT: u16 = 7_400;

/// The lines around the figures in RESULTS.md.
const BEGIN: &str = "<!-- written by cargo xtask tableau -->\n";
const END: &str = "<!-- end -->\n";

/// Promises side by side, each kept `delay` moments after it was made. The tableau counts open
/// promises, in 3 times 2 to the power of all delays states. No model: the last two parts
/// contradict one another.
pub(crate) fn promises(delays: &[usize]) -> String {
    let numbered = delays.iter().enumerate();
    let parts: Vec<String> = numbered
        .map(|(i, delay)| format!("G(p{i} -> {}q{i})", "X ".repeat(*delay)))
        .collect();
    format!("{} & G F z & F G !z", parts.join(" & "))
}

/// The results of one run.
pub(crate) struct Outcome {
    /// The answer to the formula.
    pub(crate) answer: bool,
    /// Its time.
    pub(crate) seconds: f64,
    /// The output of `--stats`.
    stats: Value,
}

/// The two programs of a run.
pub(crate) struct Programs {
    suci: PathBuf,
    tableau: PathBuf,
}

impl Programs {
    /// Release builds.
    pub(crate) fn build() -> Result<Self> {
        let packages = ["-p", "suci-cli", "-p", "tableau"];
        let build = ["build", "-q", "--locked", "--release"].into_iter();
        exec::run(&mut exec::cargo(build.chain(packages)))?;
        let release = exec::target_dir().join("release");
        Ok(Self {
            suci: release.join("suci"),
            tableau: release.join("tableau"),
        })
    }

    /// The time of the same program in one process.
    fn alone(&self, formula: &str) -> Result<f64> {
        let mut command = Command::new(&self.tableau);
        // Its status is the answer.
        let done = command.args(["--json", formula]).output();
        let done = done.context("tableau")?;
        let said = String::from_utf8_lossy(&done.stderr);
        let answer: Value = serde_json::from_slice(&done.stdout).context(said)?;
        answer["seconds"].as_f64().context("no time")
    }

    /// Asks about one formula with this many workers, all on this machine.
    pub(crate) fn run(&self, workers: u32, modes: bool, formula: &str) -> Result<Outcome> {
        let mut command = Command::new(&self.suci);
        command.args(["run", "-n", &(workers + 1).to_string(), "--"]);
        command.arg(&self.tableau);
        Self::ask(command, modes, formula)
    }

    /// The same over a link of [`SLOW`]: process 0 is alone at one end, the workers are at the
    /// other.
    pub(crate) fn run_apart(&self, workers: u32, modes: bool, formula: &str) -> Result<Outcome> {
        let pair = Pair::across_switch(SLOW, QUEUE_MS)?;
        let book = tempfile::NamedTempFile::new()?;
        let mut lines = format!("0 {}:{PORT}\n", pair.a_addr());
        for (id, port) in (1..=workers).zip(PORT..) {
            let _ = writeln!(lines, "{id} {}:{port}", pair.b_addr());
        }
        std::fs::write(book.path(), lines)?;
        let place = |host: &Netns, id: u32| {
            let mut command = host.command(&self.tableau);
            command.env("SUCI_ID", id.to_string());
            command.env("SUCI_SIZE", (workers + 1).to_string());
            command.env("SUCI_BOOK", book.path()).arg("--plain");
            command
        };
        let mut others = Vec::new();
        for id in 1..=workers {
            let mut worker = place(&pair.b, id);
            worker.args(["--modes", switched(modes)]);
            others.push(Process::spawn(worker.stdout(Stdio::null()))?);
        }
        Self::ask(place(&pair.a, 0), modes, formula)
    }

    fn ask(mut command: Command, modes: bool, formula: &str) -> Result<Outcome> {
        let stats = tempfile::NamedTempFile::new()?;
        command.args(["--json", "--modes", switched(modes)]);
        command.arg("--stats").arg(stats.path()).arg(formula);
        // Its status is the answer.
        let done = command.output().context("tableau")?;
        let said = String::from_utf8_lossy(&done.stdout);
        let answer: Value =
            serde_json::from_str(&said).context(String::from_utf8_lossy(&done.stderr))?;
        let stats = std::fs::read_to_string(stats.path())?;
        Ok(Outcome {
            answer: answer["answer"] == true,
            seconds: answer["seconds"].as_f64().context("no time")?,
            stats: serde_json::from_str(&stats).context("--stats")?,
        })
    }
}

fn switched(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

impl Outcome {
    /// A figure of the round trips.
    pub(crate) fn round_trip(&self, which: &str) -> f64 {
        self.stats["round_trips"][which]
            .as_f64()
            .unwrap_or(f64::NAN)
    }

    /// The sum over all processes of the number at the end of `path`.
    fn sum(&self, path: &[&str]) -> f64 {
        let workers = self.stats["each_worker"].as_array();
        let processes = workers.into_iter().flatten().chain([&self.stats["hub"]]);
        let at = |process: &Value| {
            let end = path.iter().fold(process, |value, key| &value[key]);
            end.as_f64().unwrap_or(0.0)
        };
        processes.map(at).sum()
    }

    /// The reasons for which messages waited.
    fn reasons(&self) -> Vec<String> {
        let waits = self.stats["hub"]["waits_seconds"].as_object();
        waits
            .into_iter()
            .flatten()
            .map(|(reason, _)| reason.clone())
            .collect()
    }
}

/// The rounds of one setting.
struct Setting {
    workers: u32,
    modes: bool,
    rounds: Vec<Outcome>,
}

/// Settings with modes on and off, for each number of workers.
fn settings(workers: &[u32]) -> Vec<Setting> {
    let both = |workers: &u32| {
        let workers = *workers;
        [true, false].map(|modes| Setting {
            workers,
            modes,
            rounds: Vec::new(),
        })
    };
    workers.iter().flat_map(both).collect()
}

impl Setting {
    fn median(&self, figure: impl Fn(&Outcome) -> f64) -> f64 {
        median(self.rounds.iter().map(figure).collect())
    }

    fn add(&mut self, outcome: Outcome) -> Result<()> {
        if outcome.answer {
            return Err(Failure::new("a model where there is none"));
        }
        self.rounds.push(outcome);
        Ok(())
    }

    fn seconds(&self) -> f64 {
        self.median(|one| one.seconds)
    }

    fn row(&self, one_worker: Option<f64>) -> String {
        let reasons = self
            .rounds
            .first()
            .map(Outcome::reasons)
            .unwrap_or_default();
        let mut waits = Vec::new();
        for reason in &reasons {
            let seconds = self.median(|one| one.sum(&["waits_seconds", reason]));
            if seconds >= 0.005 {
                waits.push(format!("{} {seconds:.2}", reason.replace('_', " ")));
            }
        }
        let spread = |figure: fn(&Outcome) -> f64, digits: usize| {
            let all = self.rounds.iter().map(figure);
            let (least, most) = all.fold((f64::MAX, 0.0_f64), |(a, b), x| (a.min(x), b.max(x)));
            let median = self.median(figure);
            format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
        };
        format!(
            "| {} | {} | {} | {} | {:.0} | {:.1} | {:.0} | {} | {:.2} | {} |\n",
            self.workers,
            switched(self.modes),
            spread(|one| one.seconds, 2),
            one_worker.map_or_else(String::new, |one| format!("{:.2}", one / self.seconds())),
            self.median(|one| one.sum(&["messages"])),
            self.median(|one| one.sum(&["bytes"])) / 1e6,
            self.median(|one| one.round_trip("p50_us")),
            spread(|one| one.round_trip("p99_us"), 0),
            self.median(|one| one.sum(&["rested_seconds"])),
            waits.join(", "),
        )
    }
}

/// Runs all settings in turns, writes the table into `examples/tableau/RESULTS.md` and the plot
/// beside it.
///
/// # Errors
/// A run fails, gives a wrong answer, or the files cannot be written.
pub fn evaluate(rounds: u32) -> Result<()> {
    let place = exec::root().join("examples/tableau");
    // A page that cannot take the table is better known before than after an hour.
    insert(&place.join("RESULTS.md"), None)?;
    let programs = Programs::build()?;
    let formula = promises(&[2, 3, 4, 5]);
    let (mut near, mut apart) = (settings(&WORKERS), settings(&[APART]));
    let mut alone = Vec::new();
    for _ in 0..rounds {
        alone.push(programs.alone(&formula)?);
        for setting in &mut near {
            setting.add(programs.run(setting.workers, setting.modes, &formula)?)?;
        }
        for setting in &mut apart {
            setting.add(programs.run_apart(setting.workers, setting.modes, &formula)?)?;
        }
    }
    let alone = median(alone);
    let mut page = format!(
        "`{formula}`, no model; {} cores; medians of {rounds} rounds in turns (and least to most). One process \
         without workers: {alone:.2} s. Round trips are known to an eighth of a power of two.\n\n",
        std::thread::available_parallelism().map_or(0, usize::from)
    );
    page += &table(&near);
    let _ = write!(
        page,
        "\nProcess 0 alone at one end of a link of {SLOW} Mbit/s with a queue of {QUEUE_MS} ms, the workers at the \
         other:\n\n{}",
        table(&apart)
    );
    print!("{page}");
    insert(&place.join("RESULTS.md"), Some(&page))?;
    draw(&place.join("results.svg"), &near)
}

fn table(settings: &[Setting]) -> String {
    let mut table = String::from(
        "| workers | modes | s | speed-up over one | messages | MB | numbering: p50 us | p99 us | workers at rest, s | \
         messages waited, s |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for setting in settings {
        let one = settings
            .iter()
            .find(|one| one.workers == 1 && one.modes == setting.modes);
        let one_worker = one.map(Setting::seconds);
        let _ = write!(table, "{}", setting.row(one_worker));
    }
    table
}

/// Puts the table where the last one was; without one only sees whether it can.
fn insert(page: &Path, table: Option<&str>) -> Result<()> {
    let text = std::fs::read_to_string(page).context(page.display())?;
    let lost = || format!("{} lost its marks", page.display());
    let (before, rest) = text.split_once(BEGIN).context(lost())?;
    let (_, after) = rest.split_once(END).context(lost())?;
    let Some(table) = table else { return Ok(()) };
    std::fs::write(page, format!("{before}{BEGIN}{table}{END}{after}")).context(page.display())
}

/// Time and p99 over workers.
fn draw(file: &Path, settings: &[Setting]) -> Result<()> {
    let panel = |title: &str, name: &str, scale: f64, figure: &dyn Fn(&Outcome) -> f64| {
        let series = [true, false].map(|modes| {
            let own = settings.iter().filter(|setting| setting.modes == modes);
            let spread = |setting: &Setting| {
                let figures: Vec<f64> = setting.rounds.iter().map(figure).collect();
                let point = Point::of_rounds(f64::from(setting.workers), &figures)?;
                Some(point.scaled(scale))
            };
            Series {
                name: format!("modes {}", switched(modes)),
                points: own.filter_map(spread).collect(),
            }
        });
        Panel {
            title: title.to_owned(),
            better: Better::Lower,
            across: Axis::linear("workers", Unit::Count),
            up: Axis::linear(name, Unit::Seconds),
            series: series.into(),
        }
    };
    let p99 = |one: &Outcome| one.round_trip("p99_us");
    let time = panel("A formula without a model", "time", 1.0, &|one| one.seconds);
    let numbering = panel("Round trips of numbering", "99th percentile", 1e-6, &p99);
    let picture = Picture {
        panels: vec![time, numbering],
    };
    std::fs::write(file, picture.svg().context(file.display())?).context(file.display())
}
