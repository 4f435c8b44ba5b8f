//! Successive over-relaxation: the steady heat of a square plate whose upper side is warm.
//!
//! Each process has a strip of rows. Points are red and black like the squares of a chessboard: a
//! sweep changes first all red points, which depend on black ones alone, then the black ones. So
//! the result does not depend on the number of processes. Before each half the neighbours exchange
//! the rows at their edges.

use clap::Args;
use serde_json::json;

use crate::args::whole;
use crate::process::{Process, bytes_to_floats, floats_to_bytes, joined, part};
use crate::program::{Program, Told};
use crate::progress::Progress;
use crate::transport::{Result, Tag};

const ROW: Tag = Tag(30);

/// Successive over-relaxation on a square plate, divided among processes in strips
#[derive(Args)]
pub(crate) struct Sor {
    /// Points in a row, and rows
    #[arg(default_value = "256", value_parser = whole(1, 2_048), allow_negative_numbers = true)]
    points: u32,
    /// Sweeps at most
    #[arg(long, default_value = "2000", value_name = "N", value_parser = whole(1, 1_000_000),
          allow_negative_numbers = true)]
    sweeps: u32,
    /// Sweeps after which the processes agree on the greatest change
    #[arg(long, default_value = "10", value_name = "N", value_parser = whole(1, 1_000_000),
          allow_negative_numbers = true)]
    interval: u32,
    /// Stop when no point changes by more in a sweep
    #[arg(long, default_value = "1e-6", value_name = "CHANGE", value_parser = tolerance,
          allow_negative_numbers = true)]
    tolerance: f64,
}

fn tolerance(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "a number from 0 is wanted".to_owned())
}

#[derive(PartialEq)]
pub(crate) struct Plate {
    sweeps: u32,
    change: f64,
    points: Vec<f64>,
}

/// Some rows of the plate, between two more that others change or nobody.
struct Strip {
    /// The number of the first row in the plate.
    first: usize,
    /// Points in a row, with one at each end that keeps its value.
    width: usize,
    values: Vec<f64>,
    omega: f64,
}

impl Strip {
    fn new(points: usize, rows: std::ops::Range<usize>) -> Self {
        let width = points + 2;
        let mut values = vec![0.0; (rows.len() + 2) * width];
        if rows.start == 0 {
            values[..width].fill(1.0);
        }
        // The best factor for this plate (Young 1954).
        let omega = 2.0 / (1.0 + (std::f64::consts::PI / (points + 1) as f64).sin());
        Self {
            first: rows.start,
            width,
            values,
            omega,
        }
    }

    fn rows(&self) -> usize {
        self.values.len() / self.width - 2
    }

    /// Row 0 is the one above the strip.
    fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.width..(row + 1) * self.width]
    }

    /// Replaces a row by what came.
    fn set_row(&mut self, row: usize, bytes: &[u8]) -> Result<()> {
        let (width, values) = (self.width, bytes_to_floats(bytes));
        if values.len() != width {
            return Err(format!("a row of {} points came", values.len()).into());
        }
        let points = &mut self.values[row * width..(row + 1) * width];
        for (point, value) in points.iter_mut().zip(values) {
            *point = value;
        }
        Ok(())
    }

    /// Changes the points of one colour. Returns the greatest change.
    fn relax(&mut self, colour: usize) -> f64 {
        let (width, mut greatest) = (self.width, 0.0_f64);
        for row in 1..=self.rows() {
            let first = 1 + (self.first + row + colour) % 2;
            for column in (first..width - 1).step_by(2) {
                let at = row * width + column;
                let values = &mut self.values;
                let around =
                    values[at - width] + values[at + width] + values[at - 1] + values[at + 1];
                let change = self.omega * (around / 4.0 - values[at]);
                values[at] += change;
                greatest = greatest.max(change.abs());
            }
        }
        greatest
    }

    /// The points without those that keep their values.
    fn inside(&self) -> Vec<f64> {
        let rows = (1..=self.rows()).map(|row| &self.row(row)[1..self.width - 1]);
        rows.flatten().copied().collect()
    }
}

/// Sends the rows at the edges to the neighbours and receives theirs.
fn exchange(process: &mut Process, strip: &mut Strip) -> Result<()> {
    let (rank, rows) = (process.rank(), strip.rows());
    let above = rank.checked_sub(1).map(|other| (other, 1, 0));
    let below = (rank + 1 < process.size()).then_some((rank + 1, rows, rows + 1));
    let neighbours = above.into_iter().chain(below);
    for (neighbour, edge, _) in neighbours.clone() {
        process.send(neighbour, ROW, floats_to_bytes(strip.row(edge)))?;
    }
    for (neighbour, _, beyond) in neighbours {
        let row = process.recv_from(neighbour, ROW)?;
        strip.set_row(beyond, &row)?;
    }
    Ok(())
}

impl Sor {
    /// Sweeps until the points hardly change, alone or with the other processes. Returns the number
    /// of sweeps and the greatest change in the last.
    fn sweep(
        &self,
        strip: &mut Strip,
        process: &mut Option<&mut Process>,
        progress: &mut Progress,
    ) -> Result<(u32, f64)> {
        let mut last = (0, 0.0);
        for sweep in 1..=self.sweeps {
            let mut change = 0.0_f64;
            for colour in [0, 1] {
                if let Some(process) = process {
                    exchange(process, strip)?;
                }
                change = change.max(strip.relax(colour));
            }
            if sweep.is_multiple_of(self.interval) || sweep == self.sweeps {
                if let Some(process) = process {
                    change = process.allreduce(change, f64::max)?;
                }
                progress.show(sweep.into(), self.sweeps.into());
                last = (sweep, change);
                if change <= self.tolerance {
                    break;
                }
            }
        }
        Ok(last)
    }
}

impl Program for Sor {
    type Found = Plate;

    fn check(&self, size: usize) -> Result<()> {
        match self.points as usize >= size {
            true => Ok(()),
            false => Err(format!(
                "{} rows for {size} processes: choose more points, or fewer processes",
                self.points
            )
            .into()),
        }
    }

    fn parallel(&self, process: &mut Process, progress: &mut Progress) -> Result<Option<Plate>> {
        let points = self.points as usize;
        let rows = part(points, process.rank(), process.size());
        let mut strip = Strip::new(points, rows);
        let (sweeps, change) = self.sweep(&mut strip, &mut Some(process), progress)?;
        let parts = process.gather(floats_to_bytes(&strip.inside()))?;
        Ok(process.is_root().then(|| Plate {
            sweeps,
            change,
            points: joined(&parts),
        }))
    }

    fn sequential(&self, progress: &mut Progress) -> Result<Plate> {
        let points = self.points as usize;
        let mut strip = Strip::new(points, 0..points);
        let (sweeps, change) = self.sweep(&mut strip, &mut None, progress)?;
        Ok(Plate {
            sweeps,
            change,
            points: strip.inside(),
        })
    }

    fn tell(&self, found: &Plate) -> Result<Told> {
        let (points, sweeps, change) = (self.points, found.sweeps, found.change);
        let mean = found.points.iter().sum::<f64>() / found.points.len() as f64;
        Ok(Told {
            text: format!(
                "{points} x {points} points, {sweeps} sweeps, change {change:.2e}, mean {mean:.6}"
            ),
            json: json!({ "points": points, "sweeps": sweeps, "change": change, "mean": mean }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By symmetry, four plates with one warm side each sum to one that is warm everywhere.
    #[test]
    fn the_mean_is_a_quarter_of_the_heat() {
        let sor = Sor {
            points: 32,
            sweeps: 10_000,
            interval: 1,
            tolerance: 1e-12,
        };
        let plate = sor.sequential(&mut Progress::new(false)).unwrap();
        let mean = plate.points.iter().sum::<f64>() / plate.points.len() as f64;
        assert!((mean - 0.25).abs() < 1e-9, "{mean}");
        assert!(plate.sweeps < 200, "{}", plate.sweeps);
    }
}
