//! Counts the closed knight's tours of a board.
//!
//! All closed tours go through the corner, which has two ways out: one is taken as the first step
//! and the other as the last, so that each tour is found once. Beginnings of tours are the tasks.

use clap::Args;
use serde_json::{Value, json};
use suci::Bytes;

use crate::args::whole;
use crate::farm::{self, Ready, Tasks, Tick};
use crate::process::Process;
use crate::program::{Program, Told};
use crate::progress::Progress;
use crate::transport::Result;

/// Squares are the bits of a word.
const MOST_SQUARES: u32 = 64;

/// Tasks at least, if the board is large enough: many for each process, since some take long.
const TASKS: usize = 1_000;

/// Steps between two looks for messages.
const STEPS: u32 = 4_096;

/// Counts the closed knight's tours of a board
#[derive(Args)]
pub(crate) struct Knights {
    /// Rows of the board; it has at most 64 squares
    #[arg(value_parser = whole(1, 64), allow_negative_numbers = true)]
    rows: u32,
    /// Columns of the board
    #[arg(value_parser = whole(1, 64), allow_negative_numbers = true)]
    columns: u32,
}

/// The beginning of a tour.
#[derive(Clone, Copy)]
struct Path {
    at: u32,
    /// Squares that were not visited, as bits.
    free: u64,
}

struct Board {
    /// The squares that a knight reaches from each square, as bits.
    moves: Vec<u64>,
    /// The last square of each tour, as a bit.
    last: u64,
}

impl Board {
    fn new(rows: u32, columns: u32) -> Self {
        let reach = |square: u32| {
            let (row, column) = (square / columns, square % columns);
            let is_reached = |other: &u32| {
                let down = row.abs_diff(other / columns);
                let across = column.abs_diff(other % columns);
                down * across == 2
            };
            let reached = (0..rows * columns).filter(is_reached);
            reached.fold(0, |all, other| all | 1 << other)
        };
        let moves: Vec<u64> = (0..rows * columns).map(reach).collect();
        let ways = moves.first().copied().unwrap_or_default();
        // The higher of the corner's two ways.
        Self {
            moves,
            last: ways & ways.wrapping_sub(1),
        }
    }

    fn reached(&self, square: u32) -> u64 {
        self.moves.get(square as usize).copied().unwrap_or_default()
    }

    /// The first step from the corner, unless there can be no tour: a knight changes the colour
    /// with each step, so the number of squares must be even.
    fn begin(&self) -> Option<Path> {
        let squares = u32::try_from(self.moves.len()).unwrap_or(MOST_SQUARES);
        let ways = self.reached(0);
        let can_be = squares.is_multiple_of(2) && ways.count_ones() == 2;
        can_be.then(|| {
            let at = ways.trailing_zeros();
            let all = u64::MAX >> (MOST_SQUARES - squares);
            Path {
                at,
                free: all & !1 & !(1 << at),
            }
        })
    }

    fn is_tour(&self, path: Path) -> bool {
        path.free == 0
    }

    /// The next steps that may lead to a tour.
    fn steps(&self, path: Path) -> impl Iterator<Item = Path> {
        let beside = self.reached(path.at) & path.free;
        // The last square is the last.
        let open = match path.free == self.last {
            true => beside,
            false => beside & !self.last,
        };
        let paths = squares(open).map(move |at| Path {
            at,
            free: path.free & !(1 << at),
        });
        paths.filter(move |next| self.has_ways(beside & next.free, *next))
    }

    /// Returns true if each of `left`, the squares beside the one that was left, can still be
    /// entered and, unless it is the last, left again.
    fn has_ways(&self, left: u64, path: Path) -> bool {
        squares(left).all(|square| {
            let ways = self.reached(square) & (path.free | 1 << path.at);
            ways.count_ones() >= if 1 << square == self.last { 1 } else { 2 }
        })
    }

    /// Counts the tours that begin so.
    fn count(&self, path: Path, steps: &mut u32, tick: Tick<'_>) -> Result<u64> {
        if self.is_tour(path) {
            return Ok(1);
        }
        *steps += 1;
        if steps.is_multiple_of(STEPS) {
            tick()?;
        }
        let mut tours = 0;
        for next in self.steps(path) {
            tours += self.count(next, steps, tick)?;
        }
        Ok(tours)
    }

    /// Beginnings of equal length that all tours have, at least [`TASKS`] if there are as many.
    fn beginnings(&self) -> Vec<Path> {
        let mut paths: Vec<Path> = self.begin().into_iter().collect();
        for _ in 0..self.moves.len() / 2 {
            if paths.len() >= TASKS {
                break;
            }
            paths = paths.iter().flat_map(|path| self.steps(*path)).collect();
        }
        paths
    }
}

/// The squares of these bits.
fn squares(mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let square = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (square < MOST_SQUARES).then_some(square)
    })
}

struct Beginnings<'a> {
    next: u32,
    count: u32,
    done: u32,
    tours: u64,
    progress: &'a mut Progress,
}

impl Tasks for Beginnings<'_> {
    fn next(&mut self) -> Option<Bytes> {
        let task = self.next;
        self.next = (task + 1).min(self.count);
        (task < self.count).then(|| Bytes::copy_from_slice(&task.to_le_bytes()))
    }

    fn take(&mut self, result: &[u8]) -> Result<()> {
        self.tours += u64::from_le_bytes(result.try_into()?);
        self.done += 1;
        self.progress.show(self.done.into(), self.count.into());
        Ok(())
    }
}

impl Program for Knights {
    type Found = u64;

    fn check(&self, _: usize) -> Result<()> {
        match self.rows * self.columns {
            0..=MOST_SQUARES => Ok(()),
            squares => Err(format!("a board of {squares} squares: choose at most 64").into()),
        }
    }

    fn parallel(&self, process: &mut Process, progress: &mut Progress) -> Result<Option<u64>> {
        let board = Board::new(self.rows, self.columns);
        // Each process finds the same beginnings, so their numbers say all.
        let paths = board.beginnings();
        let compute = |task: &[u8], tick: Tick<'_>| {
            let at = u32::from_le_bytes(task.try_into()?) as usize;
            let path = paths.get(at).ok_or("no such beginning")?;
            let tours = board.count(*path, &mut 0, tick)?;
            Ok(Bytes::copy_from_slice(&tours.to_le_bytes()))
        };
        if !process.is_root() {
            farm::work(process, &compute)?;
            return Ok(None);
        }
        let mut tasks = Beginnings {
            next: 0,
            count: u32::try_from(paths.len())?,
            done: 0,
            tours: 0,
            progress,
        };
        let mut ready = Ready::new(process, 2);
        farm::hand_out(process, &mut ready, &mut tasks, &compute)?;
        farm::finish(process)?;
        Ok(Some(tasks.tours))
    }

    fn sequential(&self, _: &mut Progress) -> Result<u64> {
        let board = Board::new(self.rows, self.columns);
        let begin = board.begin();
        begin.map_or(Ok(0), |path| board.count(path, &mut 0, &mut || Ok(())))
    }

    fn tell(&self, tours: &u64) -> Result<Told> {
        let (rows, columns) = (self.rows, self.columns);
        Ok(Told {
            text: format!("{tours} closed tours of {rows} x {columns} squares"),
            json: json!({ "rows": rows, "columns": columns, "tours": Value::from(*tours) }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OEIS A001230 and the numbers of rectangular boards.
    #[test]
    fn known_numbers_of_tours_are_found() {
        for (rows, columns, tours) in [
            (1, 1, 0),
            (2, 8, 0),
            (3, 4, 0),
            (5, 5, 0),
            (5, 6, 8),
            (3, 10, 16),
            (10, 3, 16),
            (3, 12, 176),
            (6, 6, 9_862),
        ] {
            let board = Board::new(rows, columns);
            let paths = board.beginnings();
            let count = |path: &Path| board.count(*path, &mut 0, &mut || Ok(())).unwrap();
            let found: u64 = paths.iter().map(count).sum();
            assert_eq!(found, tours, "{rows} x {columns}");
        }
    }
}
