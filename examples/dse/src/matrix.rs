//! The product of two square matrices.
//!
//! All processes get the right matrix, and each a part of the rows of the left one.

use clap::Args;
use serde_json::json;

use crate::args::whole;
use crate::process::{Process, floats_to_bytes, joined, part};
use crate::program::{Program, Told};
use crate::progress::Progress;
use crate::transport::{Result, Tag};

const ROWS: Tag = Tag(20);

/// Multiplies two square matrices
#[derive(Args)]
pub(crate) struct Matrix {
    /// Rows of each matrix
    #[arg(default_value = "512", value_parser = whole(1, 2_048), allow_negative_numbers = true)]
    rows: u32,
}

impl Matrix {
    fn rows(&self) -> usize {
        self.rows as usize
    }

    /// The left and the right factor: numbers from -1 to 1 that look random.
    fn factors(&self) -> (Vec<f64>, Vec<f64>) {
        let count = u64::from(self.rows) * u64::from(self.rows);
        let factor = |first: u64| {
            let numbers = (first..first + count).map(|n| {
                let word = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let word = (word ^ word >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                (word >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
            });
            numbers.collect()
        };
        (factor(1), factor(1 + count))
    }

    /// The product of some rows with the right factor.
    fn multiply(&self, left: &[f64], right: &[f64], progress: &mut Progress) -> Vec<f64> {
        let mut product = vec![0.0; left.len()];
        let rows = product
            .chunks_mut(self.rows())
            .zip(left.chunks(self.rows()));
        let all = (left.len() / self.rows()) as u64;
        for (done, (sums, row)) in (1..).zip(rows) {
            for (factor, column) in row.iter().zip(right.chunks(self.rows())) {
                for (sum, value) in sums.iter_mut().zip(column) {
                    *sum += factor * value;
                }
            }
            progress.show(done, all);
        }
        product
    }
}

impl Program for Matrix {
    type Found = Vec<f64>;

    fn check(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn parallel(&self, process: &mut Process, progress: &mut Progress) -> Result<Option<Vec<f64>>> {
        let size = process.size();
        if !process.is_root() {
            let right = joined(&[process.broadcast(Default::default())?]);
            let left = joined(&[process.recv_from(0, ROWS)?]);
            let product = self.multiply(&left, &right, progress);
            process.gather(floats_to_bytes(&product))?;
            return Ok(None);
        }
        let (left, right) = self.factors();
        process.broadcast(floats_to_bytes(&right))?;
        let rows = |rank| {
            let rows = part(self.rows(), rank, size);
            let values = rows.start * self.rows()..rows.end * self.rows();
            left.get(values).unwrap_or_default()
        };
        for to in 1..size {
            process.send(to, ROWS, floats_to_bytes(rows(to)))?;
        }
        let product = self.multiply(rows(0), &right, progress);
        let parts = process.gather(floats_to_bytes(&product))?;
        Ok(Some(joined(&parts)))
    }

    fn sequential(&self, progress: &mut Progress) -> Result<Vec<f64>> {
        let (left, right) = self.factors();
        Ok(self.multiply(&left, &right, progress))
    }

    fn tell(&self, product: &Vec<f64>) -> Result<Told> {
        let sum: f64 = product.iter().sum();
        let rows = self.rows;
        Ok(Told {
            text: format!("{rows} x {rows} product, sum {sum:.6}"),
            json: json!({ "rows": rows, "sum": sum }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_products_are_right() {
        let two = Matrix { rows: 2 };
        let product = two.multiply(
            &[1.0, 2.0, 3.0, 4.0],
            &[5.0, 6.0, 7.0, 8.0],
            &mut Progress::new(false),
        );
        assert_eq!(product, [19.0, 22.0, 43.0, 50.0]);
    }
}
