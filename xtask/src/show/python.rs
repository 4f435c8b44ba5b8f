//! The Python package, as `make python` installs it, beside what Python programs use today.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::{Ctx, Figure, Line, median};
use crate::error::{Context, Failure, Result};
use crate::exec;

/// Of pyzmq's time at most this part, for 64 B with calls that block.
const MOST_OF_PYZMQ: f64 = 0.8;

/// Of tcp's rate at least this part, for frames of 64 MiB between two workers of Dask.
const LEAST_OF_TCP: f64 = 1.2;

/// Rounds in turns.
const ROUNDS: &str = "5";

pub(super) const LINES: &[Line] = &[
    Line {
        name: "wheel",
        must: "a new virtual environment takes the wheel without a network, and runs README's five lines",
        run: wheel,
    },
    Line {
        name: "manylinux",
        must: "auditwheel finds manylinux_2_28 or older in a wheel of make python-wheels",
        run: |_| manylinux(),
    },
    Line {
        name: "round-trip",
        must: "64 B, blocking: 0.8 of pyzmq's time; the medians of all contenders in us, without a bound for the rest",
        run: round_trip,
    },
    Line {
        name: "dask-tests",
        must: "test_comms and test_core of distributed, suci in place of tcp: none fails that passes over tcp (DISTRIBUTED_SOURCE names a clone)",
        run: dask_tests,
    },
    Line {
        name: "dask-transfer",
        must: "frames of 64 MiB between two processes: 1.2 of tcp's rate",
        run: dask_transfer,
    },
    Line {
        name: "dask-sum",
        must: "the sum of a transposed array on 4 workers takes no longer than over tcp",
        run: dask_sum,
    },
    Line {
        name: "endurance",
        must: "a million messages, 100,000 cancelled awaits: none lost; no memory, no descriptors left",
        run: |_| endurance(),
    },
];

/// The folder of the bindings.
fn bindings() -> PathBuf {
    exec::root().join("bindings/python")
}

/// A program of the environment that `make python` made.
fn installed(name: &str) -> Result<Command> {
    let path = exec::target_dir().join("python/bin").join(name);
    match path.is_file() {
        true => Ok(Command::new(path)),
        false => Err(Failure::new(format!(
            "{} is not there: run make python first",
            path.display()
        ))),
    }
}

/// Runs a program of `bindings/python/bench`.
fn bench(program: &str) -> Result<Command> {
    let mut python = installed("python")?;
    python.arg(bindings().join("bench").join(program));
    Ok(python)
}

/// Runs a program that writes its figures as JSON.
fn figures(ctx: &Ctx, command: &mut Command) -> Result<Value> {
    let file = ctx.scratch("python.json");
    command.arg("--json").arg(&file);
    exec::capture(command)?;
    let text = std::fs::read_to_string(&file)?;
    serde_json::from_str(&text).map_err(|error| Failure::new(error.to_string()))
}

/// The median of a list of numbers at `path`.
fn median_at(value: &Value, path: &[&str]) -> Result<f64> {
    let at = path.iter().try_fold(value, |value, key| value.get(key));
    let numbers = at.and_then(Value::as_array).context(path.join("."))?;
    Ok(median(numbers.iter().filter_map(Value::as_f64).collect()))
}

/// The wheels in a folder of the bindings.
fn wheels(folder: &str) -> Result<Vec<PathBuf>> {
    let folder = bindings().join(folder);
    let missing = || {
        format!(
            "{}: run make python or make python-wheels",
            folder.display()
        )
    };
    let entries = std::fs::read_dir(&folder).context(missing())?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let paths: Vec<PathBuf> = paths.collect::<Result<_>>()?;
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|end| end == "whl");
    let found: Vec<PathBuf> = paths.into_iter().filter(is_wheel).collect();
    match found.is_empty() {
        true => Err(Failure::new(missing())),
        false => Ok(found),
    }
}

fn wheel(ctx: &Ctx) -> Result<Figure> {
    let environment = ctx.scratch("python-environment");
    exec::capture(installed("python")?.args(["-m", "venv"]).arg(&environment))?;
    let mut pip = Command::new(environment.join("bin/pip"));
    pip.args(["install", "-q", "--no-index", "--no-deps"]);
    exec::capture(pip.args(wheels("dist")?))?;
    let page = std::fs::read_to_string(bindings().join("README.md"))?;
    let (_, from) = page.split_once("```python\n").context("README's program")?;
    let (program, _) = from.split_once("```").context("its end")?;
    let mut python = Command::new(environment.join("bin/python"));
    let said = exec::capture(python.args(["-c", program]))?;
    Ok(Figure::new(
        said == "b'hello'\n",
        format!("it prints {said:?}"),
    ))
}

fn manylinux() -> Result<Figure> {
    let (mut texts, mut holds) = (Vec::new(), true);
    for wheel in wheels("dist/manylinux")? {
        let said = exec::capture(installed("auditwheel")?.arg("show").arg(&wheel))?;
        let tag = said.split('"').find(|part| part.starts_with("manylinux_"));
        let tag = tag.context("auditwheel names no tag")?;
        let minor = tag.strip_prefix("manylinux_2_");
        let minor = minor.and_then(|rest| rest.split('_').next()?.parse::<u32>().ok());
        holds &= minor.is_some_and(|minor| minor <= 28);
        texts.push(tag.to_owned());
    }
    Ok(Figure::new(holds, texts.join(", ")))
}

fn round_trip(ctx: &Ctx) -> Result<Figure> {
    let report = figures(ctx, bench("round_trip.py")?.args(["--rounds", ROUNDS]))?;
    let contenders = report.get("round_trip").and_then(Value::as_object);
    let contenders = contenders.context("round_trip")?;
    let mut texts = Vec::new();
    for size in ["64 B", "1 MiB"] {
        for name in contenders.keys() {
            let time = median_at(&report, &["round_trip", name, size])?;
            texts.push(format!("{name} {size} {time:.1}"));
        }
    }
    let own = median_at(&report, &["round_trip", "suci", "64 B"])?;
    let pyzmq = median_at(&report, &["round_trip", "pyzmq", "64 B"])?;
    let part = own / pyzmq;
    let text = format!("{part:.2} of pyzmq; {}", texts.join(", "));
    Ok(Figure::new(part <= MOST_OF_PYZMQ, text))
}

fn dask_tests(ctx: &Ctx) -> Result<Figure> {
    let report = figures(ctx, &mut bench("distributed_tests.py")?)?;
    let worse = report.get("worse").and_then(Value::as_array);
    let worse = worse.context("worse")?.len();
    let fails =
        |protocol| -> Option<usize> { Some(report.get("fails")?.get(protocol)?.as_array()?.len()) };
    let (suci, tcp) = (fails("suci").context("suci")?, fails("tcp").context("tcp")?);
    let text = format!("{suci} fail, {tcp} over tcp");
    Ok(Figure::new(worse == 0, text))
}

/// Runs one part of `dask_transfer.py`. Returns the medians of suci and tcp.
fn beside_tcp(ctx: &Ctx, part: &str) -> Result<(f64, f64)> {
    let mut command = bench("dask_transfer.py")?;
    command.args(["--only", part, "--rounds", ROUNDS]);
    let report = figures(ctx, &mut command)?;
    let suci = median_at(&report, &[part, "suci"])?;
    Ok((suci, median_at(&report, &[part, "tcp"])?))
}

fn dask_transfer(ctx: &Ctx) -> Result<Figure> {
    let (suci, tcp) = beside_tcp(ctx, "transfer")?;
    let text = format!("{suci:.0} MB/s, tcp {tcp:.0}: {:.2}", suci / tcp);
    Ok(Figure::new(suci >= LEAST_OF_TCP * tcp, text))
}

fn dask_sum(ctx: &Ctx) -> Result<Figure> {
    let (suci, tcp) = beside_tcp(ctx, "sum")?;
    let text = format!("{suci:.2} s, tcp {tcp:.2} s");
    Ok(Figure::new(suci <= tcp, text))
}

fn endurance() -> Result<Figure> {
    let mut command = bench("endurance.py")?;
    command.args(["--messages", "1000000", "--cancels", "100000"]);
    let said = exec::capture(&mut command)?;
    let lines: Vec<&str> = said.lines().collect();
    Ok(Figure::new(true, lines.join("; ")))
}
