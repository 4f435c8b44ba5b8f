//! Rounds of turns.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::time::Duration;

use xtask::error::{Context, Failure, Result};

use crate::RunArgs;
use crate::launch::{Programs, Site};
use crate::plan::{self, Entrant, Task};
use crate::progress::Progress;
use crate::report::{self, Row, Series};
use crate::{idle, table};

/// Measures everything that was asked for.
pub(crate) fn all(args: &RunArgs) -> Result<()> {
    let tasks = plan::tasks(args);
    if tasks.is_empty() {
        return Err(Failure::new(
            "no task has such a name; `suci-bench list` names them",
        ));
    }
    let plan: Vec<(Task, Vec<Entrant>)> = tasks
        .into_iter()
        .map(|task| {
            let entrants = plan::entrants(&task, args);
            (task, entrants)
        })
        .collect();
    let programs = Programs::find(&args.suci)?;
    let mut out = opened(&args.out)?;
    let mut progress = Progress::new(planned(&plan, args));
    progress.say(
        &format!("{} tasks, {} rounds each", plan.len(), args.rounds),
        true,
    );
    for (task, entrants) in &plan {
        let series = rounds(&programs, task, entrants, args, &mut progress)?;
        let rows = report::rows(task, &series);
        progress.tell("");
        print(&rows, args.json)?;
        for row in &rows {
            writeln!(out, "{}", serde_json::to_string(row)?)?;
        }
        for failed in series.iter().filter_map(|series| series.failed.as_deref()) {
            progress.tell(&format!("left out of {}: {failed}", task.name()));
        }
    }
    Ok(())
}

fn opened(path: &std::path::Path) -> Result<File> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.context(path.display())
}

fn planned(plan: &[(Task, Vec<Entrant>)], args: &RunArgs) -> Duration {
    let of = |(task, entrants): &(Task, Vec<Entrant>)| {
        let turns = u32::try_from(entrants.len())
            .unwrap_or(u32::MAX)
            .saturating_mul(args.rounds);
        Progress::turn(task, args.seconds).saturating_mul(turns)
    };
    plan.iter().map(of).sum()
}

fn print(rows: &[Row], json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if json {
        for row in rows {
            writeln!(out, "{}", serde_json::to_string(row)?)?;
        }
    } else {
        writeln!(out, "{}", table::plain(rows))?;
    }
    Ok(())
}

/// All rounds of one task.
fn rounds(
    programs: &Programs,
    task: &Task,
    entrants: &[Entrant],
    args: &RunArgs,
    progress: &mut Progress,
) -> Result<Vec<Series>> {
    let site = Site::new(task.net)?;
    let seconds = task.seconds(args.seconds);
    let mut all: Vec<Series> = entrants
        .iter()
        .map(|&entrant| Series {
            entrant,
            turns: Vec::new(),
            failed: None,
        })
        .collect();
    for round in 0..args.rounds {
        let title = format!("{}: round {} of {}", task.name(), round + 1, args.rounds);
        if !args.busy {
            idle::wait(|busy| {
                let busy = 100.0 * busy;
                let waits = format!("{title} waits: {busy:.0} % of the machine is in use");
                progress.say(&waits, true);
            })?;
        }
        progress.say(&title, round == 0);
        let count = all.len();
        for turn in 0..count {
            // There and back: whoever went last goes first, so that none always follows another.
            let at = if round % 2 == 0 {
                turn
            } else {
                count - 1 - turn
            };
            let Some(series) = all.get_mut(at) else {
                continue;
            };
            progress.passed(Progress::turn(task, args.seconds));
            if series.failed.is_some() {
                continue;
            }
            match programs.turn(&site, task, series.entrant, seconds) {
                Ok(turn) => series.turns.push(turn),
                Err(failure) => series.failed = Some(failure.to_string()),
            }
        }
    }
    Ok(all)
}
