//! Rounds of turns.

use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use xtask::distance::Placement;
use xtask::error::{Context, Failure, Result};
use xtask::exec;

use crate::RunArgs;
use crate::contenders::Contender;
use crate::launch::{Programs, Site, Turn};
use crate::machine::Machine;
use crate::plan::{self, Entrant};
use crate::progress::Progress;
use crate::report::{self, Row};
use crate::store::{self, Key, Outcome, Record, Store};
use crate::{idle, table, tree};

/// Turns of at least this many seconds see several placements of virtual processors, wherever those
/// are before and after.
const STEADY: f64 = 1.0;

/// The most times that a round begins again because the processors were moved to stay.
const MOST_MOVES: u32 = 10;

/// A task, its entrants, and the number of rounds that were measured already.
struct Job {
    key: Key,
    entrants: Vec<Entrant>,
    earlier: u32,
}

/// Measures the tasks that were asked for and are not there yet.
pub(crate) fn all(args: &RunArgs) -> Result<()> {
    let tasks = plan::tasks(args);
    if tasks.is_empty() {
        return Err(Failure::new(
            "no task has such a name; `cargo xtask bench list` names them",
        ));
    }
    plan::check(args)?;
    let (commit, machine) = (tree::name()?, Machine::this());
    let mut store = match args.busy {
        true => Store::nowhere(),
        false => Store::open(&args.out)?,
    };
    let programs = Programs::find(&args.suci)?;
    let mut absent = Absent::new(&programs);
    let jobs: Vec<Job> = tasks
        .into_iter()
        .map(|task| {
            let mut entrants = plan::entrants(&task, args);
            entrants.retain(|entrant| !absent.has(entrant.contender));
            let key = Key {
                commit: commit.clone(),
                machine: machine.clone(),
                lasts: task.seconds(args.seconds),
                task,
            };
            Job {
                earlier: store.complete(&key, &entrants),
                key,
                entrants,
            }
        })
        .collect();
    let mut progress = Progress::new(jobs.iter().map(|job| planned(job, args)).sum());
    progress.say(
        &format!(
            "{commit}: {} tasks, {} rounds each",
            jobs.len(),
            args.rounds
        ),
        true,
    );
    for (name, why) in &absent.reasons {
        progress.tell(&format!("{name} is left out: {why}"));
    }
    let mut placement = None;
    for job in &jobs {
        rounds(
            &programs,
            job,
            args,
            &mut placement,
            &mut store,
            &mut progress,
        )?;
        let mut records = store.of(&job.key);
        records.retain(|record| job.entrants.iter().any(|entrant| record.is_of(entrant)));
        progress.tell("");
        print(&report::rows(&job.key, &records), job.earlier, args.json)?;
        if args.json {
            print_fruitless(&records)?;
        }
        for (who, why) in report::failures(&records) {
            progress.tell(&format!("{}: {who}: {why}", job.key.task.name()));
        }
    }
    Ok(())
}

/// Contenders that cannot be built or started here. That is no failure to keep: it ends when
/// something is installed.
struct Absent<'a> {
    programs: &'a Programs,
    seen: Vec<&'static str>,
    reasons: Vec<(&'static str, Failure)>,
}

impl<'a> Absent<'a> {
    fn new(programs: &'a Programs) -> Self {
        Self {
            programs,
            seen: Vec::new(),
            reasons: Vec::new(),
        }
    }

    fn has(&mut self, contender: &'static Contender) -> bool {
        let name = contender.name;
        if !self.seen.contains(&name) {
            self.seen.push(name);
            let why = self.programs.prepare(contender).err();
            self.reasons.extend(why.map(|why| (name, why)));
        }
        self.reasons.iter().any(|(absent, _)| *absent == name)
    }
}

fn planned(job: &Job, args: &RunArgs) -> Duration {
    let turns = u32::try_from(job.entrants.len()).unwrap_or(u32::MAX);
    let rounds = args.rounds.saturating_sub(job.earlier);
    Progress::turn(job.key.lasts).saturating_mul(turns.saturating_mul(rounds))
}

fn print(rows: &[Row], earlier: u32, json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        for row in rows {
            let mut row = serde_json::to_value(row)?;
            row["earlier"] = earlier.into();
            writeln!(out, "{row}")?;
        }
    } else {
        writeln!(out, "{}", table::plain(rows))?;
    }
    Ok(())
}

/// Contenders that take part and have no row, so that readers of the rows miss none.
fn print_fruitless(records: &[Record]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for (contender, wait, failures) in report::fruitless(records) {
        let wait = serde_json::to_value(wait)?;
        let row = json!({"contender": contender, "wait": wait, "rounds": 0, "failures": failures});
        writeln!(out, "{row}")?;
    }
    Ok(())
}

/// All rounds of one task that are missing.
fn rounds(
    programs: &Programs,
    job: &Job,
    args: &RunArgs,
    placement: &mut Option<Placement>,
    store: &mut Store,
    progress: &mut Progress,
) -> Result<()> {
    let Job { key, earlier, .. } = job;
    let name = key.task.name();
    if *earlier > 0 {
        progress.tell(&format!("{name}: {earlier} rounds were measured before"));
    }
    if *earlier >= args.rounds {
        return Ok(());
    }
    let site = Site::new(key.task.net)?;
    let steady = !args.busy && key.lasts < STEADY;
    let mut run = Vec::new();
    for done in *earlier..args.rounds {
        let title = format!("{name}: round {} of {}", done + 1, args.rounds);
        if !args.busy {
            idle::wait(|busy| {
                let busy = 100.0 * busy;
                let waits = format!("{title} waits: {busy:.0} % of the machine is in use");
                progress.say(&waits, true);
            })?;
        }
        progress.say(&title, done == *earlier);
        let number = store.next_round(key);
        let mut moves = 0;
        let turns = loop {
            if steady && placement.is_none() {
                *placement = Some(Placement::usual()?);
            }
            let here = placement.filter(|_| steady);
            let measure = |entrant: &Entrant| {
                let turn = || programs.turn(&site, &key.task, *entrant, key.lasts);
                here.map_or_else(|| Ok(Some(turn())), |placement| placement.steady(turn))
            };
            if let Some(mut turns) = round(job, number, &run, progress, measure)? {
                let apart = here.map(|placement| placement.nanoseconds());
                turns.iter_mut().for_each(|turn| turn.apart = apart);
                break turns;
            }
            moves += 1;
            if moves == MOST_MOVES {
                return Err(Failure::new(
                    "the hypervisor keeps moving the processors: run this again later, the rounds that are over are kept",
                ));
            }
            progress.tell(&format!(
                "{title} begins again: the processors were moved for good"
            ));
            *placement = None;
        };
        run.extend(turns.iter().cloned());
        store.add(turns)?;
    }
    Ok(())
}

/// Runs one round: a turn of each entrant. For an entrant that has failed too often in this run it
/// records why there is none. Returns nothing if an entrant cannot be measured where the others
/// were.
fn round(
    job: &Job,
    number: u32,
    run: &[Record],
    progress: &mut Progress,
    measure: impl Fn(&Entrant) -> Result<Option<Result<Turn>>>,
) -> Result<Option<Vec<Record>>> {
    let Job { key, entrants, .. } = job;
    let day = today()?;
    let mut turns = Vec::new();
    // The order alternates: the last of one round is the first of the next, so that none always
    // follows another.
    let mut order: Vec<&Entrant> = entrants.iter().collect();
    if number % 2 == 1 {
        order.reverse();
    }
    for entrant in order {
        progress.passed(Progress::turn(key.lasts));
        let outcome = match store::given_up(run, entrant) {
            Some(why) => Outcome::Failed(why.to_owned()),
            None => match measure(entrant)? {
                None => return Ok(None),
                Some(Ok(turn)) => Outcome::Turn(turn),
                Some(Err(failure)) => Outcome::Failed(failure.to_string()),
            },
        };
        turns.push(Record {
            commit: key.commit.clone(),
            machine: key.machine.clone(),
            day: day.clone(),
            task: key.task.clone(),
            lasts: key.lasts,
            round: number,
            contender: entrant.contender.name.to_owned(),
            wait: entrant.wait,
            apart: None,
            outcome,
        });
    }
    Ok(Some(turns))
}

fn today() -> Result<String> {
    let date = exec::capture(Command::new("date").args(["-u", "+%-d %B %Y"]));
    Ok(date.context("date")?.trim().to_owned())
}
